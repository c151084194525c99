"""``ms-port profile``: what it says of recordings. The Ascend ones are made from the documented format, not recorded."""

from pathlib import Path

import pytest

from ms_port.cli import run
from ms_port.errors import BadInput
from ms_port.project.profile import diagnose, read_profile

CPU = "op_side,op_type,op_name,full_op_name,op_occurrences,op_total_time(ms),op_avg_time(ms),total_proportion,subgraph,pid\n"
KERNELS = "Step ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)\n"
TRACE = (
    "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing\n"
)
LOG = "step,loss,learning_rate,seconds,seconds_waiting_for_data\n1,1.0,0.1,9.0,0.0\n"


def cpu(folder: Path, rows: list[str], waited: float = 0.0) -> Path:
    inside = folder / "vm_1_ascend_ms/FRAMEWORK"
    inside.mkdir(parents=True)
    (inside / "cpu_op_detail_info_0.csv").write_text(CPU + "".join(f"Host,{row},0,0,Default,1\n" for row in rows))
    (folder / "log.csv").write_text(LOG + f"2,1.0,0.1,1.0,{waited}\n3,1.0,0.1,1.0,{waited}\n")
    return folder


def ascend(folder: Path, kernels: list[str], trace: str) -> Path:
    inside = folder / "host_1_ascend_ms/ASCEND_PROFILER_OUTPUT"
    inside.mkdir(parents=True)
    (inside / "kernel_details.csv").write_text(KERNELS + "".join(f"{row}\n" for row in kernels))
    (inside / "step_trace_time.csv").write_text(TRACE + trace)
    return folder


def test_many_small_kernels_are_laid_to_their_cells(tmp_path: Path) -> None:
    rows = [f"Mul,Mul-op{i},Default/net-Net/blocks-CellList/0-Block/Mul-op{i},5,0.05" for i in range(300)]
    rows += ["Add,Add-op0,Default/net-Net/Add-op0,5,9.0"]
    rows += ["MatMul,MatMul-op0,Gradients/Default/net-Net/head-Dense/gradMatMul/MatMul-op0,5,15.0"]
    found = read_profile(cpu(tmp_path, rows))
    assert found.step_count == 5 and found.platform == "CPU"
    (advice,) = diagnose(found)
    assert advice.part == "operators" and "300 kernels a step" in advice.found and "net/blocks/0" in advice.found


def test_no_graph_and_waiting_for_data(tmp_path: Path) -> None:
    found = diagnose(read_profile(cpu(tmp_path, ["Mul,Mul-op1,Mul-op1,5,2.0", "Add,Add-op1,Add-op1,5,2.0"], 0.4)))
    assert [a.part for a in found] == ["operators", "data"]
    assert "one by one" in found[0].found and "40%" in found[1].found


def test_a_sound_run_has_nothing_to_say(tmp_path: Path) -> None:
    assert (
        diagnose(read_profile(cpu(tmp_path, ["A,A-op1,Default/a-A/A-op1,5,9.0", "B,B-op1,Default/b-B/B,5,9.0"]))) == []
    )


def test_communication_and_idle_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = [
        f"{step},Default/net-Net/fc-Dense/{n}-op0,{n},AI_CORE,0,900,1" for step in (1, 2) for n in ("MatMul", "Add")
    ]
    ascend(tmp_path, kernels, "1,5000,3000,0,3000,2500,0,0,0,0\n2,5000,3000,0,3000,2500,0,0,0,0\n")
    found = read_profile(tmp_path)
    assert found.platform == "Ascend" and found.step_count == 2 and found.steps is not None
    assert found.steps.total == pytest.approx(10.5)
    advice = diagnose(found)
    assert [(a.part, round(a.share or 0, 2)) for a in advice] == [("communication", 0.29), ("data", 0.24)]
    assert run(["profile", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "MatMul" in said and "waits for other ranks" in said


def test_no_profile(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no profile"):
        read_profile(tmp_path)
    assert run(["profile", str(tmp_path / "nowhere")]) == 2
