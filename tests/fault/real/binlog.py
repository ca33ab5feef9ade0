"""The binlog of a MariaDB (11.4.5), read from its files: transactions in the order of their commits, with the rows that
they changed and the statements by which they did it, as the server has written them.

Only what a transactional destination writes is known here: row events of version 1, of the types in `_FIXED` and
`_read_value`. Anything else raises, so nothing is passed over.
"""

import re
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
Table = tuple[str, str]
# (file, offset): where a transaction ends, so where the next one begins.
Place = tuple[str, int]

_HEADER = struct.Struct("<IBIIIH")
_MAGIC = 4
_CHECKSUM = 4
_QUERY, _XID, _TABLE_MAP, _WRITE, _UPDATE, _DELETE, _ANNOTATE, _GTID = 2, 16, 19, 23, 24, 25, 160, 162
# Stop, rotation, the format's description, checkpoints and lists of GTIDs: nothing that changes rows.
_SILENT = {3, 4, 15, 161, 163}
_STANDS_ALONE = 1
_DECIMAL, _TIMESTAMP, _DATETIME, _TIME, _VARCHAR, _STRING, _BLOB = 246, 17, 18, 19, 15, 254, 252
_FIXED = {1: "<b", 2: "<h", 3: "<i", 4: "<f", 5: "<d", 8: "<q"}
# How many bytes of metadata a column of these types has; all others of those known have none.
_METADATA = {4: 1, 5: 1, _VARCHAR: 2, _STRING: 2, _BLOB: 1, _DECIMAL: 2, _TIMESTAMP: 1, _DATETIME: 1, _TIME: 1, 16: 2}
_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a table that was asked for; one of another table has no images."""

    table: Table
    before: Row | None = None
    after: Row | None = None


@dataclass(slots=True)
class Committed:
    """A transaction, or a statement that stands alone (`alone`). `end`: where the next one begins."""

    end: Place
    alone: str = ""
    statements: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    is_rolled_back: bool = False


@dataclass(frozen=True, slots=True)
class _Map:
    """What a table map says of a table: one type and metadata per column."""

    table: Table
    columns: Sequence[tuple[int, int]]


def committed(folder: Path, *, after: Place, decoded: Collection[Table]) -> Iterator[Committed]:
    """What was committed behind `after`, as far as the files go; a transaction that is not written to its end is left
    for the next time."""
    stem = after[0].rpartition(".")[0]
    names = sorted(one.name for one in folder.iterdir() if re.fullmatch(rf"{re.escape(stem)}\.\d+", one.name))
    for name in names[names.index(after[0]) :]:
        start = after[1] if name == after[0] else _MAGIC
        with (folder / name).open("rb") as opened:
            opened.seek(start)
            content = opened.read()
        yield from _of_file(name, start, content, decoded)


def _of_file(name: str, start: int, content: bytes, decoded: Collection[Table]) -> Iterator[Committed]:
    maps: dict[int, _Map] = {}
    current: Committed | None = None
    stands_alone = False
    at = 0
    while at + _HEADER.size <= len(content):
        _, kind, _, size, _, _ = _HEADER.unpack_from(content, at)
        if at + size > len(content):
            return
        body = content[at + _HEADER.size : at + size - _CHECKSUM]
        at += size
        if kind == _GTID:
            current, stands_alone = Committed((name, start + at)), bool(body[12] & _STANDS_ALONE)
            continue
        if kind in _SILENT:
            continue
        assert current is not None, f"event {kind} of {name} stands in no transaction"
        current.end = (name, start + at)
        if kind == _QUERY:
            text = _text_of_query(body)
            assert not text.upper().startswith("ROLLBACK TO"), "which of the rows before it counts is not known here"
            is_over = stands_alone or text in ("COMMIT", "ROLLBACK")
            current.alone, current.is_rolled_back = (text, False) if stands_alone else ("", text == "ROLLBACK")
        else:
            is_over = kind == _XID
            _take(current, kind, body, maps, decoded)
        if is_over:
            yield current
            current = None


def _take(current: Committed, kind: int, body: bytes, maps: dict[int, _Map], decoded: Collection[Table]) -> None:
    if kind == _ANNOTATE:
        current.statements.append(body.decode("utf-8", "replace"))
    elif kind == _TABLE_MAP:
        number, one = _table_map(body)
        maps[number] = one
    elif kind in (_WRITE, _UPDATE, _DELETE):
        one = maps[int.from_bytes(body[:6], "little")]
        is_wanted = one.table in decoded
        current.changes += _changes(kind, body, one) if is_wanted else [Change(one.table)]
    else:
        assert kind == _XID, f"an event of kind {kind}, which is not known here"


def _text_of_query(body: bytes) -> str:
    (of_status,) = struct.unpack_from("<H", body, 11)
    database = body[8]
    return body[13 + of_status + database + 1 :].decode("utf-8", "replace")


def _table_map(body: bytes) -> tuple[int, _Map]:
    number = int.from_bytes(body[:6], "little")
    at = 8
    names = []
    for _ in range(2):
        length = body[at]
        names.append(body[at + 1 : at + 1 + length].decode())
        at += length + 2
    count, at = _length(body, at)
    types = body[at : at + count]
    _, at = _length(body, at + count)
    columns = []
    for kind in types:
        size = _METADATA.get(kind, 0)
        # Of texts of a fixed length, and of decimals, the first byte is the greater one.
        order = "big" if kind in (_STRING, _DECIMAL) else "little"
        columns.append((kind, int.from_bytes(body[at : at + size], order)))  # type: ignore[arg-type]
        at += size
    return number, _Map((names[0], names[1]), columns)


def _changes(kind: int, body: bytes, one: _Map) -> list[Change]:
    count, at = _length(body, 8)
    assert count == len(one.columns), one
    of_bits = (count + 7) // 8
    images = 2 if kind == _UPDATE else 1
    present = body[at : at + of_bits * images]
    full = ((1 << count) - 1).to_bytes(of_bits, "little") * images
    assert present == full, f"rows of {one.table} are not written whole"
    at += of_bits * images
    found = []
    while at < len(body):
        rows = []
        for _ in range(images):
            row, at = _row(body, at, one)
            rows.append(row)
        before = rows[0] if kind != _WRITE else None
        found.append(Change(one.table, before, rows[-1] if kind != _DELETE else None))
    return found


def _row(body: bytes, at: int, one: _Map) -> tuple[Row, int]:
    of_bits = (len(one.columns) + 7) // 8
    nulls = int.from_bytes(body[at : at + of_bits], "little")
    at += of_bits
    values: list[Any] = []
    for number, (kind, metadata) in enumerate(one.columns):
        if nulls >> number & 1:
            values.append(None)
        else:
            value, at = _read_value(body, at, kind, metadata)
            values.append(value)
    return tuple(values), at


def _read_value(body: bytes, at: int, kind: int, metadata: int) -> tuple[Any, int]:
    """Moments as the bytes that they are: nobody asks for them."""
    if kind in _FIXED:
        (value,) = struct.unpack_from(_FIXED[kind], body, at)
        return value, at + struct.calcsize(_FIXED[kind])
    if kind == _DECIMAL:
        return _decimal(body, at, *divmod(metadata, 256))
    if kind in (_TIMESTAMP, _DATETIME):
        size = {_TIMESTAMP: 4, _DATETIME: 5}[kind] + (metadata + 1) // 2
        return body[at : at + size], at + size
    if kind == _BLOB:
        of_length = metadata
    elif kind == _VARCHAR:
        of_length = 2 if metadata > 255 else 1
    else:
        assert kind == _STRING, f"a column of type {kind}, which is not known here"
        # Two bits of its greatest length stand, turned round, in the byte of its real type.
        longest = metadata & 0xFF | ((metadata >> 4 & 0x300) ^ 0x300)
        of_length = 2 if longest > 255 else 1
    length = int.from_bytes(body[at : at + of_length], "little")
    at += of_length
    return body[at : at + length].decode("utf-8"), at + length


def _decimal(body: bytes, at: int, precision: int, scale: int) -> tuple[Decimal, int]:
    """Digits in groups of nine, the incomplete groups outside; the first bit is that of the sign, all turned round
    where it is negative."""
    whole = precision - scale
    sizes = [
        _BYTES_OF_DIGITS[whole % 9],
        *[4] * (whole // 9),
        *[4] * (scale // 9),
        _BYTES_OF_DIGITS[scale % 9],
    ]
    digits = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    raw = bytearray(body[at : at + sum(sizes)])
    is_negative = not raw[0] & 0x80
    raw[0] ^= 0x80
    if is_negative:
        raw = bytearray(byte ^ 0xFF for byte in raw)
    text, place = "", 0
    for size, count in zip(sizes, digits, strict=True):
        if count:
            text += f"{int.from_bytes(raw[place : place + size], 'big'):0{count}d}"
        place += size
    value = Decimal(int(text)).scaleb(-scale)
    return (-value if is_negative else value), at + place


def _length(body: bytes, at: int) -> tuple[int, int]:
    first = body[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(body[at + 1 : at + 1 + size], "little"), at + 1 + size
