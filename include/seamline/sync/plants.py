"""Known breaks for the self-test of a comparison: which rows of a sample are changed, and what must be found then.

Twenty kinds, each a way in which copies of tables have gone wrong. A table gets those that its columns allow; a kind
that changes one value is planted once in each type that it is for. Each plant has rows of its own, so what is found can
be held against it one by one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from random import Random

from seamline.domain.canonical import exact_columns, named_text, parse_row_text, row_of_texts
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.verdict import BreakType
from seamline.ports.shadow import ShadowCopy

Texts = Mapping[str, str | None]
# Changed columns of one row, by name.
Values = dict[str, str | None]

_LETTERS = frozenset({Kind.STRING, Kind.CHAR})
_NUMBERS = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.DECIMAL})
_MOMENTS = frozenset({Kind.DATETIME, Kind.INSTANT})
_ALL = _LETTERS | _NUMBERS | _MOMENTS | {Kind.DATE, Kind.BYTES, Kind.BOOLEAN}
_HOUR = 3_600_000_000
# 1000-01-01 to 9998-12-31: what every server takes as a literal and prints alike.
_COMMON_MOMENTS = range(-30_610_224_000_000_000, 253_370_764_800_000_000)
_COMMON_DAY = re.compile(r"[1-9]\d{3}-\d\d-\d\d")
_WHOLE = re.compile(r"-?\d{1,20}")
_FRACTION = re.compile(r"-?\d+(\.\d+)?")
_PRINTED = re.compile(r"[\x20-\x7e]*")
# Of a text or of bytes that is changed: a statement carries the new value.
_LENGTH_MAX = 1_000
# How many rows are looked at for one kind before the table is taken to have none that fits.
_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Expected:
    """A break that must be found. `columns`: those that differ, where both sides have the row."""

    type: BreakType
    key: str
    columns: frozenset[str] = frozenset()


@dataclass(slots=True)
class Plants:
    """What is planted in a sample, and the two copies that hold it. `kinds`: by kind, how many breaks it must give."""

    source: ShadowCopy
    destination: ShadowCopy
    expected: frozenset[Expected]
    kinds: Mapping[str, int]


def plants(table: Table, rows: Mapping[str, Texts], random: Random) -> Plants:
    """Plants of each kind that fits, in an order that `random` decides, as long as there are rows for them."""
    bed = _Bed(table, rows, random)
    kinds = list(_KINDS.items())
    random.shuffle(kinds)
    planted: dict[str, int] = {}
    for name, plant in kinds:
        before = len(bed.expected)
        if plant(bed):
            planted[name] = len(bed.expected) - before
    source = tuple(key for key in rows if key not in bed.only_there)
    destination = tuple(key for key in rows if key not in bed.only_here)
    return Plants(
        ShadowCopy(table, source),
        ShadowCopy(table, destination, bed.changed, tuple(bed.doubled)),
        frozenset(bed.expected),
        planted,
    )


@dataclass(slots=True)
class _Bed:
    """A sample that is planted. `free`: keys of rows without a plant yet, the next one last."""

    table: Table
    rows: Mapping[str, Texts]
    random: Random
    free: list[str] = field(init=False)
    only_here: set[str] = field(default_factory=set)
    only_there: set[str] = field(default_factory=set)
    doubled: list[str] = field(default_factory=list)
    changed: dict[str, Values] = field(default_factory=dict)
    expected: list[Expected] = field(default_factory=list)
    _ordinary: dict[str, Column] = field(init=False)

    def __post_init__(self) -> None:
        self.free = sorted(self.rows)
        self.random.shuffle(self.free)
        others = [column for column in exact_columns(self.table) if column.name not in self.table.key]
        self._ordinary = {one.name: one for one in others if all(_is_ordinary(one, row) for row in self.rows.values())}

    def columns(self, kinds: frozenset[Kind]) -> list[Column]:
        """Those that may be changed, in a random order: columns of which every value of the sample is an ordinary one,
        for the server gives the whole column of the copy one type."""
        found = [column for column in self._ordinary.values() if column.kind in kinds]
        self.random.shuffle(found)
        return found

    def change(self, key: str, values: Values) -> None:
        self.free.remove(key)
        self.changed[key] = values
        if self.table.is_keyed:
            self.expected.append(Expected(BreakType.VALUE, self.named(key), frozenset(values)))
        else:
            after = self.text({**self.rows[key], **values})
            self.expected += [
                Expected(BreakType.MISSING, self.named(key)),
                Expected(BreakType.UNEXPECTED, self.named(after)),
            ]

    def remove(self, key: str) -> None:
        self.free.remove(key)
        self.only_here.add(key)
        self.expected.append(Expected(BreakType.MISSING, self.named(key)))

    def add(self, key: str) -> None:
        """The row is there at the destination, and the source's copy is left without it."""
        self.free.remove(key)
        self.only_there.add(key)
        self.expected.append(Expected(BreakType.UNEXPECTED, self.named(key)))

    def double(self, key: str) -> None:
        self.free.remove(key)
        self.doubled.append(key)
        self.expected.append(Expected(BreakType.DUPLICATE, self.named(key)))

    def named(self, key: str) -> str:
        columns = self.table.key_columns or exact_columns(self.table)
        return named_text(columns, parse_row_text(columns, key))

    def text(self, row: Texts) -> str:
        return row_of_texts(exact_columns(self.table), row)

    def looked_at(self) -> list[str]:
        return self.free[-_LOOKED_AT:]

    def is_another_row(self, key: str, values: Values) -> bool:
        """Whether the change gives a row that the sample has not: without a key it would be one more copy of it."""
        if self.table.is_keyed:
            return values != {name: self.rows[key][name] for name in values}
        return self.text({**self.rows[key], **values}) not in self.rows


