"""Every kind's edge values, written by the stream's path, stand in the destination exactly as the source had them."""

import json
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from psycopg.postgres import types

from seamline.adapters.connections import Connection
from seamline.databases.mysql import row_decoder as mariadb
from seamline.databases.postgres import binary_copy
from seamline.databases.postgres.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import SchemaConflict
from seamline.domain.log import Span
from seamline.ports import Progress
from seamline.sinks.postgres import arrays, encode_changes
from seamline.sources.postgres import row_decoder as postgres_rows
from seamline.values.build import batch_of
from seamline.values.changes import ChangeDecoder
from seamline.values.digest import canonical_texts
from seamline_memory.images import MemoryDecoder, image_of
from tests.contract.every_kind import VALUES as ALL_KINDS
from tests.contract.wire_values import wire_value
from tests.contract.worlds import MemoryWorld, PostgresWorld
from tests.integration.binary_values import exact, read_rows
from tests.integration.kinds import CASES
from tests.log_topic import STREAM, position, publication
from tests.postgres_wire import NATIVE_WIRE, WIRE

_FLOATS = (0.0, -0.0, 1.5, -1e-7, 3.4028234663852886e38, 0.10000000149011612)
_DOUBLES = (0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, 1.732224012649634)
COLUMNS = (
    Column("id", Kind.INTEGER, "int", nullable=False, length=32),
    *(case.column for case in CASES),
    Column("f32", Kind.FLOAT, "float"),
    Column("f64", Kind.DOUBLE, "double"),
)
VALUES: list[Sequence[Any]] = [[edge.value for edge in case.edges] for case in CASES] + [_FLOATS, _DOUBLES]
KEYED = Table("kinds", COLUMNS, ("id",))
KEYLESS = Table("kinds_keyless", COLUMNS)
ROWS = max(len(values) for values in VALUES)
# Below and above the size from which a batch takes the columnar way.
COPIES = pytest.mark.parametrize("copies", [1, 24], ids=["few rows", "many rows"])


def row(number: int) -> list[Any]:
    """Row `number`: each column's values in turn; the last row is NULL throughout."""
    if number % (ROWS + 1) == ROWS:
        return [number, *[None] * len(VALUES)]
    return [number, *(values[number % len(values)] for values in VALUES)]


def image(values: Sequence[Any]) -> bytes:
    fields = {column.name: wire_value(column, value) for column, value in zip(COLUMNS, values, strict=True)}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.fixture
def world(sink_database: Connection) -> Iterator[PostgresWorld]:
    made = PostgresWorld((KEYED, KEYLESS), sink_database)
    loads = [made.load(table, []) for table in (KEYED, KEYLESS)]
    made.sink().publish(STREAM, loads, publication=publication((KEYED, KEYLESS)))
    yield made
    made.close()


def apply(world: PostgresWorld | MemoryWorld, *batches: TableChanges) -> None:
    sink = world.sink()
    lease = sink.acquire(STREAM)
    start = lease.ledger.next_offset
    progress = Progress(Span(start, start + 1, 1, position(start + 1), 0))
    assert not sink.commit(lease, [sink.stage(lease, batch) for batch in batches], progress=progress).findings_total


def stored(world: PostgresWorld, table: Table) -> list[tuple[Any, ...]]:
    columns = ", ".join(quoted(column.name) for column in table.columns)
    return world.session.execute(f"SELECT {columns} FROM settlement.{table.name} ORDER BY id").fetchall()


def plain(column: Column, value: Any) -> Any:
    """Values whose Python types differ between sides, brought together; the sign of zero is distinguished."""
    if column.kind is Kind.UUID and value is not None:
        return str(value).lower()
    if isinstance(value, float):
        bits = struct.unpack("f", struct.pack("f", value))[0] if column.kind is Kind.FLOAT else value
        return (bits, math.copysign(1, bits))
    return value


