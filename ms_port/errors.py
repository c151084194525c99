"""The one kind of error that is the user's to mend: what happened, where, and what to do."""

from __future__ import annotations

import traceback
from pathlib import Path


class BadInput(Exception):
    """Something given to ms-port can't be used (exit code 2).

    ``what`` is one sentence, ``where`` a file, ``file:line`` or option, ``advice`` what the person can do about it.
    """

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.advice = advice

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"  where: {self.where}")
        if self.advice:
            parts.append(f"  what to do: {self.advice}")
        return "\n".join(parts)


def raised_at(error: BaseException, near: Path | None = None) -> str | None:
    """``file:line`` of the code that raised ``error``: the innermost frame in ``near``'s folder, else of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 1}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    own = Path(__file__).parent
    frames = [f for f in frames if own not in Path(f.filename).parents]
    inside = [f for f in frames if near is not None and near.parent in Path(f.filename).parents]
    chosen = inside or frames
    return f"{chosen[-1].filename}:{chosen[-1].lineno}" if chosen else None


def one_line(error: BaseException, limit: int = 300) -> str:
    """``TypeName: message`` on one line."""
    text = " ".join(str(error).split())
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
