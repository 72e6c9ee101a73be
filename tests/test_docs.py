"""The documentation is executed: commands give the exit code and the lines that it shows, Python runs, settings parse.

How a page is written, block by block, in a folder of its own that holds a copy of the corpus:

- ``sh``: every line is a command; ``# exit 1`` behind it states its exit code, else that is 0. ``sh noexec`` is for
  what needs a package registry or another service, and is not executed;
- ``text`` right behind a block that runs: lines of its output, in this order; ``...`` stands for any other
  lines, or for the rest of one;
- ``python``, ``toml``, ``yaml``, ``hir``: a first line such as ``# export.py`` makes it that file; other Python is run,
  all blocks of a page with common names;
- ``toml`` is read by hazard; ``yaml`` is YAML, and what it says about our action and hook is so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import hazard
from hazard.cli.app import app
from hazard.cli.explain import page as rule_page
from hazard.config import read_settings
from hazard.declarations import read_declarations
from hazard.rule import all_rules

ROOT = Path(__file__).resolve().parent.parent
#: Reports that are written by long measurements; they show nothing to be repeated by a reader.
MEASURED = {"evidence", "placement"}
GUIDES = sorted(p for p in (ROOT / "docs").glob("*.md") if p.stem not in MEASURED)
#: The pages that follow the conventions above to the letter.
STRICT = [p for p in GUIDES if p.stem != "design"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *GUIDES]
LANGUAGES = {"sh", "sh noexec", "text", "python", "toml", "yaml", "hir"}
FILE_NAME = re.compile(r"# ([\w./-]+\.\w+)$")
#: Files that hold settings of hazard, and those that declare operators.
SETTINGS = ("pyproject.toml", "hazard.toml")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language with the words behind it, its text, and the line of its page."""

    kind: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    return [
        Block(m[1], m[2], text.count("\n", 0, m.start()) + 1)
        for m in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def prose(path: Path) -> str:
    return re.sub(r"^```[^\n]*\n.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[tuple[str, int]]:
    """The command lines of a block with the exit code that each states."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            stated = re.search(r"# exit (\d+)$", line)
            found.append((line, int(stated[1]) if stated else 0))
    return found


def steady(line: str) -> str:
    """A line of output without what differs from run to run."""
    return re.sub(r"\d+\.\d+ ?s\b", "N s", line.rstrip())


def missing_line(shown: str, output: str) -> str | None:
    """The first line that the page shows and the output does not have behind those before it."""
    rest = iter([steady(line) for line in output.splitlines()])
    for line in shown.splitlines():
        if line.strip() not in ("", "..."):
            wanted = re.compile(".*".join(map(re.escape, steady(line).split("..."))))
            if not any(wanted.fullmatch(found) for found in rest):
                return line
    return None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder as a reader has it: the corpus, and this Python's commands."""
    place = tmp_path / "work"
    shutil.copytree(ROOT / "corpus", place / "corpus", ignore=shutil.ignore_patterns("__pycache__"))
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, module in (("hazard", "-m hazard"), ("pytest", "-m pytest"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        (tools / name).chmod(0o755)
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("hazard.rule._PLUGGED", {})  # what a page's settings load is gone with the page
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    return place


def run(text: str, where: str) -> str:
    """Runs the commands of a block, holds their exit codes against the page, and returns what they wrote."""
    output = ""
    for command, code in commands(text):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, f"{where}: {command}\n{done.stdout}\n{done.stderr}"
        output += done.stdout + done.stderr
    return output


def install(project: dict[str, Any] | None) -> None:
    """Makes a project's entry points known to whatever runs in the working folder, as installing it would."""
    if project is not None:
        info = Path(f"{project['name']}-{project['version']}.dist-info")
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        groups = project["entry-points"].items()
        lines = [line for group, names in groups for line in (f"[{group}]", *(f"{n} = {m}" for n, m in names.items()))]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def check_toml(path: Path, where: str) -> None:
    content = tomllib.loads(path.read_text())
    if path.name in SETTINGS and (path.name == "hazard.toml" or "hazard" in content.get("tool", {})):
        assert read_settings(str(path)).path == str(path), where
    elif path.name == "pyproject.toml":
        assert "pytest" in content.get("tool", {}) or "project" in content, where
        install(content.get("project"))
    else:
        assert read_declarations(str(path)), where


def check_yaml(text: str, where: str) -> None:
    content = yaml.safe_load(text)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    hooks = {h["id"] for h in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    ours = 0
    for job in content.get("jobs", {}).values():
        for step in job["steps"]:
            if "/hazard@" in step.get("uses", ""):
                ours += 1
                assert step["with"].keys() <= action["inputs"].keys(), where
    for repository in content.get("repos", []):
        if repository["repo"].endswith("/hazard"):
            ours += 1
            assert {h["id"] for h in repository["hooks"]} <= hooks, where
    assert ours, f"{where}: says nothing about hazard"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_blocks_have_a_known_language(path: Path) -> None:
    kinds = [(b.kind, b.line) for b in blocks(path)]
    allowed = LANGUAGES if path in STRICT else {*LANGUAGES, ""}
    assert [k for k in kinds if k[0] not in allowed] == []
    if path in STRICT:
        tagged = [k for k in kinds if k[0] == "sh noexec"]
        assert len(tagged) <= 2, "`noexec` is for what a test cannot run"


@pytest.mark.parametrize("path", [ROOT / "README.md", *GUIDES], ids=lambda p: p.stem)
def test_blocks_do_what_the_page_says(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    loaded = set(sys.modules)
    output: str | None = None
    for block in blocks(path):
        where = f"{path.name}:{block.line}"
        language = block.kind.partition(" ")[0]
        head = FILE_NAME.match(block.text.partition("\n")[0])
        if head:
            target = folder / head[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        if block.kind == "text":
            if output is not None:
                assert missing_line(block.text, output) is None, f"{where}\n{output}"
            continue
        output = None
        if block.kind == "sh":
            output = run(block.text, where)
        elif language == "python" and not head:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, where, "exec"), names)
            output = printed.getvalue()
        elif language == "toml":
            assert head, f"{where}: which file is it?"
            check_toml(folder / head[1], where)
        elif language == "yaml":
            check_yaml(block.text, where)
    for name in set(sys.modules) - loaded:
        if str(folder) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def test_the_readme_shows_what_is_printed(folder: Path) -> None:
    shown = [b.text for b in blocks(ROOT / "README.md") if b.text.startswith("error[")]
    assert shown
    output = run("hazard check corpus/seed_two_conds/1.5.1.pte # exit 1", "README.md")
    assert all(text in output for text in shown)


# --- words and links --------------------------------------------------------------------------------------------------


def options() -> dict[str, set[str]]:
    """The options of every command by its full name."""
    found: dict[str, set[str]] = {}

    def walk(name: str, command: click.Command) -> None:
        names = {o for p in command.params if isinstance(p, click.Option) for o in (*p.opts, *p.secondary_opts)}
        found[name] = names | {"-h", "--help"}
        if isinstance(command, click.Group):
            for sub, child in command.commands.items():
                walk(f"{name} {sub}", child)

    walk("hazard", app)
    return found


OPTIONS = options()
#: Options of others that the pages mention.
FOREIGN = {"--strict", "--show-capture", "--junitxml"}


def executed_options() -> set[str]:
    shown = (b.text for p in [ROOT / "README.md", *GUIDES] for b in blocks(p) if b.kind == "sh")
    return {o for text in shown for o in re.findall(r"(?<=\s)--[a-z][a-z-]*", text)}


@pytest.mark.parametrize("path", [ROOT / "README.md", *GUIDES], ids=lambda p: p.stem)
def test_commands_and_options_in_the_text_are_executed(path: Path) -> None:
    executed = executed_options() | FOREIGN
    for span in re.findall(r"`([^`\n]+)`", prose(path)):
        words = span.split()
        if span.startswith("python -m ") and words[2] != "hazard":
            continue  # tools of the project, for those who work on it
        used = {w.partition("=")[0] for w in words if re.match(r"--[a-z]", w)}
        assert used <= executed, span
        if words[0] == "hazard" and len(words) > 1:
            name = next((n for n in (" ".join(words[:3]), " ".join(words[:2])) if n in OPTIONS), "hazard")
            assert name != "hazard" or words[1].startswith("-") or words[1].isupper(), span
            assert used <= OPTIONS[name], span


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", t.lower())).strip("-") for t in titles}


@pytest.mark.parametrize(
    "path",
    [*PAGES, ROOT / "CHANGELOG.md", ROOT / "corpus" / "README.md", *sorted((ROOT / "docs" / "upstream").glob("*.md"))],
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_links_lead_somewhere(path: Path) -> None:
    codes = {r.code for r in all_rules()}
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if target.startswith("https://"):
            continue
        place, _, anchor = target.partition("#")
        goal = (path.parent / place).resolve() if place else path
        if goal.parent == ROOT / "docs" / "rules":
            assert goal.stem in {*codes, "index"}, target
            continue
        if goal in (ROOT / "docs" / "commands.md", ROOT / "docs" / "python.md"):
            continue
        assert goal.exists(), target
        assert not anchor or anchor in anchors(goal), target


# --- the site ---------------------------------------------------------------------------------------------------------


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = {p.relative_to(site).as_posix() for p in site.rglob("*.html")}
    written = {p.relative_to(ROOT / "docs").with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")}
    pages = {p.as_posix().replace("README", "index") for p in written}
    rules = {f"rules/{r.code}.html" for r in all_rules()}
    assert made == {"404.html", "commands.html", "python.html", "rules/index.html"} | pages | rules
    # Nothing that a page needs is loaded from elsewhere.
    for page in site.rglob("*.html"):
        assert not re.search(r'(?:src|<link [^>]*href)="(?:https?:)?//', page.read_text()), page


def test_generated_pages_are_complete() -> None:
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.pages()
    for rule in all_rules():
        assert made[f"rules/{rule.code}.md"] == rule_page(rule)
        assert f"[{rule.code}]({rule.code}.md) | {rule.name} |" in made["rules/index.md"]
    assert re.findall(r"^## (\w+)$", made["python.md"], re.MULTILINE) == [n for n in hazard.__all__ if n[0] != "_"]
    for name, names in OPTIONS.items():
        section = made["commands.md"].partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert [o for o in names if o not in section] == []
