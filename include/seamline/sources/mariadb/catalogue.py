"""Tables of a MariaDB source as its own information_schema describes them."""

from collections.abc import Sequence
from typing import Any

from seamline.databases.mysql import table_text
from seamline.databases.mysql.client import Session
from seamline.databases.mysql.columns import Catalogue, ColumnFacts, kind_of, listed_columns
from seamline.databases.mysql.table_text import show_create

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


def _columns(session: "Session[Any]", database: str, tables: Sequence[str]) -> dict[str, list[ColumnFacts]]:
    json_columns = {(table, name) for table in tables for name in table_text.json_columns(show_create(session, table))}
    return listed_columns(session, database, is_json=lambda table, name, _: (table, name) in json_columns)


_CATALOGUE = Catalogue(_columns, unsupported)
survey, read_catalogue, table_from_facts = _CATALOGUE.survey, _CATALOGUE.read_catalogue, _CATALOGUE.table_from_facts
