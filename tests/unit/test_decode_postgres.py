"""Every kind of record that PostgreSQL's connector writes (3.7.0.Final, PostgreSQL 16).

Most are as it wrote them, with fewer columns. Made after their description: the heartbeat, the message and its END, the
END of nothing captured, the update with a full before image, and the rows of a table without a key.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from seamline.adapters.debezium.envelope import Decoder
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, PrecedingTransaction, RecordKind, RowChange
from seamline.domain.table_places import TablePlaces
from seamline.domain.unavailable_values import UNAVAILABLE
from seamline.sources.postgres.decode import WalDecoder
from seamline.sources.postgres.position import PostgresPosition
from tests.log_messages import Message, decode

RECORDS: dict[str, tuple[bytes | None, bytes]] = {}
for line in Path(__file__).with_name("postgres_records.jsonl").read_text(encoding="utf-8").splitlines():
    entry = json.loads(line)
    RECORDS[entry["name"]] = (entry["key"].encode() if entry["key"] else None, entry["value"].encode())

OFFSET = 77


def decoder(*, name: str = "seamline-core_bank", database: str = "bank", schema: str = "public") -> Decoder:
    return WalDecoder(name, database, TablePlaces(schema))


def decoded(key: bytes | None, value: bytes | None, **source: str) -> LogRecord:
    (record,) = decode(decoder(**source), Message(OFFSET, key, value))
    return record


def of(name: str) -> LogRecord:
    return decoded(*RECORDS[name])


def altered(name: str, **fields: Any) -> bytes:
    document = json.loads(RECORDS[name][1])
    for path, value in fields.items():
        *parents, last = path.split("__")
        place = document
        for parent in parents:
            place = place[parent]
        place[last] = value
    return json.dumps(document, separators=(",", ":")).encode()


def test_a_begin_of_ours_names_the_end_before_it() -> None:
    begin = decoded(None, altered("begin", seamline_follows="END 791:41687000"))
    assert begin.follows == PrecedingTransaction(PostgresPosition(41687000, 791), has_end=True)


EXPECTED = {
    "begin": LogRecord(
        OFFSET, RecordKind.BEGIN, "792", PostgresPosition(41687152, 792), ts_ms=1795338657657, is_whole=True
    ),
    "heartbeat": LogRecord(OFFSET, RecordKind.HEARTBEAT, ts_ms=1795338658012),
    "insert": LogRecord(
        OFFSET,
        RecordKind.ROWS,
        "792",
        PostgresPosition(41687152, 792),
        [RowChange(OFFSET, "account", "c", b'{"id":1}', after=b'{"id":1,"a":1,"t":"xyzxyzxy","b":"AP8Q"}')],
    ),
    "end": LogRecord(
        OFFSET,
        RecordKind.END,
        "792",
        position=PostgresPosition(41687536, 792),
        total=1,
        counts={"account": 1},
        ts_ms=1795338657657,
    ),
    "end of a key change": LogRecord(
        OFFSET,
        RecordKind.END,
        "794",
        position=PostgresPosition(41688184, 794),
        total=2,
        counts={"account": 2},
        ts_ms=1795338657688,
    ),
    "end of nothing captured": LogRecord(
        OFFSET, RecordKind.END, "814", position=PostgresPosition(41807400, 814), counts={}, ts_ms=1795338659100
    ),
    "truncate": LogRecord(
        OFFSET,
        RecordKind.TRUNCATE,
        "801",
        PostgresPosition(41805008, 801),
        table="account",
        total=1,
        tables=("account",),
        ts_ms=1795338657717,
    ),
    "message": LogRecord(OFFSET, RecordKind.ROWS, rows=(RowChange(OFFSET, "@messages", "m"),)),
}
LEFT_OUT = f'"t":"{UNAVAILABLE}","b":"c2VhbWxpbmU6dW5jaGFuZ2VkLXZhbHVlLWxlZnQtb3V0OjVmMGM5YjFlN2E="}}'.encode()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_record_is_read_whole(name: str) -> None:
    assert of(name) == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "op", "key", "before", "after"),
    [
        ("update, before null", "u", b'{"id":1}', None, b'{"id":1,"a":2,' + LEFT_OUT),
        (
            "update, before full",
            "u",
            b'{"id":1}',
            b'{"id":1,"a":2,"t":"xyzxyzxy"}',
            b'{"id":1,"a":3,"t":"xyzxyzxy"}',
        ),
        ("delete, key only", "d", b'{"id":9}', b'{"id":9,"a":null,"t":null,"b":null}', None),
        ("key change, old key", "d", b'{"id":1}', b'{"id":1,"a":null,"t":null,"b":null}', None),
        ("key change, new key", "c", b'{"id":3}', None, b'{"id":3,"a":2,' + LEFT_OUT),
        ("keyless insert", "c", None, None, b'{"a":1,"memo":"m"}'),
        ("keyless delete", "d", None, b'{"a":1,"memo":"m"}', None),
    ],
)
def test_row_images_and_keys_stay_the_bytes_they_were(
    name: str, op: str, key: bytes | None, before: bytes | None, after: bytes | None
) -> None:
    (row,) = of(name).rows
    assert (row.op, row.key, row.before, row.after) == (op, key, before, after)


@pytest.mark.parametrize("name", [name for name in RECORDS if b'"before"' in RECORDS[name][1]])
def test_an_image_that_is_null_is_none_and_not_a_text(name: str) -> None:
    document = json.loads(RECORDS[name][1])
    for row in of(name).rows:
        assert (row.before is None, row.after is None) == (document["before"] is None, document["after"] is None)


@pytest.mark.parametrize("name", RECORDS)
def test_only_a_row_whose_log_left_values_out_is_partial(name: str) -> None:
    lacking = ["update, before null", "key change, new key"]
    assert [name for row in of(name).rows if row.is_partial] == [one for one in lacking if one == name]


def test_a_row_that_lacks_values_shows_the_key_it_had_before() -> None:
    message = Message(OFFSET, *RECORDS["key change, new key"], (("__debezium.oldkey", b'{"id":1}'),))
    ((row,),) = (record.rows for record in decode(decoder(), message))
    assert (row.is_partial, row.old_key) == (True, b'{"id":1}')


def test_a_row_belongs_to_its_transaction_and_table() -> None:
    record = of("marker")
    assert (record.transaction_id, [row.table for row in record.rows]) == ("802", ["seamline_marker"])
    assert record.position == PostgresPosition(41805424, 802)


def test_rows_of_one_transaction_that_follow_each_other_are_one_record() -> None:
    names = ("key change, old key", "key change, new key", "delete, key only", "heartbeat", "delete, key only")
    records = decode(decoder(), *(Message(OFFSET + n, *RECORDS[name]) for n, name in enumerate(names)))
    assert [[row.op for row in record.rows] for record in records] == [["d", "c"], ["d"], [], ["d"]]
    assert [(record.offset, record.end) for record in records] == [(77, 79), (79, 80), (80, 81), (81, 82)]
    assert [record.transaction_id for record in records] == ["794", "800", "", "800"]
    assert records[1].position is records[3].position
    assert records[1].position == PostgresPosition(41801968, 800)


def test_what_comes_before_a_record_of_no_capture_is_reported() -> None:
    records: list[LogRecord] = []
    with pytest.raises(LogCorrupted, match=f"offset {OFFSET + 1}: an unknown record"):
        decoder().decode([Message(OFFSET, *RECORDS["insert"]), Message(OFFSET + 1, None, b"{}")], records)
    assert records == [EXPECTED["insert"]]


def test_a_truncate_between_rows_of_its_transaction_belongs_to_it_and_keeps_them_apart() -> None:
    values = (RECORDS["insert"][1], altered("truncate", source__txId=792, source__lsn=41687300), RECORDS["insert"][1])
    records = decode(decoder(), *(Message(OFFSET + n, b"{}", value) for n, value in enumerate(values)))
    assert [record.kind for record in records] == [RecordKind.ROWS, RecordKind.TRUNCATE, RecordKind.ROWS]
    assert [record.end for record in records] == [78, 79, 80]
    assert len({(record.transaction_id, record.position) for record in records}) == 1


def test_a_message_between_rows_keeps_them_apart() -> None:
    names = ("insert", "message", "insert")
    records = decode(decoder(), *(Message(OFFSET + n, *RECORDS[name]) for n, name in enumerate(names)))
    assert [[row.table for row in record.rows] for record in records] == [["account"], ["@messages"], ["account"]]


def test_messages_are_counted_under_a_name_that_no_table_is_asked_for() -> None:
    record = of("end of a message")
    messages = "io.debezium.connector.postgresql.connection.LogicalDecodingMessage@f92adec"
    assert (record.total, record.counts) == (2, {messages: 1, "account": 1})


@pytest.mark.parametrize("table", ["a.b", "a@b", "public.account", "Konto ä"])
def test_any_table_name_is_kept_in_the_counts(table: str) -> None:
    value = altered("end", data_collections=[{"data_collection": f"public.{table}", "event_count": 1}])
    assert decoded(None, value).counts == {table: 1}


@pytest.mark.parametrize("name", ["insert", "truncate", "message"])
def test_a_record_of_another_source_is_named_with_its_offset(name: str) -> None:
    with pytest.raises(LogCorrupted, match=r"offset 77: a record of source 'seamline-core_bank'"):
        decoded(*RECORDS[name], name="seamline-other")


@pytest.mark.parametrize("name", ["insert", "truncate", "message"])
def test_a_record_of_another_database_stops(name: str) -> None:
    with pytest.raises(LogCorrupted, match=r"offset 77: .*'bank.*belongs to .*other"):
        decoded(*RECORDS[name], database="other")


def tables_of(record: LogRecord) -> set[str]:
    return {*(row.table for row in record.rows), *record.tables, *(record.counts or {})}


@pytest.mark.parametrize(
    ("elsewhere", "called"),
    [
        ((), "public.account"),
        ((("account", "public.account"),), "account"),
        ((("konto", "public.account"), ("account", "other.ledger")), "konto"),
    ],
)
@pytest.mark.parametrize("name", ["insert", "truncate", "end"])
def test_a_table_of_another_schema_is_called_as_the_sync_calls_it(
    name: str, elsewhere: tuple[tuple[str, str], ...], called: str
) -> None:
    key, value = RECORDS[name]
    one = WalDecoder("seamline-core_bank", "bank", TablePlaces("other", elsewhere))
    (record,) = decode(one, Message(OFFSET, key, value))
    assert called in tables_of(record) and "account" not in tables_of(record) - {called}


def test_a_table_of_the_own_schema_whose_name_another_one_has_is_not_taken_for_it() -> None:
    key, value = RECORDS["insert"]
    one = WalDecoder("seamline-core_bank", "bank", TablePlaces("public", [("account", "sales.account")]))
    (record,) = decode(one, Message(OFFSET, key, value))
    assert tables_of(record) == {"public.account"}


@pytest.mark.parametrize(
    "value",
    [
        b"garbage",
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"before":1}',
        b'{"ts_ms":"x"}',
        b'{"something":1}',
        b'{"status":"\xff"}',
        RECORDS["insert"][1][:-20],
        RECORDS["insert"][1].replace(b"seamline-core_bank", b"seamline-\xff"),
        altered("insert", op="r"),
        altered("insert", source__txId=None),
        altered("insert", source__lsn=None),
        altered("insert", source=None),
        altered("begin", id="0-7-3087"),
        altered("begin", id="792"),
        altered("begin", id="792:41687152 "),
        altered("begin", status="MIDDLE"),
        altered("end", event_count=None),
        altered("message", op="x"),
        altered("message", source=None),
        b'{"ts_ms":1795338657657,"ddl":"drop table account"}',
        None,
    ],
)
def test_anything_else_stops_and_names_the_offset(value: bytes | None) -> None:
    with pytest.raises(LogCorrupted, match="offset 77"):
        decoded(None, value)


@pytest.mark.parametrize("name", [name for name, (_, value) in RECORDS.items() if value[2:8] == b"before"])
def test_a_row_reads_the_same_without_what_our_connector_leaves_out(name: str) -> None:
    key, value = RECORDS[name]
    row = json.loads(value)
    source = {field: row["source"][field] for field in ("name", "ts_ms", "db", "schema", "table", "txId", "lsn")}
    lean = {"before": row["before"], "after": row["after"], "source": source, "op": row["op"]}
    assert decoded(key, json.dumps(lean, separators=(",", ":")).encode()) == of(name)