def differences(found: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]) -> dict[str, tuple[Any, Any]]:
    """Per column the first pair that differs."""
    assert len(found) == len(expected)
    wrong: dict[str, tuple[Any, Any]] = {}
    for a_row, b_row in zip(found, expected, strict=True):
        for column, a, b in zip(COLUMNS, a_row, b_row, strict=True):
            if plain(column, a) != plain(column, b):
                wrong.setdefault(column.name, (a, b))
    return wrong


@COPIES
def test_a_keyed_row_holds_every_value_exactly(world: PostgresWorld, copies: int) -> None:
    rows = [row(number) for number in range((ROWS + 1) * copies)]
    apply(world, TableChanges("kinds", [KeyedChange(b"{}", False, False, image(r), 1) for r in rows]))
    assert differences(stored(world, KEYED), rows) == {}


@COPIES
def test_an_update_replaces_every_value_exactly(world: PostgresWorld, copies: int) -> None:
    numbers = range((ROWS + 1) * copies)
    apply(world, TableChanges("kinds", [KeyedChange(b"{}", False, False, image(row(n)), 1) for n in numbers]))
    changed = [[n, *row(n + 1)[1:]] for n in numbers]
    apply(world, TableChanges("kinds", [KeyedChange(b"{}", False, True, image(r), 1) for r in changed]))
    assert differences(stored(world, KEYED), changed) == {}


@COPIES
def test_a_keyless_row_is_found_again_by_every_value(world: PostgresWorld, copies: int) -> None:
    images = [image(row(number)) for number in range((ROWS + 1) * copies)]
    apply(world, TableChanges("kinds_keyless", net=dict.fromkeys(images, 2)))
    assert len(stored(world, KEYLESS)) == 2 * len(images)
    apply(world, TableChanges("kinds_keyless", net=dict.fromkeys(images, -1)))
    assert [found[0] for found in stored(world, KEYLESS)] == list(range(len(images)))
    apply(world, TableChanges("kinds_keyless", net=dict.fromkeys(images, -1)))
    assert stored(world, KEYLESS) == []


def _may_be_a_key(column: Column) -> bool:
    """A source gives no other column a key of its whole value."""
    return column.kind is not Kind.JSON and (column.kind not in (Kind.STRING, Kind.BYTES) or column.length > 0)


@pytest.mark.parametrize(
    "number",
    [number for number in range(len(CASES) + 2) if _may_be_a_key(COLUMNS[number + 1])],
    ids=lambda number: COLUMNS[number + 1].name,
)
def test_every_kind_can_be_a_key_where_the_source_allows_it(sink_database: Connection, number: int) -> None:
    values, column = VALUES[number], COLUMNS[number + 1]
    distinct = list({plain(column, value): value for value in values}.values())
    if column.kind in (Kind.FLOAT, Kind.DOUBLE):
        # 0.0 and -0.0 are one key on both sides.
        distinct = [value for value in distinct if plain(column, value) != (0.0, -1.0)]
    key = Column(column.name, column.kind, column.source_type, False, column.length, column.precision, column.scale)
    table = Table("keyed_by", (key,), (key.name,))
    made = PostgresWorld((table,), sink_database)
    made.sink().publish(STREAM, [made.load(table, [])], publication=publication((table,)))
    images = [json.dumps({key.name: wire_value(key, value)}).encode() for value in distinct]
    apply(made, TableChanges("keyed_by", [KeyedChange(i, False, False, i, 1) for i in images]))
    apply(made, TableChanges("keyed_by", [KeyedChange(i, False, True, i, 1) for i in images]))
    apply(made, TableChanges("keyed_by", [KeyedChange(i, True, True, i, 1) for i in images]))
    assert made.session.execute("SELECT count(*) FROM settlement.keyed_by").fetchone() == (0,)
    made.close()


SHORT = Column("v", Kind.STRING, "varchar(3)", False, 3)


