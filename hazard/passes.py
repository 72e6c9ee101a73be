"""Passes for ExecuTorch's pipeline that change graphs; torch and executorch are imported when they are used."""

from hazard.repair.escapes import MaterializeEscapes

__all__ = ["MaterializeEscapes"]
