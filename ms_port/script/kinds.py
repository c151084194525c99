"""What the values of a script are (tensor, module, optimizer, loader ...), inferred from its source without running it.

A kind is a string (``"tensor"``, ``"parameter"``, ``"module"``, ``"optimizer"``, ``"scheduler"``, ``"scaler"``, ``"loader"``, ``"batch"``,
``"dataset"``, ``"device"``, ``"dtype"``, ``"shape"``, ``"number"``, ``"str"``, ``"ndarray"``, ``"transform"``), a tuple (``("api", dotted name)``, ``("class", Class)``,
``("inst", Class)``, ``("func", Function)``, ``("layer", API)``, ``("list", kind)``, ``("tuple", kind, ...)``, ``("dict", kind)``) or None: not known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ms_port.script.project import Class, Function, Kind, Module, Project, canonical
from ms_port.script.source import dotted

DTYPES = frozenset(
    "float32 float float64 double float16 half bfloat16 int8 int16 short int32 int int64 long uint8 bool complex64".split()
)
NUMBERS = frozenset("item dim ndimension numel nelement stride element_size __len__ get_device".split())
DEVICE_FLAGS = ("is_cuda", "is_npu", "is_xpu", "is_mps")
"""Attributes of a tensor that tell where it lies."""
PAIRS = frozenset("max min sort topk median mode kthvalue cummax cummin".split())
LISTS = frozenset("split chunk unbind tensor_split".split())
TENSOR_ONLY = frozenset(
    "unsqueeze squeeze_ unsqueeze_ permute backward detach detach_ cuda cpu item long half requires_grad_ contiguous expand expand_as view_as "
    "masked_fill masked_fill_ masked_select add_ sub_ mul_ div_ zero_ fill_ copy_ clamp_ clamp addmm bmm matmul mm softmax "
    "log_softmax sigmoid tanh relu exp_ normal_ uniform_ scatter scatter_ gather index_select index_add_ numel eq ne gt lt ge le "
    "type_as new_zeros new_ones new_tensor new_full data_ptr chunk unbind topk logsumexp rsqrt tril triu bernoulli_ "
    "addcmul_ addcdiv_ lerp_ flip_ unflatten movedim cumsum narrow pow_ sqrt_ sign_ erf is_floating_point is_contiguous numpy repeat_interleave".split()
)
MAPPING = frozenset("items keys values get pop update".split())
PARAMETER_NAMES = {
    "model": "module", "net": "module", "network": "module", "netG": "module", "netD": "module", "generator": "module", "discriminator": "module",
    "encoder": "module", "decoder": "module", "criterion": "module", "loss_fn": "module", "loss_func": "module", "loss_function": "module",
    "optimizer": "optimizer", "optim": "optimizer", "opt": "optimizer", "optimizer_G": "optimizer", "optimizer_D": "optimizer",
    "scheduler": "scheduler", "lr_scheduler": "scheduler", "scaler": "scaler", "loader": "loader", "dataloader": "loader",
    "data_loader": "loader", "train_loader": "loader", "test_loader": "loader", "val_loader": "loader", "valid_loader": "loader", "trainloader": "loader", "testloader": "loader",
    "device": "device",
}  # fmt: skip
"""What a parameter holds if no call in the project says so."""


def join(one: Kind, other: Kind) -> Kind:
    """The better known of two kinds."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    if "tensor" in (one, other) and {one, other} <= {"tensor", "number", "batch", "parameter"}:
        return "tensor"
    return one


def is_tensor(kind: Kind) -> bool:
    return kind in ("tensor", "parameter", "batch")


def is_module(kind: Kind) -> bool:
    if kind == "module":
        return True
    if isinstance(kind, tuple) and kind[0] == "inst":
        return kind[1].family in ("module", "sequential", "list", "dict", "lightning")
    return isinstance(kind, tuple) and kind[0] == "layer"


