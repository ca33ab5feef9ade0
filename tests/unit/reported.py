"""Reconciliations and cuts as a report shows them."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from seamline.domain.cut_state import CutState, state_of_cut
from seamline.domain.runs import EXPECTATIONS, PUBLISH, Cut, Reconciliation, RunState, Scope
from seamline.domain.verdict import TableVerdict, Verdict, worst
from seamline.sources.mariadb.position import BinlogPosition

MOMENT = datetime(2026, 11, 21, 1, 2, 3, tzinfo=UTC)
TODAY = MOMENT.date()


def reconciliation(*tables: TableVerdict, scope: Scope = Scope.LIVE, day: date | None = None) -> Reconciliation:
    return Reconciliation(
        run_id="r",
        sync="settlement",
        destination="warehouse",
        scope=scope,
        business_date=day,
        position=POSITION,
        position_time=MOMENT,
        mode="barrier",
        verdict=worst([table.verdict for table in tables]),
        tables=tables,
        started_at=MOMENT,
        ended_at=MOMENT,
    )


POSITION = BinlogPosition("0-1-7", "bin.000001", 99)
IN_FORCE = Cut("settlement", "warehouse", TODAY, 1, "r", POSITION, MOMENT, ("account",), Verdict.MATCH)
PASSED = {"verdict": "MATCH", "checked": 5, "failed": []}


def cut(*tables: TableVerdict, day: date = TODAY, evidence: Any = None, **result: Any) -> CutState:
    """The cut of a date that compared these tables, passed its checks and was published; `result` says otherwise."""
    found = replace(reconciliation(*tables, scope=Scope.CUT, day=day), evidence=evidence or {})
    return state_of_cut(
        run_id=found.run_id,
        sync=found.sync,
        destination=found.destination,
        business_date=day,
        run_state=RunState.SUCCEEDED,
        result={EXPECTATIONS: PASSED, PUBLISH: {"warehouse": 1}, **result},
        found=found,
        published=None,
        in_force=IN_FORCE,
    )


MATCH = TableVerdict("account", Verdict.MATCH, source_rows=1000, destination_rows=1000)
