"""A bank that is written to all the time, its stream into a warehouse, and what befalls whatever works on it.

Afterwards a process that has ended is started again, as its host or Airflow would, and nothing else is done by hand.
"""

import json
import signal
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path

from seamline import settings
from seamline.adapters.failpoints import Mode
from seamline.domain.errors import TransientError
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.list_change import ListChange
from seamline.plan.model import TablePlan
from seamline.ports import Marker, Orders
from tests.fault.real.anomalies import Commit, Stop, check_commits, check_rows, check_stops, value_differences
from tests.fault.real.bank_plus import (
    MODELLED,
    PAUSE_S_MAX,
    TABLES,
    TYPED,
    BankWriters,
    bank_writers,
    open_accounts,
    open_types,
    still_keys,
    typed_keys,
)
from tests.fault.real.history import History
from tests.fault.real.kinds import PAIRS, SESSIONS
from tests.fault.real.log_replay import LogReplay, Rows, differences
from tests.fault.real.warehouse import Warehouse, counted
from tests.fault.real.worker import DESTINATION, FENCED, FINAL, TRANSIENT, ListInFile, write_orders, write_whole
from tests.fault.real.workers import OF_A_READER, Worker, started
from tests.integration.captured import Captured
from tests.waiting import wait_until

RECOVERY_MAX_S = 60.0
# A case in which the warehouse saw fewer commits has checked too little.
COMMITS_MIN = 40
LOADED_AGAIN = ("account", "audit", TYPED)
_TYPED_SHOWN = 2
_DIES_WITHIN_S = 120.0
_ENDS_WITHIN_S = 60.0
_ATTEMPTS_MAX = 5
# How long a place is waited at. Inside of a transaction it is longer than the warehouse lets one idle.
_WAITS_S = {"app.dml_half": 17.0}
_WAITS_ELSE_S = 2.0
# How long a second attempt works beside one that sleeps, unless it ends before, or stands behind its lock.
_BESIDE_S = 10.0
# How each of two attempts side by side may end: a snapshot finds what it had staged cleared away by the other, of two
# passes the newer epoch wins. The attempt after both has to succeed.
_ENDS_OF_TWO = {
    "snapshot": (0, FINAL),
    "publish": (0, TRANSIENT),
    "join": (0, TRANSIENT, FENCED),
    "compare": (0, TRANSIENT),
    "capture": (0, TRANSIENT),
    "pin": (0, TRANSIENT),
    "cut": (0, TRANSIENT),
}
# An error of a COMMIT that was sent is a lost answer, which ends no stream.
_SURVIVED = "app.commit_sent"
# Reached only by a stream that was just published, before its boundaries have ended.
_OF_A_CUTOVER = ("cut.overlap_ended",)
# Reached only where a transaction is larger than memory.
_OF_CHUNKS = ("app.chunk_staged",)
KILLED = -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Case:
    """What happened at one failpoint. `commits`: how many the warehouse has checked from before it until after it."""

    source: str
    failpoint: str
    mode: Mode
    hit: int
    recovery_s: float
    commits: int
    transfers: int
    violations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """How many commits and transfers were looked at, and what is wrong with them or with the rows."""

    commits: int
    transfers: int
    violations: tuple[str, ...]


