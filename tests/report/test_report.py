"""Reports: the JSON against its schema, the CSVs' columns, the page, the status."""

import csv
import json
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from ms_port.ir.flags import Flag, Place
from ms_port.report import Change, Coverage, Report, summary, write_report
from ms_port.verify.verdict import Divergence, Level, Verdict

STUB = Flag(
    "MSP101",
    "error",
    "no form for <this>",
    "torch.special.bessel_j0",
    "layers.0",
    Place("net.py", 12),
    Place("net/model.py", 9),
)
UNKNOWN = Flag("MSP102", "error", "compiled code", "ext.forward")
NOTE = Flag("MSP503", "info", "draws numbers", "torch.rand")
PASS = {
    "status": "equal",
    "max_error": 1e-6,
    "truth_error": 2e-7,
    "worst": [{"cell": "head", "tensor": "head", "error": 1e-6}],
}


def schema() -> dict:
    import ms_port.report.report as module

    return json.loads(Path(module.__file__).with_name("schema.json").read_text())


@pytest.mark.parametrize(
    ("flags", "verification", "status"),
    [
        ((), {}, "ok"),
        ((NOTE,), {"forward": PASS}, "ok"),
        ((STUB,), {"forward": PASS}, "flagged"),
        ((STUB,), {"forward": {**PASS, "status": "not equal"}}, "failed"),
        ((), {"forward": {"status": "crashed"}}, "failed"),
        ((), {"forward": {"status": "not proven"}}, "flagged"),
        ((), {"forward": PASS, "step": {"status": "not run"}}, "ok"),
    ],
)
def test_status_and_schema(flags: tuple[Flag, ...], verification: dict, status: str) -> None:
    report = Report(
        "net", "net.py:Net", flags, Coverage(10, 9, 0, 1), verification, {"capture": 0.5}, ("a note",), (("f", "kept"),)
    )
    found = report.to_json()
    jsonschema.validate(found, schema())
    assert found["status"] == status


def test_schema_itself_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def rows(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


def test_files(tmp_path: Path) -> None:
    change = Change("net.py", 12, 13, "modify", "torch.cat -> ops.cat")
    report = Report("net", flags=(STUB, UNKNOWN, NOTE), verification={"forward": PASS}, changes=(change,))
    write_report(report, tmp_path / "report", ["capture 0.5 s"])
    folder = tmp_path / "report"
    assert rows(folder / "unsupported_api.csv")[0] == ["File", "Start Line", "End Line", "OP", "Tips"]
    assert rows(folder / "unsupported_api.csv")[1][:4] == ["net.py", "12", "12", "torch.special.bessel_j0"]
    assert len(rows(folder / "unsupported_api.csv")) == 2
    assert [r[3] for r in rows(folder / "unknown_api.csv")] == ["OP", "ext.forward"]
    assert rows(folder / "change_list.csv")[1] == ["net.py", "12", "13", "modify", "torch.cat -> ops.cat"]
    assert json.loads((folder / "report.json").read_text())["flags"][0]["source"] == {"file": "net.py", "line": 12}
    page = (folder / "report.html").read_text()
    assert "no form for &lt;this&gt;" in page and "<script" not in page
    assert (folder / "conversion.log").read_text() == "capture 0.5 s\n"


def test_summary_shows_places_and_markup_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    flag = Flag("MSP101", "error", "x[red] is odd", "torch.a", source=Place("net.py", 3))
    Console(width=120, force_terminal=False).print(summary(Report("net", flags=(flag,) * 30)))
    text = capsys.readouterr().out
    assert "net.py:3" in text and "x[red] is odd" in text and "10 more" in text


def test_a_divergence_in_every_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = Divergence(
        mode="eval",
        path="blocks.0.mlp.1",
        cell="blocks.0.mlp.1",
        cls="GELU",
        seen_at="blocks.0.mlp.1",
        call=0,
        error=1.4e-4,
        truth_error=1.2e-7,
        why="its inputs agree and its output does not",
        last_right="out of blocks.1",
        op="torch.nn.functional.gelu",
        source=Place("net.py", 110),
        generated=Place("net/model.py", 120),
        cause="approximate='tanh' instead of 'none'",
        repro="report/repro_blocks_0_mlp_1_gelu.py",
    )
    verification = Verdict(forward=Level("not equal", first=first)).to_json()
    report = Report("net", verification=verification)
    jsonschema.validate(report.to_json(), schema())
    write_report(report, tmp_path)
    page = (tmp_path / "report.html").read_text()
    Console(width=160, force_terminal=False).print(summary(report))
    shown = capsys.readouterr().out
    said = "torch.nn.functional.gelu", "net.py:110", "net/model.py:120", "tanh", first.repro, first.last_right
    assert all(text in shown for text in (*said, "1.4e-04", "1.2e-07"))
    assert all(text in page for text in said)
