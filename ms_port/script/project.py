"""The files of a person's project: their imports, classes and functions, and what a name in one of them means."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ms_port.script.apis import OWN_ROWS, TORCH, apis
from ms_port.script.source import Source, dotted

FOREIGN = (*TORCH, *OWN_ROWS, *apis().routes)
"""Packages whose names the rewrite looks at."""
SKIPPED = frozenset(
    {".git", "__pycache__", ".venv", "venv", "node_modules", ".hg", ".svn", ".tox", ".mypy_cache", ".eggs"}
)
Kind = object
"""What is known of a value; see kinds.py."""


@dataclass(eq=False)
class Function:
    """A function or method; ``owner`` is its class."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: Module
    owner: Class | None = None
    parameters: dict[str, Kind] = field(default_factory=dict)
    returns: Kind = None
    closure: dict[str, Kind] = field(default_factory=dict)


@dataclass(eq=False)
class Class:
    """A class with what its attributes hold."""

    name: str
    node: ast.ClassDef
    module: Module
    bases: tuple[str, ...] = ()
    methods: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, Kind] = field(default_factory=dict)
    family: str | None = None
    """``module``, ``sequential``, ``list``, ``dataset``, ``function``, ``lightning`` or None."""


@dataclass(eq=False)
class Module:
    """One file. ``names`` maps what it imports to dotted names."""

    path: Path
    relative: str
    source: Source
    dotted: str
    names: dict[str, str] = field(default_factory=dict)
    stars: tuple[str, ...] = ()
    classes: dict[str, Class] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Kind] = field(default_factory=dict)
    bound: frozenset[str] = frozenset()
    """Names that the file binds otherwise than by importing torch."""
    top: frozenset[str] = frozenset()
    """Names that it imports outside of functions and branches."""

    @property
    def uses_torch(self) -> bool:
        return any(name.split(".")[0] in FOREIGN for name in [*self.names.values(), *self.stars])


@dataclass(eq=False)
class Project:
    """All files by dotted name."""

    root: Path
    modules: dict[str, Module]
    broken: dict[str, str] = field(default_factory=dict)
    """Files that can't be read as Python, with the reason."""
    settings: list[str] = field(default_factory=list)
    """Texts of its configuration files."""

    def resolve(self, name: str) -> Class | Function | Module | None:
        """What a dotted name of this project is; follows re-exports."""
        for _ in range(8):
            if name in self.modules:
                return self.modules[name]
            head, _, last = name.rpartition(".")
            module = self.modules.get(head)
            if module is None:
                holder = self.resolve(head) if head else None
                return holder.methods.get(last) if isinstance(holder, Class) else None
            found = module.classes.get(last) or module.functions.get(last)
            if found is not None:
                return found
            for star in module.stars:
                other = self.modules.get(star)
                if other is not None and (last in other.classes or last in other.functions):
                    return other.classes.get(last) or other.functions[last]
            if last not in module.names or module.names[last] == name:
                return None
            name = module.names[last]
        return None

    def base(self, cls: Class, name: str) -> Class | None:
        """The class of this project that another has as the base ``name``; None where it is none, or the class itself."""
        found = cls.module.classes.get(name) or self.resolve(canonical(cls.module, name))
        return found if isinstance(found, Class) and found is not cls else None


SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")
"""Files in which projects name their layers, optimizers and losses."""


