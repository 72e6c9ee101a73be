"""The cases of the corpus, without torch: what they are called, where their files are, what the runtime did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

# The release whose program every case carries (unless it cannot be exported), and the older one that is compared.
CURRENT_RELEASE = "1.5.1"
RELEASES = ("1.4.1", CURRENT_RELEASE)


@dataclass(frozen=True)
class Case:
    """One folder of the corpus."""

    name: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def model(self) -> Path:
        return self.folder / "model.py"

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of `outcome.json`."""
        record: dict[str, Any] = json.loads((self.folder / "outcome.json").read_text())
        return record

    @property
    def kind(self) -> str | None:
        """The class of the fault (`README.md` lists them), or None where memory is not at fault."""
        kind: str | None = self.record["kind"]
        return kind

    @property
    def cause(self) -> str | None:
        """What goes wrong, or why nothing does where one might expect it."""
        cause: str | None = self.record["cause"]
        return cause

    @property
    def reproducible(self) -> bool:
        """Whether exporting the case once more gives the same bytes."""
        return bool(self.record.get("reproducible", True))

    def outcome(self, release: str = CURRENT_RELEASE) -> dict[str, Any]:
        """What that release did with the case: {"outcome": "match"} or more, as `runner.observe` states it."""
        outcome: dict[str, Any] = self.record["releases"][release]
        return outcome

    def program(self, release: str = CURRENT_RELEASE) -> Path | None:
        """The program that the release exports, or None if it exports none.

        An older release has a file of its own only where its bytes differ.
        """
        if self.outcome(release)["outcome"] == "EXPORT_ERROR":
            return None
        own = self.folder / f"{release}.pte"
        return own if own.exists() else self.folder / f"{CURRENT_RELEASE}.pte"


def names() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob("*/model.py"))


def cases() -> Iterator[Case]:
    """All cases, by name."""
    return map(Case, names())


def programs(release: str = CURRENT_RELEASE) -> Iterator[tuple[Case, Path]]:
    """The cases that the release exports, with their programs."""
    for case in cases():
        if path := case.program(release):
            yield case, path
