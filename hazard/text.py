"""The textual form of a program, ``.hir``: printed by `print_program`, read back by `parse_program`.

It carries all that the analysis looks at and nothing else: no weights, no paths, no names of people. Printing a parsed
text gives the same text again, so a text is as good a test input as a ``.pte``. The grammar, one item a line, ``#``
begins a comment:

.. code-block:: text

    method forward
      meaning graph                          # left out when it is the bytecode's own
      symbol s0 2..10                        # range of a size symbol; no upper bound: 2..
      doubt "why no verdict can be proved"
      obstacle unplanned "what" "name"       # what no program can hold, and the values concerned
      changes my::append.out 0               # by its schema the operator changes its first argument
      life %0 0..3                           # instructions between which the planner took %0 to be needed
      arena 1 : 64                           # id : bytes, then a device such as cuda:0 for other than host memory
      delegate 0 XnnpackBackend
      %0 = tensor f32[2,3] @ 1+16            # planned: arena 1, offset 16
      %1 = tensor f32[2] const 3             # constant data 3; const "key" for an entry of a .ptd file
      %2 = tensor f32[5] dynamic             # unplanned, sizes are upper bounds; `unbound` has no bound
      %3 = tensor f32[2] @ 2+0 init 1 fqn "state" layout 0 extent "8*s0" name "b_state" slot 7 base %1+0
      %4 = int 3                             # also: bool true, double 1.5, string "x", null; int 0 size "s0 + 1"
      %5 = ints 4 4                          # slots of integers; doubles 1.0, bools true
      %6 = tensors %0 %1                     # optional-tensors may hold `none`
      inputs %0
      outputs %3
      chain
         0  aten::add.out(%0, %1, %4, %3, %3)   # a name of another form is quoted
         1  delegate 0 (%0, %3)              # `delegate 0 (%0 -> %3)` where the outputs are known
         2  move %9 <- %10
         3  jump-false %7 -> 9
         4  free %3
         5  alias %9 <- %10                  # what %9 means; does nothing at run time

A slot that has no line is ``null``. The instruction's index may be left out; when written it must be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from hazard.program import (
    ITEM_BYTES,
    NULL,
    OBSTACLES,
    Alias,
    Arena,
    Constant,
    DelegateCall,
    Dynamism,
    Extent,
    Free,
    InputError,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    NumberList,
    Obstacle,
    Origin,
    Placement,
    Planned,
    Program,
    Scalar,
    Tensor,
    TensorList,
    Unplanned,
    Value,
)

# --- printing ---------------------------------------------------------------------------------------------------------


def print_program(program: Program) -> str:
    """The canonical text of a program, ending with a newline."""
    return "\n".join("\n".join(_method_lines(m)) for m in program.methods) + "\n"


def _method_lines(method: Method) -> Iterator[str]:
    yield f"method {_word(method.name)}"
    if method.meaning != "bytecode":
        yield f"  meaning {method.meaning}"
    for symbol, low, high in method.symbols:
        yield f"  symbol {symbol} {low}..{'' if high is None else high}"
    for doubt in method.doubts:
        yield f"  doubt {_quote(doubt)}"
    for obstacle in method.obstacles:
        yield " ".join([f"  obstacle {obstacle.kind}", *map(_quote, (obstacle.what, *obstacle.names))])
    for operator, positions in method.changes:
        yield " ".join([f"  changes {_operator(operator)}", *map(str, positions)])
    for slot, first, last in method.lives:
        yield f"  life %{slot} {first}..{last}"
    for arena, details in sorted(method.arenas.items()):
        yield f"  arena {arena} : {details.size}{f' {details.device}' if details.device else ''}"
    for i, delegate in enumerate(method.delegates):
        yield f"  delegate {i} {_word(delegate)}"
    for i, value in enumerate(method.values):
        yield f"  %{i} = {print_value(value)}"
    yield "  inputs" + "".join(f" %{i}" for i in method.inputs)
    yield "  outputs" + "".join(f" %{i}" for i in method.outputs)
    for chain in method.chains:
        yield "  chain"
        for i, instruction in enumerate(chain):
            yield f"  {i:4d}  {print_instruction(instruction)}"


def print_value(value: Value) -> str:
    """One entry of the values table, without its number."""
    match value:
        case Tensor():
            return _print_tensor(value)
        case Scalar("null", _):
            return "null"
        case Scalar(kind, payload, size):
            return f"{kind} {_literal(payload)}" + (f" size {_quote(size)}" if size is not None else "")
        case NumberList(kind, items):
            return " ".join([kind, *map(_literal, items)])
        case TensorList(items, optional):
            word = "optional-tensors" if optional else "tensors"
            return " ".join([word, *(f"%{i}" if i >= 0 else "none" for i in items)])
    raise TypeError(value)


def _print_tensor(t: Tensor) -> str:
    parts = [f"tensor {t.dtype}[{','.join(map(str, t.sizes))}]"]
    match t.placement:
        case Planned(arena, offset):
            parts.append(f"@ {arena}+{offset}")
        case Constant(key):
            parts.append(f"const {key if isinstance(key, int) else _quote(key)}")
    if t.dynamism is Dynamism.BOUND:
        parts.append("dynamic")
    elif t.dynamism is Dynamism.UNBOUND:
        parts.append("unbound")
    if t.initial is not None:
        parts.append(f"init {t.initial}")
    if t.fqn is not None:
        parts.append(f"fqn {_quote(t.fqn)}")
    if t.layout is not None:
        parts.append("layout " + ",".join(map(str, t.layout)))
    if t.extent is not None:
        parts.append(f"extent {_quote(t.extent.expression)}")
    if t.name is not None:
        parts.append(f"name {_quote(t.name)}")
    if t.slot is not None:
        parts.append(f"slot {t.slot}")
    if t.base is not None:
        parts.append(f"base %{t.base}+{t.base_offset}")
    if t.lost_value:
        parts.append("lost-value")
    return " ".join(parts)


def print_instruction(
    instruction: Instruction, slot: Callable[[int], int] = int, target: Callable[[int], int] = int
) -> str:
    """One instruction, without its index. ``slot`` and ``target`` tell what to print for slots and jump targets."""

    def listed(args: Iterable[int]) -> str:
        return ", ".join(f"%{slot(a)}" for a in args)

    match instruction:
        case Kernel(operator, args):
            return f"{_operator(operator)}({listed(args)})"
        case DelegateCall(delegate, args, outputs):
            if outputs is None:
                return f"delegate {delegate} ({listed(args)})"
            cut = len(args) - outputs
            return f"delegate {delegate} ({listed(args[:cut])} -> {listed(args[cut:])})"
        case Move(source, to):
            return f"move %{slot(to)} <- %{slot(source)}"
        case Alias(source, to):
            return f"alias %{slot(to)} <- %{slot(source)}"
        case JumpFalse(condition, to):
            return f"jump-false %{slot(condition)} -> {target(to)}"
        case Free(value):
            return f"free %{slot(value)}"
    raise TypeError(instruction)


def _quote(text: str) -> str:
    escaped = "".join(_escape(c) for c in text)
    return f'"{escaped}"'


def _escape(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    if c == "#" or not c.isprintable():
        return f"\\u{{{ord(c):x}}}"
    return c


def _word(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z_][\w.:-]*", text) else _quote(text)


def _operator(text: str) -> str:
    return text if re.fullmatch(_OPERATOR, text) else _quote(text)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote(value)
    return repr(value)


# --- parsing ----------------------------------------------------------------------------------------------------------

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf"{_STRING}|[^\s\"]+")
_TENSOR = re.compile(r"(\w+)\[([\d,\s]*)\]$")
_OPERATOR = r"[\w.]+::[\w.]+"
_CALL = re.compile(rf"({_OPERATOR}|{_STRING})\s*\(([^)]*)\)$")
_DELEGATE = re.compile(r"delegate\s+(\d+)\s*\(([^)]*)\)$")
_BIND = re.compile(r"(move|alias)\s+%(\d+)\s*<-\s*%(\d+)$")
_JUMP = re.compile(r"jump-false\s+%(\d+)\s*->\s*(\d+)$")
_FREE = re.compile(r"free\s+%(\d+)$")
_SLOT_LIMIT = 1 << 22


class _LineError(Exception):
    pass


def parse_program(text: str, path: str = "<text>") -> Program:
    """Reads a ``.hir`` text.

    Raises InputError with path, line number and what is wrong there.
    """
    methods: list[_Builder] = []
    reached = 0  # the line that an error is about
    try:
        for number, raw in enumerate(text.splitlines(), 1):
            reached = number
            line = _strip_comment(raw)
            if not line:
                continue
            if line.startswith("method "):
                methods.append(_Builder(_unword(line[len("method ") :].strip())))
            elif not methods:
                raise _LineError("expected `method NAME` first")
            else:
                methods[-1].read(line)
        if not methods:
            raise _LineError("the text holds no method")
        if len({m.name for m in methods}) != len(methods):
            raise _LineError("two methods have the same name")
        return Program(tuple(m.finish() for m in methods))
    except (_LineError, ValueError) as e:
        raise InputError(f"{path}:{reached}: {e}") from None


def _strip_comment(line: str) -> str:
    if "#" in line:
        # A quoted `#` is always printed as an escape, so the first one begins the comment unless a quote is open.
        out, quoted, previous = [], False, ""
        for c in line:
            if c == '"' and previous != "\\":
                quoted = not quoted
            if c == "#" and not quoted:
                break
            out.append(c)
            previous = "" if previous == "\\" else c
        line = "".join(out)
    return line.strip()


class _Builder:
    """Collects the lines of one method."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.meaning = "bytecode"
        self.symbols: list[tuple[str, int, int | None]] = []
        self.values: dict[int, Value] = {}
        self.inputs: tuple[int, ...] = ()
        self.outputs: tuple[int, ...] = ()
        self.chains: list[list[Instruction]] = []
        self.arenas: dict[int, Arena] = {}
        self.delegates: list[str] = []
        self.doubts: list[str] = []
        self.obstacles: list[Obstacle] = []
        self.changes: list[tuple[str, tuple[int, ...]]] = []
        self.lives: list[tuple[int, int, int]] = []

    def read(self, line: str) -> None:
        if self.chains and not line.startswith("chain"):
            self._instruction(line)
            return
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word.startswith("%"):
            number, equals, definition = line.partition("=")
            if not equals:
                raise _LineError(f"expected `%N = ...`, found `{line}`")
            slot = _slot(number.strip())
            if slot in self.values:
                raise _LineError(f"%{slot} is given twice")
            self.values[slot] = _parse_value(definition.strip())
        elif word == "arena":
            arena, colon, size = rest.partition(":")
            words = size.split()
            if not colon or not words or len(words) > 2:
                raise _LineError("expected `arena ID : BYTES`")
            self.arenas[int(arena)] = Arena(int(words[0]), words[1] if len(words) == 2 else None)
        elif word == "meaning":
            if rest not in ("bytecode", "graph"):
                raise _LineError(f"unknown meaning `{rest}`; known are bytecode, graph")
            self.meaning = rest
        elif word == "symbol":
            match = re.fullmatch(r"(\w+)\s+(-?\d+)\.\.(-?\d*)", rest)
            if not match:
                raise _LineError("expected `symbol NAME LOW..HIGH`")
            self.symbols.append((match[1], int(match[2]), int(match[3]) if match[3] else None))
        elif word == "doubt":
            self.doubts.append(_unquote(rest))
        elif word == "obstacle":
            kind, _, texts = rest.partition(" ")
            if kind not in OBSTACLES:
                raise _LineError(f"unknown kind of obstacle `{kind}`; known are {', '.join(OBSTACLES)}")
            what, *names = map(_unquote, _TOKEN.findall(texts))
            self.obstacles.append(Obstacle(kind, what, Origin(), tuple(names)))
        elif word == "changes":
            operator, *positions = _TOKEN.findall(rest)
            self.changes.append((_unword(operator), tuple(map(int, positions))))
        elif word == "life":
            match = re.fullmatch(r"(%\d+)\s+(\d+)\.\.(\d+)", rest)
            if not match:
                raise _LineError("expected `life %N FIRST..LAST`")
            self.lives.append((_slot(match[1]), int(match[2]), int(match[3])))
        elif word == "delegate":
            number, _, backend = rest.partition(" ")
            if int(number) != len(self.delegates):
                raise _LineError(f"delegate {number} is out of order")
            self.delegates.append(_unword(backend.strip()))
        elif word == "inputs":
            self.inputs = tuple(map(_slot, rest.split()))
        elif word == "outputs":
            self.outputs = tuple(map(_slot, rest.split()))
        elif word == "chain":
            self.chains.append([])
        else:
            raise _LineError(f"cannot read `{line}`")

    def _instruction(self, line: str) -> None:
        chain = self.chains[-1]
        match = re.match(r"(\d+)\s+", line)
        if match:
            if int(match[1]) != len(chain):
                raise _LineError(f"instruction {match[1]} stands where {len(chain)} is expected")
            line = line[match.end() :]
        chain.append(_parse_instruction(line))

    def finish(self) -> Method:
        mentioned = [*self.values, *self.inputs, *self.outputs, *(slot for slot, _, _ in self.lives)]
        for chain in self.chains:
            for instruction in chain:
                mentioned.extend(_slots_of(instruction))
        for value in self.values.values():
            if isinstance(value, Tensor) and value.base is not None:
                mentioned.append(value.base)
            if isinstance(value, TensorList) or (isinstance(value, NumberList) and value.kind == "ints"):
                mentioned.extend(int(i) for i in value.items)
        count = max(mentioned, default=-1) + 1
        values = tuple(self.values.get(i, NULL) for i in range(count))
        method = Method(
            self.name, values, self.inputs, self.outputs, tuple(map(tuple, self.chains)), self.arenas,
            tuple(self.delegates), self.meaning, tuple(self.symbols), tuple(self.doubts), tuple(self.obstacles),
            tuple(self.changes), tuple(self.lives),
        )  # fmt: skip
        _check(method)
        return method


