"""MemorySink: the Sink contract without a server, for tests of everything that stands above a destination.

`MemoryDestination` is the database, which outlives sinks; each `MemorySink` is one session's view of it. Rows are kept
as the JSON values of their images.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, KeyedChange, TableChanges
from seamline.domain.cutover import Boundary
from seamline.domain.errors import (
    CommitUnknown,
    Diverged,
    Fenced,
    GateFailed,
    InvariantViolated,
    NotCaughtUp,
    Refused,
    SchemaConflict,
)
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.domain.unavailable_values import filled, filled_row, lacks_values
from seamline.plan.list_change import kept_name
from seamline.plan.model import INCREMENTAL, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed

Key = tuple[Any, ...]
JsonRow = dict[str, Any]


class LostAnswer(Enum):
    """What becomes of the next commit whose answer is lost."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"


@dataclass(slots=True)
class MemoryDestination:
    """Committed state. `keyed` and `keyless` hold the live tables, `staged` whole tables before their publish."""

    keyed: dict[str, dict[Key, JsonRow]] = field(default_factory=dict)
    keyless: dict[str, Counter[str]] = field(default_factory=dict)
    staged: dict[str, list[JsonRow]] = field(default_factory=dict)
    chunks: dict[tuple[StreamId, int], list[TableChanges]] = field(default_factory=dict)
    ledgers: dict[StreamId, LedgerRow] = field(default_factory=dict)
    publications: set[tuple[StreamId, str]] = field(default_factory=set)
    generations: dict[tuple[StreamId, str], int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    commits: int = 0
    lose_answer: LostAnswer | None = None

    def rows(self, table: Table) -> list[JsonRow]:
        """The live rows, in no order."""
        if table.is_keyed:
            return list(self.keyed.get(table.name, {}).values())
        return [
            json.loads(text) for text, copies in self.keyless.get(table.name, Counter()).items() for _ in range(copies)
        ]


class MemorySink:
    """ports.Sink over a MemoryDestination."""

    def __init__(self, plan: SyncPlan, database: MemoryDestination, *, failpoints: Failpoints | None = None) -> None:
        self._tables = {entry.name: entry.definition for entry in plan.tables}
        # The tables of an incremental snapshot lie beside the live ones.
        self._schema = plan.destinations[0].schema if plan.is_incremental else ""
        self._database = database
        self._failpoints = failpoints or Unarmed()
        self._row: LedgerRow | None = None

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        return self._database.ledgers.get(stream)

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        row = self._database.ledgers.get(stream)
        if row is None:
            raise Refused(f"the destination holds no ledger of {stream}", hint="onboard the sync first")
        if after_epoch is not None and self._row is not None:
            refuse_one_that_went_back(row, confirmed=self._row)
        if after_epoch is not None and row.epoch != after_epoch:
            raise Fenced(f"{stream}: epoch {after_epoch} is over, the ledger's is {row.epoch}")
        row = replace(row, epoch=row.epoch + 1)
        self._database.ledgers[stream] = row
        for owner in [owner for owner in self._database.chunks if owner[0] == stream and owner[1] < row.epoch]:
            del self._database.chunks[owner]
        self._row = row
        return Lease(stream, row.epoch, row)

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        self._check_columns(changes)
        changes = self._with_old_values(lease, changes)
        if changes.chunk:
            self._database.chunks.setdefault((lease.stream, lease.epoch), []).append(changes)
        return Staged(changes.table, changes)

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        database = self._database
        before = database.ledgers.get(lease.stream)
        if before is None:
            raise Fenced(f"{lease.stream}: epoch {lease.epoch} is over, its ledger is gone")
        confirmed = self._row if self._row and self._row.epoch == lease.epoch else lease.ledger
        refuse_one_that_went_back(before, confirmed=confirmed)
        if _is_my_lost_answer(before, lease, progress):
            return Commit(before)
        keyed = {name: dict(rows) for name, rows in database.keyed.items()}
        keyless = {name: Counter(rows) for name, rows in database.keyless.items()}
        findings: list[Finding] = []
        for number, changes in enumerate(_joined(staged)):
            place = _place(self._schema, changes.table)
            if self._tables[changes.table].is_keyed:
                findings += _apply_keyed(self._tables[changes.table], keyed.setdefault(place, {}), changes)
            else:
                _apply_keyless(keyless.setdefault(place, Counter()), changes)
            if number == 0:
                self._failpoints.reach("app.dml_half")
        row = _advanced(before, progress)
        lost, database.lose_answer = database.lose_answer, None
        if lost is not LostAnswer.NOT_APPLIED:
            database.keyed, database.keyless = keyed, keyless
            database.ledgers[lease.stream] = row
            database.chunks.pop((lease.stream, lease.epoch), None)
            database.findings += findings
            database.commits += 1
        if lost is not None:
            raise CommitUnknown("the answer of the commit is lost")
        self._row = row
        return Commit(row, tuple(findings), len(findings))

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        database = self._database
        if (stream, publication.run_id) in database.publications:
            return Commit(database.ledgers[stream])
        known = database.ledgers.get(stream)
        keyed, keyless = dict(database.keyed), dict(database.keyless)
        entering = {boundary.table for boundary in publication.boundaries}
        left = [b.table for b in known.boundaries if b.table not in entering] if known else []
        for tables in (keyed, keyless):
            _rename(tables, [(name, kept_name(name, publication.run_id)) for name in left])
        for load in loads:
            if load.staged_as not in database.staged:
                raise Refused(f"the staged table {load.staged_as} is gone", table=load.table.name)
            if len(database.staged[load.staged_as]) != load.rows:
                raise GateFailed(f"the staged table {load.staged_as} does not hold {load.rows} rows")
            rows, place = database.staged[load.staged_as], _place(self._schema, load.table.name)
            if load.table.is_keyed:
                keyed[place] = {_key_of(load.table, row): row for row in rows}
            else:
                keyless[place] = Counter(_canonical(row) for row in rows)
        row = LedgerRow(
            stream,
            publication.topic,
            publication.topic_id,
            publication.next_offset,
            publication.position,
            known.epoch + 1 if known else 1,
            known.applied_transactions if known else 0,
            0,
            known.boundaries if known else (),
        )
        row = replace(row, boundaries=self._boundaries(row, publication.boundaries, left=left))
        self._publish(row, keyed, keyless, publication.run_id)
        return Commit(row)

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        database = self._database
        known = database.ledgers.get(stream)
        if known is None:
            raise Refused(f"nothing was published for {stream}", hint="onboard the sync first")
        if (stream, joining.run_id) in database.publications:
            return Commit(known)
        passed = database.ledgers.get(joining.incremental_stream) if joining.incremental_stream else None
        if joining.incremental_stream and (passed is None or _at(passed) != _at(known)):
            raise NotCaughtUp(f"{stream} stands at {known.next_offset}, its incremental snapshot elsewhere")
        keyed, keyless = dict(database.keyed), dict(database.keyless)
        moves = [
            *joining.kept_as.items(),
            *((_place(joining.incremental_schema, one.name), one.name) for one in joining.tables),
        ]
        for tables in (keyed, keyless):
            _rename(tables, moves)
        names = {table.name for table in joining.tables}
        row = replace(
            known,
            epoch=known.epoch + 1,
            boundaries=self._boundaries(
                known, [b for b in (passed.boundaries if passed else ()) if b.table in names], left=joining.kept_as
            ),
        )
        snapshots = [one for one in database.ledgers if one.sync.startswith(f"{stream.sync}{INCREMENTAL}")]
        self._publish(row, keyed, keyless, joining.run_id, ended=snapshots)
        return Commit(row)

    def _boundaries(
        self, known: LedgerRow, entering: Sequence[Boundary], *, left: Collection[str] = ()
    ) -> tuple[Boundary, ...]:
        """Those that were, without tables that left, and the next generation of those that enter."""
        lives = self._database.generations
        stay = {b.table: b for b in known.boundaries if b.table not in left}
        fresh = {b.table: replace(b, generation=lives.get((known.stream, b.table), 0) + 1) for b in entering}
        return tuple({**stay, **fresh}.values())

    def _publish(
        self,
        row: LedgerRow,
        keyed: dict[str, dict[Key, JsonRow]],
        keyless: dict[str, Counter[str]],
        run_id: str,
        *,
        ended: Sequence[StreamId] = (),
    ) -> None:
        database = self._database
        lost, database.lose_answer = database.lose_answer, None
        if lost is not LostAnswer.NOT_APPLIED:
            database.keyed, database.keyless = keyed, keyless
            database.ledgers[row.stream] = row
            database.generations.update({(row.stream, b.table): b.generation for b in row.boundaries})
            database.publications.add((row.stream, run_id))
            for over in ended:
                _forget(database, over)
        if lost is not None:
            raise CommitUnknown("the answer of the publish is lost")

    def close(self) -> None:
        return

    def _with_old_values(self, lease: Lease, changes: TableChanges) -> TableChanges:
        """Changes of key with the values that the log left out: those of the row under the old key."""
        table = self._tables[changes.table]
        chunks = self.spill(lease, changes.table)
        stored = self._database.keyed.get(_place(self._schema, changes.table), {})
        wanting = [change for change in changes.keyed if change.taken_from and not change.is_delete]
        ledger = self._database.ledgers.get(lease.stream)
        if wanting and (ledger is None or ledger.epoch != lease.epoch):
            # A server ends the sessions of an owner that is over, so it reads nothing of what came after it.
            raise Fenced(f"{lease.stream}: epoch {lease.epoch} is over")
        keyed = [
            _moved(table, change, chunks, stored) if change.taken_from and not change.is_delete else change
            for change in changes.keyed
        ]
        return replace(changes, keyed=keyed)

    def spill(self, lease: Lease, table: str) -> list[dict[bytes, KeyedChange]]:
        """What the chunks of the open transaction, in their order, do to each key of a table."""
        chunks = self._database.chunks.get((lease.stream, lease.epoch), ())
        return [{change.key: change for change in chunk.keyed} for chunk in chunks if chunk.table == table]

    def _check_columns(self, changes: TableChanges) -> None:
        names = {column.name for column in self._tables[changes.table].columns}
        for image in [change.row for change in changes.keyed] + list(changes.net):
            found = json.loads(image)
            if found.keys() != names:
                raise SchemaConflict(
                    f"a row image of {changes.table} does not have the planned columns", table=changes.table
                )


def _is_my_lost_answer(row: LedgerRow, lease: Lease, progress: Progress) -> bool:
    """Compare: False to go on with the commit, True if it was done before; else the error that says why not."""
    span = progress.span
    if row.epoch != lease.epoch:
        raise Fenced(f"{lease.stream}: epoch {lease.epoch} is over, the ledger's is {row.epoch}")
    if row.topic_id == lease.ledger.topic_id and row.next_offset in (span.start, span.end):
        return row.next_offset != span.start
    raise InvariantViolated(f"{lease.stream}: the ledger stands at {row.next_offset}, not at {span.start}")


def _joined(staged: Sequence[Staged]) -> list[TableChanges]:
    """Chunks of one table become one batch: the newest change of a key, with what its first one expected to meet."""
    joined: dict[str, TableChanges] = {}
    for item in sorted(staged, key=lambda item: item.batch.chunk or 2**31):
        changes: TableChanges = item.batch
        before = joined.get(changes.table)
        if before is None or changes.truncate_first:
            joined[changes.table] = changes
            continue
        newest = {change.key: change for change in before.keyed}
        for change in changes.keyed:
            known = newest.get(change.key)
            if known and not known.is_delete:
                change = replace(change, row=filled(change.row, known.row))
            newest[change.key] = replace(change, met_row=known.met_row) if known else change
        net = Counter(before.net)
        net.update(changes.net)
        joined[changes.table] = TableChanges(changes.table, list(newest.values()), dict(net), before.truncate_first)
    return list(joined.values())


def _apply_keyed(table: Table, rows: dict[Key, JsonRow], changes: TableChanges) -> list[Finding]:
    findings = []
    if changes.truncate_first:
        rows.clear()
    before = dict(rows)
    for change in changes.keyed:
        row = json.loads(change.row)
        key = _key_of(table, row)
        if lacks_values(change.row) and not change.is_delete:
            row = _completed(table, row, row, before)
        if change.met_row != (key in rows):
            findings.append(
                Finding(
                    table.name, _finding_kind(change.is_delete, change.met_row), _key_text(table, key), change.offset
                )
            )
        if change.is_delete:
            rows.pop(key, None)
        else:
            rows[key] = row
    return findings


def _moved(
    table: Table, change: KeyedChange, chunks: Sequence[Mapping[bytes, KeyedChange]], stored: Mapping[Key, JsonRow]
) -> KeyedChange:
    """Whole: with what the newest chunks say of the row under the old key, else with what is stored."""
    old_key = change.taken_from or b""
    image = change.row
    for known in [chunk[old_key] for chunk in reversed(chunks) if old_key in chunk]:
        if known.is_delete:
            stored = {}
            break
        image = filled(image, known.row)
    if lacks_values(image):
        image = json.dumps(_completed(table, json.loads(image), json.loads(old_key), stored)).encode()
    return replace(change, row=image, taken_from=None)


def _completed(table: Table, row: JsonRow, origin: JsonRow, stored: Mapping[Key, JsonRow]) -> JsonRow:
    """With the values that the log left out, which the stored row of `origin`'s key has."""
    if _key_of(table, origin) not in stored:
        raise Diverged(f"a change of {table.name} leaves values out of a row that is not there", table=table.name)
    return filled_row(row, stored[_key_of(table, origin)])


def _finding_kind(is_delete: bool, met_row: bool) -> str:  # noqa: FBT001 (two facts of one change)
    if not met_row:
        return "insert met a row"
    return "delete met no row" if is_delete else "update met no row"


def _apply_keyless(rows: Counter[str], changes: TableChanges) -> None:
    if changes.truncate_first:
        rows.clear()
    net: Counter[str] = Counter()
    for image, copies in changes.net.items():
        net[_canonical(json.loads(image))] += copies
    for text, copies in net.items():
        if rows[text] + copies < 0:
            raise Diverged(
                f"{-copies} rows of {changes.table} should go, the destination holds only {rows[text]} of them",
                table=changes.table,
            )
        rows[text] += copies
        if not rows[text]:
            del rows[text]


def _key_of(table: Table, row: Mapping[str, Any]) -> Key:
    return tuple(row[name] for name in table.key)


def _key_text(table: Table, key: Key) -> str:
    return json.dumps(dict(zip(table.key, key, strict=True)))


def _canonical(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def _advanced(before: LedgerRow, progress: Progress) -> LedgerRow:
    span = progress.span
    return replace(
        before,
        next_offset=span.end,
        position=span.position,
        applied_transactions=before.applied_transactions + span.transactions,
        committed_ms=span.committed_ms,
        last_marker=progress.last_marker or before.last_marker,
        boundaries=tuple(replace(b, ended=b.ended or b.table in progress.ended) for b in before.boundaries),
    )


def _forget(database: MemoryDestination, stream: StreamId) -> None:
    """Everything that an incremental snapshot has recorded of itself."""
    del database.ledgers[stream]
    database.publications = {(owner, run_id) for owner, run_id in database.publications if owner != stream}


def _at(row: LedgerRow) -> tuple[str, int]:
    return row.topic_id, row.next_offset


def _place(schema: str, table: str) -> str:
    return f"{schema}.{table}" if schema else table


def _rename(tables: dict[str, Any], moves: Sequence[tuple[str, str]]) -> None:
    for old, new in moves:
        if old in tables:
            tables[new] = tables.pop(old)
