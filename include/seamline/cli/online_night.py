"""What a source says of the table, or the query, by which a sync's nights know that its day is closed."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from seamline import registry
from seamline.domain.day_closed import ClosedBy, DayClosed, by_answer, date_in
from seamline.domain.errors import Refused, SeamlineError
from seamline.plan.model import NightlyPlan, SyncPlan
from seamline.ports import Source
from seamline.ports.questions import VALUES_MAX
from seamline.spec.document import Path_
from seamline.spec.faults import Fault, guess
from seamline.spec.load import Declarations

_CUT_OFF: Path_ = ("nightly", "cut_off")
_QUERY: Path_ = ("nightly", "ready_when", "sql")


def asks_the_source(plan: SyncPlan) -> bool:
    """Whether `faults_of_nights` has anything to ask."""
    return any(one.by in (ClosedBy.SYSTEM_DATE, ClosedBy.SQL) for one in (plan.nightly or NightlyPlan()).closed_when)


def faults_of_nights(declarations: Declarations, plan: SyncPlan, source: Source) -> Iterator[Fault]:
    """Of `cut_off: {table, column}`: the reader may read both, there is a row, and each row holds a date. Of
    `ready_when: {sql}`: the source answers it, with true or false."""
    for wanted in plan.nightly.closed_when if plan.nightly else ():
        if wanted.by is ClosedBy.SYSTEM_DATE:
            key, what, cure = _of_system_date(plan, source, wanted)
            if what:
                yield declarations.fault(plan.sync, (*_CUT_OFF, key), what, cure)
        elif wanted.by is ClosedBy.SQL:
            try:
                rows = registry.questions(plan).ask(wanted.what, datetime.now(UTC).date())
                by_answer(rows[0][0] if rows else None)
            except Refused as exc:
                yield declarations.fault(plan.sync, _QUERY, exc.message, exc.hint)
            except SeamlineError as exc:
                cure = exc.hint or "Correct the query, or grant the reader SELECT on what it names"
                yield declarations.fault(plan.sync, _QUERY, f"the source does not answer it: {exc.message}", cure)


def _of_system_date(plan: SyncPlan, source: Source, wanted: DayClosed) -> tuple[str, str, str]:
    """The key that is wrong, what is, and the cure; all "" where nothing is."""
    try:
        values = registry.questions(plan).values_of(wanted.what, wanted.column)
    except SeamlineError as exc:
        return _why_denied(source, wanted, exc)
    return _of_rows(wanted, values)


def _why_denied(source: Source, wanted: DayClosed, denied: SeamlineError) -> tuple[str, str, str]:
    """The catalogue knows names that are near; a server's own words do not."""
    survey = source.survey([wanted.what])
    for table in survey.tables:
        names = [column.name for column in table.columns]
        if wanted.column not in names:
            return "column", f"table {wanted.what} has no column `{wanted.column}`", guess(wanted.column, names)
    if survey.problems:
        return "table", survey.problems[0].what, "Name the table of the source that holds the system date"
    return "table", f"its rows cannot be read: {denied.message}", denied.hint or "Grant the reader SELECT on it"


def _of_rows(wanted: DayClosed, values: Sequence[object]) -> tuple[str, str, str]:
    if not values:
        what = f"table {wanted.what} has no row, so each night would wait for one"
        return "table", what, "Put the system date into it"
    if len(values) >= VALUES_MAX:
        what = f"table {wanted.what} has {VALUES_MAX:,} rows or more, and a system date has one, or one for each unit"
        return "table", what, "Name the table that holds the system date"
    wrong = [value for value in values if date_in(value) is None]
    if wrong:
        what = f"column `{wanted.column}` of table {wanted.what} holds no date in {len(wrong)} of {len(values)} rows"
        return "column", what, "Each row must hold a date, a time, or a date as 20261125 or 2026-11-25"
    return "", "", ""
