"""Methods and attributes of tensors, modules and strings in a script, and the torch functions that need more than a template."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ms_port.opmap import NoLowering
from ms_port.script.derived import layers
from ms_port.script.kinds import DEVICE_FLAGS, MAPPING, TENSOR_ONLY, is_module, is_tensor
from ms_port.script.placeholders import DTYPE_NAMES

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions
    from ms_port.script.project import Class, Kind

SAME = frozenset(
    "cuda cpu contiguous pin_memory share_memory_ share_memory requires_grad_ npu clone_ xpu mps coalesce to_dense".split()
)
"""Methods that give back what they are called on."""
SIMPLE = {
    "numpy": ".asnumpy()",
    "item": ".item()",
    "tolist": ".tolist()",
    "numel": ".size",
    "nelement": ".size",
    "dim": ".ndim",
    "ndimension": ".ndim",
}
PYTHONS = frozenset(n for kind in (str, list, dict, set) for n in dir(kind) if not n.startswith("_"))
"""Methods of strings and containers: no tensor has those of them that have no row."""
HOST = frozenset({"numpy", "item", "tolist"})
IN_PLACE = {
    "add_": "{r} + {0}", "sub_": "{r} - {0}", "mul_": "{r} * {0}", "div_": "{r} / {0}", "copy_": "{0}", "zero_": "0", "fill_": "{0}", "pow_": "{r} ** {0}",
    "neg_": "-{r}", "set_": "{0}",
}  # fmt: skip
OTHERWISE = frozenset(
    "std var repeat transpose max min mean sum argmax argmin norm prod cumsum any all flatten median".split()
)
"""Methods of arrays that tensors have too."""
SHAPELESS = frozenset({"copy_", "zero_", "fill_", "set_"})
"""Methods whose value has no shape of its own."""
VIEWS = frozenset(
    "view reshape t transpose permute swapaxes squeeze unsqueeze flatten expand expand_as view_as chunk".split()
)
LOST = frozenset({"narrow", "select", "diagonal", "unfold"})
"""Views through which MindSpore writes nothing."""
SHAPES = frozenset({"unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_", "swapdims_"})
"""Methods that change a tensor's shape in place."""
RANDOM_IN_PLACE = {
    "normal_": "ops.randn({r}.shape) * {std} + {mean}",
    "uniform_": "ops.rand({r}.shape) * ({high} - {low}) + {low}",
}
MODULE = {
    "eval": "{r}.set_train(False)", "parameters": "all_parameters({r})", "named_parameters": "named_parameters({r})", "zero_grad": "clear_gradients({r})",
    "children": "{r}.cells()", "named_children": "{r}.name_cells().items()", "modules": "[cell for _, cell in {r}.cells_and_names()]",
    "named_modules": "{r}.cells_and_names()", "to": "{r}", "cuda": "{r}", "cpu": "{r}", "npu": "{r}", "share_memory": "{r}", "float": "{r}",
    "type": "{r}", "compile": "{r}",
    "state_dict": "state_of({r})", "buffers": "buffers({r})", "named_buffers": "named_buffers({r})",
}  # fmt: skip
LISTED = ("parameters", "named_parameters", "buffers", "named_buffers", "state_dict")


def attribute(e: Expressions, node: ast.Attribute) -> str | None:
    """An attribute that is read or written."""
    kind = e.inference.of(node.value)
    if isinstance(kind, tuple) and kind[0] == "layer":
        return _layer_attribute(e, node, str(kind[1]))
    cls: Class | None = kind[1] if isinstance(kind, tuple) and kind[0] == "inst" else None
    if cls is not None and node.attr not in cls.attributes and (layer := next(layers(cls), None)) is not None:
        return _layer_attribute(e, node, layer[1])
    if kind == ("tuple", "tensor", "tensor") and node.attr in ("values", "indices"):
        return f"{e.atom(node.value)}[{int(node.attr == 'indices')}]"
    if is_tensor(kind):
        if node.attr == "data":
            receiver = e.atom(node.value)
            if isinstance(holder := e.source.parents.get(node), ast.Subscript) and isinstance(holder.ctx, ast.Store):
                return receiver
            return (
                f"{e.needs.name('ops')}.stop_gradient({receiver})" if e.in_region and kind != "parameter" else receiver
            )
        if node.attr in DEVICE_FLAGS:
            return f"{e.needs.name('on_device')}()"
        if node.attr == "device":
            return f"{e.needs.name('Device')}()"
    if node.attr in ("weight", "bias", "running_mean", "running_var") and kind in (None, "module"):
        if isinstance(node.ctx, ast.Load) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            e.needs.name("name_as_torch")
        return None
    held = isinstance(node.value, (ast.Attribute, ast.Subscript)) or kind == "module"
    if node.attr in ("in_features", "out_features") and held and (kind in (None, "module")):
        return f"{e.atom(node.value)}.{node.attr.replace('features', 'channels')}"
    if is_module(kind) and node.attr in ("forward",):
        return f"{e.atom(node.value)}.construct"
    return None


