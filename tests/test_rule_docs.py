"""The documentation of the rules is executed: what it says fires does, what it says is quiet is.

A comment ``# error: [name]`` (warning, note) stands on the line of the instruction that overwrites, or on that which
reads where no instruction of the same method overwrote; on the ``inputs`` or ``outputs`` line where no instruction
takes part; on the line of a value where the finding is about its place, and on that of an obstacle.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

import hazard
from hazard.cli import main
from hazard.rule import HEADINGS, SEVERITIES, Finding, Rule, RuleError, all_rules, documented, find_rule, rule_files

ROOT = Path(__file__).resolve().parent.parent
RULES = [pytest.param(rule, id=rule.code) for rule in all_rules()]

#: Rules that are silent on ordinary programs unless they are selected.
ON_REQUEST = {"HZ604"}

Mark = tuple[str, str, str]  # where, severity, name


def sections(docs: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", docs, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(section: str) -> list[str]:
    return re.findall(r"^```hir\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)


def marks(block: str) -> Counter[Mark]:
    """What the comments of a block say, by ``method:chain:index``, ``method:%slot`` or ``method:outputs``."""
    found: Counter[Mark] = Counter()
    method, chain, index = "", -1, 0
    for line in block.splitlines():
        code, _, comment = line.partition("#")
        words = code.split()
        where = ""
        if words[:1] == ["method"]:
            method, chain = words[1], -1
        elif words[:1] == ["chain"]:
            chain, index = chain + 1, 0
        elif words and chain >= 0:
            where, index = f"{method}:{chain}:{index}", index + 1
        elif words:
            where = f"{method}:{words[0]}"
        for severity, name in re.findall(r"(error|warning|note): \[([a-z-]+)\]", comment):
            assert where, f"a comment on a line that holds nothing: {line}"
            found[where, severity, name] += 1
    return found


def where(finding: Finding) -> str:
    own = [p for p in (finding.clobber, finding.use, finding.define) if p and p.method in (None, finding.method)]
    assert own, "a finding that points at nothing"
    for place in own[:2]:
        if place.instruction is not None:
            return f"{finding.method}:{place.chain}:{place.instruction}"
    place = own[0]
    if place.operator in ("input", "output"):
        return f"{finding.method}:{place.operator}s"
    if place.operator == "obstacle":
        return f"{finding.method}:obstacle"
    return f"{finding.method}:%{place.slot}"


def check(block: str, select: list[str] | None = None) -> Counter[Mark]:
    report = hazard.check(block.encode(), select=select, name="example.hir")
    return Counter((where(f), f.severity, f.name) for f in report.findings)


def without_notes_of_others(found: Counter[Mark], rule: Rule) -> Counter[Mark]:
    """Notes are true of many an example that is about something else."""
    return Counter({m: n for m, n in found.items() if m[2] == rule.name or m[1] != "note"})


@pytest.mark.parametrize("rule", RULES)
def test_example_fires_where_it_says(rule: Rule) -> None:
    found = blocks(sections(rule.docs)["Example"])
    assert found
    for block in found:
        expected = marks(block)
        assert expected, "an example that announces no finding"
        assert {name for _, _, name in expected} == {rule.name}
        assert check(block, [rule.code]) == expected
        if rule.default and rule.code not in ON_REQUEST:
            assert without_notes_of_others(check(block), rule) == expected


@pytest.mark.parametrize("rule", RULES)
def test_use_instead_is_quiet(rule: Rule) -> None:
    found = blocks(sections(rule.docs)["Use instead"])
    assert found
    for block in found:
        assert marks(block) == Counter()
        assert check(block, [rule.code]) == Counter()
        assert without_notes_of_others(check(block), rule) == Counter()


@pytest.mark.parametrize("rule", RULES)
def test_pages_have_their_headings_in_order(rule: Rule) -> None:
    headings = list(sections(rule.docs))
    assert [h for h in headings if h in HEADINGS] == list(HEADINGS)
    assert set(headings) <= {*HEADINGS, "Known limits", "References"}
    assert rule.docs.splitlines()[0].endswith(".")


@pytest.mark.parametrize("rule", RULES)
def test_metadata(rule: Rule) -> None:
    module = rule_files()[rule.code]
    assert module == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"
    assert rule.severity in SEVERITIES
    assert rule.summary[0].islower()
    assert rule.summary[-1] not in ".!?"
    # A name says the bad thing, never the cure.
    assert not rule.name.startswith(("no-", "disallow-", "check-", "avoid-"))
    assert all(reference.startswith("https://") for reference in rule.references)


def test_table_is_the_folder() -> None:
    modules = {p.stem for p in (ROOT / "rules").glob("hz*.py")}
    assert set(rule_files().values()) == modules
    assert [r.code for r in all_rules()] == sorted(rule_files())
    assert len({r.name for r in all_rules()}) == len(all_rules())


@pytest.mark.parametrize("rule", RULES)
def test_explain_shows_the_same_text(rule: Rule, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", rule.code.lower()]) == 0
    by_code = capsys.readouterr().out
    assert rule.docs.strip() in by_code
    assert by_code.startswith(f"# {rule.name} ({rule.code})\n")
    assert main(["explain", rule.name]) == 0
    assert capsys.readouterr().out == by_code
    assert main(["explain", rule.code, "--output-format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["rules"]
    assert (entry["code"], entry["name"], entry["docs"]) == (rule.code, rule.name, rule.docs)


def test_rules_are_found_by_code_and_by_name() -> None:
    for rule in all_rules():
        assert find_rule(rule.code) is find_rule(rule.code.lower()) is find_rule(rule.name) is rule
    assert find_rule("HZ000") is None


def test_a_page_without_a_heading_is_refused() -> None:
    rule = all_rules()[0]
    for heading in HEADINGS:
        with pytest.raises(RuleError, match=re.escape(heading)):
            documented(rule.docs.replace(f"## {heading}", f"# {heading}"), rule)


@pytest.mark.parametrize(
    ("field", "value"),
    [("code", "HZ1"), ("name", "Clobbered"), ("severity", "bad"), ("since", "1"), ("summary", "It is so.")],
)
def test_bad_metadata_is_refused_by_name(field: str, value: str) -> None:
    fields = {"code": "HZ999", "name": "some-fault", "severity": "error", "since": "0.1.0", "summary": "it is so"}
    Rule(**fields, scan=lambda context: iter(()))
    with pytest.raises(RuleError, match=field):
        Rule(**{**fields, field: value}, scan=lambda context: iter(()))
    with pytest.raises(RuleError, match="claims or scan"):
        Rule(**fields)
