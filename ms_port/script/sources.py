"""By which names gradients come into functions: arguments, attributes that other functions set, globals."""

from __future__ import annotations

import ast

from ms_port.script.flow import thing
from ms_port.script.inference import Inference
from ms_port.script.project import Function, Module, Project
from ms_port.script.regions import Effects, Finder


class Sources:
    """Names by which gradients come into functions: arguments, attributes that other functions set, globals."""

    def __init__(self, project: Project, inference: Inference) -> None:
        self.inference = inference
        self.effects = Effects()
        self.arguments: dict[ast.AST, set[str]] = {}
        self.globals: dict[Module, set[str]] = {}
        for _ in range(2):
            for module in project.modules.values():
                if not module.uses_torch:
                    continue
                finder = Finder(module.source.tree.body, inference, effects=self.effects)
                self.globals[module] = {name for name, carries in finder.carry.items() if carries}
                self._calls(finder)
                for function in module.functions.values():
                    self._function(function)
                for found in module.classes.values():
                    for method in found.methods.values():
                        self._function(method)

    def _function(self, function: Function) -> None:
        node = function.node
        if isinstance(node, ast.Lambda):
            return
        finder = Finder(node.body, self.inference, self.of(function), self.effects)
        self._calls(finder)
        if function.name == "__init__":
            return
        local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        kinds = function.owner.attributes if function.owner is not None else {}
        found: set[str] = set()
        for name in {n for names in finder.carrying.values() for n in names}:
            root, _, rest = name.partition(".")
            if (
                rest
                and root not in local
                and not thing(kinds.get(rest))
                and (root == "self" or root in self._globals(function))
            ):
                found.add(name)
        self.effects.set_by[node] = found
        self.effects.held |= {name.rpartition(".")[2] for name in found}

    def _globals(self, function: Function) -> set[str]:
        return set(function.module.variables) - set(parameters_of(function.node))

    def _calls(self, finder: Finder) -> None:
        for call, carry in finder.passed:
            kind = self.inference.of(call.func)
            assert isinstance(kind, tuple)
            function: Function = kind[1]
            spec = function.node.args
            names = [a.arg for a in [*spec.posonlyargs, *spec.args]]
            names = names[1:] if function.owner is not None and names[:1] in (["self"], ["cls"]) else names
            pairs = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg)]
            for name, value in pairs:
                if name and not thing(self.inference.of(value)) and finder.carries(value, carry):
                    self.arguments.setdefault(function.node, set()).add(name)

    def of(self, function: Function | None) -> set[str]:
        """Names that bring a gradient into a function."""
        if function is None:
            return set()
        found = set(self.arguments.get(function.node, ()))
        local = {n.id for n in ast.walk(function.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return found | (self.globals.get(function.module, set()) - local - set(parameters_of(function.node)))


def parameters_of(node: ast.AST) -> list[str]:
    return [n.arg for n in ast.walk(node) if isinstance(n, ast.arg)]
