"""``ms-port doctor --distributed``: what would make several ranks hang, said within a time limit.

Run it like the training itself: once on each machine (``--machines 2 --node 0 --address A``), or in each rank under
msrun, whose environment it reads. Node 0 listens; each other one reports to it and is told who is missing.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_port.errors import BadInput
from ms_port.project.doctor import Finding

_LINE = 4096
"""Bytes: a message between nodes is one short line of JSON."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Who has to be there, and where."""

    size: int
    """Number of machines, or of ranks under msrun."""
    node: int
    address: str
    port: int
    seconds: float
    """How long everybody waits for the others."""


def meeting(
    environment: Mapping[str, str],
    machines: int | None,
    node: int | None,
    address: str | None,
    port: int,
    seconds: float,
) -> Meeting:
    """From the options, else from msrun's environment (then on the port after the scheduler's, which is taken)."""
    if machines is None and "MS_WORKER_NUM" in environment:
        rank = environment.get("RANK_ID", environment.get("MS_NODE_ID", "0"))
        host, taken = environment.get("MS_SCHED_HOST", "127.0.0.1"), environment.get("MS_SCHED_PORT", "8118")
        numbers = {"MS_WORKER_NUM": environment["MS_WORKER_NUM"], "MS_SCHED_PORT": taken, "RANK_ID": rank}
        for name, value in numbers.items():
            if not value.isdigit():
                raise BadInput(f"{name} is {value!r}, no number", where="environment", advice="start it with msrun")
        return Meeting(int(environment["MS_WORKER_NUM"]), int(rank), host, int(taken) + 1, seconds)
    size, number = machines or 1, node or 0
    if not 0 <= number < size:
        raise BadInput(f"node {number} of {size} machines", where="--node", advice="0 to machines - 1")
    return Meeting(size, number, address or "127.0.0.1", port, seconds)


def examine_distribution(where: Meeting, environment: Mapping[str, str] | None = None) -> list[Finding]:
    """Rank table, environment and devices of this machine, then whether all others answer."""
    environment = os.environ if environment is None else environment
    table = environment.get("RANK_TABLE_FILE")
    found = [*(check_rank_table(Path(table)) if table else ()), *check_environment(environment), check_address(where)]
    if found[-1].status != "error" and where.size > 1:
        found.append(meet(where))
    return found


def check_rank_table(file: Path) -> Iterator[Finding]:
    """Faults of a rank table (RANK_TABLE_FILE): ranks that are missing or twice there, devices without address."""
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        servers = table["server_list"]
        devices = [(server.get("server_id"), device) for server in servers for device in server["device"]]
        ranks = [int(device["rank_id"]) for _, device in devices]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield Finding("rank table", "error", f"{file}: can't be read as one: {type(error).__name__}: {error}")
        return
    faults = list[str]()
    missing = sorted(set(range(max(ranks, default=0) + 1)) - set(ranks))
    faults += [f"rank {_said(missing)} missing"] if missing else []
    faults += [f"rank {rank} is there {count} times" for rank, count in Counter(ranks).items() if count > 1]
    stated = str(table.get("server_count", len(servers)))
    faults += [f"server_count is {stated}, listed are {len(servers)}"] if stated != str(len(servers)) else []
    faults += [f"status is {table['status']!r}"] if table.get("status", "completed") != "completed" else []
    places = Counter((server, device.get("device_id")) for server, device in devices)
    faults += [
        f"device {device} of {server} has {count} ranks" for (server, device), count in places.items() if count > 1
    ]
    addresses = [device.get("device_ip") for _, device in devices]
    without = [rank for rank, address in zip(ranks, addresses, strict=True) if not address]
    faults += [f"no device_ip for rank {_said(without)}"] if without and len(devices) > 1 else []
    twice = [address for address, count in Counter(filter(None, addresses)).items() if count > 1]
    faults += [f"device_ip {_said(twice)} is there more than once"] if twice else []
    for fault in faults:
        yield Finding("rank table", "error", f"{file}: {fault}")
    if not faults:
        yield Finding("rank table", "ok", f"{file}: ranks 0 to {len(ranks) - 1} on {len(servers)} machines")


