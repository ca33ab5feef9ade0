import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, RecordKind, Unit
from seamline.domain.position import BinlogPosition
from seamline.sync.units import UnitAssembler
from tests.log_topic import ACCOUNT, AUDIT, MARKERS, Change, LogTopic, gtid, insert

ROWS = [insert(ACCOUNT, id=n, name=f"n{n}") for n in range(5)]


def assembler() -> UnitAssembler:
    return UnitAssembler({"account", "transfer", "audit"}, marker_table=MARKERS)


def units_of(log: LogTopic) -> list[Unit]:
    made = assembler()
    units = made.feed(log.records)
    if made.trouble is not None:
        raise made.trouble
    return units


def test_a_transaction_becomes_one_unit_from_its_begin_to_after_its_end() -> None:
    log = LogTopic()
    log.transaction(*ROWS[:2])
    (unit,) = units_of(log)
    assert (unit.unit_id, unit.start, unit.end) == (gtid(1), 0, 4)
    assert [row.after for row in unit.rows] == [b'{"id":0,"name":"n0"}', b'{"id":1,"name":"n1"}']
    assert unit.committed_ms == 1_001
    assert unit.position == BinlogPosition(gtid(1), "mdb-bin.000001", 1000)


@given(st.lists(st.integers(min_value=0, max_value=40), max_size=6))
def test_any_split_of_the_records_gives_the_same_units(cuts: list[int]) -> None:
    log = LogTopic()
    for _ in range(4):
        log.transaction(*ROWS[:3])
        log.heartbeat()
    log.truncate("audit")
    log.transaction(ROWS[0])
    made, units, last = assembler(), [], 0
    for cut in [*sorted(cuts), len(log.records)]:
        units += made.feed(log.records[last:cut])
        last = max(last, cut)
    assert units == units_of(log)


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
    (unit,) = units_of(log)
    assert len(unit.rows) == 1


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
        units_of(log)


def test_rows_of_foreign_tables_are_counted_and_left_out() -> None:
    log = LogTopic()
    log.transaction(ROWS[0], Change("elsewhere", after={"x": 1}), Change("elsewhere", after={"x": 2}))
    (unit,) = units_of(log)
    assert [row.table for row in unit.rows] == ["account"]
    torn = LogTopic()
    torn.transaction(ROWS[0], Change("elsewhere", after={"x": 1}), counts={"account": 1, "elsewhere": 2})
    with pytest.raises(LogCorrupted, match="elsewhere: 1 of 2"):
        units_of(torn)


def test_begin_and_end_of_zero_rows_are_a_unit_without_rows() -> None:
    log = LogTopic()
    log.transaction()
    (unit,) = units_of(log)
    assert (unit.rows, unit.position) == ([], BinlogPosition(gtid(1)))


def test_inserts_into_the_marker_table_are_kept_apart() -> None:
    log = LogTopic()
    log.marker("m1", "low")
    (unit,) = units_of(log)
    assert unit.rows == []
    assert [marker.table for marker in unit.markers] == [MARKERS]


def test_markers_that_are_deleted_are_counted_and_mean_nothing() -> None:
    log = LogTopic()
    log.transaction(*(Change(MARKERS, before={"id": name, "kind": "tables"}) for name in ("m1", "m2")))
    (unit,) = units_of(log)
    assert unit.is_empty


def test_a_begin_told_again_continues_its_transaction_and_counts_anew() -> None:
    log = LogTopic()
    log.begin()
    log.row(ROWS[0])
    log.row(ROWS[1])
    log.begin_again()
    log.row(ROWS[2])
    log.finish({"account": 1})
    (unit,) = units_of(log)
    assert [row.after for row in unit.rows] == [change_json(n) for n in range(3)]
    assert unit.start == 0


def test_a_begin_told_again_still_needs_all_rows_after_it() -> None:
    log = LogTopic()
    log.begin()
    log.row(ROWS[0])
    log.begin_again()
    log.row(ROWS[2])
    log.finish({"account": 2})
    with pytest.raises(LogCorrupted, match="not whole"):
        units_of(log)


