"""Types of columns as a declaration writes them, and the columns that they make. Pure."""

import re
from collections.abc import Callable, Mapping

from seamline.domain.catalogue import Column, Kind

_TYPE = re.compile(r"([a-z][a-z ]*[a-z])(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_DIGITS_MAX = 76
_FRACTION = 6
Numbers = tuple[int | None, int | None]


def column_of(name: str, declared: str) -> Column:
    """One that takes NULL. ValueError: the type is not known, or has other numbers than it takes."""
    text = " ".join(declared.lower().split())
    found = _TYPE.fullmatch(text)
    make = _TYPES.get(found[1]) if found else None
    if found is None or make is None:
        raise ValueError(f"{declared} is no type: there are {', '.join(sorted(_TYPES))}")
    numbers = (int(found[2]) if found[2] else None, int(found[3]) if found[3] else None)
    return make(name, text, numbers)


_Make = Callable[[str, str, Numbers], Column]


def _plain(kind: Kind, length: int = 0) -> _Make:
    def make(name: str, text: str, numbers: Numbers) -> Column:
        if numbers != (None, None):
            raise ValueError(f"{text} takes no numbers")
        return Column(name, kind, text, length=length)

    return make


def _sized(kind: Kind) -> _Make:
    """With the number of letters that it holds at most, or without."""

    def make(name: str, text: str, numbers: Numbers) -> Column:
        length, more = numbers
        if more is not None or length == 0:
            raise ValueError(f"{text} takes one number, of letters")
        return Column(name, kind, text, length=length or 0)

    return make


def _decimal(name: str, text: str, numbers: Numbers) -> Column:
    precision, scale = numbers
    if precision is None or not 0 < precision <= _DIGITS_MAX or (scale or 0) > precision:
        raise ValueError(f"{text}: write decimal(digits, decimals), with 1 to {_DIGITS_MAX} digits")
    return Column(name, Kind.DECIMAL, text, precision=precision, scale=scale or 0)


def _moment(kind: Kind) -> _Make:
    def make(name: str, text: str, numbers: Numbers) -> Column:
        precision, more = numbers
        if more is not None or (precision or 0) > _FRACTION:
            raise ValueError(f"{text} takes one number, of digits of a second's fraction, up to {_FRACTION}")
        return Column(name, kind, text, precision=_FRACTION if precision is None else precision)

    return make


_TYPES: Mapping[str, _Make] = {
    "smallint": _plain(Kind.INTEGER, 16),
    "integer": _plain(Kind.INTEGER, 32),
    "bigint": _plain(Kind.INTEGER, 64),
    "unsigned": _plain(Kind.UNSIGNED, 64),
    "decimal": _decimal,
    "float": _plain(Kind.FLOAT),
    "double": _plain(Kind.DOUBLE),
    "boolean": _plain(Kind.BOOLEAN),
    "char": _sized(Kind.CHAR),
    "varchar": _sized(Kind.STRING),
    "text": _plain(Kind.STRING),
    "bytes": _plain(Kind.BYTES),
    "date": _plain(Kind.DATE),
    "datetime": _moment(Kind.DATETIME),
    "instant": _moment(Kind.INSTANT),
    "time": _moment(Kind.TIME_OF_DAY),
    "uuid": _plain(Kind.UUID),
}
