"""Docstrings as the port needs them: without what is gone, in MindSpore's words, within the line width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence

_WIDTH = 120
_SECTION = re.compile(r"\s*(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments):\s*$")
_NUMPY_SECTION = re.compile(r"\s*(?:Other )?Parameters\s*$")
_ROLE = r":\w+:`"
_ENTRY = re.compile(
    rf"\s*\*{{0,2}}`{{0,2}}(\w+)`{{0,2}}\s*(?:(?:\((?:[^:]|{_ROLE})*\)|\[(?:[^:]|{_ROLE})*\])?\s*:|\((?:[^:]|{_ROLE})*\)$)"
)
_DIRECTIVE = re.compile(r"\s*\.\. auto\w+::")
"""Has Sphinx write what another class says: most often of weights to download."""
_LOOSE_ENTRY = re.compile(r"(\w+) \(`[^:]*\):")
_SPHINX = re.compile(r"\s*:(?:param|type)(?: [^:]*?)? ?(\w+):")
_EXAMPLE = re.compile(r"\s*Examples?(?:::?|:)?\s*$")
_TORCH_CODE = re.compile(r"\btorch\b|from_pretrained|^\s*(?:>>> )?(?:from|import) ", re.MULTILINE)
_ORIGIN = re.compile(r"\b(?:from|official|original|based on|adapted|ported)\b", re.IGNORECASE)
"""What a sentence says of PyTorch then is where the code came from: that stays true."""
_BASE = re.compile(r"inherits from \[`(\w+)`\]|is also a PyTorch")
_WORDS = (
    (re.compile(r"(?:torch\.)?nn\.Module\b"), "nn.Cell"),
    (re.compile(r"\btorch\.(?:Float|Long|Bool|Int|Half)?Tensor\b"), "Tensor"),
    (re.compile(r"\btorch\.nn\.(?=[A-Z])"), "nn."),
    (re.compile(r"\bPyTorch (?=impl)"), "MindSpore "),
)


def summary(text: str | None) -> str | None:
    """The first sentence of a docstring, for the head of a file; None where it says nothing."""
    first = " ".join((text or "").strip().split("\n\n")[0].split())
    first = re.split(r"(?<=[^.\s]{2}[.!]) (?=[A-Z`])|\s(?:Args|Parameters|Arguments|Copyright):? ", first)[0]
    if re.match(r"[#=\-*]|copyright|licen[sc]e|paper:|https?:", first, re.IGNORECASE) or len(first) < 4:
        return None
    if not _ORIGIN.search(first):
        first = re.sub(r"\b[Pp]y[Tt]orch\b", "MindSpore", first)
    return first if first.endswith((".", "!", "?", ":")) else f"{first}."


def fitted(text: str | None, parameters: Collection[str] | None, names: Collection[str]) -> str | None:
    """The docstring without what it says of parameters, bases and examples that the port lacks.

    ``parameters``: those that are left; None where it describes none. ``names``: the classes of the port.
    """
    if text is None:
        return None
    lines = text.split("\n")
    if parameters is not None:
        lines = _without_entries(lines, parameters)
    lines = _without_directives(_without_examples(lines))
    kept = [p for p in "\n".join(lines).split("\n\n") if not _is_about_base(p, names)]
    cleaned = re.sub(r"\n{3,}", "\n\n", "\n\n".join(kept)).rstrip()
    for pattern, word in _WORDS:
        cleaned = pattern.sub(word, cleaned)
    if not cleaned.strip():
        return None
    return cleaned if "\n" in cleaned.strip("\n") else cleaned.strip()


def _is_about_base(paragraph: str, names: Collection[str]) -> bool:
    found = _BASE.search(paragraph)
    return found is not None and (found[1] is None or found[1] not in names)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_entries(lines: Sequence[str], parameters: Collection[str]) -> list[str]:
    """Lines without the entries of argument sections (Google, numpy, Sphinx) whose name is not in ``parameters``."""
    kept: list[str] = []
    at = 0
    if (first := next((x for x in lines if x.strip()), "")) and _LOOSE_ENTRY.match(first):
        return _entries(list(lines), parameters, -1, _LOOSE_ENTRY)
    while at < len(lines):
        line = lines[at]
        if (sphinx := _SPHINX.match(line)) is not None and sphinx[1] not in parameters:
            at = _block_end(lines, at + 1, _indent(line))
            continue
        kept.append(line)
        at += 1
        dashes = at < len(lines) and re.match(r"\s*-{3,}\s*$", lines[at]) is not None
        if _SECTION.match(line):
            end = _block_end(lines, at, _indent(line), blank=True)
            section = _entries(lines[at:end], parameters, _indent(line), _ENTRY)
        elif _NUMPY_SECTION.match(line) and dashes:
            kept.append(lines[at])
            at += 1
            end = next((i for i in range(at, len(lines) - 1) if re.match(r"\s*-{3,}\s*$", lines[i + 1])), len(lines))
            section = _entries(lines[at:end], parameters, _indent(line) - 1, _ENTRY)
        else:
            continue
        if not any(x.strip() for x in section):
            del kept[-2 if dashes else -1 :]
        kept += section
        at = end
    return kept


def _block_end(lines: Sequence[str], start: int, indent: int, blank: bool = False) -> int:
    """The first line from ``start`` that is indented no deeper than ``indent``; a blank one too, if not ``blank``."""
    for at in range(start, len(lines)):
        if lines[at].strip() and _indent(lines[at]) <= indent:
            return at
        if not lines[at].strip() and not blank:
            return at
    return len(lines)


def _entries(lines: Sequence[str], parameters: Collection[str], outer: int, entry: re.Pattern[str]) -> list[str]:
    """The lines of a section less the entries of other parameters."""
    inner = min((_indent(x) for x in lines if x.strip() and _indent(x) > outer), default=0)
    kept: list[str] = []
    dropping = False
    for line in lines:
        if line.strip() and _indent(line) <= inner:
            found = entry.match(line)
            dropping = found is not None and found[1] not in parameters
        if not dropping:
            kept.append(line)
    if dropping and kept and not lines[-1].strip():
        kept.append("")
    return kept


def _without_examples(lines: Sequence[str]) -> list[str]:
    """Lines without example sections of torch code: they do not run in the port."""
    kept: list[str] = []
    at = 0
    while at < len(lines):
        if _EXAMPLE.match(lines[at]):
            end = _example_end(lines, at)
            if _TORCH_CODE.search("\n".join(lines[at + 1 : end])):
                at = end
                continue
        kept.append(lines[at])
        at += 1
    return kept


def _without_directives(lines: Sequence[str]) -> list[str]:
    """Lines without Sphinx's directives that quote the docstrings of what the port may not have."""
    kept: list[str] = []
    at = 0
    while at < len(lines):
        if _DIRECTIVE.match(lines[at]):
            at = _block_end(lines, at + 1, _indent(lines[at]))
        else:
            kept.append(lines[at])
            at += 1
    return kept


