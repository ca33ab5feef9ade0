"""One seed, one schedule of change files: owners of a stream that die, sleep, lose answers and take it from each other,
maintenance that merges and removes at the same time, and a reader who looks at every step."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pyarrow as pa

from seamline.domain.cutover import Boundary
from seamline.domain.errors import CommitUnknown, GateFailed, SeamlineError
from seamline.domain.ledger import LedgerRow
from seamline.domain.log import Span
from seamline.files.dialect import Dialect
from seamline.files.stores.store import Store, Writable
from seamline.plan.model import DestinationPlan
from seamline.ports import Progress
from seamline.sinks.files.changes.change_files import Read, reader_of
from seamline.sinks.files.changes.fold import folded
from seamline.sinks.files.changes.log import ChangesLog
from seamline.sinks.files.changes.maintenance import ChangesMaintenance
from seamline.sinks.files.changes.sink import ChangeFilesSink
from seamline.sinks.files.changes.state import ChangeFile, ChangesState, HeldTable, StreamState
from seamline.sinks.files.spec import ChangeFilesDestination
from seamline.values.build import rows_of
from tests.contract.behaviours import Applying
from tests.fault.simulator.file_places import Place, SteppedStore
from tests.fault.simulator.schedule import Crash, Odds, Process, Schedule, Violation
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TOPIC, TOPIC_ID, Change, delete, insert, position, sync_plan, update
from tests.opened_sink import decoder_of

TABLES = (ACCOUNT, AUDIT)
_SPANS = 10
_TRIES = 4
Rows = tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]


def changes_of(number: int) -> list[Change]:
    """What the span of this number does: with a key each sort of change, without one also a copy that goes."""
    found = [insert(ACCOUNT, id=number, name="new"), *[insert(AUDIT, actor="x", action=str(number % 2))] * 2]
    if number > 0:
        found.append(update(ACCOUNT, {"id": number - 1, "name": "new"}, {"id": number - 1, "name": "old"}))
        found.append(delete(AUDIT, actor="x", action=str((number - 1) % 2)))
    if number > 2:
        found.append(delete(ACCOUNT, id=number - 3, name="old"))
    return found


def rows_behind(spans: int) -> Rows:
    """What the tables hold once so many spans are committed."""
    accounts, audits = dict[int, str](), Counter[tuple[Any, ...]]()
    for number in range(spans):
        accounts[number] = "new"
        audits["x", str(number % 2)] += 2
        if number > 0:
            accounts[number - 1] = "old"
            audits["x", str((number - 1) % 2)] -= 1
        if number > 2:
            del accounts[number - 3]
    return Counter(accounts.items()), +audits


class Peek:
    """The place as it lies there, for the one who looks: no step of a schedule."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def names(self, folder: str) -> Sequence[str]:
        below = [path.removeprefix(f"{folder}/") for path in self._place.files if path.startswith(f"{folder}/")]
        return sorted({path.partition("/")[0] for path in below})

    def read(self, path: str, into: Writable) -> None:
        into.write(self.read_put(path))

    def read_put(self, path: str) -> bytes:
        if path not in self._place.files:
            raise FileNotFoundError(path)
        return self._place.files[path]

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self._place.files[path] = content
        return True


