"""The imports that a generated file needs, told by the names that it reads."""

from __future__ import annotations

import ast
from collections.abc import Collection

_TYPING = frozenset(
    "Any Callable Dict Iterable Iterator List Mapping NamedTuple Optional Sequence Set Tuple Type Union".split()
)
_INITIALIZERS = frozenset(
    "Constant Dirac HeNormal HeUniform Identity Normal One Orthogonal Sparse TruncatedNormal Uniform "
    "VarianceScaling XavierNormal XavierUniform Zero initializer".split()
)
_MINDSPORE = ("Parameter", "Tensor", "mint", "nn", "ops")


def import_block(tree: ast.Module, functions: Collection[str], stubs: Collection[str]) -> str:
    """Sorted import statements for a module's tree. ``functions``, ``stubs``: names of its own files."""
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    defined = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    defined |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    read -= defined
    packages = ("copy", "functools", "itertools", "math", "operator", "types")
    standard = [f"import {name}" for name in packages if name in read]
    if "OrderedDict" in read:
        standard.append("from collections import OrderedDict")
    if read & {"dataclass", "replace"}:
        names = [name for name in ("dataclass", "field", "replace") if name in read]
        standard.append(f"from dataclasses import {', '.join(names)}")
    if "partial" in read:
        standard.append("from functools import partial")
    if typing := sorted(read & _TYPING):
        standard.append(f"from typing import {', '.join(typing)}")
    third = ["import mindspore as ms"] if "ms" in read else []
    if "np" in read:
        third.append("import numpy as np")
    if own := [name for name in _MINDSPORE if name in read]:
        third.append(f"from mindspore import {', '.join(own)}")
    if init := sorted((read & _INITIALIZERS) - set(functions), key=_isort):
        third.append(f"from mindspore.common.initializer import {', '.join(init)}")
    local = []
    if "functions" in read:
        local.append("from . import functions")
    if stubs:
        local.append(f"from .fixes import {', '.join(sorted(stubs))}")
    if used := sorted((set(functions) & read) - set(stubs) - _qualified(tree), key=_isort):
        local.append(f"from .functions import {', '.join(used)}")
    return "\n\n".join("\n".join(group) for group in (standard, third, local) if group)


def _qualified(tree: ast.Module) -> set[str]:
    """Names that are written ``functions.name``, since the bare name is taken."""
    return {
        n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "functions"
    }


def _isort(name: str) -> tuple[int, str]:
    """ruff's order inside one import: CONSTANTS, Classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
