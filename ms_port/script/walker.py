"""Kinds of the values in one scope, statement by statement."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ms_port.script.kinds import (
    DEVICE_FLAGS,
    MAPPING,
    TENSOR_ONLY,
    arithmetic,
    element,
    is_module,
    is_tensor,
    item_of,
    join,
    joined,
    part,
)
from ms_port.script.project import Class, Function, Kind, Module, canonical
from ms_port.script.results import (
    api_kind,
    api_result,
    builtin_result,
    chosen_result,
    held_in,
    layer_result,
    module_method,
    tensor_method,
)
from ms_port.script.source import dotted
from ms_port.script.uses import by_use

if TYPE_CHECKING:
    from ms_port.script.inference import Inference


class Walker:
    """Kinds in one scope, statement by statement."""

    def __init__(self, inference: Inference, module: Module, function: Function | None, env: dict[str, Kind]) -> None:
        self.inference, self.module, self.function, self.env = inference, module, function, env
        self.nested: list[Function] = []
        self.known: dict[str, Kind] = {}
        """The best known kind of each name that was bound here: what functions see of a file's names."""

    # statements

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._definition(node)
            case ast.ClassDef():
                for item in [*node.bases, *node.decorator_list]:
                    self.kind(item)
                if self.function is not None:
                    self.env.setdefault(node.name, None)
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id=name) as held, attr="requires_grad")], value=value
            ) if (
                name in self.inference.leaves[self.module]
                and is_tensor(self.env.get(name))
                and self.env.get(name) != "parameter"
            ):
                self.kind(value)
                self.inference.trained.add(node)
                self.inference.kinds[held] = "tensor"
                self.env[name] = "parameter"
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="requires_grad_"))) if (
                name in self.inference.leaves[self.module]
                and is_tensor(self.env.get(name))
                and self.env.get(name) != "parameter"
            ):
                self.kind(node.value)
                self.inference.trained.add(node)
                self.env[name] = "parameter"
            case ast.Assign(targets=targets, value=value):
                kind = self.kind(value)
                wanted = (
                    isinstance(value, ast.Call)
                    and isinstance(value.func, ast.Attribute)
                    and value.func.attr == "requires_grad_"
                )
                if wanted and isinstance(targets[0], ast.Name) and targets[0].id in self.inference.leaves[self.module]:
                    self.inference.trained.add(value)
                    kind = "parameter"
                for place in targets:
                    self.bind(place, kind)
            case ast.AnnAssign(target=target, value=value, annotation=annotation):
                found = self.kind(value) if value is not None else None
                self.bind(target, join(found, self.inference.annotated(self.module, annotation)))
            case ast.AugAssign(target=target, value=value):
                before, other = self.kind(target), self.kind(value)
                kind = before if before == "parameter" else join(before, other)  # it is written, not bound anew
                self.bind(target, kind)
                self.inference.kinds[target] = before or kind
            case ast.For() | ast.AsyncFor():
                for _ in range(2):
                    self.bind(node.target, element(self.kind(node.iter)))
                    self.block(node.body)
                self.block(node.orelse)
            case ast.While():
                for _ in range(2):
                    self.kind(node.test)
                    self.block(node.body)
                self.block(node.orelse)
            case ast.If():
                self.kind(node.test)
                self._narrowed(node)
            case ast.With() | ast.AsyncWith():
                for entry in node.items:
                    kind = self.kind(entry.context_expr)
                    if entry.optional_vars is not None:
                        self.bind(entry.optional_vars, kind)
                self.block(node.body)
            case ast.Return(value=value):
                if value is not None:
                    kind = self.kind(value)
                    if self.function is not None:
                        self.function.returns = join(kind, self.function.returns)
            case ast.Try():
                self.block(node.body)
                for handler in node.handlers:
                    self.block(handler.body)
                self.block(node.orelse)
                self.block(node.finalbody)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.kind(child)
                    elif isinstance(child, ast.stmt):
                        self.statement(child)

    def _narrowed(self, node: ast.If) -> None:
        """In the arm of ``if isinstance(m, nn.Conv2d)`` the name is that layer."""
        before = dict(self.env)
        for name, kind in self._layers(node.test).items():
            self.env[name] = kind
        self.block(node.body)
        for name in self._layers(node.test):
            self.env[name] = before.get(name)
        self.block(node.orelse)

    def _layers(self, test: ast.expr) -> dict[str, Kind]:
        found: dict[str, Kind] = {}
        for call in ast.walk(test):
            if not isinstance(call, ast.Call):
                continue
            if (
                isinstance(call.func, ast.Name)
                and call.func.id == "isinstance"
                and len(call.args) == 2
                and isinstance(call.args[0], ast.Name)
            ):
                classes = call.args[1].elts if isinstance(call.args[1], ast.Tuple) else [call.args[1]]
                names = [canonical(self.module, dotted(c) or "") for c in classes]
                if names and all(n.startswith("torch.nn.") for n in names):
                    found[call.args[0].id] = ("layer", names[0])
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "find"
                and call.args
                and isinstance(call.args[0], ast.Constant)
            ):
                layer = {
                    "BatchNorm": "BatchNorm2d",
                    "BatchNorm2d": "BatchNorm2d",
                    "LayerNorm": "LayerNorm",
                    "Conv": "Conv2d",
                    "Linear": "Linear",
                }.get(str(call.args[0].value))
                spec = self.function.node.args.args if self.function is not None else []
                if layer and spec:
                    found[spec[0].arg] = ("layer", f"torch.nn.{layer}")
        return found

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for item in [*node.decorator_list, *node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]]:
            self.kind(item)
        if node.name in self.module.functions and self.module.functions[node.name].node is node:
            return
        known = self.env.get(node.name)
        if isinstance(known, tuple) and known[0] == "func" and known[1].node is node:
            function = known[1]
        else:
            function = self.inference.inner.setdefault(node, Function(node.name, node, self.module))
        self.env[node.name] = ("func", function)
        if function not in self.nested:
            self.nested.append(function)

    def bind(self, target: ast.expr, kind: Kind) -> None:
        match target:
            case ast.Name(id=name):
                self.env[name] = kind if kind is not None or name not in self.env else None
                self.known[name] = join(self.known.get(name), kind)
                self.inference.kinds[target] = kind
            case ast.Starred(value=value):
                self.bind(value, ("list", kind))
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for index, item in enumerate(items):
                    self.bind(item, part(kind, index))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                self.kind(target.value)
                holder = self.env.get(name)
                if isinstance(holder, tuple) and holder[0] == "inst":
                    held = holder[1].attributes
                    held[attribute] = join(held.get(attribute), kind)
                self.inference.kinds[target] = kind
            case _:
                for child in ast.iter_child_nodes(target):
                    if isinstance(child, ast.expr):
                        self.kind(child)

    # expressions

    def kind(self, node: ast.expr) -> Kind:
        found = self._kind(node)
        self.inference.kinds[node] = found
        return found

    def _kind(self, node: ast.expr) -> Kind:
        match node:
            case ast.Constant(value=value):
                return (
                    "str" if isinstance(value, str) else "number" if isinstance(value, (int, float, complex)) else None
                )
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, right=right):
                return arithmetic(self.kind(left), self.kind(right))
            case ast.UnaryOp(operand=operand):
                return self.kind(operand) if not isinstance(node.op, ast.Not) else (self.kind(operand), "number")[1]
            case ast.Compare(left=left, comparators=others):
                kinds = [self.kind(item) for item in [left, *others]]
                same = any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
                return "tensor" if any(map(is_tensor, kinds)) and not same else "number"
            case ast.BoolOp(values=values):
                return joined([self.kind(value) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.kind(test)
                return join(self.kind(body), self.kind(orelse))
            case ast.Subscript(value=value, slice=index):
                held = self.kind(value)
                self.kind(index)
                if isinstance(held, tuple) and held[0] == "api" and str(held[1]).endswith(".__dict__"):
                    return ("chosen", str(held[1]).removesuffix(".__dict__"))
                return item_of(held, index)
            case ast.Tuple(elts=items):
                return ("tuple", *(self.kind(item) for item in items))
            case ast.List(elts=items) | ast.Set(elts=items):
                return ("list", joined([self.kind(item) for item in items]))
            case ast.Dict(keys=keys, values=values):
                for key in keys:
                    if key is not None:
                        self.kind(key)
                return ("dict", joined([self.kind(value) for value in values]))
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                self._generators(node.generators)
                return ("list", self.kind(node.elt))
            case ast.DictComp():
                self._generators(node.generators)
                self.kind(node.key)
                return ("dict", self.kind(node.value))
            case ast.Starred(value=value) | ast.Await(value=value):
                return self.kind(value)
            case ast.NamedExpr(target=target, value=value):
                kind = self.kind(value)
                self.bind(target, kind)
                return kind
            case ast.Lambda():
                return self._lambda(node)
            case ast.JoinedStr():
                for child in ast.walk(node):
                    if isinstance(child, ast.FormattedValue):
                        self.kind(child.value)
                return "str"
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.kind(child)
        return None

    def _lambda(self, node: ast.Lambda) -> Kind:
        inner = Walker(self.inference, self.module, self.function, dict(self.env))
        for argument in node.args.args:
            inner.env[argument.arg] = None
        for default in node.args.defaults:
            self.kind(default)
        inner.kind(node.body)
        return None

    def _generators(self, generators: Sequence[ast.comprehension]) -> None:
        for generator in generators:
            self.bind(generator.target, element(self.kind(generator.iter)))
            for test in generator.ifs:
                self.kind(test)

    def _name(self, name: str) -> Kind:
        if name in self.env:
            return self.env[name]
        if name in self.module.classes:
            return ("class", self.module.classes[name])
        if name in self.module.functions:
            return ("func", self.module.functions[name])
        if name in self.module.names:
            return self._named(self.module.names[name])
        if name in self.module.variables:
            return self.module.variables[name]
        for star in self.module.stars:
            if star.split(".")[0] == "torch" and name[:1].isupper():
                return ("api", f"{star}.{name}")
            found = self.inference.project.resolve(f"{star}.{name}")
            if found is not None:
                return _entity(found)
        return None

    def _named(self, full: str) -> Kind:
        found = self.inference.project.resolve(full)
        if found is not None:
            return _entity(found)
        head, _, last = full.rpartition(".")
        other = self.inference.project.modules.get(head)
        if other is not None and last in other.variables:
            return other.variables[last]
        return api_kind(full)

    def _attribute(self, node: ast.Attribute) -> Kind:
        base = self.kind(node.value)
        if isinstance(base, tuple):
            match base[0]:
                case "api":
                    return api_kind(f"{base[1]}.{node.attr}")
                case "module":
                    return self._named(f"{base[1].dotted}.{node.attr}")
                case "inst":
                    return self._member(base[1], node.attr)
                case "class" if base[1].family == "function" and node.attr == "apply":
                    return ("apply", base[1])
                case "class":
                    return self._member(base[1], node.attr)
                case "layer":
                    return (
                        "parameter"
                        if node.attr in ("weight", "bias")
                        else "tensor"
                        if node.attr.startswith("running_")
                        else None
                    )
        if is_tensor(base):
            table: dict[str, Kind] = {
                "shape": "shape",
                "dtype": "dtype",
                "device": "device",
                "ndim": "number",
                **dict.fromkeys(DEVICE_FLAGS, "number"),
            }
            if node.attr == "data" and base == "parameter":
                return "parameter"
            return table.get(node.attr, "tensor" if node.attr in ("data", "grad", "T", "mT", "real", "imag") else None)
        if base == ("tuple", "tensor", "tensor") and node.attr in ("values", "indices"):
            return "tensor"
        if base == "module":
            return {"module": "module", "weight": "parameter", "bias": "parameter", "training": "number"}.get(node.attr)
        if node.attr == "saved_tensors":
            return ("list", "tensor")
        if base == "dataset" and node.attr in ("train_data", "test_data", "train_labels", "test_labels"):
            return "tensor"
        if base == "loader":
            return {"dataset": "dataset", "batch_size": "number"}.get(node.attr)
        return None

    def _member(self, cls: Class, name: str, depth: int = 0) -> Kind:
        if name in cls.attributes and cls.attributes[name] is not None:
            return cls.attributes[name]
        if name in cls.methods:
            method = cls.methods[name]
            if any(isinstance(d, ast.Name) and d.id == "property" for d in method.node.decorator_list):  # type: ignore[union-attr]
                return method.returns
            return ("func", method)
        for base in cls.bases:
            other = self.inference.project.base(cls, base)
            if other is not None and depth < 12:
                found = self._member(other, name, depth + 1)
                if found is not None:
                    return found
        if is_module(("inst", cls)):
            layer = any(canonical(cls.module, base).startswith("torch.nn.") for base in cls.bases)
            return {"training": "number", **({"weight": "parameter", "bias": "parameter"} if layer else {})}.get(name)
        return by_use(cls.node, f"self.{name}")

    def _call(self, node: ast.Call) -> Kind:
        func = self.kind(node.func)
        kinds = [self.kind(argument) for argument in node.args]
        named = {keyword.arg: self.kind(keyword.value) for keyword in node.keywords}
        if (held := held_in(node, kinds)) is not None:
            return held
        if isinstance(func, tuple):
            match func[0]:
                case "chosen":
                    return chosen_result(str(func[1]))
                case "api":
                    trained = any(
                        k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value is True
                        for k in node.keywords
                    )
                    found = api_result(func[1], kinds)
                    return "parameter" if trained and found == "tensor" else found
                case "class":
                    self._pass(func[1].methods.get("__init__"), node, kinds, named, 1)
                    return ("inst", func[1])
                case "func":
                    method = func[1].owner is not None and isinstance(node.func, ast.Attribute)
                    self._pass(func[1], node, kinds, named, 1 if method else 0)
                    return func[1].returns
                case "inst":
                    return self._called(func[1], node, kinds, named)
                case "apply":
                    forward = func[1].methods.get("forward")
                    self._pass(forward, node, kinds, named, 1)
                    return (forward.returns if forward else None) or "tensor"
                case "layer":
                    return layer_result(func[1])
        if func == "module":
            return "tensor"
        if func == "transform":
            return None
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, kinds)
        if isinstance(node.func, ast.Name):
            return builtin_result(node.func.id, kinds)
        return None

    def _called(self, cls: Class, node: ast.Call, kinds: list[Kind], named: dict[str | None, Kind]) -> Kind:
        for name in ("forward", "__call__"):
            found = self._member(cls, name)
            if isinstance(found, tuple) and found[0] == "func":
                self._pass(found[1], node, kinds, named, 1)
                return found[1].returns or ("tensor" if name == "forward" else None)
        return "tensor" if cls.family in ("module", "sequential") else None

    def _pass(
        self, function: Function | None, node: ast.Call, kinds: list[Kind], named: dict[str | None, Kind], skip: int
    ) -> None:
        """Kinds of arguments go into the parameters of what is called."""
        if function is None or any(isinstance(argument, ast.Starred) for argument in node.args):
            return
        spec = function.node.args
        names = [a.arg for a in [*spec.posonlyargs, *spec.args]]
        for name, kind in [*zip(names[skip:], kinds, strict=False), *named.items()]:
            if name is not None and kind is not None:
                function.parameters[name] = join(function.parameters.get(name), kind)

    def _method(self, node: ast.Call, func: ast.Attribute, kinds: list[Kind]) -> Kind:
        base, name = self.inference.of(func.value), func.attr
        if is_module(base):
            return module_method(name, base)
        if base == "batch" and name in MAPPING:
            return (
                ("list", ("tuple", "str", "batch"))
                if name == "items"
                else ("list", "batch")
                if name == "values"
                else None
            )
        if is_tensor(base) or (base in (None, "number") and name in TENSOR_ONLY):
            return tensor_method(name, node, kinds)
        if base == "optimizer" and name == "step":
            return "tensor" if node.args else None
        if base == "scaler" and name == "scale":
            return "tensor"
        if base == "distribution":
            return "tensor"
        if isinstance(base, tuple) and base[0] in ("list", "dict"):
            if name in ("pop", "get", "copy", "popleft"):
                return base if name == "copy" else base[1]
            if name == "append" and kinds and isinstance(func.value, ast.Name):
                self.env[func.value.id] = ("list", join(base[1], kinds[0]))
            if name == "append" and kinds and isinstance(func.value, ast.Attribute):
                self.bind(func.value, ("list", join(base[1], kinds[0])))
            if name == "items":
                return ("list", ("tuple", "str", base[1]))
            if name == "values":
                return ("list", base[1])
        if isinstance(base, tuple) and base[0] == "iter" and name in ("next", "__next__"):
            return base[1]
        if name == "size" and node.args:
            return "number"
        if name == "size":
            return "shape"
        if name == "view":
            return "tensor"
        return None


def _entity(found: Class | Function | Module) -> Kind:
    if isinstance(found, Class):
        return ("class", found)
    return ("func", found) if isinstance(found, Function) else ("module", found)