def _example_end(lines: Sequence[str], start: int) -> int:
    indent, fenced = _indent(lines[start]), False
    for at in range(start + 1, len(lines)):
        if lines[at].strip().startswith("```"):
            fenced = not fenced
            if not fenced and _indent(lines[at]) <= indent:
                return at + 1
            continue
        code = fenced or lines[at].lstrip().startswith((">>>", "..."))
        if lines[at].strip() and _indent(lines[at]) <= indent and not code:
            return at
    return len(lines)


def docstring(text: str, depth: int = 1) -> str:
    """A docstring literal that fits into the lines at an indentation of ``depth``, one line where it does."""
    room = _WIDTH - 4 * depth
    stripped = text.strip("\n")
    prefix = "r" if "\\" in text and '"""' not in text and not stripped.endswith("\\") else ""
    escaped = stripped if prefix else stripped.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if "\n" not in escaped and len(escaped) + 6 + len(prefix) <= room:
        return f'{prefix}"""{escaped}{" " if escaped.endswith(chr(34)) else ""}"""'
    first = "" if text.startswith("\n") else f'{prefix}"""'
    lines = list(_wrapped(f"{first}{escaped}".split("\n"), room))
    if not first:
        lines.insert(0, f'{prefix}"""')
    return "\n".join([*lines, '"""'])


def _wrapped(lines: Sequence[str], room: int) -> Iterator[str]:
    """Prose lines broken at the width, what is over joined to the next line; code is left alone."""
    fenced, over = False, ""
    for number, line in enumerate(lines):
        if line.strip().startswith("```"):
            fenced = not fenced
        if over:
            line = f"{over} {line.strip()}"
            over = ""
        if len(line) <= room or fenced or line.lstrip().startswith((">>>", "...", "|")):
            yield line.rstrip()
            continue
        hanging = _ENTRY.match(line) is not None
        indent = " " * (_indent(line) + 4 * hanging)
        parts = textwrap.wrap(line, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        below = lines[number + 1] if number + 1 < len(lines) else ""
        flows = below.strip() and _indent(below) == len(indent) and not _ENTRY.match(below)
        if flows and len(parts) > 1 and not re.match(r"\s*[-*\d(`>|]", below):
            over = parts.pop()
        yield from parts
