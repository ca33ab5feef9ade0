"""Tables of a MariaDB source as its own information_schema describes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from seamline.databases.mysql import table_text
from seamline.databases.mysql.client import Session, query
from seamline.databases.mysql.columns import (
    ColumnFacts,
    column_from_facts,
    kind_of,
    listed_tables,
    primary_keys,
    table_fault,
)
from seamline.databases.mysql.generated import virtual_fault
from seamline.databases.mysql.table_text import show_create
from seamline.domain.catalogue import Table
from seamline.ports import Problem, Survey

_UNSUPPORTED = {
    "inet4": "the log does not distinguish it from other bytes",
    "inet6": "the log does not distinguish it from other bytes",
    "vector": "it was not tested with the connector",
    "xmltype": "it was not tested with the connector",
}
_GEOMETRY = frozenset(
    [
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
    ]
)
# Every letter of these goes through the log as the server has it: those of single bytes by the tables of our own class
# (connect/mariadb), those of two by what the server itself answers. Of others the connector (3.5.0.Final) makes other
# letters without a word, as of ujis; or nobody has looked.
CHARACTER_SETS = frozenset(
    [
        "armscii8",
        "ascii",
        "big5",
        "cp850",
        "cp852",
        "cp866",
        "cp932",
        "cp1250",
        "cp1251",
        "cp1256",
        "cp1257",
        "dec8",
        "euckr",
        "gb2312",
        "gbk",
        "geostd8",
        "greek",
        "hebrew",
        "hp8",
        "keybcs2",
        "koi8r",
        "koi8u",
        "latin1",
        "latin2",
        "latin5",
        "latin7",
        "macce",
        "macroman",
        "sjis",
        "swe7",
        "tis620",
        "ucs2",
        # What servers before 10.6 call utf8mb3.
        "utf8",
        "utf16",
        "utf16le",
        "utf32",
        "utf8mb3",
        "utf8mb4",
    ]
)
_COLUMN_CURE = (
    "leave the table out of the sync, or change the column at the source: its name, its type, its character set or, of"
    " a VIRTUAL one, its expression"
)


def read_catalogue(session: "Session[Any]", database: str, tables: Sequence[str]) -> tuple[Table, ...]:
    """The tables in the order asked. SchemaConflict names every unknown table and every column that cannot be kept."""
    return survey(session, database, tables).whole()


def survey(session: "Session[Any]", database: str, tables: Sequence[str]) -> Survey:
    """Which of these tables are there and can be kept."""
    listed = listed_tables(session, database)
    missing = {name: fault for name in tables if (fault := table_fault(name, listed))}
    problems = [
        Problem(f"database {database}: {fault}", "correct `tables` of the sync", table=name)
        for name, fault in missing.items()
    ]
    there = [name for name in tables if name not in missing]
    columns = _columns(session, database, there)
    keys = primary_keys(session, database)
    found = []
    for name in there:
        table, faults = table_from_facts(name, columns[name], keys.get(name, ()), rows_estimate=listed[name][1])
        problems += [Problem(f"database {database}: {fault}", _COLUMN_CURE, table=name) for fault in faults]
        found += [] if faults else [table]
    return Survey(tuple(found), tuple(problems))


def table_from_facts(
    name: str, columns: Sequence[ColumnFacts], key: Sequence[str], *, rows_estimate: int = 0
) -> tuple[Table, list[str]]:
    """The table, and what is wrong with its columns; a faulty column is left out of the table."""
    kept, faults = [], []
    types = {facts.name: facts.data_type for facts in columns}
    for facts in columns:
        fault = unsupported(facts) or _virtual_fault(facts, types) or (_key_fault(facts) if facts.name in key else "")
        if fault:
            faults.append(f"`{name}`.`{facts.name}` {facts.column_type}: {fault}")
        else:
            kept.append(column_from_facts(facts))
    return Table(name, tuple(kept), tuple(key), rows_estimate), faults


def unsupported(facts: ColumnFacts) -> str:
    """Why a column cannot be kept exactly; "" where it can."""
    if why := _unlike_the_log(facts):
        return why
    if facts.data_type in _GEOMETRY:
        return "geometry is not supported yet"
    if facts.data_type in _UNSUPPORTED:
        return _UNSUPPORTED[facts.data_type]
    if facts.character_set and facts.character_set not in CHARACTER_SETS:
        return f"the connector may read letters of the character set {facts.character_set} otherwise than the server"
    if kind_of(facts) is None:
        return "the type is not known"
    return ""


def _unlike_the_log(facts: ColumnFacts) -> str:
    """Of types that the server prints in one way and the log in another."""
    if facts.column_type.startswith("year(2)"):
        return (
            "it prints two digits of a year where the log has four, and 00 for two different years; MODIFY it to YEAR,"
            " which shows what is stored"
        )
    is_old = "mariadb-5.3" in facts.column_type
    if is_old and (facts.fraction or facts.data_type == "time"):
        return (
            "it is stored as before MariaDB 10.1, which the connector reads as another time: SET GLOBAL"
            " mysql56_temporal_format = ON and ALTER TABLE … FORCE stores it again"
        )
    return ""


def _virtual_fault(facts: ColumnFacts, types: Mapping[str, str]) -> str:
    if facts.virtual_of is None:
        return ""
    return virtual_fault(facts.virtual_of, own_type=facts.data_type, types=types)


def _key_fault(facts: ColumnFacts) -> str:
    """In a key, values that are equal must be written alike: the log distinguishes keys by their text."""
    if facts.data_type in ("float", "double"):
        return "a floating point number is no exact key"
    return ""


def _columns(session: "Session[Any]", database: str, tables: Sequence[str]) -> dict[str, list[ColumnFacts]]:
    json_columns = {(table, name) for table in tables for name in table_text.json_columns(show_create(session, table))}
    rows = query(
        session,
        "SELECT table_name, column_name, data_type, column_type, is_nullable = 'YES', character_maximum_length,"
        " character_octet_length, numeric_precision, numeric_scale, datetime_precision, character_set_name,"
        " IF(INSTR(extra, 'VIRTUAL'), IFNULL(generation_expression, ''), NULL)"
        " FROM information_schema.columns WHERE table_schema = %s ORDER BY table_name, ordinal_position",
        (database,),
    )
    found: dict[str, list[ColumnFacts]] = {}
    for table, name, data_type, column_type, nullable, *numbers, character_set, virtual_of in rows:
        characters, octets, precision, scale, fraction = (int(number or 0) for number in numbers)
        facts = ColumnFacts(
            name,
            str(data_type).lower(),
            str(column_type),
            bool(nullable),
            characters,
            octets,
            precision,
            scale,
            fraction,
            is_json=(table, name) in json_columns,
            character_set=str(character_set or ""),
            virtual_of=virtual_of,
        )
        found.setdefault(table, []).append(facts)
    return found
