"""Cuts of tables in a REST catalogue: tags of all tables, and the rows of the cut, by one call.

As `lake.cuts` in PostgreSQL: a run holds the heads of all tables by a tag of its own while it compares them, and a
publish gives the same snapshots the tag of the cut. The rows are a table beside the ledger, whose `main` each call
compares; the tables themselves may go on meanwhile, for a tag changes none of their rows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from pyiceberg.table import CommitTableRequest
from pyiceberg.table.update import RemoveSnapshotsUpdate

from seamline.domain.catalogue import Table
from seamline.domain.cut_keep import KeptCut
from seamline.domain.cut_names import tag_of
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import CommitUnknown, Refused, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.staged_cut import CutMode, Lateness, Published, StagedCut
from seamline.kinds.cut_rules import KnownCut, require_repeat_of
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports.cuts import PinnedTables
from seamline.sinks.iceberg.io import WarehouseIO, warehouse_io, warehouse_root
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.read_back import live_in
from seamline.sinks.iceberg.rest_client import MADE_BY, Conflicted, Loaded, RestClient
from seamline.sinks.iceberg.rest_cut_rows import CutRow, CutRows, CutTable, cut_row, rows_from_text, rows_to_text
from seamline.sinks.iceberg.rest_ledger import CUTS, NAMESPACE, cuts_place_of, empty_ledger, said_by, saying
from seamline.sinks.iceberg.rest_opening import open_client, open_store
from seamline.sinks.iceberg.rest_store import RestStore
from seamline.sinks.iceberg.tags import IcebergTags, tag_updates
from seamline.sinks.lake.cut_rows import Pin, PublishedCut
from seamline.sinks.lake.cuts import PINNED_FOR, Dropped, pin_live, pin_tag, require_compared, there
from seamline.sinks.lake.files import NewFiles, make_folder, new_location, remove
from seamline.sinks.lake.pinned import Pinned
from seamline.sinks.lake.store import Seen
from seamline.sinks.lake.stores import FilePath
from seamline.sinks.lake.tagging import TableTags, Tag

_ROWS = "seamline.cuts"
# How often it is tried again because another cut of the stream has come in between.
_ATTEMPTS = 20
# Of the table of rows, whose newest snapshot says all.
_KEPT = 5
# The rows of all cuts travel in each call, and proxies take bodies of a megabyte unless they are told otherwise.
ROWS_BYTES_MAX = 900_000
DoneT = TypeVar("DoneT")


class RestCuts:
    """`ports.cuts.Cuts` and `ports.cuts.CutStore` of one destination."""

    def __init__(
        self, destination: DestinationPlan, client: RestClient, store: RestStore, warehouse: FilePath, io: WarehouseIO
    ) -> None:
        self._destination = destination
        self._client = client
        self._store = store
        self._warehouse = warehouse
        self._io = io

    def close(self) -> None:
        self._client.close()
        self._store.close()

    # ---- before a publish -------------------------------------------------------------------------------------------

    def pin(self, stream: StreamId, tables: Sequence[str], *, run_id: str, kept_for: timedelta) -> tuple[Seen, Pin]:
        """`lake.cuts.Pinning`."""

        def attempt() -> tuple[Seen, Pin]:
            table, rows = self._made(stream)
            seen = self._store.look(stream, self._destination.namespace)
            if seen.ledger is None:
                raise Refused(f"{stream} was never published there", hint="onboard the sync first", sync=stream.sync)
            snapshots = IcebergTags(self._io).heads(there(seen.heads, tables))
            pin = Pin(seen.ledger.position, snapshots, kept_for)
            tag, until = pin_tag(run_id), datetime.now(UTC) + PINNED_FOR
            wanted = {name: TableTags([Tag(tag, number, until)]) for name, number in snapshots.items()}
            held = rows.holding(run_id, pin)
            _require_room(held, stream, run_id, pin)
            self._commit(table, held, wanted)
            return seen, pin

        return _repeated(attempt)

    def drop_old_pins(self) -> int:
        """Give up what nobody has published for long; how many runs."""
        oldest, dropped = datetime.now(UTC) - PINNED_FOR, 0
        for name in self._client.names(NAMESPACE):
            table = self._client.load((NAMESPACE, name)) if name.startswith(CUTS) else None
            stream = _stream_of(table) if table is not None else None
            if table is None or stream is None or stream.destination != self._destination.name:
                continue
            held = rows_from_text(said_by(table, _ROWS)).held
            for run_id in [run_id for run_id, one in held.items() if one.since < oldest]:
                self._unpin(stream, run_id)
                dropped += 1
        return dropped

    def _unpin(self, stream: StreamId, run_id: str) -> None:
        def attempt() -> None:
            table, rows = self._made(stream)
            held = rows.held[run_id].pin.snapshots if run_id in rows.held else ()
            wanted = {name: TableTags(dropped=[pin_tag(run_id)]) for name in held}
            self._commit(table, rows.without(run_id), wanted)

        _repeated(attempt)

    # ---- Cuts -------------------------------------------------------------------------------------------------------

    def lateness(self, sync: str, table: str, business_date: date, *, staged_as: str) -> Lateness | None:  # noqa: ARG002
        """Not counted: a cut holds the whole table."""
        return None

    def date_before(self, sync: str, business_date: date) -> Sequence[PublishedTable]:
        rows = self.rows(StreamId(sync, self._destination.name))
        return rows.date_before(business_date, self._destination.namespace)

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str = "") -> Published:  # noqa: ARG002
        """As `LakeCuts.publish`."""
        stream = StreamId(cut.sync, cut.destination)

        def attempt() -> Published:
            table, rows = self._made(stream)
            known = rows.of_run(cut.run_id)
            if known is not None:
                return self._repeat_of(known, table, rows, cut, signed_by)
            held = rows.held.get(cut.run_id)
            pin = require_compared(held.pin if held is not None else None, cut)
            version = rows.next_version(cut.business_date)
            tag, until = tag_of(cut.business_date, version), datetime.now(UTC) + pin.kept_for
            names = {one.table for one in cut.tables}
            wanted = {
                name: TableTags([Tag(tag, number, until)] if name in names else (), [pin_tag(cut.run_id)])
                for name, number in pin.snapshots.items()
            }
            after = rows.without(cut.run_id).with_cut(cut_row(cut, version, pin.snapshots, signed_by))
            self._commit(table, after, wanted, required=names)
            return Published(version, is_new=True, signed_by=signed_by)

        return _repeated(attempt)

    def _repeat_of(self, known: CutRow, table: Loaded, rows: CutRows, cut: StagedCut, signed_by: str) -> Published:
        has_expired = not known.tables
        require_repeat_of(cut, KnownCut(cut.sync, known.business_date, known.position, has_expired))
        # Who has signed last: a later question about this very cut may have been answered by somebody else.
        signer = signed_by or known.signed_by
        if signer != known.signed_by:
            self._commit(table, rows.with_cut(known.signed(signer)), {})
        return Published(known.version, is_new=False, signed_by=signer)

    # ---- CutStore ---------------------------------------------------------------------------------------------------

    def kept_cuts(self, sync: str) -> tuple[Sequence[KeptCut], datetime]:
        """The time is this machine's: it is also what a publish writes down."""
        return tuple(self.rows(StreamId(sync, self._destination.name)).kept()), datetime.now(UTC)

    def expire(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> Dropped:
        """As `LakeCuts.expire`."""

        def attempt() -> Dropped:
            table, rows = self._made(StreamId(sync, self._destination.name))
            kept = {(one.table, one.version) for one in rows.kept() if one.business_date == business_date}
            gone = [(cut.table, cut.version) for cut in cuts if (cut.table, cut.version) in kept]
            tags = dict[str, list[str]]()
            for name, version in gone:
                tags.setdefault(name, []).append(tag_of(business_date, version))
            if gone:
                wanted = {name: TableTags(dropped=over) for name, over in tags.items()}
                self._commit(table, rows.without_tables(business_date, gone), wanted)
            return Dropped(len(gone))

        return _repeated(attempt)

    def expired(self, sync: str) -> Sequence[tuple[date, int]]:
        cuts = self.rows(StreamId(sync, self._destination.name)).cuts
        return [(cut.business_date, cut.version) for cut in cuts if not cut.tables]

    # ---- readers ----------------------------------------------------------------------------------------------------

    def found(self, stream: StreamId, heads: Mapping[str, str], place: date | str | None) -> Pinned | None:
        """The cut of a date or with a tag, or the newest proven one; None where there is none."""
        rows = self.rows(stream)
        if isinstance(place, str):
            cut = next((one for one in rows.cuts if one.tag == place and one.tables), None)
        else:
            cut = rows.newest_proven() if place is None else rows.newest_of(place)
        if cut is None:
            return None
        snapshots = {name: one.snapshot_id for name, one in cut.tables.items()}
        published = PublishedCut(cut.business_date, cut.version, cut.tag, cut.position, snapshots)
        return Pinned(cut.position, heads, snapshots, published)

    # ---- one call ---------------------------------------------------------------------------------------------------

    def rows(self, stream: StreamId) -> CutRows:
        table = self._client.load(cuts_place_of(stream))
        return rows_from_text(said_by(table, _ROWS)) if table is not None else CutRows()

    def _made(self, stream: StreamId) -> tuple[Loaded, CutRows]:
        place = cuts_place_of(stream)
        table = self._client.load(place)
        if table is None:
            self._client.make_namespace(NAMESPACE)
            location = new_location(self._warehouse, *place)
            make_folder(location)
            table = self._client.make(place, empty_ledger(location), location, made_by=_mark(stream))
        return table, rows_from_text(said_by(table, _ROWS))

    def _commit(
        self, table: Loaded, rows: CutRows, wanted: Mapping[str, TableTags], *, required: Collection[str] = ()
    ) -> None:
        """Conflicted: another cut, or another table of a name, has come in between. Refused: one of `required` is
        gone."""
        changed = [*self._tagged(wanted, required)]
        files = NewFiles(self._io.path_of(table.metadata.location), "cuts")
        old = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)[:-_KEPT]
        updates = saying(table, {_ROWS: rows_to_text(rows)}, files=files, io=self._io)
        if old:
            updates.append(RemoveSnapshotsUpdate(snapshot_ids=[one.snapshot_id for one in old]))
        try:
            self._client.commit([table.changed(updates), *changed])
        except CommitUnknown:
            raise
        except (Conflicted, SeamlineError):
            files.drop()
            raise
        for one in old:
            remove(self._io.path_of(one.manifest_list))

    def _tagged(self, wanted: Mapping[str, TableTags], required: Collection[str]) -> Iterator[CommitTableRequest]:
        for name, tags in sorted(wanted.items()):
            table = self._client.load((self._destination.namespace, name))
            if table is None and name in required:
                raise Refused(f"table {name} is not in the catalogue", hint="onboard it again", table=name)
            updates = tag_updates(table.metadata, tags, name) if table is not None else []
            if table is not None and updates:
                yield table.tagged(updates)


