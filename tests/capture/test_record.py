"""Recording a model: attribution of calls, roots, wrappers, inputs of all kinds, writes and value reads."""

from __future__ import annotations

import edge
import pytest
import torch
from reading import calls, function, values
from torch import nn

from ms_port.capture import Inputs, record

X = torch.randn(3, 4)


def names(recording, mode="train"):
    return [call.name for call in recording.torch_calls if call.mode == mode]


def test_children_belong_to_the_call_that_entered_them():
    recording = record(edge.Parent, Inputs((X,)), arguments={"width": 4})
    root = recording.roots["train"]
    model = recording.model

    def entered(text):
        (call,) = calls(root, text)
        return [(child.function.qualname, child.self) for child in call.children]

    assert entered("self.through(x)") == [("Child.forward", child) for child in model.through]
    assert entered("checkpoint(self.checkpointed, x, use_reentrant=False)") == [("Child.forward", model.checkpointed)]
    assert entered("self.direct.forward(x)") == [("Child.forward", model.direct)]
    assert entered("self.direct.encode(x)") == [("Child.encode", model.direct)]
    assert recording.module_arguments[id(model.partial)].arguments == {"width": 4, "activation": nn.ReLU}
    (call,) = calls(root, "self.direct.encode(x)")
    inside = [item.name for item in recording.torch_calls[call.start : call.stop]]
    assert inside == ["torch.nn.functional.linear", "torch.nn.functional.relu"]
    assert all(item.activation is call.children[0] for item in recording.torch_calls[call.start : call.stop])


def test_root_is_the_decorated_forward_itself():
    recording = record(edge.Decorated, Inputs((X,)), arguments={"width": 4})
    assert recording.roots["eval"].function.qualname == "Decorated.forward"
    assert recording.roots["eval"].arguments["bias"] == 1.0
    assert recording.roots["init"].function.qualname == "Child.__init__"


def test_a_root_of_torch_s_own_has_no_root_activation():
    recording = record(nn.Sequential(edge.Child(4), edge.Child(4)), Inputs((X,)))
    assert recording.roots["eval"] is None
    assert [a.self for a in function(recording, "Child.forward").activations[:2]] == list(recording.model)


def test_a_forward_set_on_the_instance_is_the_root():
    model = nn.Linear(4, 4)
    model.forward = lambda x: x * 2
    recording = record(model, Inputs((X,)))
    assert recording.roots["eval"].function.name == "<lambda>"
    assert names(recording) == ["torch.Tensor.mul"]


def test_an_instance_has_no_init():
    model = edge.Child(4)
    recording = record(model, Inputs((X,)))
    assert recording.model is model
    assert recording.factory is None
    assert recording.roots["init"] is None
    assert recording.roots["eval"].self is model
    assert recording.module_arguments == {}


@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel])
def test_wrappers_are_taken_off(wrap):
    model = edge.Child(4)
    assert record(wrap(model), Inputs((X,))).model is model


def test_containers_keywords_and_none():
    inputs = Inputs(({"x": X}, [X, X]), {"mask": X > 0, "scale": {"by": [torch.ones(1)]}, "flag": False})
    recording = record(edge.Containers, inputs)
    assert list(recording.inputs) == ["batch", "others", "mask", "scale", "flag"]
    assert recording.inputs["batch"]["x"] is X
    assert isinstance(recording.outputs["eval"], edge.Output)
    root = recording.roots["eval"]
    assert root.arguments["others"][0] is recording.fake_inputs["others"][0]
    assert values(root, "mask is not None") == [True]
    assert values(record(edge.Containers, Inputs(({"x": X}, [X]))).roots["eval"], "mask is not None") == [False]


def test_tied_parameters_and_plain_tensor_attributes():
    recording = record(edge.Tied, Inputs((torch.tensor([1, 2]),)))
    assert sorted(recording.fake_of.values()) == ["anchors", "embed.weight"]
    embedding, _, linear = recording.torch_calls[:3]
    assert embedding.args[1] is linear.args[1]
    assert recording.fake_of[id(linear.args[1])] == "embed.weight"


def test_code_that_only_evaluation_runs():
    recording = record(edge.EvalOnly, Inputs((X,)))
    (activation,) = function(recording, "EvalOnly.post_process").activations
    assert activation.mode == "eval"
    assert len(function(recording, "EvalOnly.forward").activations) == 2
    assert [call.index for call in recording.torch_calls] == [0]


