"""Onboarding's last steps: put the staged tables in place, with boundaries and ledger, in one transaction."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from seamline.domain.cutover import Boundary
from seamline.domain.digest import keyed_digest_from_json
from seamline.domain.errors import GateFailed, Refused, SeamlineError
from seamline.domain.position import position_from_json
from seamline.domain.runs import NOT_PUBLISHED, NOT_STAGED, PUBLISH, PUT_TABLES_IN_PLACE, RunKind
from seamline.plan.model import Run
from seamline.ports import Commit, Load, PruningHolds, Publication, Sink
from seamline.sync.outcomes import outcome_of

_RELEASE_S = 60.0

log = logging.getLogger(__name__)


class PublishRecords(Protocol):
    """What publishing needs of the platform database."""

    def put_result(self, run_id: str, key: str, value: Any) -> None: ...


def publish(run: Run, destination: str, *, sink: Sink) -> Commit:
    """Publish what the run's snapshot staged in a destination. Resolved by the run id: a repeat finds it done.

    From the next commit on, every commit of the stream is a state that the source really had: all tables stand at one
    position, and the log goes on right after the low marker.
    """
    snapshot, held = staged_snapshot(run), run.plan.held_by(destination)
    position = position_from_json(snapshot["position"])
    loads = [
        Load(
            held.table(load["table"]).target,
            load["staged_as"],
            load["rows"],
            # A snapshot that was taken before digests were kept has none.
            keyed_digest_from_json(load.get("digest")),
        )
        for load in snapshot["loads"].get(destination, [])
    ]
    missing = {table.name for table in run.plan.tables} - {load.table.name for load in loads}
    if missing:
        why = (run.result.get(NOT_STAGED) or {}).get(destination)
        raise Refused(
            f"nothing was staged: {why}"
            if why
            else f"run {run.run_id} has not staged {', '.join(sorted(missing))} in {destination}",
            hint=_how_they_come(run) if why else "clear the task `snapshot` and run it again",
            sync=run.sync,
        )
    publication = Publication(
        run_id=run.run_id,
        topic=snapshot["topic"],
        topic_id=snapshot["topic_id"],
        next_offset=snapshot["next_offset"],
        position=position,
        boundaries=tuple(
            Boundary(
                load.table.name,
                position,
                high_marker=snapshot["high_marker"],
                fingerprint=held.table(load.table.name).fingerprint,
            )
            for load in loads
        ),
    )
    return sink.publish(run.plan.stream_id(destination), loads, publication=publication)


def publish_each(run: Run, records: PublishRecords, step: Callable[[str], Commit]) -> Mapping[str, str]:
    """Put the run's tables in place in each destination, by `step`; the position of each.

    Each is written down as it happens: from then on its stream goes by the run's tables, whatever becomes of the
    others. One that fails keeps no other from it; its error is raised behind them. A repeat finds done what is
    done.
    """
    done: dict[str, str] = dict(run.result.get(PUBLISH) or {})
    failed: dict[str, SeamlineError] = {}
    records.put_result(run.run_id, NOT_PUBLISHED, {})
    for one in run.plan.destinations:
        outcome = outcome_of(lambda name=one.name: step(name))  # type: ignore[misc]
        if isinstance(outcome, SeamlineError):
            log.error("%s does not have the tables of run %s: %s", one.name, run.run_id, outcome)
            failed[one.name] = outcome
            continue
        done[one.name] = str(outcome.ledger.position)
        records.put_result(run.run_id, PUBLISH, done)
    records.put_result(run.run_id, NOT_PUBLISHED, {name: error.message for name, error in failed.items()})
    if failed:
        # One that may go away is tried again, though others will not.
        raise min(failed.values(), key=lambda error: error.exit_code)
    return done


def lacking_tables(run: Run) -> list[str]:
    """Which destinations lack the tables of an onboarding, or of a change of tables, and why."""
    if run.kind not in PUT_TABLES_IN_PLACE:
        return []
    why = run.result.get(NOT_PUBLISHED) or {}
    lacking = [one.name for one in run.plan.destinations if one.name not in run.published_into]
    return [f"{name} does not have the tables: {why.get(name, 'it was not tried')}" for name in lacking]


def require_published_everywhere(run: Run) -> None:
    """GateFailed where a destination lacks the run's tables while others have them."""
    if lacking := lacking_tables(run):
        raise GateFailed(
            "; ".join(lacking),
            hint=f"the others have theirs; mend the cause, then {_how_they_come(run)}",
            sync=run.sync,
        )


def _how_they_come(run: Run) -> str:
    if not_staged := run.result.get(NOT_STAGED):
        # Its snapshot is over; another one would be of other tables than those that the others have.
        return f"run {run.sync}__onboard and name {', '.join(not_staged)} under *Destinations to load*"
    return f"clear the task `{'join' if run.kind is RunKind.TABLES else 'publish'}` with those after it"


def let_log_go(run: Run, holds: PruningHolds) -> None:
    """End the run's hold on the log: from its publish on the ledgers protect what they need."""
    snapshot = staged_snapshot(run)
    # Asking again for a hold names the one that this run has.
    mine = holds.hold_log(snapshot["topic"], holder=run.run_id, offset=snapshot["next_offset"], lease_s=_RELEASE_S)
    holds.release_log(mine)


def staged_snapshot(run: Run) -> Mapping[str, Any]:
    """What the run's job snapshot_load left behind."""
    snapshot: Mapping[str, Any] | None = run.result.get("snapshot")
    if snapshot is None:
        raise Refused(f"run {run.run_id} has no snapshot", hint="its job snapshot_load comes first", sync=run.sync)
    return snapshot
