"""A process of its own that does what production does, until a failpoint ends it: a stream, a snapshot or a publish.

Run as `python -m tests.fault.real.worker stream|snapshot|publish FOLDER`. The folder holds `plan.json` and `run_id`;
the stream reads its orders from `orders.json` there and writes its last report to `report.json`, a snapshot leaves
`snapshot.json`. Connections and failpoints come from the environment.
"""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from seamline import settings
from seamline.adapters import failpoints, registry
from seamline.adapters.bulk_read import RunReader
from seamline.domain.errors import CommitUnknown, Fenced, SeamlineError, TransientError
from seamline.domain.runs import Receipt, RunKind, RunState
from seamline.plan.model import Run, plan_from_json
from seamline.ports import Orders, StreamReport
from seamline.sync.onboard import publish
from seamline.sync.snapshot import SnapshotTools, take_snapshot
from seamline.sync.span_loop import run_stream
from tests.integration.snapshot_run import InProcess

DESTINATION = "warehouse"
FENCED, TRANSIENT, FINAL = 3, 4, 5


class OrdersInFile:
    """StreamControl through two small files, each replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self._orders = folder / "orders.json"
        self._report = folder / "report.json"

    def orders(self) -> Orders:
        return Orders(**json.loads(self._orders.read_text(encoding="utf-8")))

    def report(self, report: StreamReport) -> None:
        write_whole(self._report, json.dumps({"state": report.state, "hold_id": report.hold_id}))


class RecordsInFile:
    """SnapshotRecords and PruningHolds: nothing prunes the topic of a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        del run_id
        write_whole(self._folder / f"{key}.json", json.dumps(value))

    def put_receipt(self, run_id: str, receipt: Receipt) -> None: ...

    def hold_log(self, topic: str, *, holder: str, offset: int, lease_s: float) -> str:
        del topic, offset, lease_s
        return holder

    def release_log(self, hold_id: str) -> None: ...


def write_whole(file: Path, text: str) -> None:
    """Who reads it meets the old text or the new one."""
    part = file.with_name(file.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def run_of(folder: Path) -> Run:
    plan = plan_from_json((folder / "plan.json").read_text(encoding="utf-8"))
    run_id = (folder / "run_id").read_text(encoding="utf-8")
    left = folder / "snapshot.json"
    result = {"snapshot": json.loads(left.read_text(encoding="utf-8"))} if left.exists() else {}
    return Run(run_id, plan.sync, RunKind.ONBOARD, None, plan, RunState.RUNNING, result)


def stream(folder: Path) -> None:
    plan = run_of(folder).plan
    with ExitStack() as opened:
        shapes = registry.shape_guard(plan)
        if shapes is not None:
            opened.enter_context(closing(shapes))
        run_stream(
            plan,
            DESTINATION,
            reader=opened.enter_context(closing(registry.log_reader(plan))),
            sink=opened.enter_context(closing(registry.sink(plan, DESTINATION))),
            control=OrdersInFile(folder),
            shapes=shapes,
            failpoints=registry.failpoints(),
        )


def snapshot(folder: Path) -> None:
    run, records = run_of(folder), RecordsInFile(folder)
    reader = RunReader(run, tasks=2, copying_of=lambda groups, _: InProcess(groups))
    take_snapshot(
        run,
        SnapshotTools(
            source=registry.source(run.plan),
            open_log=lambda: registry.log_reader(run.plan),
            open_read=reader.open_read,
            open_staged=reader.open_staged,
            holds=records,
            records=records,
            failpoints=failpoints.from_environment(settings.process_environment()) or failpoints.ArmedFailpoints(),
        ),
    )


def put_in_place(folder: Path) -> None:
    run = run_of(folder)
    with closing(registry.sink(run.plan, DESTINATION)) as sink:
        publish(run, DESTINATION, sink=sink)


WORK: dict[str, Callable[[Path], None]] = {"stream": stream, "snapshot": snapshot, "publish": put_in_place}


def main(what: str, folder: str) -> int:
    try:
        WORK[what](Path(folder))
    except SeamlineError as exc:
        sys.stderr.write(f"{what}: {type(exc).__name__}: {exc}\n")
        return outcome_of(exc)
    return 0


def outcome_of(error: SeamlineError) -> int:
    if isinstance(error, Fenced):
        return FENCED
    return TRANSIENT if isinstance(error, TransientError | CommitUnknown) else FINAL


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
