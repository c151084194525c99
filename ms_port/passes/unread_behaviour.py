"""Flags what changes how a module behaves and stands on no line that the port is made of.

Hooks, methods replaced on one instance, modes that do not follow ``train()``, decorators that alter a result, and the
backward of an ``autograd.Function``: torch runs them, the port has no place for them. They are seen on the live model.
"""

from __future__ import annotations

import ast
import inspect
import os
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ms_port.capture.abstract import canonical_class, is_torch_module
from ms_port.capture.chosen_forward import chosen_forwards
from ms_port.capture.class_source import class_loc
from ms_port.capture.forward import autograd_nodes, preserved, set_training
from ms_port.capture.normed import normed_class
from ms_port.capture.recording import Activation, FunctionRecord, Recording
from ms_port.ir.flags import Flag, Place
from ms_port.ir.program import Program
from ms_port.passes.rewrite import all_functions

_MODULE_HOOKS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}
_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_HARMLESS_HOOKS = ("transformers.utils.output_capturing",)
"""They only note outputs; what is noted is an output of the trace, which the ledger accounts for."""
_ALWAYS = frozenset({"forward", "train", "eval"})
"""Methods that torch calls without a line of the source that names them."""


def flag_unread_behaviour(program: Program, recording: Recording) -> Program:
    """Add the flags to the finished program (what is not emitted can't be wrong)."""
    model = _Model(recording)
    found: dict[Flag, None] = {}
    for part in (
        _hooks(model),
        _replaced_methods(program, model, recording),
        _modes(model),
        _decorators(program, recording),
        _own_backwards(program, recording),
        _thawed(program, model),
    ):
        found.update(dict.fromkeys(part))
    return replace(program, flags=(*program.flags, *found))


class _Model:
    """The modules of a recorded model by path, and where a person finds each."""

    def __init__(self, recording: Recording) -> None:
        self.root = recording.model
        self.modules = dict(self.root.named_modules())
        self.scripted = {p for p, m in self.modules.items() if isinstance(m, torch.jit.ScriptModule)}

    def place(self, path: str) -> Place | None:
        """The class of the module, or of the nearest module around it that is not torch's own."""
        while True:
            module = self.modules.get(path)
            if module is not None and not is_torch_module(type(module).__module__):
                loc = class_loc(type(module))
                return loc if loc.line else None
            if not path:
                return None
            path = path.rpartition(".")[0]

    def name(self, path: str) -> str:
        """How a message names a module."""
        return f"`{path}`" if path else "the model itself"


# --- hooks ------------------------------------------------------------------------------------------------------


def _hooks(model: _Model) -> Iterator[Flag]:
    for path, module in model.modules.items():
        if path in model.scripted or normed_class(module) is not None:
            continue
        for registry, kind in _MODULE_HOOKS.items():
            for hook in list(module.__dict__.get(registry, {}).values()):
                if (getattr(hook, "__module__", None) or "") not in _HARMLESS_HOOKS:
                    yield _hook(f"a {kind} of {model.name(path)}", hook, path, model.place(path))
        for name, parameter in module._parameters.items():
            for registry in _TENSOR_HOOKS:
                for hook in list((getattr(parameter, registry, None) or {}).values()):
                    yield _hook(f"a hook on the gradient of {model.name(path)}.{name}", hook, path, model.place(path))


def _hook(what: str, hook: Any, path: str, place: Place | None) -> Flag:
    return Flag(
        rule="MSP303",
        severity="error",
        message=f"{what} ({_described(hook)}) is called by torch and not by the port",
        module=path,
        source=place,
        advice="Write in `forward` what the hook does, or remove it before converting.",
    )


def _described(function: Any) -> str:
    """A callable by its name and place."""
    inner = getattr(function, "func", function)
    inner = getattr(inner, "__func__", inner)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    code = getattr(inner, "__code__", None)
    return f"`{name}`, {code.co_filename}:{code.co_firstlineno}" if code is not None else f"`{name}`"


# --- methods replaced on an instance ----------------------------------------------------------------------------


