"""Whether the columns that a sync measures are there, and of kinds that can be measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from seamline.domain.catalogue import TEXTS, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.spec.document import Path_
from seamline.spec.faults import guess
from seamline.spec.sync import ControlTotal, DerivedTable, Rule, SyncSpec


@dataclass(frozen=True, slots=True)
class _Use:
    """What a column is taken for, and the kinds that will do."""

    kinds: frozenset[Kind]
    what: str


_WHOLE = frozenset({Kind.INTEGER, Kind.UNSIGNED})
# Sums of these are exact; floating point sums depend on the order of addition and prove nothing.
_EXACT = _WHOLE | {Kind.DECIMAL}
_SUM = _Use(_EXACT, "a sum that must be equal to the last digit")
_GROUP = _Use(frozenset(Kind), "a group")
_SEQUENCE = _Use(_WHOLE, "a sequence")
_UNIQUE = _Use(frozenset(Kind) - {Kind.FLOAT, Kind.DOUBLE}, "a row that is like no other")
_MEASURED = {
    "sum": _SUM,
    "hash": _Use(_EXACT | TEXTS, "a hash total"),
    "min": _Use(_EXACT, "a least value"),
    "max": _Use(_EXACT, "a greatest value"),
}

# Table, column, where it is named.
_Named = tuple[str, str, _Use, Path_]
Misfit = tuple[Path_, str, str]


def measured_misfits(sync: SyncSpec, definitions: Mapping[str, Table]) -> Iterator[Misfit]:
    """(place, what is wrong, cure) of each column of totals, rules and derived sums. Tables that are not in
    `definitions` are passed over."""
    for table, column, use, place in _named(sync):
        if table in definitions:
            yield from misfit(definitions[table], column, use.kinds, place, use.what)


def misfit(table: Table, column: str, wanted: frozenset[Kind], place: Path_, what: str) -> Iterator[Misfit]:
    try:
        found = table.column(column)
    except SchemaConflict:
        names = [known.name for known in table.columns]
        yield place, f"table {table.name} has no column `{column}`", guess(column, names)
        return
    if found.kind not in wanted:
        kinds = " or ".join(sorted(wanted))
        yield place, f"column `{column}` is {found.source_type}; {what} needs {kinds}", "Name another column"


def _named(sync: SyncSpec) -> Iterator[_Named]:
    for number, total in enumerate(sync.reconcile.control_totals):
        yield from _of_total(total, ("reconcile", "control_totals", number))
    for number, rule in enumerate(sync.reconcile.rules):
        yield from _of_rule(rule, ("reconcile", "rules", number))
    for number, derived in enumerate(sync.derived):
        yield from _of_derived(derived, ("derived", number))


def _of_total(total: ControlTotal, place: Path_) -> Iterator[_Named]:
    for key, column in total.measured.items():
        yield total.table, column, _MEASURED[key], (*place, key)
    yield from _groups(total.table, total.by, (*place, "by"))


def _of_derived(derived: DerivedTable, place: Path_) -> Iterator[_Named]:
    if derived.table is not None and derived.sum is not None:
        yield derived.table, derived.sum, _SUM, (*place, "sum")
        yield from _groups(derived.table, derived.by, (*place, "by"))


def _of_rule(rule: Rule, place: Path_) -> Iterator[_Named]:
    if balance := rule.balance:
        there = (*place, "balance")
        for key, column in (("amount", balance.amount), ("debit", balance.debit), ("credit", balance.credit)):
            if column is not None:
                yield rule.table, column, _SUM, (*there, key)
        yield from _groups(rule.table, balance.by, (*there, "by"))
    if forward := rule.roll_forward:
        there, moved = (*place, "roll_forward"), forward.movements
        yield rule.table, forward.amount, _SUM, (*there, "amount")
        yield from _groups(rule.table, forward.by, (*there, "by"))
        yield moved.table, moved.amount, _SUM, (*there, "movements", "amount")
        by, named_at = (forward.by, ("by",)) if moved.by is None else (moved.by, ("movements", "by"))
        yield from _groups(moved.table, by, (*there, *named_at))
    if numbers := rule.sequence:
        yield rule.table, numbers.column, _SEQUENCE, (*place, "sequence", "column")
        yield from _groups(rule.table, numbers.by, (*place, "sequence", "by"))
    for number, column in enumerate(rule.unique or ()):
        yield rule.table, column, _UNIQUE, (*place, "unique", number)


def _groups(table: str, by: Sequence[str], place: Path_) -> Iterator[_Named]:
    for number, column in enumerate(by):
        yield table, column, _GROUP, (*place, number)
