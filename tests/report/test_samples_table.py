"""The table of PyTorch's samples says of each operator what was tried, what was equal and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.samples.table import verdict, write_table


def made(status: str = "ready", reason: str = "", rules: tuple[str, ...] = ()) -> dict[str, object]:
    return {"status": status, "reason": reason, "rules": rules, "decomposed": False, "commit": "abc"}


def ran(forward: str, gradient: str = "none", reason: str = "") -> dict[str, object]:
    return {"forward": forward, "gradient": gradient, "reason": reason}


@pytest.mark.parametrize(
    ("line", "result", "word"),
    [
        (made("skipped"), None, ""),
        (made("flagged"), None, "flagged"),
        (made(), None, ""),
        (made(), ran("passed", "passed"), "passed"),
        (made(), ran("passed", "crash"), "gradient crash"),
        (made(), ran("wrong", "none", "output: error 2e-05, bound 1e-06 (scale 1)"), "imprecise"),
        (made(), ran("wrong", "none", "output: error 2e-02, bound 1e-06 (scale 1)"), "wrong"),
        (made(), ran("passed", "wrong", "gradient of input 0: dtype float64, torch float32"), "gradient wrong"),
        (made(rules=("MSP501",)), ran("wrong", "none", "output: 3 of 4 elements differ"), "differs, flagged"),
    ],
)
def test_verdict(line: dict[str, object], result: dict[str, object] | None, word: str) -> None:
    assert verdict(line, result) == word


def test_a_row_an_operator(tmp_path: Path) -> None:
    lines = {
        "op:add:0": made(),
        "method:add:0": made(),
        "op-bool:add:0": made("flagged", "MSP101 no form"),
        "op:mul:0": made(),
        "op:sub:0": made("skipped"),
    }
    results = {"op:add:0": ran("passed", "passed"), "method:add:0": ran("passed", "crash", "a | b")}
    write_table(lines, results, tmp_path / "table.md")
    text = (tmp_path / "table.md").read_text()
    assert "| `add` | 3 | 2 | 1 of 2 | gradient crash (method): a / b |" in text
    assert "3 samples of 1 OpInfos and ModuleInfos were tried; all samples pass of 0. Converted and not run: 1." in text
    assert "| methods | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 0 |" in text and "Commits that did it: 4 by abc" in text
    assert text.rstrip().endswith("`sub`") and "`mul`" not in text
