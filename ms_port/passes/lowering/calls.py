"""Calls: each becomes what its callee was when it ran."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from ms_port.ir.program import CallFact, CellDef, FunctionDef, Stub
from ms_port.ir.tree import copy, expression, is_self_attribute, nid
from ms_port.ir.values import (
    ClassValue,
    FunctionValue,
    ModuleValue,
    ObjectValue,
    PartialValue,
    TensorValue,
    Value,
    holds_tensor,
)
from ms_port.opmap import Argument, Call, NoLowering
from ms_port.opmap.signature import parse_signature
from ms_port.passes.lowering.absent import ABSENT
from ms_port.passes.lowering.arguments import torch_arguments, user_arguments
from ms_port.passes.lowering.arrays import array_call, by_tensors, of_tensors
from ms_port.passes.lowering.base_layers import is_batch_norm_of_base, layer_base, starts_layer
from ms_port.passes.lowering.builtin_calls import lower_builtin
from ms_port.passes.lowering.children import of_registry
from ms_port.passes.lowering.chosen_functions import chosen_function
from ms_port.passes.lowering.config_objects import copied, make_config, replaced_config
from ms_port.passes.lowering.configs import read_fields
from ms_port.passes.lowering.constructing import accept, construct, construct_cell, is_variable, make_partial
from ms_port.passes.lowering.decorated_calls import as_entered
from ms_port.passes.lowering.empty import lower_empty
from ms_port.passes.lowering.expanding import expand_call
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.held import held_module
from ms_port.passes.lowering.made_functions import call_bound, call_made
from ms_port.passes.lowering.module_calls import call_any, call_module
from ms_port.passes.lowering.module_methods import lower_module_method
from ms_port.passes.lowering.names import TENSOR_CLASSES, of_value
from ms_port.passes.lowering.normed_layers import weight_normed
from ms_port.passes.lowering.output_objects import output_tuple, replaced_fields
from ms_port.passes.lowering.parameter_starts import filled_tensor, started
from ms_port.passes.lowering.scope import Scope, Untranslatable, dtype_expression, same
from ms_port.passes.lowering.static_calls import lower_static_call


def lower_call(scope: Scope, node: ast.Call) -> ast.expr:
    """A call in the output's terms; folded to its value or made flat where it can't be kept."""
    facts = scope.calls(node)
    if not facts:
        return lower_static_call(scope, node)
    try:
        return _by_callee(scope, node, facts)
    except Untranslatable as error:
        if starts_layer(scope, node):
            raise
        tensors = any(holds_tensor(f.result) for f in facts)
        constant = scope.constant(node)
        if constant is not None and not tensors:
            scope.flag_number(node, error.reason)
            return constant
        if tensors and not scope.host:
            from ms_port.passes.lowering.flat import flat_call

            return flat_call(scope, node, facts, error)
        if (made := _held_result(scope, facts)) is not None:
            return made
        if (
            not tensors
            and same([f.result for f in facts])
            and not isinstance(facts[0].result, ObjectValue | ModuleValue)
        ):
            try:
                return of_value(scope, node, facts[0].result)
            except Untranslatable:
                raise error from None
        raise


def _held_result(scope: Scope, facts: Sequence[CallFact]) -> ast.expr | None:
    """The layer that a function without source gave, made anew from what it holds."""
    paths = [f.result.path for f in facts if f.opaque and isinstance(f.result, ModuleValue)]
    if not scope.host or len(paths) != len(facts) or None in paths:
        return None
    made = {ast.dump(one): one for path in paths if path is not None for one in [held_module(scope.work, path)]}
    return next(iter(made.values())) if len(made) == 1 else None


def _own_backward(scope: Scope, facts: Sequence[CallFact]) -> CellDef | None:
    """The cell that an ``autograd.Function`` became, where its ``apply`` is called."""
    names = {f.callee.name if isinstance(f.callee, FunctionValue) else "" for f in facts}
    name = names.pop()
    return scope.work.program.cells.get(name.removesuffix(".apply")) if name.endswith(".apply") and not names else None


def _apply(scope: Scope, node: ast.Call, cell: CellDef) -> ast.expr:
    """``F.apply(x, 0.5)`` -> ``F()(x, 0.5)``; arguments left out are written, since ``bprop`` gets all."""
    if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
        raise Untranslatable(node, "keywords or star arguments of an autograd.Function")
    keys = tuple(method.key for method in cell.methods)
    for key in keys:
        scope.work.need(key, node)
    scope.work.cells.add(cell.key)
    args = cell.methods[0].node.args
    missing = len(args.args) - 1 - len(node.args)
    defaults = [copy(d) for d in args.defaults[len(args.defaults) - missing :]] if missing > 0 else []
    if len(defaults) < missing or not all(isinstance(d, ast.Constant) for d in defaults):
        raise Untranslatable(node, "an autograd.Function is not given all its arguments")
    made = ast.Call(ast.Name(cell.name, ast.Load()), [], [])
    call = ast.Call(made, [*(lower(scope, a) for a in node.args), *defaults], [])
    call.callees = keys  # type: ignore[attr-defined]
    return call


_AS_WRITTEN = "ms_port.capture.building:as_written"
"""What ``torch.jit.script`` and ``torch.compile`` are while a model is recorded."""


def _by_callee(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    if _is_super(node.func):
        return _super_call(scope, node, facts)
    if (listed := of_registry(scope, node)) is not None:
        return listed
    if getattr(facts[0].callee, "name", "") == _AS_WRITTEN and len(node.args) == 1:
        return lower(scope, node.args[0])
    if (normed := weight_normed(scope, node, facts)) is not None:
        return normed
    if (chosen := chosen_function(scope, node)) is not None:
        return chosen
    if (replaced := replaced_fields(scope, node, facts)) is not None:
        return replaced
    if (function := _own_backward(scope, facts)) is not None:
        return _apply(scope, node, function)
    kinds = {type(f.callee) for f in facts}
    if ModuleValue in kinds and kinds <= {ModuleValue, FunctionValue, PartialValue} and len(kinds) > 1:
        return call_any(scope, node, facts)
    if kinds == {FunctionValue, PartialValue} and scope.host and all(map(_is_own_function, (f.callee for f in facts))):
        return _call_partial(scope, node, facts)
    if len(kinds) > 1 and kinds != {ClassValue, PartialValue}:
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` is not always the same kind of thing")
    callee = facts[0].callee
    match callee:
        case ModuleValue():
            return call_module(scope, node, facts)
        case FunctionValue(torch=True, owner=ModuleValue()):
            return lower_module_method(scope, node, facts, callee)
        case FunctionValue(torch=True):
            return lower_torch(scope, node, facts)
        case FunctionValue(owner=ModuleValue()):
            return _call_method(scope, node, facts)
        case FunctionValue():
            if callee.name in scope.work.all_functions or ":" in callee.name:
                return _call_function(scope, node, facts)
            if not scope.host and scope.work.opmap.row(callee.name) is not None:
                return _library_row(scope, node, facts, callee.name)
            return lower_builtin(scope, node, facts, callee.name)
        case ClassValue(is_module=True):
            return construct(scope, node, facts)
        case PartialValue(func=FunctionValue(torch=False)) if scope.host:
            return _call_partial(scope, node, facts)
        case PartialValue(func=FunctionValue(torch=False, owner=None)):
            return call_bound(scope, node, facts)
        case PartialValue(func=FunctionValue(torch=True)):
            return _call_named_partial(scope, node, facts)
        case PartialValue():
            return construct(scope, node, facts)
        case ClassValue():
            return _call_class(scope, node, facts, callee)
    raise Untranslatable(node, f"`{ast.unparse(node.func)}` is {callee}")


_FILLS = {
    "torch.Tensor.normal_": "torch.nn.init.normal_",
    "torch.Tensor.uniform_": "torch.nn.init.uniform_",
    "torch.Tensor.zero_": "torch.nn.init.zeros_",
    "torch.Tensor.zero": "torch.nn.init.zeros_",
    "torch.Tensor.fill_": "torch.nn.init.constant_",
    "torch.Tensor.fill": "torch.nn.init.constant_",
}
"""In a constructor these start a parameter, as torch.nn.init does."""


def lower_torch(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """A torch function or Tensor method, by its op-map row; a stub where there is none."""
    names = {f.callee.name for f in facts if isinstance(f.callee, FunctionValue)}
    if scope.work.freeze and names == {"torch.Tensor.size"} and (frozen := scope.constant(node)) is not None:
        return frozen
    if "torch.Tensor.tolist" in names and not scope.host and (numbers := scope.constant(node)) is not None:
        return numbers  # a graph has no numbers of a tensor
    written = names.pop()
    api = base_api(scope, written)
    if names:
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` is several torch functions")
    if node.args and is_batch_norm_of_base(scope.work.program, scope.function.owner, api, facts):
        return ast.Call(expression(f"{_super_of(scope)}.construct"), [lower(scope, node.args[0])], [])
    filled = filled_tensor(scope, node) if scope.host else None
    if filled is not None and _is_plain_tensor(scope, filled):
        raise Untranslatable(node, "it fills a tensor that is no parameter: its values come with the weights")
    args, keywords = torch_arguments(scope, node, facts, api)
    receiver = None
    if api.startswith("torch.Tensor."):
        if isinstance(node.func, ast.Attribute) and any(
            isinstance(v, TensorValue) for v in scope.values(node.func.value)
        ):
            receiver = Argument(lower(scope, node.func.value), scope.values(node.func.value))
        elif args:
            receiver, args = args[0], args[1:]
    call = Call(api, args, keywords, receiver, tuple(f.result for f in facts))
    if scope.host and receiver is not None and api in _FILLS:
        call = Call(_FILLS[api], (receiver, *args), keywords)
        api = call.api
    if (constant := lower_empty(scope, node, facts, call)) is not None:
        return constant
    try:
        if scope.host and scope.work.opmap.row(api) is not None and not api.startswith("torch.nn.init."):
            lowering = scope.work.opmap.host(call)
        else:
            lowering = scope.work.opmap.lower(call)
    except NoLowering as error:
        if scope.host and (made := by_tensors(scope, node, facts, call)) is not None:
            return made
        if scope.host or not any(holds_tensor(f.result) for f in facts):
            raise Untranslatable(node, str(error)) from error
        try:
            return _as_before(node, call, written, expand_call(scope, node, facts, call))
        except Untranslatable as other:
            return _stub(scope, node, call, f"{error}; {other.reason}")
    made = _as_before(node, call, written, accept(scope, node, lowering, api))
    fresh = scope.host and receiver is not None and isinstance(receiver.expression, ast.Call)
    return started(made) if fresh and api.startswith("torch.nn.init.") else made


def _is_plain_tensor(scope: Scope, node: ast.expr) -> bool:
    """``self.w``, a tensor that torch does not register."""
    if not isinstance(node, ast.Attribute) or not is_self_attribute(node):
        return False
    owners = [o.path for o in scope.facts.parameters.get("self", ()) if isinstance(o, ModuleValue)]
    paths = {f"{owner}.{node.attr}" if owner else node.attr for owner in owners}
    return bool(paths & scope.work.program.tensor_attributes.keys())


_TRUTHS = frozenset("eq ne lt le gt ge not_equal greater less greater_equal less_equal isnan".split())


_WIDTHS = tuple("bool|uint8 int8|int16|int32|int64|float16 bfloat16|float32|float64|complex64|complex128".split("|"))
"""Number types as they widen where two meet; those of a row give the next one."""


def _as_before(node: ast.Call, call: Call, written: str, made: ast.expr) -> ast.expr:
    """``x.eq_(y)`` and ``x.add_(wider)`` leave x its type, which the form that is not in place changes.

    Raises Untranslatable where x has several types.
    """
    receiver = call.receiver
    if receiver is None or written == call.api or not written.endswith("_") or not receiver.values:
        return made
    name = call.api.rpartition(".")[2]
    own = {v.dtype for v in receiver.values if isinstance(v, TensorValue)}
    others = {v.dtype for a in call.args for v in a.values or () if isinstance(v, TensorValue)}
    others |= {v.dtype for _, a in call.keywords for v in a.values or () if isinstance(v, TensorValue)}
    if name.startswith(("scatter", "index_", "masked_", "put", "take")):  # places and masks are no operands
        others = {dtype for dtype in others if "float" in dtype or "complex" in dtype}
    truth = (name in _TRUTHS or name.startswith("logical_")) and own != {"bool"}
    if not truth and not any(_widens(one, other) for one in own for other in others):
        return made
    if len(own) > 1:
        raise Untranslatable(node, f"`{ast.unparse(node)}` writes into tensors of {', '.join(sorted(own))}")
    return ast.Call(ast.Attribute(made, "astype", ast.Load()), [dtype_expression(own.pop())], []) if own else made


def _widens(one: str, other: str) -> bool:
    """Whether torch's result of both types is not the first."""
    places = [next((i for i, row in enumerate(_WIDTHS) if dtype in row.split()), -1) for dtype in (one, other)]
    return one != other and places[1] >= places[0]


