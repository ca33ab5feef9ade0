"""The reports that the page hands out as files: what `./seamline report` writes, of what the page shows."""

from collections.abc import Sequence
from datetime import date
from zoneinfo import ZoneInfo

from seamline.domain.cut_state import CutState
from seamline.domain.runs import Reconciliation
from seamline.report.blocks import Report
from seamline.report.contents import report_of
from seamline_airflow import parts
from seamline_airflow.page import reports


def report(sync: str, cuts: Sequence[CutState], live: Sequence[Reconciliation], *, day: date | None) -> Report:
    """The report about these; with `day` it is about that date, and lists all its takes."""
    takes = reports.takes(sync, day) if day else ()
    with parts.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
        runs = {one.run_id for one in cuts} if day else ()
        guarantees = {run: store.run(run).plan.guarantee for run in runs}
    return report_of(
        sync, cuts, live, about=day, takes=takes, zone=zone, guarantees=guarantees, levels=reports.levels_of(sync)
    )
