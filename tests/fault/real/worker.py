"""A process of its own that does what production does, until a failpoint ends it: a stream, or a step of a run.

Forked (`workers.py`), or run as `python -m tests.fault.real.worker stream|snapshot|publish|join|compare|capture
FOLDER`. The folder holds
`plan.json` and `run_id`, `change.json` where the run changes the tables of the stream, and `capture.json`; the stream
reads its orders from `orders.json` there, has small chunks where a file `small_chunks` lies, and writes its last report
to `report.json`, a snapshot leaves `snapshot.json`, a comparison `verdicts.jsonl`. Connections and failpoints come from
the environment, and so does the name of a bug that a test has planted (`plants.py`).
"""

import fcntl
import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from seamline import registry, settings
from seamline.adapters import failpoints
from seamline.adapters.connect.debezium_capture import DebeziumCapture, PlannedTopics
from seamline.adapters.connect.endpoint import CaptureEndpoint
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.adapters.tls import Tls
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.domain.errors import CommitUnknown, Fenced, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.runs import Receipt, Reconciliation, RunKind, RunState
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import CutsLiveTables
from seamline.plan.document import plan_from_json
from seamline.plan.list_change import ListChange, entering_only
from seamline.plan.model import DestinationPlan, NightlyPlan, Run, SyncPlan, TablePlan
from seamline.ports import Failpoints, Orders, StreamReport
from seamline.sync.capture_lifecycle import ensure_capture
from seamline.sync.incremental_snapshot import JoinTools, join_stream
from seamline.sync.onboard import publish
from seamline.sync.pace import Pace
from seamline.sync.snapshot import SnapshotTools, take_snapshot
from seamline.sync.span_loop import run_stream
from seamline_spark.compare.main import compare_destination
from tests.fault.real import plants

DESTINATION = "warehouse"
# By it a transfer of a thousand legs is spilled in chunks.
SMALL_CHUNKS = Pace(chunk_rows_max=400, poll_records_max=200)
FENCED, TRANSIENT, FINAL = 3, 4, 5


class OrdersInFile:
    """StreamControl through two small files, each replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self._orders = folder / "orders.json"
        self._report = folder / "report.json"

    def orders(self) -> Orders:
        document = json.loads(self._orders.read_text(encoding="utf-8"))
        return Orders(**document | {"apply_to": document["apply_to"] and position_from_json(document["apply_to"])})

    def report(self, report: StreamReport) -> None:
        document = {"state": report.state, "hold_id": report.hold_id, "next_offset": report.next_offset}
        write_whole(self._report, json.dumps(document))


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
        write_orders(self._folder, Orders(hold_id=hold_id, hold_until_s=2e9))
        return hold_id

    def release(self, hold_id: str) -> None:
        del hold_id
        write_orders(self._folder, Orders())

    def extend(self, hold_id: str, *, lease_s: float) -> None: ...

    def apply_up_to(self, hold_id: str, position: Position) -> None:
        write_orders(self._folder, Orders(hold_id=hold_id, hold_until_s=2e9, apply_to=position))

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


class VerdictsInFile:
    """seamline_spark.compare.main.Reconciliations: every one that was saved, a line each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def newest_evidence(
        self, sync: str, destination: str, scope: str, *, key: str, but_of_run: str
    ) -> Mapping[str, object]:
        del sync, destination, scope, key, but_of_run
        return {}

    def save_reconciliation(self, reconciliation: Reconciliation) -> None:
        document = {table.table: [table.verdict, table.reason] for table in reconciliation.tables}
        with (self._folder / "verdicts.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")


class ListInFile:
    """CaptureRegistry of the one source of this folder. Its lock ends with the process that has it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "registry.json"
        self._lock = folder / "registry.lock"

    @contextmanager
    def locked(self, source: str) -> Iterator[None]:
        del source
        with self._lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def tables(self, source: str) -> tuple[int, tuple[str, ...]]:
        del source
        generation, tables = json.loads(self._file.read_text(encoding="utf-8"))
        return int(generation), tuple(tables)

    def set_tables(self, source: str, *, generation: int, tables: Sequence[str]) -> None:
        del source
        write_whole(self._file, json.dumps([generation, list(tables)]))


def write_orders(folder: Path, orders: Orders) -> None:
    document = asdict(orders) | {"apply_to": orders.apply_to and position_to_json(orders.apply_to)}
    write_whole(folder / "orders.json", json.dumps(document))


def write_whole(file: Path, text: str) -> None:
    """Who reads it meets the old text or the new one."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
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
        schema_guard = registry.schema_guard(plan)
        if schema_guard is not None:
            opened.enter_context(closing(schema_guard))
        run_stream(
            plan,
            DESTINATION,
            reader=opened.enter_context(closing(registry.log_reader(plan))),
            sink=opened.enter_context(closing(registry.sink(plan, DESTINATION))),
            control=OrdersInFile(folder),
            schema_guard=schema_guard,
            failpoints=registry.failpoints(),
            pace=SMALL_CHUNKS if (folder / "small_chunks").exists() else None,
        )


