"""Run examples of op-map rows: ``python -m ms_port.opmap.examples FILE.yaml [API ...] [--first] [-v]``."""

from __future__ import annotations

import argparse
import importlib
import queue
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ms_port.opmap.batch import Outcome, Worker, run_batch
from ms_port.opmap.cases import Case, Rules, make_case
from ms_port.opmap.errors import NoLowering
from ms_port.opmap.opmap import OpMap
from ms_port.opmap.rows import Row

BATCH = 30


def weight_rules() -> Rules:
    """The named rules' forward functions. The table belongs to a later stage, hence no plain import."""
    table = importlib.import_module("ms_port.weights.rules").RULES
    return {name: rule.forward for name, rule in table.items()}


def rows_of(op_map: OpMap, files: Iterable[Path] = (), apis: Iterable[str] = ()) -> list[Row]:
    """Rows of some files (all if none) with some names (all if none). A bare last part of a name is enough."""
    wanted_files = {Path(file).resolve() for file in files}
    wanted = set(apis)
    rows = []
    for api in op_map.apis:
        if wanted and api not in wanted and api.rpartition(".")[2] not in wanted:
            continue
        if wanted_files and op_map.file_of(api).resolve() not in wanted_files:
            continue
        row = op_map.row(api)
        assert row is not None
        rows.append(row)
    return rows


def run_examples(op_map: OpMap, rows: Sequence[Row], workers: Sequence[Worker], first: bool = False) -> list[Outcome]:
    """Outcome of every example. Workers take batches side by side.

    With ``first`` each row's first one; of a row that is the same as another's only the text is compared.
    """
    rules = weight_rules()
    outcomes: list[Outcome] = []
    batches: dict[bool, list[Case]] = {True: [], False: []}
    for row in rows:
        for index in range(min(1, len(row.examples)) if first else len(row.examples)):
            case = ready(op_map, row, index, rules)
            if isinstance(case, Outcome):
                outcomes.append(case)
            elif first and row.same_as:
                outcomes.append(Outcome(case.name, ()))
            else:
                batches[bool(case.gradients)].append(case)
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def run(cases: Sequence[Case], gradient: bool) -> list[Outcome]:
        worker = idle.get()
        try:
            return run_batch(op_map, cases, worker, gradient)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        jobs = [
            pool.submit(run, cases[start : start + BATCH], gradient)
            for gradient, cases in batches.items()
            for start in range(0, len(cases), BATCH)
        ]
        return outcomes + [outcome for job in jobs for outcome in job.result()]


def ready(op_map: OpMap, row: Row, index: int, rules: Rules) -> Case | Outcome:
    """One example made ready, or its outcome if it fails already or only its text is compared."""
    name = f"{row.api}[{index}]"
    try:
        case = make_case(op_map, row, index, rules)
    except (NoLowering, AssertionError) as error:
        return Outcome(name, (str(error),))
    except Exception as error:
        return Outcome(name, (f"torch side: {type(error).__name__}: {error}",))
    return case if case.example.untested is None else Outcome(name, ())


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if all pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="a YAML file (default: all)")
    parser.add_argument("api", nargs="*", help="names, or their last parts")
    parser.add_argument("--first", action="store_true", help="only each row's first example")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args(arguments)
    op_map = OpMap.load()
    started = time.perf_counter()
    rows = rows_of(op_map, [options.file] if options.file else [], options.api)
    with Worker() as one, Worker() as other:
        outcomes = run_examples(op_map, rows, (one, other) if len(rows) > BATCH else (one,), options.first)
    bad = [outcome for outcome in outcomes if outcome.faults]
    for outcome in outcomes:
        if outcome.faults:
            print(f"FAIL {outcome.name}\n     " + "\n     ".join(outcome.faults))
        elif options.verbose:
            print(f"ok   {outcome.name}")
    for row in rows:
        if not row.examples and not row.untested:
            print(f"no example: {row.api}")
    print(
        f"{len(outcomes) - len(bad)} of {len(outcomes)} examples of {len(rows)} rows pass "
        f"({time.perf_counter() - started:.1f} s)"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
