"""``ms-port script IN -o OUT``: a person's PyTorch project as a MindSpore project, file by file."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ms_port.errors import BadInput
from ms_port.opmap import OpMap, op_map_directory
from ms_port.script.expressions import Expressions
from ms_port.script.inference import Inference
from ms_port.script.inlining import inlined
from ms_port.script.kinds import is_optimizer
from ms_port.script.needs import AT_IMPORT, Needs, Note
from ms_port.script.project import Class, Function, Module, Project, load
from ms_port.script.source import dotted
from ms_port.script.sources import Sources
from ms_port.script.statements import IMPORTS_HERE, Statements

PARTS = "ms_parts"
HEADER = '''"""Parts of the training that MindSpore has in another form or not at all; written once for this project by ms-port script."""

'''
SETTINGS = '''os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # else oneDNN takes slow kernels on AVX-512 processors


def _format(tensor, form):
    """A tensor of one element formats as its number (``f"{loss:.4f}"``), as torch's does."""
    return format(tensor.item(), form) if form and tensor.size == 1 else format(str(tensor), form)


Tensor.__format__ = _format


'''


@dataclass
class Migration:
    """What became of a project: new texts by relative path, and what was done at which line."""

    root: Path
    files: dict[str, str] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    parts: dict[str, set[str]] = field(default_factory=dict)
    """Names of parts by the folder whose ms_parts.py holds them."""
    library: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """(folder, model of torchvision, arguments) -> its package, or why there is none."""

    @property
    def open(self) -> list[Note]:
        return [note for note in self.notes if note.severity != "info"]


def script_op_map(directories: Sequence[Path] = ()) -> OpMap:
    """The op map with the forms for scripts before the others. Raises OpMapError."""
    return OpMap.load((*directories, op_map_directory() / "script"))


Porter = Callable[[str, Mapping[str, Any], str], dict[str, str] | str]
"""Ports a model of torchvision: (name, keywords, package) -> files, or why there are none."""


def migrate(path: Path, directories: Sequence[Path] = (), porter: Porter | None = None) -> Migration:
    """Rewrite a file or folder in memory. ``porter`` ports models of torchvision. Raises BadInput."""
    if not path.exists():
        raise BadInput(f"there is no {path}", where=str(path), advice="name a Python file or a folder")
    project = load(path)
    op_map = script_op_map(directories)
    found = Migration(project.root, broken=dict(project.broken))
    found.originals = {module.relative: module.source.text for module in project.modules.values()}
    inference = Inference(project)
    sources = Sources(project, inference)
    if inlined(project, sources):
        inference = Inference(project)
        sources = Sources(project, inference)
    _owners(project, inference)
    functions, classes = _definitions(project)
    parallel = any("DistributedDataParallel" in module.source.text for module in project.modules.values())
    for module in project.modules.values():
        if not module.uses_torch:
            continue
        text, notes = rewrite(module, project, inference, op_map, classes, functions, parallel, sources, found, porter)
        found.files[module.relative] = text
        found.notes += notes
    for file, reason in project.broken.items():
        found.notes.append(Note("MSP609", file, 1, 1, reason, "copied as it is", "", "warning"))
    for folder, names in found.parts.items():
        found.files[(Path(folder) / f"{PARTS}.py").as_posix()] = parts_text(op_map, names)
    return found


def parts_text(op_map: OpMap, names: set[str]) -> str:
    """The text of ms_parts.py."""
    text = op_map.function_sources(names)
    future = "from __future__ import annotations\n"
    lead = future + "\n" if text.startswith(future) else ""
    text = text.removeprefix(future).lstrip("\n")
    if "from mindspore import" not in text or "Tensor" not in text.split("\n\n\n")[0]:
        text = "from mindspore import Tensor\n" + text
    if "import os\n" not in text:
        text = "import os\n" + text
    head, _, rest = text.partition("\n\n\n")
    tail = "".join(f"\n\n{name}()\n" for name in sorted(AT_IMPORT & names))
    return HEADER + lead + head + "\n\n" + SETTINGS + rest.rstrip("\n") + "\n" + tail


def rewrite(
    module: Module,
    project: Project,
    inference: Inference,
    op_map: OpMap,
    classes: dict[ast.ClassDef, Class],
    functions: dict[ast.AST, Function],
    parallel: bool,
    sources: Sources,
    found: Migration,
    porter: Porter | None = None,
) -> tuple[str, list[Note]]:
    """One file. Where the rewritten text is no Python, the file raises at its start and says so."""
    notes: list[Note] = []
    needs = Needs(module, op_map.function_names)
    expressions = Expressions(module, inference, op_map, needs, notes)
    if porter is not None:
        expressions.library = _library(module, found, porter)
    try:
        text = Statements(expressions, classes, functions, parallel, sources).file()
        text = _with_imports(text, module, needs, found)
        ast.parse(text)
    except (SyntaxError, RecursionError) as error:
        line = f" (line {error.lineno}: {error.msg})" if isinstance(error, SyntaxError) else ""
        reason = f"the rewritten text is no Python{line}" if line else "nested too deeply"
        notes.append(Note("MSP609", module.relative, 1, 1, "", reason, "", "error"))
        text = f'raise NotImplementedError("MSP609: {module.relative}: this file could not be rewritten")\n'
        text += "".join(f"# {line}\n" if line else "#\n" for line in module.source.text.splitlines())
    return text, notes


def _library(module: Module, found: Migration, porter: Porter) -> Callable[[str, dict[str, Any]], str]:
    """Ports each model with its arguments once for each place from which it is imported."""
    place, _ = _parts_place(module)

    def port(name: str, keywords: dict[str, Any]) -> str:
        known = (place, name, repr(sorted(keywords.items())))
        if known not in found.library:
            base = name.rpartition(".")[2].lower()
            taken = set(found.library.values())
            package = next(n for n in [base, *(f"{base}_{i}" for i in range(2, 99))] if n not in taken)
            made = porter(name, keywords, package)
            if isinstance(made, dict):
                found.files |= {(Path(place) / file).as_posix(): text for file, text in made.items()}
            found.library[known] = package if isinstance(made, dict) else made
        return found.library[known]

    return port


def _with_imports(text: str, module: Module, needs: Needs, found: Migration) -> str:
    used = {name for name in needs.used if name in needs.parts}
    place, source = _parts_place(module)
    lines = needs.lines(source)
    if used:
        found.parts.setdefault(place, set()).update(used)
    block = "\n".join(lines)
    if IMPORTS_HERE in text:
        if not block:
            return text.replace(f"{IMPORTS_HERE}\n", "").replace(IMPORTS_HERE, "")
        return text.replace(IMPORTS_HERE, block)
    if not block:
        return text
    tree = ast.parse(text)
    after = 0
    for node in tree.body:
        docstring = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            after = node.end_lineno or after
        else:
            break
    all_lines = text.split("\n")
    head = all_lines[:after]
    if not after:
        while len(head) < len(all_lines) and all_lines[len(head)].startswith("#"):
            head.append(all_lines[len(head)])
    return "\n".join([*head, *([""] if head else []), block, *all_lines[len(head) :]])


def _parts_place(module: Module) -> tuple[str, str]:
    """The folder whose ms_parts.py a file uses, and how it is imported there: a package's top folder, else the file's own."""
    folder = module.path.parent
    up = 0
    if (folder / "__init__.py").exists() and "__main__" not in module.source.text:
        while (folder.parent / "__init__.py").exists():
            folder, up = folder.parent, up + 1
        relative = Path(module.relative).parent
        for _ in range(up):
            relative = relative.parent
        return relative.as_posix(), "." * (up + 1) + PARTS
    return Path(module.relative).parent.as_posix(), PARTS


def _definitions(project: Project) -> tuple[dict[ast.AST, Function], dict[ast.ClassDef, Class]]:
    functions: dict[ast.AST, Function] = {}
    classes: dict[ast.ClassDef, Class] = {}
    for module in project.modules.values():
        for function in module.functions.values():
            functions[function.node] = function
        for found in module.classes.values():
            classes[found.node] = found
            functions |= {method.node: method for method in found.methods.values()}
    return functions, classes


def _owners(project: Project, inference: Inference) -> None:
    """Which model an optimizer was made for: ``optimizer = Adam(net.parameters())``."""
    for module in project.modules.values():
        for node in ast.walk(module.source.tree):
            if not (
                isinstance(node, ast.Assign)
                and is_optimizer(inference.of(node.value))
                and isinstance(node.value, ast.Call)
            ):
                continue
            for call in ast.walk(node.value):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr == "parameters"
                ):
                    target, owner = dotted(node.targets[0]), dotted(call.func.value)
                    if target and owner:
                        inference.owners[target] = owner


def write(found: Migration, source: Path, out: Path) -> None:
    """The project in OUT: rewritten files, everything else copied byte by byte."""
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise BadInput("OUT lies inside IN", where=str(out), advice="name a folder outside of it")
    out.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(
            source, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".git"), symlinks=True
        )
    else:
        shutil.copy2(source, out / source.name)
    for name, text in found.files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(text.encode("utf-8"))
