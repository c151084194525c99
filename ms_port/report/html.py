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
    return environment.get_template("report.html.j2").render(report=report, plots=plots(report))


_COLOURS = ("#1f5fa8", "#c2571a", "#0a7a2f", "#7a3e9d")
_WIDTH, _HEIGHT, _EDGE = 720.0, 240.0, 10.0


def plots(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The curves of each level that has some, as points of an SVG polyline."""
    levels = report.get("verification", {}).values()
    return [plot for level in levels if (plot := _plot(level.get("curves") or {}))]


def _plot(curves: Mapping[str, list[float | None]]) -> dict[str, Any] | None:
    usual = [value for curve in curves.values() for value in curve if value is not None]
    if not usual:
        return None
    low, high = min(usual), max(usual)
    wide, tall = _WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE
    steps = max(len(curve) for curve in curves.values())
    lines = []
    for (name, curve), colour in zip(curves.items(), _COLOURS, strict=False):
        places = [(i, value) for i, value in enumerate(curve) if value is not None]
        points = [
            (_EDGE + wide * i / max(steps - 1, 1), _EDGE + tall * (high - value) / ((high - low) or 1.0))
            for i, value in places
        ]
        lines.append({"name": name, "colour": colour, "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points)})
    return {"lines": lines, "low": low, "high": high}
