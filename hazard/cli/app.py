"""The commands."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

import hazard
from hazard.cli import CLEAN, FOUND, UNUSABLE, emit, unusable
from hazard.cli.groups import Command, option
from hazard.hosts import LOADS, NAMES
from hazard.program import InputError
from hazard.report import FORMATS, HUMAN, Options, render

if TYPE_CHECKING:
    from hazard.api import Report

EXIT_CODES = """\b
Exit codes:
  0    nothing at or above the threshold
  1    findings
  2    unusable input or wrong usage
  101  a fault of hazard itself
  130  interrupted"""

INPUTS = "Inputs"
RULES = "Rules"
GATE = "What fails (exit code 1)"
HOSTS = "Hosts (who runs the methods)"
OUTPUT = "Output"


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EXIT_CODES,
)
@click.version_option(hazard.__version__, message="hazard %(version)s")
def app() -> None:
    """Proves memory-planned ExecuTorch programs free of aliasing hazards, or shows where, when and on which inputs."""


def _words(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str] | None:
    """Options that take several words, by commas or by repetition; None when the option was not given."""
    words = [w.strip() for value in values for w in value.split(",") if w.strip()]
    return words or None


def _form_and_file(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    chosen = []
    for value in values:
        form, equals, path = value.partition("=")
        if not equals or not path:
            raise click.BadParameter(
                f"`{value}`: expected FORMAT=FILE, such as json=report.json (for the terminal: --output-format)"
            )
        if form not in FORMATS:
            raise click.BadParameter(f"`{form}` is no format; known are {', '.join(FORMATS)}")
        chosen.append((form, path))
    return chosen


def _color(word: str) -> bool | None:
    return {"auto": None, "always": True, "never": False}[word]


color_option = option(
    "--color",
    heading=OUTPUT,
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours; `auto` obeys NO_COLOR and FORCE_COLOR and is off in a pipe.",
)


@app.command(
    cls=Command,
    short_help="Checks programs and shows their hazards.",
    epilog=EXIT_CODES,
    examples="""
    hazard check model.pte
    hazard check exported/ --output-format concise
    hazard check model.pte -o sarif=hazard.sarif -o json=hazard.json
    hazard check model.pte --fail-on warning --fail-on-unknown
    cat model.pte | hazard check -
    """,
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@option("--effects", heading=INPUTS, multiple=True, metavar="FILE.toml", help="Declares effects of custom operators.")
@option("--effects-template", heading=INPUTS, metavar="FILE", help="Writes such a file for the unknown operators met.")
@option("--host", "hosts", heading=HOSTS, multiple=True, type=click.Choice(NAMES),
        help="Hosts that count.  [default: all released ones]")  # fmt: skip
@option("--load", heading=HOSTS, type=click.Choice(LOADS), default=None,
        help="Whether methods are loaded before the first call or each at its own.  [default: either]")  # fmt: skip
@option("--feedback", heading=HOSTS, is_flag=True, help="The caller may hand an output back as an input.")
@option("--borrowed/--cloned", heading=HOSTS, default=None,
        help="Whether outputs are handed out without a copy.  [default: as each host does]")  # fmt: skip
@option("--concurrent", heading=HOSTS, is_flag=True, help="Different methods may run at the same time.")
@option("--restaged/--kept-inputs", heading=HOSTS, default=True,
        help="Whether the caller sets every input before every call.  [default: restaged]")  # fmt: skip
@option("--select", heading=RULES, multiple=True, callback=_words, metavar="RULE,...",
        help="Only these rules: codes, names, or prefixes such as HZ1; ALL for every rule.")  # fmt: skip
@option("--ignore", heading=RULES, multiple=True, callback=_words, metavar="RULE,...", help="All but these rules.")
@option("--fail-on", heading=GATE, type=click.Choice(["error", "warning", "note", "never"]), default=None,
        help="The least severity that fails.  [default: error]")  # fmt: skip
@option("--fail-on-unknown", heading=GATE, is_flag=True, default=None, help="Fail when a verdict is unknown.")
@option("--fail-on-assumption", heading=GATE, is_flag=True, default=None,
        help="Fail when a verdict rests on an assumption.")  # fmt: skip
@option("--output-format", heading=OUTPUT, type=click.Choice(list(FORMATS)), default="full", show_default=True,
        help="What is written to the standard output.")  # fmt: skip
@option("-o", "--output", "outputs", heading=OUTPUT, multiple=True, callback=_form_and_file, metavar="FORMAT=FILE",
        help="Writes a file as well; may be repeated.")  # fmt: skip
@color_option
@option("-q", "--quiet", heading=OUTPUT, is_flag=True, help="Findings only: no verdicts, no counts, no progress.")
@option("-j", "--jobs", heading=OUTPUT, type=click.IntRange(min=1), default=1, show_default=True,
        help="Programs that are checked at the same time.")  # fmt: skip
@option("--debug", heading=OUTPUT, is_flag=True, help="Show a traceback for a fault of hazard (also HAZARD_DEBUG=1).")
@click.pass_context
def check(ctx: click.Context, /, targets: tuple[str, ...], **given: Any) -> None:
    """Checks programs: .pte, .bpte and .hir files, folders of them, or - for the standard input."""
    from hazard.cli.targets import check_targets

    if given["debug"]:
        os.environ["HAZARD_DEBUG"] = "1"
    form: str = given["output_format"]
    options = {
        "effects": _effects(given["effects"]),
        "host": given["hosts"] or None,
        **{key: given[key] for key in ("select", "ignore", "load", "feedback", "borrowed", "concurrent", "restaged")},
    }
    progress = sys.stderr.isatty() and not given["quiet"] and form in HUMAN
    checked = check_targets(targets, options, given["jobs"], progress)
    shown = Options(
        fail_on=given["fail_on"] or "error",
        fail_on_unknown=bool(given["fail_on_unknown"]),
        fail_on_assumption=bool(given["fail_on_assumption"]),
        errors=tuple(checked.errors),
        color=_color(given["color"]) if form in HUMAN else False,
        quiet=given["quiet"],
    )
    for error in checked.errors:
        unusable(error)
    files = _files(checked.report, given["outputs"], shown)
    if given["effects_template"]:
        from hazard.declarations import template

        files.append((given["effects_template"], template(checked.report)))
    # Files first, but one that cannot be written must not hide the findings.
    unwritten = [path for path, text in files if not _written(path, text)]
    if checked.report.programs or form not in HUMAN:
        emit(render(form, checked.report, shown))
    passed = checked.report.passed(
        shown.fail_on, fail_on_unknown=shown.fail_on_unknown, fail_on_assumption=shown.fail_on_assumption
    )
    ctx.exit(UNUSABLE if checked.errors or unwritten else CLEAN if passed else FOUND)


def _effects(paths: tuple[str, ...]) -> dict[str, Any] | None:
    if not paths:
        return None
    from hazard.declarations import read_declarations

    declared: dict[str, Any] = {}
    for path in paths:
        declared.update(read_declarations(path))
    return declared


def _files(report: Report, outputs: list[tuple[str, str]], shown: Options) -> list[tuple[str, str]]:
    """(path, content) of every file that was asked for."""
    import dataclasses

    plain = dataclasses.replace(shown, color=False, width=120)
    return [(path, render(form, report, plain)) for form, path in outputs]


def _written(path: str, text: str) -> bool:
    from hazard.files import write_text

    try:
        write_text(path, text)
    except InputError as e:
        unusable(e)
        return False
    return True


@app.command(cls=Command, short_help="Prints a program as text.", examples="hazard dump model.pte > model.hir")
@click.argument("file")
@option("-o", "--output", heading=OUTPUT, metavar="FILE", help="Where to write; the standard output if left out.")
def dump(file: str, output: str | None) -> None:
    """Prints a program as text (.hir): all that the analysis looks at, no weights."""
    from hazard.cli.targets import load
    from hazard.files import write_text
    from hazard.frontends import load as load_file
    from hazard.frontends import load_bytes
    from hazard.program import Program
    from hazard.text import print_program

    source, name = load(file)
    if isinstance(source, bytes):
        program = load_bytes(source, name)
    else:
        program = source if isinstance(source, Program) else load_file(source)
    text = print_program(program)
    if output:
        write_text(output, text)
    else:
        emit(text)


@app.command(
    cls=Command,
    short_help="Tells what a rule reports and what to do.",
    examples="hazard explain HZ101\nhazard explain clobbered-branch-result",
)
@click.argument("rules", nargs=-1, required=True, metavar="RULE...")
@option("--output-format", heading=OUTPUT, type=click.Choice(["text", "markdown", "json"]), default="text",
        show_default=True, help="Text is laid out for the terminal; in a pipe it is the Markdown itself.")  # fmt: skip
@color_option
def explain(rules: tuple[str, ...], output_format: str, color: str) -> None:
    """Tells what a rule reports, why that is bad, with examples, and what to do. Takes codes and names."""
    from hazard.cli.explain import explain_rules

    emit(explain_rules(rules, output_format, _color(color)))


@app.command(cls=Command, short_help="Lists all rules.", examples="hazard rules\nhazard rules --output-format json")
@option("--output-format", heading=OUTPUT, type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="The form of the table.")  # fmt: skip
@color_option
def rules(output_format: str, color: str) -> None:
    """Lists all rules: code, name, severity and what each reports."""
    from hazard.cli.explain import list_rules

    emit(list_rules(output_format, _color(color)))