def _replaced_methods(program: Program, model: _Model, recording: Recording) -> Iterator[Flag]:
    followed = _in_flat_functions(program, recording)
    chosen = chosen_forwards(model.modules.values())
    emitted = {(f.owner, "forward" if f.name == "construct" else f.name) for f in all_functions(program)}
    for path, module in model.modules.items():
        if path in model.scripted:
            continue
        for name, value in module.__dict__.items():
            if not callable(value) or isinstance(value, type | torch.Tensor) or _is_own(module, name, value):
                continue
            owner = next((c for c in type(module).__mro__ if name in c.__dict__), None)
            if name == "forward" and type(module) in chosen:
                continue
            if owner is None or not isinstance(owner.__dict__[name], types.FunctionType | staticmethod | classmethod):
                continue
            if name == "forward" and id(module) in followed:
                continue
            if name in _ALWAYS or (canonical_class(owner), name) in emitted:
                yield Flag(
                    rule="MSP308",
                    severity="error",
                    message=f"`{name}` of {model.name(path)} is replaced on the instance ({_described(value)}); "
                    f"the port has that of {type(module).__name__}",
                    module=path,
                    source=model.place(path),
                    advice="Make a class of its own with this method and use it for this module.",
                )


def _in_flat_functions(program: Program, recording: Recording) -> set[int]:
    """ids of modules of whose every seen call the traced calls stand in the port, whatever ``forward`` is."""
    inside: dict[int, bool] = {}
    for record in recording.functions:
        for activation in record.activations:
            for call in (c for calls in activation.calls.values() for c in calls if activation.mode != "init"):
                if isinstance(call.callee, nn.Module):
                    made = set(range(call.start, call.stop))
                    key = id(call.callee)
                    inside[key] = inside.get(key, True) and bool(made) and made <= program.claimed
    return {key for key, whole in inside.items() if whole}


def _is_own(module: nn.Module, name: str, value: Any) -> bool:
    """The class's own method, bound and kept (``self.forward = self.forward``)."""
    own = getattr(type(module), name, None)
    return getattr(value, "__func__", value) is own and getattr(value, "__self__", module) is module


# --- modes ------------------------------------------------------------------------------------------------------


def _modes(model: _Model) -> Iterator[Flag]:
    """Modules whose mode is not that of the model: a class's own ``train`` keeps them (frozen normalisation)."""
    overriding = {
        path: owner
        for path, module in model.modules.items()
        if path not in model.scripted and (owner := _mode_owner(type(module))) is not None
    }
    if not overriding:
        return
    kept: dict[tuple[str, bool], list[str]] = {}
    with preserved(model.root):
        for mode in (False, True):
            set_training(model.root, mode)
            for path, module in model.modules.items():
                above = _nearest(path, overriding)
                if module.training != mode and above is not None:
                    kept.setdefault((above, mode), []).append(path)
    for (above, mode), paths in kept.items():
        method, cls = overriding[above]
        names = ", ".join(model.name(p) for p in paths[:4]) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")
        yield Flag(
            rule="MSP309",
            severity="error",
            message=f"{cls.__name__}.{method} keeps {names} in {'evaluation' if mode else 'training'} mode; "
            "`set_train` of the port sets every cell",
            module=above,
            source=_function_place(cls.__dict__[method]),
            advice=f"After `set_train({mode})` call `set_train({not mode})` on these cells of the port.",
        )


def _mode_owner(cls: type) -> tuple[str, type] | None:
    for base in cls.__mro__:
        if is_torch_module(base.__module__):
            continue
        for name in ("train", "eval"):
            if isinstance(base.__dict__.get(name), types.FunctionType):
                return name, base
    return None


def _nearest(path: str, paths: Any) -> str | None:
    while path not in paths:
        if not path:
            return None
        path = path.rpartition(".")[0]
    return path


# --- decorators -------------------------------------------------------------------------------------------------


