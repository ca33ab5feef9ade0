"""The control file of a delivery: what its files are, as who delivers them says. Pure.

It is what the destination of files writes (docs/reference/files-destination.md); of a table `files` must be there, and
of each CSV file how much it is, unless its trailer says so (`checked.py`); all else may be left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import PurePosixPath
from typing import Any

from seamline.domain.catalogue import Table, table_from_json
from seamline.domain.errors import GateFailed
from seamline.domain.exact_json import parsed

# How many rows a group of a total has, beside its values and its sum.
_ROWS = "rows"


@dataclass(frozen=True, slots=True)
class PromisedFile:
    """`name`: below the folder of the delivery. `size_bytes` None, `sha256` "": it is not said."""

    name: str
    size_bytes: int | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class PromisedTotal:
    """A sum for each value of the columns `by`. `groups`: their values, rows, and the sum; None of no value at all."""

    sum: str
    by: tuple[str, ...]
    groups: Mapping[tuple[str | None, ...], tuple[int, Decimal | None]]


@dataclass(frozen=True, slots=True)
class PromisedTable:
    """`rows` None: it is not said. `definition` None: its columns are not described."""

    table: str
    files: tuple[PromisedFile, ...]
    rows: int | None = None
    totals: tuple[PromisedTotal, ...] = ()
    definition: Table | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """`business_date`: as it stands there; "" where it does not."""

    business_date: str
    tables: Mapping[str, PromisedTable]


def control_from(content: bytes, *, called: str) -> Control:
    """GateFailed: this is no control file, as half of one is none. `called`: its path, for people."""
    try:
        document = parsed(content)
        tables = [_table(one) for one in document["tables"]]
        business_date = str(document.get("business_date") or "")
    except (ValueError, KeyError, TypeError, AttributeError, InvalidOperation) as exc:
        what = f"it has no {exc.args[0]!r}" if isinstance(exc, KeyError) else str(exc)
        raise GateFailed(
            f"the control file {called} cannot be read: {what}",
            hint="was it cut off? Ask who delivers it for a whole one; nothing was loaded",
        ) from exc
    _require_once("table", [one.table for one in tables], called)
    _require_once("file", [str(PurePosixPath(file.name)) for one in tables for file in one.files], called)
    return Control(business_date, {one.table: one for one in tables})


def _require_once(what: str, names: Sequence[str], called: str) -> None:
    if twice := sorted(name for name, number in Counter(names).items() if number > 1):
        raise GateFailed(
            f"the control file {called} names {what} {', '.join(twice)} more than once",
            hint="nobody can say which of them holds: ask who delivers it for another one; nothing was loaded",
        )


def _table(said: Mapping[str, Any]) -> PromisedTable:
    return PromisedTable(
        _name_of_table(said["table"]),
        tuple(_file(one) for one in said["files"]),
        _number(said, _ROWS),
        tuple(_total(one) for one in said.get("totals") or ()),
        _definition(said) if said.get("columns") else None,
    )


def _definition(said: Mapping[str, Any]) -> Table:
    found = table_from_json({"name": said["table"], "key": said.get("key") or (), "columns": said["columns"]})
    names = [column.name for column in found.columns]
    named = {*found.key, *(one for total in said.get("totals") or () for one in total.get("by") or ())}
    if len(names) != len(set(names)) or not all(names):
        raise ValueError(f"the columns of {found.name} are {', '.join(map(repr, names))}: each has a name of its own")
    if unknown := sorted(named - set(names)):
        raise ValueError(f"the key or a total of {found.name} names {', '.join(unknown)}, which is no column of it")
    return found


def _name_of_table(said: Any) -> str:
    if not isinstance(said, str) or not said:
        raise ValueError(f"{said!r} is no name of a table")
    return said


def _number(said: Mapping[str, Any], name: str) -> int | None:
    """Of rows or bytes; None where it is not said. What is rounded here is no promise."""
    value = said.get(name)
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value}, which is no number of {name}")
    return value


def _file(said: Mapping[str, Any]) -> PromisedFile:
    return PromisedFile(_name(said["name"]), _number(said, "bytes"), str(said.get("sha256") or "").lower())


def _name(said: Any) -> str:
    """Whoever delivers files names no others."""
    name = said if isinstance(said, str) and said.isprintable() else ""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise ValueError(f"{said!r} is no name of a file of the delivery")
    return name


def _total(said: Mapping[str, Any]) -> PromisedTotal:
    column, by = str(said["sum"]), tuple(map(str, said.get("by") or ()))
    if _ROWS in (column, *by) or column in by:
        raise ValueError(f"the total of {column} by {', '.join(by) or 'nothing'} has two things under one name")
    groups = dict[tuple[str | None, ...], tuple[int, Decimal | None]]()
    for values, found in (_group(one, column, by) for one in said["groups"]):
        if values in groups:
            of = " ".join(f"{name} {value}" for name, value in zip(by, values, strict=True)) or "all rows"
            raise ValueError(f"it says the total of {column} of {of} more than once")
        groups[values] = found
    return PromisedTotal(column, by, groups)


def _group(
    said: Mapping[str, Any], column: str, by: Sequence[str]
) -> tuple[tuple[str | None, ...], tuple[int, Decimal | None]]:
    values = tuple(None if said[name] is None else str(said[name]) for name in by)
    number, rows = said[column], _number(said, _ROWS)
    if rows is None:
        raise KeyError(_ROWS)
    return values, (rows, None if number in (None, "") else Decimal(str(number)))
