from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.cutover import Boundary, BoundaryGate
from seamline.domain.errors import LogCorrupted, SchemaConflict
from seamline.domain.log import WHOLE_DATABASE, LogRecord, RecordKind, RowChange, Transaction
from seamline.domain.table_places import TablePlaces
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.position import PostgresPosition
from seamline.sync.stop_conditions import stop_condition
from seamline.sync.transactions import TransactionAssembler
from tests.log_topic import ACCOUNT, AUDIT, MARKERS, Change, LogTopic, delete, gtid, in_runs, insert, row_record, update

Wal = list[LogRecord]
ROWS = [insert(ACCOUNT, id=n, name=f"n{n}") for n in range(5)]


def assembler() -> TransactionAssembler:
    return TransactionAssembler({"account", "transfer", "audit"}, marker_table=MARKERS)


def transactions_of(log: LogTopic) -> list[Transaction]:
    made = assembler()
    transactions = made.feed(in_runs(log.records))
    if made.trouble is not None:
        raise made.trouble
    return transactions


def test_a_transaction_becomes_one_transaction_from_its_begin_to_after_its_end() -> None:
    log = LogTopic()
    log.transaction(*ROWS[:2])
    (transaction,) = transactions_of(log)
    assert (transaction.id, transaction.start, transaction.end) == (gtid(1), 0, 4)
    assert [row.after for row in transaction.rows] == [b'{"id":0,"name":"n0"}', b'{"id":1,"name":"n1"}']
    assert transaction.committed_ms == 1_001
    assert transaction.position == BinlogPosition(gtid(1), "mdb-bin.000001", 1000)


@given(st.lists(st.integers(min_value=0, max_value=40), max_size=6))
def test_any_split_of_the_records_gives_the_same_transactions(cuts: list[int]) -> None:
    log = LogTopic()
    for _ in range(4):
        log.transaction(*ROWS[:3])
        log.heartbeat()
    log.truncate("audit")
    log.transaction(ROWS[0])
    made, transactions, last = assembler(), [], 0
    for cut in [*sorted(cuts), len(log.records)]:
        transactions += made.feed(in_runs(log.records[last:cut]))
        last = max(last, cut)
    assert transactions == transactions_of(log) == assembler().feed(log.records)


def test_the_tail_of_an_unfinished_transaction_waits() -> None:
    log = LogTopic()
    log.transaction(ROWS[0])
    log.begin()
    log.row(ROWS[1])
    made = assembler()
    assert len(made.feed(log.records)) == 1
    assert made.open_rows == 1


def test_heartbeats_are_skipped_wherever_they_stand() -> None:
    log = LogTopic()
    log.heartbeat()
    log.begin()
    log.heartbeat()
    log.row(ROWS[0])
    log.heartbeat()
    log.finish()
    log.heartbeat()
    (transaction,) = transactions_of(log)
    assert len(transaction.rows) == 1


def test_an_end_that_counts_more_rows_than_came_stops_the_stream() -> None:
    log = LogTopic()
    log.transaction(ROWS[0])
    log.transaction(ROWS[1], counts={"account": 2})
    made = assembler()
    assert len(made.feed(log.records)) == 1, "what came before is good"
    assert isinstance(made.trouble, LogCorrupted)
    assert "1 rows of 2" in str(made.trouble)


def test_an_end_whose_total_holds_but_whose_tables_do_not_stops_the_stream() -> None:
    log = LogTopic()
    log.transaction(ROWS[0], insert(AUDIT, actor="a", action="x"), counts={"account": 2})
    with pytest.raises(LogCorrupted, match="account: 1 of 2"):
        transactions_of(log)


def test_rows_of_foreign_tables_are_counted_and_left_out() -> None:
    log = LogTopic()
    log.transaction(ROWS[0], Change("elsewhere", after={"x": 1}), Change("elsewhere", after={"x": 2}))
    (transaction,) = transactions_of(log)
    assert [row.table for row in transaction.rows] == ["account"]
    torn = LogTopic()
    torn.transaction(ROWS[0], Change("elsewhere", after={"x": 1}), counts={"account": 1, "elsewhere": 2})
    with pytest.raises(LogCorrupted, match="elsewhere: 1 of 2"):
        transactions_of(torn)


