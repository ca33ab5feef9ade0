"""Columns whose names are too long for a destination, in the rows of the log: there they have their source's names."""

import json
from collections.abc import Collection

import msgspec

from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline.domain.names import NameLimit, fitted_name

_names_in = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
# What the name of a field is preceded by. Inside of a text a quote has a backslash before it.
_BEFORE = (b"{", b",")
_Renames = tuple[tuple[bytes, bytes], ...]


class FittedColumns:
    """Gives the columns of rows the names that the sync has for them. What columns a table has is read from its first
    row, and again after every statement. Rows of tables that need nothing are not looked at."""

    def __init__(self, limits: Collection[NameLimit]) -> None:
        self._limits = limits
        self._renames: dict[str, _Renames] = {}
        self._met: set[str] = set()

    def meet(self, table: str) -> None:
        """Rows of this table come."""
        self._met.add(table)

    def forget(self) -> None:
        """A statement comes: any table may have other columns after it."""
        self._renames.clear()

    def rename(self, records: list[LogRecord], start: int) -> None:
        """In the rows of all records from number `start` on."""
        met, self._met = self._met, set()
        if not self._limits or all(self._renames.get(table) == () for table in met):
            return
        for record in records[start:]:
            if record.kind is RecordKind.DDL:
                self._renames.clear()
            elif any(self._of(row) for row in record.rows):
                record.rows = [self._renamed(row) for row in record.rows]

    def _of(self, row: RowChange) -> _Renames:
        """How the names of a table's columns that are too long are written, and what they become."""
        image = row.after or row.before
        if row.table not in self._renames and image:
            self._renames[row.table] = self._read(image)
        return self._renames.get(row.table, ())

    def _read(self, image: bytes) -> _Renames:
        try:
            fitted = {name: fitted_name(name, self._limits) for name in _names_in(image)}
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Whoever writes the row reads it, and says what is wrong with it.
            return ()
        long = {name: short for name, short in fitted.items() if name != short}
        return tuple((start + _field(name), start + _field(short)) for name, short in long.items() for start in _BEFORE)

    def _renamed(self, row: RowChange) -> RowChange:
        key, before, after = row.key, row.before, row.after
        for long, short in self._of(row):
            key, before, after = (image and image.replace(long, short) for image in (key, before, after))
        return row._replace(key=key, before=before, after=after)


def _field(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode() + b":"
