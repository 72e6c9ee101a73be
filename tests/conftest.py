"""Fixtures of the tests that export and run programs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def quiet() -> Iterator[None]:
    """Keeps torch and executorch from telling what they do while they export."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(before)


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """The module that exports the corpus and runs it; it imports torch and executorch."""
    from corpus import runner

    return runner