def _decorators(program: Program, recording: Recording) -> Iterator[Flag]:
    """Decorated methods of the port whose wrapper gave or got something else than the method itself."""
    emitted = {f.key.partition("#")[0] for f in all_functions(program)}
    by_code: dict[types.CodeType, list[Activation]] = {}
    for record in recording.functions:
        for activation in record.activations:
            if activation.mode != "init":
                by_code.setdefault(activation.code or record.code, []).append(activation)
    classes = {c for m in recording.model.modules() for c in type(m).__mro__ if not is_torch_module(c.__module__)}
    for cls in sorted(classes, key=canonical_class):
        for name, member in cls.__dict__.items():
            outer = _plain(member)
            if outer is None or f"{cls.__module__}:{cls.__qualname__}.{name}" not in emitted:
                continue
            if outer.__code__.co_qualname == f"{cls.__qualname__}.{name}" or _is_torch_code(outer.__code__):
                continue
            inner = _record(recording, cls, name)
            if inner is None or inner.code is outer.__code__:
                continue
            changed = _changed(outer, inner, by_code, recording, program.claimed)
            if changed is not None:
                yield Flag(
                    rule="MSP310",
                    severity="error",
                    message=f"the decorator {_described_code(outer.__code__)} of {cls.__name__}.{name} {changed}; "
                    "the port has the method without it",
                    module=canonical_class(cls),
                    source=Place(inner.file, inner.line),
                    advice="Write in the method what the decorator does.",
                )


def _described_code(code: types.CodeType) -> str:
    return f"`{code.co_qualname}`, {code.co_filename}:{code.co_firstlineno},"


def _plain(member: Any) -> types.FunctionType | None:
    if isinstance(member, property):
        member = member.fget
    member = getattr(member, "__func__", member)
    return member if isinstance(member, types.FunctionType) else None


_TORCH = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")


def _is_torch_code(code: types.CodeType) -> bool:
    """Wrappers of torch (``no_grad``, ``autocast``) and of context managers pass arguments and results on."""
    return code.co_filename.startswith(_TORCH) or os.path.basename(code.co_filename) == "contextlib.py"


def _record(recording: Recording, cls: type, name: str) -> FunctionRecord | None:
    qualname = f"{cls.__qualname__}.{name}"
    for record in recording.functions:
        if record.qualname == qualname and record.function is not None and record.function.__module__ == cls.__module__:
            return record
    return None


def _changed(
    outer: types.FunctionType,
    inner: FunctionRecord,
    by_code: dict[types.CodeType, list[Activation]],
    recording: Recording,
    claimed: frozenset[int],
) -> str | None:
    """In which way the wrapper differs from the method in a call that was seen; None where it does not."""
    code = outer.__code__
    wrappers = [a for a in by_code.get(code, ()) if a.function.code is code or a.code is code]
    if not wrappers and any(c is code for c in recording.uninstrumented):
        return "could not be read"
    for wrapper in wrappers:
        if (
            wrapper.call is not None
            and (calls := set(range(wrapper.call.start, wrapper.call.stop)))
            and calls <= claimed
        ):
            continue  # a flat function stands for the whole call, decorator included
        if not _leads_to(wrapper, inner.function):
            continue  # the same decorator around another method, which calls this one
        method = _within(wrapper, inner)
        if method is None:
            if any(v is inner.function for v in wrapper.closure.values()):
                return "does not always call it"
        elif not wrapper.raised and not _same(_leaves(wrapper.result), _leaves(method.result)):
            return "changes its result"
        elif not _same_arguments(wrapper, method, inner):
            return "changes its arguments"
    return None


