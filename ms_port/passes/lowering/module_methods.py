"""Methods that every ``torch.nn.Module`` has, in ``nn.Cell``'s words."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import expression, literal
from ms_port.ir.values import DType, FunctionValue, Literal, ModuleValue
from ms_port.opmap import Call, NoLowering
from ms_port.passes.lowering.arguments import torch_arguments, without_stars
from ms_port.passes.lowering.children import children
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.module_parameters import lower_parameters, lower_requires_grad
from ms_port.passes.lowering.scope import Scope, Untranslatable, dtype_expression, mark_functions

_SAME = frozenset("apply append extend insert update pop clear".split())
_ITERATORS = {
    "modules": ("cells_and_names", True),
    "named_modules": ("cells_and_names", False),
    "children": ("cells", False),
    "named_children": ("name_cells().items", False),
}
_CASTS = frozenset("half double bfloat16 requires_grad_".split())
"""Left out with a flag where they can't be taken over."""
_NOTHING = frozenset("to cuda cpu float half double bfloat16 requires_grad_ contiguous share_memory".split())


def lower_module_method(scope: Scope, node: ast.Call, facts: Sequence[CallFact], callee: FunctionValue) -> ast.expr:
    """``self.register_buffer``, ``m.modules()``, ``layer.forward(x)`` and their kin."""
    if not isinstance(node.func, ast.Attribute):
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` held in a variable")
    name = callee.name.rpartition(".")[2]
    match name:
        case "register_buffer":
            return _register_buffer(scope, node, facts)
        case "register_parameter":
            return _register_parameter(scope, node, facts)
        case "add_module" | "register_module":
            return _add_module(scope, without_stars(node, facts), callee)
        case "forward" if not node.keywords:
            return ast.Call(lower(scope, node.func.value), [lower(scope, a) for a in node.args], _keywords(scope, node))
        case "items" | "values" if not scope.host and ast.unparse(node.func.value) == "self":
            return children(scope, node.func.value, name, unique=False)
        case "children" | "named_children" if not scope.host:
            return children(scope, node.func.value, name)
        case "items" | "values" | "keys":
            return ast.Call(ast.Attribute(lower(scope, node.func.value), name, ast.Load()), [], [])
        case "train" | "eval" if scope.host:
            training = literal(name == "train") if not node.args else lower(scope, node.args[0])
            return ast.Call(ast.Attribute(lower(scope, node.func.value), "set_train", ast.Load()), [training], [])
        case _ if scope.host and (dtype := _cast_to(name, facts)) is not None:
            func = mark_functions(ast.Name("cast_parameters", ast.Load()), frozenset(["cast_parameters"]))
            scope.work.op_functions.add("cast_parameters")
            return ast.Call(func, [lower(scope, node.func.value), dtype_expression(dtype)], [])
        case "requires_grad_" if scope.host:
            return lower_requires_grad(scope, node)
        case "parameters" | "named_parameters" if scope.host:
            return lower_parameters(scope, node, name)
        case _ if name in _CASTS:
            scope.flag(
                node,
                "MSP505",
                f"`.{name}()` of a module is not taken over: the port's parameters are float32 and trainable",
                "Cast or freeze them after the cell is built.",
            )
            return lower(scope, node.func.value)
        case _ if name in _NOTHING:
            return lower(scope, node.func.value)
        case _ if name in _SAME:
            func = ast.Attribute(lower(scope, node.func.value), name, ast.Load())
            return ast.Call(func, [lower(scope, a) for a in node.args], [])
        case _ if name in _ITERATORS and scope.host:
            method, pairs = _ITERATORS[name]
            base = lower(scope, node.func.value)
            for part in method.split("()."):
                base = ast.Call(ast.Attribute(base, part, ast.Load()), [], [])
            call = base
            return _cells_only(call) if pairs else call
        case _ if callee.owner is not None and scope.work.opmap.row(f"{callee.owner.cls}.{name}") is not None:
            return _by_row(scope, node, facts, f"{callee.owner.cls}.{name}")
    raise Untranslatable(node, f"`.{name}()` of a module has no counterpart here")


def _by_row(scope: Scope, node: ast.Call, facts: Sequence[CallFact], api: str) -> ast.expr:
    """A method of one of torch's own modules that a row names."""
    args, keywords = torch_arguments(scope, node, facts, api)
    try:
        lowering = scope.work.opmap.lower(Call(api, args, keywords))
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    scope.work.claimed |= {index for f in facts for index in f.torch_calls}
    return scope.use(lowering)


_TYPES = {"half": "float16", "double": "float64", "bfloat16": "bfloat16"}


def _cast_to(name: str, facts: Sequence[CallFact]) -> str | None:
    """The float type that a call casts a module's tensors to, the same every time; None where it casts none."""
    if name != "to":
        return _TYPES.get(name)
    found = {v.name for f in facts for v in [*f.args, *dict(f.kwargs).values()] if isinstance(v, DType)}
    return found.pop() if len(found) == 1 and found <= set(_TYPES.values()) else None


def _cells_only(call: ast.expr) -> ast.expr:
    """``m.modules()`` as a list; a loop over it unpacks the pairs of ``cells_and_names`` itself (``pairs``)."""
    listed = expression("[cell for _, cell in __pairs__]")
    assert isinstance(listed, ast.ListComp)
    listed.generators[0].iter = call
    listed.pairs = call  # type: ignore[attr-defined]
    return listed


def _keywords(scope: Scope, node: ast.Call) -> list[ast.keyword]:
    return [ast.keyword(k.arg, lower(scope, k.value)) for k in node.keywords]


def _arguments(node: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
    given = dict(zip(names, node.args, strict=False))
    given.update({k.arg: k.value for k in node.keywords if k.arg is not None})
    return given


def _register_buffer(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    assert isinstance(node.func, ast.Attribute)
    given = _arguments(node, ("name", "tensor", "persistent"))
    if all(len(f.args) > 1 and f.args[1] == Literal(None) for f in facts):
        return ast.Call(
            ast.Name("setattr", ast.Load()),
            [lower(scope, node.func.value), lower(scope, given["name"]), literal(None)],
            [],
        )
    base, name = lower(scope, node.func.value), lower(scope, given["name"])
    named = [f.args[0] if f.args else dict(f.kwargs).get("name") for f in facts]
    names = {v.value for v in named if isinstance(v, Literal)}
    saved = "persistent" not in given or scope.constant(given["persistent"]) is None
    saved = saved or ast.unparse(given["persistent"]) == "True"
    return register(scope, base, name, given["tensor"], saved, {str(n) for n in names})


def register(scope: Scope, base: ast.expr, name: ast.expr, tensor: ast.expr, saved: bool, names: set[str]) -> ast.expr:
    """A buffer. One that torch saves, or whose values come with the weights, is a Parameter without gradient:
    load_param_into_net leaves MindSpore's own buffers out, and a compiled graph holds them as constants."""
    from ms_port.passes.lowering.tensors import buffer_value

    value, exact = buffer_value(scope, tensor)
    if exact and not saved:
        func = ast.Attribute(base, "register_buffer", ast.Load())
        return ast.Call(func, [name, _as_tensor(value)], [ast.keyword("persistent", literal(False))])
    if not exact:
        owners = {v.cls for v in scope.facts.parameters.get("self", ()) if isinstance(v, ModuleValue)}
        scope.work.allocated |= {(owner, n) for owner in owners for n in names}
    made = ast.Call(ast.Name("Parameter", ast.Load()), [value], [ast.keyword("requires_grad", literal(False))])
    return ast.Call(ast.Name("setattr", ast.Load()), [base, name, made], [])


def _as_tensor(made: ast.expr) -> ast.expr:
    """A buffer is a Tensor with data: ``initializer(...)`` alone is lazy."""
    if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "initializer":
        return ast.Call(ast.Attribute(made, "init_data", ast.Load()), [], [])
    return made


def _register_parameter(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    given = _arguments(node, ("name", "param"))
    assert isinstance(node.func, ast.Attribute)
    value = literal(None) if facts[0].args[-1] == Literal(None) else lower(scope, given["param"])
    return ast.Call(
        ast.Name("setattr", ast.Load()), [lower(scope, node.func.value), lower(scope, given["name"]), value], []
    )


def _add_module(scope: Scope, node: ast.Call, callee: FunctionValue) -> ast.expr:
    assert isinstance(node.func, ast.Attribute)
    given = _arguments(node, ("name", "module"))
    base = lower(scope, node.func.value)
    assert callee.owner is not None
    name, module = lower(scope, given["name"]), lower(scope, given["module"])
    if not _is_sequential(scope, callee.owner) and isinstance(base, ast.Name) and base.id == "self":
        return ast.Call(ast.Name("setattr", ast.Load()), [base, name, module], [])
    scope.work.op_functions.add("add_cell")
    keywords = [ast.keyword("prefix", literal(prefix))] if (prefix := _place(base)) else []
    return ast.Call(ast.Name("add_cell", ast.Load()), [base, name, module], keywords)


def _place(base: ast.expr) -> str:
    """``self.features`` -> ``features.``: a container that is already part of the cell has that prefix."""
    parts: list[str] = []
    while isinstance(base, ast.Attribute):
        parts.insert(0, base.attr)
        base = base.value
    return "".join(f"{part}." for part in parts) if isinstance(base, ast.Name) and base.id == "self" else ""


def _is_sequential(scope: Scope, module: ModuleValue) -> bool:
    """SequentialCell keeps a list of its cells beside the registry: a child must enter both."""
    seen, todo = set(), [module.cls]
    while todo:
        name = todo.pop()
        if name == "torch.nn.Sequential":
            return True
        cell = scope.work.program.cells.get(name)
        if cell is not None and name not in seen:
            seen.add(name)
            todo.extend(cell.bases)
    return False