def test_begin_and_end_of_zero_rows_are_a_transaction_without_rows() -> None:
    log = LogTopic()
    log.transaction()
    (transaction,) = transactions_of(log)
    assert (transaction.rows, transaction.position) == ([], BinlogPosition(gtid(1)))


def test_inserts_into_the_marker_table_are_kept_apart() -> None:
    log = LogTopic()
    log.marker("m1", "low")
    (transaction,) = transactions_of(log)
    assert transaction.rows == []
    assert [marker.table for marker in transaction.markers] == [MARKERS]


def test_markers_that_are_deleted_are_counted_and_mean_nothing() -> None:
    log = LogTopic()
    log.transaction(*(Change(MARKERS, before={"id": name, "kind": "tables"}) for name in ("m1", "m2")))
    (transaction,) = transactions_of(log)
    assert transaction.is_empty


def test_a_repeated_begin_sends_its_transaction_again() -> None:
    log = LogTopic()
    log.begin()
    log.row(ROWS[0])
    log.row(ROWS[1])
    log.begin_again()
    for row in ROWS[:3]:
        log.row(row)
    log.finish({"account": 3})
    (transaction,) = transactions_of(log)
    assert [row.after for row in transaction.rows] == [change_json(n) for n in range(3)]
    assert transaction.start == 0


@pytest.mark.parametrize("seen", [0, 2])
def test_a_begin_that_does_not_say_that_all_follows_stops_where_it_comes_again_behind_rows(seen: int) -> None:
    """Debezium's own class goes on in the middle, and its END counts only what follows: rows would be lost unseen."""
    log = LogTopic()
    log.begin()
    for row in ROWS[:seen]:
        log.row(row)
    log.heartbeat()
    log.begin_again()
    log.row(ROWS[2])
    log.finish({"account": 1})
    log.records = [replace(record, is_whole=False) for record in log.records]
    if not seen:
        assert [len(transaction.rows) for transaction in transactions_of(log)] == [1]
        return
    with pytest.raises(LogCorrupted, match="goes on in the middle is unknown"):
        transactions_of(log)


def test_a_repeated_begin_still_needs_all_rows_after_it() -> None:
    log = LogTopic()
    log.begin()
    log.row(ROWS[0])
    log.begin_again()
    log.row(ROWS[2])
    log.finish({"account": 2})
    with pytest.raises(LogCorrupted, match="not whole"):
        transactions_of(log)


def test_another_begin_while_rows_wait_for_their_end_stops_and_names_both() -> None:
    log = LogTopic()
    log.begin()
    log.row(ROWS[0])
    log.begin()
    with pytest.raises(LogCorrupted, match=f"{gtid(1)} has 1 rows.*{gtid(2)} begins") as caught:
        transactions_of(log)
    assert "XA" in str(caught.value)


@pytest.mark.parametrize("foreign", [True, False])
def test_a_row_outside_begin_and_end_stops(foreign: bool) -> None:
    log = LogTopic()
    log.transaction(ROWS[0])
    log.row(Change("elsewhere", after={"x": 1}) if foreign else ROWS[1])
    with pytest.raises(LogCorrupted, match="outside BEGIN and END"):
        transactions_of(log)


def test_a_row_of_another_transaction_inside_one_stops() -> None:
    log = LogTopic()
    log.begin()
    log.records.append(row_record(RowChange(1, "account", "c", b"{}", None, b"{}"), gtid(7)))
    with pytest.raises(LogCorrupted, match=f"inside transaction {gtid(1)}"):
        transactions_of(log)


def test_an_end_without_its_begin_stops() -> None:
    log = LogTopic()
    log.transaction(ROWS[0])
    log.finish()
    with pytest.raises(LogCorrupted, match="without a BEGIN"):
        transactions_of(log)


def test_a_truncate_without_end_is_a_transaction_of_its_own_once_the_next_begins() -> None:
    log = LogTopic()
    log.truncate("audit")
    made = assembler()
    assert made.feed(log.records) == []
    log.transaction(ROWS[0])
    truncate, transaction = made.feed(log.records[2:])
    assert (truncate.truncated, truncate.rows, truncate.start, truncate.end) == (("audit",), [], 0, 2)
    assert transaction.truncated == ()