def _leads_to(wrapper: Activation, method: types.FunctionType | None) -> bool:
    """Whether a run of a decorator's wrapper is one around the method, told by the functions that its closure holds."""
    pending = [v for v in wrapper.closure.values() if isinstance(v, types.FunctionType)]
    if not pending:
        return True
    seen: set[int] = set()
    while pending:
        function = pending.pop()
        if function is method:
            return True
        if id(function) in seen:
            continue
        seen.add(id(function))
        held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        held.append(getattr(function, "__wrapped__", None))
        pending.extend(v for v in held if isinstance(v, types.FunctionType))
    return False


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _within(wrapper: Activation, inner: FunctionRecord) -> Activation | None:
    """The run of the method inside a run of its wrapper, through further wrappers."""
    pending = list(reversed(wrapper.children))
    while pending:
        activation = pending.pop()
        if activation.function is inner:
            return activation
        if activation.self is None or activation.self is wrapper.self or wrapper.self is None:
            pending.extend(reversed(activation.children))
    return None


def _leaves(value: Any) -> list[Any]:
    """Tensors and plain values of a result in order: a tuple made of the same tensors is the same result."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None else [value]


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    if len(left) != len(right):
        return False
    return all(
        a is b or (not isinstance(a, torch.Tensor) and _plain_equal(a, b)) for a, b in zip(left, right, strict=True)
    )


def _plain_equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (not isinstance(a, int | float | str) or a == b)


def _same_arguments(wrapper: Activation, method: Activation, inner: FunctionRecord) -> bool:
    """Whether the method got the tensors and numbers that its wrapper got. Flags of a library are not compared."""
    args, kwargs = _given(wrapper)
    function = inner.function
    assert function is not None
    try:
        bound = inspect.signature(_unwrapped(function)).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return True
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        got = method.arguments.get(name, value)
        kinds = (torch.Tensor, int, float)
        if isinstance(value, bool) or isinstance(got, bool) or not isinstance(got, kinds):
            continue
        if got is not value and (isinstance(got, torch.Tensor) or not _plain_equal(got, value)):
            return False
    return True


def _unwrapped(function: types.FunctionType) -> Callable[..., Any]:
    """A copy of the function for its own signature: ``__wrapped__`` is not followed."""
    return types.FunctionType(function.__code__, {}, None, function.__defaults__, function.__closure__)


def _given(wrapper: Activation) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a run, positional and by keyword, as they were passed."""
    code = wrapper.function.code
    names = code.co_varnames
    positional = names[: code.co_argcount]
    keywords = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    args = [wrapper.arguments[n] for n in positional if n in wrapper.arguments]
    kwargs = {n: wrapper.arguments[n] for n in keywords if n in wrapper.arguments}
    if code.co_flags & inspect.CO_VARARGS:
        args += list(wrapper.arguments.get(rest[0], ()))
        rest = rest[1:]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs |= dict(wrapper.arguments.get(rest[0], {}))
    return args, kwargs


# --- frozen parameters ------------------------------------------------------------------------------------------


def _thawed(program: Program, model: _Model) -> Iterator[Flag]:
    """Parameters that torch does not train and that nothing in the port's constructors freezes."""
    frozen = [(p.path, p.tied_to) for p in program.parameters.values() if p.kind == "parameter" and not p.trainable]
    left = [path for path, tied in frozen if tied is None]
    if not left:
        return
    covered = list(_frozen_in_port(program, model))
    by_module: dict[str, list[str]] = {}
    for path in left:
        if not any(path == prefix or (whole and f"{path}.".startswith(prefix)) for prefix, whole in covered):
            owner, _, name = path.rpartition(".")
            by_module.setdefault(owner, []).append(name)
    for owner, names in by_module.items():
        yield Flag(
            rule="MSP506",
            severity="warning",
            message=f"{', '.join(names)} of {model.name(owner)} has no gradient in torch and is trained in the port",
            module=owner,
            source=model.place(owner),
            advice="Set `requires_grad = False` on it after the cell is built.",
        )


def _frozen_in_port(program: Program, model: _Model) -> Iterator[tuple[str, bool]]:
    """Paths that a statement of the port freezes; True where it freezes all that begins with the path."""
    for function in all_functions(program):
        owners = [""]
        if function.owner is not None:
            owners = [
                path
                for path, module in model.modules.items()
                if any(canonical_class(c) == function.owner for c in type(module).__mro__)
            ]
        for node in (n for statement in function.body for n in ast.walk(statement)):
            for target, value in _assigned(node):
                name, whole = _frozen_name(function.body, target, value)
                if name is not None:
                    for path in owners:
                        full = ".".join(p for p in (path, name) if p)
                        yield (f"{full}." if whole and full else full), whole


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)