def base_api(scope: Scope, api: str) -> str:
    """The out-of-place form of an in-place method."""
    if api.endswith("_") and not api.endswith("__") and scope.work.opmap.row(api) is None:
        return api[:-1]
    return api


def _stub(scope: Scope, node: ast.Call, call: Call, reason: str) -> ast.expr:
    """Call a function in ``fixes.py`` that a person has to write."""
    name = re.sub(r"\W", "_", call.api).removeprefix("torch_")
    given = [a.expression for a in ((call.receiver,) if call.receiver else ()) + call.args]
    keywords = [ast.keyword(k, a.expression) for k, a in call.keywords]
    parameters = ["x" if i == 0 else f"x{i}" for i in range(len(given))] + [k for k, _ in call.keywords]
    stub = Stub(name, call.api, tuple(parameters), scope.loc(node), ast.unparse(node), reason)
    scope.work.stubs.setdefault(name, stub)
    scope.flag(
        node,
        "MSP101",
        f"{call.api} has no MindSpore form here: {reason}",
        f"Write `{name}` in fixes.py; it gets the arguments that torch's function got.",
        call.api,
        "error",
    )
    return ast.Call(ast.Name(name, ast.Load()), given, keywords)


def _is_super(func: ast.expr) -> bool:
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Call)
        and isinstance(func.value.func, ast.Name)
        and func.value.func.id == "super"
    )


