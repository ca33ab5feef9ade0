"""Tables get their place: a publish, and a joining. Readers see rows come one by one; the ledger moves last.

First the stream is fenced, by an epoch of its own, so nobody else writes rows meanwhile. A repeat begins again, with
higher numbers than what it finds.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from seamline.domain.catalogue import Table
from seamline.domain.cutover import Boundary
from seamline.domain.errors import GateFailed, NotCaughtUp, Refused, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.kinds.ledger_json import stream_of
from seamline.kinds.ledger_rules import is_caught_up, row_of_publish, with_tables
from seamline.plan.list_change import kept_name
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports import Commit, Joining, Load, Publication
from seamline.sinks.hbase.findings import forget_findings, keep_findings, kept_findings
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.ledger import Known, Ledgers, State, now_ms, require_placed
from seamline.sinks.hbase.places import Place, Places, staged_key, table_key
from seamline.sinks.hbase.reading import staged_view
from seamline.sinks.hbase.rows import scanned
from seamline.sinks.hbase.undo import forget_all, forget_unnamed, put_back

# A busy stream may commit between our look at its ledger and our own write.
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Move:
    """The rows of `origin` become those of the live table. `rows`: how many they must be; None: as there are."""

    table: str
    origin: Place
    rows: int | None = None


class Placing:
    """`send`: moves the ledger, whose answer may be lost; None where it has moved."""

    def __init__(
        self,
        store: Store,
        ledgers: Ledgers,
        stream: StreamId,
        destination: DestinationPlan,
        *,
        send: Callable[[Known | None, State], Known | None],
    ) -> None:
        self._store = store
        self._ledgers = ledgers
        self._stream = stream
        self._destination = destination
        self._places = Places.of(destination)
        self._send = send

    def publish(self, loads: Sequence[Load], publication: Publication) -> Commit:
        self._ledgers.make()
        self._store.make(self._places.beside)
        known = self._ledgers.read(self._stream)
        if known is not None and publication.run_id in known.state.runs:
            return self._published(known, loads, publication)
        moves = [Move(one.table.name, self._places.staged(one.staged_as), one.rows) for one in loads]
        for load in loads:
            self._require_staged(load)
            self._require_as_compared(load, publication)
        self._own([load.table for load in loads])
        for _ in range(_ATTEMPTS):
            if known is not None and publication.run_id in known.state.runs:
                return self._published(known, loads, publication)
            row = row_of_publish(self._stream, known.state.row if known else None, publication)
            begun = self._fenced(known, row, placing=publication.run_id)
            left = {one.table for one in row.boundaries} - {load.table.name for load in loads}
            kept_as = {name: kept_name(name, publication.run_id) for name in left}
            self._put_in_place(moves, begun)
            forget_findings(self._store, self._places, self._stream, [*left, *(move.table for move in moves)])
            # Nothing of what was ahead is in the tables any more.
            after = replace(begun.state, row=row, ahead=0, before="", placing="")
            done = self._finish(known and begun, after, publication.boundaries, kept_as, publication.run_id)
            if done is not None:
                return self._published(done, loads, publication)
            known = self._ledgers.read(self._stream)
        raise self._moves_on()

    def join(self, joining: Joining) -> Commit:
        for _ in range(_ATTEMPTS):
            known = self._ledgers.read(self._stream)
            if known is None:
                raise Refused(
                    f"nothing was published for {self._stream}", hint="onboard the sync first", sync=self._stream.sync
                )
            if joining.run_id in known.state.runs:
                return self._joined(known, joining)
            require_placed(known.state)
            passed = self._passed(joining, known.state.row)
            self._own(joining.tables)
            fenced = self._fenced(known, replace(known.state.row, epoch=known.state.row.epoch + 1))
            begun = put_back(self._store, self._ledgers, self._places, fenced)
            if begun is None:
                raise self._moves_on()
            names = [table.name for table in joining.tables]
            from_there = joining.incremental_namespace
            self._put_in_place([Move(name, self._places.live(from_there, name)) for name in names], begun)
            entering = [one for one in passed.state.row.boundaries if one.table in names] if passed else []
            found = kept_findings(self._store, self._places, passed) if passed else []
            forget_findings(self._store, self._places, self._stream, [*names, *joining.kept_as])
            keep_findings(self._store, self._places, begun.state, [one for _, one in found])
            state = begun.state.with_findings(len(found))
            done = self._finish(begun, state, entering, joining.kept_as, joining.run_id)
            if done is not None:
                self._end_snapshots()
                return self._joined(done, joining)
        raise self._moves_on()

    # ---- steps ------------------------------------------------------------------------------------------------------

    def _fenced(self, known: Known | None, row: LedgerRow, *, placing: str = "") -> Known:
        """The ledger where it stands, under the next epoch, with numbers of its own for the rows that come. `placing`:
        the run that puts others in place of all."""
        if known is None:
            return Known(State(row, now_ms()).reserving(1), None)
        before = known.state.row
        begun = self._ledgers.changed(
            known,
            lambda state: replace(state.reserving(1), row=replace(before, epoch=row.epoch), placing=placing),
        )
        if begun is None:
            raise self._moves_on()
        return begun

    def _put_in_place(self, moves: Sequence[Move], begun: Known) -> None:
        number = begun.state.first_number(1)
        for move in moves:
            live, origin = self._places.live(self._destination.namespace, move.table), move.origin
            # Into an empty table an older owner may write late, and NULL is no cell that would hide its values.
            had_owner = begun.stored is not None
            is_over = had_owner or bool(len(bytes(self._store.scan(live.table, live.prefix, live.end, 1))))
            copied = self._store.copy(origin.table, origin.prefix, origin.end, live.table, live.prefix, number, is_over)
            if move.rows is not None and copied != move.rows:
                raise TransientError(f"{copied} of {move.rows} rows of {move.table} were there to be put in place")
            if is_over:
                self._store.sweep(live.table, live.prefix, live.end, number)

    def _finish(
        self,
        known: Known | None,
        state: State,
        entering: Sequence[Boundary],
        kept_as: Mapping[str, str],
        run_id: str,
    ) -> Known | None:
        """The ledger moves. What leaves is kept before; it goes behind it."""
        for name, kept in kept_as.items():
            live = self._places.live(self._destination.namespace, name).table
            if self._store.exists(live):
                self._store.keep(live, self._places.live(self._places.namespace, kept).table)
        row, generations = with_tables(state.row, dict(state.generations), entering, left=list(kept_as))
        after = replace(
            state.reserving(1),
            row=row,
            generations=tuple(generations.items()),
            runs=(*state.runs, run_id),
        )
        return self._send(known, after)

    def _published(self, known: Known, loads: Sequence[Load], publication: Publication) -> Commit:
        """What comes behind the ledger, also of an attempt before."""
        self._let_go(known, lambda name: kept_name(name, publication.run_id))
        self._drop([load.staged_as for load in loads])
        forget_unnamed(self._store, self._places, known)
        return Commit(known.state.row)

    def _joined(self, known: Known, joining: Joining) -> Commit:
        self._let_go(known, joining.kept_as.get)
        if joining.incremental_stream is not None:
            end_snapshot(self._store, self._ledgers, self._destination, str(joining.incremental_stream))
        return Commit(known.state.row)

    def _let_go(self, known: Known, kept_as: Callable[[str], str | None]) -> None:
        """Remove the tables that this stream has made, its ledger does not have any more, and whose rows this run has
        kept; `kept_as`: under which name."""
        there = {one.table for one in known.state.row.boundaries}
        for name in self._owned():
            kept = kept_as(name)
            if name in there or kept is None:
                continue
            if self._store.exists(self._places.live(self._places.namespace, kept).table):
                self._store.remove(self._places.live(self._destination.namespace, name).table)
                self._disown(name)

    def _passed(self, joining: Joining, row: LedgerRow) -> Known | None:
        """The ledger of the incremental snapshot, which stands where the stream does. None: no table enters."""
        stream = joining.incremental_stream
        if stream is None:
            return None
        passed = self._ledgers.read(stream)
        if passed is None or not is_caught_up(passed.state.row, row):
            at = f"offset {passed.state.row.next_offset}" if passed else "no place yet"
            raise NotCaughtUp(
                f"{self._stream} stands at offset {row.next_offset}, its incremental snapshot at {at}",
                sync=self._stream.sync,
            )
        return passed

    def _end_snapshots(self) -> None:
        for name in list(self._ledgers.streams()):
            if not is_incremental(name, self._stream):
                continue
            end_snapshot(self._store, self._ledgers, self._destination, name)

    # ---- who has made what ------------------------------------------------------------------------------------------

    def _own(self, tables: Sequence[Table]) -> None:
        """Make the tables that are not there. Refused: one was made by somebody else."""
        for table in tables:
            place = self._places.live(self._destination.namespace, table.name)
            if place.prefix:
                self._store.make(place.table)
                continue
            require_own(self._store, self._places, table.name, str(self._stream))
            self._store.make(place.table)

    def _owned(self) -> list[str]:
        """The tables that this stream has made."""
        mine, first = str(self._stream), b"table/"
        rows = list(scanned(self._store, Place(self._places.own, first)))
        return [key.removeprefix(first).decode() for key, cells in rows if cells["s"] == mine]

    def _disown(self, name: str) -> None:
        key = table_key(name)
        owner = self._store.value(self._places.own, key)
        if owner is not None:
            self._store.forget(self._places.own, key, owner)

    def _require_staged(self, load: Load) -> None:
        place = self._places.staged(load.staged_as)
        if self._store.value(self._places.own, staged_key(load.staged_as)) is None:
            raise Refused(f"the staged table of {load.table.name} is gone", hint="load it again", table=load.table.name)
        found = self._store.count(place.table, place.prefix, place.end)
        if found != load.rows:
            raise _changed(load, f"{found} rows")

    def _require_as_compared(self, load: Load, publication: Publication) -> None:
        if load.digest is None:
            return
        with staged_view(self._store, self._places, load, publication.position) as view:
            found = view.digest_of(load)
        if found != (load.digest.whole or load.digest.digest):
            raise _changed(load, "other values")

    def _drop(self, staged: Collection[str]) -> None:
        for name in staged:
            drop_staged(self._store, self._places, name)

    def _moves_on(self) -> TransientError:
        return TransientError(
            f"the ledger of {self._stream} moved while tables were put in place",
            hint="it is tried again",
            sync=self._stream.sync,
        )


def require_own(store: Store, places: Places, table: str, stream: str) -> None:
    """Say that the table is this stream's. Refused: it is another's, or there without one of ours."""
    key, mine = table_key(table), stream.encode()
    owner = store.value(places.own, key)
    if owner is None and not store.exists(places.live(places.namespace, table).table):
        store.exchange(places.own, key, None, mine)
        owner = store.value(places.own, key)
    if owner is None or bytes(owner) != mine:
        by = bytes(owner).decode() if owner is not None else "nobody of ours"
        raise Refused(
            f"table {table} is there already, made by {by}",
            hint="choose another namespace, or take the table out of that sync",
            table=table,
        )


def drop_staged(store: Store, places: Places, name: str) -> None:
    place, key = places.staged(name), staged_key(name)
    said = store.value(places.own, key)
    if said is not None:
        store.sweep(place.table, place.prefix, place.end, json.loads(bytes(said))["number"] + 2)
        store.forget(places.own, key, said)


def is_incremental(name: str, stream: StreamId) -> bool:
    return name.startswith(f"{stream.sync}{INCREMENTAL}") and name.endswith(f"@{stream.destination}")


def end_snapshot(store: Store, ledgers: Ledgers, destination: DestinationPlan, name: str) -> bool:
    """An incremental snapshot and its rows; False where it has moved meanwhile."""
    stream, places = stream_of(name), Places.of(destination)
    known = ledgers.read(stream)
    if known is None or not ledgers.forget(known):
        return False
    number = stream.sync.partition(INCREMENTAL)[2]
    rows = places.of_snapshot(replace(destination, namespace=places.namespace).incremental_namespace(number))
    store.sweep(rows.table, rows.prefix, rows.end, known.state.number + 2)
    forget_all(store, places, known)
    forget_findings(store, places, stream, None)
    return True


def _changed(load: Load, what: str) -> GateFailed:
    return GateFailed(
        f"the staged table of {load.table.name} now holds {what}; {load.rows} rows were compared with the source",
        hint="nothing was published. Somebody changed it: clear the task that staged it",
        table=load.table.name,
    )
