"""What the command line names: TARGET, ``FILE.py:NAME`` and ``--arg K=V``, parsed and loaded."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import linecache
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ms_port.errors import BadInput, one_line, raised_at

_TARGET = re.compile(r"(?P<place>.+?):(?P<attribute>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\Z", re.DOTALL)
_OBJECT = re.compile(r".+\.py:[A-Za-z_][\w.]*\Z")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")


@dataclass(frozen=True, slots=True)
class Target:
    """``package.module:Attr`` or ``path/file.py:Attr``."""

    text: str
    attribute: str
    module: str | None = None
    file: Path | None = None

    @property
    def name(self) -> str:
        """The last part of the attribute, for messages and default names."""
        return self.attribute.rpartition(".")[2]


def parse_target(text: str, base: Path | None = None) -> Target:
    """Split a TARGET; a relative file counts from ``base`` (default: the working folder). Raises BadInput."""
    match = _TARGET.match(text.strip())
    if match is None:
        raise BadInput(
            f"'{text}' does not say which class, factory or instance to convert",
            where="TARGET",
            advice="write package.module:Attr or path/file.py:Attr, as in torchvision.models:resnet50",
        )
    place, attribute = match["place"], match["attribute"]
    if place.endswith(".py") or "/" in place:
        file = Path(place).expanduser()
        return Target(text, attribute, file=file if file.is_absolute() else (base or Path.cwd()) / file)
    if not _MODULE.match(place):
        raise BadInput(
            f"'{place}' is neither a module's name nor a .py file",
            where=f"TARGET {text}",
            advice="write package.module:Attr or path/file.py:Attr",
        )
    return Target(text, attribute, module=place)


def load_target(target: Target) -> Any:
    """Import what a target names. Raises BadInput with the person's own file and line where the import fails."""
    module = _import_file(target.file) if target.file is not None else _import_module(str(target.module))
    found: Any = module
    for part in target.attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            close = difflib.get_close_matches(part, [n for n in dir(found) if not n.startswith("_")], 3, 0.6)
            raise BadInput(
                f"{target.file or target.module} has no '{part}'",
                where=f"TARGET {target.text}",
                advice=f"did you mean {', '.join(close)}?" if close else "name something that is defined in it",
            ) from None
    return found


def load_object(text: str, base: Path | None = None) -> Any:
    """The object that ``FILE.py:NAME`` names (``--inputs``, ``--loss``, ``--arg``). Raises BadInput."""
    if not _OBJECT.match(text):
        raise BadInput(
            f"'{text}' is not of the form FILE.py:NAME", advice="write a Python file, a colon and a name in it"
        )
    return load_target(parse_target(text, base))


def parse_arguments(items: Sequence[str]) -> dict[str, str]:
    """``["depth=2", "act=relu"]`` as texts by name. Raises BadInput for what has no name, or the same name twice."""
    texts: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals or not key.isidentifier():
            raise BadInput(
                f"'{item}' is not of the form name=value", where=f"--arg {item}", advice="write --arg depth=2"
            )
        if key in texts:
            raise BadInput(f"argument '{key}' is given twice", where=f"--arg {item}", advice="keep one of the two")
        texts[key] = value.strip()
    return texts


def load_arguments(texts: Mapping[str, str], base: Path | None = None) -> dict[str, Any]:
    """The values of ``--arg``: Python literals, ``FILE.py:NAME`` objects, bare words as strings. Raises BadInput."""
    return {key: _argument(key, text, base) for key, text in texts.items()}


def _argument(key: str, text: str, base: Path | None) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        pass
    if _OBJECT.match(text):
        return load_object(text, base)
    where = f"--arg {key}={text}"
    if text.lower() in ("true", "false", "none", "null"):
        word = {"true": "True", "false": "False"}.get(text.lower(), "None")
        raise BadInput(
            f"'{text}' would be the string '{text}', which counts as true in Python",
            where=where,
            advice=f"write {key}={word}, or {key}=\"'{text}'\" for the string",
        )
    if text and (text[0] in "[({'\"" or text[-1] in "])}'\""):
        raise BadInput(f"{text} is not a Python literal", where=where, advice="check brackets and quotes")
    return text


def _import_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:  # as `python -m` does: the project in the working folder is importable
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise BadInput(
                f"there is no module '{error.name}'",
                where=f"TARGET {name}",
                advice="install the package, run in the folder that holds it, or name the file: path/file.py:Attr",
            ) from None
        raise _import_failed(name, error, None) from error
    except Exception as error:
        raise _import_failed(name, error, None) from error


def _import_failed(name: str, error: BaseException, file: Path | None) -> BadInput:
    advice = "make `python -c 'import ...'` of it work first, in this same environment"
    if isinstance(error, ModuleNotFoundError) and error.name:
        advice = f"install what provides '{error.name}', or run in the folder that holds it"
    return BadInput(f"importing {name} failed: {one_line(error)}", where=raised_at(error, file), advice=advice)


def _import_file(file: Path) -> ModuleType:
    """Import a file under the name that its neighbours would import it by, so that both see one module."""
    if not file.is_file():
        raise BadInput(
            f"there is no file {file}", advice="check the path; relative paths count from the working folder"
        )
    file = file.resolve()
    name, root = _module_name(file)
    if str(root) in sys.path:
        sys.path.remove(str(root))
    sys.path.insert(0, str(root))
    known = sys.modules.get(name)
    if known is not None and _file_of(known) == file:
        if known.__spec__ is None or known.__spec__.loader_state in (None, file.stat().st_mtime_ns):
            return known
        linecache.checkcache(str(file))  # changed since this process ran it: a notebook converts again
    if name in sys.stdlib_module_names or (known is not None and _installed(known)):
        name = f"{name}_of_{file.parent.name}"  # a person's `random.py` must not replace Python's
    try:
        if "." in name:
            importlib.invalidate_caches()
            return importlib.import_module(name)
        return _execute(name, file)
    except Exception as error:
        raise _import_failed(str(file), error, file) from error


def _module_name(file: Path) -> tuple[str, Path]:
    """Dotted name and import root: upwards while the folder is a package."""
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts if file.stem != "__init__" else parts[:-1]), folder


def _file_of(module: ModuleType) -> Path | None:
    place = getattr(module, "__file__", None)
    return Path(place).resolve() if place else None


def _installed(module: ModuleType) -> bool:
    """Whether a module comes from the interpreter's own folders or from site-packages."""
    file = _file_of(module)
    folders = [Path(p).resolve() for p in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))]
    return file is None or any(folder in file.parents for folder in folders)


def _execute(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    spec.loader_state = file.stat().st_mtime_ns
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module