def _super_call(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``super().f(...)``: the base's method, where the base is part of the output."""
    assert isinstance(node.func, ast.Attribute)
    name = {"forward": "construct"}.get(node.func.attr, node.func.attr)
    func = expression(f"{_super_of(scope)}.{name}")
    keys = {f.entered for f in facts}
    if keys == {None}:
        if name == "__init__":
            return _super_init(scope, node, facts, func)
        if name == "construct":
            return ast.Call(func, _layer_inputs(scope, node), [])
        raise Untranslatable(node, f"torch's own `{name}` has no counterpart")
    args, keywords = user_arguments(scope, node, facts)
    for key in keys - {None}:
        assert key is not None
        if _is_plumbing(scope, key):
            return ast.Call(func, [], [])
        scope.work.need(key, node)
    call = ast.Call(func, args, keywords)
    call.callees = tuple(sorted(k for k in keys if k))  # type: ignore[attr-defined]
    return call


def _layer_inputs(scope: Scope, node: ast.Call) -> list[ast.expr]:
    """The inputs of a torch layer's own forward by position: MindSpore's layer names them otherwise."""
    args = [lower(scope, a) for a in node.args]
    given = {k.arg: k.value for k in node.keywords}
    base = layer_base(scope.work.program, scope.function.owner or "")
    row = scope.work.opmap.row(base) if base is not None else None
    for parameter in parse_signature(row.forward or "input")[len(args) :] if row is not None else ():
        if parameter.name not in given:
            break
        args.append(lower(scope, given.pop(parameter.name)))
    if given:
        raise Untranslatable(node, "keywords of a torch layer's forward")
    return args


def _super_of(scope: Scope) -> str:
    """``super()``; in graph code of a class that is derived from again GRAPH_MODE needs it spelled out."""
    owner = scope.function.owner
    derived = any(owner in cell.bases for cell in scope.work.program.cells.values())
    if owner is None or scope.host or not derived:
        return "super()"
    return f"super({scope.work.program.cells[owner].name}, self)"


def _is_plumbing(scope: Scope, key: str) -> bool:
    """A base constructor that adds nothing that the port needs and its subclass does not set itself."""
    function = scope.work.all_functions.get(key)
    if function is None or scope.function.name != "__init__":
        return False
    program = scope.work.program
    children = {attribute for module in program.modules.values() for attribute, _ in module.children}
    needed = children | {p.rpartition(".")[2] for p in program.parameters} | scope.work.graph_reads
    added = {name for names in function.facts.effects.values() for name in names}
    callers = [f for f in scope.work.all_functions.values() if f.name == "__init__" and _enters(f, key)]
    others = [f for f in scope.work.all_functions.values() if f.during_init and f.key != key]
    needed = needed.union(*map(_settings_read, others))
    return all(not (added - _own_attributes(caller)) & needed for caller in callers)


def _settings_read(function: FunctionDef) -> set[str]:
    """Attributes of ``self`` that code of constructors reads; a configuration is none: its fields are written out."""
    nodes = [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.Attribute) and is_self_attribute(n)]
    return {
        n.attr
        for n in nodes
        if isinstance(n.ctx, ast.Load)
        and not any(isinstance(v, ObjectValue) for v in function.facts.values.get(nid(n), ()))
    }


