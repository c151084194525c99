"""An argument or a field that the port can't pass."""

from __future__ import annotations

import ast

from ms_port.passes.lowering.scope import Untranslatable

ABSENT = "__absent__"
"""Stands for it; the signature pass removes it with the parameter it fed, what is left is flagged at the end."""


def absent_name(error: Untranslatable) -> ast.Name:
    """The name that stands for what could not be written; it holds the reason."""
    name = ast.Name(ABSENT, ast.Load())
    name.reason = error.reason  # type: ignore[attr-defined]
    return name