def test_a_truncate_of_a_foreign_table_is_an_empty_unit() -> None:
    log = LogTopic()
    log.truncate("elsewhere")
    log.transaction()
    assert [transaction.truncated for transaction in transactions_of(log)] == [(), ()]


def test_a_truncate_that_writes_a_table_in_another_case_stops_the_stream_for_it_may_have_emptied_it() -> None:
    """Under lower_case_table_names = 1 it has, and a binlog has the name as it was typed."""
    log = LogTopic()
    log.truncate("Audit")
    log.transaction()
    typed, _ = transactions_of(log)
    assert typed.truncated == ()
    ended = {name: Boundary(name, BinlogPosition(gtid(1)), ended=True) for name in ("account", "audit")}
    stop = stop_condition(typed, ended.keys(), BoundaryGate(ended), places=TablePlaces("bank"))
    assert isinstance(stop, SchemaConflict)
    assert "TRUNCATE TABLE Audit, which may be audit" in str(stop)


def test_a_truncate_of_a_wal_is_of_the_table_of_that_name_only() -> None:
    record = LogRecord(5, RecordKind.TRUNCATE, "7", PostgresPosition(9, 7), table="Audit", tables=("Audit",))
    (transaction,) = assembler().feed([record])
    assert transaction.is_empty


def test_a_truncate_alone_without_begin_is_a_transaction_of_its_own() -> None:
    record = LogRecord(5, RecordKind.TRUNCATE, position=BinlogPosition(gtid(3)), table="audit")
    (transaction,) = assembler().feed([record])
    assert (transaction.truncated, transaction.start, transaction.end) == (("audit",), 5, 6)


def test_ddl_of_a_table_of_the_sync_is_a_transaction_of_its_own_and_of_others_an_empty_one() -> None:
    log = LogTopic()
    log.ddl("ALTER TABLE account ADD x INT", "account")
    log.ddl("ALTER TABLE elsewhere ADD x INT", "elsewhere")
    log.transaction()
    ours, theirs, _ = transactions_of(log)
    assert ours.ddl is not None
    assert ours.ddl.statement == "ALTER TABLE account ADD x INT"
    assert theirs.ddl is None


def test_a_begin_that_nothing_follows_is_closed_by_the_next_one() -> None:
    log = LogTopic()
    log.begin()
    log.transaction(ROWS[0])
    empty, full = transactions_of(log)
    assert (empty.start, empty.end, empty.rows) == (0, 1, [])
    assert len(full.rows) == 1


def test_a_database_that_is_dropped_is_ddl_of_every_table() -> None:
    log = LogTopic()
    log.ddl("DROP DATABASE bank", *WHOLE_DATABASE)
    log.transaction()
    dropped, _ = transactions_of(log)
    assert dropped.ddl is not None


def test_rows_after_ddl_in_one_transaction_belong_to_it() -> None:
    log = LogTopic()
    log.ddl("CREATE TABLE elsewhere AS SELECT 1", "elsewhere")
    log.row(Change("elsewhere", after={"x": 1}))
    log.finish()
    (transaction,) = transactions_of(log)
    assert transaction.rows == []


def test_after_trouble_nothing_more_is_given_out() -> None:
    log = LogTopic()
    log.transaction(ROWS[0], counts={"account": 9})
    log.transaction(ROWS[1])
    made = assembler()
    assert made.feed(log.records) == []
    assert made.feed(log.records) == []


def change_json(number: int) -> bytes:
    return b'{"id":%d,"name":"n%d"}' % (number, number)


def test_chunks_of_a_large_transaction_and_its_rest_hold_every_row_once() -> None:
    log = LogTopic()
    log.begin()
    for change in ROWS[:4]:
        log.row(change)
    made = assembler()
    made.feed(log.records)
    chunk = made.take_chunk()
    assert (len(chunk.rows), made.open_rows, made.open_chunks) == (4, 0, 1)
    log.row(ROWS[4])
    log.finish()
    (transaction,) = made.feed(log.records[5:])
    assert [row.after for row in [*chunk.rows, *transaction.rows]] == [change_json(n) for n in range(5)]
    assert chunk.position == transaction.position


