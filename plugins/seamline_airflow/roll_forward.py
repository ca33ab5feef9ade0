"""Whether a balance rolls forward: the closing of the cut before and what has moved since make the closing of this one.

All three are control totals, which both sides have agreed on at their positions: nothing is read here. Pure.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal, localcontext

from seamline.domain.business_dates import EVERY_DAY
from seamline.domain.canonical import NULL_FIELD
from seamline.domain.phrase import counted
from seamline.domain.runs import Reconciliation
from seamline.domain.staged_cut import CutSource
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.checks import ControlTotalPlan, RulePlan, Says
from seamline.plan.model import DestinationPlan, Run
from seamline_airflow.expectations import KEYS_MAX, Expectation, Outcome

_DIGITS = 100
_Found = Mapping[str, TableVerdict]
_Sums = Mapping[tuple[str, ...], Decimal]


@dataclass(frozen=True, slots=True)
class Before:
    """What a destination has of the date before. `tables`: what was found of each table in the newest version that has
    it; None where that date has no cut. `is_first`: no earlier date has one."""

    tables: Mapping[str, TableVerdict] | None = None
    is_first: bool = False

    @staticmethod
    def of_versions(found: Iterable[Reconciliation]) -> "Before":
        """The newest first."""
        tables: dict[str, TableVerdict] = {}
        for one in found:
            tables |= {v.table: v for v in one.tables if v.verdict is not Verdict.NOT_RUN and v.table not in tables}
        return Before(tables)


class _Unknown(Exception):
    """A number is not there, and it must be."""


class _NoOpening(Exception):
    """There is nothing to begin with, and that is as it should be."""


def rolled_forward(
    run: Run, destination: DestinationPlan, found: Reconciliation | None, before: Before
) -> tuple[Outcome, ...]:
    """One outcome per rule of this kind whose tables are in the cut. `found`: the comparison of the cut itself."""
    tables = {one.table: one for one in (found.tables if found else ()) if one.verdict is not Verdict.NOT_RUN}
    rules = [rule for rule in run.plan.reconcile.rules if rule.says is Says.ROLL_FORWARD]
    return tuple(
        _outcome(rule, run, destination, tables, before) for rule in rules if tables.keys() >= set(rule.tables)
    )


def _outcome(rule: RulePlan, run: Run, destination: DestinationPlan, found: _Found, before: Before) -> Outcome:
    why = f"{rule.name}: closing of the date before and movements make the closing of {', '.join(rule.columns)}"
    expectation = Expectation(Says.ROLL_FORWARD.value, {}, why)
    try:
        wrong = _wrong_groups(rule, run, destination, found, before)
    except _NoOpening as none:
        return Outcome(rule.table, expectation, is_met=True, note=f"{rule.name}: no opening: {none}")
    except _Unknown as unknown:
        return Outcome(rule.table, expectation, is_met=False, detail=str(unknown))
    return Outcome(
        rule.table,
        expectation,
        is_met=not wrong,
        detail=counted(len(wrong), "group") if wrong else "",
        rows=len(wrong) if wrong else None,
        keys=tuple(wrong[:KEYS_MAX]),
    )


def _wrong_groups(rule: RulePlan, run: Run, destination: DestinationPlan, found: _Found, before: Before) -> list[str]:
    """The groups that do not roll forward, with their numbers."""
    assert rule.movements is not None
    closing, moved = _now(found, rule.closing), _now(found, rule.movements)
    opening = _before(run, before, rule.closing)
    if not _is_of_the_date(run, destination, rule.movements.table):
        # The cut holds the movements of all dates: those of this one are what it has beyond the cut before.
        moved = _less(moved, _before(run, before, rule.movements))
    zero, wrong = Decimal(0), []
    with localcontext(prec=_DIGITS):
        for group in sorted(opening.keys() | moved.keys() | closing.keys()):
            began, came, ended = (one.get(group, zero) for one in (opening, moved, closing))
            if began + came != ended:
                wrong.append(_in_words(rule.by, group, began, came, ended))
    return wrong


def _is_of_the_date(run: Run, destination: DestinationPlan, table: str) -> bool:
    return destination.cut_source is CutSource.ROWS and run.plan.table(table).business_date is not None


def date_before(run: Run) -> date:
    """The business date before that of a nightly run, whose closing is the opening."""
    assert run.business_date is not None
    dates = run.plan.nightly.dates if run.plan.nightly else EVERY_DAY
    return dates.first_day(run.business_date) - timedelta(days=1)


def _before(run: Run, before: Before, total: ControlTotalPlan) -> _Sums:
    day = date_before(run)
    if before.tables is None:
        if before.is_first:
            raise _NoOpening("first date")
        raise _Unknown(f"{day} has no cut, and earlier dates have: make its cut, or sign for this one")
    if total.table not in before.tables:
        raise _Unknown(f"the cut of {day} has no {total.table}")
    found = before.tables[total.table]
    if not _is_added_up(found, total):
        raise _NoOpening(f"the cut of {day} is older than the rule")
    return _sums(found, total)


def _now(found: _Found, total: ControlTotalPlan) -> _Sums:
    if not _is_added_up(found[total.table], total):
        raise _Unknown(f"{total.label} of {total.table} was not added up")
    return _sums(found[total.table], total)


def _is_added_up(found: TableVerdict, total: ControlTotalPlan) -> bool:
    """Of a table without rows there is no group."""
    is_empty = found.source_rows == 0 and found.destination_rows == 0
    return is_empty or any(one.column == total.label for one in found.totals)


def _sums(found: TableVerdict, total: ControlTotalPlan) -> _Sums:
    """What the destination has."""
    return {one.group: one.destination_sum or Decimal(0) for one in found.totals if one.column == total.label}


def _less(these: _Sums, those: _Sums) -> _Sums:
    zero = Decimal(0)
    with localcontext(prec=_DIGITS):
        return {group: these.get(group, zero) - those.get(group, zero) for group in these.keys() | those.keys()}


def _in_words(by: Sequence[str], group: Sequence[str], opening: Decimal, moved: Decimal, closing: Decimal) -> str:
    texts = (None if text == NULL_FIELD else text.removeprefix("~") for text in group)
    numbers = {"opening": opening, "movements": moved, "expected": opening + moved, "closing": closing}
    named = {**dict(zip(by, texts, strict=True)), **{name: f"{number:f}" for name, number in numbers.items()}}
    return json.dumps(named, ensure_ascii=False)
