"""Tables of a MySQL source as its own information_schema describes them. What a type is kept as,
`databases.mysql.columns` says.
"""

import re
from collections.abc import Sequence
from typing import Any

from seamline.databases.mysql.client import Session, query
from seamline.databases.mysql.columns import ColumnFacts, column_from_facts, listed_tables, primary_keys, table_fault
from seamline.databases.mysql.generated import virtual_fault
from seamline.domain.catalogue import NAME_BYTES_MAX, Column, Table
from seamline.ports import Problem, Survey

_UNSUPPORTED = {
    "vector": "vectors are not supported yet",
    **dict.fromkeys(
        (
            "geometry",
            "point",
            "linestring",
            "polygon",
            "multipoint",
            "multilinestring",
            "multipolygon",
            "geomcollection",
            "geometrycollection",
        ),
        "geometry is not supported yet",
    ),
}
_TYPES = frozenset(
    {
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit", "year"),
        *("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"),
        *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
        *("date", "datetime", "timestamp", "time"),
    }
)
# Of others nobody has looked whether the connector makes of each byte what the server makes of it.
CHARACTER_SETS = frozenset(["ascii", "latin1", "utf8mb3", "utf8mb4"])
_COLUMN_CURE = (
    "leave the table out of the sync, or change the column at the source: its name, its type, its character set or, of"
    " a VIRTUAL one, its expression"
)
_COLUMNS = (
    "SELECT table_name, column_name, data_type, column_type, is_nullable = 'YES', character_maximum_length,"
    " character_octet_length, numeric_precision, numeric_scale, datetime_precision, character_set_name,"
    " IF(INSTR(extra, 'VIRTUAL GENERATED'), IFNULL(generation_expression, ''), NULL)"
    " FROM information_schema.columns WHERE table_schema = %s ORDER BY table_name, ordinal_position"
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def read_catalogue(session: "Session[Any]", database: str, tables: Sequence[str]) -> tuple[Table, ...]:
    """The tables in the order asked. SchemaConflict names every unknown table and every column that cannot be kept."""
    return survey(session, database, tables).whole()


def survey(session: "Session[Any]", database: str, tables: Sequence[str]) -> Survey:
    """Which of these tables are there and can be kept."""
    listed = listed_tables(session, database)
    columns, keys = _columns(session, database), primary_keys(session, database)
    found, problems = [], []
    for name in tables:
        if fault := table_fault(name, listed):
            problems.append(Problem(f"database {database}: {fault}", "correct `tables` of the sync", table=name))
            continue
        table, faults = table_from_facts(name, columns[name], keys.get(name, ()), rows_estimate=listed[name][1])
        problems += [Problem(f"database {database}: {fault}", _COLUMN_CURE, table=name) for fault in faults]
        found += [] if faults else [table]
    return Survey(tuple(found), tuple(problems))


def table_from_facts(
    name: str, columns: Sequence[ColumnFacts], key: Sequence[str], *, rows_estimate: int = 0
) -> tuple[Table, list[str]]:
    """The table, and what is wrong with its columns; a faulty column is left out of the table."""
    kept: list[Column] = []
    faults = []
    types = {facts.name: facts.data_type for facts in columns}
    for facts in columns:
        fault = unsupported(facts)
        if not fault and facts.virtual_of is not None:
            fault = virtual_fault(facts.virtual_of, own_type=facts.data_type, types=types)
        if not fault and facts.name in key and facts.data_type in ("float", "double"):
            fault = "a floating point number is no exact key"
        if fault:
            faults.append(f"`{name}`.`{facts.name}` {facts.column_type}: {fault}")
        else:
            kept.append(column_from_facts(facts))
    return Table(name, tuple(kept), tuple(key), rows_estimate), faults


def unsupported(facts: ColumnFacts) -> str:
    """Why a column cannot be kept exactly; "" where it can."""
    # MySQL takes 64 letters, of up to three bytes.
    if len(facts.name.encode()) > NAME_BYTES_MAX:
        return f"its name has more than {NAME_BYTES_MAX} bytes, and PostgreSQL would cut it"
    if facts.data_type in _UNSUPPORTED:
        return _UNSUPPORTED[facts.data_type]
    if facts.data_type not in _TYPES:
        return "the type is not known"
    if facts.character_set and facts.character_set not in CHARACTER_SETS:
        return f"the connector may read letters of the character set {facts.character_set} otherwise than the server"
    return ""


def _columns(session: "Session[Any]", database: str) -> dict[str, list[ColumnFacts]]:
    found: dict[str, list[ColumnFacts]] = {}
    rows = query(session, _COLUMNS, (database,))
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
            is_json=str(data_type).lower() == "json",
            character_set=str(character_set or ""),
            # As it stands inside a text: with a backslash before each quote and each backslash.
            virtual_of=None if virtual_of is None else _ESCAPED.sub(r"\1", str(virtual_of)),
        )
        found.setdefault(str(table), []).append(facts)
    return found
