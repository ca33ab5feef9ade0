"""Tables and columns as the information_schema of MariaDB and MySQL lists them, and the kinds of their types."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seamline.databases.mysql.client import Session, query
from seamline.databases.mysql.generated import virtual_fault
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.ports import Problem, Survey

# Without a right on it a table is not listed.
_CURE = "correct `tables` of the sync; where the table is there, grant SELECT (./seamline grants SOURCE)"
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
# An unsigned integer is kept as the next larger signed one.
_UNSIGNED_BITS = {"tinyint": 16, "smallint": 32, "mediumint": 32, "int": 64}
_TEXTS = frozenset({"varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_MOMENTS = {"datetime": Kind.DATETIME, "timestamp": Kind.INSTANT, "time": Kind.TIME}
_PLAIN = {
    "date": Kind.DATE,
    "year": Kind.YEAR,
    "uuid": Kind.UUID,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "set": Kind.SET,
}
_OTHER_KINDS = {
    "VIEW": "is a view: name the tables it reads",
    "SYSTEM VERSIONED": "is system-versioned: the log does not distinguish its rows of now from those of before",
    "SEQUENCE": "is a sequence, not a table",
    "TEMPORARY": "is temporary",
}


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One row of information_schema.columns."""

    name: str
    data_type: str
    column_type: str
    nullable: bool = True
    characters: int = 0
    octets: int = 0
    precision: int = 0
    scale: int = 0
    fraction: int = 0
    is_json: bool = False
    character_set: str = ""
    # Of a VIRTUAL generated column; None where the value is stored.
    virtual_of: str | None = None