def test_a_chunk_ends_behind_the_last_row_of_a_run_and_is_measured_with_both_images() -> None:
    log = LogTopic()
    log.begin()
    log.row(update(ACCOUNT, {"id": 1, "name": "n1"}, {"id": 1, "name": "n11"}))
    log.row(delete(ACCOUNT, id=2, name="n2"))
    log.row(ROWS[3])
    made = assembler()
    made.feed(in_runs(log.records))
    assert made.open_bytes == 4 * len(change_json(1)) + 1
    assert made.take_chunk().end == log.records[-1].offset + 1


def test_counts_are_verified_over_all_chunks() -> None:
    log = LogTopic()
    log.begin()
    log.row(ROWS[0])
    made = assembler()
    made.feed(log.records)
    made.take_chunk()
    log.finish({"account": 2})
    assert made.feed(log.records[2:]) == []
    assert isinstance(made.trouble, LogCorrupted)


# ---- transactions of a WAL ------------------------------------------------------------------------------------------


def wal(*changes: LogRecord, xid: int = 745, total: int | None = None, counts: dict[str, int] | None = None) -> Wal:
    """The records of one transaction of PostgreSQL: whole, unless END counts otherwise."""
    seen = Counter(change.rows[0].table if change.rows else change.table for change in changes)
    end = LogRecord(
        0,
        RecordKind.END,
        str(xid),
        position=PostgresPosition(9_000, xid),
        total=sum(seen.values()) if total is None else total,
        counts=dict(seen) if counts is None else counts,
        ts_ms=1_745,
    )
    begin = LogRecord(0, RecordKind.BEGIN, str(xid), position=PostgresPosition(1_000, xid), is_whole=True)
    placed = [replace(change, transaction_id=change.transaction_id and str(xid)) for change in changes]
    return numbered((begin, *placed, end))


def numbered(records: Iterable[LogRecord]) -> Wal:
    return [
        replace(record, offset=number, rows=[row._replace(offset=number) for row in record.rows])
        for number, record in enumerate(records)
    ]


def wal_row(table: str, number: int, *, lsn: int = 1_000) -> LogRecord:
    key, after = b'{"id":%d}' % number, change_json(number)
    position = PostgresPosition(lsn, 745)
    return row_record(RowChange(0, table, "c", key, after=after), "745", position)


def wal_truncate(table: str) -> LogRecord:
    position = PostgresPosition(1_000, 745)
    return LogRecord(0, RecordKind.TRUNCATE, "745", position, table=table, total=1, tables=(table,))


MESSAGE = row_record(RowChange(0, "@messages", "m"))


def one_transaction(records: Wal) -> Transaction:
    made = assembler()
    transactions = made.feed(in_runs(records))
    if made.trouble is not None:
        raise made.trouble
    (transaction,) = transactions
    return transaction


def cut(records: Wal, *, after: int) -> Wal:
    """The first records of the transaction, behind which its connector ended, and then all of it again."""
    return numbered([*records[:after], *records])


@pytest.mark.parametrize("after", [1, 2, 3])
def test_what_was_sent_of_a_transaction_of_a_wal_before_its_second_begin_is_sent_again(after: int) -> None:
    whole = wal(wal_row("account", 1), wal_row("account", 2))
    transaction = one_transaction(cut(whole, after=after))
    assert [row.after for row in transaction.rows] == [change_json(1), change_json(2)]
    assert (transaction.start, transaction.end, transaction.position) == (0, after + 4, PostgresPosition(9_000, 745))


def test_an_end_still_counts_what_was_sent_of_a_transaction_of_a_wal_the_second_time() -> None:
    """A connector that went on where it was: what it passed over would be lost."""
    whole = wal(wal_row("account", 1), wal_row("account", 2))
    records = numbered([*whole[:2], whole[0], *whole[2:]])
    with pytest.raises(LogCorrupted, match="1 rows of 2"):
        one_transaction(records)


def test_chunks_of_a_transaction_that_is_repeated_are_lost_which_is_said_once() -> None:
    whole = wal(wal_row("account", 1), wal_row("account", 2))
    made = assembler()
    made.feed(whole[:2])
    made.take_chunk()
    (transaction,) = made.feed(whole)
    assert (len(transaction.rows), transaction.chunks, made.lost_chunks) == (2, 0, True)


