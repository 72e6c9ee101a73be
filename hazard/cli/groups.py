"""Options under headings: `--help` of a command with many options is read by what one wants to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Option(click.Option):
    """An option with a heading for the help text."""

    def __init__(self, *names: Any, heading: str = "Options", **rest: Any) -> None:
        super().__init__(*names, **rest)
        self.heading = heading


class Command(click.Command):
    """A command whose help lists options under their headings and ends with examples."""

    def __init__(self, *names: Any, examples: str = "", **rest: Any) -> None:
        super().__init__(*names, **rest)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        by_heading: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                by_heading.setdefault(getattr(parameter, "heading", "Other"), []).append(record)
        for heading, records in sorted(by_heading.items(), key=lambda item: item[0] == "Other"):
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")
        super().format_epilog(ctx, formatter)


def option(*names: str, heading: str, **rest: Any) -> Callable[[Any], Any]:
    """`click.option` under a heading."""
    return click.option(*names, cls=Option, heading=heading, **rest)
