"""What a sync could say of a table that nobody has declared yet: its business date and its control totals.

Names of columns and some rows are all that is known of a foreign table, so each proposal is a guess that its owner
reads; what the type of a column rules out is never proposed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from seamline.domain.calendar import Holds
from seamline.domain.catalogue import Column, Kind, Table
from seamline.sync.suite_proposal import Observed

TOTALS_MAX = 3
_HOLDS = {Kind.DATE: Holds.DATE, Kind.DATETIME: Holds.LOCAL, Kind.INSTANT: Holds.INSTANT}
# Best first. A date that says when a row became business goes before one that says when somebody typed it.
_DATES = (
    re.compile(r"^(business|bus|biz|accounting|ledger)_?(date|day)$"),
    re.compile(r"(business|value|booking|booked|posting|posted|trade|traded|settle|settlement|transaction|payment)"),
    re.compile(r"(order|invoice|entry|event|rental|sale|occurred|executed)"),
    re.compile(r"(created|inserted|received|registered)"),
    re.compile(r"(date|day|time|ts|_at|_on|^at)$"),
)
# Such a date moves a row from one business date to another, or says nothing of when the row came.
_NEVER = re.compile(r"(updated|modified|changed|last_?update|birth|expir|valid|due|deleted|closed|end_?(date|at)$)")
_AMOUNT = re.compile(r"(amount|amt|balance|total|sum|price|fee|value|debit|credit|qty|quantity|volume|cost|nominal)")
_CURRENCY = re.compile(r"(currency|ccy|curr$|cur$|iso_?code)")
_ISO = re.compile(r"[A-Z]{3}\Z")
_TEXTS = frozenset({Kind.CHAR, Kind.STRING, Kind.ENUM})


@dataclass(frozen=True, slots=True)
class ProposedDate:
    """`least` and `greatest` of the rows that were looked at; "" where there were none."""

    column: str
    holds: Holds
    least: str = ""
    greatest: str = ""


@dataclass(frozen=True, slots=True)
class ProposedEntry:
    """How a sync could carry a table. `others`: further columns that could be the business date."""

    date: ProposedDate | None
    others: tuple[ProposedDate, ...]
    sums: tuple[str, ...]
    by: tuple[str, ...]


def proposed_entry(table: Table, observed: Observed) -> ProposedEntry:
    """A nullable column is never the business date by itself, only one of `others`."""
    ranked = sorted(_candidates(table), key=lambda column: (column.nullable, _rank(column.name)))
    dates = [_date(column, observed) for column in ranked]
    has_one = bool(ranked) and not ranked[0].nullable and _rank(ranked[0].name) < len(_DATES)
    by = tuple(column.name for column in table.columns if _is_currency(column, observed))[:1]
    sums = tuple(column.name for column in table.columns if _is_amount(column, table.key))[:TOTALS_MAX]
    chosen, others = (dates[0], dates[1:]) if has_one else (None, dates)
    return ProposedEntry(chosen, tuple(others), sums, by if sums else ())


def _candidates(table: Table) -> Sequence[Column]:
    return [one for one in table.columns if one.kind in _HOLDS and not _NEVER.search(one.name.lower())]


def _rank(name: str) -> int:
    return next((number for number, known in enumerate(_DATES) if known.search(name.lower())), len(_DATES))


def _date(column: Column, observed: Observed) -> ProposedDate:
    return ProposedDate(column.name, _HOLDS[column.kind], *observed.least_and_greatest.get(column.name, ("", "")))


def _is_amount(column: Column, key: Sequence[str]) -> bool:
    """Exact numbers alone: those with a fraction are amounts, whole ones where their name says so."""
    if column.name in key or column.kind not in (Kind.DECIMAL, Kind.INTEGER, Kind.UNSIGNED):
        return False
    return (column.kind is Kind.DECIMAL and column.scale > 0) or bool(_AMOUNT.search(column.name.lower()))


def _is_currency(column: Column, observed: Observed) -> bool:
    if column.kind not in _TEXTS:
        return False
    values = observed.sets.get(column.name, ())
    return bool(_CURRENCY.search(column.name.lower())) or (bool(values) and all(map(_ISO.match, values)))
