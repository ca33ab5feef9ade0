"""Onboarding's last steps: put the staged tables in place, with boundaries and ledger, in one transaction."""

from collections.abc import Mapping
from typing import Any

from seamline.domain.cutover import Boundary
from seamline.domain.errors import Refused
from seamline.domain.position import position_from_json
from seamline.plan.model import Run
from seamline.ports import Commit, Load, Publication, Sink


def publish(run: Run, destination: str, *, sink: Sink) -> Commit:
    """Publish what the run's snapshot staged in a destination. Resolved by the run id: a repeat finds it done.

    From the next commit on, every commit of the stream is a state that the source really had: all tables stand at one
    position, and the log goes on right after the low marker.
    """
    snapshot = staged_snapshot(run)
    position = position_from_json(snapshot["position"])
    loads = [
        Load(run.plan.table(load["table"]).shape, load["staged_as"], load["rows"])
        for load in snapshot["loads"].get(destination, [])
    ]
    missing = {table.name for table in run.plan.tables} - {load.table.name for load in loads}
    if missing:
        raise Refused(
            f"run {run.run_id} has not staged {', '.join(sorted(missing))} in {destination}",
            hint="clear the task `snapshot` and run it again",
            sync=run.sync,
        )
    publication = Publication(
        run_id=run.run_id,
        topic=snapshot["topic"],
        topic_id=snapshot["topic_id"],
        next_offset=snapshot["next_offset"],
        position=position,
        boundaries=tuple(Boundary(load.table.name, position, high_marker=snapshot["high_marker"]) for load in loads),
    )
    return sink.publish(run.plan.stream_id(destination), loads, publication=publication)


def staged_snapshot(run: Run) -> Mapping[str, Any]:
    """What the run's job snapshot_load left behind."""
    snapshot: Mapping[str, Any] | None = run.result.get("snapshot")
    if snapshot is None:
        raise Refused(f"run {run.run_id} has no snapshot", hint="its job snapshot_load comes first", sync=run.sync)
    return snapshot
