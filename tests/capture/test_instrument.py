"""Instrumented copies compute what the originals do, and report what they did."""

from __future__ import annotations

import ast
import traceback

import pytest
import torch
from constructs import Constructs
from reading import calls, effects, function, values

from ms_port.capture import CaptureError, Inputs, record
from ms_port.capture.instrument import CopyMaker, enclosing_class, swapped
from ms_port.capture.recorder import Recorder


@pytest.fixture(scope="module")
def recording():
    return record(Constructs, Inputs((torch.randn(2, 4),)), arguments={"width": 4})


def instrumented(*functions):
    recorder = Recorder()
    maker = CopyMaker(recorder.announce)
    copies = [(item, maker.copy(item.__code__, item)) for item in functions]
    assert all(code is not None for _, code in copies), dict(maker.skipped)
    return recorder, swapped(copies)


def test_every_construct_gives_the_same_result(recording):
    expected = Constructs().all_results()
    (in_eval, in_train) = function(recording, "Constructs.all_results").activations
    assert repr(in_eval.result) == repr(expected)
    assert repr(in_train.result) == repr(expected)


def test_everything_but_generators_is_instrumented(recording):
    assert recording.skipped == {"generator": 2}
    assert {code.co_qualname for code in recording.uninstrumented} == {"quiet", "Constructs.generator"}


def test_nodes_of_a_tree_have_distinct_numbers_and_lines_of_the_file(recording):
    for item in recording.functions:
        lines = open(item.file).read().splitlines()
        expressions = [node for node in ast.walk(item.tree) if isinstance(node, (ast.expr, ast.stmt))]
        assert len({node.nid for node in expressions}) == len(expressions)
        assert item.source.splitlines()[0] == lines[item.line - 1]
        for node in expressions:
            if isinstance(node, ast.Name):
                assert lines[node.lineno - 1].encode()[node.col_offset :].decode().startswith(node.id)


def test_nothing_is_left_in_user_code(recording):
    for item in recording.functions:
        if item.function is not None:
            assert item.function.__code__ is item.code
    assert "hook" not in repr(Constructs.closures.__code__.co_consts)


def test_run_time_closures_have_records_of_their_own(recording):
    closures = function(recording, "Constructs.closures")
    twice = function(recording, "Constructs.closures.<locals>.twice")
    assert twice.outer is closures
    assert twice.function is None
    activation = twice.activations[0]
    assert activation.closure["factor"] == 3
    assert activation.arguments == {"value": 4}
    (call,) = calls(closures.activations[0], "twice(x)")
    assert call.children == [activation]


def test_values_in_order_with_branches_that_ran(recording):
    loops = function(recording, "Constructs.loops").activations[0]
    assert values(loops, "index == 1") == [False, True, False, False, False, False, False]
    ran = [
        node for node in ast.walk(loops.function.tree) if isinstance(node, ast.stmt) and node.nid in loops.statements
    ]
    assert any(isinstance(node, ast.Continue) for node in ran)
    assert not any(isinstance(node, ast.AugAssign) and isinstance(node.op, ast.FloorDiv) for node in ran)


def test_containers_are_snapshots(recording):
    handlers = function(recording, "Constructs.handlers").activations[0]
    assert values(handlers, "seen") == [[]]
    assert len(handlers.result) == 4


def test_effects_of_constructor_statements(recording):
    (init,) = function(recording, "Constructs.__init__").activations
    assert effects(init) == {
        "super().__init__(width, bias=False)": {"linear", "_Base__secret"},
        "self.layers = nn.ModuleList()": {"layers"},
        "self.layers.append(nn.Linear(width, width))": {"layers"},
        "self.register_buffer(name, torch.full((size,), 1.0))": {"a", "b"},
        "self._make_more(width)": {"more"},
        "self.plain = [1, 2]": {"plain"},
    }
    (super_call,) = calls(init, "super().__init__(width, bias=False)")
    assert [child.function.qualname for child in super_call.children] == ["Base.__init__"]