def _slots_of(instruction: Instruction) -> tuple[int, ...]:
    match instruction:
        case Kernel(_, args) | DelegateCall(_, args):
            return args
        case Move(source, target) | Alias(source, target):
            return (source, target)
        case JumpFalse(slot, _) | Free(slot):
            return (slot,)
    raise TypeError(instruction)


def _check(method: Method) -> None:
    for chain in method.chains:
        for i, instruction in enumerate(chain):
            match instruction:
                case JumpFalse(_, target) if target > len(chain):
                    raise _LineError(f"instruction {i} of method {method.name} jumps to {target}, past the end")
                case DelegateCall(delegate) if delegate >= len(method.delegates):
                    raise _LineError(f"instruction {i} of method {method.name} calls delegate {delegate}, not declared")
    for value in method.values:
        if isinstance(value, TensorList) and any(i >= 0 and not method.is_tensor(i) for i in value.items):
            raise _LineError(f"a tensor list of method {method.name} holds a slot that is no tensor")


def _parse_instruction(line: str) -> Instruction:
    if match := _DELEGATE.match(line):
        inputs, arrow, outputs = match[2].partition("->")
        args = (*_arguments(inputs), *_arguments(outputs))
        return DelegateCall(int(match[1]), args, len(_arguments(outputs)) if arrow else None)
    if match := _CALL.match(line):
        return Kernel(_unword(match[1]), _arguments(match[2]))
    if match := _BIND.match(line):
        return (Move if match[1] == "move" else Alias)(_slot("%" + match[3]), _slot("%" + match[2]))
    if match := _JUMP.match(line):
        return JumpFalse(_slot("%" + match[1]), int(match[2]))
    if match := _FREE.match(line):
        return Free(_slot("%" + match[1]))
    raise _LineError(f"cannot read the instruction `{line}`")


