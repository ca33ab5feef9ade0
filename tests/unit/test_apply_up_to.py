"""A held stream that is asked to apply up to a position: the transactions before the first that it does not cover."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from seamline.domain.errors import InvariantViolated
from seamline.domain.log import LogRecord
from seamline.domain.position import Position
from seamline.ports import Orders, StreamReport
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.position import PostgresPosition
from tests.log_topic import ACCOUNT, STREAM, ScriptedControl, TopicReader, gtid, position
from tests.unit.test_span_loop import Stage, history_of_five, published


def test_apply_up_to_stops_before_the_first_transaction_that_is_not_covered() -> None:
    stage = Stage(history_of_five(), published())
    hold = Orders(hold_id="h1", hold_until_s=2e9)
    up_to = replace(hold, apply_to=position(3))
    rows: list[int] = []

    class Watching(ScriptedControl):
        def report(self, report: StreamReport) -> None:
            if report.state == "held" and report.position == position(3):
                rows.append(len(stage.destination.rows(ACCOUNT)))
            super().report(report)

    stage.control = Watching(stage.reader, orders=[hold, up_to, up_to, up_to])
    stage.run()
    assert rows
    assert set(rows) == {3}
    assert len(stage.destination.rows(ACCOUNT)) == 5


class PostgresReader(TopicReader):
    """The same log as of a PostgreSQL source: transaction n has id `xids[n - 1]` and commits at n * 100."""

    xids: Sequence[int] = ()

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        return [
            replace(record, position=self._in_wal(record.position), follows=None)
            for record in super().poll(timeout_s, records_max)
        ]

    def _in_wal(self, place: Position | None) -> PostgresPosition:
        assert isinstance(place, BinlogPosition)
        number = int(place.gtid.rsplit("-", 1)[1])
        return PostgresPosition(number * 100, self.xids[number - 1])


def from_postgres(xids: Sequence[int], up_to: PostgresPosition, *, at_most: int = 1_000_000) -> tuple[Stage, list[str]]:
    """A stream over five transactions with these ids that is asked once to apply up to a position, and the names that
    were there when it said that it had."""
    stage = Stage(history_of_five(), published(ended=True))
    row, start = stage.ledger, PostgresPosition(1)
    boundaries = tuple(replace(boundary, position=start) for boundary in row.boundaries)
    stage.destination.ledgers[STREAM] = replace(row, position=start, boundaries=boundaries)
    stage.reader = PostgresReader(stage.log, at_most=at_most)
    stage.reader.xids = xids
    there: list[str] = []

    class Watching(ScriptedControl):
        def report(self, report: StreamReport) -> None:
            if report.state == "held" and report.position == up_to:
                there.extend(str(row["id"]) for row in stage.destination.rows(ACCOUNT))
            super().report(report)

    hold = Orders(hold_id="h1", hold_until_s=2e9, apply_to=up_to)
    stage.control = Watching(stage.reader, orders=[hold] * 3)
    return stage, there


def test_apply_up_to_takes_the_transactions_before_the_first_that_is_not_covered() -> None:
    """The ids of PostgreSQL's transactions are not in the order of their commits."""
    stage, there = from_postgres((12, 10, 14, 11, 15), PostgresPosition(250, xmin=11, xmax=13, in_progress=(11,)))
    stage.run()
    assert there == ["1", "2"]
    assert len(stage.destination.rows(ACCOUNT)) == 5


@pytest.mark.parametrize("at_most", [1_000_000, 3], ids=["both were read", "the second comes later"])
def test_a_covered_transaction_behind_one_that_is_not_stops_the_stream_by_name(at_most: int) -> None:
    """The first waits for its standby, so the source's snapshot sees only the second, which committed after it."""
    visible = PostgresPosition(350, xmin=11, xmax=14, in_progress=(11,))
    stage, there = from_postgres((10, 11, 13, 14, 15), visible, at_most=at_most)
    with pytest.raises(InvariantViolated, match=r"transaction 0-1-3 at offset \d+ is part of the state at"):
        stage.run()
    assert "3" not in there
    assert {str(row["id"]) for row in stage.destination.rows(ACCOUNT)} <= {"1", "2"}


def test_apply_up_to_waits_until_a_transaction_beyond_the_position_is_seen() -> None:
    log = history_of_five()
    stage = Stage(log, published())
    up_to = Orders(hold_id="h1", hold_until_s=2e9, apply_to=position(5))
    states: list[tuple[str, object]] = []

    class Growing(ScriptedControl):
        def orders(self) -> Orders:
            states.append((self.reports[-1].state, stage.ledger.position))
            if len(states) == 4:
                log.marker("b1", "barrier")
            return super().orders()

    stage.control = Growing(stage.reader, orders=[up_to] * 8)
    stage.run()
    assert [state for state, _ in states[:4]] == ["starting"] * 4, "not there yet: the barrier's marker was not seen"
    assert ("held", position(5)) in states


def test_a_stream_that_is_beyond_the_position_asked_for_says_where_it_stands() -> None:
    stage = Stage(history_of_five(), published())
    behind = Orders(hold_id="h1", hold_until_s=2e9, apply_to=position(2))
    stage.control = ScriptedControl(stage.reader, orders=[Orders(), behind, behind])
    stage.log.marker("b1", "barrier")
    stage.run()
    held = next(report for report in stage.control.reports if report.state == "held")
    assert isinstance(held.position, BinlogPosition)
    assert held.position.gtid == gtid(5)


def test_a_position_at_which_the_ledger_stands_already_is_not_written_again() -> None:
    stage = Stage(history_of_five(), published())
    stage.log.marker("b1", "barrier")
    holds = [Orders(hold_id=f"h{number}", hold_until_s=2e9, apply_to=position(5)) for number in (1, 1, 2, 2)]
    stage.control = ScriptedControl(stage.reader, orders=holds)
    stage.run()
    held = [report for report in stage.control.reports if report.state == "held"]
    assert {(report.hold_id, report.position) for report in held} == {("h1", position(5)), ("h2", position(5))}
    assert [ledger.position for ledger in stage.commits].count(position(5)) == 1
