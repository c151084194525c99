"""Writing OUT: everything into a folder beside it, swapped in at the end, so that OUT is always whole."""

from __future__ import annotations

import ctypes
import difflib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ms_port.errors import BadInput
from ms_port.project.merge import merge, open_conflicts
from ms_port.project.stubs import add_missing_stubs

PORT_FILE = "port.json"
STATE = ".ms_port"
_GENERATED = f"{STATE}/generated.json"
_OURS = (STATE, "report", "verify.py", PORT_FILE)
"""Written anew by every run, never edited: an earlier one does not outlive the next run."""
_TEXT = (".py", ".yaml", ".sh", ".md", ".txt")
_PREFIX = ".ms-port-"


@dataclass(frozen=True, slots=True)
class Edit:
    """A file that a person changed since it was generated, and what became of it."""

    file: str
    action: str
    """``kept``; ``merged``; ``kept, new stubs added``; ``kept, new version beside it`` (FILE.new)."""
    conflicts: int = 0
    """Places in the file where the person's lines and the new ones exclude each other, marked as git marks them."""

    @property
    def described(self) -> str:
        """The action with its open conflicts."""
        if not self.conflicts:
            return self.action
        return f"{self.action}, {self.conflicts} conflict{'s' * (self.conflicts > 1)} marked with <<<<<<<"


class Staging:
    """The folder ``root`` in which a run writes; ``commit`` puts it in OUT's place in one step.

    A context manager: left without ``commit`` (error, interrupt) the folder goes and OUT is as it was. A killed run
    leaves it beside OUT under a dotted name; the next run into the same OUT removes it.
    """

    def __init__(self, out: Path) -> None:
        """Check ``out`` and make the folder. Raises BadInput: no folder of ours, not empty, not writable."""
        self.out = Path(os.path.abspath(out.expanduser()))
        if self.out.is_symlink():
            self.out = self.out.resolve()
        _recover(self.out)
        check_out(self.out)
        self.inside = self.out.is_dir() and _must_stay(self.out)
        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            prefix = f"{_PREFIX}{self.out.name}-{os.getpid()}-"
            self.root = Path(tempfile.mkdtemp(prefix=prefix, dir=self.out if self.inside else self.out.parent))
            self.root.chmod(0o777 & ~_umask())
        except OSError as error:
            raise BadInput(
                f"can't write into {self.out.parent}: {error.strerror}",
                where=f"-o {out}",
                advice="choose a folder that you may write to, or change its permissions",
            ) from None

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def again(self) -> bool:
        """Whether OUT holds an earlier port."""
        return (self.out / PORT_FILE).is_file()

    def keep_edits(self, files: Iterable[str]) -> tuple[Edit, ...]:
        """Keep what a person changed in OUT; ``files``: those just generated that a person may edit, relative to OUT.

        Where the generated text changed too, both changes are merged (base: ``.ms_port/base``); what excludes each
        other is marked. ``fixes.py`` then keeps its text and gets the stubs that it lacks. What can't be merged stays,
        and the new version is written beside it as FILE.new. Call once, before the port is verified.
        """
        files = sorted(files)
        before = _read_generated(self.out)
        generated = {file: _digest(self.root / file) for file in files}
        for file in files:
            if file.endswith(_TEXT):
                _copy(self.root / file, self.root / STATE / "base" / file)
        edits = [edit for file in files if (edit := self._keep(file, before.get(file), generated[file]))]
        for file in sorted(set(before) - set(generated)):
            old = self.out / file
            if old.is_file() and _digest(old) != before[file]:
                edits.append(Edit(file, "kept, no longer generated"))
        state = self.root / _GENERATED
        state.parent.mkdir(exist_ok=True)
        state.write_text(json.dumps(generated, indent=1) + "\n", encoding="utf-8")
        return tuple(edits)

    def _keep(self, file: str, before: str | None, generated: str) -> Edit | None:
        mine, new = self.out / file, self.root / file
        if not mine.is_file() or _digest(mine) in (before, generated):
            return None
        beside = self.out / f"{file}.new"
        if before == generated:
            if beside.is_file():
                _copy(beside, self.root / f"{file}.new")
            _copy(mine, new)
            return Edit(file, "kept", open_conflicts(mine) if file.endswith(_TEXT) else 0)
        merged = merge(mine, self.out / STATE / "base" / file, new) if file.endswith(_TEXT) else None
        if Path(file).name == "fixes.py" and (merged is None or merged.conflicts):
            text = add_missing_stubs(mine, new)
            if text is not None:
                new.write_text(text, encoding="utf-8")
                return Edit(file, "kept, new stubs added")
        if merged is not None:
            new.write_text(merged.text, encoding="utf-8")
            shutil.copymode(mine, new)
            return Edit(file, "merged", merged.conflicts)
        os.replace(new, self.root / f"{file}.new")
        _copy(mine, new)
        return Edit(file, "kept, new version beside it")

    def diff(self, files: Iterable[str]) -> str:
        """What ``commit`` would change in the text of ``files`` and of earlier ones, as a unified diff."""
        parts: list[str] = []
        earlier = [f for f in _read_generated(self.out) if f.endswith(_TEXT) and not _was_edited(self.out, Path(f))]
        for file in sorted({*files, *earlier}):
            before, after = _lines(self.out / file), _lines(self.root / file)
            parts += difflib.unified_diff(before, after, f"now/{file}", f"new/{file}")
        return "".join(parts)

    def commit(self) -> None:
        """Put the folder in OUT's place; a person's own files in OUT (checkpoints, data, .git) go along.

        Where OUT can't be renamed (see ``_must_stay``) the files are put into it one by one, each whole.
        """
        generated = _read_generated(self.out)
        old_files = set(generated) | {f"{f}.new" for f in generated}
        try:
            if self.inside:
                _move_in(self.root, self.out, {f for f in old_files if not _was_edited(self.out, Path(f))})
                return
            if self.out.is_dir():
                _carry_over(self.out, self.root, old_files)
            _swap(self.root, self.out)
        except OSError as error:
            raise BadInput(f"can't write {self.out}: {error.strerror}", advice="check its permissions") from None


