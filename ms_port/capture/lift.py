"""From a recording of live objects to the IR's program."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ms_port.capture.abstract import Abstractor, canonical_class, is_torch_module, module_class
from ms_port.capture.chosen_forward import chosen_forwards, chosen_method, own_call
from ms_port.capture.class_source import class_attributes, class_loc
from ms_port.capture.closures import by_closure
from ms_port.capture.config_hints import plain_hint
from ms_port.capture.derived_fields import derived_fields
from ms_port.capture.layout import comment_behind, comments_above_line, comments_of, keep_number_texts
from ms_port.capture.normed import normed_class
from ms_port.capture.recording import Activation, CallRecord, FunctionRecord, Recording, TorchCall, ValueRead
from ms_port.capture.statics import resolve_statics
from ms_port.ir.flags import FIXED_SIZE, Flag
from ms_port.ir.program import (
    CallFact,
    CellDef,
    ConfigClass,
    Facts,
    FunctionDef,
    InputSpec,
    LedgerEntry,
    ModuleInstance,
    ParameterInstance,
    Program,
    SourceLoc,
)
from ms_port.ir.values import Literal, TensorValue, Value


def lift(recording: Recording, name: str) -> Program:
    """Build the program of a recording: every executed user function with its facts, grouped by class."""
    return _Lift(recording).program(name)


def effective(activation: Activation) -> Activation:
    """The activation behind decorators' wrappers: a wrapper returns the very object that the inner call returned."""
    while True:
        inner = [c for c in activation.children if c.result is activation.result and not c.raised]
        if activation.result is None or not inner or not _is_wrapper(activation.function):
            return activation
        if _takes_a_result(inner[-1], activation.children):
            return activation
        activation = inner[-1]


def _takes_a_result(last: Activation, children: Sequence[Activation]) -> bool:
    """Whether a call was given what one beside it returned: a wrapper that reduces the loss that it wraps."""
    made = {id(c.result) for c in children if c is not last and isinstance(c.result, torch.Tensor)}
    return any(id(v) in made for v in last.arguments.values())


def _is_wrapper(function: FunctionRecord) -> bool:
    flags = function.code.co_flags
    takes_all = bool(flags & inspect.CO_VARARGS) and bool(flags & inspect.CO_VARKEYWORDS)
    return (takes_all and "<locals>" in function.qualname) or hasattr(function.function, "__wrapped__")


@dataclasses.dataclass(frozen=True)
class _Variant:
    """One function of the program: a function record, or those of its runs that had one closure."""

    key: str
    name: str
    record: FunctionRecord
    activations: Sequence[Activation]


def _by_time(variant: _Variant) -> list[_Variant]:
    """A method that fills the module while it is built and runs in forward too (``extend_positions``) is two."""
    building = [a for a in variant.activations if a.mode == "init"]
    running = [a for a in variant.activations if a.mode != "init"]
    fills = any(names for a in building for names in a.effects.values())
    if not fills or not running or variant.name in ("forward", "__init__") or building[0].self is None:
        return [variant]
    first = dataclasses.replace(
        variant, key=f"{variant.key}#init", name=f"init_{variant.name.lstrip('_')}", activations=building
    )
    return [dataclasses.replace(variant, activations=running), first]


