"""Rules of every destination that keeps its cuts by the runs that made them, whatever server it writes to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from seamline.domain.changes import Finding
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Diverged, InvariantViolated, Refused, SchemaConflict
from seamline.domain.position import Position
from seamline.domain.staged_cut import StagedCut


@dataclass(frozen=True, slots=True)
class KnownCut:
    """What a destination has of the cut that a run made. `has_expired`: its rows are gone."""

    sync: str
    business_date: date
    position: Position
    has_expired: bool


def require_repeat_of(cut: StagedCut, known: KnownCut) -> None:
    """What a destination knows of the run that is about to publish `cut` is this very cut, and still there.

    InvariantViolated: it is another sync's or another date's. Refused: it has expired, or stands at another position.
    """
    if (known.sync, known.business_date) != (cut.sync, cut.business_date):
        raise InvariantViolated(f"run {cut.run_id} had published the cut of {known.business_date} of {known.sync}")
    if known.has_expired:
        raise Refused(
            f"the cut that run {cut.run_id} made of {cut.business_date} has expired in {cut.destination}",
            hint="trigger the date again: its cut becomes the next version",
            sync=cut.sync,
        )
    if known.position != cut.position:
        raise Refused(
            f"run {cut.run_id} has a cut in {cut.destination} already, at {known.position} and not at"
            f" {cut.position}: what was judged now is not what is there",
            hint="the platform database lost that run or is a new one: trigger the date by a run of another name",
            sync=cut.sync,
        )


def does_not_go_on(table: str, base: PublishedTable, findings: Sequence[Finding]) -> Diverged:
    """The log does not fit the rows that a cut begins with."""
    return does_not_fit(f"the cut of {base.business_date}", table, findings)


def does_not_fit(rows: str, table: str, findings: Sequence[Finding]) -> Diverged:
    """The log does not fit these rows."""
    named = ", ".join(f"{one.kind} {one.key}" for one in findings[:3])
    return Diverged(
        f"the log does not go on where {rows} ends: changes of {table} met something else than they expect, as {named}",
        hint="let the source be read for it, and find out what has changed these rows",
        table=table,
    )


class CutMisfit(Exception):
    """Why the cut of a table cannot stand beside the earlier ones; `aside`: the statements that put those aside. Never
    leaves a publish."""

    def __init__(self, table: str, why: str, *, aside: str) -> None:
        super().__init__(why)
        self.table, self.why, self.aside = table, why, aside


def of_all_misfits(misfits: Sequence[CutMisfit], *, cure: str) -> SchemaConflict:
    """All of them at once: to put one table aside and to meet the next is a publish each. `cure` holds `{aside}`."""
    names = [one.table for one in misfits]
    said = (
        f"table {names[0]} does not fit its earlier cuts: {misfits[0].why}"
        if len(misfits) == 1
        else f"{len(misfits)} tables do not fit their earlier cuts: "
        + "; ".join(f"{one.table} ({one.why})" for one in misfits)
    )
    aside = "; ".join(one.aside for one in misfits)
    return SchemaConflict(said, hint=cure.replace("{aside}", aside), table=", ".join(names))


def require_same_key(table: str, now: Sequence[str], known: Sequence[str], *, aside: str) -> None:
    """CutMisfit: rows that are stored as versions are known by their primary key, and it is another one now."""
    if list(now) != list(known):
        was, is_now = (f"the key ({', '.join(key)})" if key else "no key" for key in (known, now))
        raise CutMisfit(table, f"it has {is_now} now, and its rows there are versions by {was}", aside=aside)


def other_storage(table: str, *, now: str, was: str, aside: str) -> CutMisfit:
    """The cuts of a table are stored one way or the other; `now` and `was` name the two."""
    return CutMisfit(table, f"its cuts are declared to be stored as {now}, and those there are {was}", aside=aside)