def test_another_begin_while_rows_wait_for_their_end_stops_and_names_both() -> None:
    log = LogTopic()
    log.begin()
    log.row(ROWS[0])
    log.begin()
    with pytest.raises(LogCorrupted, match=f"{gtid(1)} has 1 rows.*{gtid(2)} begins") as caught:
        units_of(log)
    assert "XA" in str(caught.value)


@pytest.mark.parametrize("foreign", [True, False])
def test_a_row_outside_begin_and_end_stops(foreign: bool) -> None:
    log = LogTopic()
    log.transaction(ROWS[0])
    log.row(Change("elsewhere", after={"x": 1}) if foreign else ROWS[1])
    with pytest.raises(LogCorrupted, match="outside BEGIN and END"):
        units_of(log)


def test_a_row_of_another_transaction_inside_one_stops() -> None:
    log = LogTopic()
    log.begin()
    log.records.append(LogRecord(1, RecordKind.ROW, gtid(7), "account", "c", b"{}", None, b"{}"))
    with pytest.raises(LogCorrupted, match=f"inside transaction {gtid(1)}"):
        units_of(log)


def test_an_end_without_its_begin_stops() -> None:
    log = LogTopic()
    log.transaction(ROWS[0])
    log.finish()
    with pytest.raises(LogCorrupted, match="without a BEGIN"):
        units_of(log)


def test_a_truncate_without_end_is_a_unit_of_its_own_once_the_next_begins() -> None:
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
    assert [unit.truncated for unit in units_of(log)] == [(), ()]


def test_a_truncate_alone_without_begin_is_a_unit_of_its_own() -> None:
    record = LogRecord(5, RecordKind.TRUNCATE, "", "audit", "t", position=BinlogPosition(gtid(3)))
    (unit,) = assembler().feed([record])
    assert (unit.truncated, unit.start, unit.end) == (("audit",), 5, 6)


def test_ddl_of_a_table_of_the_sync_is_a_unit_of_its_own_and_of_others_an_empty_one() -> None:
    log = LogTopic()
    log.ddl("ALTER TABLE account ADD x INT", "account")
    log.ddl("ALTER TABLE elsewhere ADD x INT", "elsewhere")
    log.transaction()
    ours, theirs, _ = units_of(log)
    assert ours.ddl is not None
    assert ours.ddl.statement == "ALTER TABLE account ADD x INT"
    assert theirs.ddl is None


def test_a_begin_that_nothing_follows_is_closed_by_the_next_one() -> None:
    log = LogTopic()
    log.begin()
    log.transaction(ROWS[0])
    empty, full = units_of(log)
    assert (empty.start, empty.end, empty.rows) == (0, 1, [])
    assert len(full.rows) == 1


def test_rows_after_ddl_in_one_transaction_belong_to_it() -> None:
    log = LogTopic()
    log.ddl("CREATE TABLE elsewhere AS SELECT 1", "elsewhere")
    log.row(Change("elsewhere", after={"x": 1}))
    log.finish()
    (unit,) = units_of(log)
    assert unit.rows == []


def test_after_trouble_nothing_more_is_given_out() -> None:
    log = LogTopic()
    log.transaction(ROWS[0], counts={"account": 9})
    log.transaction(ROWS[1])
    made = assembler()
    assert made.feed(log.records) == []
    assert made.feed(log.records) == []


def change_json(number: int) -> bytes:
    return b'{"id":%d,"name":"n%d"}' % (number, number)


def test_pieces_of_a_large_transaction_and_its_rest_hold_every_row_once() -> None:
    log = LogTopic()
    log.begin()
    for change in ROWS[:4]:
        log.row(change)
    made = assembler()
    made.feed(log.records)
    piece = made.take_piece()
    assert (len(piece.rows), made.open_rows, made.open_pieces) == (4, 0, 1)
    log.row(ROWS[4])
    log.finish()
    (unit,) = made.feed(log.records[5:])
    assert [row.after for row in [*piece.rows, *unit.rows]] == [change_json(n) for n in range(5)]
    assert piece.position == unit.position


def test_counts_are_verified_over_all_pieces() -> None:
    log = LogTopic()
    log.begin()
    log.row(ROWS[0])
    made = assembler()
    made.feed(log.records)
    made.take_piece()
    log.finish({"account": 2})
    assert made.feed(log.records[2:]) == []
    assert isinstance(made.trouble, LogCorrupted)
