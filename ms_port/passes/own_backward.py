"""Own backward: an ``autograd.Function`` becomes a cell whose ``bprop`` is the function's ``backward``.

``construct`` is ``forward`` without its context. ``bprop`` gets the inputs, so what ``forward`` saved is either one of
these or made again by ``forward``'s own statements (what is not needed of them goes as dead code).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ms_port.ir.flags import Flag
from ms_port.ir.program import CellDef, Facts, FunctionDef, Program
from ms_port.ir.tree import Node, copy, literal, names_read, names_stored, nid, ported
from ms_port.ir.values import Literal, TensorValue

_OFFSET = 1_000_000
"""Added to the nids of ``forward``'s statements inside ``bprop``."""
FUNCTION = "torch.autograd.function.Function"


class _NoForm(Exception):
    """The function can't be written as a cell: it stays what it was, and is flagged."""


def own_backwards(program: Program) -> Program:
    """Turn every ``autograd.Function`` whose two methods were seen into a cell; leave the others out."""
    cells: dict[str, CellDef] = {}
    flags: list[Flag] = []
    for key, cell in program.cells.items():
        if FUNCTION not in cell.bases:
            cells[key] = cell
            continue
        methods = {m.name: m for m in cell.methods}
        if methods.keys() != {"forward", "backward"}:
            continue
        try:
            made = _Cell(*(_without_grad_modes(methods[name]) for name in ("forward", "backward")))
            cells[key] = replace(cell, bases=("torch.nn.Module",), methods=(made.construct(), made.bprop()))
            flags += made.flags()
        except _NoForm:
            continue
    return replace(program, cells=cells, flags=(*program.flags, *flags))


def _without_grad_modes(function: FunctionDef) -> FunctionDef:
    """The body of ``with torch.no_grad():`` in its place: nothing in these methods has a gradient of torch's anyway."""
    body: list[ast.stmt] = []
    for statement in function.body:
        if isinstance(statement, ast.With) and all(
            ast.unparse(item.context_expr) in ("torch.no_grad()", "no_grad()") for item in statement.items
        ):
            body += statement.body
        else:
            body.append(statement)
    return replace(function, body=tuple(body))


