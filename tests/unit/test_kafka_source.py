"""Topics of others: what their messages say, as they are documented, and what is refused.

The messages of Maxwell are those of its documentation (zendesk/maxwell, docs/docs/dataformat.md), those of Canal what
its `MQMessageUtils.messageConverter` makes (alibaba/canal), those of Debezium as its connectors document data change
events.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from seamline.domain.catalogue import Kind
from seamline.domain.errors import InvariantViolated, LogCorrupted
from seamline.domain.position import is_same_place, position_from_json, position_to_json
from seamline.kinds.row_json import documents
from seamline.kinds.row_json import text_of as json_of
from seamline.plan.model import SourcePlan
from seamline.sinks.kafka.formats import form_of
from seamline.sources.kafka.images import DECODER
from seamline.sources.kafka.layout import layout_of
from seamline.sources.kafka.messages import Messages
from seamline.sources.kafka.position import KafkaPosition
from seamline.sources.kafka.rows import Given, Said
from seamline.sources.kafka.spec import KafkaSource
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from tests.unit.declared import write_declarations

E = {
    "table": "e",
    "topic": "maxwell",
    "format": "maxwell",
    "named": "test.e",
    "key": ["id"],
    "columns": [
        {"name": "id", "type": "bigint"},
        {"name": "m", "type": "decimal(10,4)"},
        {"name": "c", "type": "instant", "form": "utc"},
        {"name": "comment", "type": "varchar(255)"},
    ],
}
PRODUCTS = {
    "table": "products",
    "topic": "canal",
    "format": "canal",
    "named": "inventory.products",
    "key": ["id"],
    "columns": [{"name": "id", "type": "bigint"}, {"name": "weight", "type": "decimal(8,2)"}],
}
ACCOUNT = {
    "table": "account",
    "topic": "account",
    "format": "debezium",
    "schemas": False,
    "key": ["id"],
    "columns": [
        {"name": "id", "type": "bigint"},
        {"name": "balance", "type": "decimal(18,2)", "form": "base64"},
        {"name": "at", "type": "datetime(3)", "form": "ms"},
    ],
}
RATE = {
    "table": "rate",
    "topic": "rate",
    "format": "json",
    "key": ["currency"],
    "columns": [{"name": "currency", "type": "char(3)"}, {"name": "rate", "type": "decimal(38,12)"}],
}
NOTE = {
    "table": "note",
    "topic": "note",
    "format": "json",
    "columns": [{"name": "number", "type": "integer"}, {"name": "text", "type": "text"}],
}


def declared(*tables: Mapping[str, Any], left_out: Sequence[str] = ()) -> SourcePlan:
    spec = KafkaSource.model_validate(
        {"source": "others", "kind": "kafka", "connection": "their_kafka", "tables": tables, "left_out": left_out}
    )
    return SourcePlan(
        "others", "kafka", "others", "their_kafka", "their_kafka", "their_kafka", "seamline.others.log",
        "seamline-others", **spec.plan_fields(),
    )  # fmt: skip


def said(table: Mapping[str, Any], value: object, *, key: str | None = None, **more: Any) -> list[Said]:
    text = value if isinstance(value, str) or value is None else json.dumps(value)
    given = Given(str(table["topic"]), 0, 7, key, text, headers=more.pop("headers", {}))
    plan = declared(table, left_out=more.pop("left_out", ()))
    return Messages(layout_of(plan), "others").said(given, partitions=more.pop("partitions", 1))


def image(one: bytes | None) -> Any:
    return None if one is None else json.loads(one)


# ---- Maxwell --------------------------------------------------------------------------------------------------------


def maxwell(kind: str, **more: Any) -> dict[str, Any]:
    data = {"id": 1, "m": 4.2341, "c": "2016-10-21 05:33:37.523000", "comment": "I am a creature of light."}
    return {"database": "test", "table": "e", "type": kind, "ts": 1477053217, "xid": 23396, "data": data, **more}


def test_a_row_of_maxwells_comes_changes_and_goes_with_its_exact_decimals() -> None:
    (comes,) = said(E, maxwell("insert"))
    assert (comes.op, comes.table, image(comes.key)) == ("u", "e", {"id": "1"})
    assert image(comes.after) == {
        "id": "1",
        "m": "4.2341",
        "c": "2016-10-21 05:33:37.523000Z",
        "comment": "I am a creature of light.",
    }
    (changes,) = said(E, maxwell("update", old={"m": 5.444}))
    assert (changes.op, changes.after) == ("u", comes.after)
    (goes,) = said(E, maxwell("delete"))
    assert (goes.op, goes.key, goes.after) == ("d", comes.key, None)
    assert said(E, maxwell("bootstrap-insert")) == [comes]
    assert said(E, maxwell("bootstrap-start")) == []


def test_a_row_of_maxwells_that_changes_its_key_goes_under_the_old_one() -> None:
    went, came = said(E, maxwell("update", old={"id": 9}))
    assert (went.op, image(went.key), came.op, image(came.key)) == ("d", {"id": "9"}, "u", {"id": "1"})


def test_a_table_of_maxwells_that_is_altered_is_reported_and_one_that_is_not_declared_is_not() -> None:
    sql = "alter table test.e add column torvalds bigint unsigned after m"
    (altered,) = said(E, {"type": "table-alter", "database": "test", "table": "e", "sql": sql, "ts": 1})
    assert (altered.op, altered.table, altered.statement) == ("ddl", "e", sql)
    assert said(E, {"type": "table-create", "database": "test", "table": "other", "sql": "create", "ts": 1}) == []
    assert [one.table for one in said(E, {"type": "database-drop", "database": "test", "ts": 1})] == ["e"]


def test_a_row_of_a_table_that_nobody_has_declared_stops_unless_it_is_left_out_by_name() -> None:
    other = maxwell("insert", table="other")
    assert said(E, other, left_out=["test.other"]) == []
    with pytest.raises(LogCorrupted, match=r"topic maxwell, partition 0, offset 7: it is about test\.other"):
        said(E, other)


# ---- Canal ----------------------------------------------------------------------------------------------------------


def canal(kind: str, data: object, old: object = None, **more: Any) -> dict[str, Any]:
    return {
        "data": data, "database": "inventory", "es": 1589373560000, "id": 9, "isDdl": False, "old": old,
        "mysqlType": {"id": "INTEGER", "weight": "DECIMAL(8,2)"}, "pkNames": ["id"], "sql": "",
        "sqlType": {"id": 4, "weight": 3}, "table": "products", "ts": 1589373560798, "type": kind, **more,
    }  # fmt: skip


def test_all_rows_of_a_flat_message_of_canals_are_taken_in_their_order() -> None:
    rows = [{"id": "111", "weight": "5.18"}, {"id": "112", "weight": None}]
    came = said(PRODUCTS, canal("INSERT", rows))
    assert [image(one.after) for one in came] == [{"id": "111", "weight": "5.18"}, {"id": "112", "weight": None}]
    changed = said(PRODUCTS, canal("UPDATE", rows, [{"weight": "5.15"}, {"id": "110"}]))
    assert [(one.op, image(one.key)["id"]) for one in changed] == [("u", "111"), ("d", "110"), ("u", "112")]
    assert [one.op for one in said(PRODUCTS, canal("DELETE", rows))] == ["d", "d"]
    with pytest.raises(LogCorrupted, match="it has 2 rows and 1 before them"):
        said(PRODUCTS, canal("UPDATE", rows, [{}]))


@pytest.mark.parametrize(
    ("kind", "table", "sql", "found"),
    [
        ("ALTER", "products", "ALTER TABLE products ADD COLUMN a int", ["ddl"]),
        ("ERASE", "products", "DROP TABLE `inventory`.`products`", ["ddl"]),
        ("RENAME", "goods", "RENAME TABLE products TO goods", ["ddl"]),
        ("QUERY", "", "DROP DATABASE IF EXISTS `inventory`", ["ddl"]),
        ("TRUNCATE", "products", "TRUNCATE TABLE products", ["t"]),
        ("CREATE", "other", "CREATE TABLE other (id int)", []),
        ("CINDEX", "products", "CREATE INDEX a ON products (weight)", []),
        ("DINDEX", "products", "DROP INDEX `PRIMARY` ON products", ["ddl"]),
        ("QUERY", "", "ALTER TABLE inventory.products ADD COLUMN a int", ["ddl"]),
        ("QUERY", "products", "GRANT SELECT ON products TO reader", []),
        ("QUERY", "", "TRUNCATE TABLE products WAIT 5", ["t"]),
        ("QUERY", "", "/* all */ truncate `inventory`.`products`", ["t"]),
        ("QUERY", "", "TRUNCATE TABLE IF EXISTS other.products", []),
        ("QUERY", "", "SELECT 'TRUNCATE TABLE products'", []),
    ],
)
def test_a_statement_of_canals_concerns_the_tables_that_it_alters(
    kind: str, table: str, sql: str, found: list[str]
) -> None:
    message = canal(kind, None, table=table, isDdl=True, sql=sql, pkNames=None, mysqlType=None, sqlType=None)
    assert [one.op for one in said(PRODUCTS, message)] == found


# ---- Debezium -------------------------------------------------------------------------------------------------------

ROW = {"id": 1, "balance": "BNI=", "at": 1_700_000_000_123}
SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "field": image,
            "type": "struct",
            "fields": [
                {"field": "id", "type": "int64"},
                {
                    "field": "balance",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "1"},
                },
                {"field": "at", "type": "int64", "name": "io.debezium.time.Timestamp"},
            ],
        }
        for image in ("before", "after")
    ],
}


def envelope(op: str, before: object, after: object, **more: Any) -> dict[str, Any]:
    source = {"connector": "mysql", "file": "binlog.1", "pos": 4}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1, **more}


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_a_row_of_debeziums_stands_as_its_envelope_says(op: str) -> None:
    (one,) = said(ACCOUNT, envelope(op, None, ROW))
    assert image(one.after) == {"id": "1", "balance": "12.34", "at": "2023-11-14 22:13:20.123000"}


def test_the_schema_in_a_message_says_scale_and_unit_instead_of_the_declaration() -> None:
    columns = [{"name": c["name"], "type": c["type"]} for c in ACCOUNT["columns"]]  # type: ignore[index]
    table = {**ACCOUNT, "schemas": True, "columns": columns}
    (one,) = said(table, {"schema": SCHEMA, "payload": envelope("c", None, ROW)})
    assert image(one.after) == {"id": "1", "balance": "123.40", "at": "2023-11-14 22:13:20.123000"}
    with pytest.raises(LogCorrupted, match="it holds no schema"):
        said(table, envelope("c", None, ROW))
    with pytest.raises(LogCorrupted, match="it holds its schema"):
        said(ACCOUNT, {"schema": SCHEMA, "payload": envelope("c", None, ROW)})


def test_a_delete_of_debeziums_and_the_tombstone_behind_it_say_the_same() -> None:
    (goes,) = said(ACCOUNT, envelope("d", {"id": 1, "balance": None, "at": None}, None), key='{"id":1}')
    assert (goes.op, image(goes.key), image(goes.before)) == (
        "d",
        {"id": "1"},
        {"id": "1", "balance": None, "at": None},
    )
    assert said(ACCOUNT, None, key='{"id":1}') == [goes]
    assert said(ACCOUNT, envelope("d", None, None), key='{"id":1}') == [goes]


def schema_of_row(*fields: Mapping[str, Any]) -> dict[str, Any]:
    images = [{"field": image, "type": "struct", "fields": list(fields)} for image in ("before", "after")]
    return {"type": "struct", "fields": images}


def test_what_a_schema_leaves_open_the_declaration_says_and_they_may_not_say_two_things() -> None:
    raw = {**ACCOUNT, "schemas": True, "columns": [{"name": "id", "type": "bigint"}, {"name": "raw", "type": "bytes"}]}
    declared_as = lambda form: {**raw, "columns": [raw["columns"][0], {**raw["columns"][1], "form": form}]}  # noqa: E731
    number, text = {"field": "id", "type": "int64"}, {"field": "raw", "type": "string"}
    envelope_of = lambda raw, field: {  # noqa: E731
        "schema": schema_of_row(number, field), "payload": envelope("c", None, {"id": 1, "raw": raw}),
    }  # fmt: skip
    (one,) = said(declared_as("hex"), envelope_of("cafe", text))
    assert image(one.after)["raw"] == "cafe"
    with pytest.raises(LogCorrupted, match="column raw is of type string by the message's schema: declare its `form`"):
        said(raw, envelope_of("cafe", text))
    of_bytes = {"field": "raw", "type": "bytes"}
    (one,) = said(raw, envelope_of("yv4=", of_bytes))
    assert image(one.after)["raw"] == "cafe"
    with pytest.raises(LogCorrupted, match="column raw is base64 by the message's schema, and hex by its `form`"):
        said(declared_as("hex"), envelope_of("cafe", of_bytes))


def test_a_decimal_key_is_one_key_however_its_number_is_written() -> None:
    table = {**RATE, "key": ["rate"], "columns": [{"name": "rate", "type": "decimal(10,2)"}]}
    (came,) = said(table, '{"rate":10.00}')
    assert {one.key for key in ("10", "1e1", '"10.0"', '{"rate":10.000}') for one in said(table, None, key=key)} == {
        came.key
    }


def test_a_key_that_changes_is_taken_where_all_rows_have_one_order() -> None:
    """The old row and the new one may lie in two partitions, and what follows there comes before or behind."""
    changes_key = {
        "e": (E, maxwell("update", old={"id": 9})),
        "products": (PRODUCTS, canal("UPDATE", [{"id": "112", "weight": "1"}], [{"id": "110"}])),
        "account": (ACCOUNT, envelope("u", {**ROW, "id": 9}, ROW)),
    }
    for table, change in changes_key.values():
        assert [one.op for one in said(table, change)] == ["d", "u"]
        with pytest.raises(LogCorrupted, match="it changes the key of a table whose rows lie in 3 partitions"):
            said(table, change, partitions=3)
    assert len(said(E, maxwell("update", old={"m": 5.444}), partitions=3)) == 1


def test_a_truncate_is_taken_where_all_rows_have_one_order() -> None:
    (one,) = said(ACCOUNT, envelope("t", None, None))
    assert one == Said("t", "account")
    with pytest.raises(LogCorrupted, match="3 partitions, without an order"):
        said(ACCOUNT, envelope("t", None, None), partitions=3)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (envelope("c", None, {**ROW, "new": 1}), "table account has no column new"),
        (envelope("c", None, {"id": 1}), "a row of account has no field balance"),
        (envelope("x", None, ROW), "its op is x, before not there and after there"),
        (envelope("c", None, {**ROW, "balance": "__debezium_unavailable_value"}), "left the value of balance out"),
        (envelope("c", None, {**ROW, "id": 1.5}), "column id is bigint and holds"),
        (envelope("c", None, ROW, more=1), "fields that this format does not: more"),
        ("[1]", "its value is no JSON object"),
        ('{"op":NaN}', "NaN is no number of JSON"),
        ("Obj\x01", "Expecting value"),
    ],
)
def test_a_message_that_cannot_be_read_stops_with_its_place_and_how_to_mend_it(message: object, why: str) -> None:
    with pytest.raises(LogCorrupted, match="topic account, partition 0, offset 7") as stopped:
        said(ACCOUNT, message)
    assert why in stopped.value.message
    assert "sources/others.yaml" in stopped.value.hint


def test_a_table_without_a_key_needs_whole_rows_before_changes() -> None:
    table = {**ACCOUNT, "key": []}
    before, after = ({**ROW, "id": number} for number in (1, 2))
    (one,) = said(table, envelope("u", before, after))
    assert (one.op, one.key, image(one.before)["id"], image(one.after)["id"]) == ("u", None, "1", "2")
    with pytest.raises(LogCorrupted, match="needs whole rows before changes"):
        said(table, envelope("u", None, after))
    with pytest.raises(LogCorrupted, match="which has no key to know it by"):
        said(table, None, key='{"id":1}')


# ---- the typed form -------------------------------------------------------------------------------------------------


def test_the_images_of_every_type_have_the_typed_form() -> None:
    kinds = ("decimal(10,2)", "date", "datetime", "instant", "time", "bytes", "boolean", "uuid", "unsigned", "double")
    values = (
        1, "2024-02-29", "2024-02-29T01:02:03", "2024-02-29T01:02:03Z", "01:02:03", "AP8=", True,
        "6f9619ff-8b86-d011-b42d-00cf4fc964ff", 2**64 - 1, 0.5,
    )  # fmt: skip
    table = {**NOTE, "columns": [{"name": f"c{n}", "type": kind} for n, kind in enumerate(kinds)]}
    (one,) = said(table, dict(zip([f"c{n}" for n in range(len(kinds))], values, strict=True)))
    definition = layout_of(declared(table)).tables[0].definition
    rows, missing = DECODER.rows(definition, [one.after or b""] * 2)
    assert missing is None and rows.num_rows == 2
    assert rows.column(0).to_pylist() == [Decimal("1.00")] * 2
    assert not any(column.null_count for column in rows.columns)
    assert {column.kind for column in definition.columns} >= {Kind.DECIMAL, Kind.UUID}


# ---- positions ------------------------------------------------------------------------------------------------------


def place(**topics: str) -> KafkaPosition:
    return KafkaPosition.of_texts(topics)


def test_a_position_covers_another_one_by_every_partition_of_every_topic() -> None:
    one, later, joined = place(a="x:1,2"), place(a="x:2,2"), place(a="x:2,2", b="y:0")
    assert later.covers(one) and not one.covers(later)
    assert joined.covers(later) and not later.covers(joined)
    assert not place(a="x:1,3").covers(place(a="x:2,2"))
    assert one.covers(one.start_of_log()) and not one.start_of_log().covers(one)
    assert is_same_place(position_from_json(position_to_json(joined)), joined)
    with pytest.raises(InvariantViolated):
        place(a="other:9,9").covers(one)


def test_a_stream_moves_along_positions_and_never_back() -> None:
    tracker = place(a="x:1").tracker()
    tracker.advance_to(place(a="x:5"))
    tracker.advance_to(place(a="x:3"))
    assert tracker.has_passed(place(a="x:5")) and not tracker.has_passed(place(a="x:6"))


# ---- the declaration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({**E, "named": ""}, "write `named: database.table`"),
        ({**RATE, "named": "a.b"}, "leave `named` out"),
        ({**RATE, "key": ["no"]}, "`key` names columns that are not there: no"),
        ({**NOTE, "message_key": "other"}, "`message_key` is for tables of json with a `key`"),
        ({**ACCOUNT, "message_key": "other"}, "`message_key` is for tables of json with a `key`"),
        ({**RATE, "ignored": ["rate"]}, "`ignored` names columns that are kept"),
        ({**ACCOUNT, "columns": [{"name": "id", "type": "decimal(9,0)"}]}, "declare its `form`, base64"),
        ({**RATE, "columns": [{"name": "currency", "type": "text", "form": "ms"}]}, "a text has no form `ms`"),
    ],
)
def test_a_declaration_that_does_not_go_together_is_refused(table: Mapping[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        declared(table)


def test_the_place_of_topics_is_their_names_and_no_database() -> None:
    """`explain` said `kafka, database <name of the source>`."""

    def place(*tables: Mapping[str, Any]) -> str:
        said = {"source": "others", "kind": "kafka", "connection": "their_kafka", "tables": tables}
        return KafkaSource.model_validate(said).place_in_words

    assert place(RATE) == "topic rate"
    assert place(RATE, NOTE, E, {**E, "table": "f", "named": "test.f"}) == "topics rate, note, maxwell"
    assert place(RATE, NOTE, E, ACCOUNT) == "4 topics"


def test_topics_of_others_are_not_archived(tmp_path: Path) -> None:
    said = {"source": "bank", "kind": "kafka", "connection": "queue", "tables": [RATE]}
    with pytest.raises(ValidationError, match="topics are kept for long where they are written"):
        KafkaSource.model_validate({**said, "log": {"archive": {"location": str(tmp_path)}}})


def test_a_night_of_topics_is_read_and_not_made_from_the_log(tmp_path: Path) -> None:
    source = {"source": "core_bank", "kind": "kafka", "connection": "queue", "tables": [{**RATE, "table": "account"}]}
    sync = "sync: settlement\nsource: core_bank\ndestinations: [warehouse]\ntables: [account]\nnightly:\n"
    files = {"sources/core_bank.yaml": json.dumps(source), "expectations/settlement.yaml": "expectations: settlement\n"}
    for how, faults in (("read", 0), ("log", 1), ("auto", 1)):
        nightly = f"  timezone: Asia/Shanghai\n  from: {how}\n"
        folder = write_declarations(tmp_path / how, {**files, "syncs/settlement.yaml": sync + nightly})
        (folder / "expectations" / "settlement.yaml").unlink()
        try:
            load_declarations(folder)
        except DeclarationsInvalid as refused:
            assert [one.path for one in refused.faults] == ["nightly.from"] * faults, refused
        else:
            assert not faults


def test_only_messages_that_name_their_table_may_share_a_topic() -> None:
    declared(E, {**E, "table": "f", "named": "test.f"})
    with pytest.raises(ValidationError, match="only messages of Maxwell and Canal name their table"):
        declared(RATE, {**RATE, "table": "other"})
    with pytest.raises(ValidationError, match=r"test\.e is left out, and table e is read from it"):
        declared(E, left_out=["test.e"])
    with pytest.raises(ValidationError, match="are one table of topic maxwell"):
        declared(E, {**E, "table": "f"})


# ---- topics of our own ----------------------------------------------------------------------------------------------

OWN = {
    "table": "own",
    "topic": "own",
    "key": ["id"],
    "schemas": False,
    "columns": [
        {"name": "id", "type": "bigint"},
        {"name": "amount", "type": "decimal(38,10)", "form": "text"},
        {"name": "booked", "type": "date"},
        {"name": "local", "type": "datetime"},
        {"name": "moment", "type": "instant"},
        {"name": "hour", "type": "time"},
        {"name": "raw", "type": "bytes", "form": "hex"},
        {"name": "is_open", "type": "boolean"},
        {"name": "real", "type": "double"},
        {"name": "code", "type": "uuid"},
        {"name": "memo", "type": "text"},
    ],
}


@pytest.mark.parametrize("form", ["json", "debezium"])
def test_what_a_destination_of_topics_writes_a_source_of_topics_reads_as_the_same_rows(form: str) -> None:
    """So a second sync follows the first one's topics."""
    table = {**OWN, "format": form}
    definition = layout_of(declared(table)).tables[0].definition
    texts = {
        "id": "7", "amount": "1234567890123456789012345678.0123456789", "booked": "2024-02-29",
        "local": "2024-02-29 01:02:03.000004", "moment": "2024-02-29 01:02:03.000004Z", "hour": "23:59:59.999999",
        "raw": "00ff", "is_open": "true", "real": "0.1", "code": "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "memo": "余额",
    }  # fmt: skip
    empty = {name: text if name == "id" else None for name, text in texts.items()}
    rows, _ = DECODER.rows(definition, [json.dumps(texts).encode(), json.dumps({**empty, "id": "8"}).encode()])
    written = form_of(form, source="bank", sync="settlement", table="own")
    found = []
    for document in documents(definition, definition.columns, rows):
        value = written.written(b"c", json_of(document)).decode()
        found += [one.after or b"" for one in said(table, value)]
    again, _ = DECODER.rows(definition, found)
    assert again.equals(rows)
    *_, gone = written.gone(json_of({"id": 7}))
    assert gone is None and [one.op for one in said(table, gone, key='{"id":7}')] == ["d"]
