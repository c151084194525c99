"""The checks of the scan on one file. Plain data in and out, so that files can go to several processes."""

from __future__ import annotations

import ast
import json
import re
import stat
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from ms_port.script.project import FOREIGN
from ms_port.script.source import dotted

FRAMEWORKS = {
    "transformers.Trainer": "HF Trainer", "transformers.Seq2SeqTrainer": "HF Trainer", "transformers.trainer.Trainer": "HF Trainer", "accelerate": "Accelerate",
    "pytorch_lightning": "Lightning", "lightning": "Lightning", "deepspeed": "DeepSpeed", "torch.distributed.fsdp": "FSDP", "peft": "PEFT", "torchmetrics": "torchmetrics",
    "ignite": "Ignite", "fairseq": "fairseq", "mmengine": "MMEngine", "mmcv": "MMCV", "megatron": "Megatron",
}  # fmt: skip
VERSIONS = (
    ("torch.compile", "2.0"),
    ("torch.func", "2.0"),
    ("torch.nn.functional.scaled_dot_product_attention", "2.0"),
    ("torch.amp.GradScaler", "2.3"),
    ("torch.nn.RMSNorm", "2.4"),
    ("torch.nn.attention", "2.3"),
    ("torch.inference_mode", "1.9"),
    ("torch.amp", "1.10"),
    ("torch.cuda.amp", "1.6"),
)
GROUP_CALLS = ("init_process_group", "init_distributed_mode", "setup_distributed")
COLLECTIVES = frozenset(
    "barrier all_reduce all_gather broadcast reduce gather scatter all_to_all reduce_scatter all_gather_object broadcast_object_list".split()
)
DATA_CLASSES = ("DataLoader", "ImageFolder", "MNIST", "CIFAR10")
_PATH = re.compile(r"^(/(?:home|root|data|mnt|datasets?|data\d|work|raid|nfs|share|opt|Users)/|~/|[A-Za-z]:\\\\)")
_URL = re.compile(r"^https?://\S+\.(?:pth|pt|zip|tar|gz|tgz|bin|safetensors|json|txt|npz)")
_GPU_OPTION = re.compile(r"^--(gpu|gpus|gpu[-_]ids?|device[-_]ids?|local[-_]rank|cuda[-_]device|gpu[-_]id)$")
_IP = re.compile(r"^(?:\d{1,3}\.){3}\d{1,3}(:\d+)?$")
_DEEPEST = 400


@dataclass
class Check:
    """What one file holds."""

    file: str
    lines: int = 0
    torch: bool = False
    main: bool = False
    version: str = ""
    findings: list[tuple[str, int, str]] = field(default_factory=list)
    uses: dict[str, list[int]] = field(default_factory=dict)
    frameworks: dict[str, int] = field(default_factory=dict)
    switches: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    """Names of module classes and of models that are asked for."""


def check_file(job: tuple[str, str]) -> Check:
    """Check one file; whatever is wrong with it is said as a finding."""
    path, shown = job
    found = Check(shown)
    try:
        state = Path(path).stat()
        if not stat.S_ISREG(state.st_mode):
            found.findings.append(("MSP609", 1, "no regular file: not read"))
            return found
        if state.st_size > 4_000_000:
            found.findings.append(("MSP609", 1, f"{state.st_size // 1_000_000} MB: not read"))
            return found
        data = Path(path).read_bytes()
    except OSError as error:
        found.findings.append(("MSP609", 1, f"can't be read: {error.strerror or error}"))
        return found
    text = data.decode("utf-8", "replace")
    found.lines = text.count("\n") + 1
    if path.endswith((".cu", ".cuh")):
        found.findings.append(("MSP613", 1, "a CUDA kernel"))
        found.switches.append("extension")
        return found
    if path.endswith(".sh"):
        _shell(found, text)
        return found
    if path.endswith(".txt"):
        _requirements(found, text)
        return found
    if path.endswith(".ipynb"):
        text = _notebook(text)
    _python(found, text)
    return found


