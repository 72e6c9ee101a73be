"""Effects of custom operators, declared in TOML.

.. code-block:: toml

    [operators."my_ops::update_cache.out"]
    writes = [-1]        # positions of the arguments that it writes whole; left out: the last one
    updates = [1]        # those of which it writes a part and keeps the rest
    shapes = [2]         # those of which it looks at sizes and dtype only
    elementwise = false  # true: it may write exactly over an operand
    pure = true          # false: it has other effects, or equal operands may give different results

Positions count from 0, negative ones from the end, over the arguments of the call as `hazard dump` shows it. What is
not named is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hazard.analysis.effects import Declaration
from hazard.program import InputError, Kernel

if TYPE_CHECKING:
    from hazard.api import Report

_LISTS: Final = ("writes", "updates", "shapes")
_FLAGS: Final = ("elementwise", "pure")


def read_declarations(path: str) -> dict[str, Declaration]:
    """The declarations of a file. Raises InputError when it cannot be used, naming the place."""
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror or e}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise InputError(f"{path}: not TOML: {e}") from None
    for key in content:
        if key != "operators":
            raise InputError(f'{path}: unknown key `{key}`; declare an operator as [operators."namespace::name"]')
    return declarations_of(content.get("operators", {}), path)


def declarations_of(table: Any, where: str) -> dict[str, Declaration]:
    """The declarations of a table of operators; ``where`` names it in messages. Raises InputError."""
    if not isinstance(table, dict):
        raise InputError(f"{where}: `operators` must be a table of operators")
    return {name: _declaration(name, fields, f'{where}: operator "{name}"') for name, fields in table.items()}


def _declaration(name: str, fields: Any, where: str) -> Declaration:
    if "::" not in name:
        raise InputError(f"{where}: expected a name such as my_ops::update.out")
    if not isinstance(fields, Mapping):
        raise InputError(f"{where}: expected a table")
    chosen: dict[str, Any] = {}
    for key, value in fields.items():
        if key in _LISTS:
            if not isinstance(value, list) or not all(type(i) is int for i in value):
                raise InputError(f"{where}: `{key}` must be a list of positions")
            chosen[key] = tuple(value)
        elif key in _FLAGS:
            if not isinstance(value, bool):
                raise InputError(f"{where}: `{key}` must be true or false")
            chosen[key] = value
        else:
            import difflib

            near = difflib.get_close_matches(str(key), (*_LISTS, *_FLAGS), 1)
            hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join((*_LISTS, *_FLAGS))}"
            raise InputError(f"{where}: unknown key `{key}`; {hint}")
    return Declaration(**chosen)


def template(report: Report) -> str:
    """A file that declares the unknown operators of a report, to be completed by hand.

    Every entry is commented out: a guess must not become a declaration unread.
    """
    lines = [
        "# Effects of custom operators, for `hazard check --effects`. Check each one, then remove the comment signs.",
        "# Positions of arguments count from 0, negative ones from the end; arguments that are not named are read.",
    ]
    seen = set()
    for program in report.programs:
        for method in program.methods:
            for operator, (chain, index) in sorted(method.analysis.unknown_operators.items()):
                if operator not in seen:
                    seen.add(operator)
                    lines += ["", *_entry(operator, program.path, method.analysis.method, chain, index)]
    if not seen:
        lines += ["#", "# No unknown operator was met."]
    return "\n".join(lines) + "\n"


def _entry(operator: str, path: str, method: Any, chain: int, index: int) -> list[str]:
    from hazard.report.terminal import clean
    from hazard.text import print_value

    lines = [f"# first met at {clean(path)}, {clean(method.name)}[{index}]"]
    instruction = method.chains[chain][index] if 0 <= index < len(method.chains[chain]) else None
    if isinstance(instruction, Kernel):
        for position, slot in enumerate(instruction.args):
            lines.append(f"#   {position}: %{slot} = {clean(print_value(method.values[slot]))}")
    import json

    return [
        *lines,
        f"# [operators.{json.dumps(operator)}]",  # a JSON string is a TOML string
        "# writes = [-1]",
        "# updates = []",
        "# shapes = []",
        "# elementwise = false",
        "# pure = true",
    ]
