"""Cuts of a lake: the live tables as they stood at one position, held by a tag on each.

A nightly run pins the heads of all tables while it compares them: a tag of the run's own, so that nobody lets go of
these snapshots until the run is published or given up. A publish gives the same snapshots the tag `cut_<date>_v<n>` and
takes the run's tag away: the tags of all tables and the rows of the cut are one transaction of the catalogue's
database. The stream waits for that moment and goes on, for a tag moves a table's pointer and nothing of its rows.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Protocol, TypeVar

from seamline import settings
from seamline.adapters import failpoints as armed_failpoints
from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.kept_open import kept_open
from seamline.domain.catalogue import Table
from seamline.domain.cut_keep import KeptCut
from seamline.domain.cut_names import tag_of
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import GateFailed, Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.position import is_same_place
from seamline.domain.staged_cut import CutMode, Lateness, Published, StagedCut
from seamline.kinds.cut_rules import KnownCut, require_repeat_of
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Failpoints, Unarmed
from seamline.ports.cuts import PinnedTables
from seamline.sinks.lake import cut_rows
from seamline.sinks.lake.cut_derived import CutDerived
from seamline.sinks.lake.cut_rows import Pin, Recorded
from seamline.sinks.lake.cut_views import FILES_AT_ONCE, CutViews, Followed
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.postgres_store import create_tables, look
from seamline.sinks.lake.read_back import Live, view_of
from seamline.sinks.lake.store import PointerMove, PointerMoved, Seen
from seamline.sinks.lake.tagging import OF_RUNS, TableTags, Tag, Tagged, Tagging

# A run may wait days for somebody, as staged tables do.
PINNED_FOR = timedelta(days=14)
# How often it is tried again because the stream has moved a pointer meanwhile.
_ATTEMPTS = 50
DoneT = TypeVar("DoneT")


@dataclass(frozen=True, slots=True)
class Dropped:
    """What left with a date: tags. Files go with their snapshots, so no bytes are known."""

    partitions: int
    size_bytes: int = 0


class Pinning(Protocol):
    def pin(self, stream: StreamId, tables: Sequence[str], *, run_id: str, kept_for: timedelta) -> tuple[Seen, Pin]:
        """Hold these tables as one look finds them, in place of what an earlier attempt of the run has held.

        What was seen, and what is held of it. `kept_for`: how long a cut of it may be wanted at most.
        """


class LakeCuts:
    """`ports.cuts.Cuts` and `ports.cuts.CutStore` of one destination, in a session of its publisher. Not safe to share
    between threads. Without `views` people ask for a cut by its tag."""

    def __init__(
        self,
        destination: DestinationPlan,
        catalogue: Pointers,
        session: Session,
        tags: Tagging,
        views: CutViews | None,
        derived: CutDerived | None = None,
        *,
        failpoints: Failpoints | None = None,
    ) -> None:
        self._destination = destination
        self._catalogue = catalogue
        self._session = session
        self._tags = tags
        self._views = views
        self._derived = derived
        self._failpoints = failpoints or Unarmed()

    def close(self) -> None:
        self._session.close()

    # ---- before a publish -------------------------------------------------------------------------------------------

    def pin(self, stream: StreamId, tables: Sequence[str], *, run_id: str, kept_for: timedelta) -> tuple[Seen, Pin]:
        """`Pinning`."""

        def attempt() -> tuple[Seen, Pin]:
            seen = look(self._session, self._catalogue, stream, self._destination.namespace)
            if seen.ledger is None:
                raise Refused(f"{stream} was never published there", hint="onboard the sync first", sync=stream.sync)
            snapshots = self._tags.heads(there(seen.heads, tables))
            pin = Pin(seen.ledger.position, snapshots, kept_for)
            tag, until = pin_tag(run_id), datetime.now(UTC) + PINNED_FOR
            wanted = {name: TableTags([Tag(tag, number, until)]) for name, number in snapshots.items()}
            with self._tagged(seen.heads, wanted, stream):
                cut_rows.keep_pin(self._session, stream, run_id, pin)
            return seen, pin

        with translated(f"hold the tables of {stream}"), self._taking_turns(stream):
            self._create_tables()
            return self._repeated(attempt)

    def require_derived(self, stream: StreamId, tables: Sequence[Table]) -> None:
        """`kinds.sink.KeepsColumnsOfDerived`."""
        if self._derived is None:
            return
        with translated(f"look at the derived tables of {stream}"):
            self._create_tables()
            self._derived.require_fit(self._session, stream, tables, self._heads())

    def drop_old_pins(self) -> int:
        """Give up what nobody has published for long; how many runs."""
        with translated("give up what no run publishes any more"):
            old = cut_rows.old_pins(self._session, self._destination.name, older_than=PINNED_FOR)
        for name, run_id in old:
            sync, _, destination = name.rpartition("@")
            self._unpin(StreamId(sync, destination), run_id)
        return len(old)

    def _unpin(self, stream: StreamId, run_id: str) -> None:
        def attempt() -> None:
            pin = cut_rows.read_pin(self._session, stream, run_id)
            heads = self._heads()
            left = {
                name: TableTags(dropped=[pin_tag(run_id)]) for name in (pin.snapshots if pin else ()) if name in heads
            }
            with self._tagged(heads, left, stream):
                cut_rows.forget_pin(self._session, str(stream), run_id)

        with translated(f"give up what run {run_id} holds"), self._taking_turns(stream):
            self._repeated(attempt)

    # ---- Cuts -------------------------------------------------------------------------------------------------------

    def lateness(self, sync: str, table: str, business_date: date, *, staged_as: str) -> Lateness | None:  # noqa: ARG002
        """Not counted: a cut holds the whole table."""
        return None

    def date_before(self, sync: str, business_date: date) -> Sequence[PublishedTable]:
        stream, schema = StreamId(sync, self._destination.name), self._destination.namespace
        with translated(f"look for the cut before {business_date} of {sync}"):
            found = cut_rows.tables_of_date_before(self._session, stream, business_date)
        return [PublishedTable(table, day, version, schema, tag) for table, day, version, tag in found]

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str = "") -> Published:  # noqa: ARG002
        """Tag what the run holds, all tables and the cut's rows in one transaction. Repeat-safe by the run's id.

        GateFailed: the run holds other snapshots than were compared. TransientError: pointers move all the time.
        """
        stream = StreamId(cut.sync, cut.destination)
        with translated(f"publish the cut of {cut.business_date} of {cut.sync}"), self._taking_turns(stream):
            self._create_tables()
            known = cut_rows.recorded(self._session, stream, cut.run_id)
            if known is not None:
                return self._repeat_of(known, stream, cut, signed_by)
            return self._repeated(lambda: self._publish(stream, cut, signed_by))

    def _publish(self, stream: StreamId, cut: StagedCut, signed_by: str) -> Published:
        pin = self._pin_of(stream, cut)
        version = cut_rows.next_version(self._session, stream, cut.business_date)
        names = {table.table for table in cut.tables}
        heads = self._heads()
        made = self._derived.moves(self._session, stream, cut, heads) if self._derived else ()
        snapshots = {**pin.snapshots, **{move.table: move.snapshot_id for move in made}}
        until = datetime.now(UTC) + pin.kept_for
        tag, over = tag_of(cut.business_date, version), [pin_tag(cut.run_id)]
        wanted = {
            name: TableTags([Tag(tag, number, until)] if name in names else (), over)
            for name, number in snapshots.items()
            if name in names or name in heads
        }
        there(heads, names - {move.table for move in made})
        with self._viewed(stream) as follow, self._tagged(heads, wanted, stream, made) as tagged:
            cut_rows.write_cut(self._session, stream, cut, version, snapshots=snapshots, signed_by=signed_by)
            cut_rows.forget_pin(self._session, str(stream), cut.run_id)
            follow(tagged)
        return Published(version, is_new=True, signed_by=signed_by)

    def _pin_of(self, stream: StreamId, cut: StagedCut) -> Pin:
        return require_compared(cut_rows.read_pin(self._session, stream, cut.run_id), cut)

    def _repeat_of(self, known: Recorded, stream: StreamId, cut: StagedCut, signed_by: str) -> Published:
        require_repeat_of(cut, KnownCut(stream.sync, known.business_date, known.position, known.has_expired))
        # Who has signed last: a later question about this very cut may have been answered by somebody else.
        signer = signed_by or known.signed_by
        if signer != known.signed_by:
            with self._viewed(stream) as follow, self._session.transaction():
                cut_rows.sign(self._session, stream, known.business_date, known.version, signer)
                follow(self._heads())
        return Published(known.version, is_new=False, signed_by=signer)

    # ---- CutStore ---------------------------------------------------------------------------------------------------

    def kept_cuts(self, sync: str) -> tuple[Sequence[KeptCut], datetime]:
        stream = StreamId(sync, self._destination.name)
        with translated(f"read the cuts of {sync}"):
            row = self._session.execute("SELECT clock_timestamp()").fetchone()
            now = row[0] if row else datetime.now(UTC)
            return tuple(self._kept(stream)), now

    def expire(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> Dropped:
        """Take the tags of these away, all in one transaction; a repeat finds them gone. What nobody holds any more is
        let go of with the table's old snapshots."""
        stream = StreamId(sync, self._destination.name)

        def attempt() -> Dropped:
            kept = self._kept(stream)
            gone = {(cut.table, cut.version): kept[cut] for cut in cuts if cut in kept}
            heads = self._heads()
            tags: dict[str, list[str]] = {}
            for table, version in gone:
                if table in heads:
                    tags.setdefault(table, []).append(tag_of(business_date, version))
            dropped = {name: TableTags(dropped=over) for name, over in tags.items()}
            with self._viewed(stream) as follow, self._tagged(heads, dropped, stream) as tagged:
                cut_rows.forget_tables(self._session, stream, business_date, gone)
                follow(tagged)
            return Dropped(sum(map(len, tags.values())))

        with translated(f"let the cut of {business_date} of {sync} expire"), self._taking_turns(stream):
            self._create_tables()
            return self._repeated(attempt)

    def expired(self, sync: str) -> Sequence[tuple[date, int]]:
        with translated(f"read the expired cuts of {sync}"):
            try:
                return cut_rows.expired(self._session, StreamId(sync, self._destination.name))
            except cut_rows.MISSING:
                return ()

    def _kept(self, stream: StreamId) -> dict[KeptCut, int]:
        """Each with its snapshot."""
        try:
            rows = cut_rows.kept(self._session, stream)
        except cut_rows.MISSING:
            return {}
        # A publish is one commit: nothing is ever half done.
        return {
            KeptCut(table, day, version, at, at, is_current, is_proven): number
            for table, day, version, at, is_current, is_proven, number in rows
        }

    # ---- one transaction --------------------------------------------------------------------------------------------

    @contextmanager
    def _tagged(
        self,
        heads: Mapping[str, str],
        wanted: Mapping[str, TableTags],
        stream: StreamId,
        made: Sequence[PointerMove] = (),
    ) -> Iterator[Mapping[str, str]]:
        """Move the pointers of all tables to their new tags and commit, with what the caller writes inside.

        Yields where the pointers of all tables lead once this is committed. `heads` may be older. `made`: tables that
        get other rows in the same step. PointerMoved: a table is not there any more, or one of `made` has moved.
        """
        staged: dict[str, Tagged] = {}
        try:
            with self._session.transaction():
                # The stream waits for us: one that commits all the time would be ahead of each attempt.
                held = self._catalogue.held(self._session, self._destination.namespace, wanted)
                begun = {**held, **_made_from(held, made)}
                with kept_open(self._session):
                    self._stage_tags(wanted, begun, staged, mark=f"{stream.sync}-cut")
                moves = [
                    *(move for move in made if move.table not in staged),
                    *(
                        PointerMove(name, held.get(name, ""), one.location, one.snapshot_id)
                        for name, one in staged.items()
                    ),
                ]
                self._failpoints.reach("lake.tags_written")
                yield {**heads, **held, **{move.table: move.new for move in moves}}
                self._failpoints.reach("lake.cut_recorded")
                self._catalogue.move(
                    self._session,
                    self._destination.namespace,
                    moves,
                    between=lambda: self._failpoints.reach("lake.cut_half"),
                )
            self._failpoints.reach("lake.cut_committed")
        except (PointerMoved, Refused):
            for one in staged.values():
                one.drop()
            raise
        for one in staged.values():
            one.drop_unneeded()

    def _stage_tags(
        self, wanted: Mapping[str, TableTags], begun: Mapping[str, str], staged: dict[str, Tagged], *, mark: str
    ) -> None:
        """Many at once: the stream waits. What was made is in `staged`, also where one of them fails."""
        locations = {name: _held(begun, name) for name in wanted}
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            made = {
                name: pool.submit(self._tags.staged, name, locations[name], tags, mark=mark)
                for name, tags in wanted.items()
            }
        for name, one in made.items():
            if one.exception() is None and (found := one.result()) is not None:
                staged[name] = found
        for one in made.values():
            one.result()

    @contextmanager
    def _viewed(self, stream: StreamId) -> Iterator[Callable[[Mapping[str, str]], None]]:
        """What lets the views follow, once, inside a transaction that ends within this one."""
        followed: list[Followed] = []
        if self._views is not None:
            self._views.look(self._session)

        def follow(heads: Mapping[str, str]) -> None:
            if self._views is not None:
                with kept_open(self._session):
                    followed.append(self._views.follow(self._session, stream, heads))

        try:
            yield follow
        except (PointerMoved, Refused):
            self._drop_views(location for one in followed for location in one.added)
            raise
        self._drop_views(location for one in followed for location in one.unneeded)

    def _drop_views(self, locations: Iterable[str]) -> None:
        if self._views is not None:
            self._views.drop_files(locations)

    @contextmanager
    def _taking_turns(self, stream: StreamId) -> Iterator[None]:
        """Versions are counted under it. Streams do not wait for it."""
        lock = f"seamline cuts of {stream}"
        self._session.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (lock,))
        try:
            yield
        finally:
            if not self._session.closed:
                self._session.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (lock,))

    def _create_tables(self) -> None:
        create_tables(self._session, self._catalogue)
        with self._session.transaction():
            cut_rows.create_tables(self._session)

    def _heads(self) -> Mapping[str, str]:
        return self._catalogue.pointers(self._session, self._destination.namespace)

    @staticmethod
    def _repeated(attempt: Callable[[], DoneT]) -> DoneT:
        """Again from the pointers that stand now, where one has moved."""
        for _ in range(_ATTEMPTS):
            try:
                return attempt()
            except PointerMoved as moved:
                table = str(moved)
        raise TransientError(
            f"the pointer of {table} has moved {_ATTEMPTS} times while it was tagged", hint="try again", table=table
        )


