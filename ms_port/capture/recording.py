"""What one recording holds: live objects, seen while the factory and the forward passes ran."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch

from ms_port.capture.errors import CaptureError

Mode: TypeAlias = Literal["init", "eval", "train"]


@dataclass(slots=True, eq=False, repr=False)
class FunctionRecord:
    """One instrumented function: its tree, in which every node has an integer ``nid``, and its activations."""

    index: int
    function: types.FunctionType | None
    """The function object; None for functions and lambdas made while running (see ``outer``)."""
    code: types.CodeType
    """The original code."""
    tree: ast.FunctionDef | ast.Lambda
    """Parsed from source, decorators included; ``lineno`` counts in ``file``. Never changed after instrumenting."""
    source: str
    """Text of ``file`` from the first decorator to the end of the function, not dedented."""
    file: str
    line: int
    """First line of ``source`` in ``file``."""
    outer: FunctionRecord | None = None
    """The function in whose body this one is defined, for closures made at run time."""
    activations: list[Activation] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.code.co_name

    @property
    def qualname(self) -> str:
        return self.code.co_qualname

    def __repr__(self) -> str:
        return f"<function {self.qualname} at {self.file}:{self.line}, ran {len(self.activations)} times>"


@dataclass(slots=True, eq=False, repr=False)
class Activation:
    """One run of an instrumented function."""

    function: FunctionRecord
    mode: Mode
    self: Any
    """The first argument where it is an ``nn.Module`` or where the function is a method; else None."""
    arguments: dict[str, Any]
    """Parameters by name on entry (containers as snapshots), ``*args``/``**kwargs`` under their own names; free
    variables are in ``closure``."""
    closure: dict[str, Any]
    parent: Activation | None
    call: CallRecord | None
    """The call of the parent through which it was entered (possibly through torch code in between)."""
    statements: set[int] = field(default_factory=set)
    """nids of the statements that began."""
    times: dict[int, list[int]] = field(default_factory=dict)
    """nid of a statement -> the number of torch calls recorded before it, each time that it began."""
    values: dict[int, list[Any]] = field(default_factory=dict)
    """nid of an expression -> its values in order; lists, dicts and sets are shallow snapshots."""
    calls: dict[int, list[CallRecord]] = field(default_factory=dict)
    effects: dict[int, set[str]] = field(default_factory=dict)
    """In ``init`` with a module as self: nid of the (innermost) statement -> names it added to or changed in the
    registries and ``__dict__`` of self (also through functions that it called); a container that it changed counts."""
    children: list[Activation] = field(default_factory=list)
    result: Any = None
    raised: bool = False
    code: types.CodeType | None = None
    """The original code object that really ran (wrappers made by one decorator share a FunctionRecord)."""
    current: CallRecord | None = None
    """While recording: the call that is being made."""
    registries: tuple[dict[str, Any], ...] | None = None
    """While recording an ``init``: what self held when the last statement began."""
    last_statement: int | None = None
    """While recording: nid of the statement that began last."""

    def __repr__(self) -> str:
        return f"<{self.mode} run of {self.function.qualname}>"


@dataclass(slots=True, eq=False, repr=False)
class CallRecord:
    """One evaluation of one ``ast.Call``."""

    nid: int
    callee: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    start: int
    stop: int = 0
    """The torch calls made inside are ``recording.torch_calls[start:stop]``."""
    result: Any = None
    raised: bool = False
    children: list[Activation] = field(default_factory=list)
    """Activations entered directly from this call."""

    def __repr__(self) -> str:
        return f"<call of {getattr(self.callee, '__qualname__', type(self.callee).__name__)}, node {self.nid}>"


@dataclass(slots=True, eq=False, repr=False)
class TorchCall:
    """One outermost torch API call seen by the function mode (property reads such as ``.shape`` left out)."""

    index: int
    func: Callable[..., Any]
    name: str
    """Canonical name: ``torch.cat``, ``torch.Tensor.view``, ``torch.nn.functional.gelu``."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    mode: Mode
    file: str
    """Place in user code."""
    line: int
    activation: Activation | None
    writes: tuple[Any, ...] = ()
    """Tensors whose version this call raised (also through views: every traced tensor of that storage)."""

    def __repr__(self) -> str:
        return f"<{self.index}: {self.name} at {self.file}:{self.line}>"


@dataclass(slots=True, eq=False, repr=False)
class ValueRead:
    """Python read a traced tensor's value (``bool(t)``, ``.item()``, a shape that depends on data)."""

    call: TorchCall
    value: Any
    """The result on the real inputs."""
    file: str
    line: int
    sources: tuple[str, ...] = ()
    """What the value depends on: names of parameters and buffers, ``<input>`` for any input; () for a constant."""
    kind: Literal["value", "shape", "unsupported"] = "value"
    """Python saw the value, or a shape depends on it, or fake tensors merely lack the operation."""
    fixed: bool = False
    """Whether it is the same in every call: neither inputs nor parameters nor random draws stand behind it."""

    def __repr__(self) -> str:
        return f"<read by {self.call.name} at {self.file}:{self.line}>"


@dataclass(slots=True, eq=False, repr=False)
class ModuleArguments:
    """Constructor arguments of one module, by parameter name, as bound at the outermost ``__init__``."""

    cls: type
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        return f"<{self.cls.__name__}({', '.join(self.arguments)})>"


@dataclass(slots=True, eq=False, repr=False)
class Recording:
    """All that one capture saw. Tensors are kept alive, so ``id`` identifies them."""

    model: torch.nn.Module
    """The real model (not fake), as built; its training flag is as the factory left it."""
    factory: Callable[..., Any] | None
    """None where a built instance was given."""
    factory_arguments: dict[str, Any]
    functions: list[FunctionRecord]
    roots: dict[Mode, Activation | None]
    """``init``: activation of the factory or of the root's ``__init__``; ``eval``/``train``: of the root's forward
    (the innermost function named ``forward`` whose self is the model, decorators' wrappers skipped)."""
    inputs: dict[str, Any]
    """Example inputs by forward parameter, real tensors."""
    outputs: dict[Mode, Any]
    torch_calls: list[TorchCall]
    reads: list[ValueRead]
    truths: Mapping[int, bool]
    """id of a tensor -> the truth that Python got of it."""
    fake_of: Mapping[int, str]
    """id of the fake stand-in -> dotted name of the parameter or buffer."""
    module_arguments: Mapping[int, ModuleArguments]
    """id of a module -> its constructor arguments (empty for built instances)."""
    skipped: dict[str, int]
    """Why functions could not be instrumented, counted: generator, no source, lambda on a shared line ..."""
    uninstrumented: set[types.CodeType]
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step: ``warm_up``, ``instrument``, ``build``, ``forward``."""
    failed: dict[Mode, CaptureError] = field(default_factory=dict)
    """Modes whose forward pass raised on these inputs while the other mode's did not (detectors train on targets):
    they have no activations, calls or output, and their root is None."""
    fake_inputs: dict[str, Any] = field(default_factory=dict)
    """The inputs as the forward passes got them, by forward parameter: fake stand-ins of ``inputs``."""
    alive: Any = None
    """Keeps every object alive whose id is used as a key."""

    def __repr__(self) -> str:
        return f"<recording of {type(self.model).__name__}: {len(self.functions)} functions>"
