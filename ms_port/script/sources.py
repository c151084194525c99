"""By which names gradients come into functions: arguments, attributes that other functions set, globals."""

from __future__ import annotations

import ast

from ms_port.script.flow import thing
from ms_port.script.inference import Inference
from ms_port.script.kinds import is_module
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
                self._hooks(module.source.tree)
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
        owner = function.owner
        if isinstance(node, ast.FunctionDef) and function.name == "forward" and owner and is_module(("inst", owner)):
            self._of_models(node)
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

    def _of_models(self, node: ast.FunctionDef) -> None:
        """What a ``forward``, or a hook on it, leaves behind of what it is given: in attributes, or in containers."""
        given = set(parameters_of(node)) - {"self"}
        finder = Finder(node.body, self.inference, given, self.effects)
        local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | given
        for name in {n for names in finder.carrying.values() for n in names}:
            root, _, rest = name.partition(".")
            if rest and root == "self":
                self.effects.by_models.add(f"*.{rest.rpartition('.')[2]}")
            elif not rest and root not in local:
                self.effects.by_models.add(root)

    def _hooks(self, tree: ast.AST) -> None:
        """What forward hooks set: functions by name, methods, and what a function makes (``register_forward_hook(keep("fc"))``)."""
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
                continue
            if call.func.attr not in ("register_forward_hook", "register_forward_pre_hook"):
                continue
            hook = call.args[0]
            kind = self.inference.of(hook.func if isinstance(hook, ast.Call) else hook)
            if isinstance(kind, tuple) and kind[0] == "func":
                maker = kind[1].node if isinstance(hook, ast.Call) else None
                for node in ast.walk(kind[1].node):
                    if isinstance(node, ast.FunctionDef) and node is not maker:
                        self._of_models(node)

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
