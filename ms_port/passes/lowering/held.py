"""Constructors written from what instances hold, where the source's own can't be translated or never ran."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from torch import nn

from ms_port.ir.flags import Flag, Place
from ms_port.ir.program import EMPTY_FACTS, FunctionDef, ModuleInstance, ParameterInstance, Program, Stub
from ms_port.ir.tree import copy, expression, literal
from ms_port.ir.values import ClassValue, FunctionValue, Literal, ModuleValue, PartialValue, Value
from ms_port.opmap import NoLowering, Row
from ms_port.passes.cell_names import CELL_NAMES
from ms_port.passes.lowering.base_layers import layer_base
from ms_port.passes.lowering.configs import argument_value, given_arguments
from ms_port.passes.lowering.inherited import find_method
from ms_port.passes.lowering.scope import Scope, Untranslatable, Work, mark_functions, same
from ms_port.passes.lowering.without_batch import without_batch

_CONTAINERS = {
    "torch.nn.Sequential": "nn.SequentialCell",
    "torch.nn.ModuleList": "nn.CellList",
    "torch.nn.ModuleDict": "nn.CellDict",
}


def held_statements(
    scope: Scope, statement: ast.stmt, names: Iterable[str], error: Untranslatable
) -> list[ast.stmt] | None:
    """Assignments for the names that a statement added to the module; None where it added nothing that is needed."""
    owners = [o for o in scope.facts.parameters.get("self", ()) if isinstance(o, ModuleValue) and o.path is not None]
    made: list[ast.stmt] = []
    for name in sorted(names):
        if name.startswith("_") and name not in scope.work.graph_reads:
            continue
        versions = [_held(scope.work, owner.path or "", name) for owner in owners]
        if not versions or all(v is None for v in versions):
            continue
        if None in versions or len({ast.dump(v) for v in versions if v is not None}) != 1:
            raise Untranslatable(statement, f"`self.{name}` differs between instances: {error.reason}")
        assert versions[0] is not None
        written = _with_names(scope, statement, versions[0])
        written.held = True  # type: ignore[attr-defined]
        made.append(written)
    return made or None


def _with_names(scope: Scope, source: ast.stmt, made: ast.stmt) -> ast.stmt:
    """``norm_layer=nn.BatchNorm2d`` by the constructor's own ``norm_layer``, where that held the same class."""
    for call in (n for n in ast.walk(made) if isinstance(n, ast.Call)):
        for keyword in call.keywords:
            if isinstance(keyword.value, ast.Constant) or keyword.arg not in scope.locals - scope.poisoned.keys():
                continue
            last = _last_value(scope, keyword.arg or "", source)
            if isinstance(last, ClassValue | PartialValue):
                with suppress(ValueError, Untranslatable):
                    if ast.dump(argument_value(scope.work, last)) == ast.dump(keyword.value):
                        keyword.value = ast.Name(keyword.arg or "", ast.Load())
    return made


def _last_value(scope: Scope, name: str, statement: ast.stmt) -> Value | None:
    """What a local held when it was last read before a statement's end; None where it varied or is bound in between."""
    nodes = [n for s in scope.function.body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name]
    before = [n for n in nodes if n.lineno <= (statement.end_lineno or statement.lineno)]
    last = max(before, key=lambda n: (n.lineno, n.col_offset), default=None)
    seen = scope.values(last) if last is not None and isinstance(last.ctx, ast.Load) else ()
    return seen[0] if seen and same(seen) else None


def _held(work: Work, path: str, name: str) -> ast.stmt | None:
    """``self.name = ...`` of one instance; None where it holds no such thing that the port needs."""
    module = work.program.modules.get(path)
    if module is None:
        return None
    full = f"{path}.{name}" if path else name
    if (child := dict(module.children).get(name)) is not None:
        return _assignment(name, held_module(work, child))
    if (tensor := work.program.parameters.get(full)) is not None or name in work.graph_reads:
        tensor = tensor or work.program.tensor_attributes.get(full)
    if tensor is not None:
        work.allocated.add((module.cls, name))
        return _tensor_statement(tensor, name)
    value = dict(module.attributes).get(name)
    if value is None or name not in work.graph_reads or module.is_torch:
        return None
    if not isinstance(value, Literal | ClassValue | FunctionValue | PartialValue):
        return None
    try:
        return _assignment(name, argument_value(work, value))
    except (ValueError, Untranslatable):
        return None


