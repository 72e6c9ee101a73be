"""The commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import hazard
from hazard.cli import emit
from hazard.cli.groups import Command, complete_rules, option, program
from hazard.hosts import LOADS, NAMES
from hazard.report import FORMATS

if TYPE_CHECKING:
    from hazard.api import ProgramReport
    from hazard.program import Program

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


def _complete_form(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [f"{form}=" for form in FORMATS if f"{form}=".startswith(incomplete)]


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


def _several(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Options that several commands have in common, as one decorator."""

    def apply(function: Any) -> Any:
        for decorate in reversed(options):
            function = decorate(function)
        return function

    return apply


def _load_plugins(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    if values:
        from hazard.rule import load_plugin

        for name in values:
            load_plugin(name)
    return values


_plugin_option = option("--plugin", "plugins", heading=RULES, multiple=True, metavar="NAME", is_eager=True,
                        callback=_load_plugins,
                        help="Rules of another package: its entry point in the group hazard.rules.")  # fmt: skip

#: What is analysed and how.
analysis_options = _several(
    option("--config", heading=INPUTS, metavar="FILE", help="Settings, instead of those found from here upwards."),
    option("--isolated", heading=INPUTS, is_flag=True, help="Look for no settings."),
    option("--effects", heading=INPUTS, multiple=True, metavar="FILE.toml", help="Effects of custom operators."),
    option("--host", "hosts", heading=HOSTS, multiple=True, type=click.Choice(NAMES),
           help="Hosts that count.  [default: all released ones]"),
    option("--load", heading=HOSTS, type=click.Choice(LOADS), default=None,
           help="Whether methods are loaded before the first call or each at its own.  [default: either]"),
    option("--feedback/--no-feedback", heading=HOSTS, default=None,
           help="Whether the caller may hand an output back as an input.  [default: no]"),
    option("--borrowed/--cloned", heading=HOSTS, default=None,
           help="Whether outputs are handed out without a copy.  [default: as each host does]"),
    option("--concurrent/--sequential", heading=HOSTS, default=None,
           help="Whether different methods may run at the same time.  [default: sequential]"),
    option("--restaged/--kept-inputs", heading=HOSTS, default=None,
           help="Whether the caller sets every input before every call.  [default: restaged]"),
    option("--select", heading=RULES, multiple=True, callback=_words, metavar="RULE,...",
           shell_complete=complete_rules,
           help="Only these rules: codes, names, or prefixes such as HZ1; ALL for every rule."),
    option("--ignore", heading=RULES, multiple=True, callback=_words, metavar="RULE,...",
           shell_complete=complete_rules, help="All but these rules."),
    _plugin_option,
    option("-j", "--jobs", heading=OUTPUT, type=click.IntRange(min=1), default=1, show_default=True,
           help="Programs that are checked at the same time."),
    option("-q", "--quiet", heading=OUTPUT, is_flag=True, help="Findings only: no verdicts, no counts, no progress."),
    option("--debug", heading=OUTPUT, is_flag=True, help="Show where a fault of hazard happened; also HAZARD_DEBUG=1."),
)  # fmt: skip

#: What fails.
gate_options = _several(
    option("--fail-on", heading=GATE, type=click.Choice(["error", "warning", "note", "never"]), default=None,
           help="The least severity that fails.  [default: error]"),
    option("--fail-on-unknown", heading=GATE, is_flag=True, default=None, help="Fail when a verdict is unknown."),
    option("--fail-on-assumption", heading=GATE, is_flag=True, default=None,
           help="Fail when a verdict rests on an assumption."),
)  # fmt: skip

#: Where the report goes.
report_options = _several(
    option("--output-format", heading=OUTPUT, type=click.Choice(list(FORMATS)), default="full", show_default=True,
           help="What is written to the standard output."),
    option("-o", "--output", "outputs", heading=OUTPUT, multiple=True, callback=_form_and_file, metavar="FORMAT=FILE",
           shell_complete=_complete_form,
           help="Writes a file as well; may be repeated."),
    option("-v", "--verbose", heading=OUTPUT, is_flag=True,
           help="Every note in full; left out, those of one rule and program are told together, in short."),
    color_option,
)  # fmt: skip


@app.command(
    cls=Command,
    short_help="Checks programs and shows their hazards.",
    epilog=EXIT_CODES,
    examples="""
    hazard check model.pte
    hazard check exported/ --output-format concise
    hazard check model.pte -o sarif=hazard.sarif -o json=hazard.json
    hazard check model.pte --fail-on warning --fail-on-unknown
    hazard check model.pte --suggest
    cat model.pte | hazard check -
    """,
)
@program("targets", nargs=-1, required=True, metavar="TARGET...")
@analysis_options
@option("--effects-template", heading=INPUTS, metavar="FILE", help="Writes such a file for the unknown operators met.")
@option("--graph", heading=INPUTS, metavar="FACTORY",
        help="What a program file was made from, as file.py:factory: it tells what was meant, names and lines.")
@option("--baseline", heading=GATE, metavar="FILE", help="Findings of this file do not fail; see `hazard baseline`.")
@gate_options
@option("--suggest", heading=OUTPUT, is_flag=True,
        help="Tells with each finding what would be rid of it, and what that costs; new plans are tried.")
@report_options
@click.pass_context
def check(ctx: click.Context, /, targets: tuple[str, ...], **given: Any) -> None:
    """Checks programs: .pte, .bpte and .hir files, folders of them, or - for the standard input."""
    from hazard.cli.checking import Run

    run = Run(given)
    run.check(targets)
    run.settle(given["baseline"] or run.settings.baseline)
    if given["suggest"]:
        run.suggest()
    ctx.exit(run.finish(effects_template=given["effects_template"]))


@app.group(short_help="Accepts the findings of today, so that only new ones fail.")
def baseline() -> None:
    """Keeps a file of known findings: `check` fails for new ones only. Entries are recognised after re-planning."""


_baseline_file = option("--file", "-f", "file", heading=INPUTS, metavar="FILE", default=None,
                        help="The baseline.  [default: that of the settings, else hazard-baseline.json]")  # fmt: skip


@baseline.command("write", cls=Command, examples="hazard baseline write exported/")
@program("targets", nargs=-1, required=True, metavar="TARGET...")
@_baseline_file
@analysis_options
@click.pass_context
def baseline_write(ctx: click.Context, /, targets: tuple[str, ...], file: str | None, **given: Any) -> None:
    """Writes all findings of the programs to the baseline. Reasons that people have added stay."""
    from hazard.cli.checking import Run

    run = Run(given)
    run.check(targets)
    ctx.exit(run.write_baseline(file))


@baseline.command("check", cls=Command, epilog=EXIT_CODES, examples="hazard baseline check exported/")
@program("targets", nargs=-1, required=True, metavar="TARGET...")
@_baseline_file
@analysis_options
@gate_options
@report_options
@click.pass_context
def baseline_check(ctx: click.Context, /, targets: tuple[str, ...], file: str | None, **given: Any) -> None:
    """Checks programs against the baseline: the same as `hazard check --baseline FILE`."""
    from hazard.cli.checking import Run

    run = Run(given)
    run.check(targets)
    run.settle(run.baseline_path(file))
    ctx.exit(run.finish())


@baseline.command("prune", cls=Command, examples="hazard baseline prune exported/")
@program("targets", nargs=-1, required=True, metavar="TARGET...")
@_baseline_file
@analysis_options
@click.pass_context
def baseline_prune(ctx: click.Context, /, targets: tuple[str, ...], file: str | None, **given: Any) -> None:
    """Takes entries out of the baseline that are not found any more, and those of programs that are gone."""
    from hazard.cli.checking import Run

    run = Run(given)
    run.check(targets)
    ctx.exit(run.prune_baseline(file))


@app.command(
    cls=Command,
    short_help="Runs a program and shows which findings the runtime confirms.",
    epilog=EXIT_CODES,
    examples="""
    hazard confirm model.pte
    hazard confirm model.pte --inputs calls.pt --budget 60
    hazard confirm export.py:make_edge
    hazard confirm model.pte --graph export.py:make_edge
    hazard confirm model.pte --reference export.py:make_module
    """,
)
@program("target")
@option("--graph", heading=INPUTS, metavar="FACTORY",
        help="What a program file was made from, as file.py:factory: its findings are confirmed, beside eager.")
@option("--reference", heading=INPUTS, metavar="FACTORY",
        help="The model alone, to compare with in eager: file.py:factory or package.module:factory of a module, an"
        " exported program or an edge program.  [default: that of the graph]")
@option("--inputs", heading=INPUTS, metavar="FILE.pt", default=None,
        help="Calls to make, by torch.save: a list of inputs, a list of such calls, or a dict of them by method."
        "  [default: made up from the program]")
@option("--seed", heading=INPUTS, type=int, default=0, show_default=True, help="Of the inputs that are made up.")
@option("--budget", heading=INPUTS, type=click.FloatRange(min=0), default=30.0, show_default=True, metavar="SECONDS",
        help="Time for running; loading torch comes on top.")
@option("--reproducers", heading=OUTPUT, metavar="FOLDER", default=".", type=click.Path(exists=True, file_okay=False),
        help="Where the scripts that show wrong results are written.  [default: here]")
@option("-q", "--quiet", heading=OUTPUT, is_flag=True, help="No progress, no counts.")
@color_option
@click.pass_context
def confirm(ctx: click.Context, /, target: str, graph: str | None, reference: str | None, inputs: str | None, seed: int,
            budget: float, reproducers: str, quiet: bool, color: str) -> None:  # fmt: skip
    """Runs a program under ExecuTorch beside a twin of itself that never reuses memory, and says for each finding
    whether it was confirmed, with inputs, call, output and both values; a script that repeats it is written. TARGET is
    a program file or, as for `check`, a factory of a graph, which then runs beside eager, too. Needs torch and
    executorch."""
    from hazard.cli.confirming import Request, run_confirm

    request = Request(target, graph, reference, inputs, budget, seed, reproducers, _color(color), quiet)
    ctx.exit(run_confirm(request))


@app.command(
    cls=Command,
    short_help="Gives a program a memory plan that is proved free of hazards.",
    epilog=EXIT_CODES,
    examples="""
    hazard fix model.pte -o fixed.pte
    hazard fix model.pte --dry-run
    hazard fix model.pte --in-place --diff
    """,
)
@program("file")
@option("-o", "--output", "target", heading=OUTPUT, metavar="FILE", help="Where the new program goes.")
@option("--in-place", heading=OUTPUT, is_flag=True, help="Overwrite the input.")
@option("--dry-run", heading=OUTPUT, is_flag=True, help="Write nothing; show what could be done about each finding.")
@option("--diff", heading=OUTPUT, is_flag=True, help="List every tensor that moves.")
@option("--report", heading=OUTPUT, metavar="FILE", help="Writes what was done as JSON.")
@option("--effects", heading=INPUTS, multiple=True, metavar="FILE.toml", help="Effects of custom operators.")
@option("--host", "hosts", heading=HOSTS, multiple=True, type=click.Choice(NAMES),
        help="Hosts that count.  [default: all released ones]")
@option("--load", heading=HOSTS, type=click.Choice(LOADS), default=None,
        help="Whether methods are loaded before the first call or each at its own.  [default: either]")
@click.pass_context
def fix(ctx: click.Context, /, file: str, **given: Any) -> None:
    """Plans the memory of a .pte anew from what its instructions do, checks the result with all rules, and writes it
    only if it is proved; where the file does not tell enough, or no plan can help, says what does. Weights, data of
    delegates and everything else stay as they are."""
    from hazard.cli.fixing import fix_file
    from hazard.declarations import read_declarations
    from hazard.hosts import choose_hosts

    effects: dict[str, Any] = {}
    for path in given.pop("effects"):
        effects.update(read_declarations(path))
    hosts = choose_hosts(given.pop("hosts") or None, load=given.pop("load"))
    ctx.exit(fix_file(file, given.pop("target"), effects=effects or None, hosts=hosts, **given))


@app.command(
    cls=Command,
    short_help="Compares the findings of two programs.",
    epilog=EXIT_CODES,
    examples="""
    hazard diff before.pte after.pte
    hazard diff exported-main/ exported-branch/ --output-format markdown
    """,
)
@program("old")
@program("new")
@analysis_options
@gate_options
@report_options
@click.pass_context
def diff(ctx: click.Context, /, old: str, new: str, **given: Any) -> None:
    """Compares two programs, or the programs of two folders by their paths: findings that are introduced, fixed and
    unchanged. Fails for introduced ones only. Reports hold the introduced findings; JSON holds all three."""
    from hazard.cli.checking import compare

    ctx.exit(compare(old, new, given))


def _program(target: str) -> Program:
    """The program behind a target; `-` is the standard input."""
    from hazard.cli.targets import load
    from hazard.frontends import load as load_file
    from hazard.frontends import load_bytes
    from hazard.program import Program

    source, name = load(target)
    if isinstance(source, bytes):
        return load_bytes(source, name)
    if isinstance(source, str):
        return load_file(source)
    if isinstance(source, Program):
        return source
    from hazard.pipeline import program_of

    return program_of(source)


@app.command(
    cls=Command,
    short_help="Prints a program as text.",
    examples="""
    hazard dump model.pte > model.hir
    hazard dump model.pte --annotate
    hazard dump model.pte --around 12
    """,
)
@program("file")
@option("--annotate", heading=OUTPUT, is_flag=True,
        help="For people: branches and loops indented, bytes, live tensors, source lines, hazards.")  # fmt: skip
@option("--around", heading=OUTPUT, type=click.IntRange(min=0), metavar="N", help="Annotated, around instruction N.")
@option("--method", heading=OUTPUT, metavar="NAME", help="One method; annotated only.")
@option("-o", "--output", heading=OUTPUT, metavar="FILE", help="Where to write; the standard output if left out.")
@color_option
def dump(
    file: str, annotate: bool, around: int | None, method: str | None, output: str | None, color: str
) -> None:
    """Prints a program as text (.hir): all that the analysis looks at, no weights. It can be checked and dumped again
    like the program itself; what --annotate prints is for reading only."""
    if annotate or around is not None:
        from hazard.report import annotate as listing
        from hazard.report.terminal import wants_color

        colored = wants_color(False if output else _color(color))
        _deliver(listing.annotate(_checked(file), colored, method, around), output)
    else:
        if method is not None:
            raise click.UsageError("--method goes with --annotate or --around")
        from hazard.text import print_program

        _deliver(print_program(_program(file)), output)


@app.command(
    cls=Command,
    short_help="Tells the life of one value.",
    examples="""
    hazard trace model.pte --value %9
    hazard trace model.pte --value b_cache
    hazard trace model.pte --value 1
    """,
)
@program("file")
@option("--value", heading=INPUTS, required=True, metavar="NAME",
        help="A slot (%9), a name in the model, or the number of a finding whose value it is.")  # fmt: skip
@option("--method", heading=INPUTS, metavar="NAME", help="One method; all if left out.")
@option("-o", "--output", heading=OUTPUT, metavar="FILE", help="Where to write; the standard output if left out.")
@color_option
def trace(file: str, value: str, method: str | None, output: str | None, color: str) -> None:
    """Tells the life of one value: where it is defined, moved, viewed, read, where its bytes are reused, and on which
    paths."""
    from hazard.report import annotate as listing
    from hazard.report.terminal import wants_color

    colored = wants_color(False if output else _color(color))
    _deliver(listing.trace(_checked(file), value, colored, method), output)


def _checked(target: str) -> ProgramReport:
    """The program behind a target with its findings."""
    from hazard.api import check as check_program

    return check_program(_program(target), name="<stdin>" if target == "-" else target).programs[0]


def _deliver(text: str, path: str | None) -> None:
    """To a file where one is named, else to the standard output."""
    if path is None:
        emit(text)
    else:
        from hazard.files import write_text

        write_text(path, text)


@app.command(
    cls=Command,
    short_help="Shows what lives where in the arenas, and for how long.",
    examples="hazard layout model.pte\nhazard layout model.pte --all --output-format json",
)
@program("file")
@option("--all", "everything", heading=OUTPUT, is_flag=True, help="Every planned tensor, temporaries as well.")
@option("--output-format", heading=OUTPUT, type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="The form of the table.")  # fmt: skip
@option("-o", "--output", heading=OUTPUT, metavar="FILE", help="Where to write; the standard output if left out.")
def layout(file: str, everything: bool, output_format: str, output: str | None) -> None:
    """Shows for each method and arena the states, inputs, outputs and branch results: place, live range, who shares
    them; how full the arena gets, what is live then, and the least that any plan needs."""
    from hazard.files import write_text
    from hazard.report.layout import layout_of, render_json, render_text

    found = layout_of(_program(file), path=file, all=everything)
    text = render_json(found) if output_format == "json" else render_text(found)
    if output:
        write_text(output, text)
    else:
        emit(text)


@app.command(
    cls=Command,
    short_help="Tells what a rule reports and what to do.",
    examples="hazard explain HZ101\nhazard explain clobbered-branch-result",
)
@click.argument("rules", nargs=-1, required=True, metavar="RULE...", shell_complete=complete_rules)
@option("--output-format", heading=OUTPUT, type=click.Choice(["text", "markdown", "json"]), default="text",
        show_default=True, help="Text is laid out for the terminal; in a pipe it is the Markdown itself.")  # fmt: skip
@_plugin_option
@color_option
def explain(rules: tuple[str, ...], output_format: str, plugins: tuple[str, ...], color: str) -> None:
    """Tells what a rule reports, why that is bad, with examples, and what to do. Takes codes and names."""
    from hazard.cli.explain import explain_rules

    emit(explain_rules(rules, output_format, _color(color)))


@app.command(cls=Command, short_help="Lists all rules.", examples="hazard rules\nhazard rules --output-format json")
@option("--output-format", heading=OUTPUT, type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="The form of the table.")  # fmt: skip
@_plugin_option
@color_option
def rules(output_format: str, plugins: tuple[str, ...], color: str) -> None:
    """Lists all rules: code, name, severity and what each reports."""
    from hazard.cli.explain import list_rules

    emit(list_rules(output_format, _color(color)))


@app.command(
    cls=Command,
    short_help="Prints what completes commands, options and rules in a shell.",
    examples="""
    eval "$(hazard completion bash)"                                        # in ~/.bashrc
    eval "$(hazard completion zsh)"                                         # in ~/.zshrc
    hazard completion fish > ~/.config/fish/completions/hazard.fish
    """,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Prints the code that makes a shell complete commands, options, files and rules. Bash has to be 4.4 or later."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    emit(kind(app, {}, "hazard", "_HAZARD_COMPLETE").source() + "\n")