@dataclass(frozen=True, slots=True)
class _Cell:
    forward: FunctionDef
    backward: FunctionDef

    def __post_init__(self) -> None:
        for function in (self.forward, self.backward):
            args = function.node.args
            if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs or not args.args:
                raise _NoForm
        returns = [n for s in self.forward.body for n in ast.walk(s) if isinstance(n, ast.Return)]
        if len(returns) != 1 or returns[0] is not self.forward.body[-1]:
            raise _NoForm

    @property
    def _context(self) -> str:
        return self.forward.node.args.args[0].arg

    @property
    def _inputs(self) -> list[str]:
        return [a.arg for a in self.forward.node.args.args[1:]]

    def construct(self) -> FunctionDef:
        """``forward`` without its context."""
        body, _ = self._without_context(self.forward.body, {})
        body = _needed(body[:-1], names_read(body[-1:])) + body[-1:]
        args = copy(self.forward.node.args)
        args.args[0] = ast.arg("self")
        return self._method(self.forward, args, body, self.forward.facts)

    def bprop(self) -> FunctionDef:
        """``backward``, after those statements of ``forward`` that make what it saved."""
        gradients = [a.arg for a in self.backward.node.args.args[1:]]
        used = {n.id for s in self.backward.body for n in ast.walk(s) if isinstance(n, ast.Name)} | set(gradients)
        own = {name for s in self.forward.body for name in names_stored(s)} - set(self._inputs)
        names = {name: f"forward_{name}" for name in own & used}
        again, kept = self._without_context(self.forward.body[:-1], names)
        saved = [_renumbered(s) for s in kept]
        body = self._backward_body(saved)
        dout = gradients[0] if len(gradients) == 1 else "dout"
        if len(gradients) > 1:
            target = ast.Tuple([ast.Name(g, ast.Store()) for g in gradients], ast.Store())
            body.insert(0, ast.Assign([target], ast.Name(dout, ast.Load()), lineno=self.backward.loc.line))
        body = [*_needed([_renumbered(s) for s in again], names_read(body)), *body]
        out = "out"
        while out in used | set(self._inputs) | own:
            out += "_"
        args = ast.arguments([], [ast.arg(n) for n in ["self", *self._inputs, out, dout]], None, [], [], None, [])
        facts = _merged(self.backward.facts, self.forward.facts)
        return self._method(self.backward, args, body, facts, "bprop")

    def flags(self) -> list[Flag]:
        """Inputs whose gradient was not asked for in the trace, so that what computes it was not seen."""
        returned = self.backward.body[-1]
        value = returned.value if isinstance(returned, ast.Return) else None
        parts = list(value.elts) if isinstance(value, ast.Tuple) else [value] if value is not None else []
        if not any(isinstance(n, ast.Attribute) and n.attr == "needs_input_grad" for n in _nodes(self.backward)):
            return []
        return [
            Flag(
                rule="MSP307",
                severity="warning",
                message=f"the gradient for `{name}` was not asked for in the trace: `bprop` gives zero for it",
                module=self.forward.owner,
                source=self.backward.loc,
                advice="Write it into `bprop` if this input comes from something that is trained.",
            )
            for name, part in zip(self._inputs, parts, strict=False)
            if not _is_none(part) and self._is_zero(part) and self._is_tensor(name)
        ]

    def _is_zero(self, part: ast.expr) -> bool:
        seen = self.backward.facts.values.get(nid(part), ())
        return _is_none(part) or (bool(seen) and all(v == Literal(None) for v in seen))

    def _is_tensor(self, name: str) -> bool:
        return any(isinstance(v, TensorValue) for v in self.forward.facts.parameters.get(name, ()))

    def _method(
        self, source: FunctionDef, args: ast.arguments, body: Sequence[ast.stmt], facts: Facts, name: str = "forward"
    ) -> FunctionDef:
        node = copy(source.node)
        node.name, node.args, node.decorator_list, node.returns = name, args, [], None
        parameters = {k: v for k, v in facts.parameters.items() if k != source.node.args.args[0].arg}
        facts = replace(facts, parameters=parameters)
        return replace(source, name=name, node=node, body=tuple(body), facts=facts, kind="method")

    def _without_context(
        self, body: Sequence[ast.stmt], names: dict[str, str]
    ) -> tuple[list[ast.stmt], list[ast.expr]]:
        """The statements with ``ctx.k = v`` as ``k = v``; and what was saved for backward."""
        kept: list[ast.stmt] = []
        saved: list[ast.expr] = []
        for statement in map(copy, body):
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=args)) if (
                    name == self._context
                ):
                    if method == "save_for_backward":
                        saved = [_Names(self._context, names).visit(a) for a in args]
                    continue
            new = _Names(self._context, names).visit(statement)
            if any(isinstance(n, ast.Name) and n.id == self._context for n in ast.walk(new)):
                raise _NoForm
            kept.append(new)
        if not all(isinstance(s, ast.Constant) or self._keeps_value(s) for s in saved):
            raise _NoForm
        return kept, saved

    def _keeps_value(self, node: ast.expr) -> bool:
        """Whether a name in ``forward`` means the same all the time."""
        if not isinstance(node, ast.Name):
            return False
        stores = sum(node.id in names_stored(s) for s in self.forward.body)
        return stores == 0 if node.id in self._inputs else stores <= 1

    def _plain_attributes(self) -> dict[str, str]:
        """``ctx.k = alpha``: k -> alpha."""
        found: dict[str, str] = {}
        for statement in self.forward.body:
            match statement:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id=owner), attr=attr)], value=ast.Name() as value
                ) if owner == self._context and self._keeps_value(value) and value.id in self._inputs:
                    found[attr] = value.id
        return found

    def _backward_body(self, saved: Sequence[ast.expr]) -> list[ast.stmt]:
        context = self.backward.node.args.args[0].arg
        reader = _Saved(context, saved, self.backward, self._plain_attributes())
        made: list[ast.stmt] = []
        for statement in map(copy, self.backward.body):
            if isinstance(statement, ast.Return):
                made.append(self._returned(statement, reader))
                break
            if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
                raise _NoForm
            new = reader.visit(statement)
            if any(isinstance(n, ast.Name) and n.id == context for n in ast.walk(new)):
                raise _NoForm
            made += _without_identities(new)
        if not made or not isinstance(made[-1], ast.Return):
            raise _NoForm
        return made

    def _returned(self, statement: ast.Return, reader: _Saved) -> ast.stmt:
        """One gradient for each input; for an input without one, zero."""
        value = statement.value
        parts = list(value.elts) if isinstance(value, ast.Tuple) else [value] if value is not None else []
        if any(isinstance(p, ast.Starred) for p in parts) or len(parts) < len(self._inputs):
            raise _NoForm
        gradients: list[ast.expr] = []
        for name, part in zip(self._inputs, parts, strict=False):
            if self._is_zero(part):
                gradients.append(self._zero(name))
            else:
                gradients.append(reader.visit(part))
        return ast.copy_location(ast.Return(ast.Tuple(gradients, ast.Load())), statement)

    def _zero(self, name: str) -> ast.expr:
        if not self._is_tensor(name):
            return literal(0)
        func = ported(ast.Attribute(ported(ast.Name("ops", ast.Load())), "zeros_like", ast.Load()))
        return ported(ast.Call(func, [ast.Name(name, ast.Load())], []))