def _enters(function: FunctionDef, key: str) -> bool:
    return any(fact.entered == key for facts in function.facts.calls.values() for fact in facts)


def _own_attributes(function: FunctionDef) -> set[str]:
    return {
        n.attr
        for statement in function.body
        for n in ast.walk(statement)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }


def _super_init(scope: Scope, node: ast.Call, facts: Sequence[CallFact], func: ast.expr) -> ast.expr:
    """The constructor of a torch base: of ``nn.Module`` it takes nothing; of a layer, the layer's arguments."""
    owner = scope.work.program.cells.get(scope.function.owner or "")
    bases = [b for b in (owner.bases if owner else ()) if b.startswith("torch.nn.") and b != "torch.nn.Module"]
    if not bases:
        return ast.Call(func, [], [])
    args, keywords = torch_arguments(scope, node, facts, bases[0])
    try:
        lowering = scope.work.opmap.lower(Call(bases[0], args, keywords))
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    made = scope.use(lowering)
    if not isinstance(made, ast.Call):
        raise Untranslatable(node, f"{bases[0]} is no plain cell")
    if owner is not None:
        scope.work.layer_bases[owner.key] = ast.unparse(made.func)
    return ast.Call(func, made.args, made.keywords)


def _call_method(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``self.helper(x)``, ``child.encode(x)``, ``child.forward(x)``."""
    callee = facts[0].callee
    assert isinstance(callee, FunctionValue)
    row = scope.work.opmap.row(callee.name.replace(":", "."))
    if row is not None and isinstance(node.func, ast.Attribute):
        receiver = Argument(lower(scope, node.func.value), scope.values(node.func.value))
        try:
            return accept(scope, node, scope.work.opmap.lower(Call(row.api, (), (), receiver)), row.api)
        except NoLowering as error:
            raise Untranslatable(node, str(error)) from error
    keys = {f.entered for f in facts}
    if None in keys or any(f.opaque for f in facts):
        raise Untranslatable(node, f"the source of `{ast.unparse(node.func)}` can't be followed")
    for key in sorted(k for k in keys if k):
        scope.work.need(key, node)
    if isinstance(node.func, ast.Attribute):
        base = lower(scope, node.func.value)
        free = [scope.work.all_functions[k] for k in keys if k is not None]
        if len(free) == 1 and free[0].owner is None and free[0].kind == "function":
            args, keywords = user_arguments(scope, node, facts)  # a function that was assigned to the class
            call = ast.Call(ast.Name(free[0].name, ast.Load()), [base, *args], keywords)
            call.func.callees = call.callees = (free[0].key,)  # type: ignore[attr-defined]
            return call
        split = {scope.work.all_functions[k].name for k in keys if k is not None and k.endswith("#init")}
        name = split.pop() if split else node.func.attr
        func: ast.expr = base if name == "forward" else ast.Attribute(base, name, ast.Load())
    else:
        func = lower(scope, node.func)
    args, keywords = user_arguments(scope, node, facts)
    call = ast.Call(func, args, keywords)
    call.callees = tuple(sorted(k for k in keys if k))  # type: ignore[attr-defined]
    of_graph = not any(scope.work.all_functions[k].during_init for k in keys if k is not None)
    return array_call(call, facts) if scope.host and of_graph else call


TYPED = ("typing:cast", "typing:assert_type", "typing_extensions:assert_type", "torch._jit_internal:annotate")
"""Tell a reader of types what a value is, and give it back."""


def _call_function(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """A free function of the person's own, or of a library."""
    callee = facts[0].callee
    assert isinstance(callee, FunctionValue)
    if callee.name.startswith(("numpy:", "numpy.")):
        return lower_builtin(scope, node, facts, f"numpy.{callee.name.rpartition(':')[2]}")
    if scope.work.opmap.row(callee.name.replace(":", ".")) is not None:
        return _library_row(scope, node, facts, callee.name.replace(":", "."))
    if callee.name in TYPED:
        value = next((k.value for k in node.keywords if k.arg in ("val", "the_value")), node.args[-1])
        return lower(scope, value)
    if callee.name == "dataclasses:replace" and scope.host:
        return replaced_config(scope, node, facts)
    if callee.name in ("copy:copy", "copy:deepcopy") and scope.host:
        return copied(scope, node, facts)
    keys = {f.entered for f in facts}
    if None in keys or len(keys) != 1 or any(f.opaque for f in facts):
        raise Untranslatable(node, f"the source of `{ast.unparse(node.func)}` can't be followed")
    key = keys.pop()
    assert key is not None
    function = scope.work.all_functions.get(key)
    if isinstance(node.func, ast.Name) and node.func.id in scope.inner:
        args, keywords = user_arguments(scope, node, facts)
        return ast.Call(ast.Name(node.func.id, ast.Load()), args, keywords)
    if scope.host and "<locals>" in key and _is_made_by_kept_call(scope, node):
        args, keywords = user_arguments(scope, node, facts)
        return ast.Call(lower(scope, node.func), args, keywords)
    if key.partition("#")[0].endswith("<lambda>") and isinstance(node.func, ast.Name) and node.func.id in scope.locals:
        try:
            chosen = lower(scope, node.func)
        except Untranslatable:  # the name is not there: what it held was chosen from several
            return call_made(scope, node, facts, key)
        args, keywords = user_arguments(scope, node, facts)
        return ast.Call(chosen, args, keywords)
    if function is None or "<locals>" in key or function.name == "<lambda>":
        return call_made(scope, node, facts, key)
    if isinstance(node.func, ast.Name) and _is_replaced(scope, function):
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` is the `{function.name}` that the class had before")
    scope.work.need(key, node)
    args, keywords = as_entered(scope, node, function, user_arguments(scope, node, facts))
    func: ast.expr
    if isinstance(node.func, ast.Name) and node.func.id in scope.locals:
        func = lower(scope, node.func)
    elif function.owner is not None and isinstance(node.func, ast.Attribute):
        if function.kind == "class":
            raise Untranslatable(node, "a class method")
        if _is_of_base(scope, function, args):
            name = {"forward": "construct"}.get(function.name, function.name)
            below = ast.Call(expression(f"{_super_of(scope)}.{name}"), args[1:], keywords)
            below.callees = (key,)  # type: ignore[attr-defined]
            return below
        func = ast.Attribute(lower(scope, node.func.value), node.func.attr, ast.Load())
    else:
        func = ast.Name(function.name, ast.Load())
        func.callees = (key,)  # type: ignore[attr-defined]
    call = ast.Call(func, args, keywords)
    call.callees = (key,)  # type: ignore[attr-defined]
    held = scope.values(node.func.value) if isinstance(node.func, ast.Attribute) else ()
    on_object = any(isinstance(v, ObjectValue) for v in held)
    call.unbound = function.kind == "method" and not on_object  # type: ignore[attr-defined]
    return call


def _is_replaced(scope: Scope, function: FunctionDef) -> bool:
    """Whether a class decorator put a wrapper in the method's place: the port can have one."""
    cell = scope.work.program.cells.get(function.owner or "")
    return cell is not None and sum(m.name == function.name for m in cell.methods) > 1


def _is_of_base(scope: Scope, function: FunctionDef, args: Sequence[ast.expr]) -> bool:
    """``Base.forward(self, x)``, where ``super()`` finds that very method."""
    cells, owner = scope.work.program.cells, scope.work.program.cells.get(scope.function.owner or "")
    while owner is not None and len(owner.bases) == 1 and owner.bases[0] in cells:
        owner = cells[owner.bases[0]]
        if found := [m.key for m in owner.methods if m.name == function.name]:
            return found == [function.key] and bool(args) and isinstance(args[0], ast.Name) and args[0].id == "self"
    return False


def _is_made_by_kept_call(scope: Scope, node: ast.Call) -> bool:
    """``to_ntuple(2)(size)``, ``parse(size)``: the constructor's own code made the function that is called."""
    func = node.func
    return isinstance(func, ast.Call) or (isinstance(func, ast.Name) and func.id in scope.locals)


def _library_row(scope: Scope, node: ast.Call, facts: Sequence[CallFact], api: str) -> ast.expr:
    """A function or class of a library that a row names as a whole; what the row leaves out need not be there."""
    args, keywords = torch_arguments(scope, node, facts, api, absent=True)
    call = Call(api, args, keywords, result=tuple(f.result for f in facts))
    computes = scope.host and not api.endswith("_")  # `trunc_normal_` writes the parameter that it is given
    arrays = computes and all(isinstance(f.result, TensorValue) for f in facts)
    call = of_tensors(call) if arrays else call
    try:
        made = accept(scope, node, scope.work.opmap.lower(call), api)
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    for part in ast.walk(made):
        if isinstance(part, ast.Name) and part.id == ABSENT:
            raise Untranslatable(node, getattr(part, "reason", "an argument is not there"))
    read_fields(scope, node, made, [*args, *(argument for _, argument in keywords)])
    scope.work.claimed |= {index for f in facts for index in f.torch_calls}
    return ast.Call(ast.Attribute(made, "asnumpy", ast.Load()), [], []) if arrays else made


def _call_class(scope: Scope, node: ast.Call, facts: Sequence[CallFact], callee: ClassValue) -> ast.expr:
    """A class that is no module: an output object becomes a tuple; builtins stay."""
    result = facts[0].result
    if callee.name in ("torch.nn.Parameter", "torch.nn.Buffer") and not scope.host and node.args:
        return ast.Call(expression("ops.stop_gradient"), [lower(scope, node.args[0])], [])  # a leaf of its own
    if callee.name in ("torch.nn.Parameter", "torch.nn.Buffer"):
        from ms_port.passes.lowering.tensors import lower_parameter

        return lower_parameter(scope, node, facts)
    if callee.name == "functools.partial":
        return make_partial(scope, node, facts)
    if isinstance(result, ObjectValue) and result.kind == "output":
        return output_tuple(scope, node, facts, result)
    if callee.name == "torch.Size":
        return ast.Call(ast.Name("tuple", ast.Load()), [lower(scope, a) for a in node.args], [])
    if scope.host and callee.name in scope.work.program.cells:
        return construct_cell(scope, node, facts, callee.name, is_variable(scope, node.func))
    if isinstance(result, ObjectValue) and result.kind == "device":
        raise Untranslatable(node, "a device")
    if isinstance(result, ObjectValue) and result.kind == "config" and scope.host:
        return make_config(scope, node, facts, result)
    plain = scope.host and (callee.name.startswith("itertools.") or callee.name in TENSOR_CLASSES)
    if not plain and scope.work.opmap.row(callee.name) is not None:
        return _library_row(scope, node, facts, callee.name)
    return lower_builtin(scope, node, facts, callee.name)


def _call_named_partial(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """A torch function with keywords bound to it: the port holds a ``def`` of one tensor in its place."""
    if any(len(f.args) != 1 or f.kwargs for f in facts) or scope.host:
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` is a functools.partial over a function")
    for callee in {f.callee for f in facts}:
        of_value(scope, node, callee)
    return ast.Call(lower(scope, node.func), [lower(scope, node.args[0])], [])


def _is_own_function(callee: Value) -> bool:
    """Whether a person's own function is called, or a partial over one."""
    function = callee.func if isinstance(callee, PartialValue) else callee
    return isinstance(function, FunctionValue) and not function.torch and function.owner is None


def _call_partial(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """A constructor's helper with keywords bound to it: ordinary Python, kept."""
    for key in {f.entered for f in facts}:
        if key is None:
            raise Untranslatable(node, f"the source of `{ast.unparse(node.func)}` can't be followed")
        scope.work.need(key, node)
    args, keywords = user_arguments(scope, node, facts)
    return ast.Call(lower(scope, node.func), args, keywords)