def open_rest_cuts(destination: DestinationPlan) -> RestCuts:
    options = options_of(destination)
    root, io = warehouse_root(options), warehouse_io(options)
    return RestCuts(destination, open_client(destination), open_store(destination), root, io)


def pin_live_by_rest(plan: SyncPlan, destination: DestinationPlan, count: int, *, run_id: str) -> PinnedTables:
    """`kinds.sink.CutsLiveTables.pin_live` of a destination with a REST catalogue."""
    with closing(open_rest_cuts(destination)) as cuts:
        return pin_live(cuts, plan, destination, count, run_id=run_id, live=live_in(destination))


def _mark(stream: StreamId) -> str:
    return f"{stream} cuts"


def _stream_of(table: Loaded) -> StreamId | None:
    """None of a table that is somebody else's."""
    sync, _, destination = table.metadata.properties.get(MADE_BY, "").removesuffix(" cuts").rpartition("@")
    stream = StreamId(sync, destination)
    return stream if table.place == cuts_place_of(stream) else None


def _require_room(rows: CutRows, stream: StreamId, run_id: str, pin: Pin) -> None:
    """Before a night compares anything. Refused: once its cut is there, the rows of all are too long for a call."""
    now = datetime.now(UTC)
    tables = {name: CutTable(number, CutMode.WHOLE.value, 0, "", False) for name, number in pin.snapshots.items()}  # noqa: FBT003
    cut = CutRow(now.date(), rows.next_version(now.date()), run_id, pin.position, now, now, "", {}, "", tables)
    size = len(rows_to_text(rows.with_cut(cut)).encode())
    if size > ROWS_BYTES_MAX:
        raise Refused(
            f"with this cut the rows of all {len(rows.cuts) + 1} cuts of {stream} are {size:,} bytes, and a call of a"
            f" REST catalogue carries {ROWS_BYTES_MAX:,} of them",
            hint="keep fewer cuts (`nightly.keep` of the sync) and let `seamline__maintenance` run, or take"
            " `catalog_type: jdbc`, where rows of cuts are rows of a database",
            sync=stream.sync,
        )


def _repeated(attempt: Callable[[], DoneT]) -> DoneT:
    for _ in range(_ATTEMPTS):
        try:
            return attempt()
        except Conflicted as exc:
            said = str(exc)
    raise TransientError(f"cuts have moved {_ATTEMPTS} times while one was written: {said}", hint="try again")
