"""``ms-port doctor --distributed``: says what is missing, within its time limit."""

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ms_port.cli import run
from ms_port.project.distributed import Meeting, check_address, check_environment, check_rank_table, meet, meeting


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def together(size: int, nodes: list[int], seconds: float) -> dict[int, str]:
    port, found = free_port(), dict[int, str]()

    def one(node: int) -> None:
        finding = meet(Meeting(size, node, "127.0.0.1", port, seconds))
        found[node] = f"{finding.status}: {finding.message}"

    threads = [threading.Thread(target=one, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 10)
    return found


def test_all_answer() -> None:
    found = together(3, [2, 1, 0], 20)
    assert found == dict.fromkeys(range(3), "ok: all 3 answered")


def test_the_missing_rank_is_named_on_each() -> None:
    started = time.monotonic()
    found = together(4, [0, 1, 3], 1.5)
    assert time.monotonic() - started < 12
    assert all(text.startswith("error: 2 of 4 did not report") for text in found.values()) and len(found) == 3, found
    assert "node 0 did not answer" in together(2, [1], 0.5)[1]


def table(tmp_path: Path, ranks: list[dict[str, Any]], **more: Any) -> Path:
    content = {"version": "1.0", "server_count": "1", "status": "completed", **more}
    content["server_list"] = [{"server_id": "10.0.0.1", "device": ranks}]
    file = tmp_path / "table.json"
    file.write_text(json.dumps(content))
    return file


def device(rank: int, **more: str) -> dict[str, str]:
    return {"device_id": str(rank), "device_ip": f"192.168.1.{rank}", "rank_id": str(rank), **more}


@pytest.mark.parametrize(
    ("ranks", "more", "said"),
    [
        ([device(0), device(1), device(3)], {}, "rank 2 missing"),
        ([device(0), device(1, rank_id="0")], {}, "rank 0 is there 2 times"),
        ([device(0), device(1, device_ip="")], {}, "no device_ip for rank 1"),
        ([device(0), device(1, device_ip="192.168.1.0")], {}, "more than once"),
        ([device(0), device(1, device_id="0")], {}, "device 0 of 10.0.0.1 has 2 ranks"),
        ([device(0)], {"server_count": "2"}, "server_count is 2, listed are 1"),
        ([device(0)], {"status": "initializing"}, "status is 'initializing'"),
    ],
)
def test_rank_tables(tmp_path: Path, ranks: list[dict[str, Any]], more: dict[str, Any], said: str) -> None:
    found = list(check_rank_table(table(tmp_path, ranks, **more)))
    assert any(f.status == "error" and said in f.message for f in found), found


def test_a_sound_rank_table_and_an_unreadable_one(tmp_path: Path) -> None:
    (finding,) = check_rank_table(table(tmp_path, [device(0), device(1)]))
    assert finding.status == "ok" and "ranks 0 to 1" in finding.message
    (tmp_path / "broken.json").write_text("[]")
    for name in ("broken.json", "none.json"):
        (finding,) = check_rank_table(tmp_path / name)
        assert finding.status == "error"


def test_devices(tmp_path: Path) -> None:
    for number in (0, 1):
        (tmp_path / f"davinci{number}").touch()
    (tmp_path / "davinci_manager").touch()

    def statuses(**environment: str) -> list[str]:
        return [f.status for f in check_environment(environment, tmp_path)]

    assert statuses() == ["ok"]
    assert statuses(ASCEND_RT_VISIBLE_DEVICES="1") == ["ok"]
    assert statuses(ASCEND_RT_VISIBLE_DEVICES="1,4") == ["error"]
    assert statuses(ASCEND_RT_VISIBLE_DEVICES="0;1") == ["error"]
    assert statuses(MS_LOCAL_WORKER_NUM="8") == ["ok", "error"]
    assert statuses(RANK_SIZE="8") == ["ok", "warning"]


def test_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finding = check_address(Meeting(2, 0, "127.0.0.1", port, 1))
        assert finding.status == "error" and "can't be listened on" in finding.message
        assert run(["doctor", "--distributed", "--port", str(port)]) == 1
    assert check_address(Meeting(2, 0, "no.such.host.invalid", 8118, 1)).status == "error"
    assert run(["doctor", "--distributed", "--port", str(free_port())]) == 0
    assert run(["doctor", "--distributed", "--machines", "2", "--node", "2"]) == 2
    capsys.readouterr()


def test_under_msrun_its_environment_says_who_is_who() -> None:
    environment = {"MS_WORKER_NUM": "4", "RANK_ID": "3", "MS_SCHED_HOST": "10.0.0.1", "MS_SCHED_PORT": "8118"}
    assert meeting(environment, None, None, None, 1, 5) == Meeting(4, 3, "10.0.0.1", 8119, 5)
