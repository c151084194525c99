"""One forward pass under fake tensors, and the model's state around it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ms_port.capture.inputs import Inputs, map_tensors, tensors_in
from ms_port.capture.recording import FunctionRecord
from ms_port.capture.torch_mode import TorchTrace

_CONTAINERS = (list, dict, set)
_SEQUENCES = (list, tuple)


class _Fakes(FakeTensorMode):
    """Takes real tensors too. What it does below an operator is hidden from torch-function modes: TorchScript comes
    here without passing such a mode first, which would then see the mode's own work."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            return super().__torch_dispatch__(func, types, args, kwargs)


class FakeModel:
    """Fake stand-ins of a model's parameters, buffers, tensor attributes and inputs; tied tensors stay tied."""

    def __init__(self, model: nn.Module, inputs: Inputs, like: FakeModel | None = None) -> None:
        """``like``: the stand-ins of another model from the same factory, taken over where they fit (it is faster)."""
        self.model = model
        self.mode: FakeTensorMode = _Fakes() if like is None else like.mode
        spare = {} if like is None else like._by_name
        self._by_name: dict[str, torch.Tensor] = {}
        self.names: dict[int, str] = {}
        """id of a stand-in -> dotted name."""
        self.real_of: dict[int, torch.Tensor] = {}
        """id of a stand-in -> the real tensor."""
        self._stand_ins: dict[int, torch.Tensor] = {}
        named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        for name, tensor in named:
            if id(tensor) not in self._stand_ins and (old := spare.get(name)) is not None and _alike(old, tensor):
                self._pair(tensor, old)
            stand_in = self._by_name[name] = self.fake(tensor)
            self.names.setdefault(id(stand_in), name)
        for prefix, module in model.named_modules():
            for name, value in module.__dict__.items():
                if isinstance(value, torch.Tensor):
                    self.names.setdefault(id(self.fake(value)), f"{prefix}.{name}" if prefix else name)
        self.inputs = Inputs(map_tensors(self.fake, inputs.args), map_tensors(self.fake, inputs.kwargs))

    def fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """The stand-in of a real tensor, always the same one."""
        found = self._stand_ins.get(id(tensor))
        if found is None:
            without_data = tensor.is_meta or isinstance(tensor, FakeTensor)
            found = self._like(tensor) if without_data else self.mode.from_tensor(tensor)
            self._pair(tensor, found)
        return found

    def _like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A stand-in on the CPU for a tensor that has no data itself: a model built on the meta device."""
        with self.mode:
            empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            if isinstance(tensor, nn.Parameter):
                return nn.Parameter(empty, tensor.requires_grad)
            return empty.requires_grad_(tensor.requires_grad)

    def _pair(self, tensor: torch.Tensor, stand_in: torch.Tensor) -> None:
        self._stand_ins[id(tensor)] = stand_in
        self.real_of[id(stand_in)] = tensor

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model holds its stand-ins inside the block; afterwards it is as it was, attributes included."""
        with preserved(self.model):
            for module in self.model.modules():
                if isinstance(module, torch.jit.ScriptModule):
                    continue
                registries: tuple[dict[str, Any], ...] = (module._parameters, module._buffers, module.__dict__)
                for registry in registries:
                    for name, value in registry.items():
                        if isinstance(value, torch.Tensor):
                            registry[name] = self.fake(value)
                        elif type(value) in _SEQUENCES and any(id(item) in self._stand_ins for item in value):
                            registry[name] = type(value)(self._stand_ins.get(id(item), item) for item in value)
            yield


@contextmanager
def preserved(model: nn.Module) -> Iterator[None]:
    """Put back every module's attributes, registries and plain list, dict and set attributes after the block."""
    saved: list[tuple[Any, Any]] = []
    seen: set[int] = set()

    def save(container: Any) -> None:
        if id(container) not in seen:
            seen.add(id(container))
            saved.append((container, container.copy()))

    for module in model.modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        save(module.__dict__)
        for value in module.__dict__.values():
            if type(value) in _CONTAINERS:
                save(value)
    try:
        yield
    finally:
        for container, copy in saved:
            if type(container) is list:
                container[:] = copy
            elif len(container) != len(copy) or type(container) is set or _differ(container, copy):
                container.clear()
                container.update(copy)