def test_a_transaction_of_a_wal_stands_where_its_commit_ends() -> None:
    transaction = one_transaction(wal(wal_row("account", 1), wal_row("account", 2, lsn=1_200)))
    assert (transaction.id, transaction.position, transaction.committed_ms) == (
        "745",
        PostgresPosition(9_000, 745),
        1_745,
    )
    assert one_transaction(wal(xid=746)).position == PostgresPosition(9_000, 746)


def test_a_truncate_before_rows_leaves_all_of_them() -> None:
    transaction = one_transaction(wal(wal_truncate("account"), wal_row("account", 1), wal_row("audit", 2)))
    assert transaction.truncated == ("account",)
    assert [(row.table, row.after) for row in transaction.rows] == [
        ("account", change_json(1)),
        ("audit", change_json(2)),
    ]
    assert transaction.position == PostgresPosition(9_000, 745)


def test_a_truncate_after_rows_undoes_those_of_its_table_and_of_none_else() -> None:
    rows = [wal_row("account", 1), wal_row("audit", 2), wal_row("account", 3)]
    transaction = one_transaction(wal(*rows, wal_truncate("account"), wal_row("account", 4)))
    assert transaction.truncated == ("account",)
    assert [(row.table, row.after) for row in transaction.rows] == [
        ("audit", change_json(2)),
        ("account", change_json(4)),
    ]


def test_one_statement_that_truncates_several_tables_is_one_unit() -> None:
    truncates = [wal_truncate(table) for table in ("transfer", "account", "transfer")]
    transaction = one_transaction(wal(wal_row("transfer", 1), *truncates, wal_row("account", 2)))
    assert transaction.truncated == ("transfer", "account"), "each once, in their order"
    assert [row.after for row in transaction.rows] == [change_json(2)]


def test_what_waits_is_measured_again_after_a_truncate() -> None:
    rows = [wal_row("account", 1), wal_row("audit", 2)]
    made = assembler()
    made.feed(wal(*rows)[:-1])
    assert (made.open_rows, made.open_bytes) == (2, 2 * len(change_json(1)))
    made.feed([replace(wal_truncate("account"), offset=3)])
    assert (made.open_rows, made.open_bytes) == (1, len(change_json(2)))


@pytest.mark.parametrize(
    ("changes", "counts", "said"),
    [
        ((wal_row("account", 1), wal_truncate("account")), {"account": 1}, "2 rows of 1, account: 2 of 1"),
        ((wal_row("account", 1),), {"account": 2}, "1 rows of 2, account: 1 of 2"),
        ((wal_truncate("account"),), {"account": 1, "audit": 1}, "1 rows of 2, audit: 0 of 1"),
        ((wal_truncate("elsewhere"),), {"elsewhere": 2}, "1 rows of 2, elsewhere: 1 of 2"),
    ],
)
def test_truncates_are_counted_by_end(changes: Sequence[LogRecord], counts: dict[str, int], said: str) -> None:
    with pytest.raises(LogCorrupted, match=f"transaction 745 is not whole.*: {said}"):
        one_transaction(wal(*changes, counts=counts, total=sum(counts.values())))


def test_a_truncate_of_a_table_of_others_is_counted_and_empties_nothing() -> None:
    transaction = one_transaction(wal(wal_row("account", 1), wal_truncate("elsewhere")))
    assert transaction.truncated == ()
    assert [row.after for row in transaction.rows] == [change_json(1)]
    assert one_transaction(wal(wal_truncate("elsewhere"))).is_empty


def test_a_truncate_after_a_chunk_goes_with_what_comes_behind_it() -> None:
    early, late = [wal_row("account", 1), wal_row("audit", 2)], [wal_row("account", 4), wal_row("account", 5)]
    records = wal(*early, wal_row("account", 3), wal_truncate("account"), *late)
    made = assembler()
    made.feed(records[:3])
    assert made.take_chunk().truncated == ()
    made.feed(records[3:6])
    chunk = made.take_chunk()
    assert chunk.truncated == ("account",)
    assert [row.after for row in chunk.rows] == [change_json(4)]
    (transaction,) = made.feed(records[6:])
    assert (transaction.truncated, transaction.chunks) == ((), 2)
    assert [row.after for row in transaction.rows] == [change_json(5)]


