"""A capture is slowed down by the destination that is behind, and pauses before its log is full; nothing is lost."""

import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from seamline.adapters.connect.connector_config import LOG_MAX_GB
from seamline.adapters.connections import Connection
from seamline.domain.catch_up import LastLoad, RunningLoad
from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import GIB, Follower
from seamline.domain.log_kept import LogKept
from seamline.plan.model import StreamPlan
from seamline.ports import Orders
from seamline.sync import catch_up_watch
from seamline.sync.catch_up_watch import CATCH_UP
from seamline.sync.flow_control import CAPTURE_PAUSED, CAPTURE_SLOWED
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, finish, marker_in_log, replay
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.integration.streamed import Streamed, streamed
from tests.integration.watched import watched
from tests.waiting import wait_until

THROTTLED_WITHIN_S = 30
ROWS = 500
BEHIND_MAX = 1 << 20
# A destination that takes two seconds for a commit.
SLOW = (
    "CREATE FUNCTION live.sleep() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$",
    "CREATE TRIGGER slow AFTER INSERT ON live.account FOR EACH STATEMENT EXECUTE FUNCTION live.sleep()",
)


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("flow_test") as one:
        one.plan = replace(one.plan, source=replace(one.source_plan, log_behind_max_gb=BEHIND_MAX / GIB))
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("flow_warehouse") as connection:
        yield connection


class OneFollower:
    """`ports.Followers` of a stream of this process, by its ledger."""

    def __init__(self, stream: Streamed | None = None) -> None:
        self._stream = stream
        self.kept: Mapping[StreamId, LogKept] = {}

    def of(self, source: str) -> Sequence[Follower]:
        return (Follower(self._stream.stream, self._stream.ledger().next_offset),) if self._stream else ()

    def last_load(self, stream: StreamId) -> LastLoad | None:
        return None

    def running_loads(self, source: str) -> Sequence[RunningLoad]:
        return ()

    def cut_off(self, stream: StreamId, reason: str) -> None:
        raise AssertionError(reason)

    def note_kept(self, kept: Mapping[StreamId, LogKept]) -> None:
        self.kept = dict(kept)


class TwoFollowers(OneFollower):
    """Of two streams of this process, of which one may be cut off: it ends as its host ends it then."""

    def __init__(self, stays: Streamed, optional: Streamed, *, cut_off_gb: float) -> None:
        super().__init__(stays)
        self._optional, self._cut_off_gb = optional, cut_off_gb
        self.cut: list[str] = []

    def of(self, source: str) -> Sequence[Follower]:
        if self.cut:
            return super().of(source)
        optional = Follower(self._optional.stream, self._optional.ledger().next_offset, self._cut_off_gb)
        return (*super().of(source), optional)

    def cut_off(self, stream: StreamId, reason: str) -> None:
        assert stream == self._optional.stream
        self._optional.control.given = Orders(wanted=False)
        self.cut.append(reason)


@contextmanager
def filling(bank: Captured, every_s: float = 0.1, *, count: int = ROWS, first_id: int = 0) -> Iterator[None]:
    """Transactions of `count` rows that no compression makes small, one after another."""
    end = threading.Event()

    def fill() -> None:
        with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
            for first in range(first_id, first_id + 1_000_000, count):
                if end.is_set():
                    return
                rows = [(first + number, number, secrets.token_hex(100)) for number in range(count)]
                cursor.executemany("INSERT INTO account VALUES (%s, %s, %s)", rows)
                session.commit()
                end.wait(every_s)

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(timeout=60)


def test_a_slow_destination_slows_the_capture_down_within_30_s_and_lets_it_go_by_itself_and_nothing_is_lost(
    bank: Captured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "account", options=StreamPlan(span_changes_max=ROWS)) as stream:
        execute(warehouse, *SLOW)
        stream.start()
        stream.wait_until_it_runs()
        with watched(bank, followers=OneFollower(stream)) as alarms:
            with filling(bank):
                said = wait_until(
                    lambda: alarms.raised.get(CAPTURE_SLOWED, ""),
                    timeout_s=THROTTLED_WITHIN_S,
                    what="the capture slowed",
                )
                before, began = size_of(bank), time.monotonic()
                wait_until(lambda: time.monotonic() - began > 10, timeout_s=20, what="ten seconds of the quota")
                grown = (size_of(bank) - before) / (time.monotonic() - began)
            written = bank.rows_of("SELECT count(*) FROM account")[0][0]
            in_log = bank.kafka.offsets(bank.source_plan.log_topic)[1]
            print(f"slowed to {grown / 1024:.0f} KiB/s with {written} rows at the source, {in_log} offsets in the log")
            assert str(stream.stream) in said
            assert in_log < written, "what the source has written beyond that waits there"
            execute(warehouse, "DROP TRIGGER slow ON live.account")
            wait_until(lambda: CAPTURE_SLOWED not in alarms.raised, timeout_s=120, what="the capture to be let go")
            stream.wait_until_applied()
            assert stream.differences("account") == {}
            assert stream.query("SELECT count(*) FROM live.account") == [(written,)]
            assert stream.findings() == 0