class _Lift:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._abstract = Abstractor(recording)
        self._keys: dict[int, str] = {}
        """Key by id of the activation."""
        self._variants: list[_Variant] = []
        self._chosen = {f.__code__ for f in chosen_forwards(recording.model.modules()).values()}
        """Code of methods that their class's constructor made its forward."""
        self._owners: dict[int, type | None] = {}
        used: dict[str, int] = defaultdict(int)
        inner = _inner_classes(recording)
        for function in recording.functions:
            for name, activations in by_closure(function):
                key = f"{_module_of(function)}:{name or function.qualname}"
                used[key] += 1
                key = key if used[key] == 1 else f"{key}#{used[key]}"
                for variant in _by_time(_Variant(key, name or function.name, function, activations)):
                    self._variants.append(variant)
                    self._keys.update((id(activation), variant.key) for activation in variant.activations)
            self._owners[function.index] = _owner(function) or inner.get(function.index)

    def program(self, name: str) -> Program:
        recording, model = self._recording, self._recording.model
        functions = [self._function(v) for v in self._variants if v.activations and self._wanted(v.record)]
        by_owner: dict[str, list[FunctionDef]] = defaultdict(list)
        free: dict[str, FunctionDef] = {}
        for function in functions:
            if function.owner is None:
                free[function.key] = function
            else:
                by_owner[function.owner].append(function)
        root = canonical_class(type(model))
        cells = self._cells(by_owner)
        for function in (f for owner, own in by_owner.items() if owner not in cells for f in own):
            if function.kind == "static":  # of a record of settings, which the port has as a dataclass
                free[function.key] = dataclasses.replace(function, owner=None, kind="function")
            elif function.name == "__call__":
                free[function.key] = dataclasses.replace(function, owner=None)
        factory = self._factory(free)
        return Program(
            name=name,
            root=root,
            cells=cells,
            functions={k: f for k, f in free.items() if f is not factory},
            modules=dict(self._modules()),
            parameters=dict(self._parameters()),
            tensor_attributes=dict(self._tensor_attributes()),
            inputs=tuple(self._inputs()),
            outputs={mode: self._abstract(value) for mode, value in recording.outputs.items()},
            ledger=tuple(map(self._ledger_entry, recording.torch_calls)),
            factory=factory,
            inner_factories=tuple(k for k in self._makers() if k in free and free[k] is not factory),
            config_classes=self._config_classes(),
            factory_arguments=tuple(
                (k, self._abstract(v)) for k, v in recording.factory_arguments.items() if self._is_class_target()
            ),
            flags=tuple(dict.fromkeys(f for r in recording.reads if r.kind != "unsupported" for f in _read_flags(r))),
            docstring=inspect.getdoc(inspect.getmodule(type(model)) or model) or None,
        )

    def _config_classes(self) -> dict[str, ConfigClass]:
        """Every class of a configuration object; a default may be an object of a further one."""
        made: dict[str, ConfigClass] = {}
        while waiting := {name: cls for name, cls in self._abstract.config_classes.items() if name not in made}:
            made |= {name: self._config_class(cls) for name, cls in waiting.items()}
        return made

    def _config_class(self, cls: type) -> ConfigClass:
        """Fields in the order of the constructor, with the defaults that are literals."""
        try:
            parameters = list(inspect.signature(cls).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        fields = []
        for parameter in parameters:
            default = self._abstract(parameter.default) if parameter.default is not parameter.empty else None
            fields.append((parameter.name, default if isinstance(default, Literal) else None))
        doc = cls.__dict__.get("__doc__")
        summary = (
            inspect.cleandoc(doc).split("\n\n")[0]
            if isinstance(doc, str) and doc and not doc.startswith(f"{cls.__name__}(")
            else None
        )
        hints = {p.name: text for p in parameters if (text := plain_hint(p.annotation)) is not None}
        aliases = getattr(cls, "attribute_map", None)
        pairs = tuple(aliases.items()) if isinstance(aliases, dict) else ()
        return ConfigClass(summary, tuple(fields), _only_stores(cls), tuple(hints.items()), pairs, derived_fields(cls))

    def _wanted(self, function: FunctionRecord) -> bool:
        if isinstance(function.tree, ast.Lambda):
            return any(a.mode != "init" for a in function.activations)
        return True

    def _is_class_target(self) -> bool:
        return isinstance(self._recording.factory, type)

    def _factory(self, free: Mapping[str, FunctionDef]) -> FunctionDef | None:
        root = self._recording.roots.get("init")
        if root is None or isinstance(self._recording.factory, type):
            return None
        return free.get(self._keys[id(effective(root))])

    def _makers(self) -> Iterator[str]:
        """Keys of the functions inside the factory that gave the model, and of the factory, the outermost first."""
        activation = self._recording.roots.get("init")
        while activation is not None and activation.result is self._recording.model:
            activation = effective(activation)
            if len(activation.function.activations) == 1:
                yield self._keys[id(activation)]
            activation = next((c for c in activation.children if c.result is activation.result and not c.raised), None)

    # --- functions ----------------------------------------------------------------------------------------------

    def _function(self, variant: _Variant) -> FunctionDef:
        record = variant.record
        if isinstance(record.tree, ast.Lambda):
            return self._lambda(variant, record.tree)
        owner = self._owners[record.index]
        body = record.tree.body
        docstring = ast.get_docstring(record.tree, clean=False)
        keep_number_texts(record)
        layout = comments_of(record)
        facts = self._facts(record, variant.activations)
        return FunctionDef(
            key=variant.key,
            name="forward" if record.code in self._chosen else variant.name,
            node=record.tree,
            body=tuple(body[1:] if docstring is not None else body),
            facts=facts,
            loc=SourceLoc(record.file, record.tree.lineno),
            owner=canonical_class(owner) if owner is not None else None,
            kind=_kind(record, owner),
            comments=layout.above,
            beside=layout.beside,
            above=comments_above_line(record.file, record.line),
            during_init=all(a.mode == "init" for a in variant.activations),
            docstring=clean_docstring(docstring) if docstring is not None else None,
        )

    def _lambda(self, variant: _Variant, tree: ast.Lambda) -> FunctionDef:
        """A lambda as a function of one return, which has the lambda's nid."""
        returned = ast.copy_location(ast.Return(tree.body), tree)
        returned.nid = tree.nid  # type: ignore[attr-defined]
        facts = self._facts(variant.record, variant.activations)
        ran: dict[int, frozenset[str]] = {tree.nid: frozenset(a.mode for a in variant.activations)}  # type: ignore[attr-defined]
        return FunctionDef(
            key=variant.key,
            name="<lambda>",
            node=ast.FunctionDef("<lambda>", tree.args, [], [], None, lineno=tree.lineno),
            body=(returned,),
            facts=dataclasses.replace(facts, ran={**facts.ran, **ran}),
            loc=SourceLoc(variant.record.file, tree.lineno),
        )

    def _facts(self, record: FunctionRecord, activations: Sequence[Activation]) -> Facts:
        ran: dict[int, set[str]] = defaultdict(set)
        values: dict[int, list[Value]] = defaultdict(list)
        calls: dict[int, list[CallFact]] = defaultdict(list)
        parameters: dict[str, list[Value]] = defaultdict(list)
        closure: dict[str, list[Value]] = defaultdict(list)
        effects: dict[int, set[str]] = defaultdict(set)
        times: dict[int, list[int]] = defaultdict(list)
        truths: dict[int, list[bool]] = defaultdict(list)
        known = self._recording.truths
        for activation in activations:
            for nid in activation.statements:
                ran[nid].add(activation.mode)
            for nid, began in activation.times.items():
                times[nid].extend(began)
            for nid, seen in activation.values.items():
                values[nid].extend(map(self._abstract, seen))
                if known:
                    truths[nid].extend(known[id(v)] for v in seen if id(v) in known)
            for nid, records in activation.calls.items():
                calls[nid].extend(self._call(call, activation.mode) for call in records)
            for name, value in activation.arguments.items():
                parameters[name].append(self._abstract(value))
            for name, value in activation.closure.items():
                closure[name].append(self._abstract(value))
            for nid, names in activation.effects.items():
                effects[nid] |= names
        return Facts(
            activations=len(activations),
            ran={k: frozenset(v) for k, v in ran.items()},
            values={k: tuple(v) for k, v in values.items()},
            calls={k: tuple(v) for k, v in calls.items()},
            parameters={k: tuple(v) for k, v in parameters.items()},
            closure={k: tuple(v) for k, v in closure.items()},
            effects={k: frozenset(v) for k, v in effects.items()},
            times={k: tuple(v) for k, v in times.items()},
            truths={k: tuple(v) for k, v in truths.items() if v},
            statics=resolve_statics(record, values.keys(), self._abstract),
        )

    def _call(self, call: CallRecord, mode: str) -> CallFact:
        entered, opaque = self._entered(call)
        return CallFact(
            callee=self._abstract(call.callee),
            args=tuple(map(self._abstract, call.args)),
            kwargs=tuple((k, self._abstract(v)) for k, v in call.kwargs.items()),
            result=self._abstract(call.result),
            mode=mode,
            entered=entered,
            opaque=opaque,
            torch_calls=range(call.start, call.stop),
        )

    def _entered(self, call: CallRecord) -> tuple[str | None, bool]:
        """Key of the user function that the call ran, and whether what ran can't be told from source."""
        target = _target(call.callee)
        if target is None or is_torch_module(target.__module__):
            return None, False
        codes = set(_codes(target))
        for child in _behind_own_call(call):
            if child.function.code in codes or child.code in codes:
                return self._keys[id(effective(child))], False
        return None, True

    # --- the model ----------------------------------------------------------------------------------------------

    def _cells(self, by_owner: Mapping[str, list[FunctionDef]]) -> dict[str, CellDef]:
        instances: dict[str, list[str]] = defaultdict(list)
        types: dict[type, None] = {}
        for path, module in self._recording.model.named_modules():
            types[type(module)] = None
            instances[canonical_class(type(module))].append(
                path
            )  # a class made in a function is made anew in each call
        classes: dict[str, type] = {}
        for cls in [*types, *(o for o in self._owners.values() if o is not None)]:
            if issubclass(cls, torch.nn.Module):
                for base in reversed(cls.__mro__):
                    if issubclass(base, torch.nn.Module) and not is_torch_module(base.__module__):
                        classes.setdefault(canonical_class(base), base)
        bases = {base for cls in classes.values() for base in cls.__mro__}
        mixins = {
            canonical_class(o): o
            for o in self._owners.values()
            if o is not None and not issubclass(o, torch.nn.Module) and (o in bases or _is_plain_class(o))
        }
        owners = {o for o in self._owners.values() if o is not None}
        own_backwards = {canonical_class(o): o for o in owners if issubclass(o, torch.autograd.Function)}
        cells = {}
        known = {*mixins.values(), *own_backwards.values(), *classes.values()}
        for key, cls in {**mixins, **own_backwards, **classes}.items():
            loc, attributes = class_loc(cls), tuple(class_attributes(cls))
            lines = [a.lineno for a in attributes]
            cells[key] = CellDef(
                key=key,
                name=cls.__name__,
                bases=tuple(canonical_class(b) for b in _known_bases(cls, known)),
                methods=tuple(by_owner.get(key, ())),
                attributes=attributes,
                docstring=clean_docstring(text)
                if isinstance(text := cls.__dict__.get("__doc__"), str) and text
                else None,
                loc=loc,
                instances=tuple(instances.get(key, ())),
                class_modules=tuple(k for k, v in cls.__dict__.items() if isinstance(v, torch.nn.Module)),
                comments={n: found for n in lines if (found := comments_above_line(loc.file, n))},
                beside={n: text for n in lines if (text := comment_behind(loc.file, n)) is not None},
                above=comments_above_line(loc.file, loc.line),
            )
        return cells

    def _modules(self) -> Iterable[tuple[str, ModuleInstance]]:
        normed = {f"{p}." for p, m in self._recording.model.named_modules() if normed_class(m) is not None}
        for path, module in self._recording.model.named_modules():
            if any(path.startswith(prefix) for prefix in normed):
                continue  # what torch keeps its parametrization in
            cls = type(module)
            torch_own = is_torch_module(cls.__module__)
            arguments = self._recording.module_arguments.get(id(module))
            children = tuple(
                (name, self._abstract.path(child) or "")
                for name, child in module._modules.items()
                if child is not None and f"{path}." not in normed
            )
            yield (
                path,
                ModuleInstance(
                    path=path,
                    cls=module_class(module),
                    is_torch=torch_own,
                    attributes=tuple(self._held(module, torch_own)),
                    arguments=tuple((k, self._abstract(v)) for k, v in arguments.arguments.items())
                    if arguments
                    else (),
                    children=children,
                ),
            )

    def _held(self, module: torch.nn.Module, torch_own: bool) -> Iterable[tuple[str, Value]]:
        if not torch_own:
            skip = set(torch.nn.Module().__dict__)
            held = {k: v for k, v in module.__dict__.items() if k not in skip}
            registries: list[dict[str, Any]] = [module._parameters, module._buffers, module._modules]
            held |= {k: None for registry in registries for k, v in registry.items() if v is None}
        else:
            held = _layer_attributes(module)
        return ((k, self._abstract(v)) for k, v in held.items() if not isinstance(v, torch.nn.Module))

    def _parameters(self) -> Iterable[tuple[str, ParameterInstance]]:
        first: dict[int, str] = {}
        model = self._recording.model
        persistent = set(model.state_dict())
        named: list[tuple[str, torch.Tensor, str]] = [
            (n, p, "parameter") for n, p in model.named_parameters(remove_duplicate=False)
        ]
        named += [(n, b, "buffer") for n, b in model.named_buffers(remove_duplicate=False)]
        for name, tensor, kind in named:
            owner = first.setdefault(id(tensor), name)
            dtype = str(tensor.dtype).removeprefix("torch.")
            if kind == "buffer" and name not in persistent:
                kind = "buffer (not persistent)"
            yield (
                name,
                ParameterInstance(
                    name, tuple(tensor.shape), dtype, kind, tensor.requires_grad, owner if owner != name else None
                ),
            )

    def _tensor_attributes(self) -> Iterable[tuple[str, ParameterInstance]]:
        for path, module in self._recording.model.named_modules():
            for name, value in module.__dict__.items() if not is_torch_module(type(module).__module__) else ():
                if isinstance(value, torch.Tensor):
                    full = f"{path}.{name}" if path else name
                    dtype = str(value.dtype).removeprefix("torch.")
                    yield full, ParameterInstance(full, tuple(value.shape), dtype, "attribute", False)

    def _inputs(self) -> Iterable[InputSpec]:
        for name, value in self._recording.inputs.items():
            yield InputSpec(name, self._abstract(value))

    def _ledger_entry(self, call: TorchCall) -> LedgerEntry:
        return LedgerEntry(
            index=call.index,
            api=call.name,
            args=tuple(map(self._abstract, call.args)),
            kwargs=tuple((k, self._abstract(v)) for k, v in call.kwargs.items()),
            result=self._abstract(call.result),
            mode=call.mode,
            loc=SourceLoc(call.file, call.line),
            function=self._keys[id(call.activation)] if call.activation is not None else None,
            writes=frozenset(v.storage for v in map(self._abstract, call.writes) if isinstance(v, TensorValue)),
        )


def clean_docstring(text: str) -> str:
    """Without its indentation; a first line of its own stays so where more lines follow."""
    cleaned = inspect.cleandoc(text)
    return f"\n{cleaned}" if "\n" in cleaned and text.lstrip(" \t").startswith("\n") else cleaned


_CHECKED = frozenset({"cov", "corrcoef", "istft", "gaussian_nll_loss", "ctc_loss"})


def _read_flags(read: ValueRead) -> Iterable[Flag]:
    """Python read the value of a tensor: the port holds the value that the example inputs gave.

    Where a tensor came of it, the port makes it anew, and only its size depends on the values.
    """
    place = SourceLoc(read.file, read.line)
    if _is_tensors(read.value) and read.call.name not in ("torch.tensor", "torch.as_tensor", "torch.asarray"):
        if read.kind != "shape" and read.call.name == "torch.Tensor.__getitem__" and not _slices_by_tensor(read.call):
            return  # an index of one element
        if read.call.name.rpartition(".")[2] in _CHECKED:
            return  # torch looks at the values to refuse some; shapes alone make the result's size
        # positions (nonzero, where) stay a warning: what is indexed by them has no gradient everywhere
        fixed = read.fixed and read.call.name.endswith(("__getitem__", "masked_select"))
        yield Flag(
            rule="MSP201",
            severity="info" if fixed else "warning",
            op=read.call.name,
            message=FIXED_SIZE if fixed
            else f"the size of what {read.call.name} gives here depends on the values of tensors",
            source=place,
            advice="Give it a fixed size: a mask and `where`, padding, or a fixed number of elements.",
        )  # fmt: skip
        return
    yield Flag(
        rule="MSP301",
        severity="info" if read.fixed else "warning",
        op=read.call.name,
        message=f"Python reads a tensor's value here ({read.call.name}); the port holds it: {_brief(read.value)}",
        source=place,
        advice="Rewrite the line with tensor operations, or make sure that the value never changes.",
    )


def _is_tensors(value: Any) -> bool:
    parts = value if isinstance(value, tuple | list) else [value]
    return bool(parts) and all(isinstance(part, torch.Tensor) for part in parts)


def _slices_by_tensor(call: TorchCall) -> bool:
    index = call.args[1] if len(call.args) > 1 else ()
    parts = index if isinstance(index, tuple) else (index,)
    return any(
        isinstance(end, torch.Tensor) for part in parts if isinstance(part, slice) for end in (part.start, part.stop)
    )


def _brief(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _known_bases(cls: type, known: set[type]) -> Iterable[type]:
    """The bases; in place of one that has nothing of its own here, those of its bases that have."""
    for base in cls.__bases__:
        if base in known or not known & set(base.__mro__):
            yield base
        else:
            yield from _known_bases(base, known)


def _only_stores(cls: type) -> bool:
    """A dataclass whose constructor is the one that ``@dataclass`` wrote."""
    code = getattr(getattr(cls, "__init__", None), "__code__", None)
    written = code is not None and code.co_filename == "<string>"
    return dataclasses.is_dataclass(cls) and written and not hasattr(cls, "__post_init__")


def _is_plain_class(cls: type) -> bool:
    """A person's own helper class of ordinary Python (a record of settings): it can be written out like a cell."""
    return cls.__bases__ == (object,) and "__init__" in cls.__dict__ and not dataclasses.is_dataclass(cls)


def _layer_attributes(module: torch.nn.Module) -> dict[str, Any]:
    """What a torch layer holds: plain attributes; a parameter or buffer as True, as None where it has none."""
    skip = set(torch.nn.Module().__dict__)
    held: dict[str, Any] = {k: v for k, v in module.__dict__.items() if k not in skip and not k.startswith("__")}
    for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
        held[name] = None if tensor is None else True
    return held


def _target(callee: Any) -> types.FunctionType | None:
    """The Python function that a call enters."""
    if isinstance(callee, torch.jit.ScriptModule):
        return None  # no Python source
    if isinstance(callee, torch.nn.Module):
        callee = chosen_method(callee) or type(callee).forward
    elif isinstance(callee, type):
        callee = callee.__init__  # type: ignore[misc]
    elif isinstance(callee, functools.partial):
        return _target(callee.func)
    callee = getattr(callee, "__func__", callee)
    if not isinstance(callee, types.FunctionType) and not is_torch_module(type(callee).__module__):
        callee = inspect.getattr_static(type(callee), "__call__", None)
    return callee if isinstance(callee, types.FunctionType) else None


def _behind_own_call(call: CallRecord) -> list[Activation]:
    """The activations of a call; those inside a ``__call__`` of the person's own that only hands on to ``forward``."""
    own = own_call(type(call.callee)) if isinstance(call.callee, torch.nn.Module) else None
    if own is None:
        return call.children
    for outer in call.children:
        if outer.code is own.__code__ or outer.function.code is own.__code__:
            given = list(outer.arguments.values())
            for inner in outer.children:
                if inner.result is call.result and _are_the_same(given, list(inner.arguments.values())):
                    return [inner]
    return call.children


def _are_the_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists of arguments hold the same objects; containers were copied when they were seen."""
    return len(one) == len(other) and all(
        a is b or (isinstance(a, list | dict | set) and type(a) is type(b)) for a, b in zip(one, other, strict=True)
    )


def _codes(function: types.FunctionType) -> Iterable[types.CodeType]:
    seen: Any = function
    while isinstance(seen, types.FunctionType):
        yield seen.__code__
        seen = getattr(seen, "__wrapped__", None)


def _module_of(record: FunctionRecord) -> str:
    outer = record
    while outer.function is None and outer.outer is not None:
        outer = outer.outer
    return outer.function.__module__ if outer.function is not None else "?"


def _owner(record: FunctionRecord) -> type | None:
    """The class in whose body the function is defined, found from its activations or by name."""
    if "." not in record.qualname:
        return None
    codes = {record.code, *(activation.code for activation in record.activations)}
    for activation in record.activations:
        for cls in type(activation.self).__mro__ if activation.self is not None else ():
            made = record.outer is None or "<locals>" in cls.__qualname__  # else it is a decorator's wrapper
            if made and any(codes & _member_codes(member) for member in cls.__dict__.values()):
                return cls
    if record.outer is not None:
        return None
    function = record.function
    scope: Any = getattr(function, "__globals__", {})
    for part in record.qualname.split(".")[:-1]:
        scope = scope.get(part) if isinstance(scope, dict) else getattr(scope, part, None)
    return scope if isinstance(scope, type) else None


def _inner_classes(recording: Recording) -> dict[int, type]:
    """Index of a function record -> the ``autograd.Function`` inside a function in whose body it stands."""
    called = {
        owner: None
        for record in recording.functions
        for activation in record.activations
        for calls in activation.calls.values()
        for call in calls
        if isinstance(owner := getattr(call.callee, "__self__", None), type)
        and issubclass(owner, torch.autograd.Function)
    }
    found: dict[int, type] = {}
    for record in recording.functions if called else ():
        codes = {record.code, *(activation.code for activation in record.activations)}
        for cls in called:
            if record.outer is not None and any(codes & _member_codes(member) for member in cls.__dict__.values()):
                found.setdefault(record.index, cls)
    return found


def _member_codes(member: Any) -> set[types.CodeType]:
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, functools.cached_property):
        member = member.func
    member = getattr(member, "__func__", member)
    return set(_codes(member)) if isinstance(member, types.FunctionType) else set()


def _kind(record: FunctionRecord, owner: type | None) -> str:
    if owner is None:
        return "function"
    for member in owner.__dict__.values():
        if record.code in _member_codes(member):
            if isinstance(member, property | functools.cached_property):
                return "property"
            if isinstance(member, staticmethod):
                return "static"
            return "class" if isinstance(member, classmethod) else "method"
    return "method"
