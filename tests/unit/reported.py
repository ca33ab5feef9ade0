"""Reconciliations as a report shows them."""

from datetime import UTC, date, datetime

from seamline.domain.position import BinlogPosition
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import TableVerdict, Verdict, worst

MOMENT = datetime(2026, 11, 21, 1, 2, 3, tzinfo=UTC)


def reconciliation(*tables: TableVerdict, scope: Scope = Scope.LIVE, day: date | None = None) -> Reconciliation:
    return Reconciliation(
        run_id="r",
        sync="settlement",
        destination="warehouse",
        scope=scope,
        business_date=day,
        position=BinlogPosition("0-1-7", "bin.000001", 99),
        position_time=MOMENT,
        mode="barrier",
        verdict=worst([table.verdict for table in tables]),
        tables=tables,
        started_at=MOMENT,
        ended_at=MOMENT,
    )


MATCH = TableVerdict("account", Verdict.MATCH, source_rows=1000, destination_rows=1000)