def _layer_attribute(e: Expressions, node: ast.Attribute, api: str) -> str | None:
    """``bn.weight`` is ``bn.gamma``: by the row of the layer."""
    row = e.op_map.row(api)
    if row is None:
        return None
    for rule in row.weights:
        if rule.torch == node.attr and rule.mindspore and rule.mindspore != node.attr:
            return f"{e.atom(node.value)}.{rule.mindspore}"
    name = (row.attributes or {}).get(node.attr)
    return f"{e.atom(node.value)}.{name}" if name and name != node.attr else None


def call(e: Expressions, node: ast.Call, func: ast.Attribute) -> str | None:
    """A method call; None where it stays."""
    kind, name = e.inference.of(func.value), func.attr
    if name == "flatten_parameters" and not node.args:  # MindSpore lays weights out by itself
        e.dropped.add(node)
        e.change(node, "MSP603", "", "torch.nn.RNNBase.flatten_parameters")
        return "None"
    if name == "forward" and _is_super(func.value):
        return f"{e.render(func.value)}.construct{e._arguments(node)}"
    if name == "format" and isinstance(func.value, ast.Constant) and isinstance(func.value.value, str):
        return _format(e, node, func)
    if is_module(kind):
        return module_call(e, node, func)
    if kind == "shape" and name == "numel":
        return f"{e.needs.name('math')}.prod({e.render(func.value)})"
    if (
        kind in ("object", "distribution", "generator")
        or kind == "scaler"
        or kind == "optimizer"
        or kind == "scheduler"
        or kind == "loader"
    ):
        return None
    if kind == "batch" and name in MAPPING:
        return None
    several = isinstance(kind, tuple) and kind[0] in ("tuple", "list", "iter")  # a tensor or a tuple of them
    guessed = kind in (None, "number") or several  # `unknown * 2` is taken for a number, which has no such method
    if is_tensor(kind) or (guessed and name in TENSOR_ONLY):
        return tensor_call(e, node, func)
    if kind is None:
        return unknown_call(e, node, func)
    return None


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _format(e: Expressions, node: ast.Call, func: ast.Attribute) -> str | None:
    text = func.value.value if isinstance(func.value, ast.Constant) else ""
    if ":" not in str(text) or not any(
        is_tensor(e.inference.of(a)) for a in [*node.args, *(k.value for k in node.keywords)]
    ):
        return None
    given = [f"float({e.render(a)})" if is_tensor(e.inference.of(a)) else e.render(a) for a in node.args]
    given += [
        f"{k.arg}=" + (f"float({e.render(k.value)})" if is_tensor(e.inference.of(k.value)) else e.render(k.value))
        for k in node.keywords
        if k.arg
    ]
    return f"{e.render(func)}({', '.join(given)})"


def unknown_call(e: Expressions, node: ast.Call, func: ast.Attribute) -> str | None:
    """A method of a value that is not known: only what can't be anything else."""
    name = func.attr
    nothing = not node.args and not node.keywords
    if name == "train" and (nothing or _boolean(node)):
        return _train(e, node, func)
    if name == "load_state_dict" and len(node.args) == 1:
        return _load_state(e, node, func)
    if name == "zero_grad" and nothing and "optim" not in ast.unparse(func.value).lower():
        return f"{e.needs.name('clear_gradients')}({e.render(func.value)})"
    if name == "eval" and nothing:
        return f"{e.atom(func.value)}.set_train(False)"
    if name == "state_dict" and nothing:
        return f"{e.needs.name('state_of')}({e.render(func.value)})"
    if name in ("parameters", "named_parameters") and nothing:
        return f"{e.needs.name('all_parameters' if name == 'parameters' else name)}({e.render(func.value)})"
    if name == "to" and not node.args and {k.arg for k in node.keywords} <= {"device", "memory_format", "non_blocking"}:
        return e.render(func.value)
    if name == "to" and len(node.args) >= 1 and _is_device(e, node.args[0]):
        return e.render(func.value)
    if name == "size" and len(node.args) == 1:
        return f"{e.atom(func.value)}.shape[{e.render(node.args[0])}]"
    if name == "size" and nothing:
        return f"{e.atom(func.value)}.shape"
    if name in ("dim",) and nothing:
        return f"{e.atom(func.value)}.ndim"
    if name in OTHERWISE and name not in PYTHONS:
        return _either(e, node, func)
    return None


