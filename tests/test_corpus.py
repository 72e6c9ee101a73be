"""The corpus says the truth: its programs still do what is written down, and its files are complete."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from corpus import cases, index

# Exporting takes a second each, so that only a few are exported anew: one of each way in which cases are made.
EXPORTED_ANEW = [
    "seed_two_conds",
    "seed_two_conds_as_posted",
    "r01_cross_attention_cache",
    "c08b_cond_inside_scan",
    "c16g_reinplace_view_of_constant",
    "c17_dynamic_cond",
    "c19_multimethod_shared_state",
    "c20_xnnpack_around_cond",
    "c22c_greedy_no_overlap",
    "d09_uninit_state",
    "d11_remove_clone_transform",
    "e03f_custom_storage_partial_overlap",
]

LARGEST_PROGRAM = 64 * 1024


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """Imported when it is needed: it brings torch and executorch along."""
    from corpus import runner

    assert runner.RELEASE == cases.CURRENT_RELEASE
    return runner


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case, _ in cases.programs()])
def test_program_does_what_is_written_down(case: cases.Case, runner: ModuleType) -> None:
    program = case.program()
    assert program is not None
    observed = runner.observe(runner.load_build(case.name), program.read_bytes())
    assert observed == _approximate(case.outcome())


@pytest.mark.parametrize("name", EXPORTED_ANEW)
def test_export_gives_the_committed_bytes(name: str, runner: ModuleType) -> None:
    program = cases.Case(name).program()
    assert program is not None
    assert runner.export(runner.load_build(name)()) == program.read_bytes()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases.cases()])
def test_case_is_complete(case: cases.Case) -> None:
    assert set(case.record) - {"reproducible"} == {"kind", "cause", "releases"}
    assert tuple(case.record["releases"]) == cases.RELEASES
    expected = {"model.py", "outcome.json"}
    if case.program() is not None:
        expected.add(f"{cases.CURRENT_RELEASE}.pte")
    found = {path.name for path in case.folder.iterdir() if path.name != "__pycache__"}
    # An older release's program is there because it differs.
    older = found - expected
    assert older <= {f"{release}.pte" for release in cases.RELEASES}
    assert all((case.folder / name).read_bytes() != _bytes(case) for name in older)
    assert all(path.stat().st_size <= LARGEST_PROGRAM for path in case.folder.glob("*.pte"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases.cases()])
def test_wrong_results_have_a_known_kind_and_a_cause(case: cases.Case) -> None:
    outcomes = {case.outcome(release)["outcome"] for release in cases.RELEASES}
    assert outcomes <= {"match", "MISMATCH", "RUN_ERROR", "EXPORT_ERROR"}
    if "MISMATCH" in outcomes:
        assert case.kind
    if outcomes != {"match"}:
        assert case.cause
    for kind in case.kind.split("+") if case.kind else []:
        assert f"| {kind} |" in index.README.read_text()


def test_readme_lists_the_cases() -> None:
    readme = index.README.read_text()
    assert readme == index.indexed(readme)


def test_corpus_does_not_import_the_analyser() -> None:
    assert not [path for path in cases.FOLDER.rglob("*.py") if "hazard" in _imported(path)]


def _imported(path: Path) -> set[str]:
    """The top-level packages that a source file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def _bytes(case: cases.Case) -> bytes | None:
    program = case.program()
    return program.read_bytes() if program else None


def _approximate(outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome that leaves room for what another processor's arithmetic would change."""
    return {key: _near(value) if key in ("got", "want") else value for key, value in outcome.items()}


def _near(elements: list[Any]) -> list[Any]:
    return [pytest.approx(element, rel=1e-3) if isinstance(element, float) else element for element in elements]
