"""``ms-port npu``: the transplant to torch_npu, the first-check route. torch stays; what names CUDA or NCCL is changed."""

from __future__ import annotations

import ast
import csv
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ms_port.errors import BadInput
from ms_port.script.project import SKIPPED, python_files, read
from ms_port.script.source import Source, dotted

VERSIONS = ("2.1.0", "2.6.0", "2.7.1", "2.8.0")
PLACEHOLDER = "please input your shell script here"
UNSUPPORTED = {
    "amp_C": "amp_C is CUDA code: delete the import and what uses it by hand",
    "apex.optimizers.FusedAdam": "FusedAdam is moved by neither route: use torch.optim.Adam or torch_npu.optim.NpuFusedAdam",
    "apex.optimizers.FusedLAMB": "use torch_npu.optim.NpuFusedLamb",
    "apex.optimizers.FusedSGD": "use torch_npu.optim.NpuFusedSGD",
    "torch.jit.script": "transfer_to_npu masks torch.jit.script, hence this route; transfer_to_npu is not imported",
    "torch.utils.cpp_extension": "CUDA extensions are not built on Ascend",
    "triton": "triton kernels are not moved",
    "flash_attn": "use torch_npu.npu_fusion_attention or torch's scaled_dot_product_attention",
    "torch.cuda.nvtx": "NVTX has no counterpart: delete it",
    "torch.backends.cuda": "these switches have no counterpart",
}
LAUNCH = """#!/bin/bash
# Written by ms-port npu: starts one process for each NPU.
export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
export MASTER_PORT=${MASTER_PORT:-29688}
export HCCL_WHITELIST_DISABLE=1
NPUS=(${NPUS:-0 1 2 3 4 5 6 7})
export RANK_SIZE=${#NPUS[@]}

# Your own command, as it starts one card today (without options such as --gpu that choose one):
COMMAND="please input your shell script here"

if [[ "$COMMAND" == "please input your shell script"* ]]; then
    echo "run_distributed_npu.sh: COMMAND still holds its placeholder: nothing was started" >&2
    exit 1
fi
rank=0
for i in "${NPUS[@]}"; do
    export DEVICE_ID=$i
    export RANK_ID=$rank
    echo "run process $rank on NPU $i"
    $COMMAND > output_npu_$i.log 2>&1 &
    rank=$((rank + 1))
done
wait
"""


@dataclass(frozen=True)
class Edit:
    """A byte range and what it becomes."""

    start: int
    end: int
    text: str


