"""A load in a process of its own, of which a test sees how far it is, and which it kills.

`python -m tests.integration.interrupted_load <folder> <splits>`: stands still behind so many splits.
"""

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from seamline import registry
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.bulk import copy, load_end
from seamline.bulk.read import RunReader
from seamline.bulk.resume import Resumes
from seamline.bulk.threads import CopyingHere
from seamline.domain.load_splits import Splitting
from seamline.domain.runs import RunKind, RunState
from seamline.plan.document import plan_from_json
from seamline.plan.model import Run
from seamline.ports import Failpoints
from seamline.sync.snapshot import SnapshotTools, take_snapshot
from tests.integration.snapshot_run import Records

SPLITS = 16
ROWS = 1_600
SPLITTING = Splitting(rows=ROWS // SPLITS, parts_max=SPLITS, rows_min=0)


def reader_of(run: Run, records: Records) -> RunReader:
    """One task, so that one split is under way at a time."""
    return RunReader(
        run, tasks=lambda _: 1, copying_of=lambda groups, _: CopyingHere(groups), resumes=Resumes(records, SPLITTING)
    )


def tools_resuming(run: Run, records: Records) -> SnapshotTools:
    return tools_of_reader(run, records, reader_of(run, records))


def load_as_its_job(run: Run, records: Records, failpoints: Failpoints) -> None:
    """As the driver of `snapshot` does it."""
    if load_end.is_loaded(run):
        Resumes(records, SPLITTING).forget(run)
        return
    reader = reader_of(run, records)
    while_held = load_end.RecordsWhileHeld(records, [reader])
    tools = replace(tools_of_reader(run, records, reader), records=while_held, failpoints=failpoints)
    load_end.load(run, while_held, [reader], lambda: take_snapshot(run, tools))


def tools_of_reader(run: Run, records: Records, reader: RunReader) -> SnapshotTools:
    return SnapshotTools(
        source=registry.logged_source(run.plan),
        open_log=lambda: registry.log_reader(run.plan),
        open_read=reader.open_read,
        open_staged=reader.open_staged,
        holds=records,
        records=records,
        failpoints=ArmedFailpoints(""),
    )


def run_in(folder: Path) -> Run:
    plan = plan_from_json((folder / "plan.json").read_text(encoding="utf-8"))
    return Run(
        (folder / "run_id").read_text(encoding="utf-8"), plan.sync, RunKind.ONBOARD, None, plan, RunState.RUNNING
    )


def stand_still_behind(splits: int) -> None:
    copy_one, copied = copy.copy_one, 0

    def counted(*given: Any) -> Any:
        nonlocal copied
        if copied == splits:
            signal.pause()
        copied += 1
        return copy_one(*given)

    copy.copy_one = counted


if __name__ == "__main__":
    stand_still_behind(int(sys.argv[2]))
    run = run_in(Path(sys.argv[1]))
    take_snapshot(run, tools_resuming(run, Records()))
