import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.changes import TableChanges
from seamline.domain.cutover import Boundary, BoundaryGate
from seamline.domain.errors import LogCorrupted, SchemaConflict
from seamline.domain.log import RowChange, Transaction
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.compaction import compact
from seamline.sync.transactions import TransactionAssembler
from tests.bank_history import History, canonical, histories, text_of
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    MARKERS,
    TABLES,
    TRANSFER,
    Change,
    LogTopic,
    delete,
    gtid,
    insert,
    position,
    update,
)

BY_NAME = {table.name: table for table in TABLES}


def open_gate(covered: int = 0) -> BoundaryGate:
    return BoundaryGate({name: Boundary(name, position(covered)) for name in BY_NAME})


def transactions_of(log: LogTopic) -> list[Transaction]:
    made = TransactionAssembler(BY_NAME, marker_table=MARKERS)
    transactions = made.feed(log.records)
    assert made.trouble is None
    return transactions


def changes_of(*changes: Change) -> dict[str, TableChanges]:
    log = LogTopic()
    log.transaction(*changes)
    return compact(transactions_of(log), tables=BY_NAME, gate=open_gate())


class Replay:
    """Applies compacted changes by the plainest means and refuses what a destination could not do."""

    def __init__(self) -> None:
        self.keyed: dict[str, dict[str, dict[str, object]]] = {"account": {}, "transfer": {}}
        self.audit: Counter[str] = Counter()

    def apply(self, changes: TableChanges) -> None:
        if changes.table == "audit":
            if changes.truncate_first:
                self.audit.clear()
            for row, copies in changes.net.items():
                self.audit[text_of(json.loads(row))] += copies
            assert all(copies >= 0 for copies in self.audit.values()), "a row disappears that was not there"
            return
        rows = self.keyed[changes.table]
        if changes.truncate_first:
            rows.clear()
        for change in changes.keyed:
            key = change.key.decode()
            assert (key in rows) == change.met_row, "the first change of a key says what it expects to meet"
            if change.is_delete:
                rows.pop(key, None)
            else:
                rows[key] = json.loads(change.row)

    def snapshot(self) -> dict[str, list[str]]:
        return {
            "account": canonical(self.keyed["account"].values()),
            "transfer": canonical(self.keyed["transfer"].values()),
            "audit": sorted(self.audit.elements()),
        }


@given(histories(), st.lists(st.integers(0, 15), max_size=4))
def test_any_cut_of_a_history_into_spans_gives_the_same_tables(history: History, cuts: list[int]) -> None:
    transactions, gate, replay, last = transactions_of(history.log), open_gate(), Replay(), 0
    for cut in [*sorted(cut for cut in cuts if cut < len(transactions)), len(transactions)]:
        for changes in compact(transactions[last:cut], tables=BY_NAME, gate=gate).values():
            replay.apply(changes)
        last = cut
        assert replay.snapshot() == history.states[cut]


def test_the_newest_change_of_a_key_wins_in_log_order() -> None:
    changes = changes_of(
        insert(ACCOUNT, id=1, name="a"),
        update(ACCOUNT, {"id": 1, "name": "a"}, {"id": 1, "name": "b"}),
    )["account"]
    (change,) = changes.keyed
    assert (change.row, change.is_delete, change.met_row) == (b'{"id":1,"name":"b"}', False, False)
    assert changes.changes_in == 2


def test_a_key_change_is_a_delete_and_an_insert() -> None:
    changes = changes_of(update(ACCOUNT, {"id": 1, "name": "a"}, {"id": 2, "name": "a"}))["account"]
    assert [(c.key, c.is_delete, c.met_row) for c in changes.keyed] == [
        (b'{"id":1}', True, True),
        (b'{"id":2}', False, False),
    ]


def test_delete_and_reinsert_of_a_key_is_one_change_that_meets_a_row() -> None:
    changes = changes_of(delete(ACCOUNT, id=1, name="a"), insert(ACCOUNT, id=1, name="b"))["account"]
    (change,) = changes.keyed
    assert (change.is_delete, change.met_row) == (False, True)


def test_keyless_rows_that_come_and_go_in_one_span_leave_no_trace() -> None:
    row = {"actor": "x", "action": "login"}
    assert changes_of(insert(AUDIT, **row), delete(AUDIT, **row))["audit"].is_empty


def test_identical_keyless_rows_are_counted() -> None:
    row = {"actor": "x", "action": "login"}
    changes = changes_of(*[insert(AUDIT, **row)] * 1000, delete(AUDIT, actor="y", action=""))["audit"]
    assert changes.net == {b'{"actor":"x","action":"login"}': 1000, b'{"actor":"y","action":""}': -1}


def test_transactions_covered_by_the_snapshot_are_dropped_per_table() -> None:
    log = LogTopic()
    for number in range(1, 4):
        log.transaction(insert(ACCOUNT, id=number, name="a"), insert(AUDIT, actor="x", action=str(number)))
    gate = BoundaryGate({"account": Boundary("account", position(2)), "audit": Boundary("audit", position(1))})
    found = compact(transactions_of(log), tables=BY_NAME, gate=gate)
    assert [change.key for change in found["account"].keyed] == [b'{"id":3}']
    assert len(found["audit"].net) == 2


def test_a_covered_truncate_is_dropped() -> None:
    log = LogTopic()
    log.truncate("account")
    log.transaction()
    assert compact(transactions_of(log), tables=BY_NAME, gate=open_gate(covered=1)) == {}