def test_gradient_mode_is_that_of_training_and_evaluation():
    recording = record(edge.Child, Inputs((X,)), arguments={"width": 4})
    assert recording.outputs["train"].requires_grad
    assert not recording.outputs["eval"].requires_grad


def test_lstm_weights_are_stand_ins():
    recording = record(edge.Tagger, Inputs((torch.arange(6).reshape(2, 3),)))
    (lstm,) = [call for call in recording.torch_calls if call.name == "torch.lstm" and call.mode == "train"]
    weights = lstm.args[2]
    assert [recording.fake_of[id(item)] for item in weights][:2] == ["lstm.weight_ih_l0", "lstm.weight_hh_l0"]


def test_transformer_encoder_without_its_fused_path():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    recording = record(nn.TransformerEncoder(layer, 2), Inputs((torch.randn(2, 5, 8),)))
    expected = "torch.nn.functional.multi_head_attention_forward"
    assert names(recording, "eval").count(expected) == names(recording, "train").count(expected) == 2


def test_lazy_layers():
    recording = record(edge.Lazy, Inputs((X,)))
    assert recording.model.linear.weight.shape == (3, 4)
    assert names(recording) == ["torch.nn.functional.linear"]


def test_custom_function_runs_inside_its_call():
    recording = record(edge.Custom, Inputs((X,)))
    (call,) = calls(recording.roots["train"], "Square.apply(x)")
    assert [child.function.qualname for child in call.children] == ["Square.forward"]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_torchscript_is_said():
    recording = record(edge.Scripted(), Inputs((X,)))
    assert recording.skipped == {"ScriptModule has no Python source": 1}
    assert recording.torch_calls == []


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_what_the_constructor_scripts_is_recorded_as_written():
    script = torch.jit.script
    recording = record(edge.Scripted, Inputs((X,)))
    assert names(recording) == ["torch.nn.functional.linear", "torch.Tensor.mul"]
    assert torch.jit.script is script


def test_parametrized_and_normed_weights():
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    )
    recording = record(model, Inputs((X,)))
    assert "0.parametrizations.weight.original0" in recording.fake_of.values()
    assert names(recording).count("torch.nn.functional.linear") == 2


def test_a_model_on_the_meta_device():
    with torch.device("meta"):
        model = edge.Child(4)
    recording = record(model, Inputs((X,)))
    assert recording.outputs["eval"].shape == (3, 4)
    assert model.linear.weight.is_meta


def test_opaque_packages_are_not_instrumented():
    recording = record(edge.Child, Inputs((X,)), arguments={"width": 4}, opaque=["edge"])
    assert recording.functions == []
    assert names(recording) == ["torch.nn.functional.linear", "torch.nn.functional.relu"]


@pytest.mark.parametrize(("failing", "other"), [("train", "eval"), ("eval", "train")])
def test_a_mode_that_fails_is_left_out(failing, other):
    recording = record(edge.Detector, Inputs((X,)), arguments={"fails_in_training": failing == "train"})
    assert list(recording.failed) == [failing]
    assert "targets are needed" in recording.failed[failing].message
    assert list(recording.outputs) == [other]
    assert recording.roots[failing] is None
    assert recording.roots[other].mode == other
    assert {call.mode for call in recording.torch_calls} == {other}
    assert [call.index for call in recording.torch_calls] == list(range(len(recording.torch_calls)))
    (read,) = recording.reads
    assert (read.kind, read.call.mode) == ("shape", other)
    assert {item.mode for item in function(recording, "Detector.forward").activations} == {other}


def test_hooks_patched_methods_and_plain_callables():
    recording = record(edge.Hooked, Inputs((X,)))
    ran = {item.qualname: len([a for a in item.activations if a.mode == "eval"]) for item in recording.functions}
    assert ran["Hooked.__init__.<locals>.<lambda>"] == 1
    assert ran["Hooked.__init__.<locals>.forward"] == 1
    assert ran["Hooked.Twice.__call__"] == 1
    again = record(recording.model, Inputs((X,)))
    assert {item.qualname for item in again.functions} == set(ran) - {"Hooked.__init__"}


def test_compiled_methods_run_as_written():
    recording = record(edge.CompiledMethod, Inputs((X,)))
    assert {item.qualname for item in recording.functions} == {
        "CompiledMethod.__init__",
        "CompiledMethod.forward",
        "CompiledMethod.helper",
    }
    assert names(recording) == ["torch.nn.functional.linear", "torch.Tensor.add"]


