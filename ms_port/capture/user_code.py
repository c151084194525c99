"""Which code is the user's (and so is recorded), which user code ran, and which function objects hold it."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")

COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""Code objects that are part of the function around them, never functions of their own."""


def package_directory(name: str) -> str:
    """Directory (or file, for a single-file module) of an importable package."""
    module = importlib.import_module(name)
    paths = list(getattr(module, "__path__", ()))
    return os.path.join(paths[0], "") if paths else (module.__file__ or "")


_CODE_WITHOUT_FILE = ("<ipython", "<stdin", "<cell", "<eval_with_key>")
"""Names that notebooks, interactive sessions and ``torch.fx`` give to code whose text ``linecache`` knows."""


class UserCode:
    """Decides by file name: neither torch, nor the standard library, nor ms_port itself, nor an opaque package."""

    def __init__(self, opaque: Sequence[str] = ()) -> None:
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        torch_package = os.path.dirname(os.path.abspath(torch.__file__))
        self._excluded = (os.path.join(torch_package, ""), os.path.join(own, ""), *map(package_directory, opaque))
        paths = sysconfig.get_paths()
        self._standard = tuple(os.path.join(path, "") for path in {paths["stdlib"], paths["platstdlib"]})
        self._site = tuple(os.path.join(path, "") for path in {paths["purelib"], paths["platlib"]})
        self._known: dict[str, bool] = {}

    def owns_file(self, filename: str) -> bool:
        """True where code of this file belongs to the user."""
        known = self._known.get(filename)
        if known is None:
            known = self._known[filename] = self._decide(filename)
        return known

    def owns(self, code: types.CodeType) -> bool:
        """True where this code object belongs to the user."""
        return self.owns_file(code.co_filename)

    def _decide(self, filename: str) -> bool:
        if filename.startswith("<"):
            return filename.startswith(_CODE_WITHOUT_FILE)
        if filename.startswith(self._excluded):
            return False
        in_site = filename.startswith(self._site) or "site-packages" in filename or "dist-packages" in filename
        return in_site or not filename.startswith(self._standard)

    def nearest(self, frame: types.FrameType | None) -> tuple[str, int]:
        """File and line of the innermost user frame at or around ``frame``; ("", 0) if there is none."""
        while frame is not None:
            if self.owns_file(frame.f_code.co_filename):
                return frame.f_code.co_filename, frame.f_lineno or 0
            frame = frame.f_back
        return "", 0

    def raised_at(self, error: BaseException) -> tuple[str, int]:
        """File and line of the innermost user frame in a traceback; ("", 0) if there is none."""
        place = ("", 0)
        traceback = error.__traceback__
        while traceback is not None:
            if self.owns(traceback.tb_frame.f_code):
                place = (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            traceback = traceback.tb_next
        return place


@dataclass(slots=True)
class Executed:
    """The user's code objects that ran, by ``id`` (codes compare equal by value), and the globals that they ran in."""

    codes: dict[int, types.CodeType] = field(default_factory=dict)
    namespaces: dict[int, dict[str, Any]] = field(default_factory=dict)
    ignored: set[int] = field(default_factory=set)
    """ids of codes that are not noted: the instrumented copies."""


def run_observed(function: Callable[[], Result], user: UserCode, executed: Executed) -> Result:
    """Call ``function`` and note in ``executed`` the user's code that runs.

    What runs only because a module is imported (libraries import lazily, at the first call) is left out.
    """
    codes, namespaces, ignored, owns_file = executed.codes, executed.namespaces, executed.ignored, user.owns_file
    outside = sys._getframe()

    def on_call(frame: types.FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        key = id(code)
        if key in codes or key in ignored or not owns_file(code.co_filename):
            return
        if code.co_flags & inspect.CO_OPTIMIZED and not _importing(frame, outside):  # no class bodies, no modules
            codes[key] = code
            namespaces[id(frame.f_globals)] = frame.f_globals

    before = sys.gettrace()
    try:
        sys.settrace(on_call)
        return function()
    finally:
        sys.settrace(before)


def _importing(frame: types.FrameType | None, outside: types.FrameType) -> bool:
    """True where a module is being imported between ``outside`` and this frame."""
    while frame is not None and frame is not outside:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