def _arguments(text: str) -> tuple[int, ...]:
    text = text.strip()
    return tuple(_slot(part.strip()) for part in text.split(",")) if text else ()


def _slot(text: str) -> int:
    if not re.fullmatch(r"%\d+", text):
        raise _LineError(f"expected a slot such as %3, found `{text}`")
    if (slot := int(text[1:])) > _SLOT_LIMIT:
        raise _LineError(f"slot {text} is beyond the limit of {_SLOT_LIMIT}")
    return slot


def _parse_value(text: str) -> Value:
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    size = None
    if kind in ("int", "double", "bool") and " size " in rest:
        rest, _, expression = rest.partition(" size ")
        rest, size = rest.strip(), _unquote(expression.strip())
    match kind:
        case "tensor":
            return _parse_tensor(rest)
        case "null":
            return NULL
        case "int":
            return Scalar("int", int(rest), size)
        case "double":
            return Scalar("double", float(rest), size)
        case "bool":
            return Scalar("bool", _boolean(rest), size)
        case "string":
            return Scalar("string", _unquote(rest))
        case "ints":
            return NumberList(kind, tuple(map(int, rest.split())))
        case "doubles":
            return NumberList(kind, tuple(map(float, rest.split())))
        case "bools":
            return NumberList(kind, tuple(map(_boolean, rest.split())))
        case "tensors" | "optional-tensors":
            optional = kind == "optional-tensors"
            return TensorList(tuple(-1 if w == "none" and optional else _slot(w) for w in rest.split()), optional)
    raise _LineError(f"unknown kind of value `{kind}`")


