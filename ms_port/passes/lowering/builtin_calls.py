"""Calls of Python's own functions and of containers' methods: they stay, where GRAPH_MODE knows them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from contextlib import suppress

from ms_port.ir.program import CallFact, Program
from ms_port.ir.tree import expression, literal, nid
from ms_port.ir.values import (
    ClassValue,
    Literal,
    ModuleValue,
    ObjectValue,
    SequenceValue,
    TensorValue,
    holds_tensor,
    is_whole,
)
from ms_port.opmap import NoLowering
from ms_port.passes.cell_names import CELL_NAMES
from ms_port.passes.lowering.configs import field_of
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.legacy_tensors import LEGACY, legacy_tensor
from ms_port.passes.lowering.names import of_class
from ms_port.passes.lowering.scope import Scope, Untranslatable, same
from ms_port.passes.lowering.tables import is_asked, registry

GRAPH_BUILTINS = frozenset(
    "abs all any bool dict enumerate float int isinstance len list map max min pow range reversed round "
    "slice str sum tuple zip".split()
)
HOST_BUILTINS = GRAPH_BUILTINS | frozenset(
    "callable divmod filter format getattr hasattr iter next print set setattr sorted type".split()
)
_CONTAINERS = ("list", "dict", "str", "tuple", "set", "collections", "builtins.list", "builtins.dict", "builtins.str")
_GRAPH_METHODS = frozenset("append keys values items get format join split lower upper startswith endswith".split())


_NUMPY_VALUES = ("ndarray.", "int64.", "int32.", "float64.", "float32.", "bool_.")
"""numpy's array and its scalars, whose methods stay."""


def lower_builtin(scope: Scope, node: ast.Call, facts: Sequence[CallFact], name: str) -> ast.expr:
    """A builtin function, a container method or a function of ``math``."""
    short = name.removeprefix("builtins.")
    if name == "collections.OrderedDict" and scope.host:
        return _rebuilt(scope, node, ast.Name("OrderedDict", ast.Load()))
    if name == "collections.OrderedDict" and not node.args and not node.keywords:
        return ast.Dict([], [])
    if name in LEGACY:
        return legacy_tensor(scope, node, facts, name)
    if short in ("isinstance", "issubclass"):
        return lower_isinstance(scope, node)
    if short == "dict" and not scope.host and not node.args and all(k.arg for k in node.keywords):
        # a cell's call inside `dict(...)` does not compile in GRAPH_MODE
        return ast.Dict([literal(k.arg) for k in node.keywords], [lower(scope, k.value) for k in node.keywords])
    if short == "set" and not scope.host and not any(isinstance(a, ast.Starred) for a in node.args):
        # GRAPH_MODE has no set; it is asked for members
        given = [lower(scope, a) for a in node.args]
        return ast.Call(ast.Name("list", ast.Load()), given, []) if given else ast.List([], ast.Load())
    if short == "getattr":
        return _getattr(scope, node, facts)
    if short == "hasattr" and not scope.host and (made := _hasattr(scope, node, facts)) is not None:
        return made
    if (short == "float" and _is_tensor_argument(facts)) or (short in ("int", "bool") and _is_tensor_argument(facts)):
        raise Untranslatable(node, f"`{ast.unparse(node)}` reads a tensor's value")
    if short == "reversed" and not scope.host and len(node.args) == 1:
        # inside zip or enumerate `reversed` does not compile in GRAPH_MODE
        return ast.Subscript(lower(scope, node.args[0]), ast.Slice(step=literal(-1)), ast.Load())
    if short == "zip" and not scope.host:  # GRAPH_MODE's takes no `strict`
        return ast.Call(ast.Name("zip", ast.Load()), [lower(scope, a) for a in node.args], [])
    if short == "map" and not scope.host and len(node.args) == 2 and isinstance(node.args[0], ast.Lambda):
        return _mapped(scope, node.args[0], node.args[1])
    allowed = HOST_BUILTINS if scope.host else GRAPH_BUILTINS
    if isinstance(node.func, ast.Name) and short in allowed and (node.func.id == short or scope.host):
        made = _rebuilt(scope, node, lower(scope, node.func))  # by its own name or by a variable that holds it
        if short in ("all", "any"):
            return _decided_quantifier(made, short)
        return made if scope.host else _as_python_has_it(made, short, facts)
    if name.startswith("math."):
        return _rebuilt(scope, node, lower(scope, node.func))
    if scope.host and name.startswith(("itertools.", "copy.", "_functools.")):
        return _copied(scope, node, name)
    if name.startswith("numpy.") and (scope.host or not _takes_tensors(facts)):
        made = _rebuilt(scope, node, _numpy_function(scope, node, name))
        return ast.Call(ast.Name("int", ast.Load()), [made], []) if scope.host and _gives_ints(facts) else made
    if name.startswith(_NUMPY_VALUES) and isinstance(node.func, ast.Attribute) and not _takes_tensors(facts):
        return _rebuilt(scope, node, ast.Attribute(lower(scope, node.func.value), node.func.attr, ast.Load()))
    if isinstance(node.func, ast.Attribute) and _is_container_method(name):
        return _container_method(scope, node, facts)
    raise Untranslatable(node, f"`{name}` has no counterpart in the port")


