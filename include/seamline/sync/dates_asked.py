"""What a person asks for when cuts of business dates are to be made, checked before a run of it exists. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from seamline.domain.errors import Refused
from seamline.domain.person import one_line
from seamline.domain.runs import KEEP_DONE, MODE, REASON, NightlyMode
from seamline.plan.model import SyncPlan
from seamline.sync.cut import ended_day

# As many as the pool of backfills has slots: more only queue there.
AT_ONCE = 2
AT_ONCE_MAX = 30


class DateTaken(Refused):
    """Another run of the same date goes on. `by`: its name."""

    def __init__(self, day: date, *, by: str, sync: str = "") -> None:
        super().__init__(
            f"{day} is taken by run {by}, which goes on",
            hint="wait for its end; if it waits for a decision, decide; or end it in Airflow",
            sync=sync,
        )
        self.by = by


@dataclass(frozen=True, slots=True)
class DatesAsked:
    """`first` to `last`, both inclusive. `tables`: () for all. `again`: also dates whose newest version is a MATCH."""

    first: date
    last: date
    mode: NightlyMode = NightlyMode.PUBLISH
    tables: tuple[str, ...] = ()
    reason: str = ""
    again: bool = False
    newest_first: bool = False
    at_once: int = AT_ONCE

    @property
    def is_one(self) -> bool:
        return self.first == self.last

    def params(self) -> dict[str, Any]:
        """Of the nightly DAG's form."""
        known = {MODE: self.mode.value, "tables": list(self.tables), REASON: one_line(self.reason)}
        return {**known, KEEP_DONE: not self.again}


def checked(plan: SyncPlan, asked: DatesAsked, *, now: datetime) -> DatesAsked:
    """As it was asked. Refused, in one sentence, for what cannot be done."""
    if asked.last < asked.first:
        raise Refused(f"{asked.last} comes before {asked.first}", hint="give the earlier date first", sync=plan.sync)
    if not 1 <= asked.at_once <= AT_ONCE_MAX:
        raise Refused(f"dates side by side are from 1 to {AT_ONCE_MAX}", sync=plan.sync)
    ended_day(plan, asked.last, at=now, clock="the clock here")
    _require_tables(asked.tables, [table.name for table in plan.tables], asked.mode, sync=plan.sync)
    return asked


def _require_tables(tables: Sequence[str], known: Sequence[str], mode: NightlyMode, *, sync: str) -> None:
    if unknown := [name for name in tables if name not in known]:
        raise Refused(f"there is no table {', '.join(unknown)}", hint=f"its tables are {', '.join(known)}", sync=sync)
    if tables and mode is NightlyMode.PUBLISH:
        raise Refused(
            f"only {', '.join(tables)} cannot be published: the version would take the other tables from its readers",
            hint="only compare them, or leave the tables out for all of them",
            sync=sync,
        )
