"""Which delivery of a business date is there: its flags, and what its control file promises."""

import hashlib
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from seamline.domain.errors import GateFailed
from seamline.files.stores.store import Store
from seamline.sources.files import patterns
from seamline.sources.files.control import Control, PromisedFile, PromisedTable, control_from
from seamline.sources.files.layout import Layout


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery whose flags are there. `version`: 0 where they have no numbers. `checksum`: of its control file; ""
    without one."""

    business_date: date
    version: int
    folder: str
    tables: Mapping[str, PromisedTable]
    checksum: str = ""

    def path(self, file: PromisedFile) -> str:
        """Below the place of the source."""
        return f"{self.folder}/{file.name}" if self.folder else file.name

    def __str__(self) -> str:
        return f"the delivery of {self.business_date}{f' version {self.version}' if self.version else ''}"


@dataclass(frozen=True, slots=True)
class NotThere:
    """`seen`: in words what is missing."""

    seen: str


def find(store: Store, layout: Layout, business_date: date, tables: Collection[str]) -> Delivery | NotThere:
    """The newest delivery of a date whose flags are there, of those the one with the greatest version.

    GateFailed: its control file says something else than it may.
    """
    missing = list[str]()
    for version in versions(store, layout, business_date):
        lacking = _lacking(store, layout, business_date, version, tables)
        if not lacking:
            return _delivery(store, layout, business_date, version, tables)
        missing += lacking
    if not missing:
        first = 1 if layout.has_versions else 0
        missing = [layout.path(layout.flag_file, business_date, first, min(tables, default=""))]
    return NotThere(f"{', '.join(missing)} is not there")


def versions(store: Store, layout: Layout, business_date: date) -> Sequence[int]:
    """Of the deliveries of a date, flagged or not, the greatest first. (0,) where they have none.

    GateFailed: a version is not written as a number is, so that no path leads to it.
    """
    if not layout.has_versions:
        return (0,)
    parent, _, last = layout.delivery.rpartition("/")
    wanted = patterns.numbered(last, business_date)
    names = store.names(patterns.filled(parent, business_date=business_date))
    found = [one for one in map(wanted.fullmatch, names) if one]
    for one in found:
        if one[1] != str(int(one[1])):
            raise GateFailed(
                f"the folder {one[0]} has a version that is written as {one[1]}, and {int(one[1])} is expected",
                hint="a version is a number without zeros in front: ask who delivers it to name the folder so",
            )
    return sorted({int(one[1]) for one in found}, reverse=True)


def newest_control(store: Store, layout: Layout) -> tuple[str, Control] | None:
    """The control file of the delivery whose name is the last in order, and its path; None where there is none."""
    for path in _dated(store, [*filter(None, layout.delivery.split("/")), *layout.control_file.split("/")]):
        content = io.BytesIO()
        store.read(path, content)
        return path, control_from(content.getvalue(), called=path)
    return None


def _dated(store: Store, parts: Sequence[str], folder: str = "") -> Sequence[str]:
    """The newest path of those that some date and version give; none where there is none."""
    first, *rest = parts
    names = [name for name in store.names(folder) if patterns.dated(first).fullmatch(name)]
    for name in sorted(names, key=_in_order, reverse=True):
        path = f"{folder}/{name}" if folder else name
        if found := _dated(store, rest, path) if rest else [path]:
            return found
    return ()


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    """v10 comes behind v9."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]


def _lacking(store: Store, layout: Layout, business_date: date, version: int, tables: Collection[str]) -> list[str]:
    each = sorted(tables) if patterns.has(layout.flag_file, patterns.TABLE) else [""]
    flags = (layout.path(layout.flag_file, business_date, version, table) for table in each)
    return [flag for flag in flags if store.size(flag) is None]


def _delivery(store: Store, layout: Layout, business_date: date, version: int, tables: Collection[str]) -> Delivery:
    empty = Delivery(business_date, version, layout.folder(business_date, version), {})
    if not layout.control_file:
        return replace(empty, tables={name: _declared(layout, empty, name, None) for name in tables})
    path = layout.path(layout.control_file, business_date, version)
    content = io.BytesIO()
    try:
        store.read(path, content)
    except FileNotFoundError:
        raise GateFailed(
            f"{empty} has its flag and no control file: {path} is not there",
            hint="the flag must come last: ask who delivers it; nothing was loaded",
        ) from None
    control = control_from(content.getvalue(), called=path)
    _require_date(control, empty, path)
    return replace(
        empty,
        tables={name: _declared(layout, empty, name, control) for name in tables},
        checksum=hashlib.sha256(content.getvalue()).hexdigest(),
    )


def _require_date(control: Control, delivery: Delivery, path: str) -> None:
    said = control.business_date
    if said and said != delivery.business_date.isoformat():
        raise GateFailed(
            f"the control file {path} is of {said}, not of {delivery.business_date}",
            hint="the wrong file was delivered under this date: ask for the right one; nothing was loaded",
        )


def _declared(layout: Layout, delivery: Delivery, table: str, control: Control | None) -> PromisedTable:
    """What is promised of a table, by the control file and by the declaration."""
    pattern = layout.of(table).file
    named = PromisedFile(
        patterns.filled(pattern, business_date=delivery.business_date, table=table, version=delivery.version)
    )
    promised = control.tables.get(table) if control else PromisedTable(table, (named,))
    if promised is None:
        raise GateFailed(
            f"the control file of {delivery} does not name table {table}",
            hint=f"it names {', '.join(control.tables) if control else ''}: ask who delivers it, or park the table",
            table=table,
        )
    if not pattern:
        return promised
    if control and named.name not in {file.name for file in promised.files}:
        raise GateFailed(
            f"the control file of {delivery} does not name {named.name}, the file of table {table}",
            hint="correct `file` of the table in the source's declaration, or ask who delivers it",
            table=table,
        )
    return promised
