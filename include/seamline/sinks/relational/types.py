"""How each kind of column is stored in MariaDB and MySQL.

| kind | type |
|---|---|
| integer | smallint, int or bigint |
| unsigned, bits | bigint unsigned |
| decimal | decimal of the declared digits |
| float, double | float, double |
| boolean | boolean, which is tinyint(1) |
| char, string, enum, set | varchar of the declared length, without the padding of a char; where it is none, longtext |
| json, jsonb | longtext: JSON of these servers refuses documents that others take |
| native | as a string: the text that its server prints |
| binary | binary |
| bytes | varbinary of the declared length; where it is none, longblob |
| date, time, year | date, time, year |
| datetime | datetime |
| instant | datetime, in UTC: their timestamp ends in 2038 |
| time of day | time |
| interval | varchar: its canonical text, months, days and microseconds |
| uuid | uuid, in MySQL binary(16) |

Letters are utf8mb4, compared byte by byte. What has no place here, as a `numeric` without digits, is refused before
anything is loaded: `refusals`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from seamline.databases.mysql.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table
from seamline.sinks.relational.dialect import OWN_PREFIX, Dialect

_LETTER_BYTES = 4
# An index of InnoDB holds so much, in pages of 16 kB.
KEY_BYTES_MAX = 3072
_ENUM_LETTERS = 255
_BINARY_MAX = 255
_INTERVAL_LETTERS = 64
# A row may take 65,535 bytes without its longtexts; staging has the key twice, and columns of its own.
_ROW_BYTES_MAX = 57_000
# Of a page of 16 kB, less what stands beside the columns. Values of more than 255 bytes may lie aside, but for this.
_PAGE_BYTES_MAX = 8_000
_ASIDE_BYTES = 40
_ASIDE_FROM_LETTERS = 64
# InnoDB has 1,017 columns; staging adds some to them.
COLUMNS_MAX = 1_005
_DIVIDE = "divide the table at the source, or leave it out of the sync"
_LEAVE_OUT = "give the column another type at the source, or leave the table out of the sync"


@dataclass(frozen=True, slots=True)
class _Type:
    """`letters`, `bytes_`: the length of a varchar or varbinary; 0: another type. `row`, `page`: bytes that a value
    takes of a row, and of a page if all that may lie aside does."""

    sql: str
    row: int = 8
    page: int = 8
    letters: int = 0
    bytes_: int = 0


_LONGTEXT = _Type("longtext", row=12, page=_ASIDE_BYTES)
_LONGBLOB = _Type("longblob", row=12, page=_ASIDE_BYTES)


def column_types(table: Table, dialect: Dialect) -> dict[str, str]:
    """The type of each column, by its name. Every value of the source fits it exactly, or is refused."""
    return {name: one.sql for name, one in _types(table, dialect).items()}


def _types(table: Table, dialect: Dialect) -> dict[str, _Type]:
    types = {column.name: _type(column, dialect, key_bytes=_key_bytes(table, column)) for column in table.columns}
    for name in _largest_first(types):
        if sum(one.row for one in types.values()) <= _ROW_BYTES_MAX:
            break
        if name not in table.key:
            types[name] = _LONGTEXT if types[name].letters else _LONGBLOB
    if sum(one.page for one in types.values()) > _PAGE_BYTES_MAX:
        # A column that may be longer than 255 bytes takes less of a page than one that may be so long.
        types |= {name: _may_lie_aside(one) for name, one in types.items() if name not in table.key}
    return types


def _may_lie_aside(one: _Type) -> _Type:
    if not _ASIDE_BYTES < one.page < 256 or one.page == one.row:
        return one
    return _varchar(_ASIDE_FROM_LETTERS) if one.letters else _varbinary(_ASIDE_FROM_LETTERS * _LETTER_BYTES)


def column_definitions(table: Table, dialect: Dialect) -> str:
    """The column list of CREATE TABLE: NOT NULL as in the source, and of a key, as MySQL wants it said; no keys."""
    types = column_types(table, dialect)
    may_be_null = {column.name for column in table.columns if column.nullable} - set(table.key)
    return ", ".join(
        f"{quoted(name)} {sql}{' NULL' if name in may_be_null else ' NOT NULL'}" for name, sql in types.items()
    )


def refusals(table: Table, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """What keeps the table out for good, and how to mend it."""
    if len(table.columns) > COLUMNS_MAX:
        yield (
            f"table {table.name} has {len(table.columns):,} columns, {dialect.server} has place for {COLUMNS_MAX:,}",
            _DIVIDE,
        )
    for column in table.columns:
        place = f"column {column.name} of table {table.name} is {column.source_type}"
        if column.name.startswith(OWN_PREFIX):
            yield f"column {column.name} of table {table.name} begins with {OWN_PREFIX}, as our own do", _LEAVE_OUT
        if column.kind is Kind.DECIMAL and not _is_decimal(column, dialect):
            yield (
                f"{place}: a decimal of {dialect.server} has {dialect.decimal_digits_max} digits, of them"
                f" {dialect.decimal_scale_max} behind the point, and a table says how many",
                "declare its digits at the source, as numeric(38,10), or leave the table out of the sync",
            )
        if column.kind is Kind.BITS and column.length > 64:
            yield f"{place}: {dialect.server} has 64 bits at most", _LEAVE_OUT
    types = _types(table, dialect)
    longest = sum(types[name].row for name in table.key)
    if longest > KEY_BYTES_MAX:
        yield (
            f"a key of table {table.name} takes {longest:,} bytes, and an index of {dialect.server} {KEY_BYTES_MAX:,}",
            "shorten its columns at the source, or leave the table out of the sync",
        )
    row, page = (sum(parts) for parts in zip(*((one.row, one.page) for one in types.values()), strict=True))
    if row > _ROW_BYTES_MAX or page > _PAGE_BYTES_MAX:
        yield (
            f"a row of table {table.name} may take {max(row, page):,} bytes, also where all that may lies aside:"
            f" {dialect.server} keeps a row within a page of 16 kB",
            _DIVIDE,
        )


def advice(table: Table, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """What a table can hold and the server does not take; whether it ever will, only its rows show."""
    for column in table.key_columns:
        most, declared = _cut_key(table, column), _declared_key_bytes(column)
        if most and (not column.length or most < declared):
            what = f"{most // _LETTER_BYTES:,} characters" if _is_text(column) else f"{most:,} bytes"
            yield (
                f"a key of table {table.name} holds {what} of {column.name} there: an index of {dialect.server} has"
                f" {KEY_BYTES_MAX:,} bytes. A row with a longer one stops the load or the stream",
                "nothing, where no key is that long; else shorten its column at the source, or leave the table out",
            )


def _type(column: Column, dialect: Dialect, *, key_bytes: int) -> _Type:
    """`key_bytes`: how long a value may be where the column is of the key; 0 elsewhere."""
    if _is_text(column):
        return _text_type(_letters(column), key_bytes)
    match column.kind:
        case Kind.INTEGER:
            return _integer_type(column.length)
        case Kind.DECIMAL:
            # One without digits is refused.
            return _Type(f"decimal({column.precision or 65},{column.scale})", row=30, page=30)
        case Kind.BINARY | Kind.BYTES:
            return _bytes_type(column, key_bytes)
        case Kind.UUID:
            return _Type(dialect.uuid, row=16, page=16)
        case _:
            return _FIXED[column.kind] if column.kind in _FIXED else _moment_type(column)


def _varchar(letters: int) -> _Type:
    size = letters * _LETTER_BYTES
    return _Type(f"varchar({letters})", row=size + 2, page=size + 1 if size < 256 else _ASIDE_BYTES, letters=letters)


_FIXED = {
    Kind.UNSIGNED: _Type("bigint unsigned"),
    Kind.BITS: _Type("bigint unsigned"),
    Kind.FLOAT: _Type("float", row=4, page=4),
    Kind.DOUBLE: _Type("double"),
    Kind.BOOLEAN: _Type("boolean", row=1, page=1),
    Kind.DATE: _Type("date", row=3, page=3),
    Kind.YEAR: _Type("year", row=1, page=1),
    Kind.INTERVAL: replace(_varchar(_INTERVAL_LETTERS), letters=0),
}


def _integer_type(bits: int) -> _Type:
    if 0 < bits <= 16:
        return _Type("smallint", row=2, page=2)
    return _Type("int", row=4, page=4) if 0 < bits <= 32 else _Type("bigint")


def _moment_type(column: Column) -> _Type:
    is_time = column.kind in (Kind.TIME, Kind.TIME_OF_DAY)
    return _Type(f"{'time' if is_time else 'datetime'}({column.precision})")


def _text_type(letters: int, key_bytes: int) -> _Type:
    if key_bytes:
        most = key_bytes // _LETTER_BYTES
        return _varchar(min(letters or most, most))
    return _varchar(letters) if letters and letters * _LETTER_BYTES + 2 <= _ROW_BYTES_MAX else _LONGTEXT


def _letters(column: Column) -> int:
    """How many letters a text may have; 0 where that is not declared."""
    match column.kind:
        case Kind.ENUM:
            return _ENUM_LETTERS
        case Kind.SET:
            # The type names every label, with more signs than their commas.
            return len(column.source_type)
        case Kind.JSON | Kind.JSONB:
            return 0
        case _:
            return column.length


def _bytes_type(column: Column, key_bytes: int) -> _Type:
    length = column.length
    if column.kind is Kind.BINARY and 0 < length <= _BINARY_MAX:
        return _Type(f"binary({length})", row=length, page=length)
    if key_bytes:
        length = min(length or key_bytes, key_bytes)
    if not length or length + 2 > _ROW_BYTES_MAX:
        return _LONGBLOB
    return _varbinary(length)


def _varbinary(length: int) -> _Type:
    page = length + 1 if length < 256 else _ASIDE_BYTES
    return _Type(f"varbinary({length})", row=length + 2, page=page, bytes_=length)


def _key_bytes(table: Table, column: Column) -> int:
    return _cut_key(table, column) if column.name in table.key else 0


def _cut_key(table: Table, column: Column) -> int:
    """How many bytes of an index a text or string of bytes of the key may take: those without a length share what the
    others leave. 0 for other kinds."""
    if not (_is_text(column) or column.kind is Kind.BYTES):
        return 0
    varying = [one for one in table.key_columns if _is_text(one) or one.kind is Kind.BYTES]
    fixed = 32 * (len(table.key) - len(varying))
    declared = [min(_declared_key_bytes(one), KEY_BYTES_MAX) for one in varying]
    if fixed + sum(declared) <= KEY_BYTES_MAX and all(declared):
        return _declared_key_bytes(column)
    share = (KEY_BYTES_MAX - fixed) // len(varying)
    # Two bytes of each stand for its length.
    return max(share - 2, _LETTER_BYTES)


def _declared_key_bytes(column: Column) -> int:
    """0 where nothing is declared."""
    return _letters(column) * _LETTER_BYTES if _is_text(column) else column.length


def _is_text(column: Column) -> bool:
    return column.kind in (Kind.CHAR, Kind.STRING, Kind.ENUM, Kind.SET, Kind.JSON, Kind.JSONB, Kind.NATIVE)


def _is_decimal(column: Column, dialect: Dialect) -> bool:
    whole = column.precision - column.scale
    fits = 0 < column.precision <= dialect.decimal_digits_max and 0 <= column.scale <= dialect.decimal_scale_max
    return fits and whole >= 0


def _largest_first(types: dict[str, _Type]) -> list[str]:
    varying = [name for name, one in types.items() if one.letters or one.bytes_]
    return sorted(varying, key=lambda name: types[name].row, reverse=True)