def test_symbolically_traced_modules_have_source():
    recording = record(torch.fx.symbolic_trace(edge.Child(4)), Inputs((X,)))
    (forward,) = recording.functions
    assert "self.linear(x)" in forward.source
    assert recording.roots["eval"].function is forward


def test_recursive_constructors_keep_their_own_arguments():
    recording = record(edge.Recursive, Inputs((X,)), arguments={"depth": 2, "name": 1})
    found = recording.module_arguments
    model = recording.model
    assert found[id(model)].arguments == {"depth": 2, "rest": (), "options": {"name": 1}}
    assert found[id(model.inner.inner)].arguments == {"depth": 0, "rest": (), "options": {"name": 1}}


# ---- writes


def test_writes_past_autograd_and_in_inference_mode():
    recording = record(edge.DataWrite, Inputs((X,)))
    written = {call.name: call.writes for call in recording.torch_calls if call.writes}
    assert "weight" in {recording.fake_of.get(id(item)) for item in written["torch.Tensor.mul_"]}
    assert len(written["torch.Tensor.clamp_"]) == 1
    assert torch.equal(recording.model.weight.detach(), torch.ones(4))


def test_writes_reach_every_view():
    recording = record(edge.Writes, Inputs((X,)))

    def written(name, mode="train"):
        return [call.writes for call in recording.torch_calls if call.name == name and call.mode == mode]

    (part, count, batches) = written("torch.Tensor.add_")
    assert sorted(tuple(item.shape) for item in part) == [(2,), (3, 4), (4,)]
    assert [recording.fake_of[id(item)] for item in count] == ["count"]
    assert [recording.fake_of[id(item)] for item in batches] == ["norm.num_batches_tracked"]
    assert len(written("torch.nn.functional.relu")[0]) == 4
    assert len(written("torch.Tensor.__setitem__")[0]) == 4
    assert len(written("torch.add")[0]) == 1
    (norm,) = written("torch.nn.functional.batch_norm")
    assert [recording.fake_of[id(item)] for item in norm] == ["norm.running_mean", "norm.running_var"]
    assert written("torch.nn.functional.batch_norm", "eval") == [()]
    assert written("torch.Tensor.clone") == [()]


# ---- value reads


def test_reads_are_replayed_on_real_inputs():
    lengths = torch.tensor([1, 2, 3])
    recording = record(edge.Reads, Inputs((X, lengths)))
    reads = {read.call.name.removeprefix("torch."): read for read in recording.reads if read.call.mode == "eval"}
    assert reads["Tensor.__float__"].value == 3.0
    assert reads["Tensor.__bool__"].value is True
    assert reads["Tensor.__int__"].value == 3
    assert reads["arange"].value.tolist() == [0, 1, 2, 3, 4, 5]
    assert reads["nonzero"].value.tolist() == [[1], [2]]
    assert reads["Tensor.numpy"].value.tolist() == [1, 2, 3]
    assert reads["Tensor.__format__"].value == "4.0"
    assert reads["nonzero"].sources == ("<input>",)
    kinds = [(read.call.name, read.kind) for read in recording.reads if read.call.mode == "eval"]
    assert [kind for name, kind in kinds if name == "torch.Tensor.__getitem__"] == ["shape", "value"]
    assert ("torch.nonzero", "shape") in kinds
    kept = recording.outputs["eval"][0]
    assert kept.shape == (2, 4)
    assert type(kept).__name__ == "FakeTensor"
    assert all(read.file == edge.__file__ for read in recording.reads)
    assert X[0, 0] != 3.0  # the replayed write did not reach the user's tensor


def test_a_later_read_of_an_earlier_state():
    recording = record(edge.StaleRead, Inputs((torch.ones(3),)))
    assert recording.outputs["train"] == (33.0, 6.0)


class ReadsWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.table = torch.tensor([1, 2])

    def forward(self, x):
        if self.weight.sum() > 1 and bool(torch.tensor([True, True]).all()):
            x = x * 2
        return x + self.table.max().item()


def test_reads_name_their_sources():
    recording = record(ReadsWeights, Inputs((torch.ones(2),)))
    assert [read.sources for read in recording.reads[:3]] == [("weight",), (), ("table",)]