class Inference:
    """Kinds of all expressions of a project (``of``), by a few rounds over all its functions."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.kinds: dict[ast.AST, Kind] = {}
        self.owners: dict[str, str] = {}
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
        module.variables.update(env)
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
            if index == 0 and owner is not None and argument.arg in ("self", "cls"):
                kind = ("inst", owner)
            if kind is None and argument.annotation is not None:
                kind = self._annotated(function.module, argument.annotation)
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
                kind = PARAMETER_NAMES.get(argument.arg)
            env[argument.arg] = kind
        if spec.vararg:
            env[spec.vararg.arg] = ("list", "tensor" if in_forward else None)
        if spec.kwarg:
            env[spec.kwarg.arg] = ("dict", None)

    def _annotated(self, module: Module, node: ast.expr) -> Kind:
        name = dotted(node)
        if name is None:
            return None
        full = canonical(module, name)
        if full in ("torch.Tensor", "torch.LongTensor", "torch.FloatTensor"):
            return "tensor"
        return INSTANCES.get(full) or {"int": "number", "float": "number", "bool": "number", "str": "str"}.get(full)


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


INSTANCES: dict[str, Kind] = {
    "torch.nn.Module": "module",
    "torch.optim.Optimizer": "optimizer",
    "torch.utils.data.DataLoader": "loader",
    "torch.utils.data.dataloader.DataLoader": "loader",
    "torch.utils.data.Dataset": "dataset",
    "torch.device": "device",
    "torch.dtype": "dtype",
    "torch.cuda.amp.GradScaler": "scaler",
    "torch.amp.GradScaler": "scaler",
    "torch.cuda.amp.grad_scaler.GradScaler": "scaler",
    "numpy.ndarray": "ndarray",
    "torch.nn.Parameter": "parameter",
    "torch.nn.parameter.Parameter": "parameter",
    "torch.nn.DataParallel": "module",
    "torch.nn.parallel.DistributedDataParallel": "module",
    "torch.utils.tensorboard.SummaryWriter": "writer",
    "torch.Generator": "generator",
}


class Walker:
    """Kinds in one scope, statement by statement."""

    def __init__(self, inference: Inference, module: Module, function: Function | None, env: dict[str, Kind]) -> None:
        self.inference, self.module, self.function, self.env = inference, module, function, env
        self.nested: list[Function] = []

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
                self.bind(target, join(found, self.inference._annotated(self.module, annotation)))
            case ast.AugAssign(target=target, value=value):
                held, value_kind = self.kind(target), self.kind(value)
                kind = held if held == "parameter" else join(held, value_kind)  # it is written, not bound anew
                self.bind(target, kind)
                self.inference.kinds[target] = held or kind
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
            function = _FUNCTIONS.setdefault(node, Function(node.name, node, self.module))
        self.env[node.name] = ("func", function)
        if function not in self.nested:
            self.nested.append(function)

    def bind(self, target: ast.expr, kind: Kind) -> None:
        match target:
            case ast.Name(id=name):
                self.env[name] = kind if kind is not None or name not in self.env else None
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
                return _arithmetic(self.kind(left), self.kind(right))
            case ast.UnaryOp(operand=operand):
                return self.kind(operand) if not isinstance(node.op, ast.Not) else (self.kind(operand), "number")[1]
            case ast.Compare(left=left, comparators=others):
                kinds = [self.kind(item) for item in [left, *others]]
                same = any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
                return "tensor" if any(map(is_tensor, kinds)) and not same else "number"
            case ast.BoolOp(values=values):
                return _joined([self.kind(value) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.kind(test)
                return join(self.kind(body), self.kind(orelse))
            case ast.Subscript(value=value, slice=index):
                held = self.kind(value)
                self.kind(index)
                return _item(held, index)
            case ast.Tuple(elts=items):
                return ("tuple", *(self.kind(item) for item in items))
            case ast.List(elts=items) | ast.Set(elts=items):
                return ("list", _joined([self.kind(item) for item in items]))
            case ast.Dict(keys=keys, values=values):
                for key in keys:
                    if key is not None:
                        self.kind(key)
                return ("dict", _joined([self.kind(value) for value in values]))
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
        if base == "module":
            return {"module": "module", "weight": "parameter", "bias": "parameter", "training": "number"}.get(node.attr)
        if node.attr == "saved_tensors":
            return ("list", "tensor")
        if base == "dataset" and node.attr in ("train_data", "test_data", "train_labels", "test_labels"):
            return "tensor"
        if base == "loader":
            return {"dataset": "dataset", "batch_size": "number"}.get(node.attr)
        if node.attr in ("criterion", "loss_fn") and base is None:
            return "module"
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
            other = cls.module.classes.get(base) or self.inference.project.resolve(canonical(cls.module, base))
            if isinstance(other, Class) and other is not cls and depth < 12:
                found = self._member(other, name, depth + 1)
                if found is not None:
                    return found
        if is_module(("inst", cls)):
            layer = any(canonical(cls.module, base).startswith("torch.nn.") for base in cls.bases)
            return {"training": "number", **({"weight": "parameter", "bias": "parameter"} if layer else {})}.get(name)
        return PARAMETER_NAMES.get(name)

    def _call(self, node: ast.Call) -> Kind:
        func = self.kind(node.func)
        kinds = [self.kind(argument) for argument in node.args]
        named = {keyword.arg: self.kind(keyword.value) for keyword in node.keywords}
        if isinstance(func, tuple):
            match func[0]:
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
        if is_tensor(base) or (base is None and name in TENSOR_ONLY):
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


_FUNCTIONS: dict[ast.AST, Function] = {}


def _entity(found: Class | Function | Module) -> Kind:
    if isinstance(found, Class):
        return ("class", found)
    return ("func", found) if isinstance(found, Function) else ("module", found)


def _joined(kinds: Sequence[Kind]) -> Kind:
    found: Kind = None
    for kind in kinds:
        found = join(found, kind)
    return found


def _arithmetic(left: Kind, right: Kind) -> Kind:
    if is_tensor(left) or is_tensor(right):
        return "tensor"
    if "ndarray" in (left, right):
        return "ndarray"
    if isinstance(left, tuple) and left[0] in ("list", "tuple"):
        return left
    return left if left == right else join(left, right) if {left, right} <= {"number", None} else None


def element(kind: Kind) -> Kind:
    """What iteration over a value gives."""
    if isinstance(kind, tuple):
        if kind[0] in ("list", "iter"):
            return kind[1]
        if kind[0] == "tuple":
            return _joined(kind[1:])
        if kind[0] == "inst" and kind[1].family == "dataset":
            return None
        if kind[0] == "inst" and kind[1].family == "list":
            return "module"
        if kind[0] == "layer" and kind[1].endswith(("ModuleList", "Sequential")):
            return "module"
        if kind[0] == "layer" and kind[1].endswith("ParameterList"):
            return "parameter"
        if kind[0] == "dict":
            return "str"
    if kind == "loader":
        return "batch"
    if kind in ("tensor", "batch"):
        return kind
    if kind == "parameter":
        return "tensor"
    if kind == "shape":
        return "number"
    return None


def part(kind: Kind, index: int) -> Kind:
    """What unpacking gives at one place."""
    if isinstance(kind, tuple) and kind[0] == "tuple":
        return kind[index + 1] if index + 1 < len(kind) else None
    return element(kind)


def _item(held: Kind, index: ast.expr) -> Kind:
    if isinstance(held, tuple):
        if held[0] == "tuple" and isinstance(index, ast.Constant) and isinstance(index.value, int):
            return held[index.value + 1] if -len(held) < index.value < len(held) - 1 else None
        if held[0] == "tuple" and isinstance(index, ast.UnaryOp):
            return held[-1]
        if held[0] in ("list", "tuple") and isinstance(index, ast.Slice):
            return held
        if held[0] == "dict":
            return held[1]
        return element(held)
    if held == "parameter":
        return "tensor"
    if held == "shape":
        return "shape" if isinstance(index, ast.Slice) else "number"
    if held == "module":
        return "module"
    return held if held in ("tensor", "batch", "ndarray") else None


def api_kind(name: str) -> Kind:
    """The kind of an imported name."""
    head, _, last = name.rpartition(".")
    if head == "torch" and last in DTYPES:
        return "dtype"
    return ("api", name)


def api_result(name: str, kinds: Sequence[Kind]) -> Kind:
    """What a call of an imported function or class gives."""
    head, _, last = name.rpartition(".")
    root = name.split(".")[0]
    if name in INSTANCES:
        return INSTANCES[name]
    if head.startswith("torch.optim.lr_scheduler"):
        return "scheduler"
    if head.startswith("torch.optim"):
        return "optimizer"
    if head == "torch.nn.init" or head == "torch.nn.utils":
        return kinds[0] if kinds and last in ("spectral_norm", "weight_norm") else "tensor"
    if head == "torch.nn.utils.rnn":
        return (
            "tensor"
            if last.startswith("pad_sequence")
            else ("tuple", "tensor", "tensor")
            if last.startswith("pad_packed")
            else "packed"
        )
    if head.startswith("torch.nn") and "functional" not in head and last[:1].isupper():
        return ("layer", f"torch.nn.{last}")
    if head.startswith("torch.nn") and "functional" in head:
        return "tensor"
    if head.startswith(("torch.utils.data", "torchvision.datasets")):
        return ("list", "dataset") if last == "random_split" else "loader" if last.endswith("Loader") else "dataset"
    if head.startswith("torchvision.transforms"):
        return "transform"
    if head.startswith("torchvision.models") or name in ("torch.hub.load", "torch.compile", "torch.jit.script"):
        return kinds[0] if kinds and is_module(kinds[0]) else "module"
    if head.startswith(
        (
            "torch.cuda",
            "torch.distributed",
            "torch.backends",
            "torch.jit",
            "torch.utils",
            "torch.hub",
            "torch.multiprocessing",
            "torch.profiler",
        )
    ):
        return (
            "number"
            if last in ("is_available", "device_count", "get_rank", "get_world_size", "current_device")
            else None
        )
    if head.startswith("torch.autograd"):
        return ("list", "tensor") if last == "grad" else "tensor"
    if name.startswith("torch.distributions."):
        return "distribution" if last[:1].isupper() else "tensor"
    if root == "torch" and last[:1].isupper() and last not in ("Tensor", "Size") and not last.endswith("Tensor"):
        return "object"
    if head in ("torch", "torch.linalg", "torch.fft", "torch.special", "torch.functional"):
        return torch_result(last, kinds)
    if root == "numpy":
        return "ndarray"
    if root == "copy":
        return kinds[0] if kinds else None
    if root == "tqdm" or last == "tqdm":
        return kinds[0] if kinds else None
    if root in ("math", "time", "random"):
        return "number"
    return None


def torch_result(last: str, kinds: Sequence[Kind]) -> Kind:
    if last in (
        "save",
        "load",
        "manual_seed",
        "no_grad",
        "set_grad_enabled",
        "set_printoptions",
        "get_rng_state",
        "set_num_threads",
    ):
        return None
    if last in PAIRS and len(kinds) > 1 and not is_tensor(kinds[1]):
        return ("tuple", "tensor", "tensor")
    if last in LISTS or last in ("meshgrid", "broadcast_tensors", "where_") or (last == "where" and len(kinds) == 1):
        return ("list", "tensor")
    if last in ("var_mean", "std_mean", "aminmax", "slogdet", "svd", "qr", "eigh", "frexp"):
        return ("tuple", *["tensor"] * 3)
    if last in ("is_tensor", "numel", "is_floating_point", "equal", "allclose", "is_grad_enabled"):
        return "number"
    if last == "Size":
        return "shape"
    if last == "sort" or last == "topk":
        return ("tuple", "tensor", "tensor")
    if last == "compile":
        return kinds[0] if kinds else None
    return "tensor"


def tensor_method(name: str, node: ast.Call, kinds: Sequence[Kind]) -> Kind:
    if name in NUMBERS:
        return "number"
    if name == "size":
        return "number" if node.args or node.keywords else "shape"
    if name == "numpy":
        return "ndarray"
    if name == "tolist":
        return ("list", "number")
    if name in ("sort", "topk"):
        return ("tuple", "tensor", "tensor")
    if name in PAIRS:
        pair = bool(node.keywords) or bool(kinds and not is_tensor(kinds[0]))
        return ("tuple", "tensor", "tensor") if pair else "tensor"
    if name in LISTS:
        return ("list", "tensor")
    if name == "backward":
        return None
    return "tensor"


def module_method(name: str, base: Kind) -> Kind:
    table: dict[str, Kind] = {
        "parameters": ("list", "parameter"),
        "named_parameters": ("list", ("tuple", "str", "parameter")),
        "modules": ("list", "module"),
        "children": ("list", "module"),
        "named_modules": ("list", ("tuple", "str", "module")),
        "named_children": ("list", ("tuple", "str", "module")),
        "buffers": ("list", "tensor"),
        "named_buffers": ("list", ("tuple", "str", "tensor")),
        "state_dict": ("dict", "tensor"),
    }
    if name in (
        "to",
        "cuda",
        "cpu",
        "train",
        "eval",
        "half",
        "float",
        "double",
        "apply",
        "requires_grad_",
        "share_memory",
    ):
        return base
    if name == "forward":
        return "tensor"
    return table.get(name)


def layer_result(api: str) -> Kind:
    last = api.rpartition(".")[2]
    if last in ("LSTM",):
        return ("tuple", "tensor", ("tuple", "tensor", "tensor"))
    if last in ("GRU", "RNN", "MultiheadAttention", "LSTMCell"):
        return ("tuple", "tensor", "tensor")
    return "tensor"


def builtin_result(name: str, kinds: Sequence[Kind]) -> Kind:
    first = kinds[0] if kinds else None
    match name:
        case "enumerate":
            return ("list", ("tuple", "number", element(first)))
        case "zip":
            return ("list", ("tuple", *(element(kind) for kind in kinds)))
        case "iter":
            return ("iter", element(first))
        case "next":
            return element(first)
        case "list" | "tuple" | "sorted" | "reversed" | "set" | "filter":
            source = kinds[-1] if kinds and name == "filter" else first
            return ("list", element(source))
        case "sum":
            return "tensor" if is_tensor(element(first)) else None
        case "int" | "float" | "len" | "bool" | "round" | "abs" | "hash":
            return "number" if not (name == "abs" and is_tensor(first)) else "tensor"
        case "max" | "min":
            return first if len(kinds) > 1 else element(first)
        case "range" | "trange":
            return ("list", "number")
        case "tqdm":
            return first
        case "str" | "repr" | "format":
            return "str"
        case "dict":
            return ("dict", None)
    return None