def test_a_delete_that_may_be_half_of_a_change_of_key_goes_into_the_chunk_of_the_other_half() -> None:
    half, other = row_record(RowChange(0, "account", "d", b'{"id":2}', change_json(2)), "745"), wal_row("account", 3)
    records = wal(wal_row("account", 1), half, other, counts={"account": 3}, total=3)
    made = assembler()
    made.feed(records[:3])
    assert [row.op for row in made.take_chunk().rows] == ["c"]
    assert made.open_rows == 1
    made.feed(records[3:4])
    assert [row.op for row in made.take_chunk().rows] == ["d", "c"]
    assert [transaction.chunks for transaction in made.feed(records[4:])] == [2]


def test_a_truncate_after_chunks_of_other_tables_stands_in_the_rest() -> None:
    made = assembler()
    records = wal(wal_row("account", 1), wal_row("audit", 2), wal_truncate("audit"), wal_row("audit", 3))
    made.feed(records[:2])
    assert len(made.take_chunk().rows) == 1
    (transaction,) = made.feed(records[2:])
    assert (transaction.truncated, [row.after for row in transaction.rows], transaction.chunks) == (
        ("audit",),
        [change_json(3)],
        1,
    )


def test_a_truncate_before_the_chunks_of_its_transaction_goes_with_the_first() -> None:
    records = wal(wal_truncate("account"), wal_row("account", 1), wal_row("account", 2))
    made = assembler()
    made.feed(records[:3])
    chunk = made.take_chunk()
    (transaction,) = made.feed(records[3:])
    assert [row.after for row in [*chunk.rows, *transaction.rows]] == [change_json(1), change_json(2)]
    assert (chunk.truncated, transaction.truncated, transaction.chunks) == (("account",), (), 1)


def test_a_message_is_counted_by_end_and_is_no_row() -> None:
    garbage = "io.debezium.connector.postgresql.connection.LogicalDecodingMessage@f92adec"
    counts = {garbage: 1, "account": 1}
    transaction = one_transaction(wal(MESSAGE, wal_row("account", 1), counts=counts))
    assert [row.after for row in transaction.rows] == [change_json(1)]
    assert one_transaction(wal(MESSAGE, counts={garbage: 1})).is_empty
    with pytest.raises(LogCorrupted, match="1 rows of 2"):
        one_transaction(wal(wal_row("account", 1), counts=counts, total=2))


def test_a_chunk_can_be_taken_right_after_a_message_which_has_no_position() -> None:
    records = wal(MESSAGE, wal_row("account", 1), wal_row("account", 2), counts={"@messages": 1, "account": 2})
    for first in (2, 3):
        made = assembler()
        assert made.feed(records[:first]) == []
        chunk = made.take_chunk()
        assert (chunk.id, chunk.start, chunk.end, len(chunk.rows)) == ("745", 0, first, first - 2)
        assert chunk.position == records[0].position
        (transaction,) = made.feed(records[first:])
        assert [row.after for row in [*chunk.rows, *transaction.rows]] == [change_json(1), change_json(2)]
        assert (transaction.chunks, transaction.position) == (1, PostgresPosition(9_000, 745))


def test_there_is_no_chunk_of_a_transaction_that_is_not_open() -> None:
    made = assembler()
    made.feed(wal(wal_row("account", 1)))
    with pytest.raises(LogCorrupted, match="no open transaction"):
        made.take_chunk()


def test_a_truncate_outside_of_its_transaction_is_not_taken_for_part_of_another() -> None:
    records = wal(wal_row("account", 1))
    stray = replace(wal_truncate("account"), transaction_id="744", offset=2)
    with pytest.raises(LogCorrupted, match="745 has 1 rows but no END before offset 2"):
        one_transaction([*records[:2], stray, replace(records[2], offset=3)])


def test_a_begin_without_end_is_lost_log_in_a_wal_where_every_transaction_has_one() -> None:
    begin = LogRecord(0, RecordKind.BEGIN, "745", position=PostgresPosition(1_000, 745))
    following = LogRecord(1, RecordKind.BEGIN, "746", position=PostgresPosition(2_000, 746))
    transactions = assembler()
    assert transactions.feed([begin, following]) == []
    assert isinstance(transactions.trouble, LogCorrupted)
    assert "745 has no END" in str(transactions.trouble)