def _assignment(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Attribute(ast.Name("self", ast.Load()), name, ast.Store())], value, lineno=0)


def _tensor_statement(tensor: ParameterInstance, name: str) -> ast.stmt:
    dtype = "" if tensor.dtype == "float32" else f", ms.{ {'bool': 'bool_'}.get(tensor.dtype, tensor.dtype) }"
    made = f"initializer('zeros', {tensor.shape!r}{dtype})"
    if 0 in tensor.shape:  # MindSpore has no initializer for a tensor without elements
        made = f"Tensor(np.zeros({tensor.shape!r}, np.{tensor.dtype}))"
    frozen = "" if tensor.trainable else ", requires_grad=False"
    return _assignment(name, expression(f"Parameter({made}{frozen})"))


def held_module(work: Work, path: str) -> ast.expr:
    """The module at a path, made of literals. Raises Untranslatable."""
    module = work.program.modules[path]
    row = work.opmap.row(module.cls)
    if module.cls in _CONTAINERS:
        return _container(work, module)
    if row is not None:
        attributes = {k: v.value for k, v in module.attributes if isinstance(v, Literal)}
        tensors = _given_tensors(work, module, row)
        try:
            lowering = work.opmap.from_instance(module.cls, attributes | {name: name for name in tensors})
        except NoLowering as error:
            return _stub(work, module, str(error))
        work.op_functions |= lowering.functions
        made = mark_functions(lowering.expression, lowering.functions)
        for keyword in made.keywords if isinstance(made, ast.Call) and tensors else ():
            keyword.value = tensors.get(keyword.arg or "", keyword.value)
        return without_batch(work, made, [path])
    if module.cls not in work.program.cells:
        return _stub(work, module, "no row in the op map")
    return _held_user_module(work, module)


def _given_tensors(work: Work, module: ModuleInstance, row: Row) -> dict[str, ast.expr]:
    """Tensors that a layer was given (class weights of a loss): of their shape, the values come with the weights."""
    found = {}
    for parameter in row.overloads[0].signature if row.overloads else ():
        name = parameter.name
        tensor = work.program.parameters.get(f"{module.path}.{name}" if module.path else name)
        if tensor is not None and name not in (row.instance or {}):
            found[name] = expression(f"Tensor(np.zeros({tensor.shape!r}, np.{tensor.dtype}))")
    return found


def _stub(work: Work, module: ModuleInstance, reason: str) -> ast.expr:
    """A layer without a MindSpore form, made of what it holds: a cell in ``fixes.py``."""
    name = module.cls.rpartition(".")[2]
    root = work.program.root_cell
    loc = root.loc if root is not None else Place("?", 0)
    source = f"{name} at {module.path}"
    work.stubs.setdefault(name, Stub(name, module.cls, (), loc, source, reason, is_cell=True))
    work.flags.append(
        Flag(
            rule="MSP101",
            severity="error",
            message=f"{module.cls} has no MindSpore form here: {reason}",
            op=module.cls,
            module=module.path,
            source=loc,
            advice=f"Write the cell `{name}` in fixes.py.",
        )
    )
    keywords = []
    for key, value in module.attributes:
        if isinstance(value, Literal):
            try:
                keywords.append(ast.keyword(key, literal(value.value)))
            except ValueError:
                continue
    return ast.Call(ast.Name(name, ast.Load()), [], keywords)


def _container(work: Work, module: ModuleInstance) -> ast.expr:
    func = layer_dict(work) if needs_layer_dict(work, module) else expression(_CONTAINERS[module.cls])
    return _container_call(work, module, func)


def needs_layer_dict(work: Work, module: ModuleInstance) -> bool:
    """Whether nn.CellDict refuses what a ModuleDict holds: containers, and names that nn.Cell has for itself."""
    modules = work.program.modules
    return module.cls == "torch.nn.ModuleDict" and any(
        name in CELL_NAMES or hasattr(nn.Module, name) or (path in modules and modules[path].cls in _CONTAINERS)
        for name, path in module.children
    )