def open_cuts(
    destination: DestinationPlan,
    catalogue: Pointers,
    tags: Tagging,
    views: CutViews | None = None,
    derived: CutDerived | None = None,
) -> LakeCuts:
    """In a session of their own."""
    session = open_session(resolve(destination.connection), application_name="seamline cuts")
    armed = armed_failpoints.from_environment(settings.process_environment())
    return LakeCuts(destination, catalogue, session, tags, views, derived, failpoints=armed)


def pin_live(
    cuts: Pinning, plan: SyncPlan, destination: DestinationPlan, count: int, *, run_id: str, live: Live
) -> PinnedTables:
    """`kinds.sink.CutsLiveTables`. `live` reads a table where its pointer leads."""
    if plan.nightly is None:
        raise Refused(f"sync {plan.sync} declares no nightly cut", hint="add `nightly:` to the sync", sync=plan.sync)
    stream, tables = plan.stream_id(destination.name), [table.name for table in plan.tables]
    seen, pin = cuts.pin(stream, tables, run_id=run_id, kept_for=plan.nightly.keep.at_most)
    staged_as = {name: str(number) for name, number in pin.snapshots.items()}
    return PinnedTables([view_of(plan, seen, live)] * count, staged_as)


def require_compared(pin: Pin | None, cut: StagedCut) -> Pin:
    """What the run of a cut holds, if it is what was compared. Refused: it holds nothing any more."""
    if pin is None:
        raise Refused(
            f"{cut.destination} holds no tables for run {cut.run_id} any more",
            hint=f"they are held for {PINNED_FOR.days} days: run the task `cut` again",
            sync=cut.sync,
        )
    held = [table for table in cut.tables if table.mode is not CutMode.DERIVED]
    others = [table.table for table in held if str(pin.snapshots.get(table.table)) != table.staged_as]
    # The ledger may name the same place by another address in the log than the source, as the barrier knows.
    if others or not is_same_place(pin.position, cut.position):
        raise GateFailed(
            f"run {cut.run_id} holds {', '.join(others) or 'its tables'} at {pin.position}, compared at"
            f" {cut.position}: they are not what was compared",
            hint="nothing was published: run the task `cut` again",
            sync=cut.sync,
        )
    return pin


def pin_tag(run_id: str) -> str:
    """Of the run's own, under a name that any client takes."""
    return f"{OF_RUNS}{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"


def _made_from(held: Mapping[str, str], made: Sequence[PointerMove]) -> dict[str, str]:
    """Where the pointers of tables with other rows are to lead, if they still stand where these rows go on from."""
    for move in made:
        if held.get(move.table, "") != move.old:
            raise PointerMoved(move.table)
    return {move.table: move.new for move in made}


def _held(held: Mapping[str, str], table: str) -> str:
    if table not in held:
        raise PointerMoved(table)
    return held[table]


def there(heads: Mapping[str, str], tables: Sequence[str] | set[str]) -> dict[str, str]:
    """The tables with their metadata files."""
    for table in sorted(tables):
        if table not in heads:
            raise Refused(f"table {table} is not in the catalogue", hint="onboard it again", table=table)
    return {table: heads[table] for table in tables}
