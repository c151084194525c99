"""How settings read in the port after their way through a constructor; nothing is run (tests/passes/nets_settings.py is)."""

from __future__ import annotations

import ast

from ms_port.passes.write_only import write_only
from tests.passes import nets_settings
from tests.passes.port import port


def _source(tmp_path, name):
    factory, args = nets_settings.CASES[name]
    ported = port(factory, args, tmp_path)
    assert not [f for f in ported.program.flags if f.open]
    return ported.source


def test_settings_stay_what_the_constructor_is_given(tmp_path):
    text = _source(tmp_path, "staged settings")
    assert 'out=settings["out"], depth=settings["depth"], kernel=settings["kernel"]' in text
    assert "made = partial(made, act=act)" in text
    assert "NORMS.get(norm.__name__.lower(), None)" in text
    assert 'NORMS = {"batchnorm2d": NormAct}' in text
    assert "if name in EXTRA_ACTS:" in text and 'ACTS = {"relu": nn.ReLU}' in text and "mystery" not in text


def test_what_says_nothing_in_mindspore_goes_with_all_that_hands_it_on(tmp_path):
    text = _source(tmp_path, "staged settings").replace("In torch ``inplace``", "")
    assert "inplace" not in text and "act_kwargs" not in text and "device" not in text
    assert "self.info" not in text  # filled, and read by nobody
    assert "return act()" in text and "return act() if" not in text


def test_layers_that_are_written_out_are_given_the_constructors_own_settings(tmp_path):
    text = _source(tmp_path, "decoded layers")
    assert "Block(width=5, out=5, kernel=1, act=act)" in text
    assert "self.head = nn.Conv2d(5, 2, 1" in text
    assert "return name" in text and "act = act_class(name)" in text


def test_what_many_layers_repeat_is_stated_once(tmp_path):
    text = _source(tmp_path, "repeated layers")
    assert "block = partial(Block, kernel=1, act=act)" in text
    assert text.count("block(width=") == 5
    assert "Block(width=3, out=4, act=act)" in text


def test_an_arm_that_only_itertools_stands_in_is_not_lost(tmp_path):
    text = _source(tmp_path, "tupled")
    assert "return tuple(itertools.repeat(x, n))" in text and "tuple_of(depth)(kernels)" in text


def test_a_container_that_something_reads_is_no_container_that_is_only_filled():
    def found(source, given=frozenset()):
        return write_only(ast.parse(source).body, lambda value: True, frozenset(given))

    assert found("a = {}\na.setdefault('k', 1)") == {"a"}
    assert found("a = {**a, 'k': 2}\na['j'] = 1") == {"a"}
    assert found("a = a or {}\na['j'] = 1", ["a"]) == {"a"}
    assert found("a = a or {}\na['j'] = 1") == set()
    assert found("a = {}\na.setdefault('k', 1)\nf(a)") == set()
    assert found("a = {}\nb = a.setdefault('k', 1)") == set()
    assert found("a = b\na['k'] = 1") == set()
