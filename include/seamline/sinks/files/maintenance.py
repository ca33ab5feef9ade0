"""Maintenance of a destination of files: what dead attempts have left, files of expired cuts, old manifests."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import DestinationPlan
from seamline.ports.maintenance import LetGo
from seamline.sinks.files.cuts import OWN, FilesCuts, attempted_at, new_attempt, open_cuts
from seamline.sinks.files.each_sync import of_each
from seamline.sinks.files.staging import staging_of
from seamline.sinks.files.state import state_from_json, state_to_json
from seamline.sinks.files.two_phase import Manifest
from seamline.sinks.lake.loads import drop_abandoned

# Nobody prepares a cut for so long; who does is not harmed, and prepares again.
_ATTEMPT = timedelta(days=1)
# Of the newest manifests, for people who ask what was decided.
_KEPT = 100


class FilesMaintenance:
    """`ports.maintenance.DestinationMaintenance` of one destination."""

    def __init__(self, destination: DestinationPlan, cuts: FilesCuts) -> None:
        self._destination = destination
        self._cuts = cuts

    def ledgers(self) -> Sequence[LedgerPlace]:
        """None: no stream writes here."""
        return ()

    def let_go(self) -> LetGo:
        # No sync's name begins as that of the folder for staging does.
        syncs = [name for name in self._cuts.store.names(OWN) if not name.startswith("_")]
        orphans, failed = of_each(syncs, self._swept)
        staged = drop_abandoned(staging_of(self._destination), self._destination.name)
        return LetGo(findings=0, incremental_snapshots=(), staged=staged, orphan_files=orphans, failed=failed)

    def _swept(self, sync: str) -> int:
        """How many attempts and unfinished uploads were removed."""
        log, store, now = self._cuts.log(sync), self._cuts.store, datetime.now(UTC)
        leaving = self._cuts.state(sync).leaving
        self._cuts.remove(sync, leaving)
        old = [attempt for attempt in log.attempts() if (attempted_at(attempt) or now) < now - _ATTEMPT]
        removed = log.sweep(old, new_attempt(), lambda newest: _without(newest, leaving)) if old or leaving else 0
        log.compact(keep=_KEPT)
        return removed + sum(store.drop_unfinished(folder, now - _ATTEMPT) for folder in (f"{OWN}/{sync}", sync))

    def close(self) -> None:
        self._cuts.close()


def open_maintenance(destination: DestinationPlan) -> FilesMaintenance:
    return FilesMaintenance(destination, open_cuts(destination))


def _without(newest: Manifest, removed: Sequence[str]) -> Mapping[str, Any]:
    return state_to_json(state_from_json(newest.state).swept(removed))
