"""The command line: exit codes, streams, files, and what is imported."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import jsonschema
import pytest

import hazard
from hazard.cli import main
from hazard.cli.app import app
from hazard.cli.targets import is_graph_target
from hazard.declarations import declarations_of, read_declarations
from hazard.files import programs_in, write_text
from hazard.program import InputError
from hazard.report import FORMATS
from hazard.rule import rule_files

ROOT = Path(__file__).resolve().parent.parent
SEED = ROOT / "corpus" / "seed_two_conds" / "1.5.1.pte"
PROVED = ROOT / "corpus" / "c05_nested_true" / "1.5.1.pte"
ASSUMED = ROOT / "corpus" / "f33b_clone_workaround" / "1.5.1.pte"
PROGRAMS = sorted((ROOT / "corpus").glob("*/*.pte"))

UNKNOWN = """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[2,2] @ 1+0
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %1 %3
  chain
    0  aten::sin.out(%0, %1, %1)
    1  mine::twist.out(%2, %3, %3)
    2  aten::cos.out(%0, %1, %1)
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process; gives exit code, standard output and error stream."""

    def runner(*arguments: str | Path) -> tuple[int, str, str]:
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return runner


def spawn(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hazard", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **options)  # type: ignore[call-overload, no-any-return]


Run = Callable[..., tuple[int, str, str]]


# --- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [pytest.param(p, id=str(p.parent.name + "/" + p.name)) for p in PROGRAMS])
def test_exit_code_is_that_of_the_report(path: Path, run: Run) -> None:
    code, out, err = run("check", path, "--output-format", "json")
    assert err == ""
    assert code == (0 if hazard.check(path).passed() else 1)
    assert json.loads(out)["verdict"] == hazard.check(path).verdict


def test_threshold(run: Run, tmp_path: Path) -> None:
    assert run("check", SEED)[0] == 1
    assert run("check", SEED, "--fail-on", "never")[0] == 0
    assert run("check", SEED, "--ignore", "HZ101")[0] == 0
    assert run("check", SEED, "--ignore", "HZ1")[0] == 0
    assert run("check", SEED, "--select", "clobbered-branch-result")[0] == 1
    assert run("check", SEED, "--select", "HZ201,HZ202")[0] == 0
    assert run("check", PROVED)[0] == 0
    assert run("check", ASSUMED)[0] == 0
    assert run("check", ASSUMED, "--fail-on-assumption")[0] == 1
    unknown = tmp_path / "unknown.hir"
    unknown.write_text(UNKNOWN)
    assert run("check", unknown)[0] == 0
    assert run("check", unknown, "--fail-on-unknown")[0] == 1
    assert run("check", unknown, "--fail-on", "warning", "--select", "HZ802")[0] == 1


def test_a_hazard_that_no_rule_was_asked_about_is_still_no_proof(run: Run) -> None:
    code, out, _ = run("check", SEED, "--ignore", "HZ101")
    assert code == 0
    assert "proved (" not in out
    assert "hazard (no selected rule reports it)" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check"], "missing argument"),
        (["chekc", "x.pte"], "no such command 'chekc'. Did you mean 'check'? (`hazard --help` shows what there is)"),
        (["check", "--selct", "HZ1", "x.pte"], "no such option '--selct'"),
        (["check", "--jobs", "0", "x.pte"], "`hazard check --help`"),
        (["baseline", "wrte"], "`hazard baseline --help`"),
        (["check", "setup.py"], "name the function in it that makes the program, setup.py:FUNCTION"),
        (["check", "--fail-on", "eror", "x.pte"], "--fail-on"),
        (["check", "gone.pte"], "gone.pte: cannot be read: No such file"),
        (["check", "pyproject.toml"], "pyproject.toml: no ExecuTorch program"),
        (["check", "docs"], "docs: no program here"),
        (["check", "--select", "HZ999", "x.pte"], "unknown rule `HZ999`"),
        (["check", "--ignore", "clobberd-value", "x.pte"], "did you mean `clobbered-value`"),
        (["check", "-o", "json", "x.pte"], "expected FORMAT=FILE"),
        (["check", "-o", "yaml=x", "x.pte"], "`yaml` is no format"),
        (["check", "--effects", "gone.toml", "x.pte"], "gone.toml: cannot be read"),
        (["check", "--host", "phone", "x.pte"], "--host"),
        (["dump", "gone.pte"], "gone.pte: cannot be read"),
        (["explain", "HZ999"], "unknown rule `HZ999`"),
        (["explain", "HZ1"], "names several rules"),
    ],
)
def test_unusable_input_and_usage_exit_with_2(
    arguments: list[str], said: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("hazard: error: ")
    assert err.count("\n") == 1


def test_one_bad_input_keeps_no_other_from_being_checked(run: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pte"
    bad.write_bytes(SEED.read_bytes()[:300])
    code, out, err = run("check", bad, PROVED, tmp_path / "gone.pte", SEED, "--output-format", "json")
    shown = json.loads(out)
    assert code == 2
    assert [p["path"] for p in shown["programs"]] == [str(PROVED), str(SEED)]
    assert len(shown["findings"]) == 2
    assert len(shown["errors"]) == 2
    assert err.splitlines() == [f"hazard: error: {e}" for e in shown["errors"]]
    assert "malformed program at byte" in shown["errors"][0]


def test_a_fault_of_ours_is_one_line_and_101(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise KeyError("a\nb")

    monkeypatch.setattr("hazard.cli.targets.check", broken)
    monkeypatch.delenv("HAZARD_DEBUG", raising=False)
    code, out, err = run("check", SEED)
    assert (code, out) == (101, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("hazard: internal error: KeyError:")
    assert f"hazard {hazard.__version__}" in err
    monkeypatch.setenv("HAZARD_DEBUG", "1")
    code, out, err = run("check", SEED)
    assert code == 101
    assert "Traceback" in err


def test_interrupted_is_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hazard.cli.targets.check", interrupted)
    # The line begins anew: a terminal shows ^C.
    assert run("check", SEED) == (130, "", "\nhazard: interrupted\n")


def test_a_signal_interrupts(tmp_path: Path) -> None:
    pipe = tmp_path / "program.pte"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "hazard", "check", str(pipe)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    # Opening the other end waits until hazard reads.
    with process, open(pipe, "wb"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "\nhazard: interrupted\n")


def test_notes_are_told_in_full_when_asked_for(run: Run) -> None:
    noted = ROOT / "corpus" / "d09_uninit_state" / "1.5.1.pte"
    for arguments, whole in (((), False), (("--verbose",), True), (("-v",), True), (("--fail-on", "note"), True)):
        code, out, _ = run("check", noted, "-q", *arguments)
        assert code == (1 if "note" in arguments else 0)
        assert out.startswith("note[HZ202]: the state")
        assert ("= why:" in out) is whole


def test_a_broken_pipe_is_quiet_and_keeps_the_exit_code() -> None:
    command = [sys.executable, "-m", "hazard", "check", str(SEED)]
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("arguments", [("check", SEED), ("dump", SEED), ("rules",), ("--help",), ("--version",)])
def test_a_full_disk_is_said_in_one_line(arguments: tuple[str | Path, ...]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "hazard", *map(str, arguments)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert re.fullmatch(r"hazard: error: the .*output cannot be written: No space left on device\n", done.stderr)


@pytest.mark.parametrize(
    ("redirected", "code", "out", "err"),
    [
        ("check SEED -q >&-", 1, "", ""),
        ("check SEED -q 2>&- >/dev/null", 1, "", ""),
        ("check gone.pte 2>&-", 2, "", ""),
        ("check - <&-", 2, "", "hazard: error: the standard input is closed\n"),
    ],
)
def test_streams_may_be_closed(redirected: str, code: int, out: str, err: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m hazard {redirected.replace('SEED', shlex.quote(str(SEED)))}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_a_working_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    command = f"rmdir {shlex.quote(str(place))}; exec {shlex.quote(sys.executable)} -P -m hazard check {SEED}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=place)
    assert (done.returncode, done.stderr) == (2, "hazard: error: the working folder does not exist any more\n")


# --- streams and files ------------------------------------------------------------------------------------------------


def test_standard_input(tmp_path: Path) -> None:
    with open(SEED, "rb") as file:
        done = spawn("check", "-", "--output-format", "json", stdin=file)
    shown = json.loads(done.stdout)
    assert done.returncode == 1
    assert shown["programs"][0]["path"] == "<stdin>"
    assert shown["programs"][0]["sha256"] == hazard.check(SEED).programs[0].sha256
    done = spawn("check", "-", input="nothing of use")
    assert (done.returncode, done.stdout) == (2, "")
    assert "<stdin>" in done.stderr


def test_several_outputs_at_once(run: Run, tmp_path: Path) -> None:
    files = {form: tmp_path / f"report.{form}" for form in FORMATS}
    options = [f"-o{form}={path}" for form, path in files.items()]
    code, out, err = run("check", SEED, "--output-format", "concise", *options)
    assert (code, err) == (1, "")
    assert len(out.splitlines()) == 3
    schema = json.loads((ROOT / "hazard" / "report" / "schema.json").read_text())
    jsonschema.validate(json.loads(files["json"].read_text()), schema)
    assert files["full"].read_text().startswith("error[HZ101]")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in files.values())


def test_files_are_replaced_whole_or_left_alone(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old" * 100_000)
    target.chmod(0o640)
    assert run("check", PROVED, "-q", "-o", f"json={target}")[0] == 0
    assert json.loads(target.read_text())["verdict"] == "proved"
    assert target.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [target]
    code, out, err = run("check", SEED, "--output-format", "concise", "-o", f"json={tmp_path}/none/report.json")
    assert code == 2
    assert "none/report.json: cannot be written" in err
    assert "error[HZ101]" in out  # the findings are shown all the same


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    write_text(str(link), "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    write_text(os.devnull, "goes nowhere")


def test_folders_are_searched(tmp_path: Path, run: Run) -> None:
    for name in ("b/two.pte", "a/one.hir", ".hidden/three.pte", "a/notes.txt", "c/data.ptd"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(SEED.read_bytes() if name.endswith(".pte") else UNKNOWN.encode())
    assert programs_in(str(tmp_path)) == [str(tmp_path / "a/one.hir"), str(tmp_path / "b/two.pte")]
    code, out, _ = run("check", tmp_path, tmp_path / "b/two.pte", "--output-format", "json")
    assert code == 1
    assert [p["path"] for p in json.loads(out)["programs"]] == programs_in(str(tmp_path))
    with pytest.raises(InputError, match="no program here"):
        programs_in(str(tmp_path / "c"))


def test_jobs_change_nothing_but_time() -> None:
    paths = PROGRAMS[:8]

    def findings(*options: str) -> object:
        done = spawn("check", *paths, "--output-format", "json", *options)
        shown = json.loads(done.stdout)
        for program in shown["programs"]:
            del program["seconds"]
        return done.returncode, done.stderr, shown["programs"], shown["findings"]

    assert findings("--jobs", "2") == findings()


def test_color(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b[" not in run("check", SEED)[1]
    assert "\x1b[" in run("check", SEED, "--color", "always")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("check", SEED)[1]
    assert "\x1b[" not in run("check", SEED, "--color", "never")[1]
    assert "\x1b[" not in run("check", SEED, "--output-format", "json")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("check", SEED)[1]


# --- dump, rules, explain ---------------------------------------------------------------------------------------------


def test_dump_is_a_fixed_point_and_checks_alike(run: Run, tmp_path: Path) -> None:
    code, text, err = run("dump", SEED)
    assert (code, err) == (0, "")
    copy = tmp_path / "seed.hir"
    assert run("dump", SEED, "-o", copy) == (0, "", "")
    assert copy.read_text() == text
    assert run("dump", copy)[1] == text
    marks = [
        [f["fingerprint"] for f in json.loads(run("check", p, "--output-format", "json")[1])["findings"]]
        for p in (SEED, copy)
    ]
    assert marks[0] == marks[1]
    assert len(marks[0]) == 2


def test_rules_are_listed(run: Run) -> None:
    code, out, _ = run("rules")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == sorted(rule_files())
    shown = json.loads(run("rules", "--output-format", "json")[1])
    assert [r["code"] for r in shown["rules"]] == sorted(rule_files())


def test_explain_is_laid_out_on_a_terminal(run: Run) -> None:
    code, out, _ = run("explain", "HZ101", "--color", "always")
    assert code == 0
    assert "\x1b[" in out
    assert "## What it does" not in out
    assert "What it does" in out


# --- effects of custom operators --------------------------------------------------------------------------------------


def test_effects_template_is_written_and_completes_the_proof(run: Run, tmp_path: Path) -> None:
    program, effects = tmp_path / "unknown.hir", tmp_path / "effects.toml"
    program.write_text(UNKNOWN)
    assert run("check", program, "--effects-template", effects)[0] == 0
    text = effects.read_text()
    assert '# [operators."mine::twist.out"]' in text
    assert "#   2: %3 = tensor f32[4] @ 1+32" in text
    assert read_declarations(str(effects)) == {}
    # What a person does with it: remove the comment signs of the declaration.
    lines = [line.removeprefix("# ") if line.startswith(("# [", "# writes")) else line for line in text.splitlines()]
    effects.write_text("\n".join(lines))
    assert list(read_declarations(str(effects))) == ["mine::twist.out"]
    code, out, _ = run("check", program, "--effects", effects, "--fail-on-unknown")
    assert code == 0
    assert "unknown:" not in out


def test_effects_template_without_unknown_operators(run: Run, tmp_path: Path) -> None:
    effects = tmp_path / "effects.toml"
    assert run("check", PROVED, "-q", "--effects-template", effects) == (0, "", "")
    assert "No unknown operator was met." in effects.read_text()
    assert read_declarations(str(effects)) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("operators = 3", "`operators` must be a table"),
        ("[oprators]", "unknown key `oprators`"),
        ('[operators."twist"]', "expected a name such as"),
        ('[operators]\n"a::b" = 1', "expected a table"),
        ('[operators."a::b"]\nwrite = [0]', "unknown key `write`; did you mean `writes`?"),
        ('[operators."a::b"]\nwrites = 0', "`writes` must be a list of positions"),
        ('[operators."a::b"]\nwrites = [true]', "`writes` must be a list of positions"),
        ('[operators."a::b"]\npure = 1', "`pure` must be true or false"),
        ("[operators", "not TOML"),
    ],
)
def test_faulty_declarations_are_named(text: str, said: str, tmp_path: Path, run: Run) -> None:
    effects = tmp_path / "effects.toml"
    effects.write_text(text)
    code, out, err = run("check", PROVED, "--effects", effects)
    assert (code, out) == (2, "")
    assert f"{effects}: " in err
    assert said in err
    assert len(err.splitlines()) == 1


def test_declarations_are_read_as_written() -> None:
    declared = declarations_of({"a::b.out": {"writes": [-1, 2], "updates": [0], "elementwise": True}}, "x.toml")
    chosen = declared["a::b.out"]
    assert (chosen.writes, chosen.updates, chosen.elementwise, chosen.pure) == ((-1, 2), (0,), True, True)


# --- targets and start-up ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("package.module:factory", True),
        ("net.py:make", True),
        ("models/net.py:Factory.make", True),
        ("model.pte", False),
        ("C:\\model.pte", False),
        ("a:b/c", False),
        ("-", False),
    ],
)
def test_graph_targets_are_told_from_files(target: str, expected: bool) -> None:
    assert is_graph_target(target) is expected


def test_an_existing_file_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net:make").write_bytes(SEED.read_bytes())
    assert not is_graph_target("net:make")


def imported(*arguments: str | Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hazard", *map(str, arguments)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    lines = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert "hazard" in lines
    return {line.partition(".")[0] for line in lines} | set(lines)


HEAVY = {"torch", "executorch", "numpy", "z3", "rich", "flatbuffers", "asyncio", "importlib.metadata"}


def test_version_loads_next_to_nothing() -> None:
    assert not imported("--version") & (HEAVY | {"click", "hazard.api", "dataclasses.fields"})


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", PROVED],
        ["check", SEED, "--output-format", "json"],
        ["check", SEED, "--output-format", "sarif"],
        ["dump", SEED],
        ["rules"],
        ["explain", "HZ101"],
        ["check", "--help"],
    ],
)
def test_nothing_heavy_is_loaded_where_it_is_not_needed(arguments: list[str | Path]) -> None:
    assert not imported(*arguments) & HEAVY


def test_every_option_has_help() -> None:
    def walk(command: click.Command) -> None:
        assert command.help
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{command.name} {parameter.opts}"
        if isinstance(command, click.Group):
            for inner in command.commands.values():
                walk(inner)

    walk(app)


def test_help_tells_exit_codes_and_examples(run: Run) -> None:
    code, out, _ = run("check", "--help")
    assert code == 0
    for text in ("Inputs:", "Rules:", "Output:", "Examples:", "hazard check model.pte", "101  a fault of hazard"):
        assert text in out


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"hazard {hazard.__version__}\n", "")


def test_a_checkout_that_python_finds_first_has_its_rules() -> None:
    """What `python` and `python -m` import where the source lies, beside an installation that is not editable."""
    code = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()];"
        f"sys.path.insert(0, {str(ROOT)!r}); import hazard;"
        "print(hazard.__file__); print(hazard.check(sys.argv[1]).findings[0].code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(SEED)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout.split() == [str(ROOT / "hazard" / "__init__.py"), "HZ101"], done.stderr
