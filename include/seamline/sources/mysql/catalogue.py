"""Tables of a MySQL source as its own information_schema describes them. What a type is kept as,
`databases.mysql.columns` says.
"""

import re
from collections.abc import Sequence
from typing import Any

from seamline.databases.mysql.client import Session
from seamline.databases.mysql.columns import Catalogue, ColumnFacts, listed_columns

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
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def unsupported(facts: ColumnFacts) -> str:
    """Why a column cannot be kept exactly; "" where it can."""
    if facts.data_type in _UNSUPPORTED:
        return _UNSUPPORTED[facts.data_type]
    if facts.data_type not in _TYPES:
        return "the type is not known"
    if facts.character_set and facts.character_set not in CHARACTER_SETS:
        return f"the connector may read letters of the character set {facts.character_set} otherwise than the server"
    return ""


def unescaped(expression: str) -> str:
    """information_schema prints one as it stands inside a text: with a backslash before each quote and backslash."""
    return _ESCAPED.sub(r"\1", expression)


def _columns(session: "Session[Any]", database: str, tables: Sequence[str]) -> dict[str, list[ColumnFacts]]:  # noqa: ARG001
    return listed_columns(session, database, is_json=lambda *column: column[2] == "json", expression=unescaped)


_CATALOGUE = Catalogue(_columns, unsupported)
survey, read_catalogue, table_from_facts = _CATALOGUE.survey, _CATALOGUE.read_catalogue, _CATALOGUE.table_from_facts
