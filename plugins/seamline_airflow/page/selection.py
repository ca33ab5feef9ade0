"""Which breaks an address asks for: the same for the page of breaks, its files and REST."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Depends, HTTPException, Query

from seamline.domain.break_work import OWNER_MAX, WorkState
from seamline.domain.cut_state import CutState, Headline
from seamline.domain.doubted import beside_the_log
from seamline.domain.phrase import phrase
from seamline.domain.recorded import cure_of_live, cure_of_take
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import BreakType
from seamline.platform.breaks import Compared, Order, Place, StoredBreak, Wanted
from seamline.platform.reconciliations import Detail
from seamline_airflow.page import access, reading

# Opens the PlatformBreaks of a sync.
Opened = Callable[[str], AbstractContextManager[Any]]
NAME = r"^[A-Za-z_][A-Za-z0-9_-]{0,127}$"
BREAK_ID = r"^[0-9a-f]{16}$"
KIND = f"^({'|'.join(BreakType)})?$"
STATE = f"^({'|'.join(WorkState)})?$"
PLACE = r"^(\d{1,9}[.]\d{1,9})?$"
TEXT_MAX = 500
# Where no name stands for anybody's.
NOBODY = "-"

Kind = Annotated[str, Query(pattern=KIND)]
Text = Annotated[str, Query(max_length=TEXT_MAX)]
State = Annotated[str, Query(pattern=STATE)]
Owner = Annotated[str, Query(max_length=OWNER_MAX, description=f"Whose they are; {NOBODY}: nobody's.")]
After = Annotated[str, Query(pattern=PLACE)]


@dataclass(frozen=True, slots=True)
class Asked:
    """Of one comparison: that of `run` in `destination`, or of the newest take of `business_date`."""

    sync: str
    business_date: date | None
    run: str
    destination: str
    scope: Scope
    wanted: Wanted

    @property
    def chosen(self) -> dict[str, str]:
        """The filter, by the words of the page."""
        wanted = self.wanted
        kind = wanted.type.value if wanted.type else ""
        state = wanted.state.value if wanted.state else ""
        owner = NOBODY if wanted.owner == "" else wanted.owner or ""
        chosen = {"table": wanted.table, "kind": kind, "in the key": wanted.text, "order": wanted.order.value}
        return {**chosen, **{name: value for name, value in (("state", state), ("with", owner)) if value}}


def choice_of(
    business_date: date | None = None,
    run: str = "",
    destination: str = "",
    scope: Scope = Scope.CUT,
    table: str = "",
    kind: Kind = "",
    text: Text = "",
    sort: Order = Order.FOUND,
    after: After = "",
    state: State = "",
    of: Owner = "",
) -> Asked:
    """What an address says beside the sync. `of`: whose breaks."""
    wanted = replace(
        wanted_of(table=table, kind=kind, text=text, state=state, of=of),
        order=sort,
        after=Place(*map(int, after.split("."))) if after else None,
    )
    return Asked("", business_date, run, destination, scope, wanted)


def wanted_of(*, table: str, kind: str, text: str, state: str, of: str) -> Wanted:
    """What the fields of the filter choose, in the form in which an address and a form have them."""
    return Wanted(
        table=table,
        type=BreakType(kind) if kind else None,
        text=text,
        state=WorkState(state) if state else None,
        owner=None if not of else "" if of == NOBODY else of,
    )


Choice = Annotated[Asked, Depends(choice_of)]


def asked_of(user: access.User, sync: Annotated[str, Query(pattern=NAME)], choice: Choice) -> Asked:
    access.require(user, sync)
    return of_sync(choice, sync)


def of_sync(choice: Asked, sync: str) -> Asked:
    require_open(sync, choice.wanted)
    return replace(choice, sync=sync)


def require_open(sync: str, wanted: Wanted) -> None:
    """403: keys that are masked can be neither searched nor put in order, which would show them sign by sign."""
    if (wanted.text or wanted.order is Order.KEY) and reading.hides_keys(sync, wanted.table):
        what = f"keys of {wanted.table or sync} are masked: they cannot be searched, and not be put in order"
        raise HTTPException(status_code=403, detail=what)


# What the address asks for, of a sync that the user may see.
Visible = Annotated[Asked, Depends(asked_of)]


@dataclass(frozen=True, slots=True)
class Shown:
    """The comparison that was asked for, and the others of the same run. `altered`: what is said before all else where
    it is not stored as it was recorded."""

    zone: ZoneInfo
    found: Reconciliation
    others: tuple[Reconciliation, ...]
    altered: tuple[str, ...] = ()

    @property
    def headline(self) -> Headline:
        return Headline.ALTERED if self.altered else Headline(self.found.verdict.value)

    @property
    def compared(self) -> Compared:
        return Compared(self.found.run_id, self.found.destination, self.found.scope)


def comparison(asked: Asked) -> Shown | None:
    """None where nothing was compared."""
    run = asked.run
    with reading.platform() as store:
        zone = ZoneInfo(store.timezone(asked.sync))
        if not run and asked.business_date:
            run = _newest(store.takes(asked.sync, asked.business_date, detail=Detail.VERDICTS), asked.destination)
        found = store.reconciliations_of(asked.sync, run, detail=Detail.VERDICTS)
        mine = [one for one in found if one.scope is asked.scope]
        shown = next((one for one in mine if asked.destination in ("", one.destination)), None)
        if shown is None:
            return None
        recorded = store.recorded(run, shown.destination, shown.scope)
    others = tuple(one for one in mine if one is not shown)
    cure = cure_of_take if shown.scope is Scope.CUT else cure_of_live
    altered = recorded.lines(cure(asked.sync)) if recorded else ()
    return Shown(zone, beside_the_log(shown, recorded), others, tuple(altered))


def required(asked: Asked) -> Shown:
    """404 where nothing was compared."""
    shown = comparison(asked)
    if shown is None:
        raise HTTPException(status_code=404, detail=nothing_in_words(asked))
    return shown


def nothing_in_words(asked: Asked) -> str:
    if not asked.run:
        return phrase("Nothing was compared of %(sync)s by run of this date.", sync=asked.sync)
    return phrase("Nothing was compared of %(sync)s by run %(run)s.", sync=asked.sync, run=asked.run)


def some(
    shown: Shown, wanted: Wanted, limit: int, opened: Opened = reading.breaks
) -> tuple[tuple[StoredBreak, ...], bool]:
    """At most `limit` breaks, and whether there are more behind them. `opened`: by what their values are read."""
    with opened(shown.found.sync) as store:
        listed = store.some(shown.compared, replace(wanted, limit=limit + 1))
    return listed[:limit], len(listed) > limit


def counts(shown: Shown) -> Any:
    with reading.breaks(shown.found.sync) as store:
        return store.counts(shown.compared)


def _newest(takes: tuple[CutState, ...], destination: str) -> str:
    return next((one.run_id for one in takes if destination in ("", one.destination)), "")
