"""The full text, in the manner of rustc: findings with their three points, verdicts, and a closing line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hazard.report import Options
from hazard.report.story import Step, Story, event, plural, tell
from hazard.report.terminal import Paint, clean, columns, wants_color
from hazard.rule import Finding

if TYPE_CHECKING:
    from hazard.api import MethodReport, ProgramReport, Report

#: Assumptions and reasons that are printed for each method; JSON has them all.
SHOWN = 4


def render(
    report: Report, options: Options | None = None, *, color: bool | None = None, width: int | None = None
) -> str:
    """The report as text, ending with a newline. ``color`` and ``width`` are those of `Options` where it is given."""
    options = options or Options(color=color, width=width)
    paint = Paint(wants_color(options.color))
    wide = columns(options.width)
    lines: list[str] = []
    for program in report.programs:
        for group in groups(program, options):
            lines.extend(told(group, program, options, paint, wide))
            lines.append("")
    if options.quiet:
        return "\n".join(lines)
    for program in report.programs:
        for method in program.methods:
            lines.extend(verdict_lines(program, method, paint, wide))
    lines.extend(f"{paint('warning', 'warning')}: {clean(w)}" for w in options.warnings)
    lines.append(closing_line(report, options, paint))
    return "\n".join(lines) + "\n"


def groups(program: ProgramReport, options: Options) -> list[list[Finding]]:
    """The findings of a program in the order in which they are told. Notes of one rule are told together, unless it is
    notes that fail or all were asked for: they must not bury what is wrong."""
    found: list[list[Finding]] = []
    notes: dict[str, list[Finding]] = {}
    for finding in program.findings:
        if finding.severity != "note" or options.verbose or options.fail_on == "note":
            found.append([finding])
        elif finding.code in notes:
            notes[finding.code].append(finding)
        else:
            found.append(notes.setdefault(finding.code, [finding]))
    return found


def told(group: list[Finding], program: ProgramReport, options: Options, paint: Paint, width: int) -> Iterator[str]:
    """The lines of one of the `groups`."""
    if is_brief(group, options):
        return brief(group, program, paint, width)
    return block(group[0], program, paint, width)


def is_brief(group: list[Finding], options: Options) -> bool:
    """Whether a group is told in three lines."""
    return group[0].severity == "note" and not options.verbose and options.fail_on != "note"


def brief(group: list[Finding], program: ProgramReport, paint: Paint, width: int) -> Iterator[str]:
    """Notes of one rule by the first of them."""
    first = group[0]
    yield heading(first, paint)
    more = f"; {len(group) - 1} more of this rule" if len(group) > 1 else ""
    yield paint("gutter", "  --> ") + f"{clean(program.path)}: {location(tell(first, program), first)}{more}"
    if first.help:
        head, *rest = _wrap(f"help: {clean(first.help)}", width - 5)
        yield paint("gutter", "   =") + " " + paint("help", "help") + head[len("help") :]
        for line in rest:
            yield "       " + line


def heading(finding: Finding, paint: Paint) -> str:
    """``error[HZ101]: message``."""
    return paint(finding.severity, f"{finding.severity}[{finding.code}]") + paint("bold", f": {clean(finding.message)}")


def block(finding: Finding, program: ProgramReport, paint: Paint, width: int) -> Iterator[str]:
    """One finding."""
    story = tell(finding, program)
    yield heading(finding, paint)
    margin = max([len(s.gutter) for s in story.steps] + [2])
    bar = paint("gutter", " " * margin + " |")
    where = f"{clean(program.path)}: {location(story, finding)}"
    yield paint("gutter", " " * margin + "--> ") + where
    if story.steps:
        yield bar
        yield from _points(story, finding, paint, margin, width)
        yield bar
    equals = paint("gutter", " " * margin + " =") + " "
    indent = " " * (margin + 3)
    for label, style, text in _remarks(story, finding):
        first, *rest = _wrap(f"{label}: {text}", width - margin - 3)
        yield equals + paint(style, label) + first[len(label) :]
        for line in rest:
            yield indent + "  " + line


def location(story: Story, finding: Finding) -> str:
    """``forward[12]``, or ``forward, output`` where no instruction is to blame."""
    blamed = story.blamed
    if blamed is None:
        return clean(finding.method)
    method = clean(blamed.place.method or finding.method)
    gutter = blamed.gutter.rpartition(":")[2]
    return f"{method}[{gutter}]" if gutter else f"{method}, {clean(blamed.place.operator)}"


def _points(story: Story, finding: Finding, paint: Paint, margin: int, width: int) -> Iterator[str]:
    previous: Step | None = None
    for step in story.steps:
        code = step.code
        if previous is None or event(previous.place, finding) != event(step.place, finding):
            yield paint("gutter", f"{step.gutter:>{margin}} |") + " " + _fitted(code, width - margin - 3)
        previous = step
        room = width - margin - 3
        at, length = _mark(code, step)
        if at + length > room:
            at, length = 0, 2
        sign = "^" if step is story.blamed else "-"
        style = finding.severity if sign == "^" else "gutter"
        bar = paint("gutter", " " * margin + " |") + " "
        # The mark stays where it belongs; what it says goes right of it, or left of it, or below.
        first, *rest = [f"{sign * length} {step.label}"]
        if at + len(first) > room:
            if len(step.label) < at:
                at -= len(step.label) + 1
                first = f"{step.label} {sign * length}"
            else:
                first, *rest = [sign * length, *_wrap(step.label, room)]
        yield bar + " " * at + paint(style, first)
        for line in rest:
            yield bar + paint(style, line)


def _mark(code: str, step: Step) -> tuple[int, int]:
    """Where to underline: the last mention of the slot for a write, the first for a read."""
    word = step.slot
    if not word:
        return 0, max(1, len(code))
    ends = range(len(word), len(code) + 1)
    found = [e - len(word) for e in ends if code[:e].endswith(word) and not code[e : e + 1].isdigit()]
    if not found:
        return 0, max(1, min(len(code), 60))
    return (found[0] if step.role == "read" else found[-1]), len(word)


def _fitted(code: str, width: int) -> str:
    return code if len(code) <= width else code[: width - 3] + "..."


def _remarks(story: Story, finding: Finding) -> Iterator[tuple[str, str, str]]:
    if story.why:
        yield "why", "bold", story.why
    for path in story.path:
        yield "path", "bold", path
    for source in story.sources:
        yield "source", "bold", source
    for note in story.notes:
        yield "note", "note", note
    if finding.help:
        yield "help", "help", clean(finding.help)


def _wrap(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    import textwrap

    return textwrap.wrap(text, width - 2, break_long_words=False, break_on_hyphens=False) or [text]


def verdict_lines(program: ProgramReport, method: MethodReport, paint: Paint, width: int | None) -> Iterator[str]:
    """What is known of one method. Proved is never said without the assumptions that it rests on."""
    name = f"{clean(program.path)}: {clean(method.name)}: "
    counts = method.counts
    if method.verdict == "hazard":
        number = sum(f.method == method.name for f in program.findings)
        accepted = sum(s.finding.method == method.name for s in program.suppressed)
        parts = ([plural(number, "finding")] if number else []) + ([f"{accepted} suppressed"] if accepted else [])
        listed = ", ".join(parts) or "no selected rule reports it"
        yield name + paint("error", "hazard") + f" ({listed})"
    elif method.verdict == "proved":
        reads = plural(counts.total, "read")
        if method.assumptions:
            yield name + paint("good", "proved") + f" assuming {_some(method.assumptions)} ({reads})"
        else:
            yield name + paint("good", "proved") + f" ({reads}, all paths, all calls)"
    if method.verdict != "proved":
        for reason in method.reasons[:SHOWN]:
            yield name + paint("warning", "unknown") + f": {clean(reason)}"
        if len(method.reasons) > SHOWN:
            yield name + paint("warning", "unknown") + f": {len(method.reasons) - SHOWN} more reasons"
        if method.verdict == "unknown" and not method.reasons:
            yield name + paint("warning", "unknown")
        if method.assumptions:
            yield name + f"the other reads are judged assuming {_some(method.assumptions)}"


def _some(words: tuple[str, ...]) -> str:
    shown = ", ".join(clean(w) for w in words[:SHOWN])
    return shown if len(words) <= SHOWN else f"{shown} and {len(words) - SHOWN} more"


def closing_line(report: Report, options: Options, paint: Paint) -> str:
    """``checked 1 program (23 instructions) in 0.01 s: ...`` with the counts of reads and findings."""
    methods = [m for p in report.programs for m in p.methods]
    instructions = sum(len(chain) for p in report.programs for m in p.program.methods for chain in m.chains)
    counts = [m.counts for m in methods]
    levels = [f.severity for f in report.findings]
    reads = (
        f"{plural(sum(c.total for c in counts), 'read')}: {sum(c.proved for c in counts)} proved,"
        f" {sum(c.assumed for c in counts)} assumed, {sum(c.unknown for c in counts)} unknown,"
        f" {sum(c.hazard for c in counts)} hazardous"
    )
    if levels:
        kinds = [plural(levels.count(s), s) for s in ("error", "warning", "note") if s in levels]
        found = paint("error" if "error" in levels else "warning" if "warning" in levels else "note", ", ".join(kinds))
        if options.hint and any(is_brief(g, options) for p in report.programs for g in groups(p, options)):
            found += f" ({options.hint})"
    else:
        found = "no findings"
    unknown = sum(bool(m.reasons) or m.verdict == "unknown" for m in methods)
    if unknown:
        found += f"; {plural(unknown, 'method')} not fully decided"
    suppressed = [s.kind for p in report.programs for s in p.suppressed]
    if known := suppressed.count("baseline"):
        found += f"; {known} baselined"
    if others := len(suppressed) - known:
        found += f"; {others} suppressed"
    if options.errors:
        found += f"; {plural(len(options.errors), 'input')} not checked"
    seconds = sum(p.seconds for p in report.programs)
    return (
        f"checked {plural(len(report.programs), 'program')} ({plural(instructions, 'instruction')}) in {seconds:.2f} s;"
        f" {reads}; {found}"
    )
