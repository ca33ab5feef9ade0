"""The manifest log of a sync's change files, and how a commit is decided by it."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from seamline.domain.errors import CommitUnknown, TransientError
from seamline.files.stores.opening import open_store
from seamline.files.stores.store import Store
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.sinks.files.changes.change_files import require_written
from seamline.sinks.files.changes.state import ChangeFile, ChangesState, state_from_json, state_to_json
from seamline.sinks.files.cuts import OWN, attempted_at, new_attempt
from seamline.sinks.files.two_phase import Manifest, ManifestLog

__all__ = ["OWN", "ChangesLog", "Seen", "attempted_at", "open_changes_store", "sync_of"]

_ROUNDS = 8
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest manifest, as somebody has read or written it."""

    manifest: Manifest
    state: ChangesState


class ChangesLog:
    """That of one sync in one store. Not safe to share between threads."""

    def __init__(self, store: Store, sync: str, *, folder: str = "") -> None:
        self.store = store
        self.sync = sync
        self._folder = folder or sync
        self._log = ManifestLog(store, f"{OWN}/{sync}")

    def look(self) -> Seen:
        newest = self._log.newest()
        return Seen(newest, state_from_json(newest.state))

    def path(self, table: str, ending: str) -> str:
        """A name for a file that nobody else has; its time is read by maintenance."""
        return f"{self._folder}/{table}/{new_attempt()}.{ending}"

    def decide(self, seen: Seen, state: ChangesState) -> Seen | None:
        """The state behind `seen`; None where others have decided in between. CommitUnknown: its answer is lost."""
        return self._decided(seen, state, self._log.decide)

    def decide_by_answer(self, seen: Seen, state: ChangesState) -> Seen | None:
        """As `ManifestLog.decide_by_answer`."""
        return self._decided(seen, state, self._log.decide_by_answer)

    def _decided(self, seen: Seen, state: ChangesState, decide: Callable[..., Manifest | None]) -> Seen | None:
        attempt = f"{new_attempt()}-{secrets.token_hex(2)}"
        try:
            made = decide(seen.manifest, attempt, state_to_json(state))
        except TransientError as exc:
            raise CommitUnknown(f"a manifest of {self.sync} was put, its answer is lost: {exc.message}") from exc
        return None if made is None else Seen(made, state)

    def settle(self, once: Callable[[Seen], Found | None]) -> Found:
        """What `once` makes of the newest manifest, as soon as nobody else decides in between; it gives None where its
        decision came too late. TransientError: that goes on."""
        for _ in range(_ROUNDS):
            found = once(self.look())
            if found is not None:
                return found
        raise TransientError(f"others decide in the log of {self.sync} all the time", hint="it is tried again")

    def compact(self, *, keep: int) -> int:
        return self._log.compact(keep=keep)

    def require_written(self, files: "list[ChangeFile]") -> None:
        for file in files:
            require_written(self.store, file)

    def removed(self, seen: Seen, paths: "set[str]") -> ChangesState:
        """The state in which these have left; who wrote files before it cannot count on them."""
        leaving = {path: since for path, since in seen.state.leaving.items() if path not in paths}
        return replace(seen.state, leaving=leaving, sweeps=seen.state.sweeps + 1)


def sync_of(stream_sync: str) -> str:
    """The sync whose log it is: incremental snapshots are streams of the log that they go into."""
    return stream_sync.partition(INCREMENTAL)[0]


def open_changes_store(destination: DestinationPlan) -> Store:
    """Its namespace is another one in the plan of an incremental snapshot; the place stays."""
    return open_store(dict(destination.options)["location"], destination.connection)