def test_constructor_arguments_as_they_came_in(recording):
    arguments = recording.module_arguments[id(recording.model)]
    assert arguments.cls is Constructs
    assert arguments.arguments == {"width": 4, "depth": 2}
    layer = recording.module_arguments[id(recording.model.layers[0])].arguments
    assert layer["in_features"] == 4
    assert layer["bias"] is True


def test_wrappers_that_share_code_and_methods_of_local_classes(recording):
    wrapper = function(recording, "doubling.<locals>.wrapper")
    assert len({id(item.closure["function"]) for item in wrapper.activations}) > 1
    shifted = function(recording, "Constructs.closures.<locals>.Local.shifted")
    assert shifted.outer is function(recording, "Constructs.closures")


def test_statements_of_one_mode(recording):
    node = next(n for n in ast.walk(recording.roots["train"].function.tree) if isinstance(n, ast.IfExp))
    assert node.test.nid in recording.roots["eval"].values
    assert node.body.nid not in recording.roots["eval"].values
    assert node.body.nid in recording.roots["train"].values


def raises(value):
    checked = value + 1
    return checked.missing(
        value,
    )


def test_tracebacks_show_the_user_s_lines():
    _, swap = instrumented(raises)
    with pytest.raises(AttributeError) as plain:
        raises(1)
    with swap, pytest.raises(AttributeError) as copied:
        raises(1)

    def lines(error):
        return [
            frame.lineno
            for frame in traceback.extract_tb(error.tb)
            if frame.filename == __file__ and frame.name == "raises"
        ]

    assert lines(plain) == lines(copied)


def countdown(n):
    return [n, *countdown(n - 1)] if n else []


def test_recursion():
    recorder, swap = instrumented(countdown)
    with swap:
        assert countdown(3) == [3, 2, 1]
    activations = recorder.functions[0].activations
    assert [item.result for item in activations] == [[3, 2, 1], [2, 1], [1], []]
    assert [item.parent for item in activations] == [None, *activations[:-1]]


def consumes(items):
    return list(items)


def lazy(n):
    return consumes(abs(i) for i in range(n))


def test_a_generator_expression_consumed_elsewhere_reports_nothing_wrong():
    recorder, swap = instrumented(consumes, lazy)
    with swap:
        assert lazy(2) == [0, 1]
    assert not any(
        callee.callee is abs
        for item in recorder.functions
        for a in item.activations
        for c in a.calls.values()
        for callee in c
    )


table = {"double": lambda x: x * 2, "triple": lambda x: x * 3}
first, second = (lambda x: x + 1), (lambda x: x + 2)


def test_lambdas_of_a_module_also_on_one_line():
    recorder, swap = instrumented(table["triple"], first, second)
    with swap:
        assert (table["triple"](2), first(1), second(1)) == (6, 2, 3)
    assert [ast.unparse(item.tree.body) for item in recorder.functions] == ["x * 3", "x + 1", "x + 2"]
    assert [item.activations[0].result for item in recorder.functions] == [6, 2, 3]


def test_enclosing_class():
    assert enclosing_class("A.f") == "A"
    assert enclosing_class("A.f.<locals>.g") == "A"
    assert enclosing_class("f.<locals>.g") is None
    assert enclosing_class("f.<locals>.A.g") == "A"
    assert enclosing_class("f") is None


def test_hooks_never_ask_a_user_s_object():
    class Rude:
        def __getattribute__(self, name):
            raise RuntimeError(name)

        def __eq__(self, other):
            raise RuntimeError("eq")

        __hash__ = None

    _, swap = instrumented(consumes)
    with swap:
        rude = Rude()
        assert consumes([rude])[0] is rude


def test_errors_name_what_is_callable():
    with pytest.raises(CaptureError, match="can't be called"):
        record(3, Inputs())