def layer_dict(work: Work) -> ast.expr:
    """The class that takes them."""
    return _marked(work, "LayerDict")


def layers_or_none(work: Work) -> ast.expr:
    """The class of a ModuleList that holds None in places."""
    return _marked(work, "LayersOrNone")


def _marked(work: Work, name: str) -> ast.expr:
    work.op_functions.add(name)
    return mark_functions(ast.Name(name, ast.Load()), frozenset([name]))


def has_gaps(module: ModuleInstance) -> bool:
    """Whether a ModuleList holds None before one of its layers."""
    numbers = [name for name, _ in module.children]
    return module.cls == "torch.nn.ModuleList" and numbers != [str(i) for i in range(len(numbers))]


def container_base(program: Program, cls: str) -> str | None:
    """Sequential, ModuleList or ModuleDict, where a class of the person's derives from one."""
    cell = program.cells.get(cls)
    for base in cell.bases if cell is not None else ():
        if base in _CONTAINERS:
            return base
        if (found := container_base(program, base)) is not None:
            return found
    return None


def _container_call(work: Work, module: ModuleInstance, func: ast.expr) -> ast.expr:
    names = [name for name, _ in module.children]
    items = [held_module(work, path) for _, path in module.children]
    if has_gaps(module):
        made = dict(zip(names, items, strict=True))
        places = [made.get(str(i), literal(None)) for i in range(int(names[-1]) + 1)]
        return ast.Call(layers_or_none(work), [ast.List(places, ast.Load())], [])
    if "torch.nn.ModuleDict" in (module.cls, container_base(work.program, module.cls)) or names != [
        str(i) for i in range(len(names))
    ]:
        pairs: list[ast.expr] = [
            ast.Tuple([literal(n), item], ast.Load()) for n, item in zip(names, items, strict=True)
        ]
        inner = ast.Call(ast.Name("OrderedDict", ast.Load()), [ast.List(pairs, ast.Load())], [])
        return ast.Call(func, [inner], [])
    if module.cls in _CONTAINERS and len(items) > 1 and len({ast.dump(i) for i in items}) == 1:
        loop = expression(f"[__item__ for _ in range({len(items)})]")
        assert isinstance(loop, ast.ListComp)
        loop.elt = items[0]
        return ast.Call(func, [loop], [])
    if "torch.nn.ModuleList" in (module.cls, container_base(work.program, module.cls)) or len(items) == 1:
        return ast.Call(func, [ast.List(items, ast.Load())], [])
    return ast.Call(func, items, [])


def _held_user_module(work: Work, module: ModuleInstance) -> ast.expr:
    """``Class(...)``: by its seen arguments where its own constructor is there, else by what differs."""
    cell = work.program.cells[module.cls]
    work.cells.add(module.cls)
    init = next((m.key for m in cell.methods if m.name == "__init__"), None)
    if module.cls not in work.held and init is not None and module.arguments:
        try:
            work.need(init)
            given = given_arguments(work, module, work.all_functions[init])
            keywords = [ast.keyword(k, argument_value(work, v)) for k, v in given.items()]
            call = ast.Call(ast.Name(cell.name, ast.Load()), [], keywords)
            call.callees = (init,)  # type: ignore[attr-defined]
            return call
        except (Untranslatable, ValueError):
            pass
    if (container := container_base(work.program, module.cls)) is not None:
        if not any(m.name == "forward" for m in cell.methods):
            return _container_call(work, module, expression(_CONTAINERS[container]))
        work.held |= {module.cls, *(b for b in cell.bases if b in work.program.cells)}
        return _container_call(work, module, ast.Name(cell.name, ast.Load()))
    if (made := by_layer(work, module)) is not None:
        return made
    work.held.add(module.cls)
    held = held_class(work, module.cls)
    index = held.paths.index(module.path)
    keywords = [ast.keyword(name, copy(values[index])) for name, values in held.parameters.items()]
    return ast.Call(ast.Name(cell.name, ast.Load()), [], keywords)


