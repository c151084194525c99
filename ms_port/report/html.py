"""``report.html``: the JSON as one page without scripts or outside files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from ms_port.resources import resource


def render(report: Mapping[str, Any]) -> str:
    """The page for a ``report.json``."""
    environment = SandboxedEnvironment(
        loader=FileSystemLoader(resource("templates")), undefined=StrictUndefined, autoescape=True, trim_blocks=True
    )
    return environment.get_template("report.html.j2").render(report=report)
