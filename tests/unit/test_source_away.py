"""A stream whose source is away: what the log proves is applied, and nothing else; then it waits, and says for what."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from seamline.domain.catalogue_fingerprints import CatalogueFingerprints, fingerprints_in
from seamline.domain.errors import LogCorrupted, SchemaConflict, TransientError
from seamline.domain.log import LogRecord
from seamline.domain.position import Position
from seamline.plan.model import StreamPlan
from seamline.ports import Orders, StreamReport
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.position import PostgresPosition
from seamline.sync.pace import Pace
from seamline.sync.schema_proof import OpenLog
from seamline.sync.span_loop import run_stream
from tests.log_topic import ACCOUNT, LogTopic, TopicReader, gtid, insert, position, sync_plan
from tests.unit.test_span_loop import Stage, published

PLANNED = {"account": "as planned", "transfer": "as planned", "audit": "as planned"}
AWAY = "PostgreSQL at bank.example:5432 (connection `bank_reader`) is away or busy: connection refused"


@dataclass
class Guard:
    """ports.SchemaGuard of a source that is away until a test lets it come back."""

    is_away: bool = True
    altered: str = ""
    verified: Position | None = None
    asked: list[Position] = field(default_factory=list)

    def verify(self, through: Position) -> None:
        self.asked.append(through)
        if self.is_away:
            raise TransientError(AWAY)
        if self.altered:
            raise SchemaConflict(self.altered)
        self.verified = through

    def is_as_planned(self, fingerprints: Mapping[str, str]) -> bool:
        return dict(fingerprints) == PLANNED

    def close(self) -> None:
        return


class Waiting:
    """StreamControl: wanted until the stream has said often enough that it waits, or has nothing more to do."""

    def __init__(self, reader: TopicReader, *, times: int = 2, then: Callable[[], None] | None = None) -> None:
        self._reader, self._times, self._then = reader, times, then
        self.given = Orders()
        self.reports: list[StreamReport] = []

    def orders(self) -> Orders:
        if sum(one.state == "waiting" for one in self.reports) >= self._times:
            if self._then is None:
                return Orders(wanted=False)
            then, self._then, self._times = self._then, None, self._times + 100
            then()
        return self.given if self._reader.idle_polls < 2 else Orders(wanted=False)

    def report(self, report: StreamReport) -> None:
        self.reports.append(report)


def heartbeat(log: LogTopic, through: int, fingerprints: Mapping[str, str] = PLANNED) -> None:
    """One that says what the catalogue was when the log had reached this transaction."""
    log.marker(f"beat-{log.end}", "heartbeat", CatalogueFingerprints(position(through), fingerprints).to_payload())


def rows(log: LogTopic, first: int, last: int) -> None:
    for number in range(first, last + 1):
        log.transaction(insert(ACCOUNT, id=number, name="a"))


def proven_up_to_six() -> LogTopic:
    """Rows 1 to 10, each in a transaction; the newest heartbeat but one speaks of the sixth, the newest of an altered
    table."""
    log = LogTopic()
    rows(log, 1, 3)
    heartbeat(log, 3)
    # The transactions 5 to 7, for the heartbeat was one too.
    rows(log, 4, 6)
    heartbeat(log, 7)
    rows(log, 7, 10)
    heartbeat(log, 12, {**PLANNED, "account": "altered"})
    return log


def stage_of(log: LogTopic, *, changes_max: int = 50_000) -> Stage:
    return Stage(log, published(), plan=sync_plan(stream=StreamPlan(span_changes_max=changes_max)))


def run(
    stage: Stage, guard: Guard, control: Waiting, *, pace: Pace | None = None, open_log: OpenLog | None = None
) -> StreamReport:
    return run_stream(
        stage.plan,
        "warehouse",
        reader=stage.reader,
        sink=stage.sink,
        control=control,
        schema_guard=guard,
        open_log=open_log or (lambda: TopicReader(stage.log)),
        clock=stage.clock,
        pace=pace,
    )


def applied(stage: Stage) -> list[int]:
    return sorted(row["id"] for row in stage.destination.rows(ACCOUNT))


@pytest.mark.parametrize("changes_max", [1, 2, 50_000])
def test_all_that_the_log_proves_is_applied_and_nothing_else(changes_max: int) -> None:
    """Also where heartbeats lie further on than a span reaches."""
    stage = stage_of(proven_up_to_six(), changes_max=changes_max)
    control = Waiting(stage.reader)
    run(stage, Guard(), control)
    assert applied(stage) == [1, 2, 3, 4, 5, 6]
    last = control.reports[-2]
    assert (last.state, last.next_offset) == ("waiting", stage.ledger.next_offset)
    behind = stage.log.end - stage.ledger.next_offset
    assert last.error == f"{behind:,} records behind position {last.position} cannot be verified without it: {AWAY}"


class ServesPast(Guard):
    """Planted: it takes for verified what lies one transaction behind."""

    def verify(self, through: Position) -> None:
        self.verified = BinlogPosition(gtid(9), "mdb-bin.000001", 9999)
        super().verify(through)


class TakesAnyMarks(Guard):
    """Planted: an altered table is one as planned to it."""

    def is_as_planned(self, fingerprints: Mapping[str, str]) -> bool:  # noqa: ARG002
        return True


@pytest.mark.parametrize("planted", [ServesPast, TakesAnyMarks])
def test_a_guard_that_serves_past_what_it_has_verified_is_caught(planted: type[Guard]) -> None:
    with pytest.raises(AssertionError):
        stage = stage_of(proven_up_to_six())
        run(stage, planted(), Waiting(stage.reader))
        assert applied(stage) == [1, 2, 3, 4, 5, 6]


def test_marks_of_a_place_behind_their_own_transaction_are_not_believed() -> None:
    """The reader's connection leads to another server, whose log is further."""
    log = LogTopic()
    rows(log, 1, 3)
    heartbeat(log, 100)
    rows(log, 4, 5)
    stage = stage_of(log)
    run(stage, Guard(), Waiting(stage.reader))
    assert applied(stage) == []


