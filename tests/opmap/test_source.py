"""YAML files: what is wrong is said with file, line, row and reason; a YAML file can run no code."""

from __future__ import annotations

from pathlib import Path

import pytest
from opmap_calls import call, of, text

from ms_port.opmap import NoLowering, OpMap, OpMapError, op_map_directory

GOOD = "own.f: {signature: x, function: ops.relu, untested: a test's row}\n"


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("own.f: {signature: x, function: ops.relu", 1, "not YAML"),
        ("own.f:\n  signature: x\n  fonction: ops.relu\n", 1, "fonction"),
        ("own.f:\n  signature: x\n", 1, "no target|exactly one target"),
        ("own.f:\n  signature: 'x, y'\n  function: ops.f\n  method: g\n", 1, "exactly one target"),
        (GOOD + "own.f:\n  signature: x\n  function: ops.g\n", 2, "stands twice"),
        ("own.f:\n  signature: 'x y'\n  function: ops.f\n", 1, "signature"),
        ("own.f:\n  signature: 'x: Number'\n  function: ops.f\n", 1, "unknown type hint"),
        ("own.f:\n  signature: x\n  expression: '{{ y }}'\n", 1, "names y, which the signature lacks"),
        ("own.f:\n  signature: x\n  expression: '{{ x '\n", 1, "template"),
        ("own.f:\n  signature: x\n  function: ops.f\n  args: {x: y}\n", 1, "'y' is no parameter"),
        ("own.f:\n  signature: x\n  function: ops.f\n  variants: [{when: 'x ===', function: ops.g}]\n", 1, "x ==="),
        ("own.f:\n  signature: x\n  function: ops.f\n\n  flag: hm\n", 5, "does not match"),
        ("# rows\nthis is no row\n", 1, "begins with the API"),
        ("own.f: 3\n", 1, "a row is a mapping"),
    ],
)
def test_bad_rows(tmp_path: Path, content: str, line: int, reason: str) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(OpMapError, match=reason) as caught:
        OpMap.load([tmp_path])
    assert caught.value.file == tmp_path / "bad.yaml"
    assert caught.value.line == line
    assert f"bad.yaml:{line}" in str(caught.value)


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(OpMapError, match="no such directory"):
        OpMap.load([tmp_path / "nothing"])


def test_a_users_row_wins_and_the_base_stays(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(GOOD.replace("own.f", "torch.nn.functional.gelu"))
    op_map = OpMap.load([tmp_path])
    assert text(op_map.lower(call("torch.nn.functional.gelu", of("x")))) == "ops.relu(x)"
    assert op_map.row("torch.nn.Linear") is not None


@pytest.mark.parametrize(
    "template",
    [
        "{{ x.__class__ }}",
        "{{ value(x).__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ x.nodes.__class__ }}",
        "{{ given.__globals__ }}",
        "{{ self.__init__ }}",
    ],
)
def test_templates_are_sandboxed(tmp_path: Path, template: str) -> None:
    (tmp_path / "own.yaml").write_text(
        f'torch.Tensor.own: {{signature: x, expression: "f({template}, {{{{ x }}}})", untested: no}}\n'
    )
    with pytest.raises(NoLowering, match="bad row"):
        OpMap.load([tmp_path]).lower(call("torch.Tensor.own", of("1"), self=of("y")))


def test_yaml_is_loaded_safely(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("own.f: {signature: x, function: !!python/name:os.system }\n")
    with pytest.raises(OpMapError, match="not YAML"):
        OpMap.load([tmp_path])


def test_numbers_and_words(tmp_path: Path) -> None:
    """1e-5 is a number; on, off, yes, no are words."""
    (tmp_path / "own.yaml").write_text(
        "own.f: {signature: 'x, eps=1e-5', function: ops.f, args: {x: x, eps: {value: eps, default: 1e-5}}, untested: no}\n"
    )
    op_map = OpMap.load([tmp_path])
    row = op_map.row("own.f")
    assert row is not None
    assert row.untested == "no"
    assert text(op_map.lower(call("own.f", "x"))) == "ops.f(x)"


def test_the_base_is_found() -> None:
    assert (op_map_directory() / "README.md").is_file()