@COPIES
@pytest.mark.parametrize("key", [("v",), ()], ids=["keyed", "keyless"])
def test_a_text_that_is_too_long_for_its_column_is_refused_and_never_cut(
    sink_database: Connection, key: tuple[str, ...], copies: int
) -> None:
    table = Table("short", (SHORT,), key)
    made = PostgresWorld((table,), sink_database)
    made.sink().publish(STREAM, [made.load(table, [{"v": "abc"}])], publication=publication((table,)))
    images = [b'{"v":"abcd"}', *(b'{"v":"%d"}' % number for number in range(300 if copies > 1 else 1))]
    changes = [KeyedChange(image, False, False, image, 1) for image in images] if key else []
    batch = TableChanges("short", changes, {} if key else dict.fromkeys(images, 1))
    with pytest.raises(SchemaConflict, match="too long"):
        apply(made, batch)
    if key:
        # Cut, it would be the key of another row.
        gone = TableChanges("short", [KeyedChange(images[0], True, False, images[0], 1)])
        apply(made, gone)
    assert made.session.execute("SELECT v FROM settlement.short").fetchall() == [("abc",)]
    made.close()


def _texts(table: Table, rows: pa.RecordBatch) -> dict[str, list[str | None]]:
    pairs = zip(table.columns, rows.columns, strict=True)
    return {column.name: canonical_texts(column, values).to_pylist() for column, values in pairs}


# What the log of a kind of source holds for each column, and its decoder. That of the memory source is somebody else's.
SOURCES: dict[str, tuple[ChangeDecoder, dict[Column, Sequence[Any]]]] = {
    "mariadb": (
        mariadb.DECODER,
        {case.column: [wire_value(case.column, e.value) for e in case.edges] for case in CASES},
    ),
    "postgres": (
        postgres_rows.DECODER,
        {column: [wire for wire, _ in pairs] for column, pairs in {**WIRE, **NATIVE_WIRE}.items()},
    ),
    "memory": (
        MemoryDecoder(),
        {
            column: [json.loads(image_of(Table("t", (column,)), [value]))[column.name] for value in values]
            for column, values in ALL_KINDS.items()
        },
    ),
}


def logged(source: str, *, key: tuple[str, ...]) -> tuple[Table, list[bytes]]:
    """A table of all columns of a source, and images with each column's values in turn; the last one is NULL."""
    held = {column: [one for one in values if "\0" not in str(one)] for column, values in SOURCES[source][1].items()}
    rows = [[values[n % len(values)] for values in held.values()] for n in range(max(map(len, held.values())))]
    columns = (COLUMNS[0], *held)
    fields = [zip(columns, (n, *values), strict=True) for n, values in enumerate([*rows, [None] * len(held)])]
    images = [json.dumps({column.name: value for column, value in row}).encode() for row in fields]
    return Table("kinds_of_it", columns, key), images


def differing(database: Connection, source: str, key: tuple[str, ...], way: str) -> set[str]:
    """The columns in which PostgreSQL holds something else than the decoder has read."""
    table, images = logged(source, key=key)
    decoder = SOURCES[source][0]
    with closing(PostgresWorld((table,), database, decoder=decoder)) as world:
        world.sink().publish(STREAM, [world.load(table, [])], publication=publication((table,)))
        keyed = [KeyedChange(b"{}", False, False, one, 1) for one in images] if key else []
        changes = TableChanges(table.name, keyed, {} if key else dict.fromkeys(images, 1))
        apply(world, *([replace(changes, chunk=1), TableChanges(table.name)] if way == "chunk" else [changes]))
        held = read_rows(world.session, f"SELECT {exact(table)} FROM settlement.{table.name} ORDER BY id")
        if not key:
            apply(world, TableChanges(table.name, net=dict.fromkeys(images, -1)))
            assert stored(world, table) == []
    found, wanted = _texts(table, batch_of(table, held)), _texts(table, decoder.rows(table, images)[0])
    return {name for name, texts in wanted.items() if found[name] != texts}


