"""Verification: the port against torch in float64, cell by cell, in a process of its own."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ms_port.verify.verdict import LEVELS, Divergence, Level, Status, Verdict, Worst

if TYPE_CHECKING:
    from ms_port.verify.run import TIMEOUT, verify

__all__ = ["LEVELS", "TIMEOUT", "Divergence", "Level", "Status", "Verdict", "Worst", "verify"]


def __getattr__(name: str) -> Any:
    """Import torch only where it is needed: the MindSpore process imports this package too."""
    if name in ("TIMEOUT", "verify"):
        from ms_port.verify import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Callable(ModuleType):
    """``ms_port.verify(out)`` runs ``ms_port.verify.verify(out)``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.verify(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
