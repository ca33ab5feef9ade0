"""Row images of one table, Debezium's JSON, as Arrow columns in the types that the JSON has.

Read by Arrow, all at once. Another schema than planned is an error that says which; a number that JSON has no number
for, which Arrow does not read, is put in its place afterwards.
"""

import io
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.errors import LogCorrupted, SchemaConflict

# Texts that stand for numbers which JSON lacks.
NOT_FINITE: Mapping[str, float] = {word: float(word) for word in ("NaN", "Infinity", "-Infinity")}
_NOT_FINITE = re.compile(rb'"(?:NaN|-?Infinity)"')
_BLOCK_BYTES_MIN = 8 << 20
_BLOCK_BYTES_MAX = (1 << 31) - 1
# Up to so many images are read one by one: setting Arrow's reader up takes longer.
_FEW = 100
# Below, handing a batch to other threads takes longer than reading it.
_THREADS_FROM = 1 << 16
_NOTHING = type(None)
_CURE = f"the schema of the table changed: {PARK_IT}"


class RowImages:
    """Reads the images of one table. `types`: of each column, as its JSON has it: integers, floats, truths or texts."""

    def __init__(self, table: Table, types: Sequence[pa.DataType]) -> None:
        self._table = table
        self._names = [column.name for column in table.columns]
        self._name_set = frozenset(self._names)
        self._schema = pa.schema(zip(self._names, types, strict=True))
        self._fields = [(field.name, _python_types(field.type)) for field in self._schema]
        self._reals = frozenset(field.name for field in self._schema if pa.types.is_floating(field.type))
        # A number of 32 bits must not be read by way of 64, or it may be rounded twice.
        self._few_max = 0 if any(pa.types.is_float32(field.type) for field in self._schema) else _FEW

    def check(self, image: bytes) -> dict[str, Any]:
        """The row. LogCorrupted: no JSON object. SchemaConflict: other columns or types than planned."""
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
            if type(value) not in types and not (
                name in self._reals and isinstance(value, str) and value in NOT_FINITE
            ):
                raise self._other_type(f"column {name} holds a value of type {type(value).__name__}")
        return row

    def check_all(self, images: Iterable[bytes]) -> None:
        for image in images:
            self.check(image)

    def read(self, images: Sequence[bytes]) -> pa.Table:
        """All of them, in their order and with the columns in theirs. Raises as `check` does."""
        if not images:
            return self._schema.empty_table()
        if len(images) <= self._few_max:
            return self._read_few(images)
        document = b"\n".join(images)
        if _are_lines(document, len(images)):
            self.check(images[0])
            self.check(images[-1])
        else:
            self.check_all(images)
        if self._reals and _NOT_FINITE.search(document):
            return self._read_around_words(images)
        return self._read(document, images)

    def _read_few(self, images: Sequence[bytes]) -> pa.Table:
        rows = [self.check(image) for image in images]
        columns = []
        for field in self._schema:
            values = [row[field.name] for row in rows]
            if field.name in self._reals:
                # Words stand for what JSON has no number for.
                values = [None if value is None else float(value) for value in values]
            try:
                columns.append(pa.array(values, field.type))
            except (pa.ArrowInvalid, OverflowError) as exc:
                raise self._other_type(self._too_large(images) or str(exc)) from exc
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _read(self, document: bytes, images: Sequence[bytes]) -> pa.Table:
        block = min(max(_BLOCK_BYTES_MIN, 2 * max(map(len, images))), _BLOCK_BYTES_MAX)
        try:
            rows = pyarrow.json.read_json(
                io.BytesIO(document),
                read_options=pyarrow.json.ReadOptions(use_threads=len(document) > _THREADS_FROM, block_size=block),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self._schema, unexpected_field_behavior="error"
                ),
            )
        except pa.ArrowInvalid as exc:
            self.check_all(images)
            raise self._other_type(self._too_large(images) or str(exc)) from exc
        if rows.num_rows != len(images):
            # Every image is one line, so a row count that differs means a malformed image.
            self.check_all(images)
        rows = rows.select(self._names)
        nulls = sum(column.null_count for column in rows.columns)
        if nulls and nulls != document.count(b'":null') - document.count(b'\\":null'):
            # Arrow reports a field too many, but reads a missing one as a NULL that nobody has written. What stands
            # behind a backslash is inside of a text.
            self.check_all(images)
        for name in self._reals:
            # Arrow reads a number that 32 bits do not hold as infinite.
            if pc.any(pc.is_inf(rows.column(name))).as_py():
                raise self._other_type(f"column {name} holds a number that is too large")
        return rows

    def _read_around_words(self, images: Sequence[bytes]) -> pa.Table:
        """For the batch with a number that JSON has no number for: NULL is read, and the number put there."""
        plain: list[bytes] = []
        places: dict[str, dict[int, float]] = {}
        for number, image in enumerate(images):
            self.check(image)
            plain.append(image)
            if not _NOT_FINITE.search(image):
                continue
            row = orjson.loads(image)
            for name in self._reals.intersection(row):
                if row[name] in NOT_FINITE:
                    places.setdefault(name, {})[number] = NOT_FINITE[row[name]]
                    row[name] = None
            plain[-1] = orjson.dumps(row)
        rows = self._read(b"\n".join(plain), plain)
        for name, found in places.items():
            at = rows.column_names.index(name)
            is_word, numbers = _scattered(found, len(images))
            values = pc.if_else(is_word, numbers.cast(rows.schema.field(at).type), rows.column(at))
            rows = rows.set_column(at, name, values)
        return rows

    def _too_large(self, images: Sequence[bytes]) -> str:
        """Of the first whole number that its type has no room for."""
        bits = {field.name: field.type.bit_width for field in self._schema if pa.types.is_integer(field.type)}
        for image in images:
            row = orjson.loads(image)
            for name in bits:
                if row[name] is not None and not -(2 ** (bits[name] - 1)) <= row[name] < 2 ** (bits[name] - 1):
                    return f"column {name} holds {row[name]}"
        return ""

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


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _scattered(found: Mapping[int, float], count: int) -> tuple[pa.Array, pa.Array]:
    """Whether there is a number for each place, and the number."""
    # Not pa.array(values): looking whether they are a Series imports pandas, 1.7 s and 60 MB in every worker.
    flags = bytes(number in found for number in range(count))
    numbers = array("d", [found.get(number, 0.0) for number in range(count)])
    is_found = pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(flags)]).cast(pa.bool_())
    return is_found, pa.Array.from_buffers(pa.float64(), count, [None, pa.py_buffer(numbers)])


def _python_types(of: pa.DataType) -> frozenset[type]:
    """Exact types: JSON true is no 1."""
    if pa.types.is_floating(of):
        return frozenset({float, int, _NOTHING})
    if pa.types.is_integer(of):
        return frozenset({int, _NOTHING})
    return frozenset({bool if pa.types.is_boolean(of) else str, _NOTHING})


def _are_lines(document: bytes, images: int) -> bool:
    """Whether each image begins as an object, ends as one, and is one line."""
    return document.count(b"\n") == document.count(b"}\n{") == images - 1
