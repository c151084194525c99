"""``report/curves.csv``: the loss by step of both sides, for spreadsheets and plots."""

from __future__ import annotations

import csv
from itertools import zip_longest
from pathlib import Path

from ms_port.verify.verdict import Level


def write_curves(report: Path, level: Level) -> None:
    """Write the curves of a train level, if it has any."""
    if not level.curves:
        return
    report.mkdir(exist_ok=True)
    with (report / "curves.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["step", *level.curves])
        for step, losses in enumerate(zip_longest(*level.curves.values(), fillvalue=""), 1):
            writer.writerow([step, *losses])
