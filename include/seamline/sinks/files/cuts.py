"""Cuts as deliveries of files: a folder for each version of a business date, decided by the log of manifests."""

import io
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.cut_keep import KeptCut
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import SeamlineError
from seamline.domain.staged_cut import Lateness, Published, StagedCut
from seamline.files.stores.opening import open_store
from seamline.files.stores.store import Store
from seamline.kinds.cut_rules import KnownCut, require_repeat_of
from seamline.plan.model import DestinationPlan
from seamline.sinks.files import types
from seamline.sinks.files.preparing import Publishing, prepared
from seamline.sinks.files.staging import staging_of
from seamline.sinks.files.state import (
    ExpiredCut,
    HeldCut,
    HeldTable,
    LogState,
    paths_that_leave,
    state_from_json,
    state_to_json,
)
from seamline.sinks.files.table_files import control_of, rows_of, schema_table
from seamline.sinks.files.two_phase import Manifest, ManifestLog, read_whole
from seamline.sinks.lake.lateness import late_rows
from seamline.sinks.lake.loads import staged_again
from seamline.values.digest import row_hashes

# What partners do not need lies there, below the place of a destination.
OWN = ".seamline"
_MOMENT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class Dropped:
    """What left with a date: tables, and bytes of files."""

    partitions: int
    size_bytes: int


