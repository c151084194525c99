"""The kinds of all expressions of a project, by a few rounds over its files and functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ms_port.script.kinds import is_module, join
from ms_port.script.project import Class, Function, Kind, Module, Project, canonical
from ms_port.script.results import INSTANCES
from ms_port.script.source import dotted
from ms_port.script.uses import by_use
from ms_port.script.walker import Walker


class Inference:
    """Kinds of all expressions of a project (``of``), by a few rounds over all its functions."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.kinds: dict[ast.AST, Kind] = {}
        self.owners: dict[str, str] = {}
        self.inner: dict[ast.AST, Function] = {}
        """Functions that are defined in functions."""
        self.trained: set[ast.AST] = set()
        """Statements and calls by which a tensor becomes one that is trained itself."""
        self.leaves = {module: _trained_names(module) for module in project.modules.values()}
        for _ in range(3):
            for module in project.modules.values():
                self._module(module)

    def of(self, node: ast.AST) -> Kind:
        return self.kinds.get(node)

    def _module(self, module: Module) -> None:
        env: dict[str, Kind] = dict(module.variables)
        walker = Walker(self, module, None, env)
        walker.block(module.source.tree.body)
        for inner in walker.nested:  # defined in a loop or block at the top level
            inner.closure = dict(env)
            self.function(inner, env)
        module.variables.update({name: walker.known.get(name) if kind is None else kind for name, kind in env.items()})
        for found in module.classes.values():
            self._class(found)
        for function in module.functions.values():
            self.function(function, module.variables)

    def _class(self, found: Class) -> None:
        walker = Walker(self, found.module, Function("", found.node, found.module, found), {})  # type: ignore[arg-type]
        walker.block(
            [item for item in found.node.body if not isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]
        )
        for name, kind in walker.env.items():
            found.attributes[name] = join(found.attributes.get(name), kind)
        methods = sorted(found.methods.values(), key=lambda m: m.name != "__init__")
        for method in methods:
            self.function(method, found.module.variables)

    def function(self, function: Function, outer: Mapping[str, Kind]) -> Kind:
        """Walk one function; its return kind is kept."""
        env: dict[str, Kind] = {**function.closure}
        self._parameters(function, env)
        walker = Walker(self, function.module, function, env)
        node = function.node
        if isinstance(node, ast.Lambda):
            function.returns = join(walker.kind(node.body), function.returns)
        else:
            walker.block(node.body)
            for inner in walker.nested:
                inner.closure = dict(env)
                self.function(inner, outer)
        return function.returns

    def _parameters(self, function: Function, env: dict[str, Kind]) -> None:
        spec = function.node.args
        names = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
        defaults = dict(
            zip([a.arg for a in reversed([*spec.posonlyargs, *spec.args])], reversed(spec.defaults), strict=False)
        )
        defaults |= {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
        owner = function.owner
        in_forward = (
            owner is not None and is_module(("inst", owner)) and function.name not in ("__init__", "extra_repr")
        )
        for index, argument in enumerate(names):
            kind = function.parameters.get(argument.arg)
            if index == 0 and owner is not None and not _static(function.node):
                kind = ("inst", owner)
            if kind is None and argument.annotation is not None:
                kind = self.annotated(function.module, argument.annotation)
            default = defaults.get(argument.arg)
            if kind is None and isinstance(default, ast.Constant) and default.value is not None:
                kind = "str" if isinstance(default.value, str) else "number"
            if (
                kind is None
                and in_forward
                and function.name == "forward"
                and (default is None or isinstance(default, ast.Constant))
            ):
                kind = "tensor"
            if kind is None and owner is not None and owner.family == "function" and function.name == "backward":
                kind = "tensor" if index else None
            if kind is None:
                kind = by_use(function.node, argument.arg)
            env[argument.arg] = kind
        if spec.vararg:
            env[spec.vararg.arg] = ("list", "tensor" if in_forward else None)
        if spec.kwarg:
            env[spec.kwarg.arg] = ("dict", None)

    def annotated(self, module: Module, node: ast.expr) -> Kind:
        name = dotted(node)
        if name is None:
            return None
        full = canonical(module, name)
        if full in ("torch.Tensor", "torch.LongTensor", "torch.FloatTensor"):
            return "tensor"
        return INSTANCES.get(full) or {"int": "number", "float": "number", "bool": "number", "str": "str"}.get(full)


def _static(node: ast.AST) -> bool:
    """Whether a method is given no instance."""
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in getattr(node, "decorator_list", ()))


def _trained_names(module: Module) -> set[str]:
    """Names that an optimizer is given in a list, or whose ``.grad`` is read: tensors that are trained themselves."""
    found: set[str] = set()
    for node in ast.walk(module.source.tree):
        if isinstance(node, ast.Call) and ".optim" in f".{canonical(module, dotted(node.func) or '')}" and node.args:
            if isinstance(node.args[0], (ast.List, ast.Tuple)):
                found |= {item.id for item in node.args[0].elts if isinstance(item, ast.Name)}
        elif isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.value, ast.Name):
            found.add(node.value.id)
    return found