def _differ(container: dict[Any, Any], copy: dict[Any, Any]) -> bool:
    pairs = zip(container.items(), copy.items(), strict=True)
    return any(key is not old or value is not before for (key, value), (old, before) in pairs)


def set_training(model: nn.Module, train: bool) -> None:
    """``model.train(train)``; a model of ``torch.export`` refuses and stays as it is."""
    with suppress(NotImplementedError):
        model.train(train)


def _alike(stand_in: torch.Tensor, tensor: torch.Tensor) -> bool:
    """True where a stand-in made for another tensor fits this one."""
    return bool(
        isinstance(stand_in, nn.Parameter) == isinstance(tensor, nn.Parameter)
        and stand_in.layout == tensor.layout == torch.strided
        and (stand_in.shape, stand_in.dtype, stand_in.device) == (tensor.shape, tensor.dtype, tensor.device)
        and (stand_in.requires_grad, stand_in.is_leaf) == (tensor.requires_grad, tensor.is_leaf)
        and stand_in.stride() == tensor.stride()
        and tensor.storage_offset() == stand_in.storage_offset() == 0
        and not tensor.is_meta
        and type(tensor) in (torch.Tensor, nn.Parameter)
    )


def run_forward(fakes: FakeModel, trace: TorchTrace) -> Any:
    """Run the model once, in the mode that it is in, and return its output.

    Training runs with gradients enabled, evaluation without, as training and evaluation loops do. The fused inference
    path of ``nn.TransformerEncoder`` and ``nn.MultiheadAttention`` is off: it would hide the calls of their own source.
    """
    errors = logging.getLogger("torch._subclasses.fake_tensor")  # it prints a traceback that is raised anyway
    silent, fast_path = errors.disabled, torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.set_grad_enabled(fakes.model.training))
        stack.enter_context(fakes.mode)
        stack.enter_context(trace)
        try:
            torch.backends.mha.set_fastpath_enabled(False)
            errors.disabled = True
            output = fakes.model(*fakes.inputs.args, **fakes.inputs.kwargs)
            if fakes.model.training:
                with trace.differentiating():
                    _run_own_backwards(fakes, output)
            return output
        finally:
            errors.disabled = silent
            torch.backends.mha.set_fastpath_enabled(fast_path)


def unseen_backward(functions: Iterable[FunctionRecord]) -> bool:
    """Whether a person's ``autograd.Function`` ran in training and its backward did not."""
    ran = {id(record.function) for record in functions if any(a.mode == "train" for a in record.activations)}
    pending = list(torch.autograd.Function.__subclasses__())
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        forward, backward = (getattr(cls.__dict__.get(name), "__func__", None) for name in ("forward", "backward"))
        if id(forward) in ran and id(backward) not in ran:
            return True
    return False


def _run_own_backwards(fakes: FakeModel, output: Any) -> None:
    """Differentiate the output once if a user's ``autograd.Function`` stands behind it: its backward is recorded so."""
    outputs = [t for t in tensors_in(output) if t.requires_grad]
    inputs = tensors_in((fakes.inputs.args, fakes.inputs.kwargs))
    leaves = [t for t in (*fakes.model.parameters(), *inputs) if t.requires_grad]
    if not leaves or not any(hasattr(node, "_forward_cls") for node in autograd_nodes(outputs)):
        return
    with torch._C.DisableTorchFunction():
        gradients = tuple(torch.ones_like(t) for t in outputs)
    with suppress(Exception):  # what can't be seen is flagged
        # torch.autograd.grad would switch the trace off while it runs
        torch.autograd.graph._engine_run_backward(
            tuple(outputs), gradients, False, False, tuple(leaves), allow_unreachable=True, accumulate_grad=False
        )


def autograd_nodes(tensors: Iterable[torch.Tensor]) -> Iterator[Any]:
    """The nodes of the autograd graph behind tensors."""
    pending = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen: set[Any] = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        pending.extend(n for n, _ in node.next_functions if n is not None)
