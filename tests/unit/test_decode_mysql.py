"""Every kind of record that MySQL's connector writes, as it wrote it (3.6.1.Final, MySQL 9.7.4)."""

import json
from pathlib import Path

import pytest

from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, PrecedingTransaction, RecordKind, RowChange, Transaction, touched
from seamline.domain.table_places import TablePlaces
from seamline.sources.mysql.decode import MySqlDecoder
from seamline.sources.mysql.gtid_set import GtidSet
from seamline.sources.mysql.position import MySqlPosition
from seamline.sync.transactions import TransactionAssembler
from tests.log_messages import Message, decode

RECORDS: dict[str, tuple[bytes | None, bytes]] = {}
for line in Path(__file__).with_name("mysql_records.jsonl").read_text(encoding="utf-8").splitlines():
    entry = json.loads(line)
    RECORDS[entry["name"]] = (entry["key"].encode() if entry["key"] else None, entry["value"].encode())

OFFSET, FILE = 77, "binlog.000009"
SERVER = "ba65fdfa-ea57-11f1-8c81-02fc00000001"


def decoded(key: bytes | None, value: bytes | None) -> LogRecord:
    (record,) = decode(MySqlDecoder("core", TablePlaces("bank")), Message(OFFSET, key, value))
    return record


def of(name: str) -> LogRecord:
    return decoded(*RECORDS[name])


def at(number: int | str, file: str = "", offset: int = 0) -> MySqlPosition:
    return MySqlPosition(GtidSet.parse(f"{SERVER}:{number}"), file, offset)


EXPECTED = {
    "begin": LogRecord(OFFSET, RecordKind.BEGIN, f"{SERVER}:99", at(99), ts_ms=1795782562041),
    "heartbeat": LogRecord(OFFSET, RecordKind.HEARTBEAT, ts_ms=1795782560653),
    "insert": LogRecord(
        OFFSET,
        RecordKind.ROWS,
        f"{SERVER}:99",
        at(99, FILE, 10096),
        [RowChange(OFFSET, "account", "c", b'{"id":1}', after=b'{"id":1,"v":"one","n":"1.10"}')],
    ),
    "end": LogRecord(
        OFFSET, RecordKind.END, f"{SERVER}:99", at(99), total=6, counts={"account": 6}, ts_ms=1795782562041
    ),
    "end of no rows": LogRecord(
        OFFSET, RecordKind.END, f"{SERVER}:100", at(100), total=0, counts={}, ts_ms=1795782562043
    ),
    "begin with a tag": LogRecord(OFFSET, RecordKind.BEGIN, f"{SERVER}:batch:2", at("batch:2"), ts_ms=1795782562062),
    "truncate": LogRecord(
        OFFSET,
        RecordKind.TRUNCATE,
        f"{SERVER}:105",
        at(105, FILE, 12775),
        table="doc",
        tables=("doc",),
        ts_ms=1795782562307,
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_record_is_read_whole(name: str) -> None:
    assert of(name) == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "op", "position", "before", "after"),
    [
        ("update", "u", at(99, FILE, 10234), b'{"id":1,"v":"one","n":"1.10"}', b'{"id":1,"v":"uno","n":"1.10"}'),
        ("key change, old key", "d", at(99, FILE, 10377), b'{"id":2,"v":null,"n":"2.00"}', None),
        ("key change, new key", "c", at(99, FILE, 10377), None, b'{"id":10,"v":null,"n":"2.00"}'),
        ("insert with a tag", "c", at("batch:2", FILE, 11587), None, b'{"id":3,"v":"tagged","n":"3.00"}'),
        # All rows of a compressed transaction stand where it begins.
        (
            "insert of a compressed transaction", "c", at(102, FILE, 11749), None,
            b'{"id":5,"v":"packed","n":"5.00"}',
        ),
        (
            "row of a prepared XA transaction", "c", at(110, FILE, 14406), None,
            b'{"id":7,"v":"dd","n":null,"extra":42}',
        ),
    ],
)  # fmt: skip
def test_a_row_has_the_place_of_its_transaction(
    name: str, op: str, position: MySqlPosition, before: bytes | None, after: bytes | None
) -> None:
    record = of(name)
    (row,) = record.rows
    assert record.position == position
    assert (row.op, row.before, row.after) == (op, before, after)


@pytest.mark.parametrize(
    ("name", "number", "tables"),
    [
        ("alter", 106, ("account",)),
        ("drop of another table", 109, ("doc2",)),
        # The connector makes two records of one statement, which carry the same GTID.
        ("rename, first half", 114, ("account", "account2")),
        ("rename, second half", 114, ("account", "account2")),
    ],
)
def test_a_statement_names_the_tables_that_it_changes(name: str, number: int, tables: tuple[str, ...]) -> None:
    record = of(name)
    assert record.kind is RecordKind.DDL
    assert isinstance(record.position, MySqlPosition)
    assert record.position.gtids == at(number).gtids
    assert set(record.tables) == set(tables)
    assert touched(record, {"account"}) == (("account",) if "account" in tables else ())


def test_the_structure_that_a_recovery_finds_is_no_change() -> None:
    assert of("structure of a recovery").kind is RecordKind.HEARTBEAT


def test_a_begin_of_ours_names_a_transaction_before_it_whose_id_holds_colons() -> None:
    begin = json.loads(RECORDS["begin"][1])
    begin |= {"seamline": "whole", "seamline_follows": f"BEGIN {SERVER}:batch:7 2"}
    record = decoded(None, json.dumps(begin, separators=(",", ":")).encode())
    assert record.is_whole
    assert record.follows == PrecedingTransaction(at("batch:7"), has_end=False, records=2)


@pytest.mark.parametrize("gtid", ["", "0-7-12", f"{SERVER}:1-2", f"{SERVER}:1,{SERVER}:3"])
def test_what_is_not_the_name_of_one_transaction_is_refused(gtid: str) -> None:
    for name in ("begin", "insert", "truncate"):
        value = RECORDS[name][1]
        named = value.replace(f"{SERVER}:{105 if name == 'truncate' else 99}".encode(), gtid.encode())
        with pytest.raises(LogCorrupted):
            decoded(None, named)


def stream(*names: str) -> tuple[list[Transaction], TransactionAssembler]:
    """What becomes of these records, one behind the other."""
    assembler = TransactionAssembler({"account", "doc"}, marker_table="seamline_marker")
    messages = [Message(OFFSET + number, *RECORDS[name]) for number, name in enumerate(names)]
    return assembler.feed(decode(MySqlDecoder("core", TablePlaces("bank")), *messages)), assembler


def test_a_truncate_and_a_statement_are_transactions_of_their_own_without_begin_and_end() -> None:
    (truncate, alter), assembler = stream("truncate", "alter")
    assert assembler.trouble is None
    assert (truncate.truncated, truncate.position) == (("doc",), at(105, FILE, 12775))
    assert alter.ddl is not None


@pytest.mark.parametrize(
    ("names", "trouble"),
    [
        (("row of a prepared XA transaction",), "outside BEGIN and END"),
        (("begin", "begin with a tag"), "has no END"),
        (("begin", "insert", "begin with a tag"), "no END"),
    ],
)
def test_a_row_of_an_xa_transaction_and_a_lost_end_stop_the_stream(names: tuple[str, ...], trouble: str) -> None:
    transactions, assembler = stream(*names)
    assert not transactions
    assert trouble in str(assembler.trouble)
