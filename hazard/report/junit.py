"""JUnit XML: one suite a program, one case a method; what the gate refuses is a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hazard.report import Options
from hazard.report.terminal import Paint, clean
from hazard.report.text import block, groups, told, verdict_lines
from hazard.rule import SEVERITIES

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from hazard.api import MethodReport, ProgramReport, Report


def render(report: Report, options: Options) -> str:
    """The report as a ``testsuites`` document."""
    from xml.etree import ElementTree

    root = ElementTree.Element("testsuites", name="hazard")
    for program in report.programs:
        _suite(root, program, options)
    if options.errors:
        count = str(len(options.errors))
        suite = ElementTree.SubElement(
            root, "testsuite", name="inputs", tests=count, failures="0", errors=count, skipped="0", time="0"
        )
        for message in options.errors:
            name, _, rest = message.partition(": ")
            case = ElementTree.SubElement(suite, "testcase", classname="inputs", name=clean(name), time="0")
            ElementTree.SubElement(case, "error", message=clean(rest or name), type="InputError").text = clean(message)
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(s.get(key, "0")) for s in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, program: ProgramReport, options: Options) -> None:
    from xml.etree import ElementTree

    path = clean(program.path)
    failed = [_failures(program, m, options) for m in program.methods]
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=path,
        tests=str(len(program.methods)),
        failures=str(sum(map(bool, failed))),
        errors="0",
        skipped="0",
        time=f"{program.seconds:.3f}",
    )
    for i, (method, failures) in enumerate(zip(program.methods, failed, strict=True)):
        time = f"{program.seconds:.3f}" if i == 0 else "0"
        case = ElementTree.SubElement(suite, "testcase", classname=path, name=clean(method.name), time=time)
        if failures:
            title, text = "; ".join(t for t, _ in failures), "\n\n".join(b for _, b in failures)
            ElementTree.SubElement(case, "failure", message=title, type="hazard").text = text
        rest = [*verdict_lines(program, method, Paint(False), 110)]
        for group in groups(program, options):
            if own := [f for f in group if f.method == method.name]:
                rest += ["", *told(own, program, options, Paint(False), 110)]
        ElementTree.SubElement(case, "system-out").text = "\n".join(rest)


def _failures(program: ProgramReport, method: MethodReport, options: Options) -> list[tuple[str, str]]:
    failures = []
    if options.fail_on != "never":
        least = SEVERITIES.index(options.fail_on)
        for f in program.findings:
            if f.method == method.name and SEVERITIES.index(f.severity) >= least:
                text = "\n".join(block(f, program, Paint(False), 110))
                failures.append((clean(f"{f.severity}[{f.code}] {f.message}"), text))
    if options.fail_on_unknown and (method.verdict == "unknown" or method.reasons):
        failures.append(("the verdict is unknown", clean("; ".join(method.reasons))))
    if options.fail_on_assumption and method.assumptions:
        failures.append(("the verdict rests on assumptions", clean("; ".join(method.assumptions))))
    return failures
