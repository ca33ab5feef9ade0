"""Row images of a span → what is sent: few rows as one JSON document, many as CSV of their wire forms for COPY.

Here every image is read, for the first time if a decoder cut it out of its record unread. Another schema than planned
is an error before anything is sent.
"""

import io
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.changes import TableChanges
from seamline.domain.errors import LogCorrupted, SchemaConflict
from seamline.domain.unavailable_values import may_lack_values
from seamline.sinks.postgres.statements import (
    COPIES_FIELD,
    DELETED_FIELD,
    MET_FIELD,
    OFFSET_FIELD,
    unavailable_columns,
)
from seamline.sinks.postgres.wire import WireForms

# Up to this a batch travels as a parameter of the statement that applies it: no staging table, one round trip.
_SENT_ROWS_MAX = 250
_SENT_BYTES_MAX = 4 << 20
_BLOCK_BYTES_MIN = 8 << 20
_CSV_OPTIONS = pyarrow.csv.WriteOptions(include_header=False, batch_size=16384)
_NOT_A_NUMBER = re.compile(rb'"(?:NaN|-?Infinity)"')
_OFFSET, _DELETED, _MET, _COPIES = (field.encode() for field in (OFFSET_FIELD, DELETED_FIELD, MET_FIELD, COPIES_FIELD))
# Exact types: JSON true is no 1.
_NOTHING = type(None)
_PYTHON_TYPES: dict[pa.DataType, frozenset[type]] = {
    pa.int64(): frozenset({int, _NOTHING}),
    pa.float64(): frozenset({float, int, _NOTHING}),
    pa.bool_(): frozenset({bool, _NOTHING}),
    pa.string(): frozenset({str, _NOTHING}),
}
_CURE = f"the schema of the table changed: {PARK_IT}"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of one table: `document` is JSON where `is_sent`, else CSV with the control columns first.

    `chunk` as in TableChanges; a chunk is always CSV, with its number in front. `is_partial`: a row lacks values that
    its update did not change.
    """

    table: str
    rows: int
    document: bytes
    is_sent: bool
    truncate_first: bool
    expects_deletes: bool
    chunk: int
    is_partial: bool = False


class RowEncoder:
    """Encodes the batches of one table."""

    def __init__(self, table: Table, wire: WireForms) -> None:
        self._table = table
        self._schema = wire.arrow_schema(table.columns)
        self._names = [column.name for column in table.columns]
        self._name_set = frozenset(self._names)
        forms = [(column.name, wire.form(column)) for column in table.columns]
        self._fields = [(name, _PYTHON_TYPES[form.arrow]) for name, form in forms]
        self._may_lack = bool(unavailable_columns(table))
        self._words = {name: form.words for name, form in forms if form.words}

    def encode(self, changes: TableChanges) -> Encoded:
        images = [change.row for change in changes.keyed] if self._table.is_keyed else list(changes.net)
        is_sent = not changes.chunk and len(images) <= _SENT_ROWS_MAX and sum(map(len, images)) <= _SENT_BYTES_MAX
        return Encoded(
            changes.table,
            len(images),
            self._json(changes) if is_sent else self._csv(changes, images),
            is_sent,
            changes.truncate_first,
            any(change.is_delete and change.met_row for change in changes.keyed),
            changes.chunk,
            self._may_lack and any(map(may_lack_values, images)),
        )

    def _json(self, changes: TableChanges) -> bytes:
        """The images with the control fields written in front of their own."""
        if self._table.is_keyed:
            rows = [
                b'{"%b":%d,"%b":%b,"%b":%b,%b'
                % (
                    _OFFSET,
                    change.offset,
                    _DELETED,
                    b"true" if change.is_delete else b"false",
                    _MET,
                    b"true" if change.met_row else b"false",
                    self._inside(change.row),
                )
                for change in changes.keyed
            ]
        else:
            rows = [b'{"%b":%d,%b' % (_COPIES, copies, self._inside(image)) for image, copies in changes.net.items()]
        return b"[" + b",".join(rows) + b"]"

    def _inside(self, image: bytes) -> bytes:
        self._check(image)
        return image[image.index(b"{") + 1 :]

    def _csv(self, changes: TableChanges, images: Sequence[bytes]) -> bytes:
        control: list[Sequence[int]] = [list(changes.net.values())]
        if self._table.is_keyed:
            keyed = changes.keyed
            # Truth as 0 and 1, which COPY reads as well.
            control = [[c.offset for c in keyed], [c.is_delete for c in keyed], [c.met_row for c in keyed]]
        if changes.chunk:
            control.insert(0, [changes.chunk] * len(images))
        return self._by_arrow(control, images) if images else b""

    def _check(self, image: bytes) -> None:
        try:
            row = orjson.loads(image)
        except orjson.JSONDecodeError as exc:
            raise self._no_json(str(exc)) from exc
        if not isinstance(row, dict):
            raise self._no_json(f"it is {image[:80]!r}")
        if row.keys() != self._name_set:
            raise self._other_columns(row)
        for name, types in self._fields:
            value = row[name]
            if type(value) not in types and not (name in self._words and value in self._words[name]):
                raise self._other_type(f"column {name} holds a value of type {type(value).__name__}")

    def _check_all(self, images: Iterable[bytes]) -> None:
        for image in images:
            self._check(image)

    def _by_arrow(self, control: Sequence[Sequence[int]], images: Sequence[bytes]) -> bytes:
        document = b"\n".join(images)
        if _are_lines(document, len(images)):
            self._check(images[0])
            self._check(images[-1])
        else:
            self._check_all(images)
        if self._words and _NOT_A_NUMBER.search(document):
            return self._row_by_row(control, images)
        block = max(_BLOCK_BYTES_MIN, 2 * max(map(len, images)))
        try:
            rows = pyarrow.json.read_json(
                io.BytesIO(document),
                read_options=pyarrow.json.ReadOptions(block_size=min(block, (1 << 31) - 1)),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self._schema, unexpected_field_behavior="error"
                ),
            )
        except pa.ArrowInvalid as exc:
            self._check_all(images)
            raise self._other_type(str(exc)) from exc
        if rows.num_rows != len(images):
            # Every image is one line, so a row count that differs means a malformed image.
            self._check_all(images)
        rows = rows.select(self._names)
        nulls = sum(column.null_count for column in rows.columns)
        if nulls and nulls != document.count(b'":null') - document.count(b'\\":null'):
            # Arrow reports a field too many, but reads a missing one as a NULL that nobody has written. What stands
            # behind a backslash is inside of a text.
            self._check_all(images)
        for index, values in enumerate(control):
            rows = rows.add_column(index, f"seamline.{index}", _whole_numbers(values))
        sink = io.BytesIO()
        pyarrow.csv.write_csv(rows, sink, _CSV_OPTIONS)
        return sink.getvalue()

    def _row_by_row(self, control: Sequence[Sequence[int]], images: Sequence[bytes]) -> bytes:
        """As `_by_arrow`, for the rare batch with a number that JSON has no number for: Arrow reads no such column."""
        lines = []
        for image, *numbers in zip(images, *control, strict=True):
            self._check(image)
            row = orjson.loads(image)
            lines.append(
                ",".join([*(str(int(number)) for number in numbers), *(_csv_field(row[name]) for name in self._names)])
            )
        return "\n".join([*lines, ""]).encode()

    def _no_json(self, what: str) -> LogCorrupted:
        return LogCorrupted(
            f"a row image of {self._table.name} is not one JSON object: {what}",
            hint="find out who but the capture writes the log topic, then onboard the sync again",
            table=self._table.name,
        )

    def _other_columns(self, row: Mapping[str, Any]) -> SchemaConflict:
        extra, missing = sorted(row.keys() - self._name_set), sorted(self._name_set - row.keys())
        return SchemaConflict(
            f"a row image of {self._table.name} does not have the planned columns: unknown {extra}, missing {missing}",
            hint=_CURE,
            table=self._table.name,
        )

    def _other_type(self, what: str) -> SchemaConflict:
        return SchemaConflict(
            f"a row image of {self._table.name} holds another type than planned: {what}",
            hint=_CURE,
            table=self._table.name,
        )


def _are_lines(document: bytes, images: int) -> bool:
    """Whether each image begins as an object, ends as one, and is one line."""
    return document.count(b"\n") == document.count(b"}\n{") == images - 1


def _csv_field(value: Any) -> str:
    """As Arrow writes it: texts quoted, NULL empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return repr(value).lower() if isinstance(value, bool) else repr(value)


def _whole_numbers(values: Sequence[int]) -> pa.Array:
    # Not pa.array(values): looking whether they are a Series imports pandas, 1.7 s and 60 MB in every worker.
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])