def _python(found: Check, text: str) -> None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 1) or 1
        found.findings.append(("MSP609", line, f"no Python 3: {getattr(error, 'msg', error)}"))
        return
    except (RecursionError, MemoryError):
        found.findings.append(("MSP609", 1, "nested too deeply to be read"))
        return
    try:
        Checker(found, tree).run()
    except RecursionError:
        found.findings.append(("MSP609", 1, "nested too deeply to be checked"))


def _notebook(text: str) -> str:
    """The code cells of a notebook, without its magic lines."""
    try:
        cells = json.loads(text).get("cells", [])
        lines = [
            line for cell in cells if cell.get("cell_type") == "code" for line in ["".join(cell.get("source", []))]
        ]
    except (ValueError, AttributeError, TypeError):
        return ""
    return "\n".join(re.sub(r"^\s*[%!].*$", "pass", line, flags=re.M) for line in lines)


def _shell(found: Check, text: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"CUDA_VISIBLE_DEVICES", line):
            found.findings.append(("MSP614", number, line.strip()[:120]))
        if re.search(r"\s--gpus?(?:[-_]ids?)?[ =]", line):
            found.findings.append(("MSP615", number, line.strip()[:120]))
        if re.search(r"torchrun|torch\.distributed\.(?:launch|run)", line):
            found.findings.append(
                ("MSP803", number, f"launched by torchrun: msrun takes its place: {line.strip()[:90]}")
            )
        if re.search(r"\bnccl\b", line, re.I):
            found.findings.append(("MSP802", number, line.strip()[:120]))


def _requirements(found: Check, text: str) -> None:
    for line in text.splitlines():
        match = re.match(r"\s*torch\s*[=~>]=\s*([\d.]+)", line)
        if match:
            found.version = match[1]
        for package in ("deepspeed", "apex", "flash-attn", "xformers", "bitsandbytes", "triton"):
            if re.match(rf"\s*{package}\b", line):
                found.findings.append(("MSP613", 1, f"needs {package}, which is CUDA code"))


