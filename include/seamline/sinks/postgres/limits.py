"""What a PostgreSQL destination does not take of a table's definition, known from the source's catalogue alone.

Most of it would be met late: at the publish, at the first change, at the first long value.
"""

from collections.abc import Iterator

from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import NAME_BYTES_MAX, Column, Kind, Table
from seamline.domain.cut_names import OWN_COLUMNS
from seamline.sinks.postgres.statements import OWN_PREFIX

# https://www.postgresql.org/docs/18/ddl-system-columns.html
_SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
# Of 1,600 that PostgreSQL has, without those that staging keeps beside a table's own: offset, deleted, met, missing and
# chunk; of a keyless table copies and chunk.
COLUMNS_MAX, KEYLESS_COLUMNS_MAX = 1_595, 1_598
# A row lies in one page of 8 kB (MaxHeapTupleSize). Only values that are longer than _INLINE_MAX may lie aside.
ROW_BYTES_MAX, _INLINE_MAX, _HEADER_BYTES = 8_160, 24, 24
# A third of a page, less what stands there beside the key.
KEY_BYTES_MAX = 2_704
_LETTER_BYTES = 4  # at most, in UTF-8
# What is not here has values of any length.
_BYTES = {
    "boolean": 1,
    "smallint": 2,
    "integer": 4,
    "real": 4,
    "date": 4,
    "bigint": 8,
    "double precision": 8,
    "time": 8,
    "timestamp": 8,
    "interval": 16,
    "uuid": 16,
}
_RENAME = "rename the column at the source, or leave the table out of the sync: a column has the same name everywhere"
_DIVIDE = "divide the table at the source, or leave it out of the sync"


def refusals(table: Table) -> Iterator[tuple[str, str]]:
    """What keeps the table out for good, and how to mend it."""
    for column in table.columns:
        if len(column.name.encode()) > NAME_BYTES_MAX:
            # Of a plan of before long names were fitted.
            yield f"the name of {_place(table, column)} has more than {NAME_BYTES_MAX} bytes", _RENAME
        if column.name in _SYSTEM_COLUMNS:
            yield f"{_place(table, column)} has the name of a column that PostgreSQL gives every table itself", _RENAME
        elif column.name.startswith(OWN_PREFIX):
            yield (
                f"{_place(table, column)} begins with {OWN_PREFIX}, as what Seamline stages beside a table's columns",
                _RENAME,
            )

    most = COLUMNS_MAX if table.is_keyed else KEYLESS_COLUMNS_MAX
    if len(table.columns) > most:
        yield (
            f"table {table.name} has {len(table.columns):,} columns: of PostgreSQL's 1,600 columns {most:,} are left"
            " beside those of staging",
            _DIVIDE,
        )
    least = sum(_bytes(column, any_length=0) for column in table.columns if not column.nullable)
    if least > ROW_BYTES_MAX:
        yield (
            f"each row of table {table.name} takes {least:,} bytes or more there, and PostgreSQL keeps a row within a"
            f" page of {ROW_BYTES_MAX:,}",
            _DIVIDE,
        )


def advice(table: Table) -> Iterator[tuple[str, str]]:
    """What a table can hold and PostgreSQL does not take; whether it ever will, only its rows show."""
    largest = _HEADER_BYTES + len(table.columns) // 8 + sum(_bytes(column) for column in table.columns)
    if largest > ROW_BYTES_MAX:
        yield (
            f"a row of table {table.name} may take {largest:,} bytes there, also where its long values lie aside:"
            f" PostgreSQL keeps a row within a page of {ROW_BYTES_MAX:,}. One that does not fit stops the stream",
            "nothing, where no row has so many values at once; else divide the table at the source, or leave it out",
        )
    longest = sum(_key_bytes(column) for column in table.key_columns)
    if longest > KEY_BYTES_MAX:
        yield (
            f"a key of table {table.name} may be longer than the {KEY_BYTES_MAX:,} bytes that an index of PostgreSQL"
            " takes. A row with a longer one stops the load or the stream",
            "nothing, where no key is that long; else shorten its column at the source, or leave the table out",
        )


def refusals_of_cuts(table: Table) -> Iterator[tuple[str, str]]:
    """What keeps the table out of nightly cuts."""
    for column in table.columns:
        if column.name in OWN_COLUMNS:
            yield f"{_place(table, column)} has the name of a column that every nightly cut adds", _RENAME


def _bytes(column: Column, *, any_length: int = _INLINE_MAX) -> int:
    """The bytes of a value in a row, stored or staged, if all that may be stored out of line is."""
    stored, _, length = destination_type(column).partition("(")
    letters = int(length.rstrip(")")) if stored == "varchar" and length else any_length
    varying = min(letters * _LETTER_BYTES + 1, any_length)
    return _BYTES.get(stored, varying)


def _key_bytes(column: Column) -> int:
    match column.kind:
        case Kind.CHAR | Kind.STRING:
            return column.length * _LETTER_BYTES or KEY_BYTES_MAX + 1
        case Kind.BINARY | Kind.BYTES:
            return column.length or KEY_BYTES_MAX + 1
        case _:
            return 0


def _place(table: Table, column: Column) -> str:
    return f"column {column.name} of table {table.name}"