def by_layer(work: Work, module: ModuleInstance) -> ast.expr | None:
    """``Conv(3, 4, 3, has_bias=True)`` of a class that has only the constructor of its torch layer."""
    base = layer_base(work.program, module.cls)
    row = work.opmap.row(base) if base is not None and base not in _CONTAINERS else None
    if (
        row is None
        or base is None
        or module.cls in work.held
        or find_method(work.program, module.cls, "__init__") is not None
    ):
        return None
    prefix = f"{module.path}." if module.path else ""
    made = _layer_init(
        work, module, base, {r.torch: f"{prefix}{r.torch}" in work.program.parameters for r in row.weights}
    )
    assert isinstance(made, ast.Expr) and isinstance(made.value, ast.Call)
    work.cells.add(module.cls)
    return ast.Call(ast.Name(work.program.cells[module.cls].name, ast.Load()), made.value.args, made.value.keywords)


@dataclass(frozen=True, slots=True)
class HeldClass:
    """A constructor that fits all instances: its body, and the parameters in which they differ."""

    paths: tuple[str, ...]
    body: tuple[ast.stmt, ...]
    parameters: dict[str, tuple[ast.expr, ...]]
    """Parameter -> its value in each instance."""


def held_class(work: Work, cls: str) -> HeldClass:
    """Compare all instances of a class; what differs becomes parameters. Raises Untranslatable."""
    if cls in work.held_classes:
        return work.held_classes[cls]
    cell = work.program.cells[cls]
    bodies = [_instance_body(work, work.program.modules[path]) for path in cell.instances]
    if not bodies:
        raise Untranslatable(ast.Pass(), f"{cls} has no instance in the model")
    names = list(dict.fromkeys(name for body in bodies for name in body))
    unify = _Unify()
    merged = []
    for name in names:
        versions = [body.get(name) or _assignment(name, literal(None)) for body in bodies]
        merged.append(unify.statement(versions, name))
    held = HeldClass(cell.instances, tuple(merged), unify.parameters)
    work.held_classes[cls] = held
    return held


def held_init(work: Work, cls: str) -> FunctionDef:
    """The constructor of a held class as a function of the program."""
    held = held_class(work, cls)
    cell = work.program.cells[cls]
    body = list(held.body)
    if not body or not isinstance(body[0], ast.Expr):
        body.insert(0, ast.parse("super().__init__()").body[0])
    if cls == work.program.root:
        body += _ties(work)
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg("self"), *(ast.arg(name) for name in held.parameters)],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )
    node = ast.FunctionDef("__init__", arguments, [], [], None, lineno=cell.loc.line)
    return FunctionDef(
        key=f"{cls}.__init__ (held)",
        name="__init__",
        node=node,
        body=tuple(body),
        facts=EMPTY_FACTS,
        loc=cell.loc,
        owner=cls,
        kind="method",
        during_init=True,
    )


def _ties(work: Work) -> list[ast.stmt]:
    """Parameters that are one: ``self.decoder.weight = self.embeddings.weight``."""
    return [
        ast.Assign(
            [parameter_path(work, path, 0, ast.Store())], parameter_path(work, tensor.tied_to, 0, ast.Load()), lineno=0
        )
        for path, tensor in work.program.parameters.items()
        if tensor.tied_to is not None and path.rpartition(".")[0] != tensor.tied_to.rpartition(".")[0]
    ]


def parameter_path(work: Work, path: str, skip: int, context: ast.expr_context) -> ast.expr:
    """``self.a[0].weight`` for ``a.0.weight``, the last name in MindSpore's words; ``skip`` parts lead to self."""
    owner, _, name = path.rpartition(".")
    row = _layer_row(work, work.program.modules[owner].cls) if owner in work.program.modules else None
    renamed = None
    if row is not None:
        with suppress(KeyError):
            renamed = row.weight(name).mindspore
    made: ast.expr = ast.Name("self", ast.Load())
    for part in owner.split(".")[skip:] if owner else ():
        if part.isdigit():
            made = ast.Subscript(made, literal(int(part)), ast.Load())
        else:
            made = ast.Attribute(made, part, ast.Load())
    return ast.Attribute(made, renamed or name, context)