def _parse_tensor(text: str) -> Tensor:
    tokens = iter(_TOKEN.findall(text))
    match = _TENSOR.match(next(tokens, ""))
    if not match:
        raise _LineError("expected a type such as f32[2,3] without blanks")
    if match[1] not in ITEM_BYTES:
        raise _LineError(f"unknown dtype `{match[1]}`")
    sizes = tuple(int(s) for s in match[2].split(",")) if match[2] else ()
    placement: Placement = Unplanned()
    dynamism = Dynamism.STATIC
    initial, fqn, name, slot, extent, layout = None, None, None, None, None, None
    base, base_offset, lost_value = None, 0, False
    for token in tokens:
        match token:
            case "@":
                place = re.fullmatch(r"(\d+)\+(\d+)", next(tokens, ""))
                if not place:
                    raise _LineError("expected `@ ARENA+OFFSET`")
                placement = Planned(int(place[1]), int(place[2]))
            case "const":
                key = next(tokens, "")
                placement = Constant(_unquote(key) if key.startswith('"') else int(key))
            case "dynamic":
                dynamism = Dynamism.BOUND
            case "unbound":
                dynamism = Dynamism.UNBOUND
            case "init":
                initial = int(next(tokens, ""))
            case "fqn":
                fqn = _unquote(next(tokens, ""))
            case "layout":
                layout = tuple(int(d) for d in next(tokens, "").split(","))
            case "extent":
                extent = Extent(_unquote(next(tokens, "")))
            case "name":
                name = _unquote(next(tokens, ""))
            case "slot":
                slot = int(next(tokens, ""))
            case "lost-value":
                lost_value = True
            case "base":
                number, _, bytes_in = next(tokens, "").partition("+")
                base, base_offset = _slot(number), int(bytes_in)
            case _:
                raise _LineError(f"unknown word `{token}` in a tensor")
    return Tensor(
        match[1], sizes, placement, dynamism, initial, fqn, layout, extent, name, slot, base, base_offset, lost_value
    )


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise _LineError(f"expected true or false, found `{text}`")
    return text == "true"


def _unword(text: str) -> str:
    return _unquote(text) if text.startswith('"') else text


def _unquote(text: str) -> str:
    if not re.fullmatch(_STRING, text):
        raise _LineError(f"expected a quoted text, found `{text}`")
    return re.sub(r"\\(?:u\{([0-9a-f]+)\}|(.))", lambda m: chr(int(m[1], 16)) if m[1] else m[2], text[1:-1])
