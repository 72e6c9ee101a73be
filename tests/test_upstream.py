"""The pages for upstream reports: every script prints what its page says."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "docs" / "upstream"
PAGES = sorted(p for p in FOLDER.glob("*.md") if p.name != "README.md")
HEADINGS = ["Mechanism", "Smallest model", "Where", "Suggested fix"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_script_prints_what_the_page_says(page: Path) -> None:
    (script,) = blocks(page, "python")
    measured = blocks(page, "text")
    # The newer release is shown first.
    expected = measured[-1] if metadata.version("executorch").startswith("1.4") else measured[0]
    torch._dynamo.reset()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(script, str(page), "exec"), {"__name__": page.stem})
    assert printed.getvalue() == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page_has_its_parts(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^## (.*)$", text, re.M) == HEADINGS
    assert "1.4.1 and 1.5.1" in " ".join(text.split())


def test_every_page_is_listed() -> None:
    listed = re.findall(r"\]\((.*?)\)", (FOLDER / "README.md").read_text())
    assert sorted(listed) == [p.name for p in PAGES]


@pytest.mark.parametrize(
    ("test", "said"), [("no/such/test.py", "USAGE_ERROR"), ("tests/test_predicates.py", "no program was checked")]
)
def test_a_run_that_checks_nothing_is_an_error(test: str, said: str) -> None:
    command = [sys.executable, "-m", "tests.upstream", test]
    done = subprocess.run(command, cwd=FOLDER.parent.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
