"""``python -m ms_port.report.pages DIR``: write one page a rule and an index (``--check``: only compare)."""

from __future__ import annotations

import sys
from pathlib import Path

from ms_port.report.rules import FAMILIES, rules

_NOTE = "<!-- Generated from ms_port/report/rules.yaml by `python -m ms_port.report.pages docs/rules`. -->\n"


def pages() -> dict[str, str]:
    """Text by file name."""
    found = {f"{code}.md": _NOTE + rule.markdown() for code, rule in rules().items()}
    lines = [
        "# Rules\n",
        "Every flag of a report carries one of these codes; `ms-port explain CODE` shows the same page.\n",
    ]
    for digit, family in FAMILIES.items():
        members = [rule for rule in rules().values() if rule.code[3] == digit]
        if members:
            lines.append(f"\n## MSP{digit}xx: {family}\n")
            lines += [f"- [{rule.code}]({rule.code}.md): {rule.title}" for rule in members]
    found["index.md"] = _NOTE + "\n".join(lines) + "\n"
    return found


def main(arguments: list[str]) -> int:
    """Write the pages, or say which differ."""
    folder = Path(next((a for a in arguments if not a.startswith("-")), "docs/rules"))
    wanted = pages()
    if "--check" in arguments:
        have = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.md")}
        stale = sorted(name for name in wanted.keys() | have.keys() if wanted.get(name) != have.get(name))
        if stale:
            print(f"not as generated: {', '.join(stale)}; run python -m ms_port.report.pages {folder}")
        return 1 if stale else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
