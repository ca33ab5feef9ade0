"""Row images of every kind and edge value, as each connector writes them, have the values of the source in the typed
form, or are refused by name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from seamline.adapters.debezium.row_decoder import RowDecoder
from seamline.databases.mysql import row_decoder as mariadb
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import LogCorrupted, SchemaConflict
from seamline.domain.unavailable_values import UNAVAILABLE, UNAVAILABLE_BYTES
from seamline.sources.postgres import row_decoder as postgres
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from seamline.values.changes import change_batch
from seamline.values.digest import canonical_texts
from tests.contract.wire_values import wire_value
from tests.integration.kinds import CASES, INEXACT_CASES
from tests.postgres_wire import NATIVE_WIRE, NO_VALUES, WIRE
from tests.toast_log import NOTE, note, to_json

Values = Mapping[Column, Sequence[tuple[Any, Any]]]
# Column → the pairs of what its log has and what its source held.
OF_MARIADB: Values = {
    case.column: [(wire_value(case.column, edge.value), edge.value) for edge in case.edges]
    for case in (*CASES, *INEXACT_CASES)
}
SOURCES: dict[str, tuple[RowDecoder, Values]] = {
    "mariadb": (mariadb.DECODER, OF_MARIADB),
    "postgres": (postgres.DECODER, {**WIRE, **NATIVE_WIRE}),
}
BOTH = pytest.mark.parametrize("source", SOURCES)


def _images(column: Column, wires: Sequence[Any]) -> list[bytes]:
    return [to_json({column.name: wire}) for wire in wires]


def _differing(decoder: RowDecoder, values: Values) -> set[str]:
    """The columns in which a value is another than that of the source, or in another place."""
    found = set()
    for column, pairs in values.items():
        table = Table("t", (column,))
        rows, missing = decoder.rows(table, _images(column, [None, *(wire for wire, _ in pairs), None]))
        assert missing is None
        assert rows.schema.equals(schema_of(table), check_metadata=True)
        rows.validate(full=True)
        wanted = batch_of(table, [(None,), *((value,) for _, value in pairs), (None,)])
        texts = [canonical_texts(column, batch.column(0)).to_pylist() for batch in (rows, wanted)]
        if texts[0] != texts[1]:
            found.add(column.name)
    return found


@BOTH
def test_every_value_is_that_of_the_source(source: str) -> None:
    assert _differing(*SOURCES[source]) == set()


@BOTH
def test_all_kinds_stand_in_one_row_and_each_in_its_place(source: str) -> None:
    decoder, values = SOURCES[source]
    table = Table("t", tuple(values))
    count = max(map(len, values.values()))
    taken = [[pairs[number % len(pairs)] for pairs in values.values()] for number in range(count)]
    names = [column.name for column in values]
    # So many that Arrow reads them in blocks.
    images = [to_json(dict(zip(names, [wire for wire, _ in row], strict=True))) for row in taken] * 30
    rows, _ = decoder.rows(table, images)
    wanted = batch_of(table, [[value for _, value in row] for row in taken])
    for column, found, expected in zip(table.columns, rows.columns, wanted.columns, strict=True):
        texts = canonical_texts(column, expected).to_pylist() * 30
        assert canonical_texts(column, found).to_pylist() == texts, column.name


def _moved(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([values[1:], values[:1]])


@pytest.mark.parametrize(("module", "source"), [(mariadb, "mariadb"), (postgres, "postgres")], ids=[*SOURCES])
def test_a_planted_fault_in_any_kind_is_caught(module: Any, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every kind that is not as it is read, each value in the place of the one before it."""
    decoder, values = SOURCES[source]
    for kind, right in list(module._TYPED.items()):
        with monkeypatch.context() as planted:
            planted.setitem(module._TYPED, kind, lambda column, found, right=right: right(column, _moved(found)))
            wrong = _differing(decoder, values)
        assert wrong == {column.name for column in values if column.kind is kind}


def test_a_value_that_its_column_does_not_have_is_refused_by_name() -> None:
    for column, wire in NO_VALUES:
        with pytest.raises(SchemaConflict, match=column.name) as refused:
            postgres.DECODER.rows(Table("t", (column,)), _images(column, [None, wire]))
        assert refused.value.table == "t", (column.name, wire)


NO_DATES = [
    (Column("d", Kind.DATE, "date"), -4_371_587),
    (Column("d", Kind.DATETIME, "datetime"), -4_371_587 * 86_400_000),
    (Column("d", Kind.DATETIME, "datetime(6)", precision=6), -4_371_587 * 86_400_000_000),
    (Column("d", Kind.INSTANT, "timestamp", nullable=False), "-9999-01-24T00:00:00Z"),
]


@pytest.mark.parametrize(("column", "wire"), NO_DATES, ids=[column.source_type for column, _ in NO_DATES])
def test_an_invalid_date_is_refused_as_the_destination_refuses_it(column: Column, wire: Any) -> None:
    words = f"column d holds an invalid date, as 0000-00-00, written as {wire}"
    with pytest.raises(SchemaConflict, match=words):
        mariadb.DECODER.rows(Table("t", (column,)), _images(column, [wire]))