def module_path(work: Work, path: str, skip: int) -> ast.expr:
    """``self.a[0]`` for the module ``a.0``; ``skip`` parts lead to self."""
    parts = path.split(".") if path else []
    made: ast.expr = ast.Name("self", ast.Load())
    for at in range(skip, len(parts)):
        parent = work.program.modules.get(".".join(parts[:at]))
        if parts[at].isdigit() or (parent is not None and parent.cls == "torch.nn.ModuleDict"):
            key = int(parts[at]) if parts[at].isdigit() else parts[at]
            made = ast.Subscript(made, literal(key), ast.Load())
        else:
            made = ast.Attribute(made, parts[at], ast.Load())
    return made


def _layer_row(work: Work, cls: str) -> Row | None:
    """The row of a layer class, or of the torch layer that a person's class derives from."""
    cell = work.program.cells.get(cls)
    if cell is None:
        return work.opmap.row(cls)
    rows = (_layer_row(work, base) for base in cell.bases if base != "torch.nn.Module")
    return next((row for row in rows if row is not None), None)


def _instance_body(work: Work, module: ModuleInstance) -> dict[str, ast.stmt]:
    prefix = f"{module.path}." if module.path else ""
    own = [p for p in work.program.parameters if p.startswith(prefix) and "." not in p[len(prefix) :]]
    names = [n for n, _ in module.attributes] + [p[len(prefix) :] for p in own] + [n for n, _ in module.children]
    base = layer_base(work.program, module.cls)
    row = work.opmap.row(base) if base is not None and base not in _CONTAINERS else None
    layer: dict[str, ast.stmt] = {}
    if row is not None and base is not None:
        tensors = {rule.torch: rule.torch in {p[len(prefix) :] for p in own} for rule in row.weights}
        layer = {_SUPER: _layer_init(work, module, base, tensors)}
        names = [n for n in names if n not in {rule.torch for rule in row.weights}]
    made = {name: _held(work, module.path, name) for name in dict.fromkeys(names)}
    return layer | {name: s for name, s in made.items() if s is not None} | dict(_in_plain_modules(work, module))


def _in_plain_modules(work: Work, module: ModuleInstance) -> Iterator[tuple[str, ast.stmt]]:
    """``self.noises.noise_0 = ...`` of a child that is an ``nn.Module()`` to which things were added."""
    for name, path in module.children:
        holder = work.program.modules.get(path)
        if holder is None or holder.cls != "torch.nn.Module":
            continue
        prefix = f"{path}."
        tensors = [p for p in work.program.parameters if p.startswith(prefix) and "." not in p[len(prefix) :]]
        for own in [*(p[len(prefix) :] for p in tensors), *(child for child, _ in holder.children)]:
            statement = _held(work, path, own)
            if isinstance(statement, ast.Assign):
                inner = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load())
                statement.targets = [ast.Attribute(inner, own, ast.Store())]
                yield f"{name}.{own}", statement


_SUPER = "layer"


def _layer_init(work: Work, module: ModuleInstance, base: str, tensors: dict[str, bool]) -> ast.stmt:
    """``super().__init__(16, eps=1e-3)``: the torch layer below, by what the instance holds. Raises Untranslatable.

    ``tensors`` says of each tensor of the layer whether the instance has it (``bias=False``).
    """
    attributes = {k: v.value for k, v in module.attributes if isinstance(v, Literal)}
    attributes |= {name: True if there else None for name, there in tensors.items()}
    try:
        made = work.opmap.from_instance(base, attributes).expression
    except NoLowering as error:
        raise Untranslatable(ast.Pass(), str(error)) from error
    if not isinstance(made, ast.Call):
        raise Untranslatable(ast.Pass(), f"{base} is no plain cell")
    return ast.Expr(ast.Call(expression("super().__init__"), made.args, made.keywords))


