"""Row images (JSON) of a span → CSV of their wire forms, ready for COPY. Another shape than planned is an error."""

import io
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from seamline.adapters.postgres.types import arrow_schema
from seamline.domain.catalogue import Table
from seamline.domain.changes import TableChanges
from seamline.domain.errors import SchemaConflict

# Below this many rows Arrow's fixed cost is more than Python's cost per row.
_SMALL_ROWS = 250
_BLOCK_BYTES_MIN = 8 << 20
_CSV_OPTIONS = pyarrow.csv.WriteOptions(include_header=False, batch_size=16384)
_CURE = "the shape of the table changed: onboard the sync again, so that the new shape is planned and loaded"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of one table as COPY takes it: control columns first, then the columns in declared order."""

    table: str
    rows: int
    csv: bytes
    truncate_first: bool
    expects_deletes: bool
    piece: int
    changes_in: int


class RowEncoder:
    """Encodes the batches of one table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._schema = arrow_schema(table.columns)
        self._names = [column.name for column in table.columns]
        self._name_set = frozenset(self._names)

    def encode(self, changes: TableChanges) -> Encoded:
        keyed = changes.keyed
        images = [change.row for change in keyed] if self._table.is_keyed else list(changes.net)
        if self._table.is_keyed:
            # Truth as 0 and 1, which COPY reads as well.
            control: list[Sequence[int]] = [
                [change.offset for change in keyed],
                [change.is_delete for change in keyed],
                [change.met_row for change in keyed],
            ]
        else:
            control = [list(changes.net.values())]
        if changes.piece:
            control.insert(0, [changes.piece] * len(images))
        return Encoded(
            changes.table,
            len(images),
            self._csv(control, images),
            changes.truncate_first,
            any(change.is_delete and change.met_row for change in keyed),
            changes.piece,
            changes.changes_in,
        )

    def _csv(self, control: Sequence[Sequence[int]], images: Sequence[bytes]) -> bytes:
        if not images:
            return b""
        if len(images) <= _SMALL_ROWS:
            return self._by_python(zip(*control, strict=True), images)
        return self._by_arrow(control, images)

    def _by_python(self, control: Iterable[tuple[int, ...]], images: Sequence[bytes]) -> bytes:
        lines = []
        names = self._names
        for fields, image in zip(control, images, strict=True):
            row = self._parsed(image)
            values = [*fields, *(row[name] for name in names)]
            lines.append(",".join([_csv_field(value) for value in values]))
        return ("\n".join(lines) + "\n").encode()

    def _parsed(self, image: bytes) -> dict[str, Any]:
        row = orjson.loads(image)
        if not isinstance(row, dict) or row.keys() != self._name_set:
            raise self._other_shape(row)
        for field in self._schema:
            value = row[field.name]
            if value is not None and type(value) not in _PYTHON_TYPES[field.type]:
                raise self._other_type(f"column {field.name} should be {field.type}, it is {type(value).__name__}")
        return row

    def _by_arrow(self, control: Sequence[Sequence[int]], images: Sequence[bytes]) -> bytes:
        # Arrow reports a field too many, but reads a missing one as NULL: the first and last image speak for all,
        # because a batch that spans a change of shape has its ends on both sides of it.
        self._parsed(images[0])
        self._parsed(images[-1])
        document = b"\n".join(images)
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
            raise self._other_type(str(exc)) from exc
        rows = rows.select(self._names)
        for index, values in enumerate(control):
            rows = rows.add_column(index, f"seamline.{index}", _whole_numbers(values))
        sink = io.BytesIO()
        pyarrow.csv.write_csv(rows, sink, _CSV_OPTIONS)
        return sink.getvalue()

    def _other_shape(self, row: Any) -> SchemaConflict:
        found = set(row) if isinstance(row, dict) else set()
        extra, missing = sorted(found - self._name_set), sorted(self._name_set - found)
        return SchemaConflict(
            f"a row image of {self._table.name} has another shape: unknown {extra}, missing {missing}",
            hint=_CURE,
            table=self._table.name,
        )

    def _other_type(self, what: str) -> SchemaConflict:
        return SchemaConflict(
            f"a row image of {self._table.name} holds another type than planned: {what}",
            hint=_CURE,
            table=self._table.name,
        )


# Exact types: JSON true is no 1.
_PYTHON_TYPES: dict[pa.DataType, frozenset[type]] = {
    pa.int64(): frozenset({int}),
    pa.float64(): frozenset({float, int}),
    pa.bool_(): frozenset({bool}),
    pa.string(): frozenset({str}),
}


def _whole_numbers(values: Sequence[int]) -> pa.Array:
    # Not pa.array(values): looking whether they are a Series imports pandas, 1.7 s and 60 MB in every worker.
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    if isinstance(value, bool):
        return "t" if value else "f"
    return repr(value)