def python_files(root: Path, endings: Sequence[str] = (".py",)) -> Iterator[Path]:
    """Python files below a folder (or the file itself), without virtual environments and caches; links are not followed."""
    if root.is_file():
        yield root
        return
    for path in sorted(root.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            if path.name not in SKIPPED:
                yield from python_files(path, endings)
        elif path.suffix in endings:
            yield path


def read(path: Path) -> Source:
    """Raises ValueError with the reason."""
    try:
        with path.open("rb") as stream:
            data = stream.read()
        if len(data) > 4_000_000:
            raise ValueError("larger than 4 MB: not read")
        return Source.parse(data.decode("utf-8"))
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except (RecursionError, MemoryError):
        raise ValueError("nested too deeply to parse") from None
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None


def load(root: Path) -> Project:
    """Read all Python files below ``root``."""
    base = root.parent if root.is_file() else root
    project = Project(base, {})
    for path in python_files(root):
        relative = path.relative_to(base)
        try:
            source = read(path)
        except ValueError as error:
            project.broken[relative.as_posix()] = str(error)
            continue
        parts = relative.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        project.modules[name] = _module(path, relative.as_posix(), source, name)
    if root.is_dir():
        small = (path for path in python_files(root, SETTINGS) if path.stat().st_size < 100_000)
        project.settings = [path.read_text(encoding="utf-8", errors="replace") for path in islice(small, 200)]
    _localize(project)
    _starred(project)
    for module in project.modules.values():
        for found in module.classes.values():
            found.family = family(project, found)
    return project


def reread(project: Project, module: Module, text: str) -> None:
    """Give a file another text; all that was known of it is found anew."""
    project.modules[module.dotted] = _module(module.path, module.relative, Source.parse(text), module.dotted)
    _localize(project)
    _starred(project)
    for found in project.modules[module.dotted].classes.values():
        found.family = family(project, found)


def _module(path: Path, relative: str, source: Source, name: str) -> Module:
    module = Module(path, relative, source, name)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    stars: list[str] = []
    bound: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _imported(module, node, package, stars, bound)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            bound.add(node.name)
    module.stars, module.bound = tuple(stars), frozenset(bound)
    imports = [node for node in source.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    module.top = frozenset(a.asname or a.name.split(".")[0] for node in imports for a in node.names)
    for node in source.tree.body:
        for item in _flat(node):
            if isinstance(item, ast.ClassDef):
                module.classes[item.name] = _class(item, module)
            elif isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                module.functions[item.name] = Function(item.name, item, module)
    return module


def _flat(node: ast.stmt) -> Iterator[ast.stmt]:
    """A statement, and those inside top-level ``if`` and ``try``."""
    yield node
    if isinstance(node, (ast.If, ast.Try)):
        for name in ("body", "orelse", "finalbody"):
            for inner in getattr(node, name, ()):
                yield from _flat(inner)
        for handler in getattr(node, "handlers", ()):
            for inner in handler.body:
                yield from _flat(inner)


def _imported(
    module: Module, node: ast.Import | ast.ImportFrom, package: str, stars: list[str], bound: set[str]
) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            local, target = (
                alias.asname or alias.name.split(".")[0],
                alias.name if alias.asname else alias.name.split(".")[0],
            )
            module.names[local] = target
            if target.split(".")[0] not in FOREIGN:
                bound.add(local)
        return
    base = node.module or ""
    if node.level:
        parts = package.split(".") if package else []
        parts = parts[: len(parts) - node.level + 1]
        base = ".".join([*parts, *([node.module] if node.module else [])])
    for alias in node.names:
        if alias.name == "*":
            stars.append(base)
            continue
        module.names[alias.asname or alias.name] = f"{base}.{alias.name}" if base else alias.name
        if base.split(".")[0] not in FOREIGN:
            bound.add(alias.asname or alias.name)


def _localize(project: Project) -> None:
    """Imports between scripts of one folder (``from model import Net`` in ``src/train.py``) get their full names."""
    for module in project.modules.values():
        folder = module.dotted.rpartition(".")[0]
        if not folder:
            continue
        module.stars = tuple(
            f"{folder}.{star}" if star not in project.modules and f"{folder}.{star}" in project.modules else star
            for star in module.stars
        )
        for local, target in module.names.items():
            if target.split(".")[0] in FOREIGN or project.resolve(target) is not None:
                continue
            if project.resolve(f"{folder}.{target}") is not None:
                module.names[local] = f"{folder}.{target}"


def _starred(project: Project) -> None:
    """What ``from helpers import *`` brings along of the imports of helpers.py."""
    for _ in range(3):
        for module in project.modules.values():
            for star in module.stars:
                other = project.modules.get(star)
                for local, target in other.names.items() if other is not None and other is not module else ():
                    if local not in module.bound and not local.startswith("_"):
                        module.names.setdefault(local, target)


def _class(node: ast.ClassDef, module: Module) -> Class:
    found = Class(node.name, node, module, tuple(filter(None, (dotted(base) for base in node.bases))))
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.methods[item.name] = Function(item.name, item, module, found)
    return found


FAMILIES = {
    "torch.nn.Module": "module",
    "torch.nn.modules.Module": "module",
    "torch.nn.modules.module.Module": "module",
    "torch.nn.modules.loss._Loss": "module",
    "torch.nn.modules.loss._WeightedLoss": "module",
    "torch.nn.Sequential": "sequential",
    "torch.nn.ModuleList": "list",
    "torch.nn.ModuleDict": "dict",
    "torch.utils.data.Dataset": "dataset",
    "torch.utils.data.dataset.Dataset": "dataset",
    "torch.utils.data.IterableDataset": "dataset",
    "torch.utils.data.TensorDataset": "dataset",
    "torch.utils.data.Sampler": "sampler",
    "torch.utils.data.sampler.Sampler": "sampler",
    "torch.autograd.Function": "function",
    "torch.autograd.function.Function": "function",
    "torch.optim.Optimizer": "optimizer",
    "torch.optim.optimizer.Optimizer": "optimizer",
    "torch.optim.lr_scheduler.LRScheduler": "scheduler",
    "torch.optim.lr_scheduler._LRScheduler": "scheduler",
    "pytorch_lightning.LightningModule": "lightning",
    "lightning.LightningModule": "lightning",
    "lightning.pytorch.LightningModule": "lightning",
    "pytorch_lightning.LightningDataModule": "lightning",
}


def canonical(module: Module, text: str) -> str:
    """A dotted name as the file writes it, with its first part resolved through the imports."""
    head, _, rest = text.partition(".")
    target = module.names.get(head)
    if target is None:
        return text
    return f"{target}.{rest}" if rest else target


def family(project: Project, found: Class, depth: int = 0) -> str | None:
    """What a class is by its bases, through classes of the project."""
    for base in found.bases:
        name = canonical(found.module, base)
        if name in FAMILIES:
            return FAMILIES[name]
        if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper():
            return "module"
        if name.startswith("torchvision.datasets."):
            return "dataset"
        other = project.base(found, base)
        if other is not None and depth < 12:
            inherited = family(project, other, depth + 1)
            if inherited:
                return inherited
        if any(star.startswith("torch") for star in found.module.stars) and base == "Module":
            return "module"
    return None
