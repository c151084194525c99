"""op_maps/functions: what a port needs is copied, in order, with its imports."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from opmap_calls import call, of, text

from ms_port.opmap import OpMap, OpMapError

OWN = '''
"""Own."""

import math

from mindspore import Tensor, nn, ops

LIMIT = math.inf
"""Nothing is larger."""


# Said before the function.
def outer(x: Tensor) -> Tensor:
    return inner(x) + LIMIT


def inner(x: Tensor) -> Tensor:
    return ops.relu(x)


class Unused(nn.Cell):
    pass
'''
ROW = "own.outer: {signature: x, function: outer, untested: a test's row}\n"


def test_what_is_needed_is_copied_in_order(rows: Callable[..., OpMap]) -> None:
    op_map = rows(ROW, OWN)
    lowering = op_map.lower(call("own.outer", of("x")))
    assert text(lowering) == "outer(x)"
    assert lowering.functions == {"outer"}
    source = op_map.function_sources(lowering.functions)
    assert [n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)] == ["inner", "outer"]
    assert source.startswith("import math\n\nfrom mindspore import Tensor, ops\n")
    assert "# Said before the function." in source
    assert source.index('"""Nothing is larger."""') < source.index("def outer")
    assert "Unused" not in source


def test_a_users_name_does_not_become_a_function(rows: Callable[..., OpMap]) -> None:
    """Only names that the row writes count, not those in the caller's own source."""
    op_map = rows(ROW + "own.f: {signature: x, function: ops.relu, untested: no}\n", OWN)
    assert op_map.lower(call("own.f", of("outer"))).functions == frozenset()


def test_a_name_in_two_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "functions").mkdir()
    for name in ("a", "b"):
        (tmp_path / "functions" / f"{name}.py").write_text("def twice() -> None: ...\n")
    with pytest.raises(OpMapError, match=r"twice: stands in a\.py too"):
        OpMap.load([tmp_path])


def test_all_functions_stand_together(op_map: OpMap) -> None:
    """Every definition parses, and nothing it names is missing."""
    source = op_map.function_sources(op_map.function_names - {"__all__"})
    tree = ast.parse(source)
    known = set(dir(__builtins__)) | set(__builtins__ if isinstance(__builtins__, dict) else ())
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                known.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                known.add(name)
            case ast.alias(name=name, asname=other):
                known.add(other or name)
            case ast.ExceptHandler(name=str(name)):
                known.add(name)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert used - known == set()