class ChangeFilesRun:
    """One stream into one place."""

    def __init__(self, seed: int) -> None:
        dice = self._dice = random.Random(seed)
        self.tally = Counter[str]()
        odds = Odds(
            crash=dice.choice([0.0, 0.01, 0.03]),
            transient=dice.choice([0.0, 0.01]),
            sleep=dice.choice([0.0, 0.02, 0.05]),
            lost_answer=dice.choice([0.0, 0.05]),
            switch=dice.choice([0.1, 0.5, 0.9]),
        )
        self.guarantee = dice.choice(["exactly_once", "at_least_once"])
        # Who does not read back meets a torn file when he compares.
        self.torn = dice.choice([0.0, 0.02]) if self.guarantee == "exactly_once" else 0.0
        self.schedule = Schedule(dice, odds, self.tally)
        self.place = Place(dice)
        self.peek = cast(Store, Peek(self.place))
        said = {"destination": "warehouse", "kind": "change_files", "location": "/srv/x", "format": "parquet"}
        keep = dice.choice([None, 1])
        declared = ChangeFilesDestination.model_validate(
            {**said, "changes": {"compact_from_files": dice.choice([2, 4]), "keep_days": keep}}
        )
        options = tuple(declared.options.items())
        self.destination = DestinationPlan("warehouse", "change_files", "", "/srv/x", options=options, no_cuts=True)
        self.plan = replace(sync_plan(TABLES), destinations=(self.destination,), guarantee=self.guarantee)
        self.working = Counter[str]()
        self.confirmed = self.looked_at = self._number = 0
        self._version = -1
        self._read: dict[tuple[str, str], tuple[bytes, list[pa.RecordBatch]]] = {}
        self._begin()

    def _begin(self) -> None:
        """As the first publish of two empty tables leaves it."""
        at = position(0)
        boundaries = tuple(Boundary(table.name, at, ended=True) for table in TABLES)
        row = LedgerRow(STREAM, TOPIC, TOPIC_ID, 0, at, 1, 0, 0, boundaries)
        tables = {table.name: HeldTable(table, "parquet", Dialect()) for table in TABLES}
        log = ChangesLog(self.peek, "settlement")
        log.decide(log.look(), ChangesState({STREAM: StreamState(row, tables, commits=1)}))

    def run(self) -> None:
        for number in range(_TRIES):
            self._spawn(f"owner {number}", self._own)
        for number in range(self._dice.randint(1, 4)):
            self._spawn(f"maintenance {number}", self._maintain)
        self.schedule.run(lambda: not sum(self.working.values()), each=self._look, what="the schedule's own end")
        self.schedule.quiet()
        self.torn = 0.0
        for work in (self._own, self._maintain):
            self._spawn("at last", work)
            self.schedule.run(lambda: not sum(self.working.values()), each=self._look, what="the end")
        self._look()
        if self.looked_at != _SPANS:
            raise Violation("stuck", f"{self.looked_at} of {_SPANS} spans were committed")
        self.tally["ends compared"] += 1

    def _spawn(self, name: str, work: Any) -> None:
        self.working[name] = 1

        def ended(process: Process, error: SeamlineError | Crash | None) -> None:
            self.working[name] = 0
            if error is not None:
                self.tally[f"ended by {type(error).__name__}"] += 1

        process = Process(name, on_end=ended)
        # So it may sleep.
        process.has_begun = True
        self.schedule.spawn(process, work)

    def _store(self) -> SteppedStore:
        return SteppedStore(self.place, self.schedule, torn=self.torn, tally=self.tally)

    # ---- who writes -------------------------------------------------------------------------------------------------

    def _own(self) -> None:
        """As the span loop: after a lost answer a new epoch, then what the ledger says."""
        sink = ChangeFilesSink(self.plan, self.destination, decoder=decoder_of(self.plan))
        sink._opened = self._store()
        lease = sink.acquire(STREAM)
        while (number := lease.ledger.next_offset // 10) < _SPANS:
            span = Span(number * 10, number * 10 + 10, 1, position(number + 1), 1_700_000_000_000 + number)
            batches = Applying.batches(cast(Any, None), *changes_of(number))
            try:
                commit = sink.commit(lease, [sink.stage(lease, one) for one in batches], progress=Progress(span))
                self.confirmed = max(self.confirmed, number + 1)
                self.tally["committed"] += 1
                lease = replace(lease, ledger=commit.ledger)
            except CommitUnknown:
                self.tally["answer of a commit lost"] += 1
                lease = sink.acquire(STREAM, after_epoch=lease.epoch)

    def _maintain(self) -> None:
        """As if a day passed with each call: what nothing names goes at once."""
        maintenance = ChangesMaintenance(self.destination, self._store())
        for _ in range(self._dice.randint(1, 5)):
            (log,) = map(maintenance._log, maintenance._syncs())
            self.tally["files merged"] += maintenance.compact(log, now=datetime.now(UTC) + timedelta(days=3))
            self.tally["files removed"] += maintenance.sweep(log, now=datetime.now(UTC) + timedelta(days=3))
            self.tally["manifests gone"] += log.compact(keep=1)

    # ---- who looks --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """By the newest manifest all rows are there, once, at the ledger's position, which never goes back."""
        if self.place.version == self._version:
            return
        self._version = self.place.version
        seen = ChangesLog(self.peek, "settlement").look()
        if seen.manifest.number == self._number:
            return
        self._number = seen.manifest.number
        state = seen.state.streams[STREAM]
        spans = state.row.next_offset // 10
        if spans < self.looked_at or spans < self.confirmed:
            raise Violation("lost", f"{spans} spans are there, {max(self.looked_at, self.confirmed)} were")
        self.looked_at = spans
        try:
            found, wanted = self._rows(state), rows_behind(spans)
        except GateFailed as exc:
            raise Violation("torn", exc.message) from exc
        if found != wanted:
            raise Violation("once", f"behind {spans} spans there are {found}, should be {wanted}")

    def _rows(self, state: StreamState) -> Rows:
        found = list[Counter[tuple[Any, ...]]]()
        for table in TABLES:
            held = state.tables[table.name]
            missing = [file.path for file in held.files if file.path not in self.place.files]
            if missing:
                raise Violation("gone", f"manifest {self._number} names {missing}, which are not there")
            with reader_of(self.peek, held) as read:
                batches = folded(table, held.files, self._unless_known(read))
                found.append(Counter(row for batch in batches for row in rows_of(table, batch)))
        return found[0], found[1]

    def _unless_known(self, read: Read) -> Read:
        """The changes of a file that lies there as it lay when it was read before: most of a manifest's are."""

        def changes(file: ChangeFile) -> Iterator[pa.RecordBatch]:
            content, name = self.place.files[file.path], (file.path, file.sha256)
            if name not in self._read or self._read[name][0] is not content:
                self._read[name] = content, list(read(file))
            return iter(self._read[name][1])

        return changes


def run_change_files(seed: int) -> Counter[str]:
    """Raises Violation, or gives what was met."""
    run = ChangeFilesRun(seed)
    try:
        run.run()
    finally:
        with suppress(Crash):
            run.schedule.end()
    return run.tally