def test_a_covered_transaction_after_an_uncovered_one_is_a_log_out_of_order() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.transaction(insert(ACCOUNT, id=2, name="a"))
    first, second = transactions_of(log)
    with pytest.raises(LogCorrupted, match="lies before boundary"):
        compact([second, first], tables=BY_NAME, gate=open_gate(covered=1))


def test_a_truncate_forgets_what_came_before_it_in_the_span() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.truncate("account")
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    changes = compact(transactions_of(log), tables=BY_NAME, gate=open_gate())["account"]
    assert changes.truncate_first
    assert [change.key for change in changes.keyed] == [b'{"id":2}']


def emptied_first(*rows: RowChange, truncated: tuple[str, ...] = ("account", "audit"), number: int = 2) -> Transaction:
    """A transaction of a source whose TRUNCATE may stand among rows."""
    return Transaction(
        gtid(number), 10 * number, 10 * number + 5, BinlogPosition(gtid(number)), list(rows), truncated=truncated
    )


def added(table: str, key: bytes | None, after: bytes) -> RowChange:
    return RowChange(21, table, "c", key, after=after)


def test_two_tables_are_emptied_and_filled_again_by_one_transaction() -> None:
    log = LogTopic()
    log.transaction(
        insert(ACCOUNT, id=1, name="a"), insert(AUDIT, actor="x", action="login"), insert(TRANSFER, tx=1, leg=1)
    )
    rows = [
        added("account", b'{"id":2}', b'{"id":2,"name":"b"}'),
        added("audit", None, b'{"actor":"y","action":""}'),
        added("account", b'{"id":3}', b'{"id":3,"name":"c"}'),
        added("transfer", b'{"tx":2,"leg":1}', b'{"tx":2,"leg":1}'),
    ]
    found = compact([*transactions_of(log), emptied_first(*rows)], tables=BY_NAME, gate=open_gate())
    account, audit, transfer = (found[name] for name in ("account", "audit", "transfer"))
    assert (account.truncate_first, audit.truncate_first, transfer.truncate_first) == (True, True, False)
    assert [(change.key, change.met_row) for change in account.keyed] == [(b'{"id":2}', False), (b'{"id":3}', False)]
    assert audit.net == {b'{"actor":"y","action":""}': 1}
    assert len(transfer.keyed) == 2, "a table that was not emptied keeps what came before"
    assert (account.changes_in, audit.changes_in, transfer.changes_in) == (3, 2, 2)


def test_tables_that_are_only_emptied_are_reported_too() -> None:
    found = compact([emptied_first()], tables=BY_NAME, gate=open_gate())
    assert set(found) == {"account", "audit"}
    assert all(changes.truncate_first and not changes.is_empty for changes in found.values())
    assert not any(changes.keyed or changes.net for changes in found.values())


def test_a_transaction_that_empties_and_fills_is_covered_or_kept_table_by_table() -> None:
    gate = BoundaryGate({"account": Boundary("account", position(2)), "audit": Boundary("audit", position(1))})
    rows = [added("account", b'{"id":2}', b'{"id":2,"name":"b"}'), added("audit", None, b'{"actor":"y"}')]
    found = compact([emptied_first(*rows)], tables=BY_NAME, gate=gate)
    assert set(found) == {"audit"}
    assert (found["audit"].truncate_first, found["audit"].net) == (True, {b'{"actor":"y"}': 1})


def test_a_table_emptied_again_in_a_later_transaction_forgets_what_the_first_filled() -> None:
    first = emptied_first(added("account", b'{"id":2}', b'{"id":2,"name":"b"}'))
    second = emptied_first(truncated=("account",), number=3)
    found = compact([first, second], tables=BY_NAME, gate=open_gate())
    assert (found["account"].truncate_first, found["account"].keyed) == (True, [])
    assert found["audit"].truncate_first


@pytest.mark.parametrize(
    ("table", "op", "before", "after", "key"),
    [
        ("account", "u", b"{}", b"{}", None),
        ("account", "d", None, b"{}", b"{}"),
        ("audit", "u", None, b"{}", None),
        ("audit", "c", b"{}", None, None),
    ],
)
def test_a_change_without_key_or_full_image_stops(
    table: str, op: str, before: bytes | None, after: bytes | None, key: bytes | None
) -> None:
    transaction = Transaction("0-1-1", 0, 5, position(1), [RowChange(3, table, op, key, before, after)])
    with pytest.raises(LogCorrupted, match="offset 3") as caught:
        compact([transaction], tables=BY_NAME, gate=open_gate())
    assert (caught.value.table, caught.value.position) == (table, str(position(1)))


@pytest.mark.parametrize(
    ("table", "op", "key"), [("account", "c", b"{}"), ("account", "d", b"{}"), ("audit", "u", None)]
)
def test_a_row_that_no_record_of_the_log_holds_stops_its_table_by_name(table: str, op: str, key: bytes | None) -> None:
    transaction = Transaction("0-1-1", 0, 5, position(1), [RowChange(3, table, op, key, None, None)])
    with pytest.raises(SchemaConflict, match=f"a row of {table} is larger than a record of the log may be") as caught:
        compact([transaction], tables=BY_NAME, gate=open_gate())
    assert "parked" in caught.value.hint
    assert (caught.value.table, caught.value.position) == (table, str(position(1)))