class _Unify:
    """One tree for several; where they differ stands a parameter."""

    def __init__(self) -> None:
        self.parameters: dict[str, tuple[ast.expr, ...]] = {}

    def statement(self, versions: Sequence[ast.stmt], name: str) -> ast.stmt:
        """One statement for all instances: constants that differ, or else the whole value, become parameters."""
        before = dict(self.parameters)
        try:
            return self(versions, name)  # type: ignore[return-value]
        except _Different:
            self.parameters = before
        calls = [v.value for v in versions if isinstance(v, ast.Expr) and isinstance(v.value, ast.Call)]
        if len(calls) == len(versions):
            return ast.Expr(self._base_call(calls, name))
        values = [v.value for v in versions if isinstance(v, ast.Assign)]
        if len(values) < len(versions):
            raise Untranslatable(versions[0], f"`{name}` is built differently in the instances")
        return _assignment(name, ast.Name(self._name(tuple(values), name), ast.Load()))

    def _base_call(self, calls: Sequence[ast.Call], name: str) -> ast.Call:
        """``super().__init__(*layer, **layer_options)``: instances whose layer below is given other arguments."""
        places: list[ast.expr] = []
        if any(call.args for call in calls):
            tuples = tuple(ast.Tuple(call.args, ast.Load()) for call in calls)
            places = [ast.Starred(ast.Name(self._name(tuples, name), ast.Load()), ast.Load())]
        options = tuple(ast.Dict([literal(k.arg) for k in c.keywords], [k.value for k in c.keywords]) for c in calls)
        keywords = [ast.keyword(None, ast.Name(self._name(options, f"{name}_options"), ast.Load()))]
        return ast.Call(copy(calls[0].func), places, keywords)

    def __call__(self, nodes: Sequence[ast.AST], hint: str) -> ast.AST:
        first = nodes[0]
        if len({ast.dump(n) for n in nodes}) == 1:
            return copy(first)
        if all(isinstance(n, ast.expr) and _is_plain(n) for n in nodes):
            return ast.Name(self._name(tuple(nodes), hint), ast.Load())  # type: ignore[arg-type]
        if len({type(n) for n in nodes}) != 1:
            raise _Different
        new = first.__class__()
        for field in first._fields:
            new.__dict__[field] = self._field([getattr(n, field, None) for n in nodes], hint)
        return new

    def _field(self, values: list[object], hint: str) -> object:
        if all(isinstance(v, ast.AST) for v in values):
            return self(values, hint)  # type: ignore[arg-type]
        if all(isinstance(v, list) for v in values):
            if len({len(v) for v in values}) != 1:  # type: ignore[arg-type]
                raise _Different
            columns = zip(*values, strict=True)
            return [self(column, _named(column, hint, i)) for i, column in enumerate(columns)]
        if any(v != values[0] for v in values):
            raise _Different
        return values[0]

    def _name(self, values: tuple[ast.expr, ...], hint: str) -> str:
        key = [ast.dump(v) for v in values]
        for name, known in self.parameters.items():
            if [ast.dump(v) for v in known] == key:
                return name
        base, number = re.sub(r"\W", "_", hint), 2
        name = base
        while name in self.parameters:
            name, number = f"{base}_{number}", number + 1
        self.parameters[name] = values
        return name


class _Different(Exception):
    """The trees differ in more than constants."""


def _is_plain(node: ast.expr) -> bool:
    """Whether the node is a literal."""
    if not isinstance(node, ast.Constant | ast.Tuple | ast.UnaryOp | ast.List):
        return False
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _named(column: Sequence[object], hint: str, index: int) -> str:
    first = column[0]
    if isinstance(first, ast.keyword) and first.arg:
        return f"{hint}_{first.arg}"
    return f"{hint}_{index}" if isinstance(first, ast.expr) else hint


def note_held(work: Work, init: FunctionDef, error: Untranslatable) -> None:
    """Say why a class's own constructor was not kept."""
    work.flags.append(
        Flag(
            rule="MSP105",
            severity="info",
            message=f"the constructor of {init.owner} is written from what its instances hold: {error.reason}",
            module=init.owner,
            source=Place(init.loc.file, getattr(error.node, "lineno", init.loc.line)),
            advice="It builds this configuration; for another one convert again.",
        )
    )