def _is_ordinary(column: Column, row: Texts) -> bool:
    """Whether the value is one that every server prints and reads alike, beside others of its kind."""
    text = row[column.name]
    if text is None:
        return True
    match column.kind:
        case Kind.INTEGER | Kind.UNSIGNED:
            return bool(_WHOLE.fullmatch(text))
        case Kind.BOOLEAN | Kind.BITS:
            # Of bits the first one is flipped, which every width has.
            return bool(_WHOLE.fullmatch(text)) and 0 <= int(text) < 2**63
        case Kind.DECIMAL:
            return bool(_FRACTION.fullmatch(text))
        case Kind.DATE:
            return bool(_COMMON_DAY.fullmatch(text)) and "-00" not in text
        case Kind.DATETIME | Kind.INSTANT:
            return bool(_WHOLE.fullmatch(text)) and int(text) in _COMMON_MOMENTS
        case Kind.CHAR | Kind.STRING | Kind.BYTES:
            return not column.native
        case _:
            return False


# ---- kinds: each says whether it was planted ------------------------------------------------------------------------


def _row_missing(bed: _Bed) -> bool:
    if bed.free:
        bed.remove(bed.free[-1])
        return True
    return False


def _row_unexpected(bed: _Bed) -> bool:
    if bed.free:
        bed.add(bed.free[-1])
        return True
    return False


def _row_doubled_and_another_lost(bed: _Bed) -> bool:
    """The counts of both sides stay equal."""
    if len(bed.free) < 2:
        return False
    bed.double(bed.free[-1])
    bed.remove(bed.free[-1])
    return True


def _rows_swapped(bed: _Bed) -> bool:
    """Two rows have each other's value: sums of a column, and hashes that know no row, stay equal."""
    for column in bed.columns(_ALL - {Kind.BOOLEAN}):
        for key, other in _pairs(bed, column.name):
            here, there = bed.rows[key][column.name], bed.rows[other][column.name]
            if here == there or not (_is_short(here) and _is_short(there)):
                continue
            if (here is None or there is None) and not column.nullable:
                continue
            changes: list[tuple[str, Values]] = [(key, {column.name: there}), (other, {column.name: here})]
            if all(bed.is_another_row(*change) for change in changes):
                for change in changes:
                    bed.change(*change)
                return True
    return False


