"""Where the data files are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path


def resource(name: str) -> Path:
    """The folder ``op_maps``, ``templates`` or ``models``, in the wheel (``ms_port/_data``) or in the checkout."""
    here = Path(__file__).resolve().parent
    packaged = here / "_data" / name
    return packaged if packaged.is_dir() else here.parent / name


def render(template: str, **values: object) -> str:
    """A text file from ``templates/``, filled in. Raises jinja2.UndefinedError for a name without a value."""
    from jinja2 import FileSystemLoader, StrictUndefined  # not at import: `ms-port --version` renders nothing
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        loader=FileSystemLoader(resource("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
