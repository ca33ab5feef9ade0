"""The edge values of each kind of MySQL column, as literals of that server: MariaDB's but for JSON and DOUBLE. Pure."""

from collections.abc import Mapping, Sequence

from seamline.databases.mysql import edge_values as shared
from seamline.domain.catalogue import Column, Kind

# Parsed by the server, which prints them in its own way. The last four hold what no text of a document can: a DECIMAL,
# a moment, bytes and a number of 64 bits without a sign.
DOCUMENTS = (
    *("'{}'", "'[]'", "'null'", "'true'", "'\"s\"'", "'0'", "'-1.5'", "'-0.0'", "'1.5e300'", "'5e-324'"),
    '\'{"b":1, "a":1.10,"a":2, "aa": [], "B": {}}\'',
    "'[1,18446744073709551615,-9223372036854775808,12345678901234567890.12]'",
    '\'{"n":"ü,\\\\u0041\\\\\\\\ \\\\" / \\\\n \\\\u0001 😀"}\'',
    "'[[[[\"deep\"]]]]'",
    "JSON_ARRAY(1.10, CAST(-0.000000000000000000000000000001 AS DECIMAL(65,30)))",
    "JSON_OBJECT('at', TIMESTAMP'2026-11-20 10:20:30.123456', 'on', DATE'0001-01-01', 'for', TIME'-838:59:59')",
    "JSON_ARRAY(CAST(x'00ff' AS JSON))",
    "CAST(18446744073709551615 AS JSON)",
)
# 9.7.4 prints at most 22 characters of a DOUBLE, and so this one as one that is beyond the end.
_LEAST_DOUBLE = "-1.7976931348623157e308"
LIMITS: Mapping[Kind, Sequence[tuple[str, str]]] = {
    **shared.LIMITS,
    Kind.DOUBLE: (
        ("a DOUBLE below -1.797693134862315e308", "it is stored exactly, but the server itself prints it otherwise"),
    ),
}


def edge_values(column: Column, *, letters: str = "") -> tuple[str, ...]:
    """The literals of a column, each once; NULL is among them where the column takes it. `letters`: as of MariaDB's."""
    if column.kind is not Kind.JSON:
        values = shared.edge_values(column, letters=letters)
        return tuple("-1.797693134862315e308" if value == _LEAST_DOUBLE else value for value in values)
    return (*DOCUMENTS, "NULL") if column.nullable else DOCUMENTS