def test_a_heartbeat_that_speaks_of_the_planned_tables_proves_also_what_an_earlier_one_could_not() -> None:
    log = LogTopic()
    rows(log, 1, 2)
    heartbeat(log, 2, {"account": "as planned"})
    rows(log, 3, 4)
    heartbeat(log, 5)
    stage = stage_of(log)
    run(stage, Guard(), Waiting(stage.reader))
    assert applied(stage) == [1, 2, 3, 4]


class Unreadable(TopicReader):
    """What is wrong with the log further on."""

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        raise LogCorrupted("a batch is damaged")


def test_a_log_that_cannot_be_read_ahead_proves_nothing_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    stage, guard = stage_of(proven_up_to_six()), Guard()
    control = Waiting(stage.reader, times=3)
    run(stage, guard, control, open_log=lambda: Unreadable(stage.log))
    assert applied(stage) == []
    assert control.reports[-2].state == "waiting"
    # Three reports are fifteen seconds.
    assert 0 < sum("cannot be read ahead" in one.message for one in caplog.records) <= 2


def test_the_stream_goes_on_by_itself_when_the_source_is_back() -> None:
    stage, guard = stage_of(proven_up_to_six()), Guard()

    def come_back() -> None:
        guard.is_away = False

    control = Waiting(stage.reader, then=come_back)
    run(stage, guard, control)
    assert applied(stage) == list(range(1, 11))
    assert (control.reports[-2].state, control.reports[-2].error) == ("catching_up", "")
    assert stage.destination.findings == []


def test_a_source_that_comes_back_altered_stops_the_stream_at_what_was_proven() -> None:
    stage, guard = stage_of(proven_up_to_six()), Guard(altered="account.name is now text")

    def come_back() -> None:
        guard.is_away = False

    with pytest.raises(SchemaConflict, match="account.name is now text"):
        run(stage, guard, Waiting(stage.reader, then=come_back))
    assert applied(stage) == [1, 2, 3, 4, 5, 6]


def test_a_large_transaction_that_is_not_proven_waits_in_its_chunks() -> None:
    log = LogTopic()
    rows(log, 1, 1)
    heartbeat(log, 1)
    log.transaction(*[insert(ACCOUNT, id=n, name="a") for n in range(2, 22)])
    stage, guard = stage_of(log, changes_max=1), Guard()
    stage.reader = TopicReader(log, at_most=4)

    def come_back() -> None:
        guard.is_away = False

    control = Waiting(stage.reader, then=come_back)
    run(stage, guard, control, pace=Pace(chunk_rows_max=8))
    assert applied(stage) == list(range(1, 22))
    # One for the trouble of the first commit; the chunks were not lost and read again.
    assert stage.ledger.epoch <= 4


@pytest.mark.parametrize(
    ("given", "state"), [(Orders(paused=True), "paused"), (Orders(hold_id="h", hold_until_s=9e9), "held")]
)
def test_orders_are_obeyed_while_it_waits(given: Orders, state: str) -> None:
    stage = stage_of(proven_up_to_six())

    def order() -> None:
        control.given = given

    control = Waiting(stage.reader, then=order)
    control_orders = control.orders

    def until_it_stands() -> Orders:
        return Orders(wanted=False) if control.reports[-1].state == state else control_orders()

    control.orders = until_it_stands  # type: ignore[method-assign]
    assert run(stage, Guard(), control).state == "stopped"
    assert [one.state for one in control.reports[-3:]] == ["waiting", state, "stopped"]


def test_a_hold_that_asks_for_more_than_is_proven_gets_that_it_waits() -> None:
    """Whoever compares asks the source as well, and gives up when his lease has ended."""
    stage = stage_of(proven_up_to_six())
    control = Waiting(stage.reader)
    control.given = Orders(hold_id="h", hold_until_s=9e9, apply_to=position(11))
    run(stage, Guard(), control)
    assert applied(stage) == [1, 2, 3, 4, 5, 6]
    assert "held" not in [one.state for one in control.reports]


def test_what_changes_no_table_needs_no_proof() -> None:
    log = LogTopic()
    for _ in range(3):
        log.transaction()
    stage, guard = stage_of(log), Guard()
    run(stage, guard, Waiting(stage.reader))
    assert (guard.asked, stage.ledger.applied_transactions) == ([], 3)


def test_marks_come_out_of_a_payload_as_they_went_in() -> None:
    fingerprints = CatalogueFingerprints(PostgresPosition(7), {"account": "m"})
    assert fingerprints_in(fingerprints.to_payload()) == fingerprints


@pytest.mark.parametrize(
    "payload",
    [None, {}, [], "x", {"catalogue": 1}, {"catalogue": {"through": {}, "tables": {}}}, {"catalogue": {"tables": {}}},
     {"catalogue": {"through": {"kind": "postgres", "lsn": 1}, "tables": {}}}],
)  # fmt: skip
def test_a_payload_without_marks_or_with_others_has_none(payload: object) -> None:
    assert fingerprints_in(payload) is None