@pytest.mark.parametrize("way", ["few", "many", "chunk"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("key", [("id",), ()], ids=["keyed", "keyless"])
def test_every_value_of_every_source_stands_as_its_decoder_reads_it(
    sink_database: Connection, source: str, key: tuple[str, ...], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "many":
        monkeypatch.setattr(encode_changes, "_SENT_ROWS_MAX", 0)
    assert differing(sink_database, source, key, way) == set()


@pytest.mark.parametrize(
    ("source", "kind"), [("mariadb", Kind.DATE), ("postgres", Kind.UUID), ("memory", Kind.INTERVAL)]
)
def test_values_that_the_encoder_puts_into_other_rows_are_found(
    sink_database: Connection, source: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = binary_copy._column  # noqa: SLF001 (bugs are planted where the code hides what it does)

    def planted(column: Column, values: pa.Array) -> pa.Array:
        is_wrong = column.kind is kind
        return right(column, pa.concat_arrays([values[1:], values[:1]]) if is_wrong else values)

    monkeypatch.setattr(binary_copy, "_column", planted)
    wrong = {column.name for column in SOURCES[source][1] if column.kind is kind}
    assert differing(sink_database, source, ("id",), "few") == wrong


def test_values_that_arrays_put_into_other_rows_are_found(
    sink_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = arrays._array  # noqa: SLF001

    def planted(values: Sequence[bytes], oid: int) -> arrays.BinaryArray:
        is_wrong = oid == types["date"].oid
        return right([*values[1:], values[0]] if is_wrong else values, oid)

    monkeypatch.setattr(arrays, "_array", planted)
    wrong = {column.name for column in SOURCES["postgres"][1] if column.kind is Kind.DATE}
    assert differing(sink_database, "postgres", ("id",), "few") == wrong


def test_the_sink_in_memory_keeps_them_too() -> None:
    world = MemoryWorld((KEYED, KEYLESS))
    world.sink().publish(
        STREAM, [world.load(KEYED, []), world.load(KEYLESS, [])], publication=publication((KEYED, KEYLESS))
    )
    images = [image(row(number)) for number in range(ROWS + 1)]
    apply(world, TableChanges("kinds", [KeyedChange(b"{}", False, False, i, 1) for i in images]))
    apply(world, TableChanges("kinds_keyless", net=dict.fromkeys(images, 2)))
    typed, _ = mariadb.DECODER.rows(KEYED, images)
    held = batch_of(KEYED, world.typed_rows(KEYED))
    assert sorted(zip(*_texts(KEYED, held).values(), strict=True), key=repr) == sorted(
        zip(*_texts(KEYED, typed).values(), strict=True), key=repr
    )
    assert len(world.rows(KEYLESS)) == 2 * len(images)


@pytest.mark.parametrize("count", [1, 300], ids=["few rows", "many rows"])
@pytest.mark.parametrize("chunk", [0, 1], ids=["a batch", "a chunk"])
@pytest.mark.parametrize("table", [KEYED, KEYLESS], ids=["keyed", "keyless"])
def test_a_text_with_the_character_nul_is_refused_by_column_and_key(
    world: PostgresWorld, table: Table, count: int, chunk: int
) -> None:
    """In the words that the snapshot has for it; nothing of the span is applied."""
    text = next(column.name for column in COLUMNS if column.kind is Kind.STRING)
    images = [image(row(number)) for number in range(count)]
    odd = json.loads(image(row(7_000_000)))
    images.append(json.dumps({**odd, text: "a\0"}).encode())
    changes = TableChanges(table.name, chunk=chunk)
    if table.is_keyed:
        changes.keyed.extend(KeyedChange(b"{}", False, False, one, 1) for one in images)
    else:
        changes.net.update(dict.fromkeys(images, 1))
    with pytest.raises(SchemaConflict, match=f"column {text} of table {table.name} holds the character NUL") as refused:
        apply(world, changes)
    assert ("7000000" in refused.value.message) == table.is_keyed
    assert f"WHERE INSTR({text}, CHAR(0))` lists the rows" in refused.value.hint
    assert "parked: <why>" in refused.value.hint
    assert stored(world, table) == []


def test_what_else_the_destination_refuses_is_not_reported_as_nul(world: PostgresWorld) -> None:
    world.session.execute("ALTER TABLE settlement.kinds ADD CHECK (id < 5)")
    with pytest.raises(SchemaConflict, match="violates check constraint"):
        apply(world, TableChanges("kinds", [KeyedChange(b"{}", False, False, image(row(5)), 1)]))