def _freezes(call: ast.Call) -> bool:
    return any(
        k.arg == "requires_grad" and not (isinstance(k.value, ast.Constant) and k.value.value is True)
        for k in call.keywords
    )


def _frozen_name(body: Sequence[ast.stmt], target: ast.expr, value: ast.expr) -> tuple[str | None, bool]:
    """What ``X.requires_grad = ...`` or ``X = Parameter(..., requires_grad=False)`` freezes, relative to its module."""
    if any(isinstance(n, ast.Call) and _freezes(n) for n in ast.walk(value)):
        return _dotted(target)
    if not isinstance(target, ast.Attribute) or target.attr != "requires_grad":
        return None, False
    holder = target.value
    if isinstance(holder, ast.Name) and (loop := _loop_over(body, holder.id)) is not None:
        while isinstance(loop, ast.Call):
            function = loop.func
            loop = function.value if isinstance(function, ast.Attribute) else loop.args[0] if loop.args else function
        return _dotted(loop)[0], True
    return _dotted(holder)


def _loop_over(body: Sequence[ast.stmt], name: str) -> ast.expr | None:
    """What the ``for`` that binds a name runs over."""
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, ast.For) and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.target)):
            return node.iter
    return None


def _dotted(node: ast.expr) -> tuple[str, bool]:
    """``self.a[0].weight`` as ``a.0.weight``; what a computed part hides may be anything below."""
    parts: list[str] = []
    whole = False
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Attribute):
            parts.append(_TORCH_NAMES.get(node.attr, node.attr))
            node = node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(str(node.slice.value))
            node = node.value
        else:
            parts, whole = [], True
            node = node.value if isinstance(node, ast.Subscript) else node.func
    return ".".join(reversed(parts)), whole


_TORCH_NAMES = {"embedding_table": "weight", "gamma": "weight", "beta": "bias"}
"""Names of a cell's parameters where torch's differ."""


# --- autograd.Function ------------------------------------------------------------------------------------------


def _own_backwards(program: Program, recording: Recording) -> Iterator[Flag]:
    """Functions with a backward of their own that ran: the port differentiates their forward's calls instead."""
    seen: dict[type, None] = {}
    for record in recording.functions:
        for activation in record.activations:
            if activation.mode == "init":
                continue
            for calls in activation.calls.values():
                for call in calls:
                    owner = getattr(call.callee, "__self__", None)
                    if getattr(call.callee, "__name__", "") == "apply" and isinstance(owner, type):
                        seen[owner] = None
    for node in autograd_nodes(t for t in _leaves(recording.outputs.get("train")) if isinstance(t, torch.Tensor)):
        if (owner := getattr(node, "_forward_cls", None)) is not None:
            seen[owner] = None
    for cls in seen:
        if not issubclass(cls, torch.autograd.Function) or is_torch_module(cls.__module__):
            continue
        cell = program.cells.get(canonical_class(cls))
        if cell is not None and any(m.name == "bprop" for m in cell.methods):
            continue
        owner = next((c for c in cls.__mro__ if {"backward", "vjp"} & c.__dict__.keys()), None)
        if owner is None or is_torch_module(owner.__module__):
            continue
        place = class_loc(cls)
        yield Flag(
            rule="MSP307",
            severity="error",
            op=canonical_class(cls),
            message=f"{cls.__name__} has a backward of its own; the port's gradient is that of its forward",
            source=place if place.line else _function_place(cls.__dict__.get("forward")),
            advice="Write a cell with this `bprop`, if the gradient is meant to differ (or if you train at all).",
        )


def _function_place(member: Any) -> Place | None:
    function = _plain(member)
    if function is None:
        return None
    return Place(function.__code__.co_filename, function.__code__.co_firstlineno)
