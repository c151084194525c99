"""TARGET and --arg: what they name, and what is said when they name nothing."""

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ms_port.errors import BadInput
from ms_port.target import load_arguments, load_object, load_target, parse_arguments, parse_target


@pytest.fixture(autouse=True)
def modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Any:
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))
    return file


@pytest.mark.parametrize(
    ("text", "module", "attribute"),
    [
        ("torch.nn:Linear", "torch.nn", "Linear"),
        ("collections:OrderedDict.fromkeys", "collections", "OrderedDict.fromkeys"),
    ],
)
def test_module_target(text: str, module: str, attribute: str) -> None:
    target = parse_target(text)
    assert (target.module, target.attribute) == (module, attribute)
    load_target(target)


def test_file_target_and_its_neighbour_see_one_module(tmp_path: Path) -> None:
    write(tmp_path, "net_a.py", "class Config: pass\ndef build(config): return type(config) is Config\n")
    write(tmp_path, "example_a.py", "from net_a import Config\nC = Config()\n")
    build = load_target(parse_target("net_a.py:build", tmp_path))
    config = load_arguments({"config": "example_a.py:C"}, tmp_path)["config"]
    assert build(config)


def test_file_inside_a_package_has_relative_imports(tmp_path: Path) -> None:
    write(tmp_path, "proj_x/__init__.py", "")
    write(tmp_path, "proj_x/parts.py", "N = 3\n")
    write(tmp_path, "proj_x/net.py", "from .parts import N\n")
    target = parse_target("proj_x/net.py:N", tmp_path)
    assert load_target(target) == 3
    assert sys.modules["proj_x.net"].__name__ == "proj_x.net"


def test_same_file_name_in_two_folders(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(tmp_path, f"{folder}/source_q.py", f"NAME = '{folder}'\n")
        write(tmp_path, f"{folder}/example_q.py", "from source_q import NAME\n")
    for folder in ("a", "b", "a"):
        assert load_object("source_q.py:NAME", tmp_path / folder) == folder
        assert load_object("example_q.py:NAME", tmp_path / folder) == folder


def test_a_file_named_as_a_standard_module_replaces_nothing(tmp_path: Path) -> None:
    import random

    write(tmp_path, "random.py", "MINE = 1\n")
    assert load_object("random.py:MINE", tmp_path) == 1
    assert sys.modules["random"] is random


BAD_TARGETS = [
    ("resnet50", "does not say which class", "package.module:Attr"),
    ("a b:c", "neither a module's name", "package.module:Attr"),
    ("nowhere.py:Net", "there is no file", "check the path"),
    ("no_such_module_x:Net", "there is no module 'no_such_module_x'", "path/file.py:Attr"),
    ("torch.nn:Linaer", "has no 'Linaer'", "did you mean Linear"),
    ("broken.py:Net", "SyntaxError", "python -c"),
    ("raising.py:Net", "ValueError: not today", "python -c"),
    ("importing.py:Net", "No module named 'no_such_dep'", "install what provides 'no_such_dep'"),
]


@pytest.mark.parametrize(("text", "what", "advice"), BAD_TARGETS)
def test_bad_targets(tmp_path: Path, text: str, what: str, advice: str) -> None:
    write(tmp_path, "broken.py", "x = 1\ndef f(:\n")
    write(tmp_path, "raising.py", "x = 1\n\nraise ValueError('not today')\n")
    write(tmp_path, "importing.py", "import no_such_dep\n")
    with pytest.raises(BadInput) as caught:
        load_target(parse_target(text, tmp_path))
    assert what in caught.value.what
    assert advice in (caught.value.advice or "")
    line = {"broken.py:Net": 2, "raising.py:Net": 3, "importing.py:Net": 1}.get(text)
    if line:
        assert caught.value.where == f"{tmp_path / text.partition(':')[0]}:{line}"


def test_arguments(tmp_path: Path) -> None:
    write(tmp_path, "cfg.py", "TINY = {'a': 1}\n")
    texts = parse_arguments(
        [
            "depth=2",
            "rate=-1e-3",
            "act=relu",
            "name=vit_base_patch16_224",
            "sizes=(1, 2)",
            "x='2'",
            "flag=True",
            "c=cfg.py:TINY",
            "n=None",
            "e=a=b",
            "o=",
        ]
    )
    assert load_arguments(texts, tmp_path) == {
        "depth": 2, "rate": -1e-3, "act": "relu", "name": "vit_base_patch16_224", "sizes": (1, 2), "x": "2", "flag": True, "c": {"a": 1}, "n": None, "e": "a=b", "o": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("items", "what"),
    [
        (["depth"], "not of the form name=value"),
        (["1x=2"], "not of the form name=value"),
        (["a=1", "a=2"], "given twice"),
        (["a=true"], "counts as true"),
        (["a=null"], "write a=None"),
        (["a=[1, 2"], "not a Python literal"),
        (["a=missing.py:X"], "there is no file"),
        (["a=__import__('os').getcwd()"], "not a Python literal"),
    ],
)
def test_bad_arguments(tmp_path: Path, items: list[str], what: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_arguments(parse_arguments(items), tmp_path)
    assert what in str(caught.value)
