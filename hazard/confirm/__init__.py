"""The real runtime as judge: a program beside a twin of itself that never reuses memory, and beside eager."""

from hazard.confirm.judge import Confirmation, Evidence, Missed, confirm

__all__ = ["Confirmation", "Evidence", "Missed", "confirm"]
