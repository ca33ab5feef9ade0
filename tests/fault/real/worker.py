"""A process of its own that does what production does, until a failpoint ends it: a stream, or a step of a run.

Run as `python -m tests.fault.real.worker stream|snapshot|publish|join FOLDER`. The folder holds `plan.json` and
`run_id`, and `change.json` where the run changes the tables of the stream; the stream reads its orders from
`orders.json` there and writes its last report to `report.json`, a snapshot leaves `snapshot.json`. Connections and
failpoints come from the environment.
"""

import json
import sys
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seamline.adapters import failpoints, registry
from seamline.adapters.bulk_read import RunReader
from seamline.adapters.bulk_threads import CopyingHere
from seamline.domain.errors import CommitUnknown, Fenced, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.domain.runs import Receipt, RunKind, RunState
from seamline.plan.list_change import ListChange, entering_only
from seamline.plan.model import Run, plan_from_json
from seamline.ports import Failpoints, Orders, StreamReport
from seamline.sync.onboard import publish
from seamline.sync.snapshot import SnapshotTools, take_snapshot
from seamline.sync.span_loop import run_stream
from seamline.sync.table_pass import PassTools, join_stream

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
        told = {"state": report.state, "hold_id": report.hold_id, "next_offset": report.next_offset}
        write_whole(self._report, json.dumps(told))


class DirectorInFile:
    """StreamDirector of the one stream that reads this folder. A hold lives until it is let go or another is asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def latest_report(self, stream: StreamId) -> StreamReport | None:
        file = self._folder / "report.json"
        return StreamReport(stream, **json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None

    def hold(self, stream: StreamId, *, lease_s: float) -> str:
        del stream, lease_s
        hold_id = f"hold-{uuid.uuid4().hex}"
        self._order(Orders(hold_id=hold_id, hold_until_s=2e9))
        return hold_id

    def release(self, hold_id: str) -> None:
        del hold_id
        self._order(Orders())

    def _order(self, orders: Orders) -> None:
        write_whole(self._folder / "orders.json", json.dumps(asdict(orders)))

    def apply_up_to(self, hold_id: str, position: Position) -> None:
        raise NotImplementedError

    def want(self, stream: StreamId, *, plan_json: str) -> None:
        """Who runs the case starts the stream again, by the same plan."""

    def unwant(self, stream: StreamId) -> None:
        raise NotImplementedError


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


def change_of(folder: Path) -> ListChange | None:
    file = folder / "change.json"
    return ListChange.from_json(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


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
    run, change, records = run_of(folder), change_of(folder), RecordsInFile(folder)
    run = run if change is None else entering_only(run, change)
    reader = RunReader(run, tasks=2, copying_of=lambda groups, _: CopyingHere(groups))
    take_snapshot(
        run,
        SnapshotTools(
            source=registry.source(run.plan),
            open_log=lambda: registry.log_reader(run.plan),
            open_read=reader.open_read,
            open_staged=reader.open_staged,
            holds=records,
            records=records,
            failpoints=armed(),
        ),
    )


def put_in_place(folder: Path) -> None:
    run = run_of(folder)
    with closing(registry.sink(run.plan, DESTINATION)) as sink:
        publish(run, DESTINATION, sink=sink)


def join(folder: Path) -> None:
    run, change = run_of(folder), change_of(folder)
    assert change is not None, "this run changes no tables"
    tools = PassTools(
        director=DirectorInFile(folder),
        open_log=lambda: registry.log_reader(run.plan),
        open_sink=lambda plan: registry.sink(plan, DESTINATION),
        open_shapes=registry.shape_guard,
        failpoints=armed(),
    )
    join_stream(run, DESTINATION, change, tools=tools)


def armed() -> Failpoints:
    return registry.failpoints() or failpoints.ArmedFailpoints()


WORK: dict[str, Callable[[Path], None]] = {
    "stream": stream,
    "snapshot": snapshot,
    "publish": put_in_place,
    "join": join,
}


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
