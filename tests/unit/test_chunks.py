"""Transactions larger than memory: spilled in chunks, joined in the one commit of the unit."""

from collections.abc import Sequence

import pytest

from seamline.domain.changes import TableChanges
from seamline.domain.errors import Diverged, LogCorrupted, TransientError
from seamline.domain.log import LogRecord
from seamline.ports import Lease, Orders, Staged
from seamline.sync.pace import Pace
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    Change,
    LogTopic,
    ManualClock,
    ScriptedControl,
    TopicReader,
    insert,
)
from tests.memory_sink import LostAnswer
from tests.unit.test_span_loop import Stage, published

# A record of the third transaction, behind its first chunk.
AMID = 18
SLOW_S = 4.0


def test_a_transaction_larger_than_memory_is_spilled_in_chunks_and_committed_once() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=0, name="before"))
    changes = [insert(ACCOUNT, id=n, name="a") for n in range(1, 20)] + [insert(AUDIT, actor="x", action="y")] * 5
    changes += [Change("account", {"id": n, "name": "a"}, {"id": n, "name": "b"}) for n in range(1, 20)]
    log.transaction(*changes)
    log.transaction(insert(ACCOUNT, id=99, name="after"))
    stage = Stage(log, published())
    stage.reader = TopicReader(log, at_most=4)
    stage.control = ScriptedControl(stage.reader)
    stage.run(pace=Pace(chunk_rows_max=8))
    assert {row["name"] for row in stage.destination.rows(ACCOUNT)} == {"before", "b", "after"}
    assert len(stage.destination.rows(AUDIT)) == 5
    assert stage.destination.findings == []
    assert [row.applied_transactions for row in stage.commits] == [1, 2, 3]


def test_a_lost_answer_in_the_commit_of_chunks_begins_again_from_the_ledger() -> None:
    log = LogTopic()
    log.transaction(*[insert(AUDIT, actor="x", action=str(n)) for n in range(20)])
    destination = published()
    for expected in (TransientError, None):
        stage = Stage(log, destination)
        stage.reader = TopicReader(log, at_most=4)
        stage.control = ScriptedControl(stage.reader)
        destination.lose_answer = LostAnswer.NOT_APPLIED if expected else None
        if expected:
            with pytest.raises(expected, match="read again"):
                stage.run(pace=Pace(chunk_rows_max=8))
        else:
            stage.run(pace=Pace(chunk_rows_max=8))
    assert len(destination.rows(AUDIT)) == 20


@pytest.mark.parametrize("poll", [3, 100])
def test_chunks_of_a_transaction_that_is_repeated_are_in_no_commit(poll: int) -> None:
    log = LogTopic()
    log.begin()
    for n in range(20):
        log.row(insert(AUDIT, actor="x", action=str(n)))
    log.begin(1)
    for n in range(30):
        log.row(insert(AUDIT, actor="x", action=str(n)))
    log.finish()
    destination = published()
    stage = Stage(log, destination)
    stage.reader = TopicReader(log, at_most=poll)
    stage.control = ScriptedControl(stage.reader)
    stage.run(pace=Pace(chunk_rows_max=8))
    assert sorted(int(row["action"]) for row in destination.rows(AUDIT)) == list(range(30))
    assert len(stage.commits) == 1


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_is_wrong_with_a_transaction_is_reported_before_what_its_chunks_have_met(
    is_whole: bool,  # noqa: FBT001 (a case)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=0, name="before"))
    log.transaction(*[insert(ACCOUNT, id=n, name="a") for n in range(1, 30)])
    if not is_whole:
        del log.records[-3]
    stage = Stage(log, published())
    stage.reader = TopicReader(log, at_most=4)
    stage.control = ScriptedControl(stage.reader)
    right = stage.sink.stage

    def missing_a_row(lease: Lease, changes: TableChanges) -> Staged:
        if changes.chunk == 2:
            raise Diverged("a row is not there")
        return right(lease, changes)

    monkeypatch.setattr(stage.sink, "stage", missing_a_row)
    with pytest.raises(Diverged if is_whole else LogCorrupted):
        stage.run(pace=Pace(chunk_rows_max=8))
    assert [row["name"] for row in stage.destination.rows(ACCOUNT)] == ["before"]


class Reader(TopicReader):
    def __init__(self, log: LogTopic, clock: ManualClock) -> None:
        super().__init__(log, at_most=4)
        self.clock = clock
        self.began = clock.time


class SlowReader(Reader):
    """Amid the transaction nothing comes for longer than transactions without changes wait for their commit."""

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        if self._next == AMID and self.clock.time < self.began + SLOW_S:
            self.clock.time += SLOW_S / 4
            return ()
        return super().poll(timeout_s, records_max)


@pytest.mark.parametrize("lost", list(LostAnswer))
@pytest.mark.parametrize("reader", [Reader, SlowReader])
def test_a_lost_answer_beside_what_chunks_have_met_has_the_transaction_read_again(
    lost: LostAnswer, reader: type[Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=0, name="before"))
    log.transaction()
    log.transaction(*[insert(ACCOUNT, id=n, name="a") for n in range(1, 30)])
    destination = published()
    for expected in (TransientError, Diverged):
        stage = Stage(log, destination)
        stage.reader = reader(log, stage.clock)
        stage.control = ScriptedControl(stage.reader, orders=[Orders()] * 20)
        right = stage.sink.stage

        def missing_a_row(lease: Lease, changes: TableChanges) -> Staged:
            if changes.chunk == 1:
                destination.lose_answer = lost if expected is TransientError else None  # noqa: B023
                raise Diverged("a row is not there")
            return right(lease, changes)  # noqa: B023

        monkeypatch.setattr(stage.sink, "stage", missing_a_row)
        with pytest.raises(expected):
            stage.run(pace=Pace(chunk_rows_max=8))
        assert [row["name"] for row in destination.rows(ACCOUNT)] == ["before"]