def check_environment(environment: Mapping[str, str], devices: Path = Path("/dev")) -> Iterator[Finding]:
    """Devices that this machine shows, against those that the environment names and the ranks that it starts."""
    there = sorted(int(name) for p in devices.glob("davinci*") if (name := p.name.removeprefix("davinci")).isdigit())
    visible = environment.get("ASCEND_RT_VISIBLE_DEVICES")
    named = [part.strip() for part in visible.split(",")] if visible else []
    if named and not all(part.isdigit() for part in named):
        yield Finding("devices", "error", f"ASCEND_RT_VISIBLE_DEVICES is {visible!r}: numbers with commas are wanted")
        return
    usable = [int(part) for part in named] if named else there
    absent = sorted(set(usable) - set(there))
    if absent and there:
        yield Finding("devices", "error", f"ASCEND_RT_VISIBLE_DEVICES names {_said(absent)}, here are {_said(there)}")
    elif there or named:
        yield Finding("devices", "ok", f"{len(usable)} usable: {_said(usable)}")
    else:
        yield Finding("devices", "ok", "no Ascend device here: ranks run on CPU")
    local = environment.get("MS_LOCAL_WORKER_NUM", environment.get("LOCAL_WORLD_SIZE", ""))
    if local.isdigit() and there and int(local) > len(usable):
        yield Finding("ranks", "error", f"{local} ranks on this machine, but {len(usable)} usable devices")
    set_by_hand = [name for name in ("RANK_SIZE", "DEVICE_ID", "RANK_ID") if name in environment]
    if set_by_hand and "MS_WORKER_NUM" not in environment and "RANK_TABLE_FILE" not in environment:
        text = f"{_said(set_by_hand)} set, but neither msrun's environment nor RANK_TABLE_FILE: start with ./launch.sh"
        yield Finding("ranks", "warning", text)


def check_address(where: Meeting) -> Finding:
    """Whether the scheduler's address is one, and its port free on the machine that listens."""
    try:
        socket.getaddrinfo(where.address, where.port)
    except (OSError, OverflowError) as error:
        return Finding("address", "error", f"{where.address}:{where.port} is no address: {error}")
    if where.node > 0:
        return Finding("address", "ok", f"{where.address}:{where.port}, on node 0")
    try:
        _listen(where).close()
    except OSError as error:
        text = f"{where.address}:{where.port} can't be listened on: {error.strerror}; another run, or not this machine?"
        return Finding("address", "error", text)
    return Finding("address", "ok", f"{where.address}:{where.port} is free")


def meet(where: Meeting) -> Finding:
    """Wait for all the others, ``where.seconds`` at most, and say which are missing."""
    missing = _host(where) if where.node == 0 else _visit(where)
    if missing is None:
        text = f"node 0 did not answer at {where.address}:{where.port} within {where.seconds:.0f} s"
        return Finding("others", "error", f"{text}: not started, another address, or a firewall")
    if missing:
        text = f"{_said(missing)} of {where.size} did not report within {where.seconds:.0f} s"
        return Finding("others", "error", text)
    return Finding("others", "ok", f"all {where.size} answered")


def _listen(where: Meeting) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.address else socket.AF_INET
    return socket.create_server((where.address, where.port), family=family, backlog=where.size)


def _host(where: Meeting) -> list[int]:
    """Collect the reports, then tell everybody who is missing."""
    end, visitors = time.monotonic() + where.seconds, dict[int, socket.socket]()
    with _listen(where) as server:
        while len(visitors) < where.size - 1 and (left := end - time.monotonic()) > 0:
            server.settimeout(left)
            try:
                visitor, _ = server.accept()
                visitor.settimeout(max(end - time.monotonic(), 0.1))
                visitors[int(_receive(visitor)["node"])] = visitor
            except (OSError, ValueError, KeyError, TypeError):
                continue
        missing = sorted(set(range(1, where.size)) - set(visitors))
        for visitor in visitors.values():
            try:
                visitor.sendall(json.dumps({"missing": missing}).encode() + b"\n")
                visitor.close()
            except OSError:
                continue
    return missing


def _visit(where: Meeting) -> list[int] | None:
    """Report to node 0 as soon as it listens; None where it never does."""
    end = time.monotonic() + where.seconds
    while (left := end - time.monotonic()) > 0:
        try:
            with socket.create_connection((where.address, where.port), timeout=left) as host:
                host.sendall(json.dumps({"node": where.node}).encode() + b"\n")
                host.settimeout(where.seconds + 5)  # node 0 may have begun later, and waits as long
                return [int(n) for n in _receive(host)["missing"]]
        except (OSError, ValueError, KeyError, TypeError):
            time.sleep(min(0.2, max(left, 0)))
    return None


def _receive(connection: socket.socket) -> dict[str, Any]:
    text = b""
    while not text.endswith(b"\n") and len(text) < _LINE and (part := connection.recv(_LINE)):
        text += part
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def _said(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))
