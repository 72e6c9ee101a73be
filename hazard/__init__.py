"""Proves memory-planned ExecuTorch programs free of aliasing hazards, or shows where, when and on which inputs.

>>> import hazard
>>> report = hazard.check("corpus/seed_two_conds/1.5.1.pte")
>>> report.verdict
'hazard'

Nothing heavy is imported here; torch and executorch are needed only for inputs that hold graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hazard.api import HazardError as HazardError
    from hazard.api import Report as Report
    from hazard.api import assert_no_hazards as assert_no_hazards
    from hazard.api import check as check
    from hazard.pipeline import CheckedPlanning as CheckedPlanning
    from hazard.pipeline import edge_signatures as edge_signatures
    from hazard.program import InputError as InputError
    from hazard.repair.planning import SafePlanning as SafePlanning

_HOMES = {
    "check": "hazard.api",
    "Report": "hazard.api",
    "HazardError": "hazard.api",
    "assert_no_hazards": "hazard.api",
    "InputError": "hazard.program",
    "CheckedPlanning": "hazard.pipeline",
    "edge_signatures": "hazard.pipeline",
    "SafePlanning": "hazard.repair.planning",
}

__all__ = [
    "CheckedPlanning",
    "HazardError",
    "InputError",
    "Report",
    "SafePlanning",
    "__version__",
    "assert_no_hazards",
    "check",
    "edge_signatures",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "passes":
        return importlib.import_module("hazard.passes")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'hazard' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