def snapshot(folder: Path) -> None:
    run, change, records = run_of(folder), change_of(folder), RecordsInFile(folder)
    run = run if change is None else entering_only(run, change)
    reader = RunReader(run, tasks=lambda _: 2, copying_of=lambda groups, _: CopyingHere(groups))
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
    tools = JoinTools(
        director=DirectorInFile(folder),
        open_log=lambda: registry.log_reader(run.plan),
        open_sink=lambda plan: registry.sink(plan, DESTINATION),
        open_schema_guard=registry.schema_guard,
        failpoints=armed(),
    )
    join_stream(run, DESTINATION, change, tools=tools)


def compare(folder: Path) -> None:
    """Ends well only where something was compared; whether it was equal stands in `verdicts.jsonl`."""
    found = compare_destination(
        run_of(folder),
        DESTINATION,
        records=VerdictsInFile(folder),
        director=DirectorInFile(folder),
        failpoints=armed(),
    )
    if found.verdict not in (Verdict.MATCH, Verdict.BREAK):
        raise TransientError("; ".join(f"{table.table}: {table.reason}" for table in found.tables))


def capture(folder: Path) -> None:
    wanted = json.loads((folder / "capture.json").read_text(encoding="utf-8"))
    plan = run_of(folder).plan
    plan = replace(plan, tables=tuple(TablePlan(name) for name in wanted["tables"]))
    ensure_capture(
        plan,
        registry=ListInFile(folder),
        connect=DebeziumCapture(
            plan.source, client=ConnectClient(resolve("connect")), endpoint=endpoint_from_json(wanted["endpoint"])
        ),
        topics=PlannedTopics(plan.source, CaptureTopics(client_settings(resolve("kafka")))),
        source=registry.source(plan),  # type: ignore[arg-type]
        open_log=lambda: registry.log_reader(plan),
        failpoints=armed(),
    )


def pin(folder: Path) -> None:
    """What a nightly run compares is held; nothing is compared."""
    run, plan, destination, kind = _cutting(folder)
    held = kind.pin_live(plan, destination, 1, run_id=run.run_id)
    document = {"position": position_to_json(held.views[0].position), "staged_as": dict(held.staged_as)}
    write_whole(folder / "pinned.json", json.dumps(document))


def cut(folder: Path) -> None:
    """The cut of the date in `business_date`, of what the run holds."""
    run, _, destination, kind = _cutting(folder)
    held = json.loads((folder / "pinned.json").read_text(encoding="utf-8"))
    day = date.fromisoformat((folder / "business_date").read_text(encoding="utf-8"))
    tables = tuple(StagedTable(name, CutMode.WHOLE, at, 1, Verdict.MATCH) for name, at in held["staged_as"].items())
    staged = StagedCut(
        run.run_id, run.plan.sync, DESTINATION, day, position_from_json(held["position"]), datetime.now(UTC), tables
    )
    with closing(kind.open_cuts(destination)) as cuts:
        cuts.publish(staged, definitions={}, signed_by="")


def _cutting(folder: Path) -> tuple[Run, SyncPlan, DestinationPlan, CutsLiveTables]:
    run = run_of(folder)
    destination = run.plan.destination(DESTINATION)
    kind = sink_kind(destination.kind)
    assert isinstance(kind, CutsLiveTables)
    return run, replace(run.plan, nightly=NightlyPlan()), destination, kind


def endpoint_from_json(document: dict[str, Any]) -> CaptureEndpoint:
    return CaptureEndpoint(**{**document, "tls": Tls(**document["tls"])})


def armed() -> Failpoints:
    return registry.failpoints() or failpoints.ArmedFailpoints()


WORK: dict[str, Callable[[Path], None]] = {
    "stream": stream,
    "snapshot": snapshot,
    "publish": put_in_place,
    "join": join,
    "compare": compare,
    "capture": capture,
    "pin": pin,
    "cut": cut,
}


def main(what: str, folder: str) -> int:
    plants.make_wrong(settings.process_environment())
    try:
        WORK[what](Path(folder))
    except SeamlineError as exc:
        sys.stderr.write(f"{what}: {type(exc).__name__}: {exc}\n")
        return outcome_of(exc)
    return 0


def work_in_a_fork(what: str, folder: str, log: str, environment: Mapping[str, str]) -> None:
    """The whole life of a process that was forked. It leads a session, by which all that it starts can be found."""
    os.setsid()
    with Path(log).open("ab") as output:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(output.fileno(), stream.fileno())
    # A fork has the environment of whoever forked it, which is the first one's.
    os.environ.clear()  # noqa: TID251 (a process of its own is given its own)
    os.environ.update(environment)  # noqa: TID251
    sys.exit(main(what, folder))


def outcome_of(error: SeamlineError) -> int:
    if isinstance(error, Fenced):
        return FENCED
    return TRANSIENT if isinstance(error, TransientError | CommitUnknown) else FINAL


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
