"""Which side of a break has moved: the source's log since the last comparison that matched is the third witness.

The log is read at a break alone, so the stream pays nothing, and the same reading serves every kind of destination. A
row that the log has is held against both sides. Of a row that it does not have, the bucket is: what it held at the
match, with the log's changes of its rows, is what it must hold now.

What the log says never changes a verdict, and no value of it is kept.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from seamline.domain.baseline import Baseline, identity_of
from seamline.domain.canonical import digest_of, exact_columns, row_of_texts
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import PositionLost, SeamlineError
from seamline.domain.ledger import LedgerRow
from seamline.domain.repair import key_of
from seamline.domain.runs import Json
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.domain.witness import NOT_ASKED, THIRD_WITNESS, Mention, Moved, Witness, mentioned
from seamline.ports import LogReader, ReadView
from seamline.ports.log_images import LogImages, Texts
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.log_between import LoggedChange, LogStretch, Operation, changes_between

_OF_ROWS = (BreakType.MISSING, BreakType.UNEXPECTED, BreakType.VALUE, BreakType.DUPLICATE)
_MENTIONS = 3
_ROWS_AT_ONCE = 500
# Of breaks in more buckets these are looked at.
_BUCKETS_MAX = 100
# How long the log is read for one comparison: both databases keep old rows for its views meanwhile.
LOG_READ_MAX_S = 120.0


class ReadTooLong(SeamlineError):
    """The log between two comparisons was not read in its time."""


@dataclass(slots=True)
class LogOfSync:
    """The log of a source for one comparison. `open_reader` gives one that is not assigned yet. `images`: as the
    destination holds the rows."""

    open_reader: Callable[[], LogReader]
    images: LogImages
    clock: Clock = field(default_factory=SystemClock)
    _until: float | None = field(default=None, init=False)

    def since(
        self,
        earlier: LedgerRow,
        now: LedgerRow,
        tables: Mapping[str, Table],
        images_of: Callable[[str, str], bool],
    ) -> Iterable[LoggedChange]:
        """The changes between the two. Raises as `changes_between`, and ReadTooLong: all that is read of the log here
        has one time together."""
        until = self._until = self._until or self.clock.now() + LOG_READ_MAX_S

        def check() -> None:
            if self.clock.now() > until:
                raise ReadTooLong(f"the log since {earlier.position} was not read in {LOG_READ_MAX_S:g} s")

        with closing(self.open_reader()) as reader:
            stretch = LogStretch.since(earlier, now)
            yield from changes_between(reader, stretch, tables, self.images, images_of=images_of, check=check)


@dataclass(slots=True)
class _Row:
    """What the log has of one row: `row` as far as it is known, None where there is none."""

    changes: int = 0
    row: Texts | None = None
    last: deque[Mention] = field(default_factory=lambda: deque(maxlen=_MENTIONS))


@dataclass(slots=True)
class _Asked:
    """A table that is a BREAK: its breaks by key, their buckets, and what the log says of both. `added`: what the log
    adds to each bucket, None where it does not say what a row was."""

    table: Table
    baseline: Baseline
    breaks: dict[str, Break]
    rows: dict[str, _Row] = field(default_factory=dict)
    added: dict[int, SegmentDigest | None] = field(default_factory=dict)

    @staticmethod
    def about(table: Table, baseline: Baseline, verdict: TableVerdict) -> "_Asked":
        keys = ((key_of(table, one.key), one) for one in verdict.breaks if one.type in _OF_ROWS and one.key != "{}")
        asked = _Asked(table, baseline, {key: one for key, one in keys if key is not None})
        asked.rows = {key: _Row() for key in asked.breaks}
        buckets = dict.fromkeys(baseline.buckets.of(table, key) for key in asked.breaks)
        asked.added = dict.fromkeys(list(buckets)[:_BUCKETS_MAX], SegmentDigest())
        return asked

    def wants(self, key: str) -> bool:
        return key in self.rows or self.baseline.buckets.of(self.table, key) in self.added

    def take(self, change: LoggedChange, run_key: str) -> None:
        if change.operation is Operation.TRUNCATE:
            self._empty(change)
            return
        if (row := self.rows.get(change.key)) is not None:
            row.row = change.row_after(row.row)
            _mention(row, change)
        bucket = self.baseline.buckets.of(self.table, change.key)
        if (added := self.added.get(bucket)) is not None:
            self.added[bucket] = _with(added, self.table, change, run_key)

    def _empty(self, change: LoggedChange) -> None:
        """From now on the log has a change of every row, so no bucket is asked."""
        for row in self.rows.values():
            row.row = None
            _mention(row, change)

    def expected(self, bucket: int) -> SegmentDigest | None:
        """What the bucket must hold by the log; None where it does not say so."""
        added = self.added.get(bucket)
        return None if added is None else self.baseline.digests[bucket] + added


def _mention(row: _Row, change: LoggedChange) -> None:
    row.changes += 1
    row.last.appendleft(mentioned(change.operation.value, change.position, change.committed_ms))


def _with(added: SegmentDigest, table: Table, change: LoggedChange, run_key: str) -> SegmentDigest | None:
    columns = exact_columns(table)
    if not change.is_before_known:
        return None
    for row, is_added in ((change.before, False), (change.after, True)):
        if row is None:
            continue
        if any(column.name not in row for column in columns):
            return None
        one = digest_of([row_of_texts(columns, row)], run_key=run_key)
        added = added + one if is_added else added - one
    return added


def with_witnesses(
    verdicts: Sequence[TableVerdict],
    tables: Mapping[str, Table],
    baselines: Mapping[str, Baseline],
    *,
    run_key: str,
    now: LedgerRow,
    views: tuple[ReadView, ReadView],
    log: LogOfSync,
) -> tuple[tuple[TableVerdict, ...], Json]:
    """The verdicts with what the log says of each listed row of a table with a key, and what a reconciliation keeps of
    it. `now` and `views` stand where the tables were compared; `run_key`: that of the baselines.

    Raises nothing that a side or the log does: what is not known is said with its reason.
    """
    evidence: dict[str, object] = {}
    found: list[TableVerdict] = []
    for verdict in verdicts:
        is_asked = verdict.verdict is Verdict.BREAK and any(one.type in _OF_ROWS for one in verdict.breaks)
        if not is_asked:
            found.append(verdict)
            continue
        table = tables[verdict.table]
        try:
            baseline = _usable(table, baselines.get(table.name), now)
            seen, counts = _witnessed(verdict, table, baseline, run_key, now, views, log)
            found.append(seen)
            evidence[table.name] = counts
        except SeamlineError as exc:
            found.append(verdict)
            evidence[table.name] = {NOT_ASKED: exc.message}
    return tuple(found), {THIRD_WITNESS: evidence} if evidence else {}


def _usable(table: Table, baseline: Baseline | None, now: LedgerRow) -> Baseline:
    if not table.is_keyed:
        raise PositionLost("the table has no key, by which the log could name its rows")
    if baseline is None:
        raise PositionLost("no comparison of the table has matched since `reconcile.repeated` is declared")
    if baseline.made_of != identity_of(table, now):
        raise PositionLost("the table was loaded again or altered since it matched")
    return baseline


def _witnessed(
    verdict: TableVerdict,
    table: Table,
    baseline: Baseline,
    run_key: str,
    now: LedgerRow,
    views: tuple[ReadView, ReadView],
    log: LogOfSync,
) -> tuple[TableVerdict, Json]:
    asked = _Asked.about(table, baseline, verdict)
    for change in log.since(baseline.ledger, now, {table.name: table}, lambda _, key: asked.wants(key)):
        asked.take(change, run_key)
    judge = _Judge(asked, run_key, views)
    witnesses = {asked.breaks[key].key: judge.witness(key) for key in asked.breaks}
    breaks = tuple(
        replace(one, witness=witnesses.get(one.key)) if one.type in _OF_ROWS else one for one in verdict.breaks
    )
    sides = [one.witness.moved for one in breaks if one.witness is not None]
    since = {"since": baseline.newest.position, "since_at": baseline.newest.at.isoformat()}
    return replace(verdict, breaks=breaks), since | {side.value: sides.count(side) for side in Moved if side in sides}


class _Judge:
    """Holds what the log says against what both sides hold."""

    def __init__(self, asked: _Asked, run_key: str, views: tuple[ReadView, ReadView]) -> None:
        self._asked = asked
        self._run_key = run_key
        self._views = views
        self._exact = [column.name for column in exact_columns(asked.table)]
        self._buckets: dict[int, tuple[SegmentDigest, SegmentDigest]] = {}
        keys = list(asked.breaks)
        self._rows: tuple[dict[str, Texts], dict[str, Texts]] = ({}, {})
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            some = keys[start : start + _ROWS_AT_ONCE]
            for rows, view in zip(self._rows, views, strict=True):
                rows.update(view.rows(asked.table.name, some))

    def witness(self, key: str) -> Witness:
        row = self._asked.rows[key]
        moved, why = self._by_row(key, row) if row.changes else self._by_bucket(key)
        return Witness(moved, why, row.changes, tuple(row.last))

    def _by_row(self, key: str, row: _Row) -> tuple[Moved, str]:
        if self._asked.breaks[key].type is BreakType.DUPLICATE:
            return Moved.UNKNOWN, "the log has the row, and not how often a side holds it"
        mine, theirs = (self._agrees(row.row, rows.get(key)) for rows in self._rows)
        if mine and theirs:
            return Moved.UNKNOWN, "the columns that differ are not in the log, or are not compared exactly"
        if mine:
            return Moved.DESTINATION, "the source holds the row as the log has it last"
        if theirs:
            return Moved.SOURCE, "the destination holds the row as the log has it last"
        return Moved.UNKNOWN, "neither side holds the row as the log has it last"

    def _agrees(self, logged: Texts | None, held: Texts | None) -> bool:
        """By the columns that the log has; a row that it deletes agrees with none."""
        if logged is None or held is None:
            return logged is None and held is None
        return all(logged[name] == held[name] for name in self._exact if name in logged)

    def _by_bucket(self, key: str) -> tuple[Moved, str]:
        since = self._asked.baseline.newest.position
        nothing = f"the log explains no change of this row since {since}"
        bucket = self._asked.baseline.buckets.of(self._asked.table, key)
        expected = self._asked.expected(bucket)
        if expected is None:
            if bucket not in self._asked.added:
                return Moved.UNKNOWN, f"{nothing}, and there are breaks in more than {_BUCKETS_MAX} buckets"
            return Moved.UNKNOWN, f"{nothing}, and it does not say what other rows of its bucket were before"
        mine, theirs = self._now(bucket)
        if mine == expected:
            return Moved.DESTINATION, nothing
        if theirs == expected:
            return Moved.SOURCE, nothing
        return Moved.UNKNOWN, f"{nothing}, and neither side's bucket holds what the log leads to"

    def _now(self, bucket: int) -> tuple[SegmentDigest, SegmentDigest]:
        if bucket not in self._buckets:
            part = self._asked.baseline.buckets.part(bucket)
            segment = replace(Segment(self._asked.table.name), **part)  # type: ignore[arg-type]
            mine, theirs = (sum_of(view.digests(segment, run_key=self._run_key)) for view in self._views)
            self._buckets[bucket] = mine, theirs
        return self._buckets[bucket]


def sum_of(answer: Mapping[int, SegmentDigest]) -> SegmentDigest:
    """All buckets of an answer as one."""
    return sum(answer.values(), SegmentDigest())
