"""An operator or delegate whose effects are not known decides whether a read is right.

## What it does

Reports an instruction of which it is not known which operands it writes, where a read would be wrong if it wrote one of
them.

## Why is this bad?

Nothing can be proved of such a read, and nothing is claimed: the method's verdict is `unknown`.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[2,2] @ 1+0
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %1 %3
  chain
    0  mine::scale.out(%0, %1, %1)
    1  mine::twist.out(%2, %3, %3)         # warning: [unknown-effect]
    2  aten::cos.out(%0, %1, %1)
```

## Use instead

The operator's effects are declared with `--effects`, or it is one that is known:

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %1 %3
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::exp.out(%0, %3, %3)
    2  aten::cos.out(%0, %1, %1)
```

## What to do

Declare the operator in a TOML file and pass it with `--effects FILE.toml`; `--effects-template FILE.toml` writes one
with an entry for each operator that was met and is not known.
"""

from collections.abc import Iterator

from hazard.rule import Context, Finding, Rule, site_word, value_word


def scan(context: Context) -> Iterator[Finding]:
    from hazard.analysis.places import place_at

    for analysis in context.methods:
        for position, (reader, slot) in sorted(analysis.doubts.items()):
            by = place_at(analysis.flow, position, None, None, None)
            use = place_at(analysis.flow, reader, slot, slot, None)
            yield RULE.finding(
                method=analysis.method.name,
                message=f"what {site_word(by)} writes is not known, and the read of {value_word(use)} depends on it",
                help="declare the operator's effects with `--effects FILE.toml`",
                certain=False,
                clobber=by,
                use=use,
            )


RULE = Rule(
    code="HZ802",
    name="unknown-effect",
    severity="warning",
    since="0.1.0",
    summary="an operator whose effects are not known decides whether a read is right",
    scan=scan,
    doubts=True,
)