def check_out(out: Path) -> None:
    """Raise BadInput unless ``out`` is new, empty or an earlier port."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file", where=f"-o {out}", advice="name a folder")
    if not out.is_dir() or (out / PORT_FILE).is_file():
        return
    try:
        empty = not any(out.iterdir())
    except OSError as error:
        raise BadInput(
            f"can't read {out}: {error.strerror}", where=f"-o {out}", advice="check its permissions"
        ) from None
    if not empty:
        raise BadInput(
            f"{out} is not empty and holds no {PORT_FILE}: it is no earlier port, so nothing in it was touched",
            where=f"-o {out}",
            advice="name a new folder, or empty this one",
        )


def _must_stay(out: Path) -> bool:
    """Whether a folder can't be renamed: a mount point, under a parent that isn't ours, or where someone works now."""
    here = Path.cwd().resolve()
    return os.path.ismount(out) or not os.access(out.parent, os.W_OK) or out == here or out in here.parents


def _move_in(new: Path, out: Path, before: set[str]) -> None:
    """Put the files of ``new`` into ``out``; ``before``: files of the earlier run that go if they aren't replaced."""
    files = {path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()}
    for file in sorted(files, key=lambda f: (f == PORT_FILE, f)):  # port.json last: until then it is no new port
        (out / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(new / file, out / file)
    for file in (before | {"verify.py"}) - files:
        (out / file).unlink(missing_ok=True)


def _recover(out: Path) -> None:
    """Mend what a killed run left beside OUT: put the earlier port back, remove unfinished folders."""
    for left in sorted([*out.parent.glob(f"{_PREFIX}{out.name}-*"), *out.glob(f"{_PREFIX}{out.name}-*")]):
        pid = left.name.removeprefix(f"{_PREFIX}{out.name}-").partition("-")[0]
        if not pid.isdigit() or _alive(int(pid)):
            continue
        if left.name.endswith("-earlier") and not out.exists():
            os.rename(left, out)
        else:
            shutil.rmtree(left, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _swap(new: Path, out: Path) -> None:
    if not out.exists():
        os.rename(new, out)
        return
    if _exchange(new, out):
        return
    earlier = out.parent / f"{_PREFIX}{out.name}-{os.getpid()}-earlier"
    os.rename(out, earlier)
    os.rename(new, out)
    shutil.rmtree(earlier, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two folders in one step (Linux's renameat2 with RENAME_EXCHANGE); False where it isn't there."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2
    return bool(renameat2(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0)


def _carry_over(old: Path, new: Path, generated: set[str]) -> None:
    """Link the files of ``old`` that ms-port didn't write into ``new``: nothing is copied, ``old`` stays whole."""
    for folder, folders, files in os.walk(old):
        where = Path(folder).relative_to(old)
        if where == Path():
            folders[:], files = ([n for n in names if n not in _OURS] for names in (folders, files))
        folders[:] = [f for f in folders if f != "__pycache__" and not (new / where / f).is_symlink()]
        for link in [f for f in folders if (old / where / f).is_symlink()]:
            folders.remove(link)
            files.append(link)
        for file in files:
            path = where / file
            ours = path.as_posix() in generated and not _was_edited(old, path)
            if ours or os.path.lexists(new / path):
                continue
            (new / path.parent).mkdir(parents=True, exist_ok=True)
            _link(old / path, new / path)
        if not folders and not files:
            (new / where).mkdir(parents=True, exist_ok=True)


def _was_edited(old: Path, path: Path) -> bool:
    before = _read_generated(old).get(path.as_posix())
    return before is not None and _digest(old / path) != before


def _link(source: Path, target: Path) -> None:
    if source.is_symlink():
        os.symlink(os.readlink(source), target)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _read_generated(out: Path) -> dict[str, str]:
    """Digest by file as last generated; empty where there is no readable record (then every file counts as edited)."""
    try:
        found = json.loads((out / _GENERATED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines(keepends=True) if file.is_file() else []


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