def test_a_slow_optional_destination_is_cut_off_by_name_and_the_other_stream_goes_on_at_full_speed(
    bank: Captured, warehouse: Connection
) -> None:
    options = StreamPlan(span_changes_max=ROWS)
    with postgres_database("flow_reporting") as reporting, streamed(bank, warehouse, "account", options=options) as one:
        bank.plan = replace(bank.plan, sync="optional")
        with streamed(bank, reporting, "account", options=options) as slow:
            execute(reporting, *SLOW)
            for stream in (one, slow):
                stream.start()
                stream.wait_until_it_runs()
            followers = TwoFollowers(one, slow, cut_off_gb=BEHIND_MAX / 2 / GIB)
            with watched(bank, followers=followers) as alarms, filling(bank):
                wait_until(lambda: followers.cut, timeout_s=60, what="the slow stream to be cut off")
                (said,) = followers.cut
            assert said.startswith(f"{slow.stream} has ") and "it was cut off so that it slows nobody down" in said
            assert CAPTURE_SLOWED not in alarms.raised
            one.wait_until_applied()
            slow.stop()
            assert slow.error is None, "it ends at a whole transaction"
            assert one.differences("account") == {} and one.findings() == 0
            (written,) = one.query("SELECT count(*) FROM live.account")
            (left,) = slow.query("SELECT count(*) FROM live.account")
            assert left < written, "what it has before it was not applied"


def test_a_stream_whose_destination_is_slow_will_not_make_it_by_name_and_catches_up_by_itself(
    bank: Captured, warehouse: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up_watch, "_MEASURED_FOR_S", 15.0)
    bank.plan = replace(bank.plan, source=replace(bank.source_plan, log_behind_max_gb=0.0))
    with streamed(bank, warehouse, "account", options=StreamPlan(span_changes_max=50)) as stream:
        execute(warehouse, *SLOW)
        stream.start()
        stream.wait_until_it_runs()
        with filling(bank, 0.0, count=50):
            wait_until(lambda: size_of(bank) > 10 << 20, timeout_s=60, what="a quarter of an hour of work")
        # Else what the capture has not brought yet fills the log, and its size stops the capture for good.
        marker_in_log(bank)
        limit(bank, 1.2 * size_of(bank))
        follower = OneFollower(stream)
        with watched(bank, followers=follower) as alarms:
            with filling(bank, 5.0, count=50, first_id=2_000_000):
                said = wait_until(lambda: alarms.raised.get(CATCH_UP, ""), timeout_s=60, what="the alarm")
            assert f"will not make it: stream {stream.stream} has " in said
            assert "the log is full" in said
            kept = follower.kept[stream.stream]
            assert kept.size_bytes > 1 << 20 and kept.grows_per_s and kept.full_in_s is not None
            execute(warehouse, "DROP TRIGGER slow ON live.account")
            wait_until(lambda: CATCH_UP not in alarms.raised, timeout_s=120, what="the stream to catch up")
            stream.wait_until_applied()
        assert stream.differences("account") == {}
        assert stream.findings() == 0


def execute(database: Connection, *statements: str) -> None:
    with postgres(database) as session:
        for statement in statements:
            session.execute(statement.encode())


def size_of(bank: Captured) -> int:
    return bank.topics.size_bytes()


def test_a_log_that_is_nearly_full_pauses_its_capture_which_goes_on_by_itself_where_it_stood(bank: Captured) -> None:
    bank.ensure()
    with filling(bank):
        wait_until(lambda: size_of(bank) > 1 << 20, timeout_s=60, what="a log with something in it")
    finish(bank)
    with watched(bank, followers=OneFollower()) as alarms:
        limit(bank, size_of(bank) / 0.98)
        wait_until(lambda: CAPTURE_PAUSED in alarms.raised, timeout_s=60, what="the capture to pause")
        bank.execute("INSERT INTO audit VALUES (1, 'while it pauses')")
        wait_until(lambda: bank.client.status(bank.connector.name).state == "PAUSED", timeout_s=30, what="PAUSED")  # type: ignore[union-attr]
        limit(bank, GIB)
        wait_until(lambda: CAPTURE_PAUSED not in alarms.raised, timeout_s=60, what="the capture to go on")
        state = replay(bank, finish(bank))
    assert state.holds("audit") == [(1, "while it pauses")]
    assert state.holds("account") == sorted(bank.rows("account"), key=repr)


def limit(bank: Captured, size: float) -> None:
    """As a changed declaration does, once the capture is given it."""
    config = bank.client.config(bank.connector.name)
    assert config is not None
    bank.client.put_config(bank.connector.name, {**config, LOG_MAX_GB: str(size / GIB)})