def _as_python_has_it(made: ast.Call, name: str, facts: Sequence[CallFact]) -> ast.expr:
    """A builtin in graph code: there ``round(2.5)`` is the float 2.0, which no slice takes, and ``pow(2, -1)`` is 0."""
    if name == "round" and len(made.args) == 1 and _gives_ints(facts):
        return ast.Call(ast.Name("int", ast.Load()), [made], [])
    results = [f.result for f in facts]
    if name == "pow" and all(is_whole(v) for f in facts for v in f.args) and not all(map(is_whole, results)):
        made.args[0] = ast.Call(ast.Name("float", ast.Load()), [made.args[0]], [])
    match made:
        case ast.Call(func=ast.Name(id="int"), args=[ast.Call(func=ast.Name(id="int")) as inner]):
            return inner  # `int(round(x))`
    return made


def _decided_quantifier(made: ast.expr, name: str) -> ast.expr:
    """``all([True for s in settings])`` is True: what was asked of each is always so in the port."""
    match made:
        case ast.Call(
            args=[ast.ListComp(elt=ast.Constant(value=value)) | ast.GeneratorExp(elt=ast.Constant(value=value))]
        ):
            return literal(value) if value is (name == "all") else made
    return made


def _mapped(scope: Scope, function: ast.Lambda, items: ast.expr) -> ast.expr:
    """``map(lambda t: f(t), xs)`` -> ``[f(t) for t in xs]``: GRAPH_MODE maps no function that reads names around it."""
    made = lower(scope, function)
    assert isinstance(made, ast.Lambda)
    arguments = made.args
    if len(arguments.args) != 1 or arguments.defaults or arguments.vararg or arguments.kwonlyargs:
        raise Untranslatable(function, "a lambda of several parameters in map")
    target = ast.Name(arguments.args[0].arg, ast.Store())
    return ast.ListComp(made.body, [ast.comprehension(target, lower(scope, items), [], 0)])


def _takes_tensors(facts: Sequence[CallFact]) -> bool:
    return any(holds_tensor(v) for f in facts for v in [f.result, *f.args, *dict(f.kwargs).values()])


def _gives_ints(facts: Sequence[CallFact]) -> bool:
    """Whether a call always gives whole numbers. (numpy's no layer of MindSpore takes for a size as they are.)"""
    return all(is_whole(f.result) for f in facts)


def _numpy_function(scope: Scope, node: ast.Call, name: str) -> ast.expr:
    """``np.sin``, also where the source imports it by another name."""
    if isinstance(node.func, ast.Attribute):
        try:
            return ast.Attribute(lower(scope, node.func.value), node.func.attr, ast.Load())
        except Untranslatable:
            pass
    return ast.Attribute(ast.Name("np", ast.Load()), name.rpartition(".")[2], ast.Load())


def _rebuilt(scope: Scope, node: ast.Call, func: ast.expr) -> ast.Call:
    args = [lower(scope, a) for a in node.args]
    keywords: list[ast.keyword] = []
    for keyword in node.keywords:
        match keyword.arg, lower(scope, keyword.value):
            case None, ast.Dict(keys=keys, values=values) if all(isinstance(k, ast.Constant) for k in keys):
                keywords += [ast.keyword(str(ast.literal_eval(k)), v) for k, v in zip(keys, values, strict=True) if k]
            case name, value:
                keywords.append(ast.keyword(name, value))
    return ast.Call(func, args, keywords)