def _amount_moved(bed: _Bed) -> bool:
    """From one row to another: the control total stays equal."""
    for column in bed.columns(frozenset({Kind.DECIMAL})):
        for key, other in _pairs(bed, column.name):
            taken, given = bed.rows[key][column.name], bed.rows[other][column.name]
            if taken is None or given is None or _places(taken) != _places(given):
                continue
            changes: list[tuple[str, Values]] = [
                (key, {column.name: _added(column, taken, -1)}),
                (other, {column.name: _added(column, given, 1)}),
            ]
            if all(bed.is_another_row(*change) for change in changes) and changes[0][1] != changes[1][1]:
                for change in changes:
                    bed.change(*change)
                return True
    return False


def _columns_swapped(bed: _Bed) -> bool:
    columns = bed.columns(_ALL)
    alike = [(one, two) for n, one in enumerate(columns) for two in columns[:n] if _holds_alike(one, two)]
    for one, two in alike:
        for key in reversed(bed.looked_at()):
            first, second = bed.rows[key][one.name], bed.rows[key][two.name]
            values: Values = {one.name: second, two.name: first}
            if first is None or second is None or first == second or not (_is_short(first) and _is_short(second)):
                continue
            if bed.is_another_row(key, values):
                bed.change(key, values)
                return True
    return False


def _letter_moved(bed: _Bed) -> bool:
    """From the end of a text to the beginning of another: without marks between them both rows read the same."""
    columns = bed.columns(frozenset({Kind.STRING}))
    for one, two in ((one, two) for one in columns for two in columns if one is not two):
        for key in reversed(bed.looked_at()):
            first, second = bed.rows[key][one.name], bed.rows[key][two.name]
            if not first or second is None or not (_is_short(first) and _is_short(second)):
                continue
            values: Values = {one.name: first[:-1], two.name: first[-1] + second}
            if bed.is_another_row(key, values):
                bed.change(key, values)
                return True
    return False


def _one_value(kinds: frozenset[Kind], edit: Callable[[Column, str], str | None]) -> Callable[[_Bed], bool]:
    """A kind that changes one value of each type. `edit` gives None for a value that it cannot change."""

    def plant_in(bed: _Bed, columns: Sequence[Column]) -> bool:
        for column in columns:
            for key in reversed(bed.looked_at()):
                text = bed.rows[key][column.name]
                new = None if text is None or not _is_short(text) else edit(column, text)
                if new is not None and bed.is_another_row(key, {column.name: new}):
                    bed.change(key, {column.name: new})
                    return True
        return False

    return lambda bed: any([plant_in(bed, bed.columns(frozenset({kind}))) for kind in sorted(kinds)])


def _one_null(kinds: frozenset[Kind], *, of: Callable[[str | None], bool], new: str | None) -> Callable[[_Bed], bool]:
    """A kind that puts `new` in the place of such a value of each type, where one of both is NULL."""

    def plant_in(bed: _Bed, columns: Sequence[Column]) -> bool:
        for column in columns:
            for key in reversed(bed.looked_at()) if column.nullable else ():
                if of(bed.rows[key][column.name]) and bed.is_another_row(key, {column.name: new}):
                    bed.change(key, {column.name: new})
                    return True
        return False

    return lambda bed: any([plant_in(bed, bed.columns(frozenset({kind}))) for kind in sorted(kinds)])


# ---- single values --------------------------------------------------------------------------------------------------


def _last_place(column: Column, text: str) -> str | None:
    return _added(column, text, 1)


def _added(column: Column, text: str, units: int) -> str:
    """So many units of the last place more, or less where the column has no room."""
    with localcontext(prec=100):
        unit = Decimal(1).scaleb(-_places(text))
        found = Decimal(text) + units * unit
        if column.precision and len(found.as_tuple().digits) > column.precision:
            found = Decimal(text) - units * unit
        return f"{found if found else abs(found):f}"


def _places(text: str) -> int:
    return len(text.partition(".")[2])


def _sign_flipped(column: Column, text: str) -> str | None:
    if not Decimal(text) or (column.kind is Kind.INTEGER and text == str(_least(column))):
        return None
    return text.removeprefix("-") if text.startswith("-") else f"-{text}"


