"""The GitHub action, the pre-commit hook and the example workflows: their steps run here as they do there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hazard.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
SEED = ROOT / "corpus" / "seed_two_conds" / "1.5.1.pte"
PROVED = ROOT / "corpus" / "c05_nested_true" / "1.5.1.pte"
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
WORKFLOW = yaml.safe_load((ROOT / "examples" / "ci" / "github.yml").read_text())


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A `hazard` command of this Python."""
    path = tmp_path / "bin" / "hazard"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hazard "$@"\n')
    path.chmod(0o755)
    return path


def check(command: Path, tmp_path: Path, **inputs: str) -> tuple[dict[str, str], str, str]:
    """The outputs of the action's check, the summary, and what it wrote."""
    step = next(s for s in ACTION["runs"]["steps"] if s.get("id") == "check")
    output, summary = tmp_path / "output", tmp_path / "summary"
    known = {"paths": "", "options": "", "fail-on": ACTION["inputs"]["fail-on"]["default"], **inputs}
    environment = {
        **os.environ,
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    for name, value in step["env"].items():
        value = value.replace("${{ runner.temp }}", str(tmp_path))
        for key, text in known.items():
            value = value.replace(f"${{{{ inputs.{key} }}}}", text)
        environment[name] = value
    environment["HAZARD"] = str(command)
    done = subprocess.run(
        ["bash", "-c", step["run"]], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    )
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return outputs, summary.read_text() if summary.exists() else "", done.stdout


def test_the_action_reports_and_leaves_the_exit_code(command: Path, tmp_path: Path) -> None:
    outputs, summary, shown = check(command, tmp_path, paths=f"{SEED}\n  {PROVED}  \n\n")
    assert (outputs["exit-code"], outputs["count"]) == ("1", "2")
    assert len(json.loads(Path(outputs["json-file"]).read_text())["programs"]) == 2
    assert len(json.loads(Path(outputs["sarif-file"]).read_text())["runs"][0]["results"]) == 2
    assert summary.startswith("# hazard\n")
    assert len(re.findall(r"^::error file=corpus/seed_two_conds/1\.5\.1\.pte,title=", shown, re.MULTILINE)) == 2


def test_the_action_passes_options_on(command: Path, tmp_path: Path) -> None:
    outputs, _, shown = check(command, tmp_path, paths=str(SEED), **{"fail-on": "never"})
    assert (outputs["exit-code"], outputs["count"]) == ("0", "2")
    outputs, _, shown = check(command, tmp_path, paths=str(SEED), options="--ignore\nHZ101")
    assert (outputs["exit-code"], outputs["count"], shown) == ("0", "0", "")


def test_the_action_fails_for_wrong_usage(command: Path, tmp_path: Path) -> None:
    outputs, summary, _ = check(command, tmp_path, paths=str(SEED), options="--no-such-option")
    assert outputs == {"exit-code": "2", "count": "0"}
    assert summary == ""


def test_a_program_whose_name_is_an_option_is_a_program(command: Path, tmp_path: Path) -> None:
    outputs, _, _ = check(command, tmp_path, paths="--help")
    assert outputs["exit-code"] == "2"


@pytest.mark.parametrize("version", ["", "1.2.3"])
def test_the_action_installs_its_own_source_unless_a_release_is_named(version: str, tmp_path: Path) -> None:
    """With a `python3` that makes an environment whose pip only says what it was asked for."""
    tools, action = tmp_path / "tools", tmp_path / "the action"
    tools.mkdir()
    (tools / "pip").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$0.asked"\n')
    (tools / "python3").write_text(
        '#!/bin/sh\n[ "$1" = -c ] && exit 0\nmkdir -p "$3/bin"; cp "$(dirname "$0")/pip" "$3/bin"\n'
    )
    (tools / "pip").chmod(0o755)
    (tools / "python3").chmod(0o755)
    shutil.copytree(ROOT / "action", action / "action")
    step = ACTION["runs"]["steps"][0]
    place = tmp_path / "a place" / "hazard"
    environment = {
        **os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "GITHUB_ACTION_PATH": str(action),
        **{
            name: value.replace("${{ runner.temp }}/hazard", str(place)).replace("${{ inputs.version }}", version)
            for name, value in step["env"].items()
        },
    }  # fmt: skip
    subprocess.run(["bash", "-c", step["run"]], env=environment, check=True)
    asked = (place / "bin" / "pip.asked").read_text().splitlines()
    assert asked == ["install", "--quiet", f"hazard=={version}" if version else str(action)]


def test_the_action_says_that_python_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.9.1; exit 1\n')
    (tmp_path / "python3").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    script = ROOT / "action" / "install.sh"
    done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=hazard::hazard needs Python 3.11 or later, python3 is Python 3.9.1;")


@pytest.mark.parametrize("code", [0, 1, 2, 101])
def test_the_last_step_fails_as_the_check_did(code: int) -> None:
    step = ACTION["runs"]["steps"][-1]
    assert step["env"] == {"HAZARD_EXIT_CODE": "${{ steps.check.outputs.exit-code }}"}
    environment = {**os.environ, "HAZARD_EXIT_CODE": str(code)}
    assert subprocess.run(["bash", "-c", step["run"]], env=environment, check=False).returncode == code


def test_no_input_is_written_into_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    for script in (ROOT / "action").glob("*.sh"):
        assert "${{" not in script.read_text()
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def test_all_inputs_are_used_and_all_outputs_made() -> None:
    text = json.dumps(ACTION["runs"])
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    made = set(re.findall(r"^\s*echo \"([\w-]+)=", (ROOT / "action" / "check.sh").read_text(), re.MULTILINE))
    assert made == set(ACTION["outputs"])


def test_the_example_workflow_uses_inputs_that_there_are() -> None:
    steps: list[dict[str, Any]] = WORKFLOW["jobs"]["hazard"]["steps"]
    (used,) = (s for s in steps if "/hazard@" in s.get("uses", ""))
    assert set(used["with"]) <= set(ACTION["inputs"])
    options = [o for o in used["with"]["options"].split() if o.startswith("--")]
    known = {name for p in app.commands["check"].params for name in p.opts}
    assert set(options) <= known


def test_the_pre_commit_hook_runs(command: Path) -> None:
    assert re.search(HOOK["files"], "exported/model.pte")
    assert not re.search(HOOK["files"], "exported/model.ptd")
    words = shlex.split(HOOK["entry"])
    assert words[0] == "hazard"
    environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    for path, code in ((SEED, 1), (PROVED, 0)):
        done = subprocess.run([*words, str(path)], env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, "")
    hooks = yaml.safe_load((ROOT / "examples" / "ci" / "pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [h["id"] for h in hooks] == [HOOK["id"]]
