"""Rows of one event of the binlog are cut out of their records unread, and are what reading them would have given."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.databases.mysql.row_decoder import DECODER
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import RowChange
from seamline.domain.table_places import TablePlaces
from seamline.sources.mariadb.decode import MariaDbDecoder
from seamline.values.changes import change_batch
from tests.log_messages import Message, decode
from tests.toast_log import to_json

SOURCE, DATABASE, GTID = "seamline-core_bank", "bank", "0-7-12"
NAMES = ("id", "memo", "after", "before", "source", "op", 'a"after', "ü")
TEXTS = (
    'x", "after":{"id":1}',
    '},"after":{',
    ',"after":null,"source":',
    "\\",
    '\\",\\"after\\":',
    ',"source":{"pos":4}},"op":"d"}',
    "null",
    "",
)
Images = tuple[dict[str, Any] | None, dict[str, Any] | None]
Event = tuple[str, str, list[Images]]


def record(images: Images, *, pos: int, op: str, table: str = "account") -> bytes:
    """As our own connectors write it."""
    place = {"name": SOURCE, "ts_ms": 1795703685000, "db": DATABASE, "table": table, "gtid": GTID}
    source = {**place, "file": "binlog.000007", "pos": pos}
    return to_json({"before": images[0], "after": images[1], "source": source, "op": op})


def decoded(values: Sequence[bytes]) -> list[RowChange]:
    records = decode(
        MariaDbDecoder(SOURCE, TablePlaces(DATABASE)),
        *(Message(n, b"key %d" % n, value) for n, value in enumerate(values)),
    )
    return [row for one in records for row in one.rows]


@st.composite
def events(draw: st.DrawFn) -> Event:
    """(table, op, images) of the rows of one event: all of them have the same columns in the same order."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    values = st.none() | st.integers(-9, 9) | st.sampled_from(TEXTS) | st.text(max_size=5)
    image = st.tuples(*[values for _ in names]).map(lambda row: dict(zip(names, row, strict=True)))
    op = draw(st.sampled_from("cud"))
    before, after = (st.none() if op == "c" else image), (st.none() if op == "d" else image)
    return (
        draw(st.sampled_from(("account", "entry"))),
        op,
        draw(st.lists(st.tuples(before, after), min_size=1, max_size=5)),
    )


@given(st.lists(events(), max_size=5), st.sampled_from((0, 100)))
def test_rows_of_an_event_are_what_each_record_says(records: list[Event], apart: int) -> None:
    values, expected, pos, last = [], [], 4, ("", "")
    for table, op, rows in records:
        # A change of key is written as a delete and an insert that stand at one place.
        pos += 100 if (table, op) == last else apart
        last = (table, op)
        for before, after in rows:
            key = b"key %d" % len(values)
            as_text = [None if image is None else to_json(image) for image in (before, after)]
            expected.append(RowChange(len(values), table, op, key, *as_text))
            values.append(record((before, after), pos=pos, op=op, table=table))
    assert decoded(values) == expected


def inserted(number: int, *, pos: int = 4, table: str = "account") -> bytes:
    return record((None, {"id": number}), pos=pos, op="c", table=table)


def test_a_row_of_another_source_amid_those_of_an_event_is_refused() -> None:
    event = [inserted(1), inserted(2), inserted(3)]
    assert len(decoded(event)) == 3
    with pytest.raises(LogCorrupted, match=r"offset 3: a record of source .*'elsewhere'"):
        decoded([*event, inserted(4).replace(f'"{SOURCE}"'.encode(), b'"elsewhere"')])


def test_a_row_of_another_database_amid_those_of_an_event_is_of_another_table() -> None:
    values = [inserted(1), inserted(2), inserted(3).replace(f'"{DATABASE}"'.encode(), b'"hr"'), inserted(4)]
    assert [row.table for row in decoded(values)] == ["account", "account", "hr.account", "account"]


def test_what_a_row_of_another_event_ended_in_counts_no_more() -> None:
    values = [inserted(1), inserted(2), inserted(3), inserted(4, pos=104, table="entry"), inserted(5)]
    assert [row.table for row in decoded(values)] == ["account", "account", "account", "entry", "account"]


def test_a_row_without_the_place_to_cut_at_is_read() -> None:
    values = [inserted(1), inserted(2), inserted(3).replace(b',"after":{"id":3}', b"")]
    assert [row.after for row in decoded(values)] == [b'{"id":1}', b'{"id":2}', None]


@pytest.mark.parametrize("name", ["source", "after", "before", "op"])
@pytest.mark.parametrize("op", ["c", "u", "d"])
def test_rows_that_are_all_alike_are_reported_whole_whatever_their_columns_are_called(name: str, op: str) -> None:
    row = {"id": 1, name: 2, "memo": "x"}
    images = None if op == "c" else row, None if op == "d" else row
    before, after = (None if image is None else to_json(image) for image in images)
    alike = [record(images, pos=4, op=op)] * 4
    assert [(row.before, row.after) for row in decoded(alike)] == [(before, after)] * 4


def test_rows_that_are_not_written_as_ours_are_read() -> None:
    values = [inserted(number).replace(b',"source":', b', "source":') for number in range(4)]
    assert [row.after for row in decoded(values)] == [b'{"id":%d}' % number for number in range(4)]


def test_a_heartbeat_amid_the_rows_of_an_event_parts_them() -> None:
    beat = b'{"ts_ms":1795224433517}'
    decoder = MariaDbDecoder(SOURCE, TablePlaces(DATABASE))
    values = [inserted(1), inserted(2), inserted(3), beat, inserted(4), inserted(5)]
    records = decode(decoder, *(Message(n, b"", value) for n, value in enumerate(values)))
    assert [[row.after for row in one.rows] for one in records] == [
        [b'{"id":1}', b'{"id":2}', b'{"id":3}'],
        [],
        [b'{"id":4}', b'{"id":5}'],
    ]


TABLE = Table("account", (Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),), ("id",))


DAMAGED = {
    "no value": [b'{"id":}'],
    "torn": [b'{"id":3'],
    "two lines": [b'{"id":3}\n{"id":4}'],
    "no object": [b"3"],
    "a text": [b'"x"'],
    "nothing": [b""],
    "one brace more": [b'{"id":3}}'],
    "what follows an image": [b'{"id":3},"after":{"id":4}'],
    # Arrow counts the rows of a document: these two even each other out.
    "two rows and none": [b'{"id":3}{"id":4}', b""],
    "none and two rows": [b"", b'{"id":3}{"id":4}'],
    "a row in two halves, and two rows": [b'{"id":', b"3}", b'{"id":4}{"id":5}'],
    "two rows and a space": [b'{"id":3}{"id":4}', b" "],
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("others", [2, 1000])
def test_an_image_that_was_cut_out_unread_is_read_before_it_is_staged(damage: str, others: int) -> None:
    values = [inserted(number) for number in range(others)]
    images = DAMAGED[damage]
    damaged = [values[0].replace(b'{"id":0}', image) for image in images]
    rows = decoded([*values, *damaged, inserted(others)])
    assert [row.after for row in rows[others:]] == [*images, b'{"id":%d}' % others], "this shows nothing: it was read"
    keyed = [KeyedChange(b"", False, False, row.after or b"", row.offset) for row in rows]
    with pytest.raises(LogCorrupted, match="a row image of account is not one JSON object") as refused:
        change_batch(TABLE, TableChanges("account", keyed), DECODER)
    assert refused.value.table == "account"