def _either(e: Expressions, node: ast.Call, func: ast.Attribute) -> str | None:
    """A method that arrays have too, and that does something else for MindSpore's tensors: by what the value is at run time."""
    if any(isinstance(part, (ast.Call, ast.NamedExpr)) for part in ast.walk(func.value)):
        return None
    if any(k.arg in ("dim", "keepdim", "unbiased") for k in node.keywords):  # no array's
        return _row(e, node, func)
    receiver = e.atom(func.value)
    used, said = dict(e.needs.used), len(e.notes)
    keywords = [(k.arg, k.value) for k in node.keywords]
    try:
        made = e.lower(f"torch.Tensor.{func.attr}", node.args, keywords, receiver)
    except NoLowering:
        made = ""
    plain = e.splice(node)
    if made in ("", plain):
        e.needs.used = used
        del e.notes[said:]
        return None
    text = f"({made} if isinstance({receiver}, {e.needs.name('Tensor')}) else {plain})"
    e.change(node, "MSP601", text, f"torch.Tensor.{func.attr}")
    return text


def _load_state(e: Expressions, node: ast.Call, func: ast.Attribute) -> str:
    """A state of this project's, or of a torch checkpoint."""
    after = f"{e.needs.name('load_state')}({e.render(func.value)}, {e._arguments(node).strip()[1:].lstrip()}"
    e.change(node, "MSP601", after, "torch.nn.Module.load_state_dict")
    return after


def _boolean(node: ast.Call) -> bool:
    value = node.args[0] if node.args else node.keywords[0].value
    return isinstance(value, ast.Constant) and isinstance(value.value, bool)


def _train(e: Expressions, node: ast.Call, func: ast.Attribute) -> str:
    given = [*node.args, *(k.value for k in node.keywords)]
    return f"{e.atom(func.value)}.set_train({e.render(given[0]) if given else ''})"


def _is_device(e: Expressions, node: ast.expr) -> bool:
    kind = e.inference.of(node)
    if kind == "device":
        return True
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, int)) and not isinstance(node.value, bool)
    text = ast.unparse(node).lower()
    return kind in (None, "number", "str") and any(word in text for word in ("device", "gpu", "cuda", "rank", "dev"))


def module_call(e: Expressions, node: ast.Call, func: ast.Attribute) -> str | None:
    """A method of a module."""
    name, kind = func.attr, e.inference.of(func.value)
    own = isinstance(kind, tuple) and kind[0] == "inst" and name in kind[1].methods
    if own and name != "forward":
        return None
    if name == "train":
        return _train(e, node, func)
    if name == "forward":
        inside = isinstance(func.value, ast.Name) and func.value.id == "self"
        return f"{e.atom(func.value)}{'.construct' if inside else ''}{e._arguments(node)}"
    if name == "requires_grad_":
        return f"{e.needs.name('freeze')}({e.render(func.value)}, {e.render(node.args[0]) if node.args else 'True'})"
    if name in LISTED and (node.args or node.keywords):
        return _listed(e, node, func)
    if name in MODULE and not (name == "to" and _named_type(e, node)):
        text = MODULE[name]
        for part in ("all_parameters", "named_parameters", "clear_gradients", "state_of", "buffers", "named_buffers"):
            if text.startswith(f"{part}("):
                text = text.replace(f"{part}(", f"{e.needs.name(part)}(")
        after = text.replace("{r}", e.atom(func.value) if "{r}." in text else e.render(func.value))
        e.change(node, "MSP601", after, f"torch.nn.Module.{name}")
        return after
    if name == "double" or (name == "to" and _named_type(e, node) == {"float64"}):
        text = f"{e.needs.name('as_double')}({e.render(func.value)})"
        what = "convolutions and BatchNorm raise in float64"
        e.note("MSP605", e.source.segment(node), f"{text}: {what}", "", "warning", "torch.nn.Module.double")
        return text
    if name in ("half", "bfloat16") or (name == "to" and _named_type(e, node)):
        e.note(
            "MSP605",
            e.source.segment(node),
            "left out: parameters stay float32",
            "",
            "warning",
            f"torch.nn.Module.{name}",
        )
        return e.render(func.value)
    if name == "load_state_dict":
        return _load_state(e, node, func)
    if name == "register_parameter":
        return f"{e.atom(func.value)}.insert_param_to_cell{e._arguments(node)}"
    if name in ("add_module", "register_module"):
        if may_be_sequential(e.inference.of(func.value)):
            e.needs.name("sequential_as_torch")
        return f"{e.atom(func.value)}.insert_child_to_cell{e._arguments(node)}"
    if name in ("register_forward_hook", "register_forward_pre_hook"):  # in PYNATIVE mode they get what torch's get
        e.note(
            "MSP303", e.source.segment(node), "a graph (ms.jit) calls no hook", "", "warning", f"torch.nn.Module.{name}"
        )
        return None
    if name in ("register_backward_hook", "register_full_backward_hook"):
        return e.refuse(node, "MSP602", f"torch.nn.Module.{name}", "backward hooks have other arguments in MindSpore")
    return None


