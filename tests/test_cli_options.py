"""Every option of every command is executed, and so is what completes them in a shell."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hazard.cli import main
from hazard.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = 'fail-on = "never"\n'
EFFECTS = '[operators."my::op.out"]\nwrites = [-1]\n'
PLUGIN = '''"""## What it does
## Why is this bad?
## Example
## Use instead
## What to do
"""
from hazard.rule import Rule

RULE = Rule("OUR001", "nothing-found", "note", "1.0.0", "finds nothing", scan=lambda context: iter(()))
'''

#: How the commands that analyse are run, whatever their own options: exit codes are those of a program with two errors.
ANALYSIS = (
    "--config hazard.toml",
    "--isolated",
    "--effects effects.toml",
    "--host module --load eager --feedback --borrowed --concurrent --restaged",
    "--host module --load lazy --no-feedback --cloned --sequential --kept-inputs",
    "--select HZ1 --ignore HZ102",
    "--plugin ours --jobs 2 --quiet",
    "--debug",
)
GATE = ("--isolated --fail-on error --fail-on-unknown --fail-on-assumption",)
REPORTS = ("--isolated --output-format concise --output json=report.json --color always --verbose",)

#: Lines with their exit codes; None: that of the gate, since nothing fails by `hazard.toml`, and all else by default.
LINES: dict[str, tuple[tuple[str, int | None], ...]] = {
    "hazard": (("--version", 0),),
    "hazard check": (
        *((f"bad.pte {o}", None) for o in (*ANALYSIS, *GATE, *REPORTS)),
        ("bad.pte --isolated --baseline known.json --effects-template template.toml", 0),
        ("bad.pte --isolated --suggest", 1),
    ),
    "hazard baseline": (),
    "hazard baseline write": tuple((f"bad.pte --file new.json {o}", 0) for o in ANALYSIS),
    "hazard baseline check": tuple((f"bad.pte --file known.json {o}", 0) for o in (*ANALYSIS, *GATE, *REPORTS)),
    "hazard baseline prune": tuple((f"bad.pte --file known.json {o}", 0) for o in ANALYSIS),
    "hazard fix": (
        ("bad.pte --output fixed.pte --diff --report report.json", 0),
        ("bad.pte --in-place", 0),
        ("bad.pte --dry-run --host module --load eager --effects effects.toml", 0),
    ),
    "hazard diff": tuple((f"good.pte bad.pte {o}", None) for o in (*ANALYSIS, *GATE, *REPORTS)),
    "hazard dump": (
        ("bad.pte --annotate --method forward --color always", 0),
        ("bad.pte --around 5 --output dump.txt", 0),
    ),
    "hazard trace": (("bad.pte --value %9 --method forward --color never --output trace.txt", 0),),
    "hazard layout": (("bad.pte --all --output-format json --output layout.json", 0),),
    "hazard explain": (("OUR001 --plugin ours --output-format markdown --color never", 0),),
    "hazard rules": (("--plugin ours --output-format text --color always", 0),),
    "hazard confirm": (("good.pte --quiet --budget 1 --seed 1 --reproducers . --color never", 0),),
    "hazard completion": (("bash", 0),),
}
#: What needs a model is run by tests/test_confirm.py, tests/test_pipeline.py and docs/confirming.md.
ELSEWHERE = {"--graph", "--inputs", "--reference"}


def commands(name: str = "hazard", command: click.Command = app) -> dict[str, click.Command]:
    found = {name: command}
    if isinstance(command, click.Group):
        for sub, child in command.commands.items():
            found |= commands(f"{name} {sub}", child)
    return found


def flags(command: click.Command) -> set[str]:
    """The long names of all options, and of what turns flags off."""
    options = [p for p in command.params if isinstance(p, click.Option)]
    return {n for p in options for n in (*p.opts, *p.secondary_opts) if n.startswith("--")}


def test_the_lines_have_every_option() -> None:
    known = {(name, flag) for name, command in commands().items() for flag in flags(command) - ELSEWHERE}
    used = {
        (name, word.partition("=")[0])
        for name, lines in LINES.items()
        for line, _ in lines
        for word in shlex.split(line)
        if word.startswith("--")
    }
    assert sorted(known - used) == [], "add a line to LINES"
    assert sorted(used - known) == []
    assert set(LINES) == set(commands())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two programs, settings, and a package of rules that is installed."""
    for name, case in (("bad", "seed_two_conds"), ("good", "c05_nested_true")):
        shutil.copy(ROOT / "corpus" / case / "1.5.1.pte", tmp_path / f"{name}.pte")
    (tmp_path / "hazard.toml").write_text(SETTINGS)
    (tmp_path / "effects.toml").write_text(EFFECTS)
    packages = tmp_path / "packages"
    (packages / "ours-1.dist-info").mkdir(parents=True)
    (packages / "our_rule.py").write_text(PLUGIN)
    (packages / "ours-1.dist-info" / "METADATA").write_text("Name: ours\nVersion: 1\n")
    (packages / "ours-1.dist-info" / "entry_points.txt").write_text("[hazard.rules]\nours = our_rule\n")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setattr("hazard.rule._PLUGGED", {})
    monkeypatch.setenv("HAZARD_DEBUG", "")  # set by --debug for the rest of a process
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", "write", "bad.pte", "--file", "known.json"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("name", "line", "code"),
    [(name, line, code) for name, lines in LINES.items() for line, code in lines],
    ids=lambda value: re.sub(r"\W+", "-", str(value)),
)
def test_a_line_does_what_it_says(
    name: str, line: str, code: int | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if code is None:
        code = 1 if "--isolated" in line else 0
    before = {p.name for p in folder.iterdir()}
    words = [*name.split()[1:], *shlex.split(line)]
    capsys.readouterr()
    assert main(words) == code
    out, err = capsys.readouterr()
    assert err == ""
    made = {p.name for p in folder.iterdir()} - before
    for option in ("--output", "--effects-template", "--report"):
        if option in words:
            wanted = words[words.index(option) + 1].rpartition("=")[2]
            assert wanted in made
            made.discard(wanted)
            if wanted.endswith(".json"):
                assert json.loads((folder / wanted).read_text())["schema_version"]
    assert made <= {"new.json"}
    if "--color" in words and "--output" not in words:
        assert ("\x1b[" in out) is ("always" in words)


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_code_for_the_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    code = capsys.readouterr().out
    assert f"_HAZARD_COMPLETE={shell}_complete" in code
    if found := shutil.which(shell):
        assert subprocess.run([found, "-n"], input=code, text=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ba"], ["baseline"]),
        (["check", "--fail-on-"], ["--fail-on-unknown", "--fail-on-assumption"]),
        (["check", "--fail-on", "e"], ["error"]),
        (["check", "--select", "HZ101,HZ70"], ["HZ101,HZ701", "HZ101,HZ702", "HZ101,HZ703"]),
        (["explain", "clobbered-v"], ["clobbered-value"]),
        (["check", "-o", "s"], ["sarif="]),
        (["check", "--host", ""], ["python-runtime", "module", "module-shared"]),
        (["completion", "f"], ["fish"]),
    ],
)
def test_bash_offers(words: list[str], offered: list[str], tmp_path: Path) -> None:
    command = tmp_path / "hazard"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hazard "$@"\n')
    command.chmod(0o755)
    script = (
        f'PATH={shlex.quote(str(tmp_path))}:$PATH; eval "$(hazard completion bash)"; '
        f"COMP_WORDS=(hazard {shlex.join(words)}); COMP_CWORD={len(words)}; _hazard_completion hazard; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == offered


def test_programs_are_completed_as_files() -> None:
    from click.shell_completion import BashComplete

    complete = BashComplete(app, {}, "hazard", "_HAZARD_COMPLETE")
    for words in (["check"], ["diff", "a.pte"], ["dump"], ["check", "--baseline"], ["fix", "a.pte", "-o"]):
        assert [i.type for i in complete.get_completions(words, "mod")] == ["file"], words
