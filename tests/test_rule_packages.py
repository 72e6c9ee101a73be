"""Rules of other packages: entry points of the group ``hazard.rules``, loaded when they are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SEED = ROOT / "corpus" / "seed_two_conds" / "1.5.1.pte"

RULE = '''"""A method has more than one output.

## What it does
Reports it.

## Why is this bad?
It is not; this is a test.

## Example
None.

## Use instead
None.

## What to do
Nothing.
"""
from hazard.rule import Rule

def scan(context):
    for analysis in context.methods:
        if len(analysis.method.outputs) > 1:
            yield RULE.finding(method=analysis.method.name, message="it has several outputs", help="keep one")

RULE = Rule(
    code="OUR001", name="several-outputs", severity="warning", since="0.1.0", summary="several outputs", scan=scan
)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder like site-packages with one distribution in it."""
    info = tmp_path / "ours-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hazard.rules]\nours = our_rules\nempty = our_empty\ntaken = our_taken\nundocumented = our_undocumented\n"
    )
    (tmp_path / "our_rule.py").write_text(RULE)
    (tmp_path / "our_rules.py").write_text("import our_rule\nRULES = [our_rule]\n")
    (tmp_path / "our_empty.py").touch()
    (tmp_path / "our_taken.py").write_text(RULE.replace("OUR001", "HZ901"))
    (tmp_path / "our_undocumented.py").write_text(RULE.replace("## Example", "Example"))
    return tmp_path


def run(package: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)])}
    command = [sys.executable, "-m", "hazard", *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=package, capture_output=True, text=True, check=False)


def test_rules_count_when_they_are_named(package: Path) -> None:
    assert "OUR001" not in run(package, "rules").stdout
    assert run(package, "rules", "--plugin", "ours").stdout.splitlines()[-1].startswith("OUR001  several-outputs")
    assert run(package, "explain", "OUR001", "--plugin", "ours").stdout.startswith("# several-outputs (OUR001)")
    done = run(package, "check", SEED, "--plugin", "ours", "--select", "OUR001", "--output-format", "json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], finding["message"], finding["use"]) == ("OUR001", "it has several outputs", None)
    assert run(package, "check", SEED, "--plugin", "ours", "--select", "OUR").returncode == 0
    assert run(package, "check", SEED, "--select", "OUR001").returncode == 2


@pytest.mark.parametrize("form", ["full", "concise", "jsonl", "sarif", "github", "junit", "markdown"])
def test_findings_without_places_are_rendered(package: Path, form: str) -> None:
    done = run(package, "check", SEED, "--plugin", "ours", "--select", "OUR001", "--output-format", form)
    assert (done.returncode, done.stderr) == (0, "")
    assert "it has several outputs" in done.stdout


def test_rules_named_in_the_settings(package: Path) -> None:
    (package / "hazard.toml").write_text('plugins = ["ours"]\nfail-on = "warning"\nselect = ["OUR"]\n')
    for jobs in ("1", "2"):
        done = run(package, "check", SEED, ROOT / "corpus" / "c05_nested_true" / "1.5.1.pte", "--jobs", jobs, "-q")
        assert (done.returncode, done.stderr) == (1, "")
        assert done.stdout.startswith("warning[OUR001]: it has several outputs")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "no rules called `gone`: there is no such entry point in the group hazard.rules (empty, ours, taken"),
        ("empty", "the rules `empty` cannot be loaded: AttributeError"),
        ("taken", "the rules `taken` bring HZ901 several-outputs, a code or name that is taken"),
        ("undocumented", "lacks the heading `Example`"),
    ],
)
def test_faulty_rules_are_named(package: Path, name: str, said: str) -> None:
    done = run(package, "check", SEED, "--plugin", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