@dataclass
class Transplant:
    """What was changed and what could not be."""

    folder: Path
    changes: list[tuple[str, int, str, str]] = field(default_factory=list)
    """(file, line, before, after)"""
    unsupported: list[tuple[str, int, str, str]] = field(default_factory=list)
    """(file, line, API, advice)"""
    unknown: list[tuple[str, int, str, str]] = field(default_factory=list)
    cuda: list[tuple[str, int, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    lines: int = 0


def transplant(
    source: Path, out: Path, version: str, *, main: str | None = None, model: str = "model", device: bool = False
) -> Transplant:
    """Write OUT/NAME_msft (NAME_msft_multi with ``main``). Raises BadInput."""
    _check(source, out, version, main)
    base = source if source.is_dir() else source.parent
    name = (source.resolve() if source.is_dir() else source.resolve().with_suffix("")).name
    folder = out / f"{name}_msft{'_multi' if main else ''}"
    if folder.exists():
        shutil.rmtree(folder)
    if source.is_dir():
        shutil.copytree(source, folder, symlinks=True, ignore=shutil.ignore_patterns(*SKIPPED))
    else:
        folder.mkdir()
        shutil.copy2(source, folder / source.name)
    found = Transplant(folder)
    sources: dict[str, Source] = {}
    for path in python_files(source):
        relative = path.relative_to(base).as_posix()
        try:
            sources[relative] = read(path)
        except ValueError as error:
            found.notes.append(f"{relative}: copied as it is: {error}")
    jit = any("torch.jit.script" in s.text for s in sources.values())
    if main and not any("DataLoader" in s.text for s in sources.values()):
        raise BadInput(
            "no torch.utils.data.DataLoader in the project",
            where="distributed",
            advice="the single- to multi-card step shards a DataLoader's data; move the data there first, or leave distributed out",
        )
    for relative, text in sources.items():
        _file(found, relative, text, version, main == relative, model, device, jit, bool(main))
    if main:
        (folder / "run_distributed_npu.sh").write_text(LAUNCH, encoding="utf-8")
        (folder / "run_distributed_npu.sh").chmod(0o755)
        found.notes.append(
            f'run_distributed_npu.sh: put your own command in the place of "{PLACEHOLDER}" before you start it'
        )
    _reports(found)
    return found


def _check(source: Path, out: Path, version: str, main: str | None) -> None:
    if not source.exists():
        raise BadInput(f"there is no {source}", where="IN", advice="name the folder of the scripts")
    if version not in VERSIONS:
        raise BadInput(
            f"torch {version} is not one that torch_npu's migration supports",
            where="-v",
            advice=f"one of {', '.join(VERSIONS)}",
        )
    if not out.is_dir():
        raise BadInput(f"the output folder {out} does not exist", where="-o", advice=f"make it first: mkdir -p {out}")
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise BadInput("OUT lies inside IN", where="-o", advice="name a folder outside of it")
    if main is not None and not (source / main).is_file():
        raise BadInput(f"{main} is no file of {source}", where="-m", advice="give the entry's path relative to IN")


def _file(
    found: Transplant,
    relative: str,
    source: Source,
    version: str,
    entry: bool,
    model: str,
    device: bool,
    jit: bool,
    multi: bool,
) -> None:
    found.files += 1
    found.lines += source.text.count("\n") + 1
    edits = list(_edits(found, relative, source, multi))
    if entry:
        edits += _distributed(found, relative, source, model)
    edits += _imports(source, version, jit, entry, device)
    data = source.data
    for edit in sorted(set(edits), key=lambda e: (e.start, e.end), reverse=True):
        if edit.start != edit.end:
            line = data.count(b"\n", 0, edit.start) + 1
            found.changes.append((relative, line, source.between(edit.start, edit.end), edit.text))
        else:
            found.changes.append((relative, source.data.count(b"\n", 0, edit.start) + 1, "", edit.text.strip()))
        data = data[: edit.start] + edit.text.encode("utf-8") + data[edit.end :]
    if edits:
        ast.parse(data)
        (found.folder / relative).write_bytes(data)


def _edits(found: Transplant, relative: str, source: Source, multi: bool) -> Iterator[Edit]:
    names = _names(source.tree)
    inside: set[ast.AST] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(ast.walk(node))
            yield from _formatted(source, node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield from _string(source, node)
        elif isinstance(node, ast.Attribute) and node not in inside:
            yield from _attribute(found, relative, source, node, names)
        elif isinstance(node, ast.Name):
            _flag(found, relative, names.get(node.id, ""), node.lineno)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _import(found, relative, source, node)
        elif isinstance(node, ast.Call) and multi:
            _option(found, relative, node)


def _names(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def _string(source: Source, node: ast.Constant) -> Iterator[Edit]:
    text = str(node.value)
    if not re.fullmatch(r"cuda(:[\w{}%]*)?|nccl|CUDA_VISIBLE_DEVICES", text) or source.parents.get(node) is None:
        return
    start, end = source.span(node)
    old = source.between(start, end)
    new = _renamed(old)
    if new != old:
        yield Edit(start, end, new)


def _renamed(text: str) -> str:
    text = text.replace("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
    return re.sub(r"\bnccl\b", "hccl", re.sub(r"\bcuda\b", "npu", text))


def _formatted(source: Source, node: ast.JoinedStr) -> Iterator[Edit]:
    """``f"cuda:{rank}"``: by its text, since positions inside f-strings are not exact."""
    first = node.values[0] if node.values else None
    if isinstance(first, ast.Constant) and re.match(r"cuda:", str(first.value)):
        start, end = source.span(node)
        old = source.between(start, end)
        yield Edit(start, end, re.sub(r"(['\"])cuda:", r"\1npu:", old, count=1))


def _attribute(
    found: Transplant, relative: str, source: Source, node: ast.Attribute, names: dict[str, str]
) -> Iterator[Edit]:
    text = dotted(node)
    full = None
    if text is not None:
        head, _, rest = text.partition(".")
        full = f"{names.get(head, head)}.{rest}"
        if not isinstance(source.parents.get(node), ast.Attribute):
            _flag(found, relative, full, node.lineno)
    end = source.span(node)[1]
    name = len(node.attr.encode())
    if node.attr == "cuda" and full == "torch.cuda":
        yield Edit(end - name, end, "npu")
    elif node.attr == "cuda" and full is not None and full.endswith("version.cuda"):
        return
    elif node.attr == "cuda" and not (full or "").startswith("torch."):
        if isinstance(source.parents.get(node), ast.Call):
            yield Edit(end - name, end, "npu")
    elif node.attr == "is_cuda":
        yield Edit(end - name, end, "is_npu")
    elif full == "torch.channels_last" or full == "torch.channels_last_3d":
        yield Edit(end - name, end, "contiguous_format")
    if full is not None and full.startswith("torch.cuda."):
        found.cuda.append((relative, node.lineno, full, full.replace("cuda", "npu", 1)))


def _flag(found: Transplant, relative: str, full: str, line: int) -> None:
    for prefix, advice in UNSUPPORTED.items():
        if full == prefix or full.startswith(prefix + "."):
            entry = (relative, line, full, advice)
            if entry not in found.unsupported:
                found.unsupported.append(entry)
    if full.startswith("apex.") and not any(full.startswith(p) for p in UNSUPPORTED):
        found.unknown.append((relative, line, full, "apex: use the Ascend build of apex, or torch.amp"))


def _import(found: Transplant, relative: str, source: Source, node: ast.Import | ast.ImportFrom) -> Iterator[Edit]:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
    for name in names:
        _flag(found, relative, name, node.lineno)
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            _flag(found, relative, f"{node.module}.{alias.name}", node.lineno)
    if any(name == "torch.cuda" or name.startswith("torch.cuda.") for name in names):
        start, end = source.span(node)
        yield Edit(start, end, source.between(start, end).replace("torch.cuda", "torch.npu"))


def _option(found: Transplant, relative: str, node: ast.Call) -> None:
    """``--gpu`` chooses one card in every process."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        for argument in node.args:
            if isinstance(argument, ast.Constant) and re.fullmatch(
                r"--(gpu|gpus|gpu[-_]ids?|device[-_]ids?|npu)", str(argument.value)
            ):
                found.notes.append(
                    f"{relative}:{node.lineno}: remove {argument.value!s} from the command in run_distributed_npu.sh: it chooses one card"
                )


def _imports(source: Source, version: str, jit: bool, entry: bool, device: bool) -> list[Edit]:
    """``transfer_to_npu`` behind the first ``import torch`` of a file (with ``import torch_npu`` before it until torch 2.4)."""
    place = next((n for n in source.tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) and _is_torch(n)), None)
    if place is None or "transfer_to_npu" in source.text:
        return []
    lines = []
    if version == "2.1.0" and "import torch_npu" not in source.text:
        lines.append("import torch_npu")
    if not jit:
        lines.append("from torch_npu.contrib import transfer_to_npu")
    elif not lines and "import torch_npu" not in source.text:
        lines.append("import torch_npu")
    if (entry or device) and not re.search(r"^import os\b", source.text, re.M):
        lines.append("import os")
    if not _plain_torch(source) and (entry or device):
        lines.append("import torch")
    end = source.span(place)[1]
    if device and not entry and "__main__" in source.text:
        lines.append('torch.npu.set_device(int(os.environ.get("DEVICE_ID", 0)))')
    line_end = source.data.find(b"\n", end)
    line_end = len(source.data) if line_end < 0 else line_end
    return [Edit(line_end, line_end, "".join(f"\n{line}" for line in lines))] if lines else []


def _is_torch(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return any(a.name.split(".")[0] == "torch" for a in node.names)
    return node.level == 0 and (node.module or "").split(".")[0] == "torch"


def _plain_torch(source: Source) -> bool:
    return any(
        isinstance(n, ast.Import) and any(a.name.split(".")[0] == "torch" and not a.asname for a in n.names)
        for n in source.tree.body
    )


def _distributed(found: Transplant, relative: str, source: Source, model: str) -> list[Edit]:
    """Process group, DistributedDataParallel and DistributedSampler in the entry."""
    edits: list[Edit] = []
    last = max(
        (n for n in source.tree.body if isinstance(n, (ast.Import, ast.ImportFrom))),
        key=lambda n: n.lineno,
        default=None,
    )
    if last is None:
        raise BadInput(f"{relative} imports nothing", where="-m", advice="name the training entry")
    end = source.span(last)[1]
    line_end = source.data.find(b"\n", end)
    line_end = len(source.data) if line_end < 0 else line_end
    setup = '\n\ntorch.npu.set_device(int(os.environ["DEVICE_ID"]))\ntorch.distributed.init_process_group(backend="hccl", rank=int(os.environ["RANK_ID"]), world_size=int(os.environ["RANK_SIZE"]))'
    edits.append(Edit(line_end, line_end, setup))
    made = [
        n
        for n in ast.walk(source.tree)
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and any(dotted(t) == model for t in n.targets)
    ]
    if not made:
        raise BadInput(
            f"{relative} assigns no variable {model!r}",
            where="-t",
            advice="give the name of the variable that holds the model: -t net",
        )
    optimizer = min(
        (
            n.lineno
            for n in ast.walk(source.tree)
            if isinstance(n, ast.Call) and "optim" in ast.unparse(n.func) and n.lineno > made[0].lineno
        ),
        default=10**9,
    )
    before = [n for n in made if n.lineno < optimizer]
    node = max(before or made, key=lambda n: n.lineno)
    indent = source.indent(node)
    _, end = source.span(node)
    wrap = f'\n{indent}{model} = {model}.npu()\n{indent}{model} = torch.nn.parallel.DistributedDataParallel({model}, device_ids=[int(os.environ["DEVICE_ID"])], broadcast_buffers=False)'
    edits.append(Edit(end, end, wrap))
    for call in ast.walk(source.tree):
        if isinstance(call, ast.Call) and (dotted(call.func) or "").rpartition(".")[2] == "DataLoader":
            edits += _sampled(found, relative, source, call)
    return edits


def _sampled(found: Transplant, relative: str, source: Source, call: ast.Call) -> list[Edit]:
    keywords = {k.arg: k for k in call.keywords}
    if not call.args or keywords.keys() & {"sampler", "batch_sampler", None} or len(call.args) > 2:
        found.notes.append(f"{relative}:{call.lineno}: this DataLoader keeps its own sampler: shard it by hand")
        return []
    data = source.segment(call.args[0])
    shuffle = keywords.get("shuffle")
    wanted = source.segment(shuffle.value) if shuffle is not None else "False"
    sampler = f"sampler=torch.utils.data.distributed.DistributedSampler({data}, shuffle=bool({wanted}))"
    if shuffle is not None:
        start, end = source.span(shuffle.value)
        start = source.data.rindex(b"shuffle", 0, start)
        return [Edit(start, end, sampler)]
    end = source.span(call)[1] - 1
    head = source.between(source.span(call)[0], end).rstrip()
    return [Edit(end, end, f"{'' if head.endswith(',') else ','} {sampler}")]


def _reports(found: Transplant) -> None:
    api = ("File", "Start Line", "End Line", "OP", "Tips")
    for name, rows in (
        ("unsupported_api.csv", found.unsupported),
        ("unknown_api.csv", found.unknown),
        ("cuda_op_list.csv", found.cuda),
    ):
        _csv(found.folder / name, api, [(f, line, line, what, tip) for f, line, what, tip in rows])
    changed = [
        (f, line, line, "insert" if not old else "modify", f"{old!r} -> {new!r}" if old else new)
        for f, line, old, new in sorted(found.changes)
    ]
    _csv(found.folder / "change_list.csv", ("File", "Start Line", "End Line", "Operation Type", "Message"), changed)
    lines = [f"{found.files} files, {len(found.changes)} changes"]
    lines += [f"not supported: {f}:{line}: {what}: {tip}" for f, line, what, tip in found.unsupported]
    lines += found.notes
    (found.folder / "msFmkTranspltlog.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _csv(file: Path, columns: tuple[str, ...], rows: Sequence[Sequence[object]]) -> None:
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)