def _is_tensor_argument(facts: Sequence[CallFact]) -> bool:
    return any(f.args and isinstance(f.args[0], TensorValue) for f in facts)


def _is_container_method(name: str) -> bool:
    owner = name.rpartition(".")[0]
    return owner in _CONTAINERS or owner in ("OrderedDict", "defaultdict", "odict_iterator")


def _container_method(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    assert isinstance(node.func, ast.Attribute)
    method = node.func.attr
    if isinstance(node.func.value, ast.Name) and node.func.value.id == scope.varkw:
        return _keyword_argument(scope, node, method)
    if not scope.host and method not in _GRAPH_METHODS:
        tensors = any(holds_tensor(v) for v in scope.values(node.func.value)) or holds_tensor(facts[0].result)
        if tensors:
            raise Untranslatable(node, f"`.{method}` of a container of tensors loses gradients in GRAPH_MODE")
    try:
        holder = lower(scope, node.func.value)
    except Untranslatable:
        if not (
            scope.host and method == "get" and isinstance(node.func.value, ast.Name) and is_asked(scope, node.args[0])
        ):
            raise
        holder = registry(scope, node.func.value, [f.result for f in facts])
    return _rebuilt(scope, node, ast.Attribute(holder, method, ast.Load()))


def _keyword_argument(scope: Scope, node: ast.Call, method: str) -> ast.expr:
    """``kwargs.pop("bias", True)``: the entry is a parameter of its own."""
    match node.args:
        case [ast.Constant(value=str(key)), *default] if method in ("pop", "get", "setdefault") and key.isidentifier():
            value = lower(scope, default[0]) if default else literal(None)
            if isinstance(value, ast.Constant | ast.Tuple):
                scope.expanded[key] = value
                return ast.Name(key, ast.Load())
    raise Untranslatable(node, f"`{ast.unparse(node)}` takes an entry that can't be told")


def _copied(scope: Scope, node: ast.Call, name: str) -> ast.expr:
    if name in ("copy.copy", "copy.deepcopy") and node.args:
        values = scope.values(node.args[0])
        if values and isinstance(values[0], Literal | ObjectValue | SequenceValue):
            return lower(scope, node.args[0])
        raise Untranslatable(node, "a copied module")
    return _rebuilt(scope, node, lower(scope, node.func))


def lower_isinstance(scope: Scope, node: ast.Call) -> ast.expr:
    """``isinstance(m, nn.Linear)``: the class becomes MindSpore's; other classes decide by value."""
    constant = scope.constant(node)
    subject = scope.values(node.args[0])
    if not scope.host and constant is not None:
        return constant
    if subject and all(isinstance(v, ModuleValue) for v in subject):
        classes = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
        tested = {v.cls for v in subject if isinstance(v, ModuleValue)}
        kept = [c for cls in classes for c in _module_classes(scope, cls, tested)]
        if kept:
            argument = kept[0] if len(kept) == 1 else ast.Tuple(kept, ast.Load())
            return ast.Call(ast.Name("isinstance", ast.Load()), [lower(scope, node.args[0]), argument], [])
    if constant is not None and not (subject and isinstance(subject[0], Literal)):
        return constant
    if any(isinstance(v, ClassValue) and v.is_module for n in ast.walk(node.args[1]) for v in scope.values(n)):
        raise Untranslatable(node, "the class of something that is no module of the model")
    return _rebuilt(scope, node, ast.Name("isinstance", ast.Load()))


def _module_classes(scope: Scope, node: ast.expr, tested: Collection[str]) -> list[ast.expr]:
    """The MindSpore classes of one entry; none where the model has no such layer and the port no such class.

    A class that one of the ``tested`` modules has is one of the port, be it that its turn comes later.
    """
    values = scope.values(node)
    value = values[0] if values else None
    if not isinstance(value, ClassValue):
        return []
    name, program = value.name, scope.work.program
    if name == "torch.nn.Module":
        return [ast.Attribute(ast.Name("nn", ast.Load()), "Cell", ast.Load())]
    if name in program.cells:
        if name in scope.work.cells or any(cls == name or is_derived(program, cls, name) for cls in tested):
            return [ast.Name(program.cells[name].name, ast.Load())]
        return []
    row = scope.work.opmap.row(name)
    if row is None or row.cell is None:
        return []
    cells = _cells_of_layers(scope, name, row.cell)
    scope.work.op_functions |= {cell for cell in cells if "." not in cell}
    return [expression(cell) for cell in cells]


def _cells_of_layers(scope: Scope, cls: str, usual: str) -> list[str]:
    """What the model's layers of a torch class become: ``nn.ELU``, or a class of functions.py by their settings."""
    program, opmap = scope.work.program, scope.work.opmap
    found = {usual} if any(is_derived(program, cell, cls) for cell in program.cells) else set()
    for module in program.modules.values():
        if module.cls == cls:
            attributes = {k: v.value for k, v in module.attributes if isinstance(v, Literal)}
            with suppress(NoLowering):
                made = opmap.from_instance(cls, attributes).expression
                found |= {ast.unparse(made.func)} if isinstance(made, ast.Call) else set()
    return sorted(cell for cell in found if not found.intersection(opmap.bases(cell))) or [usual]


def _may_lack(scope: Scope, facts: Sequence[CallFact]) -> bool:
    """Whether ``getattr(module, name, default)`` gave its default for a module of the model that lacks the name."""
    for fact in facts:
        if len(fact.args) < 3 or fact.result != fact.args[2] or not isinstance(owner := fact.args[0], ModuleValue):
            continue
        module = scope.work.program.modules.get(owner.path or "")
        known = [n for n, _ in (*module.attributes, *module.children)] if module is not None else []
        if getattr(fact.args[1], "value", "") not in known:
            return True
    return False


def _hasattr(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr | None:
    """``hasattr(self, f"layer{i}")`` stays, where each name that was there is a child or tensor of the port too."""
    if (constant := scope.constant(node)) is not None:
        return constant
    for fact in facts:
        match fact.args:
            case (ModuleValue(path=str(path)), Literal(value=str(name))):
                front = f"{path}." if path else ""
                known = front + name in scope.work.program.modules or front + name in scope.work.program.parameters
                if known != (fact.result == Literal(True)) or (not known and name in CELL_NAMES):
                    return _by_class(scope, node, facts)
            case _:
                return None
    return _rebuilt(scope, node, ast.Name("hasattr", ast.Load()))


def _by_class(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr | None:
    """``hasattr(block, "has_cross_attention")`` of cells as ``isinstance``, where the class tells it."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for fact in facts:
        if not isinstance(fact.args[0], ModuleValue):
            return None
        found[fact.result == Literal(True)].add(fact.args[0].cls)
    if any(yes == no or is_derived(scope.work.program, no, yes) for yes in found[True] for no in found[False]):
        return None
    classes = [of_class(scope, node, name) for name in sorted(found[True])]
    argument = classes[0] if len(classes) == 1 else ast.Tuple(classes, ast.Load())
    return ast.Call(ast.Name("isinstance", ast.Load()), [lower(scope, node.args[0]), argument], [])


def is_derived(program: Program, cls: str, base: str) -> bool:
    """Whether a class of the program derives from another."""
    cell = program.cells.get(cls)
    return cell is not None and (base in cell.bases or any(is_derived(program, b, base) for b in cell.bases))


def _getattr(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``getattr(obj, "name")`` with a constant name is the attribute."""
    names = [f.args[1] for f in facts if len(f.args) > 1]
    subject = facts[0].args[0] if facts[0].args else None
    if same(names) and isinstance(names[0], Literal) and isinstance(names[0].value, str):
        result = facts[0].result
        if isinstance(subject, ObjectValue) and subject.kind == "config" and isinstance(result, Literal):
            owner = lower(scope, node.args[0])
            subjects = [f.args[0] for f in facts if f.args]
            return field_of(scope, ast.Attribute(owner, names[0].value, ast.Load()), subjects, result)
        if isinstance(subject, ModuleValue) and scope.host and _may_lack(scope, facts):
            return ast.Call(ast.Name("getattr", ast.Load()), [lower(scope, a) for a in node.args], [])
        if isinstance(subject, ModuleValue) and (isinstance(result, ModuleValue) or scope.host):
            attribute = ast.copy_location(ast.Attribute(node.args[0], names[0].value, ast.Load()), node)
            attribute.nid = nid(node)  # type: ignore[attr-defined]
            return lower(scope, attribute)
    if isinstance(subject, ModuleValue):
        return ast.Call(ast.Name("getattr", ast.Load()), [lower(scope, a) for a in node.args], [])
    raise Untranslatable(node, f"`{ast.unparse(node)}` reads {literal('an object that the port lacks')}")
