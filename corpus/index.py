"""Keeps the table of cases in the corpus's README: `python -m corpus.index` writes it anew."""

from __future__ import annotations

import ast

from corpus import cases

README = cases.FOLDER / "README.md"
HEADING = "## The cases\n"


def table() -> str:
    older, current = cases.RELEASES
    rows = [f"| case | kind | {current} | {older} | what it shows |", "| --- | --- | --- | --- | --- |"]
    for case in cases.cases():
        outcomes = [case.outcome(release)["outcome"] for release in (current, older)]
        shows = (ast.get_docstring(ast.parse(case.model.read_text())) or "").splitlines()[0]
        rows.append(" | ".join([f"| [{case.name}]({case.name})", case.kind or "", *outcomes, f"{shows} |"]))
    return "\n".join(rows) + "\n"


def indexed(readme: str) -> str:
    """The README with its last section, the table, as the files now say it."""
    prose, _, _ = readme.partition(HEADING)
    return f"{prose}{HEADING}\n{table()}"


if __name__ == "__main__":
    README.write_text(indexed(README.read_text()))