def may_be_sequential(kind: Kind) -> bool:
    """Whether a model may run its cells one after the other: one that gets another cell must run that too."""
    if isinstance(kind, tuple) and kind[0] == "inst":
        return bool(kind[1].family == "sequential")
    return kind == "module" or (isinstance(kind, tuple) and kind[0] == "layer" and str(kind[1]).endswith("Sequential"))


def _listed(e: Expressions, node: ast.Call, func: ast.Attribute) -> str:
    """``parameters(recurse=False)``, ``named_parameters("prefix")`` and their kin."""
    name = func.attr
    if name == "state_dict":
        return e.refuse(
            node, "MSP602", f"torch.nn.Module.{name}", "arguments of state_dict: rename its keys afterwards"
        )
    given = [e.render(a) for a in node.args] + [f"{k.arg}={e.render(k.value)}" for k in node.keywords]
    if name in ("parameters", "buffers"):
        given = [f"recurse={given[0]}"] if node.args else given
        part = e.needs.name(f"named_{name}")
        return f"(held for _, held in {part}({e.render(func.value)}, {', '.join(given)}))"
    return f"{e.needs.name(name)}({e.render(func.value)}, {', '.join(given)})"


def _named_type(e: Expressions, node: ast.Call) -> set[str]:
    """Types other than float32 that ``model.to(...)`` names."""
    given = [*node.args, *(k.value for k in node.keywords if k.arg == "dtype")]
    types = [(e.api_name(a) or "").rpartition(".")[2] for a in given if e.inference.of(a) == "dtype"]
    return {DTYPE_NAMES.get(name, name) for name in types} - {"float32"}


def tensor_call(e: Expressions, node: ast.Call, func: ast.Attribute) -> str | None:
    """A method of a tensor."""
    name = func.attr
    nothing = not node.args and not node.keywords
    if name == "requires_grad_" and node in e.inference.trained:
        return f"{e.needs.name('Parameter')}({e.render(func.value)})"
    if name in SAME:
        return e.render(func.value)
    if name == "to_sparse":
        e.note(
            "MSP602", e.source.segment(node), "left dense, with all its zeros", "", "warning", "torch.Tensor.to_sparse"
        )
        return e.render(func.value)
    if name == "to":
        return _to(e, node, func)
    if name == "detach" and nothing:
        return f"{e.needs.name('ops')}.stop_gradient({e.render(func.value)})"
    if name in HOST:
        receiver = _host(e, func.value)
        return f"{receiver}{SIMPLE[name]}"
    if name in SIMPLE:
        return f"{e.atom(func.value)}{SIMPLE[name]}"
    if name == "size":
        index = [*node.args, *(k.value for k in node.keywords)]
        return f"{e.atom(func.value)}.shape[{e.render(index[0])}]" if index else f"{e.atom(func.value)}.shape"
    if name == "type" and len(node.args) == 1:
        return _type(e, node, func)
    if name == "backward":
        return e.refuse(
            node,
            "MSP604",
            "torch.Tensor.backward",
            "the computation of this loss could not be gathered into a function",
        )
    if name == "retain_grad":
        return e.refuse(
            node,
            "MSP604",
            "torch.Tensor.retain_grad",
            "for the gradient of a value on the way, make it an argument of the function and of value_and_grad",
        )
    if name == "register_hook":
        return e.refuse(
            node, "MSP602", "torch.Tensor.register_hook", "change the gradients that value_and_grad returns"
        )
    if name == "transpose" and len(node.args) != 2:
        return None  # of an array
    if name.endswith("_") and not name.startswith("_"):
        return in_place(e, node, func)
    return _row(e, node, func)


