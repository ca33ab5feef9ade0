"""Maintenance of change files: small ones become large, old changes become rows, and what nothing names goes."""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LedgerPlace
from seamline.files.stores.store import Store
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports.maintenance import INCREMENTAL_KEPT_DAYS, LetGo
from seamline.sinks.files.changes.compaction import swap, swaps, utc_now
from seamline.sinks.files.changes.log import OWN, ChangesLog, Seen, attempted_at, open_changes_store
from seamline.sinks.files.changes.options import ChangesOptions, changes_options
from seamline.sinks.files.each_sync import of_each
from seamline.sinks.files.staging import staging_of
from seamline.sinks.lake.loads import drop_abandoned

# Nobody takes so long from the first file of a commit to its manifest, or to read what one manifest names.
_A_DAY = timedelta(days=1)
# Manifests of the newest, for who reads by one, and for people who ask what was decided.
_KEPT = 100


class ChangesMaintenance:
    """`ports.maintenance.DestinationMaintenance` of one destination."""

    def __init__(self, destination: DestinationPlan, store: Store) -> None:
        self._destination = destination
        self._options: ChangesOptions = changes_options(destination)
        self._store = store

    def ledgers(self) -> Sequence[LedgerPlace]:
        return [
            LedgerPlace(str(stream), one.row.topic, one.row.topic_id, one.row.next_offset)
            for log in map(self._log, self._syncs())
            for stream, one in log.look().state.streams.items()
        ]

    def let_go(self) -> LetGo:
        ended = list[str]()

        def maintain(sync: str) -> int:
            log = self._log(sync)
            ended.extend(self._end_dead_snapshots(log))
            self.compact(log, now=utc_now())
            gone = self.sweep(log, now=utc_now())
            log.compact(keep=_KEPT)
            return gone + self._store.drop_unfinished(sync, utc_now() - _A_DAY)

        gone, failed = of_each(self._syncs(), maintain)
        staged = drop_abandoned(staging_of(self._destination), self._destination.name)
        return LetGo(findings=0, incremental_snapshots=tuple(ended), staged=staged, orphan_files=gone, failed=failed)

    def close(self) -> None:
        self._store.close()

    def compact(self, log: ChangesLog, *, now: datetime) -> int:
        """Swap what is due by the declaration; how many files became fewer ones."""
        seen = log.look()
        return sum(swap(log, seen, due) for due in swaps(seen, self._options, now=now))

    def sweep(self, log: ChangesLog, *, now: datetime) -> int:
        """Remove what no manifest has named for a day; how many files.

        The manifest that says so comes first: who has written files before it and not decided yet writes them again.
        """

        def once(seen: Seen) -> set[str] | None:
            due = {path for path, since in seen.state.leaving.items() if since < now - _A_DAY}
            due |= self._orphans(log, seen.state.named() | set(seen.state.leaving), now)
            if due and log.decide(seen, log.removed(seen, due)) is None:
                return None
            return due

        found = log.settle(once)
        for path in sorted(found):
            self._store.remove(path)
        return len(found)

    def _orphans(self, log: ChangesLog, named: set[str], now: datetime) -> set[str]:
        found = set()
        for table in self._store.names(log.sync):
            for name in self._store.names(f"{log.sync}/{table}"):
                path, at = f"{log.sync}/{table}/{name}", attempted_at(name)
                if path not in named and at is not None and at < now - _A_DAY:
                    found.add(path)
        return found

    def _end_dead_snapshots(self, log: ChangesLog) -> list[str]:
        """Incremental snapshots that have not moved for long: each would hold the log for ever."""
        before_ms = (time.time() - INCREMENTAL_KEPT_DAYS * 86_400) * 1000

        def once(seen: Seen) -> list[StreamId] | None:
            dead = [
                stream
                for stream, one in seen.state.streams.items()
                if INCREMENTAL in stream.sync and one.moved_ms < before_ms
            ]
            return dead if not dead or log.decide(seen, seen.state.without(dead)) is not None else None

        return [str(stream) for stream in log.settle(once)]

    def _syncs(self) -> list[str]:
        # No sync's name begins as that of the folder for staging does.
        return [name for name in self._store.names(OWN) if not name.startswith("_")]

    def _log(self, sync: str) -> ChangesLog:
        return ChangesLog(self._store, sync)


def open_maintenance(destination: DestinationPlan) -> ChangesMaintenance:
    return ChangesMaintenance(destination, open_changes_store(destination))