class FilesCuts:
    """`ports.cuts.Cuts` and `ports.cuts.CutStore` of one destination. Not safe to share between threads."""

    def __init__(self, destination: DestinationPlan, store: Store) -> None:
        self._destination = destination
        self.store = store

    def close(self) -> None:
        self.store.close()

    # ---- Cuts -------------------------------------------------------------------------------------------------------

    def lateness(self, sync: str, table: str, business_date: date, *, staged_as: str) -> Lateness | None:
        cut = self.state(sync).current(table, business_date)
        if cut is None:
            return None
        held = cut.tables[table]
        staged = staged_again(staging_of(self._destination), staged_as, table)
        if staged.paths and schema_table(staged.paths[0]).columns != held.definition.columns:
            return None
        both = staged.batches(held.definition, types), self.rows_of(sync, cut, held)
        return late_rows(*(_hashes(held.definition, rows) for rows in both))

    def date_before(self, sync: str, business_date: date) -> Sequence[PublishedTable]:
        return [
            PublishedTable(table, cut.business_date, cut.version, self._destination.namespace, cut.folder)
            for table, cut in self.state(sync).date_before(business_date)
        ]

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str = "") -> Published:
        """Repeat-safe by the run's id: a repeat finds what was decided, and shows it. GateFailed, and nothing decided:
        a staged table, or a file that was read back, holds something else than was compared."""

        def once(newest: Manifest) -> Published | None:
            state = state_from_json(newest.state)
            known = state.of_run(cut.run_id) or state.expired_of_run(cut.run_id)
            if known is not None:
                return self._repeat_of(known, newest, state, cut, signed_by)
            attempt = new_attempt()
            version = state.next_version(cut.business_date)
            return self._delivered(newest, state, Publishing(cut, definitions, signed_by, version, attempt))

        return self.log(cut.sync).settle(once)

    def _delivered(self, newest: Manifest, state: LogState, publishing: Publishing) -> Published | None:
        log, attempt = self.log(publishing.cut.sync), publishing.attempt
        try:
            made = prepared(log, self._destination, publishing)
        except SeamlineError as first:
            try:
                log.abort(attempt)
            except SeamlineError as second:
                # Maintenance removes it in a day.
                first.add_note(f"what was prepared is still there, for it could not be removed: {second.message}")
            raise
        decided = log.decide(newest, attempt, state_to_json(state.with_cut(made.held)), made.delivery)
        if decided is None:
            log.abort(attempt)
            return None
        log.show(decided)
        return Published(publishing.version, is_new=True, signed_by=publishing.signed_by)

    def _repeat_of(
        self, known: HeldCut | ExpiredCut, newest: Manifest, state: LogState, cut: StagedCut, signed_by: str
    ) -> Published | None:
        has_expired = isinstance(known, ExpiredCut)
        require_repeat_of(cut, KnownCut(cut.sync, known.business_date, known.position, has_expired))
        before = "" if isinstance(known, ExpiredCut) else known.signed_by
        # Who has signed last: a later question about this very cut may have been answered by somebody else.
        signer = signed_by or before
        if signer != before:
            signed = state_to_json(state.signed(cut.run_id, signer))
            if self.log(cut.sync).decide(newest, new_attempt(), signed) is None:
                return None
        return Published(known.version, is_new=False, signed_by=signer)

    # ---- CutStore ---------------------------------------------------------------------------------------------------

    def kept_cuts(self, sync: str) -> tuple[Sequence[KeptCut], datetime]:
        return _kept(self.state(sync)), datetime.now(UTC)

    def expire(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> Dropped:
        """Decide that they are gone, then remove their files, the flag first. A repeat goes on: maintenance removes
        what a crash has left. Of a delivery that stays for another table nothing goes yet (`LogState.may_go`)."""
        wanted = {(cut.table, cut.version) for cut in cuts}

        def once(newest: Manifest) -> Dropped | None:
            state = state_from_json(newest.state)
            of_date = [cut for cut in state.cuts if cut.business_date == business_date]
            there = state.may_go(wanted, business_date)
            if not there:
                return Dropped(0, 0)
            left = state.without(business_date, there)
            if self.log(sync).decide(newest, new_attempt(), state_to_json(left)) is None:
                return None
            size = 0
            for cut in of_date:
                names = [name for name in cut.tables if (name, cut.version) in there]
                size += sum(file.size_bytes for name in names for file in cut.tables[name].files)
                self.remove(sync, paths_that_leave(cut, names))
            return Dropped(len(there), size)

        return self.log(sync).settle(once)

    def remove(self, sync: str, leaving: Sequence[str]) -> None:
        """Files of deliveries, in their order. Behind a control file that goes comes the one of what is left, if any
        is. A repeat goes on."""
        partly = {f"{cut.folder}/{cut.control_file}": cut for cut in self.state(sync).cuts if cut.gone}
        for path in leaving:
            self.store.remove(path)
            if path in partly:
                self._describe_what_is_left(sync, partly[path])

    def _describe_what_is_left(self, sync: str, cut: HeldCut) -> None:
        """Until what lies there is what counts: another process may let a table of it go meanwhile."""
        path, current = f"{cut.folder}/{cut.control_file}", cut
        while True:
            self.store.write(path, io.BytesIO(control_of(current, sync)))
            newest = self.state(sync).in_folder(cut.folder)
            if newest is None:
                self.store.remove(path)
                return
            if newest == current:
                return
            current = newest

    def expired(self, sync: str) -> Sequence[tuple[date, int]]:
        return [(cut.business_date, cut.version) for cut in self.state(sync).expired]

    # ---- the log ----------------------------------------------------------------------------------------------------

    def log(self, sync: str) -> ManifestLog:
        return ManifestLog(self.store, f"{OWN}/{sync}")

    def state(self, sync: str) -> LogState:
        """What counts; all of it is shown."""
        log = self.log(sync)
        newest = log.newest()
        log.show(newest)
        return state_from_json(newest.state)

    def rows_of(self, sync: str, cut: HeldCut, held: HeldTable) -> Iterator[pa.RecordBatch]:
        """The delivered rows of a table, as a partner finds them. GateFailed: its files are gone, or others."""
        for file in held.files:
            with read_whole(self.store, f"{cut.folder}/{file.name}", file) as path:
                yield from rows_of(cut, held, sync, path)


def open_cuts(destination: DestinationPlan) -> FilesCuts:
    return FilesCuts(destination, open_store(destination.namespace, destination.connection))


def new_attempt() -> str:
    """Its time is read by maintenance."""
    return f"{datetime.now(UTC):{_MOMENT}}-{secrets.token_hex(8)}"


def attempted_at(attempt: str) -> datetime | None:
    """None of a folder that no attempt has made."""
    try:
        return datetime.strptime(attempt.partition("-")[0], _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        return None


def _kept(state: LogState) -> list[KeptCut]:
    found = list[KeptCut]()
    for cut in state.cuts:
        for name, held in cut.tables.items():
            is_current = state.current(name, cut.business_date) is cut
            found.append(
                KeptCut(
                    name, cut.business_date, cut.version, cut.decided_at, cut.decided_at, is_current, held.is_proven
                )
            )
    return found


def _hashes(table: Table, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Array]:
    return (row_hashes(table, rows, run_key="") for rows in batches)
