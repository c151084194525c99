"""What a rewritten file must import, and what the rewrite did at which line."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Set
from dataclasses import dataclass, field

from ms_port.script.project import Module

ROOTS = {
    "ms": "import mindspore as {}",
    "np": "import numpy as {}",
    "math": "import math{}",
    "nn": "from mindspore import nn{}",
    "ops": "from mindspore import ops{}",
    "mint": "from mindspore import mint{}",
    "Tensor": "from mindspore import Tensor{}",
    "Parameter": "from mindspore import Parameter{}",
    "vision": "from mindspore.dataset import vision{}",
    "transforms": "from mindspore.dataset import transforms{}",
    "partial": "from functools import partial{}",
    "nullcontext": "from contextlib import nullcontext{}",
}
"""Names that MindSpore source uses and how each is imported (``{}``: an alias)."""
AT_IMPORT = frozenset({"name_as_torch", "index_by_numpy", "sequential_as_torch"})
"""Parts that run where ms_parts is imported."""
INITIALIZERS = frozenset(
    "initializer Zero One Constant Normal Uniform HeNormal HeUniform XavierUniform XavierNormal TruncatedNormal Orthogonal Identity Sparse Dirac VarianceScaling".split()
)


@dataclass(frozen=True)
class Note:
    """One change or one thing that could not be moved."""

    rule: str
    file: str
    line: int
    end_line: int
    before: str
    after: str
    api: str = ""
    severity: str = "info"
    """``info`` for a change, ``warning`` for what may differ, ``error`` for what raises."""


@dataclass
class Needs:
    """Imports of one file, under names that its own text leaves free."""

    module: Module
    parts: Set[str]
    """Names of op_maps/functions and op_maps/script/functions."""
    used: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    """Ported models: package -> the name of its ``build_model`` here."""

    def name(self, wanted: str) -> str:
        """The local name of a root, an initializer or a part."""
        if wanted not in self.used:
            taken = wanted in self.module.bound and not self._same(wanted)
            self.used[wanted] = f"ms_{wanted}" if taken else wanted
        return self.used[wanted]

    def _same(self, wanted: str) -> bool:
        """Whether the file's own import of that name is the one needed (``import numpy as np``)."""
        if wanted not in self.module.top:
            return False
        target = self.module.names.get(wanted)
        return target is not None and target == {
            "np": "numpy",
            "math": "math",
            "partial": "functools.partial",
            "nullcontext": "contextlib.nullcontext",
        }.get(wanted)

    def known(self, name: str) -> bool:
        return name in ROOTS or name in INITIALIZERS or name in self.parts

    def localized(self, tree: ast.AST, own: Set[str] = frozenset()) -> ast.AST:
        """A lowered tree with its names as this file imports them; ``own`` are names of the file itself."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id not in own and self.known(node.id):
                node.id = self.name(node.id)
        return tree

    def lines(self, parts_module: str) -> list[str]:
        """Import statements, in the order in which people sort them."""
        plain: list[str] = []
        froms: list[str] = []
        initializers: list[str] = []
        parts: list[str] = []
        mindspore: list[str] = []
        for wanted, local in self.used.items():
            alias = "" if wanted == local else f" as {local}"
            if wanted in AT_IMPORT:
                parts += [] if parts or any(w in self.parts - AT_IMPORT for w in self.used) else [wanted]
            elif wanted in self.parts and wanted not in ROOTS:
                parts.append(wanted + alias)
            elif wanted in INITIALIZERS:
                initializers.append(wanted + alias)
            elif self._same(wanted):
                continue
            elif wanted in ("ms", "np"):
                plain.append(ROOTS[wanted].format(local))
            elif wanted == "math":
                plain.append("import math" + alias)
            elif ROOTS[wanted].startswith("from mindspore import"):
                mindspore.append(wanted + alias)
            else:
                froms.append(ROOTS[wanted].format(alias))
        if mindspore:
            froms.insert(0, f"from mindspore import {', '.join(sorted(mindspore, key=str.lower))}")
        if initializers:
            froms.append(f"from mindspore.common.initializer import {', '.join(sorted(initializers))}")
        head = parts_module[: len(parts_module) - len(parts_module.lstrip("."))]
        for package, local in self.packages.items():
            froms.append(f"from {head}{package} import build_model as {local}")
        if parts:
            froms.append(f"from {parts_module} import {', '.join(sorted(parts, key=str.lower))}")
        return [*sorted(plain), *froms]


BUILTINS = frozenset(dir(builtins))