class _Names(ast.NodeTransformer):
    """``ctx.k`` as the local ``k``, and locals under other names."""

    def __init__(self, context: str, names: dict[str, str]) -> None:
        self._context, self._names = context, names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == self._context:
            name = ast.Name(_kept(node.attr), node.ctx)
            if nid(node) >= 0:
                name.nid = nid(node)  # type: ignore[attr-defined]
            return ast.copy_location(name, node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node


def _kept(attribute: str) -> str:
    return f"kept_{attribute}"


class _Saved(ast.NodeTransformer):
    """``ctx.saved_tensors`` as the names of what was saved, ``ctx.k`` as the local that ``forward`` made of it."""

    def __init__(self, context: str, saved: Sequence[ast.expr], backward: FunctionDef, plain: dict[str, str]) -> None:
        self._context, self._saved, self._backward, self._plain = context, saved, backward, plain

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(value=ast.Attribute(attr="saved_tensors"), slice=ast.Constant(value=int(at))):
                return copy(self._saved[at]) if -len(self._saved) <= at < len(self._saved) else node
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="needs_input_grad")) if (
                name == self._context
            ):
                seen = self._backward.facts.values.get(nid(node), ())
                if seen and isinstance(seen[0], Literal) and all(v == seen[0] for v in seen):
                    return literal(seen[0].value)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not (isinstance(node.value, ast.Name) and node.value.id == self._context):
            return self.generic_visit(node)
        if node.attr in ("saved_tensors", "saved_variables"):
            return ast.copy_location(ast.Tuple([copy(s) for s in self._saved], ast.Load()), node)
        if node.attr == "needs_input_grad":
            return node
        name = ast.Name(self._plain.get(node.attr) or _kept(node.attr), node.ctx)
        if nid(node) >= 0:
            name.nid = nid(node)  # type: ignore[attr-defined]
        return ast.copy_location(name, node)


def _needed(statements: Sequence[ast.stmt], read: set[str]) -> list[ast.stmt]:
    """Those statements that make what is read."""
    kept: list[ast.stmt] = []
    for statement in reversed(statements):
        if not _only_binds(statement) or names_stored(statement) & read:
            kept.insert(0, statement)
            read = read | names_read([statement])
    return kept


def _only_binds(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return all(isinstance(t, ast.Name | ast.Tuple) for t in targets)


def _without_identities(statement: ast.stmt) -> list[ast.stmt]:
    """``x, b = x, bound`` as ``b = bound``."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            pairs = [(t, v) for t, v in zip(targets, values, strict=True) if ast.unparse(t) != ast.unparse(v)]
        case ast.Assign(targets=[target], value=value):
            pairs = [(target, value)] if ast.unparse(target) != ast.unparse(value) else []
        case _:
            return [statement]
    if len(pairs) > 1:
        return [statement]
    return [ast.copy_location(ast.Assign([t], v), statement) for t, v in pairs]


def _nodes(function: FunctionDef) -> Iterator[ast.AST]:
    return (n for s in function.node.body for n in ast.walk(s))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _renumbered(root: Node) -> Node:
    root = copy(root)
    for node in ast.walk(root):
        if nid(node) >= 0:
            node.nid = nid(node) + _OFFSET  # type: ignore[attr-defined]
    return root


def _merged(backward: Facts, forward: Facts) -> Facts:
    """The facts of both functions."""
    return replace(
        backward,
        ran={**backward.ran, **{k + _OFFSET: v for k, v in forward.ran.items()}},
        values={**backward.values, **{k + _OFFSET: v for k, v in forward.values.items()}},
        calls={**backward.calls, **{k + _OFFSET: v for k, v in forward.calls.items()}},
        parameters={**forward.parameters, **backward.parameters},
        closure={**forward.closure, **backward.closure},
        statics={**backward.statics, **{k + _OFFSET: v for k, v in forward.statics.items()}},
    )