def _off_by_one(column: Column, text: str) -> str | None:
    greatest = 2**63 - 1 if column.kind is Kind.UNSIGNED else -_least(column) - 1
    return str(int(text) + (1 if int(text) < greatest else -1))


def _least(column: Column) -> int:
    """Of an integer: `length` is its bits."""
    return -(1 << (min(column.length or 16, 64) - 1))


def _spaced(_: Column, text: str) -> str | None:
    return f"{text} "


def _recased(_: Column, text: str) -> str | None:
    for place, letter in enumerate(text):
        if letter.isascii() and letter.isalpha():
            return text[:place] + letter.swapcase() + text[place + 1 :]
    return None


def _transposed(_: Column, text: str) -> str | None:
    for place in range(len(text) - 1):
        one, two = text[place], text[place + 1]
        # A space at the end of a CHAR carries no meaning.
        if one != two and _PRINTED.fullmatch(one + two) and " " not in (one, two):
            return text[:place] + two + one + text[place + 2 :]
    return None


def _byte_changed(_: Column, text: str) -> str | None:
    return f"{text[:-2]}{int(text[-2:], 16) ^ 1:02x}" if text else None


def _unit_of_time(column: Column, text: str) -> str | None:
    return str(int(text) + 10 ** (6 - column.precision))


def _hour(_: Column, text: str) -> str | None:
    return str(int(text) + _HOUR)


def _day(_: Column, text: str) -> str | None:
    day = int(text[8:])
    return f"{text[:8]}{day + 1 if day < 28 else day - 1:02d}"


def _flag(_: Column, text: str) -> str | None:
    return str(int(text) ^ 1)


def _is_short(text: str | None) -> bool:
    return text is None or len(text) <= _LENGTH_MAX


def _pairs(bed: _Bed, column: str) -> Iterator[tuple[str, str]]:
    keys = [key for key in reversed(bed.looked_at()) if bed.rows[key][column] is not None]
    return zip(keys, keys[1:], strict=False)


def _holds_alike(one: Column, two: Column) -> bool:
    """Whether each column takes every value of the other."""
    mine, theirs = ((c.kind, c.length if c.kind is Kind.INTEGER else 0, c.precision, c.scale) for c in (one, two))
    return mine == theirs


_KINDS: Mapping[str, Callable[[_Bed], bool]] = {
    "row missing": _row_missing,
    "row unexpected": _row_unexpected,
    "row doubled and another lost": _row_doubled_and_another_lost,
    "values of two rows swapped": _rows_swapped,
    "amount moved between two rows": _amount_moved,
    "columns of one type swapped": _columns_swapped,
    "letter moved to the next column": _letter_moved,
    "last place of a decimal": _one_value(frozenset({Kind.DECIMAL}), _last_place),
    "sign flipped": _one_value(frozenset({Kind.DECIMAL, Kind.INTEGER}), _sign_flipped),
    "integer off by one": _one_value(frozenset({Kind.INTEGER, Kind.UNSIGNED}), _off_by_one),
    "trailing space": _one_value(frozenset({Kind.STRING}), _spaced),
    "letter in another case": _one_value(_LETTERS, _recased),
    "letters transposed": _one_value(_LETTERS, _transposed),
    "byte changed": _one_value(frozenset({Kind.BYTES}), _byte_changed),
    "last place of a time": _one_value(_MOMENTS, _unit_of_time),
    "hour of a time": _one_value(_MOMENTS, _hour),
    "day of a date": _one_value(frozenset({Kind.DATE}), _day),
    "flag flipped": _one_value(frozenset({Kind.BOOLEAN, Kind.BITS}), _flag),
    "empty text for NULL": _one_null(frozenset({Kind.STRING}), of=lambda text: text is None, new=""),
    "NULL for a value": _one_null(
        _LETTERS | _NUMBERS | _MOMENTS | {Kind.DATE, Kind.BYTES, Kind.BOOLEAN},
        of=lambda text: text is not None,
        new=None,
    ),
}
KINDS = tuple(_KINDS)
