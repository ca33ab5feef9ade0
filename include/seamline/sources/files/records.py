"""Records before and behind the rows of a CSV file: what their fields have to say. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation

from seamline.sources.files import patterns

ROWS = "{rows}"
ANYTHING = "*"
_SUM = re.compile(r"\{sum:([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Measured:
    """What the rows of a file really are. `sums`: by column; None of one without a value."""

    table: str
    business_date: date
    rows: int
    sums: Mapping[str, Decimal | None]


def fault_of(field: str) -> str:
    """Why this is no field of a record; "" where it is."""
    if field == ROWS or _SUM.fullmatch(field):
        return ""
    return patterns.fault_of(field, fields=(patterns.DATE, patterns.TABLE)) if "{" in field or "}" in field else ""


def summed(record: Sequence[str]) -> list[str]:
    """The columns whose sums a record holds."""
    return [found[1] for field in record if (found := _SUM.fullmatch(field))]


def faults(record: Sequence[str], said: Sequence[str], measured: Measured) -> Iterator[str]:
    """What a record says otherwise than its file is."""
    if len(said) != len(record):
        yield f"has {len(said)} fields, not {len(record)}: {_shown(said)}"
        return
    for number, (field, value) in enumerate(zip(record, said, strict=True), start=1):
        if fault := _fault(field, value, measured):
            yield f"says in field {number} {value!r}: {fault}"


def _fault(field: str, value: str, measured: Measured) -> str:
    if field == ANYTHING:
        return ""
    if field == ROWS:
        return "" if value.isdecimal() and int(value) == measured.rows else f"the file has {measured.rows} rows"
    if found := _SUM.fullmatch(field):
        return _of_sum(found[1], value, measured.sums.get(found[1]))
    wanted = patterns.filled(field, business_date=measured.business_date, table=measured.table)
    return "" if value == wanted else f"{wanted!r} is expected"


def _of_sum(column: str, value: str, found: Decimal | None) -> str:
    if found is None:
        return "" if value.strip("0.") == "" else f"no row has a {column}"
    try:
        is_it = Decimal(value) == found
    except InvalidOperation:
        is_it = False
    return "" if is_it else f"the {column} of all rows is {found:f}"


def _shown(fields: Sequence[str]) -> str:
    return " | ".join(fields)[:200]