@dataclass
class BankUnderFire:
    """Each `disturb_…` leaves the stream stopped and the destination compared."""

    kind: str
    source: Captured
    warehouse: Warehouse
    writers: BankWriters
    replay: LogReplay
    folder: Path
    stops: list[Stop] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    # What a stream's process finds in its environment beside what this one has.
    of_streams: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    # Tables that are captured and belong to no stream.
    more: list[str] = field(default_factory=list)

    @property
    def pair(self) -> str:
        """As reports name it."""
        return PAIRS[self.kind].name

    # ---- cases ----------------------------------------------------------------------------------------------------

    def disturb_stream(self, failpoint: str, mode: Mode, hit: int) -> Case:
        before = self._at_rest()
        if failpoint in _OF_A_CUTOVER:
            self._load_all()
        small_chunks = self.folder / "small_chunks"
        small_chunks.unlink(missing_ok=True)
        if failpoint in _OF_CHUNKS:
            small_chunks.touch()
        worker = self.start("stream", f"{failpoint}={mode}@{hit}")
        is_hold = failpoint == "app.hold"
        if is_hold:
            self._hold_again_and_again(worker)
        with self.writers.with_batches() if failpoint in _OF_CHUNKS else nullcontext():
            began = self._happened(worker, failpoint, mode)
        goes_on = mode is Mode.WAIT or (mode is Mode.ERROR and failpoint == _SURVIVED)
        if mode is Mode.ERROR and not goes_on:
            self.ended(worker, within_s=_ENDS_WITHIN_S, wanted=(TRANSIENT,))
        if goes_on:
            self.order(Orders())
        elif is_hold:
            self._stand_and_go_on()
        else:
            self.start("stream")
        recovery_s = self.recovered(began)
        if mode is Mode.STOP:
            worker.wake()
            # Its successor has ended its session. Amid a chunk it does not ask the ledger why, and whoever starts it
            # again asks first what is wanted.
            wanted = (FENCED, TRANSIENT) if failpoint in _OF_CHUNKS else (FENCED,)
            self.ended(worker, within_s=_ENDS_WITHIN_S, wanted=wanted)
        return self._checked(Case(self.pair, failpoint, mode, hit, recovery_s, 0, 0, ()), before)

    @property
    def _wanted_of_replaced(self) -> Sequence[int]:
        """How a stream ends whose tables are published. In Delta it may meet them before the ledger names them."""
        return (FENCED, TRANSIENT) if self.kind == "delta" else (FENCED,)

    def disturb_onboarding(self, failpoint: str, mode: Mode) -> Case:
        """The sync is onboarded again while its stream runs; something happens to its snapshot, or its publish."""
        before = self._at_rest()
        stream = self.start("stream")
        self._new_run()
        began = time.monotonic()
        for step, prefixes in (("snapshot", ("snap.",)), ("publish", ("pub.", "lake."))):
            if failpoint.startswith(prefixes):
                began = self._disturbed(step, failpoint, mode)
            self._done(step)
        # The publish has taken the stream from whoever had it; a fenced stream is started by the onboarding alone.
        self.ended(stream, within_s=_ENDS_WITHIN_S, wanted=self._wanted_of_replaced)
        self.start("stream")
        recovery_s = self.recovered(began)
        return self._checked_with_types(Case(self.pair, failpoint, mode, 1, recovery_s, 0, 0, ()), before)

    def disturb_first_publish(self, failpoint: str, mode: Mode) -> Case:
        """The destination has no table yet: behind the COMMIT they are published, and wait for their names."""
        self._at_rest()
        self.warehouse.forget_all()
        self._new_run()
        self._done("snapshot")
        began = self._disturbed("publish", failpoint, mode)
        self._done("publish")
        self.warehouse.audit()
        self.commits.clear()
        self.start("stream")
        recovery_s = self.recovered(began)
        return self._checked_with_types(Case(self.pair, failpoint, mode, 1, recovery_s, 0, 0, ()), 0)

    def disturb_joining(self, failpoint: str, mode: Mode) -> Case:
        """A table with a key and one without are loaded again while the stream runs; their joining is disturbed."""
        before = self._at_rest()
        stream = self.start("stream")
        self._new_run()
        write_whole(self.folder / "change.json", json.dumps(ListChange(again=LOADED_AGAIN).as_json()))
        try:
            self._done("snapshot")
            began = self._disturbed("join", failpoint, mode)
            # The hold of the one that died ends with its lease.
            self.order(Orders())
            self._done("join")
        finally:
            (self.folder / "change.json").unlink()
        self.ended(stream, within_s=_ENDS_WITHIN_S, wanted=self._wanted_of_replaced)
        self.start("stream")
        recovery_s = self.recovered(began)
        return self._checked_with_types(Case(self.pair, failpoint, mode, 1, recovery_s, 0, 0, ()), before)

    def disturb_comparison(self, failpoint: str, mode: Mode) -> Case:
        """All tables are compared at one position; afterwards they are, whatever became of the first attempt."""
        before = self._at_rest()
        self.start("stream")
        self.recovered(time.monotonic())
        self._new_run()
        verdicts = self.folder / "verdicts.jsonl"
        verdicts.unlink(missing_ok=True)
        began = self._disturbed("compare", failpoint, mode)
        # The hold of the one that died ends with its lease.
        self.order(Orders())
        self._done("compare")
        recovery_s = self.recovered(began)
        case = self._checked(Case(self.pair, failpoint, mode, 1, recovery_s, 0, 0, ()), before)
        saved = [json.loads(line) for line in verdicts.read_text(encoding="utf-8").splitlines()]
        assert [verdict for verdict, _ in saved[-1].values()] == [Verdict.MATCH] * len(TABLES)
        # The disturbed one may have failed; what it must not do is see a difference where there is none.
        wrong = [f"{name}: {said}" for one in saved for name, said in one.items() if said[0] == Verdict.BREAK]
        return replace(case, violations=(*case.violations, *wrong))

    def disturb_capture(self, failpoint: str, mode: Mode) -> Case:
        """One more table is captured while the stream runs; whoever changes the list is disturbed."""
        before = self._at_rest()
        self.start("stream")
        table = f"more_{next(self.numbers)}"
        self.more.append(table)
        wanted = self.source.with_tables(*TABLES, *self.more)
        self.source.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY)", *self.source.publishing(table))
        self.source.grant(wanted)
        order = {"endpoint": asdict(self.source.endpoint), "tables": [one.name for one in wanted.tables]}
        write_whole(self.folder / "capture.json", json.dumps(order))
        began = self._disturbed("capture", failpoint, mode)
        self._done("capture")
        _, captured_now = ListInFile(self.folder).tables("")
        assert table in captured_now
        assert self.source.connector.carries(captured_now)
        self.source.execute(f"INSERT INTO {table} VALUES (1)")
        recovery_s = self.recovered(began)
        case = self._checked(Case(self.pair, failpoint, mode, 1, recovery_s, 0, 0, ()), before)
        found = self.replay.row_count(table)
        if found == 1:
            return case
        return replace(case, violations=(*case.violations, f"{found} rows of {table} are in the log"))

    def _disturbed(self, step: str, failpoint: str, mode: Mode) -> float:
        """One attempt at a step of a run, disturbed and over; when it happened. It counts only if the next finds it."""
        worker = self.start(step, f"{failpoint}={mode}@1")
        began = self._happened(worker, failpoint, mode)
        if mode is Mode.STOP:
            beside, until = self.start(step), began + _BESIDE_S
            wait_until(
                lambda: beside.is_over or self.warehouse.has_queue() or time.monotonic() > until,
                timeout_s=2 * _BESIDE_S,
                what="the second attempt",
            )
            worker.wake()
            for one in (worker, beside):
                self.ended(one, within_s=_DIES_WITHIN_S, wanted=_ENDS_OF_TWO[step])
        elif mode is not Mode.KILL9:
            self.ended(worker, within_s=_DIES_WITHIN_S, wanted=(0, TRANSIENT))
        return began

    def _happened(self, worker: Worker, failpoint: str, mode: Mode) -> float:
        """Wait until it was killed, failed, fell asleep there, or has waited long enough; when."""
        if mode is Mode.KILL9:
            return self._killed(worker, failpoint)
        wait_until(lambda: worker.came_to(failpoint), timeout_s=_DIES_WITHIN_S, what=f"{worker.what} at {failpoint}")
        began = time.monotonic()
        if mode is Mode.STOP:
            wait_until(worker.asleep, timeout_s=20, what=f"{worker.what} asleep")
        elif mode is Mode.WAIT:
            until = began + _WAITS_S.get(failpoint, _WAITS_ELSE_S)
            wait_until(lambda: time.monotonic() > until, timeout_s=60, what="the wait to be long enough")
            worker.disarm()
        return time.monotonic()

    def onboard(self) -> None:
        """The first one, which nobody disturbs; from its publish on the warehouse looks at each commit."""
        self._load_all()
        self.warehouse.audit()

    def _load_all(self) -> None:
        self._new_run()
        self._done("snapshot")
        self._done("publish")

    def stop_stream(self) -> None:
        self.order(Orders(wanted=False))
        self.ended(self.stream, within_s=_ENDS_WITHIN_S, wanted=(0,))

    def apply_all(self) -> None:
        """Until everything that the source has committed by now is in the warehouse, and the stream has stopped."""
        self.order(Orders())
        self.start("stream")
        self.recovered(time.monotonic())
        self.stop_stream()

    # ---- checks ---------------------------------------------------------------------------------------------------

    def state_differences(self) -> list[str]:
        """I3: the warehouse against the replay of the log up to the ledger's offset, row for row."""
        offset, rows = self.warehouse.state()
        self.replay.advance(offset)
        return differences(rows, self.replay.rows())

    def new_commits(self) -> tuple[list[Commit], list[str]]:
        """The warehouse's commits since the last call, and what is wrong with them."""
        new = self.warehouse.commits(after=self.commits[-1].number if self.commits else 0)
        # With the last one of before: the first new commit must follow it.
        found = check_commits([*self.commits[-1:], *new])
        self.commits += new
        return new, [str(one) for one in found]

    def at_the_end(self) -> list[str]:
        """Whatever is wrong once the writers have stopped: with the rows, the history of the clients, what is left."""
        self.writers.stop()
        self.apply_all()
        _, rows = self.warehouse.state()
        history = self.writers.history.attempts
        _, anomalies = self.new_commits()
        if len(self.commits) != self.warehouse.commits_seen():
            anomalies.append(f"{self.warehouse.commits_seen()} commits were seen, {len(self.commits)} were checked")
        anomalies += [f"commits have gone by unseen: no trigger {name}" for name in self.warehouse.missing_audit()]
        anomalies += [str(one) for one in (*check_rows(history, self.warehouse.dump()), *check_stops(self.stops))]
        anomalies += self.state_differences()
        anomalies += [f"not as the source: {said}" for said in differences(rows, self.source_rows())]
        anomalies += self.typed_differences(typed_keys(self.kind))
        anomalies += [f"left behind: {name}" for name in self.warehouse.leftovers()]
        if self.warehouse.findings():
            anomalies.append(f"{self.warehouse.findings()} findings")
        return anomalies

    def typed_differences(self, keys: Sequence[str]) -> list[str]:
        """I7 in the rows of these keys. Nothing of them must be on its way."""
        (table,) = self.source.source.catalogue([TYPED])
        (here,) = self.source.source.open_views(1)
        with closing(here), closing(self.warehouse.view_of(table, at=here.position)) as there:
            wanted, found = (view.rows(TYPED, keys) for view in (here, there))
        return value_differences(table, keys, wanted, found)[:_TYPED_SHOWN]

    def source_rows(self) -> Rows:
        return counted({table: self.source.rows(table) for table in MODELLED})

    def close(self) -> None:
        for worker in self.workers:
            if not worker.is_over:
                worker.kill()
        # Each keeps a file open by which its end is seen.
        self.workers.clear()

    def _checked(self, case: Case, before: int) -> Case:
        found = self.judged(before, case.recovery_s)
        return replace(case, commits=found.commits, transfers=found.transfers, violations=found.violations)

    def _checked_with_types(self, case: Case, before: int) -> Case:
        """After a load: the values that only it can have brought."""
        case = self._checked(case, before)
        return replace(case, violations=(*case.violations, *self.typed_differences(still_keys(self.kind))))

    def judged(self, before: int, recovery_s: float) -> Judged:
        """What the warehouse has checked since it had seen so many commits. The stream is stopped."""
        wait_until(
            lambda: self.warehouse.commits_seen() >= before + COMMITS_MIN,
            timeout_s=RECOVERY_MAX_S,
            what=f"{COMMITS_MIN} commits of the stream",
        )
        self.stop_stream()
        # What they wrote meanwhile would only make every comparison after it longer.
        with self.writers.resting():
            violations = self.state_differences()
            new, found = self.new_commits()
        violations += found
        transfers = sum(commit.transfers_checked for commit in new)
        if not transfers:
            violations.append("not one transfer was looked at")
        if recovery_s > RECOVERY_MAX_S:
            violations.append(f"it took {recovery_s:.0f} s to go on")
        if violations:
            # The databases and the topic of a run are dropped at its end.
            (self.folder / f"evidence-{next(self.numbers)}.txt").write_text(self.warehouse.evidence(), encoding="utf-8")
        return Judged(len(new), transfers, tuple(violations))

    def _at_rest(self) -> int:
        """Nothing of a case before is at work any more, also if it failed; how many commits there were."""
        self.close()
        self.order(Orders())
        return self.warehouse.commits_seen()

    @property
    def stream(self) -> Worker:
        """The newest of its processes."""
        return next(worker for worker in reversed(self.workers) if worker.what == "stream")

    # ---- processes ------------------------------------------------------------------------------------------------

    def start(self, what: str, arming: str = "") -> Worker:
        own = self.of_streams if what == "stream" else {}
        environment = settings.process_environment() | own
        worker = started(what, self.folder, number=next(self.numbers), arming=arming, environment=environment)
        self.workers.append(worker)
        return worker

    def ended(self, worker: Worker, *, within_s: float, wanted: Sequence[int]) -> None:
        code = worker.ended(within_s)
        self.stops.append(Stop(worker.what, code, tuple(wanted)))
        assert code in wanted, f"{worker.what} ended with {code}, wanted {wanted}: {worker.said()}"

    def _killed(self, worker: Worker, failpoint: str) -> float:
        """Wait until it has died there, with all that it had started; when it died."""
        wanted = (KILLED, TRANSIENT) if failpoint in OF_A_READER else (KILLED,)
        self.ended(worker, within_s=_DIES_WITHIN_S, wanted=wanted)
        began = time.monotonic()
        assert worker.came_to(failpoint), f"{failpoint} did not fire: {worker.fired}"
        wait_until(lambda: not worker.left(), timeout_s=20, what="the end of what the killed process had started")
        return began

    def _done(self, step: str) -> None:
        """A task of Airflow: tried again after an error that may pass."""
        for _ in range(_ATTEMPTS_MAX):
            worker = self.start(step)
            self.ended(worker, within_s=_DIES_WITHIN_S, wanted=(0, TRANSIENT))
            if worker.process.exitcode == 0:
                return
        raise AssertionError(f"{step} did not succeed in {_ATTEMPTS_MAX} attempts: {self.workers[-1].said()}")

    def recovered(self, began: float, *, within_s: float = RECOVERY_MAX_S) -> float:
        """Seconds since `began` until all that the source has committed by now is visible in the warehouse."""
        marker = Marker(id=f"t1-{uuid.uuid4().hex}", kind="barrier")
        wait_until(lambda: self._marks(marker), timeout_s=2 * within_s, what="the source to take a marker")
        wait_until(
            lambda: self.keep_streaming() and self.warehouse.last_marker() == marker.id,
            timeout_s=2 * within_s,
            what="the marker of now in the ledger",
        )
        return time.monotonic() - began

    def keep_streaming(self) -> bool:
        """As the stream host does: a stream that met trouble that may pass is started again."""
        worker = self.stream
        if worker.is_over:
            self.ended(worker, within_s=1, wanted=(TRANSIENT,))
            self.start("stream")
        return True

    def _marks(self, marker: Marker) -> bool:
        """A source that is away is asked again: the marker is one and the same."""
        with suppress(TransientError):
            self.source.source.commit_marker(marker)
            return True
        return False

    # ---- orders ---------------------------------------------------------------------------------------------------

    def order(self, orders: Orders) -> None:
        write_orders(self.folder, orders)

    def _hold_again_and_again(self, worker: Worker) -> None:
        """Let it stand and go on, each time for another holder, until it has come to the failpoint."""
        for hold in map(str, count(1)):
            self.order(Orders(hold_id=hold, hold_until_s=2e9))
            wait_until(
                lambda hold=hold: worker.fired or self._report() == ("held", hold),  # type: ignore[misc]
                timeout_s=_ENDS_WITHIN_S,
                what=f"hold {hold}",
            )
            if worker.fired:
                return
            self.order(Orders())
            wait_until(lambda: self._report()[0] != "held", timeout_s=_ENDS_WITHIN_S, what="the stream to go on")

    def _stand_and_go_on(self) -> None:
        """Its successor finds the stream held, stands, and goes on when it is let go."""
        self.order(Orders(hold_id="still", hold_until_s=2e9))
        (self.folder / "report.json").unlink(missing_ok=True)
        self.start("stream")
        wait_until(lambda: self._report() == ("held", "still"), timeout_s=_ENDS_WITHIN_S, what="the successor")
        self.order(Orders())

    def _report(self) -> tuple[str, str]:
        file = self.folder / "report.json"
        if not file.exists():
            return "", ""
        said = json.loads(file.read_text(encoding="utf-8"))
        return said["state"], said["hold_id"]

    def _new_run(self) -> None:
        (self.folder / "snapshot.json").unlink(missing_ok=True)
        write_whole(self.folder / "run_id", f"t1/onboard/-/{next(self.numbers)}")


