"""Types of a configuration's fields, as far as the port can say them: Python's own types and unions of them."""

from __future__ import annotations

import inspect
import types
import typing

_PLAIN = (bool, int, float, str, list, tuple, dict)


def plain_hint(hint: object) -> str | None:
    """``int | None`` for ``Optional[int]``; of a union what is Python's own; None where nothing is left to say."""
    if hint is inspect.Parameter.empty:
        return None
    if isinstance(hint, str):
        return _of_text(hint)
    found = _names(hint)
    return " | ".join(found) if found and found != ["None"] else None


def _of_text(hint: str) -> str | None:
    try:
        return plain_hint(eval(hint, {"__builtins__": {}}, _SCOPE))
    except Exception:  # a name that is not Python's own, or no expression
        return None


_SCOPE = {kind.__name__: kind for kind in _PLAIN} | {"Optional": typing.Optional, "Union": typing.Union, "None": None}


def _names(hint: object) -> list[str]:
    if hint is None or hint is type(None):
        return ["None"]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        names = [name for part in typing.get_args(hint) for name in _names(part)]
        return sorted(dict.fromkeys(names), key=lambda name: name == "None")
    if hint in _PLAIN:
        return [hint.__name__]
    origin = typing.get_origin(hint)
    if origin in _PLAIN:
        inner = [_names(part) for part in typing.get_args(hint) if part is not Ellipsis]
        known = all(inner) and origin is not tuple
        return [f"{origin.__name__}[{', '.join(' | '.join(names) for names in inner)}]" if known else origin.__name__]
    return []