def _row(e: Expressions, node: ast.Call, func: ast.Attribute) -> str | None:
    name = f"torch.Tensor.{func.attr}"
    try:
        text = e.lower(name, node.args, [(k.arg, k.value) for k in node.keywords], e.atom(func.value))
    except NoLowering as error:
        if e.op_map.row(name) is None and (not is_tensor(e.inference.of(func.value)) or func.attr in PYTHONS):
            return None
        return e.refuse(node, "MSP602", name, str(error).removeprefix(f"{name}: "))
    e.change(node, "MSP601", text, name)
    return text


def _host(e: Expressions, node: ast.expr) -> str:
    """A value that goes to the host at once: detach and cpu mean nothing there."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("detach", "cpu", "contiguous", "cuda")
    ):
        node = node.func.value
    if isinstance(node, ast.Attribute) and node.attr == "data" and is_tensor(e.inference.of(node.value)):
        node = node.value
    return e.atom(node)


def _to(e: Expressions, node: ast.Call, func: ast.Attribute) -> str:
    """``x.to(...)``: a device means nothing, a type is a cast."""
    receiver = e.atom(func.value)
    wanted = [k.value for k in node.keywords if k.arg == "dtype"]
    for argument in node.args:
        kind = e.inference.of(argument)
        if kind == "dtype" or (isinstance(argument, ast.Attribute) and argument.attr == "dtype"):
            wanted.append(argument)
        elif is_tensor(kind):
            return f"{receiver}.astype({e.atom(argument)}.dtype)"
    if not wanted:
        return e.render(func.value)
    return f"{receiver}.astype({e.render(wanted[0])})"


TYPES = {
    "LongTensor": "int64",
    "IntTensor": "int32",
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BoolTensor": "bool_",
    "ByteTensor": "uint8",
}


def _type(e: Expressions, node: ast.Call, func: ast.Attribute) -> str:
    argument = node.args[0]
    text = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
    name = TYPES.get(str(text).rpartition(".")[2])
    kind = e.inference.of(argument)
    if name is None and isinstance(kind, tuple) and kind[0] == "api":  # Tensor = torch.FloatTensor
        name = TYPES.get(str(kind[1]).rpartition(".")[2])
    wanted = f"{e.needs.name('ms')}.{name}" if name else e.render(argument)
    return f"{e.atom(func.value)}.astype({wanted})"


def root_of(node: ast.expr) -> tuple[ast.expr, list[ast.Call]]:
    """The object that a chain of in-place methods writes (``p.data.mul_(d).add_(x)``: ``p``), and the calls in order."""
    calls: list[ast.Call] = []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        calls.insert(0, node)
        node = node.func.value
    while isinstance(node, (ast.Attribute, ast.Call)):
        if isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("detach", "cpu", "cuda", "to")
        ):
            node = node.func.value
        else:
            break
    return node, calls


def in_place(e: Expressions, node: ast.Call, func: ast.Attribute) -> str | None:
    """``x.add_(y)``: the value that x gets, written into x by ``assign`` (in MindSpore such a method may write nothing)."""
    root, calls = root_of(node)
    target = e.render(root)
    value = target
    for step in calls:
        found = _functional(e, step, value)
        if found is None:
            name = step.func.attr if isinstance(step.func, ast.Attribute) else ""
            return e.refuse(node, "MSP602", f"torch.Tensor.{name}", "no form of this in-place method is known")
        value = found
    e.change(node, "MSP607", value, f"torch.Tensor.{func.attr}")
    return _written(e, node, root, target, value)


def _written(e: Expressions, node: ast.Call, root: ast.expr, target: str, value: str) -> str:
    """``value`` written into ``target``; where a gradient flows, or the shape changes, a name is bound anew instead."""
    if isinstance(root, ast.Call):
        name = step_of(root)
        if name in LOST:
            return e.refuse(
                node, "MSP602", f"torch.Tensor.{name}", "a write through this view: write x[a:b] = ... instead"
            )
        kept = {*SHAPELESS, *RANDOM_IN_PLACE, "random_", "bernoulli_"}  # the type, or the shape, is the receiver's
        made = isinstance(root.func, ast.Attribute) and is_tensor(e.inference.of(root.func.value))
        if made and name not in VIEWS and step_of(node) not in kept:  # a new tensor, which nobody else holds
            return value
        if step_of(node) not in SHAPES:
            return f"{e.needs.name('assign')}({target}, {value})"
        return value
    if step_of(node) in SHAPES:
        if isinstance(root, ast.Name):
            return f"({target} := {value})"
        if isinstance(root, ast.Attribute) and isinstance(e.source.parents.get(node), ast.Expr):
            return f"{target} = {value}"
        return e.refuse(node, "MSP602", f"torch.Tensor.{step_of(node)}", "assign its result where it is called")
    computes = e.in_region or (e.in_cell and e.function is not None and e.function.name == "forward")
    if not computes or not isinstance(root, ast.Name) or e.inference.of(root) == "parameter":
        return f"{e.needs.name('assign')}({target}, {value})"
    parent = e.source.parents.get(node)
    if isinstance(parent, ast.Assign) and [t.id for t in parent.targets if isinstance(t, ast.Name)] == [root.id]:
        return value
    if step_of(node) in SHAPELESS:
        return f"{e.needs.name('assign')}({target}, {value})"
    return f"({target} := {value})"


def step_of(node: ast.Call) -> str:
    """The name of a call's method."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def in_place_function(e: Expressions, node: ast.Call, name: str) -> str:
    """``torch.clamp_(x, 0, 1)``: as the method of its name."""
    step = ast.Call(ast.Attribute(node.args[0], name.rpartition(".")[2], ast.Load()), node.args[1:], node.keywords)
    target = e.render(node.args[0])
    value = _functional(e, step, target)
    if value is None:
        return e.refuse(node, "MSP602", name, "no form of this in-place function is known")
    e.change(node, "MSP607", value, name)
    return _written(e, node, node.args[0], target, value)


