"""Tables get their place: a publish, and a joining. Each is one script, so nobody sees a part of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seamline.domain.cutover import Boundary
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import GateFailed, InvariantViolated, NotCaughtUp, Refused, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.plan.list_change import kept_name
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports import Commit, Joining, Load, Publication
from seamline.sinks.redis import ledger as ledgers
from seamline.sinks.redis.answers import refusal
from seamline.sinks.redis.keys import Keyspace, TableKeys
from seamline.sinks.redis.options import rows_max_of
from seamline.sinks.redis.reading import staged_view
from seamline.sinks.redis.removing import forget_tables, forgotten
from seamline.sinks.redis.scripts import PLACE
from seamline.sinks.redis.session import Session, packed, translated

# A busy stream may commit between our look at its ledger and our script.
_ATTEMPTS = 50
_NOWHERE = [False, False, False]


@dataclass(frozen=True, slots=True)
class Move:
    """A table leaves one place for another. `staged_as`: of a staged one, with as many rows as were loaded."""

    table: str
    origin: TableKeys
    to: TableKeys
    is_kept: bool = False
    staged_as: str | None = None
    rows: int | None = None

    def for_script(self) -> Mapping[str, Any]:
        found = {"table": self.table, "is_kept": self.is_kept, "staged": self.staged_as, "count": self.rows}
        return {**found, "from": _of_keys(self.origin), "to": _of_keys(self.to)}


class Placing:
    """`send`: runs a script whose answer may be lost."""

    def __init__(
        self, session: Session, stream: StreamId, destination: DestinationPlan, *, send: Callable[..., Any]
    ) -> None:
        self._session = session
        self._stream = stream
        self._destination = destination
        self._send = send
        self._keys = Keyspace.of(destination)
        self._rows_max = rows_max_of(destination)

    def publish(self, loads: Sequence[Load], publication: Publication) -> Commit:
        if not self._is_done(publication.run_id):
            for load in loads:
                self._require_as_compared(load, publication)
        for _ in range(_ATTEMPTS):
            fields = ledgers.read_fields(self._session, self._keys, self._stream)
            known = ledgers.row_of(self._stream, fields) if fields else None
            names = {load.table.name for load in loads}
            left = _carried(known) - names
            moves = self._set_aside({name: kept_name(name, publication.run_id) for name in left})
            moves += [self._put_in_place(load) for load in loads]
            written = {
                "topic": publication.topic,
                "topic_id": publication.topic_id,
                "next_offset": str(publication.next_offset),
                "position": ledgers.position_text(publication.position),
                "committed_ms": "0",
                "last_marker": "",
                **_lives(fields, known, publication.boundaries, left=left),
            }
            expected = [self._stands(self._stream, known)]
            answer = self._place(publication.run_id, expected, moves, written, over=names | left)
            if answer is not None:
                return answer
        raise self._moves_on()

    def join(self, joining: Joining) -> Commit:
        names = [table.name for table in joining.tables]
        commit = None
        for _ in range(_ATTEMPTS):
            fields = ledgers.read_fields(self._session, self._keys, self._stream)
            if not fields:
                raise Refused(
                    f"nothing was published for {self._stream}", hint="onboard the sync first", sync=self._stream.sync
                )
            known = ledgers.row_of(self._stream, fields)
            passed = self._passed(joining, known)
            moves = self._set_aside(joining.kept_as)
            moves += [self._let_in(name, joining.incremental_namespace) for name in names if passed is not None]
            entering = [one for one in passed.boundaries if one.table in names] if passed else []
            written = _lives(fields, known, entering, left=joining.kept_as)
            expected = [self._stands(one.stream, one) for one in (known, passed) if one is not None]
            commit = self._place(
                joining.run_id, expected, moves, written, over={*names, *joining.kept_as}, taken=passed, ends=True
            )
            if commit is not None:
                break
        if commit is None:
            raise self._moves_on()
        forget_tables(self._session, self._keys, self._is_over)
        return commit

    def _is_over(self, owner: str) -> bool:
        """Tables of incremental snapshots into this stream."""
        return _is_incremental(owner, self._stream)

    def _is_done(self, run_id: str) -> bool:
        with translated("look for a run"):
            return bool(self._session.client.sismember(self._keys.of_stream("runs", self._stream), run_id))

    # ---- parts of a request -----------------------------------------------------------------------------------------

    def _passed(self, joining: Joining, known: LedgerRow) -> LedgerRow | None:
        """The ledger of the incremental snapshot, which stands where the stream does. None: no table enters, or the run
        is done."""
        stream = joining.incremental_stream
        if stream is None or self._is_done(joining.run_id):
            return None
        passed = ledgers.read_ledger(self._session, self._keys, stream)
        if passed is None or (passed.topic_id, passed.next_offset) != (known.topic_id, known.next_offset):
            at = f"offset {passed.next_offset}" if passed else "no place yet"
            raise NotCaughtUp(
                f"{self._stream} stands at offset {known.next_offset}, its incremental snapshot at {at}",
                sync=self._stream.sync,
            )
        return passed

    def _set_aside(self, kept_as: Mapping[str, str]) -> list[Move]:
        live = self._destination.namespace
        return [
            Move(name, self._keys.live(live, name), self._keys.live(live, kept), is_kept=True)
            for name, kept in kept_as.items()
        ]

    def _put_in_place(self, load: Load) -> Move:
        name = load.table.name
        origin, to = self._keys.staged(load.staged_as), self._keys.live(self._destination.namespace, name)
        return Move(name, origin, to, staged_as=load.staged_as, rows=load.rows)

    def _let_in(self, name: str, namespace: str) -> Move:
        return Move(name, self._keys.live(namespace, name), self._keys.live(self._destination.namespace, name))

    def _stands(self, stream: StreamId, row: LedgerRow | None) -> Mapping[str, Any]:
        at = ledgers.place_of(row) if row is not None else _NOWHERE
        return {"ledger": self._keys.of_stream("ledger", stream), "at": at}

    def _place(
        self,
        run_id: str,
        expected: Sequence[Mapping[str, Any]],
        moves: Sequence[Move],
        written: Mapping[str, str],
        *,
        over: Collection[str],
        taken: LedgerRow | None = None,
        ends: bool = False,
    ) -> Commit | None:
        """None where a ledger has moved meanwhile. `ends`: all incremental snapshots into this stream end with it."""
        request = {
            "stream": str(self._stream),
            "run_id": run_id,
            "expected": expected,
            "moves": [move.for_script() for move in moves],
            "fields": [part for pair in written.items() for part in pair],
            "over": sorted(over),
            "taken": self._keys.of_stream("findings", taken.stream) if taken else None,
            "forgotten": self._incremental_streams() if ends else [],
            "rows_max": self._rows_max,
        }
        keys = [self._keys.of_stream(name, self._stream) for name in ("ledger", "runs", "findings")]
        keys += [self._keys.own(name) for name in ("tables", "streams", "staged", "written")]
        status, *answer = self._send(PLACE, keys, packed(request))
        if status == b"STALE":
            return None
        if status != b"DONE":
            raise refusal(status, answer, sync=self._stream.sync, rows_max=self._rows_max)
        if not answer[0]:
            raise InvariantViolated(f"{self._stream} is published but has no ledger")
        return Commit(ledgers.row_of(self._stream, ledgers.fields_of(answer[0])))

    def _incremental_streams(self) -> list[Mapping[str, Any]]:
        with translated("look for incremental snapshots"):
            names = self._session.members(self._keys.own("streams"))
        over = [name for name in names if _is_incremental(name, self._stream)]
        return [forgotten(self._keys, name) for name in over]

    def _require_as_compared(self, load: Load, publication: Publication) -> None:
        if load.digest is None:
            return
        with staged_view(self._session, self._keys, load, publication.position) as view:
            found = view.digest_of(load)
        if found != (load.digest.whole or load.digest.digest):
            raise _changed(load, found, publication)

    def _moves_on(self) -> TransientError:
        return TransientError(
            f"the ledger of {self._stream} moved {_ATTEMPTS} times while tables were put in place",
            hint="it is tried again",
            sync=self._stream.sync,
        )


def _changed(load: Load, found: SegmentDigest, publication: Publication) -> GateFailed:
    what = "other values" if found.rows == load.rows else f"{found.rows} rows"
    return GateFailed(
        f"the staged table of {load.table.name} now holds {what}; {load.rows} rows were compared with the source at"
        f" {publication.position}",
        hint="nothing was published. Somebody changed it: clear the task that staged it",
        table=load.table.name,
    )


def _is_incremental(name: str, stream: StreamId) -> bool:
    return name.startswith(f"{stream.sync}{INCREMENTAL}") and name.endswith(f"@{stream.destination}")


def _carried(ledger: LedgerRow | None) -> set[str]:
    return {boundary.table for boundary in ledger.boundaries} if ledger else set()


def _of_keys(keys: TableKeys) -> Mapping[str, str]:
    return {"rows": keys.rows, "index": keys.index, "name": keys.name}


def _lives(
    fields: ledgers.Fields, known: LedgerRow | None, entering: Sequence[Boundary], *, left: Collection[str]
) -> dict[str, str]:
    """The boundaries of the tables that enter, in their next generation, and without those that left."""
    lives: dict[str, int] = ledgers.generations_of(fields)
    fresh = {one.table: replace(one, generation=lives.get(one.table, 0) + 1) for one in entering}
    stay = {one.table: one for one in (known.boundaries if known else ()) if one.table not in left}
    lives |= {name: one.generation for name, one in fresh.items()}
    return {
        "boundaries": ledgers.boundaries_text([*{**stay, **fresh}.values()]),
        "generations": ledgers.generations_text(lives),
    }
