"""What the log has between two places of a ledger: every change, in order, and none from beyond."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from seamline.domain.catalogue import Table
from seamline.domain.errors import LogCorrupted, PositionLost, SchemaConflict, TransientError
from seamline.domain.ledger import LedgerRow
from seamline.domain.log import LogRecord
from seamline.sync.log_between import LoggedChange, LogStretch, Operation, changes_between
from seamline.sync.transaction_buffer import BufferLimits
from seamline.values.image_texts import ImageTexts
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    STREAM,
    TABLES,
    TOPIC,
    TOPIC_ID,
    TRANSFER,
    LogTopic,
    TopicReader,
    delete,
    insert,
    position,
    sync_plan,
    update,
)
from tests.opened_sink import decoder_of
from tests.toast_log import NOTE, STAND_IN, ToastLog, note

BY_NAME = {table.name: table for table in TABLES}
IMAGES = ImageTexts(decoder_of(sync_plan()))


def account(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name}


def ledger(log: LogTopic, *, applied: int | None = None, **other: Any) -> LedgerRow:
    """As it stands when everything that is in the log now is applied."""
    number = log.transactions if applied is None else applied
    fields = {"next_offset": log.records[-1].offset + 1 if log.records else 0, **other}
    return LedgerRow(STREAM, TOPIC, TOPIC_ID, position=position(number), epoch=1, applied_transactions=0,
                     committed_ms=0, **fields)  # fmt: skip


def read(log: LogTopic, stretch: LogStretch, *, at_most: int = 1_000_000, **how: Any) -> list[LoggedChange]:
    return list(changes_between(TopicReader(log, at_most=at_most), stretch, BY_NAME, IMAGES, **how))


def test_the_changes_between_two_ledgers_come_in_order_with_key_images_position_and_time() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, **account(1, "before the stretch")))
    earlier = ledger(log)
    log.transaction(insert(ACCOUNT, **account(2, "ü")), insert(TRANSFER, tx=7, leg=1, amount="1.5000"))
    log.transaction(update(ACCOUNT, account(2, "ü"), account(2, "new")), delete(ACCOUNT, **account(1, "x")))
    stretch = LogStretch.since(earlier, ledger(log))
    log.transaction(insert(ACCOUNT, **account(3, "beyond the stretch")))

    found = read(log, stretch)

    assert [(one.table, one.key, one.operation) for one in found] == [
        ("account", "2", Operation.INSERT),
        ("transfer", "7,1", Operation.INSERT),
        ("account", "2", Operation.UPDATE),
        ("account", "1", Operation.DELETE),
    ]
    assert [(one.before, one.after) for one in found] == [
        (None, {"id": "2", "name": "ü"}),
        (None, {"tx": "7", "leg": "1", "amount": "1.5000"}),
        ({"id": "2", "name": "ü"}, {"id": "2", "name": "new"}),
        ({"id": "1", "name": "x"}, None),
    ]
    assert all(one.is_before_known for one in found)
    assert [one.committed_ms for one in found] == [1_002, 1_002, 1_003, 1_003]
    assert [str(one.position) for one in found] == [str(record.position) for record in log.records if record.rows][1:5]


@pytest.mark.parametrize("at_most", [1, 2, 3, 7])
def test_however_the_log_comes_in_parts_the_changes_are_the_same(at_most: int) -> None:
    log = LogTopic()
    start = ledger(log)
    for number in range(9):
        log.transaction(insert(ACCOUNT, **account(number, "n")), insert(AUDIT, actor="a", action="b"))
        log.heartbeat()
    log.truncate("audit")
    log.transaction(delete(ACCOUNT, **account(4, "n")))
    stretch = LogStretch.since(start, ledger(log))
    log.transaction(insert(ACCOUNT, **account(99, "beyond")))

    assert read(log, stretch, at_most=at_most) == read(log, stretch)
    assert [one.operation for one in read(log, stretch)][-2:] == [Operation.TRUNCATE, Operation.DELETE]


def test_nothing_is_read_where_the_ledger_has_not_moved() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, **account(1, "n")))
    reader = TopicReader(log)
    assert list(changes_between(reader, LogStretch.since(ledger(log), ledger(log)), BY_NAME, IMAGES)) == []
    assert reader.assigned == []


def test_rows_that_nobody_asked_for_are_not_decoded_and_have_their_key() -> None:
    log = LogTopic()
    start = ledger(log)
    log.transaction(insert(ACCOUNT, **account(1, "n")), update(ACCOUNT, account(2, "a"), account(2, "b")))
    stretch = LogStretch.since(start, ledger(log))

    class Counted(ImageTexts):
        def rows(self, table: Table, images: Sequence[bytes]) -> Sequence[Any]:
            assert all(b'"id":2' in image for image in images)
            return super().rows(table, images)

    images = Counted(IMAGES.decoder)
    found = list(changes_between(TopicReader(log), stretch, BY_NAME, images, images_of=lambda table, key: key == "2"))
    assert [(one.key, one.after, one.is_before_known) for one in found] == [
        ("1", None, False),
        ("2", {"id": "2", "name": "b"}, True),
    ]


def test_a_key_that_is_changed_is_a_delete_and_an_insert() -> None:
    log = LogTopic()
    start = ledger(log)
    log.transaction(update(ACCOUNT, account(1, "n"), account(5, "n")))
    found = read(log, LogStretch.since(start, ledger(log)))
    assert [(one.key, one.operation) for one in found] == [("1", Operation.DELETE), ("5", Operation.INSERT)]


def test_a_row_without_a_key_has_its_images_and_no_key() -> None:
    log = LogTopic()
    start = ledger(log)
    log.transaction(delete(AUDIT, actor="a", action="b"))
    (found,) = read(log, LogStretch.since(start, ledger(log)))
    assert (found.key, found.before, found.is_before_known) == ("", {"actor": "a", "action": "b"}, True)


def test_tables_that_nobody_asked_for_are_left_out() -> None:
    log = LogTopic()
    start = ledger(log)
    log.transaction(insert(ACCOUNT, **account(1, "n")), insert(AUDIT, actor="a", action="b"))
    stretch = LogStretch.since(start, ledger(log))
    found = list(changes_between(TopicReader(log), stretch, {"audit": AUDIT}, IMAGES))
    assert [one.table for one in found] == ["audit"]


def test_a_transaction_larger_than_memory_comes_in_chunks_without_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamline.sync.log_between._LIMITS", BufferLimits(10, 1 << 20, 10, 4, 1 << 20))
    log = LogTopic()
    start = ledger(log)
    log.transaction(*(insert(ACCOUNT, **account(number, "n")) for number in range(23)))
    log.transaction(insert(ACCOUNT, **account(23, "n")))
    found = read(log, LogStretch.since(start, ledger(log)), at_most=3)
    assert [one.key for one in found] == [str(number) for number in range(24)]
    assert found[0].committed_ms == 0
    assert found[-1].committed_ms


def test_a_large_transaction_of_which_a_part_comes_twice_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamline.sync.log_between._LIMITS", BufferLimits(10, 1 << 20, 10, 4, 1 << 20))
    log = LogTopic()
    start = ledger(log)
    log.begin()
    for number in range(12):
        log.row(insert(ACCOUNT, **account(number, "n")))
    log.begin_again()
    for number in range(12):
        log.row(insert(ACCOUNT, **account(number, "n")))
    log.finish()
    with pytest.raises(TransientError, match="twice"):
        read(log, LogStretch.since(start, ledger(log)), at_most=3)


def test_values_that_the_log_left_out_are_those_of_the_row_before() -> None:
    log = ToastLog()
    transaction = log.transaction((note(1), {**note(1), "title": "new"}))
    (row,) = transaction.rows
    (texts,) = IMAGES_OF_NOTES.rows(NOTE, [row.after or b""])
    assert texts == {"id": "1", "title": "new"}
    change = LoggedChange(NOTE.name, "1", Operation.UPDATE, position(1), 1, after=texts, is_before_known=False)
    whole = {"id": "1", "title": "t", "body": "large one", "scan": "00"}
    assert change.row_after(whole) == {**whole, "title": "new"}
    assert replace(change, operation=Operation.INSERT).row_after(whole) == texts
    assert STAND_IN.keys() & (texts or {}).keys() == set()


IMAGES_OF_NOTES = ImageTexts(
    decoder_of(replace(sync_plan([NOTE]), source=replace(sync_plan().source, kind="postgres")))
)


def test_a_log_that_begins_later_or_is_another_one_is_refused() -> None:
    log = LogTopic()
    start = ledger(log)
    log.transaction(insert(ACCOUNT, **account(1, "n")))
    stretch = LogStretch.since(start, ledger(log))
    with pytest.raises(PositionLost, match="created again"):
        read(log, replace(stretch, topic_id="topic-2"))
    with pytest.raises(PositionLost, match="created again"):
        LogStretch.since(start, replace(ledger(log), topic_id="topic-2"))
    with pytest.raises(PositionLost, match="went back"):
        LogStretch.since(ledger(log), start)


def test_a_transaction_that_is_torn_or_missing_is_an_error_and_no_fewer_changes() -> None:
    log = LogTopic()
    start = ledger(log)
    log.transaction(insert(ACCOUNT, **account(1, "n")))
    log.transaction(insert(ACCOUNT, **account(2, "n")), counts={"account": 2})
    with pytest.raises(LogCorrupted, match="not whole"):
        read(log, LogStretch.since(start, ledger(log)))

    log = LogTopic()
    log.transaction(insert(ACCOUNT, **account(1, "n")))
    start = ledger(log)
    log.transaction(insert(ACCOUNT, **account(2, "n")))
    lost = len(log.records)
    log.transaction(insert(ACCOUNT, **account(3, "n")))
    stretch = LogStretch.since(start, ledger(log))
    del log.records[lost - 3 : lost]
    with pytest.raises(LogCorrupted, match="a transaction is lost"):
        read(log, stretch)


def test_a_statement_that_changed_a_table_ends_the_reading() -> None:
    log = LogTopic()
    start = ledger(log)
    log.ddl("ALTER TABLE account ADD x int", "account")
    log.transaction(insert(ACCOUNT, **account(1, "n")))
    with pytest.raises(SchemaConflict, match="ALTER TABLE account"):
        read(log, LogStretch.since(start, ledger(log)))


def test_an_end_that_does_not_come_is_an_error() -> None:
    log = LogTopic()
    start = ledger(log)
    log.transaction(insert(ACCOUNT, **account(1, "n")))
    stretch = LogStretch.since(start, replace(ledger(log), next_offset=log.end + 100))
    with pytest.raises(TransientError, match="could not be read up to"):
        read(log, stretch)


def test_who_reads_is_asked_before_each_look_at_the_log() -> None:
    log = LogTopic()
    start = ledger(log)
    for number in range(5):
        log.transaction(insert(ACCOUNT, **account(number, "n")))
    asked: list[LogRecord] = []

    def check() -> None:
        asked.append(log.records[0])
        if len(asked) > 3:
            raise TransientError("the budget is over")

    with pytest.raises(TransientError, match="budget"):
        read(log, LogStretch.since(start, ledger(log)), at_most=1, check=check)