class Checker:
    """One pass over a file's tree."""

    def __init__(self, found: Check, tree: ast.Module) -> None:
        self.found, self.tree = found, tree
        self.names: dict[str, str] = {}
        self.uses: dict[str, list[int]] = defaultdict(list)
        self.made_first: int | None = None
        self.optimizer_line: int | None = None
        self.loader = False
        self.trains = 0
        self.inner: set[int] = set()
        """Names and attributes that are parts of a longer dotted name."""

    def add(self, rule: str, node: ast.AST, what: str) -> None:
        self.found.findings.append((rule, getattr(node, "lineno", 1), what[:160]))

    def run(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
                    self._framework(alias.name, node)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    self._framework(f"{node.module}.{alias.name}", node)
        self.found.torch = any(n.split(".")[0] in FOREIGN for n in self.names.values())
        self._walk(self.tree, Place())
        if self.trains and not self.loader and self.found.torch:
            self.found.findings.append(("MSP701", self.trains, "the loop reads no DataLoader of this file"))
        self.found.uses = dict(self.uses)
        for api, version in VERSIONS:
            if any(use == api or use.startswith(api + ".") for use in self.uses):
                self.found.findings.append(
                    (
                        "MSP616",
                        next(lines[0] for use, lines in self.uses.items() if use == api or use.startswith(api + ".")),
                        f"{api} needs torch {version}",
                    )
                )
                break

    def _framework(self, name: str, node: ast.AST) -> None:
        for prefix, framework in FRAMEWORKS.items():
            if name == prefix or name.startswith(prefix + "."):
                self.found.frameworks.setdefault(framework, node.lineno)  # type: ignore[attr-defined]
                self.add("MSP608", node, framework)
        if name.startswith(("amp_C", "apex")):
            self.add("MSP612", node, name)
            self.found.switches.append("apex")
        if "cpp_extension" in name or name.split(".")[0] in (
            "triton",
            "cupy",
            "pycuda",
            "flash_attn",
            "xformers",
            "bitsandbytes",
        ):
            self.add("MSP613", node, name)
            self.found.switches.append("extension")

    # the walk

    def _walk(self, node: ast.AST, place: Place) -> None:
        stack: list[tuple[ast.AST, Place]] = [(node, place)]
        while stack:
            item, here = stack.pop()
            inner = self._visit(item, here)
            stack.extend((child, inner) for child in reversed(list(ast.iter_child_nodes(item))))

    def _visit(self, node: ast.AST, place: Place) -> Place:
        match node:
            case ast.ClassDef():
                bases = [self.full(base) or "" for base in node.bases]
                module = any(base.endswith(("nn.Module", "LightningModule", "nn.Sequential")) for base in bases)
                if module:
                    self.found.models.append(node.name)
                dataset = any(base.endswith(("Dataset", "IterableDataset", "ImageFolder")) for base in bases)
                return place.inside(module=module, dataset=dataset)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return place.inside(function=node.name, arguments=frozenset(a.arg for a in node.args.args))
            case ast.For() | ast.While():
                if place.forward and isinstance(node, ast.While):
                    self._condition(node.test, place)
                return place.inside(loop=True)
            case ast.If():
                self._main(node)
                if place.forward:
                    self._condition(node.test, place)
                text = _short(node.test)
                return place.inside(
                    one_rank=place.one_rank or bool(re.search(r"rank\b.*== *0|is_main|is_master|== *0.*rank", text))
                )
            case ast.Call():
                self._call(node, place)
            case ast.Attribute():
                self._attribute(node, place)
            case ast.Name():
                self._use(node)
            case ast.Constant(value=str() as text):
                self._string(node, text)
            case ast.Compare():
                self._compare(node)
            case ast.Assign():
                self._assign(node, place)
            case ast.AugAssign() if place.forward and isinstance(node.target, ast.Subscript):
                self.add("MSP401", node, "an in-place write in forward")
        return place

    def _main(self, node: ast.If) -> None:
        if "__name__" in _short(node.test):
            self.found.main = True

    def full(self, node: ast.AST) -> str | None:
        """The dotted name with its import resolved."""
        name = dotted(node)
        if name is None:
            return None
        first, dot, rest = name.partition(".")
        return f"{self.names.get(first, first)}{dot}{rest}"

    def _use(self, node: ast.Name) -> None:
        target = self.names.get(node.id)
        if id(node) in self.inner:
            return
        if target and target.count(".") and target.split(".")[0] in FOREIGN and isinstance(node.ctx, ast.Load):
            self.uses[target].append(node.lineno)

    def _attribute(self, node: ast.Attribute, place: Place) -> None:
        name = self.full(node)
        if id(node) in self.inner:
            return
        part: ast.AST = node.value
        while isinstance(part, (ast.Attribute, ast.Name)):
            self.inner.add(id(part))
            if isinstance(part, ast.Name):
                break
            part = part.value
        if name is None or name.split(".")[0] not in FOREIGN or name == name.split(".")[0]:
            if node.attr == "data" and place.forward and isinstance(node.ctx, ast.Store):
                self.add("MSP404", node, "a write into .data")
            return
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self.names:
            self.uses[name].append(node.lineno)
            if name == "torch.channels_last":
                self.add("MSP611", node, name)
                self.found.switches.append("channels_last")
            if name.startswith("torch.cuda.") and name.count(".") == 2 and not name.startswith("torch.cuda.amp"):
                self.add("MSP614", node, name)

    def _call(self, node: ast.Call, place: Place) -> None:
        name = self.full(node.func) or ""
        last = name.rpartition(".")[2] if name else (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        self._switch(node, name)
        self._device(node, name, last)
        self._parallel(node, name, last, place)
        self._data(node, name, last, place)
        if last == "add_argument":
            self._option(node)
        if name.startswith("torchvision.models."):
            self.found.models.append(last)
        if name.endswith(("create_model", "from_pretrained")) and node.args and isinstance(node.args[0], ast.Constant):
            self.found.models.append(str(node.args[0].value))
        if last == "backward":
            self.trains = self.trains or node.lineno
        if place.forward or (place.loop and self.trains == 0):
            self._graph(node, name, last, place)

    def _switch(self, node: ast.Call, name: str) -> None:
        if name in ("torch.jit.script", "torch.jit.trace", "torch.jit.load"):
            self.add("MSP610", node, name)
            self.found.switches.append("jit")
        if name.endswith(("FusedAdam", "FusedLAMB", "FusedSGD", "FusedLayerNorm")) and "apex" in name:
            self.add("MSP612", node, name)
        if "cpp_extension" in name or name in ("torch.ops.load_library", "torch.classes.load_library"):
            self.add("MSP613", node, name)
            self.found.switches.append("extension")
        if name.startswith("torch.optim.") and name.count(".") == 2:
            self.optimizer_line = self.optimizer_line or node.lineno

    def _device(self, node: ast.Call, name: str, last: str) -> None:
        if isinstance(node.func, ast.Attribute) and last == "cuda" and not name.startswith("torch.cuda"):
            self.add("MSP614", node, f"{_short(node.func)}()")
        if (
            last == "requires_grad_"
            and self.optimizer_line
            and node.lineno > self.optimizer_line
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and node.args[0].value is False
        ):
            self.add("MSP617", node, _short(node))

    def _parallel(self, node: ast.Call, name: str, last: str, place: Place) -> None:
        if last in GROUP_CALLS:
            if any(
                isinstance(a, ast.Constant) and a.value == "nccl"
                for a in [*node.args, *(k.value for k in node.keywords)]
            ):
                self.add("MSP801", node, _short(node))
            if self.made_first is not None:
                self.add("MSP804", node, f"line {self.made_first} makes the model or the data before")
            for keyword in node.keywords:
                if keyword.arg in ("rank", "world_size") and isinstance(keyword.value, ast.Constant):
                    self.add("MSP803", node, f"{keyword.arg}={keyword.value.value!r}")
        if last in COLLECTIVES and ("dist" in name or "distributed" in name) and place.one_rank:
            self.add("MSP805", node, _short(node))
        if (
            name == "torch.tensor"
            and node.args
            and isinstance(node.args[0], ast.IfExp)
            and "rank" in _short(node.args[0].test)
        ):
            kinds = {type(getattr(part, "value", None)) for part in (node.args[0].body, node.args[0].orelse)}
            if len(kinds) > 1 and not any(k.arg == "dtype" for k in node.keywords):
                self.add("MSP806", node, _short(node))
        if name == "torch.cuda.set_device" and node.args and isinstance(node.args[0], ast.Constant):
            self.add("MSP803", node, _short(node))

    def _data(self, node: ast.Call, name: str, last: str, place: Place) -> None:
        if last == "DataLoader" and name.startswith("torch"):
            self.loader = True
            workers = next((k.value for k in node.keywords if k.arg == "num_workers"), None)
            none = workers is None or (isinstance(workers, ast.Constant) and not workers.value)
            if none and not any(k.arg is None for k in node.keywords):
                self.add("MSP702", node, "num_workers is 0")
            if not any(k.arg == "drop_last" for k in node.keywords) and any(
                k.arg == "shuffle" and getattr(k.value, "value", None) is True for k in node.keywords
            ):
                self.add("MSP705", node, "the last batch is smaller (no drop_last)")
        if last in DATA_CLASSES and place.top:
            self.made_first = self.made_first or node.lineno
        if last == "pad_sequence":
            self.add("MSP705", node, "padding to the longest of a batch")
        if (
            place.dataset
            and place.function == "__getitem__"
            and (
                last in ("imread", "open", "load")
                and ("Image" in name or "cv2" in name or name in ("open", "numpy.load"))
            )
        ):
            self.add("MSP703", node, f"{name} for each sample")
        if name in ("torch.hub.load", "torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url") or any(
            k.arg == "download" and getattr(k.value, "value", None) is True for k in node.keywords
        ):
            self.add("MSP704", node, f"downloads: {_short(node)}")

    def _option(self, node: ast.Call) -> None:
        for argument in node.args:
            if (
                isinstance(argument, ast.Constant)
                and isinstance(argument.value, str)
                and _GPU_OPTION.match(argument.value)
            ):
                self.add("MSP615", node, argument.value)

    def _graph(self, node: ast.Call, name: str, last: str, place: Place) -> None:
        """What a graph can't hold, in ``forward`` and in the step."""
        if place.forward and last in ("item", "tolist", "numpy") and isinstance(node.func, ast.Attribute):
            self.add("MSP301", node, _short(node))
        if place.forward and name.startswith("numpy."):
            self.add("MSP301", node, f"{name} in forward: no gradient flows through it")
        if (
            place.forward
            and last in ("nonzero", "masked_select", "unique")
            and (name.startswith("torch") or isinstance(node.func, ast.Attribute))
        ):
            self.add("MSP201", node, _short(node))
        if last in ("register_forward_hook", "register_backward_hook", "register_full_backward_hook", "register_hook"):
            self.add("MSP303", node, _short(node))
        if (
            place.forward
            and last.endswith("_")
            and not last.startswith("_")
            and isinstance(node.func, ast.Attribute)
            and not name.startswith("torch.")
        ):
            self.add("MSP607", node, _short(node))

    def _condition(self, test: ast.expr, place: Place) -> None:
        """An ``if`` in forward that asks a tensor: a comparison with a reduction, or with an argument of forward itself."""
        for node in ast.walk(test):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("any", "all", "sum", "max", "min", "mean", "item", "isnan")
            ):
                self.add("MSP302", test, _short(test))
                return
            if (
                isinstance(node, ast.Compare)
                and isinstance(node.left, ast.Name)
                and node.left.id == "x"
                and "x" in place.arguments
                and not any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
            ):
                self.add("MSP302", test, _short(test))
                return

    def _string(self, node: ast.Constant, text: str) -> None:
        if len(text) > 300:
            return
        if re.fullmatch(r"cuda(:\d+)?", text):
            self.add("MSP803" if ":" in text else "MSP614", node, repr(text))
        elif text == "nccl":
            self.add("MSP802", node, repr(text))
        elif _IP.match(text) and text.split(".")[0] not in ("0", "1", "2"):
            self.add("MSP803", node, repr(text))
        elif _PATH.match(text) or _URL.match(text):
            self.add("MSP704", node, repr(text)[:120])

    def _compare(self, node: ast.Compare) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and part.value == "nccl":
                self.add("MSP802", node, _short(node))

    def _assign(self, node: ast.Assign, place: Place) -> None:
        target = node.targets[0]
        if (
            isinstance(target, ast.Subscript)
            and isinstance(target.slice, ast.Constant)
            and target.slice.value in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
            and isinstance(node.value, ast.Constant)
        ):
            self.add("MSP803", node, _short(node))
        if isinstance(target, ast.Subscript) and place.forward:
            self.add("MSP401", node, f"an in-place write in forward: {_short(target)}")
        if (
            isinstance(target, ast.Attribute)
            and target.attr == "requires_grad"
            and isinstance(node.value, ast.Constant)
            and node.value.value is False
            and self.optimizer_line
            and node.lineno > self.optimizer_line
        ):
            self.add("MSP617", node, _short(node))
        if (
            isinstance(node.value, ast.Call)
            and isinstance(target, ast.Name)
            and target.id in ("model", "net")
            and place.function
        ):
            self.made_first = self.made_first or node.lineno
        if (
            isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr == "parse_args"
        ):
            self.made_first = None


@dataclass(frozen=True)
class Place:
    """Where a node stands."""

    module: bool = False
    dataset: bool = False
    function: str = ""
    arguments: frozenset[str] = frozenset()
    loop: bool = False
    one_rank: bool = False
    depth: int = 0

    @property
    def forward(self) -> bool:
        return self.module and self.function == "forward"

    @property
    def top(self) -> bool:
        return not self.function or self.function.startswith("main")

    def inside(self, **changes: object) -> Place:
        return Place(**{**self.__dict__, "depth": self.depth + 1, **changes})


def _short(node: ast.AST) -> str:
    """A node's text, for people; what is nested too deeply has none."""
    try:
        return " ".join(ast.unparse(node).split())[:160]
    except RecursionError:
        return "..."
