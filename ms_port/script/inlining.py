"""Functions without arguments that end a step (``finish_episode()``, ``self.backward_G()``) are put where they are called.

Their loss depends on what other functions computed, and MindSpore differentiates one function: so the step must stand in one.
Done on the text before anything else; only where the function's loss can't be gathered in itself.
"""

from __future__ import annotations

import ast

from ms_port.script.project import Function, Module, Project, reread
from ms_port.script.regions import Finder, backward_of
from ms_port.script.source import Source, shifted
from ms_port.script.sources import Sources
from ms_port.script.syntax import blocks, statements


def inlined(project: Project, sources: Sources) -> bool:
    """Put such functions into their callers; whether anything changed."""
    changed = False
    for module in list(project.modules.values()):
        if "backward" not in module.source.text or not module.uses_torch:
            continue
        wanted = [f for f in _functions(module) if _stuck(f, sources)]
        if wanted:
            text = _put(module, wanted)
            if text is not None:
                reread(project, module, text)
                changed = True
    return changed


def _functions(module: Module) -> list[Function]:
    return [*module.functions.values(), *(m for c in module.classes.values() for m in c.methods.values())]


def _stuck(function: Function, sources: Sources) -> bool:
    """Whether a function takes nothing, gives nothing, and its loss comes from elsewhere."""
    node = function.node
    if isinstance(node, ast.Lambda) or node.decorator_list:
        return False
    names = [a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
    if (
        names not in ([], ["self"])
        or node.args.vararg
        or node.args.kwarg
        or (names == ["self"]) != (function.owner is not None)
    ):
        return False
    inner = [n for s in node.body for n in ast.walk(s)]
    if any(isinstance(n, (ast.Return, ast.Yield, ast.Global, ast.Nonlocal, ast.FunctionDef)) for n in inner):
        return False
    if not any(backward_of(s, sources.inference) for s in inner):
        return False
    _, refused = Finder(node.body, sources.inference, sources.of(function), sources.effects).regions()
    return bool(refused)


def _put(module: Module, wanted: list[Function]) -> str | None:
    """The file's text with the bodies in the place of the calls."""
    source = module.source
    edits: list[tuple[int, int, str]] = []
    for function in wanted:
        call = f"self.{function.name}()" if function.owner is not None else f"{function.name}()"
        local = _locals(function.node)
        places = [(caller, s) for caller, s in _places(module, function) if ast.unparse(s) == call]
        if not places or any(local & _locals(caller) for caller, _ in places):
            continue
        body = function.node.body
        assert isinstance(body, list)  # _stuck takes no lambda
        first = body[1] if len(body) > 1 and _docstring(body[0]) else body[0]
        text = source.between(source.span(first)[0], source.span(body[-1])[1])
        own = source.indent(first)
        for _, statement in places:
            edits.append((*source.span(statement), shifted(text, own, source.indent(statement))))
        edits.append((*_whole(source, function), ""))
    if not edits:
        return None
    data = source.data
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode("utf-8") + data[end:]
    text = data.decode("utf-8")
    try:
        ast.parse(text)
    except SyntaxError:
        return None
    return text


def _whole(source: Source, function: Function) -> tuple[int, int]:
    """The bytes of a definition, its lines whole; a class keeps a body."""
    start, end = source.span(function.node)
    if function.owner is not None and len(function.owner.node.body) == 1:
        return end, end
    line = source.data.rfind(b"\n", 0, start) + 1
    after = source.data.find(b"\n", end)
    return line, len(source.data) if after < 0 else after + 1


def _places(module: Module, function: Function) -> list[tuple[ast.AST, ast.stmt]]:
    """(scope, statement) of the statements that may call it: in its own class, or anywhere in the file."""
    scopes: list[ast.AST]
    if function.owner is not None:
        scopes = [m.node for m in function.owner.methods.values()]
    else:
        scopes = [module.source.tree, *(f.node for f in _functions(module))]
    found: list[tuple[ast.AST, ast.stmt]] = []
    for scope in scopes:
        if scope is function.node or isinstance(scope, ast.Lambda):
            continue
        found += [(scope, s) for s in statements(scope.body) if isinstance(s, ast.Expr)]  # type: ignore[attr-defined]
    return found


def _locals(node: ast.AST) -> set[str]:
    """Names that a scope assigns itself."""
    inner = [s for s in statements(node.body) if not list(blocks(s))]  # type: ignore[attr-defined]
    heads = [s for s in statements(node.body) if list(blocks(s))]  # type: ignore[attr-defined]
    names = {n.id for s in inner for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for head in heads:
        if isinstance(head, (ast.For, ast.AsyncFor)):
            names |= {n.id for n in ast.walk(head.target) if isinstance(n, ast.Name)}
    return names


def _docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
