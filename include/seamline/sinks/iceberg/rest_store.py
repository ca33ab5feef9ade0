"""`LakeStore` in a REST catalogue: the ledger is a table, and one call moves it with the tables of a span.

The server writes metadata files. What is staged here as one is taken apart into the updates that make it of the table
before, and is deleted once the server has its own. That all tables of a call move at once is the server's word.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.cutover import Boundary
from seamline.domain.errors import CommitUnknown, Fenced, NotCaughtUp, Refused, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.kinds.ledger_rules import advanced, fenced_or, resolved
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports import Failpoints, Joining, Lease, Progress, Publication, Unarmed
from seamline.sinks.iceberg.io import WarehouseIO
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.iceberg.rest_client import Conflicted, RestClient
from seamline.sinks.iceberg.rest_ledger import (
    NAMESPACE,
    FollowUp,
    Ledger,
    LedgerState,
    empty_ledger,
    is_ledger,
    ledger_in,
    place_of,
    prefix_of,
    stream_of,
    updates_of,
)
from seamline.sinks.lake.files import NewFiles, make_folder, new_location, remove
from seamline.sinks.lake.store import (
    CatalogueChanges,
    Outcome,
    PointerMove,
    PointerMoved,
    Seen,
    Staging,
    repeated,
    require_carried,
)
from seamline.sinks.lake.stores import FilePath

# How often something is read again because somebody else's commit came in between.
_ATTEMPTS = 20
# Findings of one table are reported up to so many at a time.
_LISTED = 1_000


class RestStore:
    """`LakeStore`. `warehouse`: where new ledgers have their files, which `io` reaches."""

    def __init__(
        self,
        destination: DestinationPlan,
        client: RestClient,
        warehouse: FilePath,
        io: WarehouseIO,
        *,
        failpoints: Failpoints | None = None,
    ) -> None:
        self._destination = destination
        self._client = client
        self._warehouse = warehouse
        self._io = io
        self._failpoints = failpoints or Unarmed()

    # ---- LakeStore --------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        ledger = self._ledger(stream)
        return ledger.state.row if ledger is not None and ledger.state is not None else None

    def findings(self, stream: StreamId) -> list[Finding]:
        """Those that are not over, in the order in which they were kept."""
        ledger = self._ledger(stream)
        return ledger.findings if ledger is not None else []

    def acquire(self, stream: StreamId, *, after_epoch: int | None, confirmed: LedgerRow | None) -> Lease:
        for _ in range(_ATTEMPTS):
            ledger, state = self._published(stream)
            if confirmed is not None:
                refuse_one_that_went_back(state.row, confirmed=confirmed)
            if after_epoch not in (None, state.row.epoch):
                raise Fenced(f"another owner took {stream} meanwhile", sync=stream.sync)
            self._follow(state.follow_ups)
            row = replace(state.row, epoch=state.row.epoch + 1)
            try:
                self._send(ledger, replace(state, row=row, follow_ups=()))
            except Conflicted:
                continue
            except CommitUnknown as exc:
                raise TransientError(f"an epoch of {stream} was asked for: {exc.message}", sync=stream.sync) from exc
            return Lease(stream, row.epoch, row)
        raise _busy(stream)

    def look(self, stream: StreamId, namespace: str) -> Seen:
        """The ledger is read before the tables and after them: they are of one commit where it stands still."""
        for _ in range(_ATTEMPTS):
            before = self._ledger(stream)
            loaded = [self._client.load((namespace, name)) for name in self._client.names(namespace)]
            after = self._ledger(stream)
            if _snapshot_id(before) == _snapshot_id(after):
                heads = {one.place[1]: one.location for one in loaded if one is not None and not one.is_empty}
                state = after.state if after is not None else None
                return Seen(state.row, heads, state.snapshots) if state is not None else Seen(heads=heads)
        raise _busy(stream)

    def commit(
        self,
        lease: Lease,
        moves: Sequence[PointerMove],
        findings: Sequence[Finding],
        *,
        progress: Progress,
        confirmed: LedgerRow,
    ) -> Outcome:
        self._failpoints.reach("lake.span_written")
        span = progress.span
        try:
            ledger = self._ledger(lease.stream)
            state = ledger.state if ledger is not None else None
            if ledger is None or state is None or not _begins_here(state.row, lease, progress):
                found = state.row if state is not None else None
                return Outcome(resolved(found, lease, progress, confirmed=confirmed), is_new=False)
            self._failpoints.reach("app.dest_begin")
            applied = state.row.applied_transactions + span.transactions
            row = advanced(state.row, progress, applied, progress.last_marker or state.row.last_marker)
            after = replace(state, row=row, snapshots={**state.snapshots, **_snapshots(moves)})
            self._move(ledger, after, moves, findings=findings)
        except TransientError as exc:
            raise fenced_or(exc, lease, self.read_ledger) from exc
        return Outcome(row)

    def keep_foreign(self, lease: Lease, findings: Sequence[Finding]) -> None:
        for _ in range(_ATTEMPTS):
            ledger = self._ledger(lease.stream)
            state = ledger.state if ledger is not None else None
            if ledger is None or state is None or state.row.epoch != lease.epoch:
                raise Fenced(f"{lease.stream}: epoch {lease.epoch} is over", sync=lease.stream.sync)
            known = {(one.table, one.kind, one.key) for one in ledger.findings}
            new = [one for one in findings if (one.table, one.kind, one.key) not in known]
            if not new:
                return
            try:
                self._send(ledger, state, findings=new)
            except Conflicted:
                continue
            return
        raise _busy(lease.stream)

    def published(self, stream: StreamId, run_id: str) -> bool:
        ledger = self._ledger(stream)
        if ledger is None or ledger.state is None:
            return False
        self._follow(ledger.state.follow_ups)
        return run_id in ledger.state.runs

    # A catalogue behind REST has no locks: a stream that commits all the time may be ahead of each attempt.

    def publish(self, stream: StreamId, staging: Staging, *, publication: Publication) -> LedgerRow:
        return repeated(lambda _: self._publish(stream, staging, publication))

    def join(self, stream: StreamId, staging: Staging, *, joining: Joining) -> LedgerRow:
        return repeated(lambda _: self._join(stream, staging, joining))

    def close(self) -> None:
        self._client.close()

    # ---- publish and join -------------------------------------------------------------------------------------------

    def _publish(self, stream: StreamId, staging: Staging, publication: Publication) -> LedgerRow:
        seen = self.look(stream, self._destination.namespace)
        changes = staging(seen)
        self._client.make_namespace(self._destination.namespace)
        ledger = self._made_ledger(stream)
        known = ledger.state
        if known is not None and publication.run_id in known.runs:
            return known.row
        require_carried(seen, [one.table for one in known.row.boundaries] if known is not None else ())
        row = LedgerRow(
            stream,
            publication.topic,
            publication.topic_id,
            publication.next_offset,
            publication.position,
            known.row.epoch + 1 if known is not None else 1,
            known.row.applied_transactions if known is not None else 0,
            committed_ms=0,
            boundaries=tuple(replace(one, ended=True) for one in known.row.boundaries) if known is not None else (),
        )
        state = replace(known, row=row) if known is not None else LedgerState(row)
        left = list(changes.set_aside)
        state = state.with_tables(publication.boundaries, left=left, run_id=publication.run_id)
        return self._placed(ledger, state, changes, over=[*(one.table for one in publication.boundaries), *left])

    def _join(self, stream: StreamId, staging: Staging, joining: Joining) -> LedgerRow:
        seen = self.look(stream, self._destination.namespace)
        changes = staging(seen)
        ledger, state = self._published(stream)
        if joining.run_id in state.runs:
            return state.row
        require_carried(seen, [one.table for one in state.row.boundaries])
        over = self._incremental(stream)
        entering, found = list[Boundary](), list[Finding]()
        if joining.incremental_stream is not None:
            entering, found = self._arriving(joining, state.row, over)
        state = replace(state, row=replace(state.row, epoch=state.row.epoch + 1))
        state = state.with_tables(entering, left=list(joining.kept_as), run_id=joining.run_id)
        over_now = [*(table.name for table in joining.tables), *joining.kept_as]
        return self._placed(ledger, state, changes, over=over_now, found=found, ended=over)

    # ---- beside a stream --------------------------------------------------------------------------------------------

    def findings_after(
        self, stream: StreamId, *, after: FindingsReported
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        """`kinds.sink.ReadsBack.findings`."""
        ledger = self._ledger(stream)
        known = ledger.numbered_findings if ledger is not None else []
        # A catalogue that was put back counts from there again.
        new = [one for one, at in known if at.number > after.number or "" < after.kept_at < at.kept_at]
        listed = [[one for one in new if one.table == table][:_LISTED] for table in {one.table: None for one in new}]
        return tuple(one for of_table in listed for one in of_table), known[-1][1] if known else after

    def ledgers(self) -> list[Ledger]:
        """Of all streams and incremental snapshots in this catalogue, also of those that have ended."""
        tables = [self._client.load((NAMESPACE, name)) for name in self._client.names(NAMESPACE)]
        return [ledger_in(table, stream_of(table)) for table in tables if table is not None and is_ledger(table)]

    def end_dead_snapshots(self, *, before_ms: int) -> list[StreamId]:
        """End the incremental snapshots into this destination's streams that have not moved since then, milliseconds
        since 1970. A worker that comes back finds itself fenced."""
        ended, ledgers = list[StreamId](), self.ledgers()
        # What a join has decided, and nobody has done yet, is not ours to drop.
        others = {one.old for ledger in ledgers if ledger.state is not None for one in ledger.state.follow_ups}
        for ledger in ledgers:
            stream, snapshot = stream_of(ledger.table), ledger.table.metadata.current_snapshot()
            is_of_a_join = INCREMENTAL in stream.sync and stream.destination == self._destination.name
            if not is_of_a_join or snapshot is None or snapshot.timestamp_ms >= before_ms:
                continue
            leaving = [one for one in self._leaving(ledger, ()) if one.old not in others]
            # One that has moved again goes on.
            with suppress(Conflicted):
                if ledger.state is not None:
                    self._client.commit([ledger.table.changed(self._ending(ledger))])
                    ended.append(stream)
                self._follow(leaving)
        return ended

    # ---- commits ----------------------------------------------------------------------------------------------------

    def _placed(
        self,
        ledger: Ledger,
        state: LedgerState,
        changes: CatalogueChanges,
        *,
        over: Sequence[str],
        found: Sequence[Finding] = (),
        ended: Sequence[Ledger] = (),
    ) -> LedgerRow:
        """One commit, and then what it has decided of names. `over`: tables whose findings are over; `ended`: ledgers
        of incremental snapshots that end by it."""
        arriving = {move.table for move in changes.moves if not move.old and move.table in changes.taken}
        moves = [move for move in changes.moves if move.table not in arriving]
        follow_ups = tuple(self._follow_ups(changes, arriving, ended))
        snapshots = {**state.snapshots, **_snapshots(changes.moves)}
        state = replace(state, snapshots=snapshots, follow_ups=(*state.follow_ups, *follow_ups))
        self._failpoints.reach("lake.publish_written")
        more = [one.table.changed(self._ending(one)) for one in ended]
        self._move(ledger, state, moves, findings=found, over=over, more=more)
        self._failpoints.reach("pub.commit_acked")
        self._follow(state.follow_ups)
        return state.row

    def _move(
        self,
        ledger: Ledger,
        state: LedgerState,
        moves: Sequence[PointerMove],
        *,
        findings: Sequence[Finding] = (),
        over: Sequence[str] = (),
        more: Sequence[CommitTableRequest] = (),
    ) -> None:
        """PointerMoved, also where it is the ledger that has moved: whoever stages again sees it."""
        changed = list[CommitTableRequest]()
        try:
            for move in sorted(moves, key=lambda one: one.table):
                changed.append(self._changed(move, state.row.stream))
                if len(changed) == 1:
                    self._failpoints.reach("app.dml_half")
            self._failpoints.reach("app.dml_done")
            self._send(ledger, state, [*changed, *more], findings=findings, over=over)
        except Conflicted as exc:
            raise PointerMoved(str(exc)) from exc
        for move in moves:
            # The server has a metadata file of its own now.
            remove(self._io.path_of(move.new))

    def _changed(self, move: PointerMove, stream: StreamId) -> CommitTableRequest:
        place = (self._destination.namespace, move.table)
        staged = read_metadata(move.new, self._io)
        if move.old:
            table = self._client.load(place)
            if table is None or table.location != move.old:
                raise PointerMoved(move.table)
        else:
            table = self._client.make(place, staged, self._io.path_of(staged.location), made_by=str(stream))
        return table.changed(list(updates_between(table.metadata, staged)))

    def _send(
        self,
        ledger: Ledger,
        state: LedgerState,
        changed: Sequence[CommitTableRequest] = (),
        *,
        findings: Sequence[Finding] = (),
        over: Sequence[str] = (),
    ) -> None:
        """The ledger and the tables, by one call. Conflicted: nothing has moved."""
        files = self._files(ledger)
        updates = updates_of(ledger, state, files=files, io=self._io, findings=findings, over=over)
        try:
            self._client.commit([ledger.table.changed(updates), *changed])
        except CommitUnknown:
            raise
        except (Conflicted, SeamlineError):
            files.drop()
            raise
        gone = {number for one in updates if isinstance(one, RemoveSnapshotsUpdate) for number in one.snapshot_ids}
        for snapshot in ledger.table.metadata.snapshots:
            if snapshot.snapshot_id in gone:
                remove(self._io.path_of(snapshot.manifest_list))

    def _ending(self, ledger: Ledger) -> list[TableUpdate]:
        """Whoever applies its stream is fenced, and its name is free."""
        return updates_of(ledger, None, files=self._files(ledger), io=self._io)

    def _files(self, ledger: Ledger) -> NewFiles:
        return NewFiles(self._io.path_of(ledger.table.metadata.location), "ledger")

    # ---- names ------------------------------------------------------------------------------------------------------

    def _follow_ups(
        self, changes: CatalogueChanges, arriving: Collection[str], ended: Sequence[Ledger]
    ) -> Iterator[FollowUp]:
        """What leaves first: others may need its names."""
        namespace = self._destination.namespace
        for name, kept in changes.set_aside.items():
            if (table := self._client.load((namespace, name))) is not None:
                yield FollowUp(table.place, (namespace, kept), str(table.metadata.table_uuid))
        for name, location in changes.taken.items():
            table = self._client.load((changes.taken_from, name))
            if table is None or table.location != location:
                raise PointerMoved(name)
            new = (namespace, name) if name in arriving else ("", "")
            yield FollowUp(table.place, new, str(table.metadata.table_uuid))
        for ledger in ended:
            yield from self._leaving(ledger, changes.taken)

    def _leaving(self, ledger: Ledger, taken: Collection[str]) -> Iterator[FollowUp]:
        """The tables of an incremental snapshot that nobody takes, and its ledger. Their files stay."""
        mark = stream_of(ledger.table).sync.partition(INCREMENTAL)[2]
        namespace = self._destination.incremental_namespace(mark)
        left = [self._client.load((namespace, name)) for name in self._client.names(namespace) if name not in taken]
        for table in (*left, ledger.table):
            if table is not None:
                yield FollowUp(table.place, ("", ""), str(table.metadata.table_uuid))

    def _follow(self, follow_ups: Sequence[FollowUp]) -> None:
        """Each once, whoever does it: a table that has its new name is not found under the old one."""
        for one in follow_ups:
            table = self._client.load(one.old)
            if table is None or str(table.metadata.table_uuid) != one.uuid:
                continue
            if one.new[1]:
                self._client.rename(one.old, one.new)
            else:
                self._client.drop(one.old)
        for namespace in {one.old[0] for one in follow_ups} - {self._destination.namespace, NAMESPACE}:
            self._client.drop_namespace(namespace)

    # ---- ledgers ----------------------------------------------------------------------------------------------------

    def _ledger(self, stream: StreamId) -> Ledger | None:
        table = self._client.load(place_of(stream))
        return ledger_in(table, stream) if table is not None else None

    def _published(self, stream: StreamId) -> tuple[Ledger, LedgerState]:
        ledger = self._ledger(stream)
        if ledger is None or ledger.state is None:
            raise Refused(
                f"destination {self._destination.name} holds no ledger of {stream}: nothing was published there",
                hint="onboard the sync first",
                sync=stream.sync,
            )
        return ledger, ledger.state

    def _made_ledger(self, stream: StreamId) -> Ledger:
        self._client.make_namespace(NAMESPACE)
        for _ in range(_ATTEMPTS):
            if (ledger := self._ledger(stream)) is not None:
                return ledger
            place = place_of(stream)
            location = new_location(self._warehouse, *place)
            make_folder(location)
            try:
                return ledger_in(
                    self._client.make(place, empty_ledger(location), location, made_by=str(stream)), stream
                )
            except Conflicted:
                continue
        raise _busy(stream)

    def _incremental(self, stream: StreamId) -> list[Ledger]:
        """Of all incremental snapshots into the stream, also those that were given up."""
        begins = f"{stream.sync}{INCREMENTAL}"
        names = [name for name in self._client.names(NAMESPACE) if name.startswith(prefix_of(begins))]
        found = list[Ledger]()
        for table in (self._client.load((NAMESPACE, name)) for name in names):
            if table is not None:
                theirs = stream_of(table)
                if theirs.sync.startswith(begins) and theirs.destination == stream.destination:
                    found.append(ledger_in(table, theirs))
        return found

    def _arriving(
        self, joining: Joining, mine: LedgerRow, incremental: Sequence[Ledger]
    ) -> tuple[list[Boundary], list[Finding]]:
        """Boundaries and findings of the incremental snapshot. Its ledger stands where it was read, or the commit that
        ends it is refused."""
        snapshot = next((one for one in incremental if stream_of(one.table) == joining.incremental_stream), None)
        row = snapshot.state.row if snapshot is not None and snapshot.state is not None else None
        if snapshot is None or row is None or (row.topic_id, row.next_offset) != (mine.topic_id, mine.next_offset):
            theirs = f"offset {row.next_offset} of topic {row.topic_id}" if row is not None else "no place yet"
            raise NotCaughtUp(
                f"{mine.stream} stands at offset {mine.next_offset} of topic {mine.topic_id}, its incremental snapshot"
                f" at {theirs}",
                sync=mine.stream.sync,
            )
        names = {table.name for table in joining.tables}
        return [one for one in row.boundaries if one.table in names], snapshot.findings


def updates_between(before: TableMetadata, after: TableMetadata) -> Iterator[TableUpdate]:
    """What makes of one state of a table's snapshots and refs the other one."""
    known, wanted = ({one.snapshot_id for one in metadata.snapshots} for metadata in (before, after))
    for snapshot in after.snapshots:
        if snapshot.snapshot_id not in known:
            yield AddSnapshotUpdate(snapshot=snapshot)
    for name, ref in after.refs.items():
        if before.refs.get(name) != ref:
            yield SetSnapshotRefUpdate(
                ref_name=name,
                type=ref.snapshot_ref_type,
                snapshot_id=ref.snapshot_id,
                max_ref_age_ms=ref.max_ref_age_ms,
                max_snapshot_age_ms=ref.max_snapshot_age_ms,
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            )
    for name in before.refs.keys() - after.refs.keys():
        yield RemoveSnapshotRefUpdate(ref_name=name)
    if known - wanted:
        yield RemoveSnapshotsUpdate(snapshot_ids=sorted(known - wanted))


def _begins_here(row: LedgerRow, lease: Lease, progress: Progress) -> bool:
    return (row.epoch, row.next_offset, row.topic_id) == (lease.epoch, progress.span.start, lease.ledger.topic_id)


def _snapshots(moves: Sequence[PointerMove]) -> dict[str, int]:
    return {move.table: move.snapshot_id for move in moves}


def _snapshot_id(ledger: Ledger | None) -> int | None:
    return ledger.snapshot_id if ledger is not None else None


def _busy(stream: StreamId) -> TransientError:
    return TransientError(
        f"the ledger of {stream} has moved {_ATTEMPTS} times while it was read",
        hint="another owner commits all the time: it is tried again",
        sync=stream.sync,
    )