def test_a_label_of_an_old_log_keeps_a_backslash_of_its_own() -> None:
    plain, own = (Column("v", Kind.ENUM, f"enum('{label}')") for label in ("b,c", "b\\,c"))
    for column, found in ((plain, "b,c"), (own, "b\\,c")):
        rows, _ = mariadb.DECODER.rows(Table("t", (column,)), _images(column, ["b\\,c"]))
        assert rows.column(0).to_pylist() == [found]


WRONG_IMAGES = {
    "not one JSON object": (b"[1]", LogCorrupted),
    "not one JSON object: ": (b"{", LogCorrupted),
    r"unknown \['more'\], missing \['body'\]": (
        to_json({"id": 1, "title": "", "more": 1, "scan": None}),
        SchemaConflict,
    ),
    "column title holds a value of type int": (to_json({**note(1), "title": 7}), SchemaConflict),
    "another type than planned": (to_json({**note(1), "id": 2**31}), SchemaConflict),
    "that is no bytea": (to_json({**note(1), "scan": "&"}), SchemaConflict),
}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("words", WRONG_IMAGES)
def test_an_image_of_another_schema_is_refused_wherever_it_stands(words: str, place: int) -> None:
    image, error = WRONG_IMAGES[words]
    images = [to_json(note(number)) for number in range(2)]
    with pytest.raises(error, match=words):
        postgres.DECODER.rows(NOTE, [*images[:place], image, *images[place:]])


def test_what_the_log_left_out_is_null_and_flagged_and_only_there() -> None:
    rows = [note(1, body=UNAVAILABLE), note(2, body=f"small {UNAVAILABLE}", scan=UNAVAILABLE_BYTES), note(3)]
    batch, missing = postgres.DECODER.rows(NOTE, [to_json(row) for row in rows])
    assert missing is not None
    assert missing.to_pydict() == {"body": [True, False, False], "scan": [False, True, False]}
    assert batch.column("body").to_pylist() == [None, rows[1]["body"], rows[2]["body"]]
    # A column of which the log leaves nothing out may hold the words themselves.
    kept, none_missing = postgres.DECODER.rows(NOTE, [to_json(note(1, title=UNAVAILABLE))])
    assert (kept.column("title").to_pylist(), none_missing) == ([UNAVAILABLE], None)


def test_a_delete_is_read_by_its_key_alone_whatever_stands_in_for_the_rest() -> None:
    """A column that takes no NULL holds what Debezium makes up, which may be no value of its type."""
    column = Column("price", Kind.DECIMAL, "numeric(12,2)", nullable=False, precision=12, scale=2)
    table = replace(NOTE, columns=(*NOTE.columns, column))
    gone = to_json({**note(1), "price": ""})
    moved = to_json({**note(3, body=UNAVAILABLE), "price": "1.50"})
    changes = [
        KeyedChange(b"", True, True, gone, 5, taken_from=to_json({"id": 9})),
        KeyedChange(b"", False, False, moved, 6, taken_from=to_json({"id": 2})),
    ]
    batch = change_batch(table, TableChanges(table.name, changes, changes_in=3, chunk=2), postgres.DECODER)
    assert batch.rows.column("id").to_pylist() == [1, 3]
    assert str(batch.rows.column("price").to_pylist()) == "[None, Decimal('1.50')]"
    assert batch.deleted.to_pylist() == [True, False]
    assert (batch.offset.to_pylist(), batch.met.to_pylist()) == ([5, 6], [True, False])
    assert batch.old_key is not None
    assert batch.old_key.to_pydict() == {"id": [None, 2]}
    assert (batch.chunk, batch.changes_in, batch.truncate_first) == (2, 3, False)


def test_copies_of_a_table_without_a_key_stand_beside_its_rows() -> None:
    table = replace(NOTE, key=())
    net = {to_json(note(1)): 2, to_json(note(2)): -1}
    batch = change_batch(table, TableChanges(table.name, net=net, truncate_first=True), postgres.DECODER)
    assert (batch.rows.column("id").to_pylist(), batch.copies.to_pylist()) == ([1, 2], [2, -1])
    assert batch.truncate_first
    assert change_batch(table, TableChanges(table.name), postgres.DECODER).is_empty
    assert change_batch(NOTE, TableChanges(NOTE.name), postgres.DECODER).is_empty


@pytest.mark.parametrize("key", [("id",), ()], ids=["keyed", "keyless"])
def test_null_in_a_column_that_takes_none_is_another_schema(key: tuple[str, ...]) -> None:
    columns = tuple(replace(column, nullable=column.name != "title") for column in NOTE.columns)
    table = replace(NOTE, columns=columns, key=key)
    image = json.dumps({**note(1), "title": None}).encode()
    changes = TableChanges(
        table.name, [KeyedChange(b"", False, False, image, 1)] if key else [], {} if key else {image: 1}
    )
    with pytest.raises(SchemaConflict, match="holds NULL in column title, which takes none"):
        change_batch(table, changes, postgres.DECODER)