@contextmanager
def bank_under_fire(kind: str, *, folder: Path, seed: str, pause_s_max: float = PAUSE_S_MAX) -> Iterator[BankUnderFire]:
    """Captured, onboarded and under writers; its stream is not started yet."""
    with ExitStack() as opened:
        pair = PAIRS[kind]
        one: Captured = opened.enter_context(pair.source())
        destination = opened.enter_context(pair.destination())
        one.plan = replace(one.with_tables(*TABLES), destinations=(destination,))
        one.ensure()
        definitions = tuple(TablePlan(table.name, table=table) for table in one.source.catalogue(TABLES))
        one.plan = replace(one.plan, tables=definitions)
        write_whole(folder / "plan.json", plan_to_json(one.plan))
        ListInFile(folder).set_tables("", generation=one.registry.generation, tables=one.registry.listed)
        log = LogReplay(one.open_log(), one.kafka.offsets(one.plan.source.log_topic)[0])
        opened.callback(log.close)
        with closing(SESSIONS[kind](one.root)) as session:
            open_accounts(session)
            open_types(session, kind)
        history = History(folder / "history.jsonl")
        writers = opened.enter_context(
            bank_writers(
                kind,
                lambda: SESSIONS[kind](one.root),
                history,
                seed=f"{seed}/{kind}",
                pause_s_max=pause_s_max,
            )
        )
        warehouse = opened.enter_context(closing(pair.warehouse(one.plan.stream_id(DESTINATION), destination)))
        bank = BankUnderFire(kind, one, warehouse, writers, log, folder)
        opened.callback(bank.close)
        wait_until(lambda: writers.committed > 50, timeout_s=60, what="writers at work")
        bank.onboard()
        yield bank
