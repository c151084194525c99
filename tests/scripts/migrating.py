"""What the tests of migration share."""

from __future__ import annotations

import ast
import importlib.util
import sys
import textwrap
from pathlib import Path

from ms_port.script.migrate import Migration, migrate, write

CORPUS = Path(__file__).parent / "corpus"


def migrated(tmp_path: Path, source: str, name: str = "script.py") -> tuple[str, Migration]:
    """The new text of one script; it parses and imports no torch."""
    place = tmp_path / "in"
    place.mkdir(exist_ok=True)
    (place / name).write_text(textwrap.dedent(source))
    found = migrate(place)
    write(found, place, tmp_path / "out")
    text = (tmp_path / "out" / name).read_text()
    assert not torch_imports(text)
    return text, found


def torch_imports(text: str) -> set[str]:
    """Imported packages that a migrated file may not name."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found & {"torch", "torchvision", "ms_port"}


def parts(op_map_names: set[str]) -> object:
    """A module of the parts that scripts get, loaded from its generated text."""
    from ms_port.script.migrate import parts_text, script_op_map

    text = parts_text(script_op_map(), op_map_names)
    spec = importlib.util.spec_from_loader("parts_of_tests", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    exec(compile(text, "ms_parts.py", "exec"), module.__dict__)
    return module