def _functional(e: Expressions, step: ast.Call, value: str) -> str | None:
    """The result of one in-place method, as an expression over ``value``."""
    assert isinstance(step.func, ast.Attribute)
    name = step.func.attr
    receiver = value if value.replace(".", "").replace("_", "").isalnum() else f"({value})"
    keywords = {k.arg: k.value for k in step.keywords}
    if name in IN_PLACE:
        text = IN_PLACE[name].replace("{r}", receiver)
        if "{0}" not in text:
            return text
        first = step.args[0] if step.args else next(iter(keywords.values()), None)
        if first is None:
            return None
        operand = e.render(first) if text == "{0}" else e.atom(first)
        scale = keywords.get("alpha") or (step.args[1] if name == "add_" and len(step.args) > 1 else None)
        if name == "add_" and len(step.args) > 1:  # the old order: add_(alpha, other)
            operand, scale = e.atom(step.args[1]), step.args[0]
        return text.replace("{0}", f"{operand} * {e.atom(scale)}" if scale is not None else operand)
    if name in RANDOM_IN_PLACE:
        given = dict(
            zip(("mean", "std") if name == "normal_" else ("low", "high"), map(e.atom, step.args), strict=False)
        )
        names = {"from": "low", "to": "high", "a": "low", "b": "high"}
        given |= {names.get(str(k), str(k)): e.atom(v) for k, v in keywords.items() if k != "generator"}
        text = RANDOM_IN_PLACE[name].replace("ops.", f"{e.needs.name('ops')}.").replace("{r}", receiver)
        for key, default in (("mean", "0.0"), ("std", "1.0"), ("low", "0.0"), ("high", "1.0")):
            text = text.replace("{" + key + "}", given.get(key, default))
        return text
    if name == "random_":
        bounds = [e.render(a) for a in step.args] or ["0", "2**31"]
        return f"{e.needs.name('randint')}({', '.join(bounds[-2:])}, {receiver}.shape)"
    if name in ("addcmul_", "addcdiv_"):
        sign = "*" if name == "addcmul_" else "/"
        tensors = [e.atom(a) for a in step.args[-2:]]
        factor = (
            e.atom(keywords["value"]) if "value" in keywords else e.atom(step.args[0]) if len(step.args) > 2 else "1"
        )
        return f"{receiver} + {factor} * {tensors[0]} {sign} {tensors[1]}"
    if name == "lerp_":
        return f"{receiver} + {e.atom(step.args[1])} * ({e.atom(step.args[0])} - {receiver})"
    try:
        return e.lower(f"torch.Tensor.{name[:-1]}", step.args, [(k.arg, k.value) for k in step.keywords], receiver)
    except NoLowering:
        return None
