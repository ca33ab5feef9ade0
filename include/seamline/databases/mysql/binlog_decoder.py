"""Records of Debezium's connectors for MariaDB and MySQL → LogRecord. The hot path of every stream from a binlog."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import ClassVar

import msgspec

from seamline.adapters.debezium.envelope import (
    NOTHING,
    OF_ROWS,
    RECAPTURE,
    Message,
    Record,
    bracket,
    decode_record,
    foreign,
    new_row,
    require_value,
    unknown_record,
)
from seamline.databases.mysql.binlog_address import binlog_file
from seamline.databases.mysql.fitted_columns import FittedColumns
from seamline.databases.mysql.harmless import is_harmless
from seamline.domain.errors import InvariantViolated, LogCorrupted
from seamline.domain.log import WHOLE_DATABASE, LogRecord, RecordKind, RowChange
from seamline.domain.names import NameLimit
from seamline.domain.position import Position
from seamline.domain.table_places import SEPARATOR, TablePlaces

# A quoted name is replaced by its number, so that nothing inside it is read; see `altered_tables`.
_IDENTIFIER = r"(?:\0(\d+)\0|([\w$]+))"
_TABLE = rf"{_IDENTIFIER}(?:\s*\.\s*{_IDENTIFIER})?"
# ALTER may name a second table: EXCHANGE PARTITION … WITH TABLE, CONVERT TABLE … TO PARTITION.
_ALTERED = re.compile(rf"\btable\s+(?:if\s+exists\s+)?{_TABLE}", re.IGNORECASE)
_RENAMED = re.compile(rf"{_TABLE}(?:\s+wait\s+\d+|\s+nowait)?\s+to\s", re.IGNORECASE)
_DROPPED = re.compile(rf"(?:\btables?\s+(?:if\s+exists\s+)?|,\s*){_TABLE}", re.IGNORECASE)
_REPLACED = re.compile(rf"^\s*create\s+or\s+replace\s+table\s+{_TABLE}", re.IGNORECASE)
_NAMED = {
    "rename table": _RENAMED,
    "alter ": _ALTERED,
    "drop table": _DROPPED,
    # Our own connector sends it as a DROP and a CREATE; Debezium's takes it for a table that it knows.
    "create or replace table": _REPLACED,
}
# Of statements of indexes the only one that changes what a row is known by.
_KEY_DROPPED = re.compile(rf"^\s*drop\s+index\s+(?:if\s+exists\s+)?{_IDENTIFIER}\s+on\s+{_TABLE}", re.IGNORECASE)
_EMPTIED = re.compile(rf"^\s*truncate\s+(?:table\s+)?(?:if\s+exists\s+)?{_TABLE}", re.IGNORECASE)
# The whole database, also in the form that makes it again.
_DATABASE_GONE = re.compile(
    rf"^\s*(?:drop|create\s+or\s+replace)\s+(?:database|schema)\s+(?:if\s+exists\s+)?{_IDENTIFIER}", re.IGNORECASE
)
# Comments and texts may hold anything. What stands in double quotes is a name or a text, by the session's sql_mode, and
# the record does not say so: in the place of a name it is taken for one.
_QUOTED = re.compile(
    r"`((?:[^`]|``)+)`|\"((?:[^\"\\]|\\.|\"\")*)\"|/\*(?!!).*?\*/|--(?=\s)[^\n]*|#[^\n]*|'(?:[^'\\]|\\.|'')*'",
    re.DOTALL,
)
_RENAMES = re.compile(r"\brename\b", re.IGNORECASE)
_SET_STATEMENT = re.compile(r"^\s*set\s+statement\s.*?\sfor\s+", re.IGNORECASE | re.DOTALL)


class _RowSource(msgspec.Struct, gc=False):
    name: str
    db: str
    table: str
    gtid: str
    file: str
    pos: int
    ts_ms: int


class _Row(msgspec.Struct, gc=False):
    """A change of one row, the record that comes by the million."""

    op: str
    source: _RowSource
    before: msgspec.Raw = NOTHING
    after: msgspec.Raw = NOTHING


_decode_row = msgspec.json.Decoder(_Row).decode
_NO_ROW = _Row("", _RowSource("", "", "", "", "", -1, 0))
_AFTER, _SOURCE = b',"after":', b',"source":'
_BEFORE_AT, _AFTER_LONG = len(b'{"before":'), len(_AFTER)
_AFTER_NO_BEFORE_AT = len(b'{"before":null')


def _behind_images(value: bytes, op: str) -> bytes:
    """What all rows of one event of the binlog end in, for their images to be cut out unread: whoever writes a row
    reads it. Nothing where the place to cut at is not one and the same in all of them.

    A quote inside of a text has a backslash before it: what is looked for is a name, and the rows of an event have the
    same names in the same order.
    """
    at = value.rfind(_SOURCE)
    return value[at:] if at > 0 and op != "d" and value.count(_AFTER) == 1 else b""


class _Statement:
    """A statement without its comments and texts, and with a number for each quoted name."""

    def __init__(self, statement: str) -> None:
        self.names: list[str] = []
        self.plain = _SET_STATEMENT.sub("", _QUOTED.sub(self._numbered, statement))

    def _numbered(self, match: re.Match[str]) -> str:
        if match[1] is None and match[2] is None:
            return " "
        self.names.append(match[1].replace("``", "`") if match[2] is None else match[2].replace('""', '"'))
        return f" \0{len(self.names) - 1}\0 "

    def name(self, match: re.Match[str], at: int) -> str:
        """Of the identifier whose two groups begin at `at`; "" where there is none."""
        return self.names[int(match[at])] if match[at] else match[at + 1] or ""


def altered_tables(statement: str) -> tuple[tuple[str, str], ...]:
    """(database or "", table) of each table that a RENAME, ALTER, DROP or CREATE OR REPLACE takes away or changes, or
    whose primary key is dropped; () for other statements."""
    read = _Statement(statement)
    if dropped := _KEY_DROPPED.match(read.plain):
        is_key = read.name(dropped, 1).casefold() == "primary"
        return (_place(read.name(dropped, 3), read.name(dropped, 5)),) if is_key else ()
    start = " ".join(read.plain.split(maxsplit=4)[:4]).lower()
    named = next((pattern for words, pattern in _NAMED.items() if start.startswith(words)), None)
    if named is None:
        return ()
    return tuple(_place(read.name(match, 1), read.name(match, 3)) for match in named.finditer(read.plain))


def emptied_table(statement: str) -> tuple[str, str] | None:
    """(database or "", table) of a TRUNCATE."""
    read = _Statement(statement)
    match = _EMPTIED.match(read.plain)
    return _place(read.name(match, 1), read.name(match, 3)) if match else None


def _place(first: str, second: str) -> tuple[str, str]:
    return (first, second) if second else ("", first)


def leaves_values_alone(statement: str) -> bool:
    """Whether a statement is known to change no value of any table and not what its rows are known by."""
    # Where a text with a backslash ends depends on the session's sql_mode; and a comment may be run.
    if "\\" in statement or "/*!" in statement or "/*M!" in statement:
        return False
    read = _Statement(statement)
    return is_harmless(read.plain, read.names)


def dropped_database(statement: str) -> str:
    """The database that a statement takes away with all its tables; "" for other statements."""
    read = _Statement(statement)
    match = _DATABASE_GONE.match(read.plain)
    return read.name(match, 1) if match else ""


def _place_of_id(table_id: str) -> tuple[str, str]:
    """Of `"database"."table"`, as the connector writes it: a quote inside of a name stands twice."""
    database, _, table = table_id.partition('"."')
    return database.removeprefix('"').replace('""', '"'), table.removesuffix('"').replace('""', '"')


class BinlogDecoder(ABC):
    """Records with the JSON converter without schemas. All rows of a transaction share its position."""

    server: ClassVar[str]

    @staticmethod
    @abstractmethod
    def position_of(transaction: str) -> Position | None:
        """Of the transaction with this id; None where it is none."""

    @staticmethod
    @abstractmethod
    def position_at(gtid: str, file: str, offset: int) -> Position:
        """Where a transaction has one of its events."""

    def __init__(self, source_name: str, places: TablePlaces, limits: Collection[NameLimit] = ()) -> None:
        self._source_name = source_name
        self._places = places
        self._columns = FittedColumns(limits)
        # No transaction has this name.
        self._gtid = "none yet"
        self._position: Position | None = None

    def decode(self, messages: Iterable[Message], into: list[LogRecord]) -> None:
        start = len(into)
        try:
            self._decode(messages, into)
        finally:
            self._columns.rename(into, start)

    def _decode(self, messages: Iterable[Message], into: list[LogRecord]) -> None:
        offset, value = 0, b""
        name, meet = self._source_name, self._meet
        # The rows that the next one follows, if it is of their transaction.
        rows: list[RowChange] | None = None
        # Of the last row that was read, and what stood behind its images if more rows of its event may follow.
        source, op, end = _NO_ROW.source, _NO_ROW.op, b""
        # What the sync calls its table.
        table = ""
        try:
            for message in messages:
                offset, value = message.offset() or 0, message.value() or b""
                if rows and end and value.endswith(end) and (at := value.find(_AFTER)) > 0:
                    before = value[_BEFORE_AT:at] if at > _AFTER_NO_BEFORE_AT else None
                    after: bytes | None = value[at + _AFTER_LONG : -len(end)]
                    rows.append(new_row((offset, table, op, message.key(), before, after, False, None)))
                    continue
                # A slice costs a third of `startswith`, and this loop runs once per record.
                if value[2:8] != b"before":
                    rows = None
                    into.append(self._other(offset, value))
                    continue
                row, last = _decode_row(value), source
                source, op = row.source, row.op
                end = _behind_images(value, op) if source.pos == last.pos else b""
                is_same = source.table == last.table and source.db == last.db
                table = table if is_same else meet(source)
                if source.gtid != self._gtid or source.name != name:
                    rows = None
                    self._enter(offset, source)
                if op not in OF_ROWS:
                    rows = None
                    into.append(self._no_row(offset, op, source))
                    continue
                before = None if row.before == NOTHING else bytes(row.before)
                after = None if row.after == NOTHING else bytes(row.after)
                if rows is None:
                    rows = []
                    into.append(LogRecord(offset, RecordKind.ROWS, self._gtid, self._position, rows))
                rows.append(new_row((offset, table, op, message.key(), before, after, False, None)))
        except (msgspec.DecodeError, UnicodeDecodeError, InvariantViolated) as exc:
            raise LogCorrupted(
                f"offset {offset}: not a record of Debezium's {self.server} connector ({exc}): {value[:120]!r}",
                hint=RECAPTURE,
            ) from exc

    def _meet(self, source: _RowSource) -> str:
        """What the sync calls the table of the rows that come."""
        table = self._places.name(source.db, source.table)
        self._columns.meet(table)
        return table

    def _enter(self, offset: int, source: _RowSource) -> None:
        """Where its first row stands places a whole transaction: it never crosses a binlog file or a snapshot."""
        if source.name != self._source_name:
            raise self._foreign(offset, source.name, source.db)
        binlog_file(source.file)
        self._position = self.position_at(source.gtid, source.file, source.pos)
        self._gtid = source.gtid

    def _other(self, offset: int, value: bytes) -> LogRecord:
        require_value(offset, value)
        record = decode_record(value)
        if record.status:
            return bracket(offset, record, record.id, self.position_of, self._plain)
        if record.source is None:
            if record.ddl is not None or not record.ts_ms:
                raise unknown_record(offset, value)
            return LogRecord(offset, RecordKind.HEARTBEAT, ts_ms=record.ts_ms)
        if record.source.name != self._source_name:
            raise self._foreign(offset, record.source.name, record.source.db or "")
        if record.ddl is not None:
            return self._ddl(offset, record)
        raise unknown_record(offset, value)

    def _no_row(self, offset: int, op: str, source: _RowSource) -> LogRecord:
        """A TRUNCATE looks like a row but for its `op`; there is nothing else."""
        if op != "t":
            raise LogCorrupted(f"offset {offset}: a change of kind {op!r} in table {source.table}", hint=RECAPTURE)
        return LogRecord(
            offset,
            RecordKind.TRUNCATE,
            source.gtid,
            self.position_at(source.gtid, source.file, source.pos),
            table=self._places.name(source.db, source.table),
            tables=self._places.names_like(source.db, source.table),
            ts_ms=source.ts_ms,
        )

    def _ddl(self, offset: int, record: Record) -> LogRecord:
        source = record.source
        if source is None or not source.gtid:
            # A `recovery` start sends the structure it found once more; nothing happened in the source.
            return LogRecord(offset, RecordKind.HEARTBEAT, ts_ms=record.ts_ms)
        self._columns.forget()
        tables = self._named_tables(record)
        return LogRecord(
            offset,
            RecordKind.DDL,
            source.gtid,
            self.position_at(source.gtid, source.file or "", source.pos),
            table=tables[0] if tables else "",
            tables=tables,
            statement=record.ddl or "",
            ts_ms=source.ts_ms,
        )

    def _named_tables(self, record: Record) -> tuple[str, ...]:
        """The tables that a statement alters, as the sync calls them, each once.

        After a rename the connector names only the new tables (3.5.0.Final), so the statement itself is asked for the
        old ones: a table of the sync must not vanish unseen.
        """
        if leaves_values_alone(record.ddl or ""):
            return ()
        statement, source = record.ddl or "", record.source
        # A statement stands as it was typed, and a server may take names of either case for one (`touched` does too).
        known = {database.casefold() for database in self._places.namespaces}
        if dropped_database(statement).casefold() in known:
            return WHOLE_DATABASE
        found = [_place_of_id(change.id) for change in record.tableChanges or ()]
        own = (source.db if source else None) or self._places.namespace
        if source is not None and source.table and (own, source.table) not in found:
            found += [(own, table) for table in source.table.split(",")]
        # Whoever renames a table may take it from another database than the one that the record names.
        around = self._places.namespaces if _RENAMES.search(statement) else ()
        for database, table in altered_tables(statement):
            found += [(one, table) for one in ([database] if database else {own, *around})]
        here = [(database, table) for database, table in found if table and database.casefold() in known]
        return tuple(dict.fromkeys(name for place in here for name in self._places.names_like(*place)))

    def _plain(self, offset: int, collection: str) -> str:
        database, _, table = collection.partition(SEPARATOR)
        if not table:
            raise self._foreign(offset, self._source_name, collection)
        return self._places.name(database, table)

    def _foreign(self, offset: int, name: str, database: str) -> LogCorrupted:
        return foreign(
            offset,
            found=f"source {name!r}, database {database!r}",
            expected=f"{self._source_name!r}",
        )
