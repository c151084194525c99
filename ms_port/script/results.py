"""What calls give: of torch's functions and classes, of methods, of layers and of Python's own functions."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.script.kinds import element, is_module, is_tensor
from ms_port.script.project import Kind

DTYPES = frozenset(
    "float32 float float64 double float16 half bfloat16 int8 int16 short int32 int int64 long uint8 bool complex64".split()
)
NUMBERS = frozenset("item dim ndimension numel nelement stride element_size __len__ get_device".split())
PAIRS = frozenset("max min sort topk median mode kthvalue cummax cummin".split())
LISTS = frozenset("split chunk unbind tensor_split".split())
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
    if head == "torch.optim.swa_utils":
        return {"AveragedModel": "module", "SWALR": "scheduler"}.get(last)
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
    if root == "einops":
        return ("layer", name) if last[:1].isupper() else "tensor"
    if root == "numpy":
        return "ndarray"
    if root == "copy":
        return kinds[0] if kinds else None
    if root == "tqdm" or last == "tqdm":
        return kinds[0] if kinds else None
    if root == "itertools":
        return kinds[0] if kinds and last in ("islice", "cycle", "chain") else None
    if root in ("math", "time", "random"):
        return "number"
    return None


def held_in(node: ast.Call, kinds: Sequence[Kind]) -> Kind:
    """What ``getattr(nn, name)`` gives: the class or function, or one of a module of torch's."""
    held = kinds[0] if kinds else None
    if not (isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(kinds) == 2):
        return None
    if not (isinstance(held, tuple) and held[0] == "api" and str(held[1]).startswith("torch")):
        return None
    name = node.args[1]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return api_kind(f"{held[1]}.{name.value}")
    return ("chosen", str(held[1]))


def chosen_result(module: str) -> Kind:
    """What a call of something in a module of torch's gives, of which only the module is known."""
    table: dict[str, Kind] = {
        "torch.nn": "module",
        "torchvision.models": "module",
        "torch.optim": "optimizer",
        "torch.optim.lr_scheduler": "scheduler",
        "torchvision.datasets": "dataset",
        "torchvision.transforms": "transform",
        "torch": "tensor",
        "torch.nn.functional": "tensor",
    }
    return table.get(module)


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
    if name in ("items", "values", "keys"):  # of a ModuleDict
        held: dict[str, Kind] = {"items": ("tuple", "str", "module"), "values": "module", "keys": "str"}
        return ("list", held[name])
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
