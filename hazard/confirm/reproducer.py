"""A script that shows a wrong result with nothing but torch and executorch: for a bug report."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Sequence
from typing import Any, Final

import hazard
from hazard.confirm.inputs import Call
from hazard.confirm.judge import Evidence, Missed
from hazard.confirm.reference import TOLERANCE, TOLERANCES
from hazard.files import replacing, write_text

#: Programs up to this size in bytes, compressed, are part of the script; larger ones lie beside it.
EMBEDDED: Final = 64 * 1024

_WIDTH: Final = 110

_HEAD: Final = '''\
{title}
import base64, os, zlib  # noqa: E401

import torch
from executorch.runtime import Runtime


{loading}


def run(program, name, inputs):
    try:
        return program.load_method(name).execute([i.clone() if hasattr(i, "clone") else i for i in inputs])
    except RuntimeError as error:
        return [str(error)]


'''

_BESIDE_TWIN: Final = '''\
def same(a, b):
    return torch.equal(torch.nan_to_num(torch.as_tensor(a)), torch.nan_to_num(torch.as_tensor(b)))


program = load(PROGRAM)  # as it was exported
twin = load(TWIN)  # the same instructions on the same values, but every tensor on bytes of its own
calls = [
{calls}
]
for name in dict.fromkeys(name for name, _ in calls):
    twin.load_method(name)
for number, (name, inputs) in enumerate(calls, 1):
    for k, (got, expected) in enumerate(zip(run(program, name, inputs), run(twin, name, inputs))):
        wrong = isinstance(got, str) or isinstance(expected, str) or not same(got, expected)
        if wrong or number == len(calls):
            word = "WRONG" if wrong else "same "
            print(f"{{word}} call {{number}} {{name}} output {{k}}: got {{got}}, expected {{expected}}")
'''

_BESIDE_EAGER: Final = '''\
def close(a, b):
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    if a.shape != b.shape or a.dtype != b.dtype or not b.is_floating_point() or not b.numel():
        return torch.equal(a, b)
    size = max(1.0, float(torch.where(b.isfinite(), b, 0.0).abs().max()))
    return torch.allclose(a, b, rtol={tolerance}, atol={tolerance} * size, equal_nan=True)


program = load(PROGRAM)  # as it was exported
calls = [  # name, inputs, what eager PyTorch returns
{calls}
]
for number, (name, inputs, eager) in enumerate(calls, 1):
    results = run(program, name, inputs)
    # A program also returns the inputs that it changes, before all else.
    more = 0 if isinstance(results[0], str) else len(results) - len(eager)
    for k, (got, expected) in enumerate(zip(results[more:], eager), more):
        wrong = isinstance(got, str) or not close(got, expected)
        if wrong or number == len(calls):
            word = "WRONG" if wrong else "same "
            print(f"{{word}} call {{number}} {{name}} output {{k}}: got {{got}}, expected {{expected}}")
'''

_EMBEDDED_LOADING: Final = '''\
def load(text):
    return Runtime.get().load_program(zlib.decompress(base64.b85decode(text)))'''

_FILE_LOADING: Final = '''\
def load(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), "rb") as file:
        return Runtime.get().load_program(file.read())'''


def write_reproducer(path: str, evidence: Evidence | Missed, data: bytes, twin: bytes, source: str) -> list[str]:
    """Writes the script, and the programs beside it where they are large. Returns the paths of all files written.

    The program is compared with what eager returned, where that is known, else with its twin. Raises InputError when a
    file cannot be written.
    """
    stem = os.path.splitext(path)[0]
    eager = evidence.eager if evidence.eager and not any(r.error for r in evidence.eager) else ()
    programs = {"PROGRAM": data} if eager else {"PROGRAM": data, "TWIN": twin}
    packed = {name: base64.b85encode(zlib.compress(p, 9)).decode("ascii") for name, p in programs.items()}
    written = [path]
    lines = []
    if max(map(len, packed.values())) <= EMBEDDED:
        for name, text in packed.items():
            pieces = [f"    {text[i : i + _WIDTH]!r}" for i in range(0, len(text), _WIDTH)]
            lines += [f"{name} = (", *pieces, ")"]
        lines += ["", "", _EMBEDDED_LOADING]
    else:
        for name, content in programs.items():
            beside = f"{stem}-{name.lower()}.pte"
            with replacing(beside) as out:
                out.write(content)
            written.append(beside)
            lines.append(f"{name} = {os.path.basename(beside)!r}")
        lines += ["", "", _FILE_LOADING]
    calls = [f"{name!r}, {_literals(inputs)}" for name, inputs in evidence.calls]
    if eager:
        calls = [f"{call}, {_literals(r.values)}" for call, r in zip(calls, eager, strict=True)]
    text = (_HEAD + (_BESIDE_EAGER if eager else _BESIDE_TWIN)).format(
        title=_title(evidence, source, "eager" if eager else "its twin"),
        loading="\n".join(lines),
        calls="\n".join(f"    ({call})," for call in calls),
        tolerance=TOLERANCES.get(_dtype(evidence.difference and evidence.difference.expected), TOLERANCE),
    )
    write_text(path, text)
    return written


def _title(evidence: Evidence | Missed, source: str, other: str) -> str:
    if isinstance(evidence, Evidence):
        what = f"{evidence.finding.code} {evidence.finding.name}: {evidence.finding.message}"
    elif evidence.of_bytes:
        what = "a result that depends on which tensors share bytes, and that no finding of hazard explains"
    else:
        what = "a result that no finding of hazard explains"
    by = f"Found by hazard {hazard.__version__}. Prints WRONG where the program differs from {other}."
    text = f"{source}: {what}.\n\n{by}"
    return '"""' + text.replace("\\", "/").replace('"""', "'''") + '\n"""'


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", "")).removeprefix("torch.")


def _literals(values: Sequence[Any]) -> str:
    return f"[{', '.join(_literal(v) for v in values)}]"


def _literal(value: Any) -> str:
    """A call's input as an expression."""
    import torch

    if not isinstance(value, torch.Tensor):
        return repr(value)
    dtype = str(value.dtype)
    flat = value.flatten()
    if value.numel() > 1 and bool((flat == flat[0]).all()):
        return f"torch.full({tuple(value.shape)}, {_number(flat[0].item())}, dtype={dtype})"
    numbers = ", ".join(_number(v) for v in flat.tolist())
    return f"torch.tensor([{numbers}], dtype={dtype}).reshape({tuple(value.shape)})"


def _number(value: Any) -> str:
    text = repr(value)
    return f'float("{text}")' if text.strip("-") in ("nan", "inf") else text


def call_text(call: Call) -> str:
    """A call in one line, for people: large tensors by their first elements."""
    name, inputs = call
    return f"{name}({', '.join(map(value_text, inputs))})"


def value_text(value: Any) -> str:
    """A tensor or number in a few characters."""
    import torch

    if not isinstance(value, torch.Tensor):
        return repr(value) if not isinstance(value, str) else value
    elements = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in value.flatten()[:6].tolist()]
    rest = ", ..." if value.numel() > 6 else ""
    shape = "" if value.dim() == 1 else f" shape {tuple(value.shape)}"
    return f"[{', '.join(elements)}{rest}]{shape}"