COLUMN_CURE = (
    "leave the table out of the sync, or change the column at the source: its name, its type, its character set or, of"
    " a VIRTUAL one, its expression"
)
_COLUMNS = (
    "SELECT table_name, column_name, data_type, column_type, is_nullable = 'YES', character_maximum_length,"
    " character_octet_length, numeric_precision, numeric_scale, datetime_precision, character_set_name,"
    " IF(INSTR(extra, 'VIRTUAL'), IFNULL(generation_expression, ''), NULL)"
    " FROM information_schema.columns WHERE table_schema = %s ORDER BY table_name, ordinal_position"
)
ColumnsOf = Callable[["Session[Any]", str, Sequence[str]], Mapping[str, Sequence[ColumnFacts]]]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What is a server's own. `columns`: by table; `unsupported`: why a column cannot be kept exactly, "" where it
    can."""

    columns: ColumnsOf
    unsupported: Callable[[ColumnFacts], str]

    def read_catalogue(self, session: "Session[Any]", database: str, tables: Sequence[str]) -> tuple[Table, ...]:
        """The tables in the order asked. SchemaConflict names every unknown table and every column that cannot be
        kept."""
        return self.survey(session, database, tables).whole()

    def survey(self, session: "Session[Any]", database: str, tables: Sequence[str]) -> Survey:
        """Which of these tables are there and can be kept."""
        listed = listed_tables(session, database)
        missing = {name: fault for name in tables if (fault := table_fault(name, listed))}
        problems = [Problem(f"database {database}: {fault}", _CURE, table=name) for name, fault in missing.items()]
        there = [name for name in tables if name not in missing]
        columns, keys = self.columns(session, database, there), primary_keys(session, database)
        found = []
        for name in there:
            table, faults = self.table_from_facts(
                name, columns[name], keys.get(name, ()), rows_estimate=listed[name][1]
            )
            problems += [Problem(f"database {database}: {fault}", COLUMN_CURE, table=name) for fault in faults]
            found += [] if faults else [table]
        return Survey(tuple(found), tuple(problems))

    def table_from_facts(
        self, name: str, columns: Sequence[ColumnFacts], key: Sequence[str], *, rows_estimate: int = 0
    ) -> tuple[Table, list[str]]:
        """The table, and what is wrong with its columns; a faulty column is left out of the table."""
        kept, faults = [], []
        types = {facts.name: facts.data_type for facts in columns}
        for facts in columns:
            fault = self.unsupported(facts) or _virtual_fault(facts, types)
            fault = fault or (_key_fault(facts) if facts.name in key else "")
            if fault:
                faults.append(f"`{name}`.`{facts.name}` {facts.column_type}: {fault}")
            else:
                kept.append(column_from_facts(facts))
        return Table(name, tuple(kept), tuple(key), rows_estimate), faults


def _virtual_fault(facts: ColumnFacts, types: Mapping[str, str]) -> str:
    if facts.virtual_of is None:
        return ""
    return virtual_fault(facts.virtual_of, own_type=facts.data_type, types=types)


def _key_fault(facts: ColumnFacts) -> str:
    """In a key, values that are equal must be written alike: the log distinguishes keys by their text."""
    if facts.data_type in ("float", "double"):
        return "a floating point number is no exact key"
    return ""


def listed_columns(
    session: "Session[Any]",
    database: str,
    *,
    is_json: Callable[[str, str, str], bool],
    expression: Callable[[str], str] = str,
) -> dict[str, list[ColumnFacts]]:
    """By table. `is_json`: of table, column and type; `expression`: of a VIRTUAL column, as SQL has it."""
    found: dict[str, list[ColumnFacts]] = {}
    rows: Iterable[tuple[Any, ...]] = query(session, _COLUMNS, (database,))
    for table, name, data_type, column_type, nullable, *numbers, character_set, virtual_of in rows:
        characters, octets, precision, scale, fraction = (int(number or 0) for number in numbers)
        facts = ColumnFacts(
            str(name),
            str(data_type).lower(),
            str(column_type),
            bool(nullable),
            characters,
            octets,
            precision,
            scale,
            fraction,
            is_json=is_json(str(table), str(name), str(data_type).lower()),
            character_set=str(character_set or ""),
            virtual_of=None if virtual_of is None else expression(str(virtual_of)),
        )
        found.setdefault(str(table), []).append(facts)
    return found


def listed_tables(session: "Session[Any]", database: str) -> dict[str, tuple[str, int]]:
    """Name → (table type, rows)."""
    rows = query(
        session,
        "SELECT table_name, table_type, table_rows FROM information_schema.tables WHERE table_schema = %s",
        (database,),
    )
    return {str(name): (str(table_type), int(count or 0)) for name, table_type, count in rows}


def primary_keys(session: "Session[Any]", database: str) -> dict[str, tuple[str, ...]]:
    """Table → columns of its primary key."""
    rows = query(
        session,
        "SELECT table_name, column_name FROM information_schema.statistics"
        " WHERE table_schema = %s AND index_name = 'PRIMARY' ORDER BY table_name, seq_in_index",
        (database,),
    )
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(str(table), []).append(str(column))
    return {table: tuple(columns) for table, columns in found.items()}


def table_fault(name: str, listed: Mapping[str, tuple[str, int]]) -> str:
    """Why a wanted name is no table to keep; "" where it is one. `listed`: as of `listed_tables`."""
    if name not in listed:
        near = difflib.get_close_matches(name, list(listed), n=1)
        guess = f", did you mean `{near[0]}`?" if near else ", or the reader has no SELECT on it"
        return f"there is no table `{name}`{guess}"
    table_type = listed[name][0]
    if table_type == "BASE TABLE":
        return ""
    return f"`{name}` {_OTHER_KINDS.get(table_type, f'is of type {table_type}')}"


def column_from_facts(facts: ColumnFacts) -> Column:
    kind = kind_of(facts)
    if kind is None:
        raise SchemaConflict(f"column {facts.name} has the unknown type {facts.column_type}")
    length, precision, scale = 0, 0, 0
    if kind in (Kind.INTEGER, Kind.UNSIGNED, Kind.BITS):
        length = _bits(facts)
    elif kind in (Kind.CHAR, Kind.STRING):
        # Text types have their limit in bytes; only char and varchar have it in characters.
        length = facts.characters if facts.data_type in ("char", "varchar") else 0
    elif kind in (Kind.BINARY, Kind.BYTES):
        length = facts.octets if facts.data_type in ("binary", "varbinary") else 0
    elif kind is Kind.DECIMAL:
        precision, scale = facts.precision, facts.scale
    elif kind in (Kind.DATETIME, Kind.INSTANT, Kind.TIME):
        precision = facts.fraction
    return Column(facts.name, kind, facts.column_type, facts.nullable, length, precision, scale)


def kind_of(facts: ColumnFacts) -> Kind | None:
    """None for a type that is not known."""
    data_type = facts.data_type
    if facts.is_json:
        return Kind.JSON
    if data_type in _INTEGER_BITS:
        return Kind.UNSIGNED if data_type == "bigint" and _is_unsigned(facts) else Kind.INTEGER
    if data_type in _TEXTS:
        return Kind.STRING
    if data_type in _BYTES:
        return Kind.BYTES
    fixed = {"decimal": Kind.DECIMAL, "bit": Kind.BITS, "char": Kind.CHAR, "binary": Kind.BINARY, "enum": Kind.ENUM}
    return {**fixed, **_MOMENTS, **_PLAIN}.get(data_type)


def _bits(facts: ColumnFacts) -> int:
    if facts.data_type == "bit":
        return facts.precision
    if _is_unsigned(facts):
        return _UNSIGNED_BITS.get(facts.data_type, 64)
    return _INTEGER_BITS[facts.data_type]


def _is_unsigned(facts: ColumnFacts) -> bool:
    return "unsigned" in facts.column_type.lower()
