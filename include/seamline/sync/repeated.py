"""A comparison that is repeated: what it has from those before it, and what it leaves to the next one.

At each MATCH the digests of a table's buckets are kept. The next comparison reads those buckets again that the log has
touched since then, and some of the others, the longest unread first. What it does not read stands on the comparison
that has read it last; the verdict says how much that is, and since when.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from seamline.domain.baseline import REPEATED, Baseline, Buckets, Looked, identity_of
from seamline.domain.canonical import inexact_columns
from seamline.domain.catalogue import Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import LedgerRow
from seamline.domain.runs import Json
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.ports import ReadView
from seamline.sync.bucket_search import Digests, Found, Limits, Part, Sides, is_ranged, key_ranges
from seamline.sync.log_between import Operation
from seamline.sync.third_witness import LogOfSync, sum_of, with_witnesses

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reading:
    """How one table with a key is read in one comparison, and what its buckets then hold.

    `before` and `wanted`: what it held at the last MATCH, and which of those buckets are read now; None: all are.
    `digests`: of each bucket, filled where both sides hold the same. `is_odd`: a bucket that the log has not touched
    holds other rows than at the last MATCH, though both sides have the same: the log is not all that has happened.
    """

    before: Baseline | None = None
    wanted: frozenset[int] | None = None
    buckets: Buckets | None = None
    digests: dict[int, SegmentDigest] = field(default_factory=dict)
    touched: frozenset[int] = frozenset()
    is_odd: bool = False
    _read: list[int] = field(default_factory=list)

    @property
    def is_in_part(self) -> bool:
        return bool(self.digests) and len(self._read) < len(self.digests)

    def parts(self, sides: Sides, limits: Limits) -> list[Part]:
        """The ranges that are read, of a table whose key is one integer."""
        if self.before is None or self.wanted is None:
            self.buckets = _new_ranges(sides, self.before, limits)
            self._read = list(range(self.buckets.count))
        else:
            last = self.before.buckets.count - 1
            # Only what is read anyway, and not held against what it was, is divided.
            self.buckets = _longer(sides, self.before, limits) if last in self.touched else self.before.buckets
            self._read = [*sorted(self.wanted), *range(last + 1, self.buckets.count)]
        return [self.buckets.part(number) for number in self._read]

    def found(self, answers: Sequence[Digests]) -> Found | None:
        """What a search of the table would find, by the answers for the parts; None where a part differs, or is odd."""
        if self.buckets is None:
            return None
        pairs = [(sum_of(mine), sum_of(theirs)) for mine, theirs in answers]
        if any(mine != theirs for mine, theirs in pairs):
            return None
        read = dict(zip(self._read, (mine for mine, _ in pairs), strict=True))
        known = dict(enumerate(self.before.digests)) if self.before is not None and self.wanted is not None else {}
        untouched = (read.keys() & known.keys()) - self.touched
        if any(read[number] != known[number] for number in untouched):
            self.is_odd = True
            return None
        self.digests = known | read
        whole = sum_of(self.digests)
        return Found(whole, whole, len(pairs))

    def take(self, digests: Digests, count: int) -> None:
        """Keep a first pass over all buckets by the hash of the key."""
        source, destination = digests
        if source == destination:
            self.buckets, self.digests = Buckets(count), dict(destination)
            self._read = list(range(count))

    def next_baseline(self, table: Table, now: LedgerRow, looked: Looked) -> Baseline:
        """What this comparison leaves, which stood at `now`."""
        assert self.buckets is not None
        count = self.buckets.count
        number, of_bucket, comparisons = 1, dict[int, int](), dict[int, Looked]()
        if self.before is not None and self.is_in_part:
            number = max(self.before.comparisons) + 1
            of_bucket, comparisons = dict(enumerate(self.before.looked)), dict(self.before.comparisons)
        of_bucket |= dict.fromkeys(self._read, number)
        looked_in = tuple(of_bucket[one] for one in range(count))
        comparisons[number] = looked
        return Baseline(
            table.name,
            identity_of(table, now),
            # What the boundaries say of the table is in its identity.
            replace(now, boundaries=()),
            self.buckets,
            tuple(self.digests.get(one, SegmentDigest()) for one in range(count)),
            looked_in,
            {one: comparisons[one] for one in sorted(set(looked_in) | {number})},
        )

    def in_part(self) -> Mapping[str, object]:
        """What a reconciliation keeps of a table that was read in part."""
        assert self.before is not None and self.buckets is not None
        unread = [number for number in self.digests if number not in self._read]
        oldest = self.before.comparisons[min(self.before.looked[number] for number in unread)]
        return {
            "read": len(self._read),
            "buckets": self.buckets.count,
            "rows_before": sum(self.digests[number].rows for number in unread),
            "since": oldest.position,
            "since_at": oldest.at.isoformat(),
        }

    def in_words(self) -> str:
        """The same in the line of a verdict; "" of a table that was read whole."""
        if not self.is_in_part:
            return ""
        known = self.in_part()
        since = datetime.fromisoformat(str(known["since_at"])).astimezone(UTC)
        return f"{known['read']:,} of {known['buckets']:,} buckets read, the others since {since:%Y-%m-%d %H:%M} UTC"


def _span(sides: Sides) -> tuple[int, int] | None:
    known = [one for one in sides.ask(lambda view, segment: view.key_span(segment.table)) if one is not None]
    return (min(least for least, _ in known), max(greatest for _, greatest in known)) if known else None


def _new_ranges(sides: Sides, before: Baseline | None, limits: Limits) -> Buckets:
    rows = max(sides.table.rows_estimate, _rows(before) if before else 0)
    parts = key_ranges(_span(sides), _range_count(rows, limits))
    return Buckets.of_edges([int(str(part["key_from"])) for part in parts[1:]])


def _longer(sides: Sides, before: Baseline, limits: Limits) -> Buckets:
    """With the last range divided where new keys have made it longer than the others."""
    edges = list(before.buckets.edges or ())
    span = _span(sides)
    if span is None or len(edges) < 2:
        return before.buckets
    width = max(1, (edges[-1] - edges[0]) // (len(edges) - 1))
    while edges[-1] + 2 * width <= span[1] and len(edges) < 2 * limits.ranges_max:
        edges.append(edges[-1] + width)
    return Buckets.of_edges(edges)


def _range_count(rows: int, limits: Limits) -> int:
    return min(limits.ranges_max, max(1, rows // limits.rows_per_range))


def _rows(baseline: Baseline) -> int:
    return sum(digest.rows for digest in baseline.digests)


def is_read_by_ranges(table: Table, reading: Reading | None) -> bool:
    return reading is not None and is_ranged(table)


class Repeats(Protocol):
    """A table that was compared."""

    @property
    def table(self) -> Table: ...
    @property
    def reading(self) -> Reading | None: ...


@dataclass(frozen=True, slots=True)
class Repeated:
    """`baselines`: by table, of the last comparisons that matched; `broken`: tables that were a BREAK since then.
    `run_key`: under which they are digested, and so is all of this comparison. `rotate`: of what the log has not
    touched one in so many is read. `keep(new, broken)`: replaces the baselines of tables that matched, and notes those
    that are to be read whole the next time. `is_whole`: whether all are read whole now."""

    run_key: str
    rotate: int
    baselines: Mapping[str, Baseline]
    broken: Collection[str]
    source_log: LogOfSync
    keep: Callable[[Sequence[Baseline], Sequence[str]], None]
    is_whole: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def readings(
        self, tables: Sequence[Table], now: LedgerRow, *, whole: Collection[str], limits: Limits
    ) -> Mapping[str, Reading]:
        """How these tables are read at `now`; one without a key is not among them. `whole`: those of which all rows
        are asked for anyway. Where the log cannot say what it has touched, a table is read whole."""
        found = {table.name: Reading(self.baselines.get(table.name)) for table in tables if table.is_keyed}
        in_part = {
            table.name: (table, baseline)
            for table in tables
            if table.name not in whole and (baseline := self._usable(table, now, limits)) is not None
        }
        for some in _by_place(in_part):
            try:
                touched = self._touched(some, now)
            except SeamlineError as exc:
                log.warning("tables are read whole: tables=%s why=%s", ",".join(some), exc.message)
                continue
            for name, buckets in touched.items():
                baseline = some[name][1]
                found[name].touched = buckets
                found[name].wanted = buckets | _oldest(baseline, buckets, self.rotate)
        return found

    def _usable(self, table: Table, now: LedgerRow, limits: Limits) -> Baseline | None:
        """The baseline of a table that may be read in part."""
        baseline = self.baselines.get(table.name)
        if baseline is None or self.is_whole or self.rotate < 2 or table.name in self.broken:
            return None
        if not is_ranged(table) or inexact_columns(table) or baseline.buckets.edges is None:
            return None
        is_out_of_shape = not (
            _range_count(_rows(baseline), limits) <= 2 * baseline.buckets.count <= 4 * limits.ranges_max
        )
        if is_out_of_shape or baseline.made_of != identity_of(table, now):
            return None
        return baseline

    def _touched(self, tables: Mapping[str, tuple[Table, Baseline]], now: LedgerRow) -> Mapping[str, frozenset[int]]:
        """Buckets with a key in the log since their baseline, which all stand at one place."""
        found: dict[str, set[int]] = {name: set() for name in tables}
        earlier = next(iter(tables.values()))[1].ledger
        definitions = {name: table for name, (table, _) in tables.items()}
        for change in self.source_log.since(earlier, now, definitions, lambda _table, _key: False):
            table, baseline = tables[change.table]
            if change.operation is Operation.TRUNCATE:
                found[change.table].update(range(baseline.buckets.count))
            else:
                found[change.table].add(baseline.buckets.of(table, change.key))
        return {name: frozenset(buckets) for name, buckets in found.items()}

    def concluded(
        self,
        verdicts: Sequence[TableVerdict],
        work: Sequence[Repeats],
        *,
        now: LedgerRow,
        views: tuple[ReadView, ReadView],
    ) -> tuple[tuple[TableVerdict, ...], Json]:
        """The verdicts of this work with what the log says of breaks, and what a reconciliation keeps of that. What was
        found is left to the next comparison. `views` of source and destination stand at `now`."""
        tables = {one.table.name: one.table for one in work}
        readings = {one.table.name: one.reading for one in work if one.reading is not None}
        found, evidence = with_witnesses(
            verdicts,
            tables,
            self.baselines,
            run_key=self.run_key,
            now=now,
            views=views,
            log=self.source_log,
        )
        matched = [one.table for one in verdicts if one.verdict is Verdict.MATCH and one.table in readings]
        looked = self._looked(now)
        self.keep(
            [readings[name].next_baseline(tables[name], now, looked) for name in matched
             if readings[name].digests],
            [one.table for one in verdicts if one.verdict is Verdict.BREAK]
            + [name for name in matched if readings[name].is_odd],
        )  # fmt: skip
        in_part = {name: readings[name].in_part() for name in matched if readings[name].is_in_part}
        return found, {**evidence, **({REPEATED: in_part} if in_part else {})}

    def _looked(self, now: LedgerRow) -> Looked:
        at = datetime.fromtimestamp(now.committed_ms / 1000, UTC) if now.committed_ms else self.clock()
        return Looked(str(now.position), at)


def _by_place(tables: Mapping[str, tuple[Table, Baseline]]) -> Iterator[Mapping[str, tuple[Table, Baseline]]]:
    """Those together whose baselines stand at one place of the log: it is read once for all of them."""
    places = dict.fromkeys((one.ledger.topic_id, one.ledger.next_offset) for _, one in tables.values())
    for place in places:
        yield {name: of for name, of in tables.items() if (of[1].ledger.topic_id, of[1].ledger.next_offset) == place}


def _oldest(baseline: Baseline, touched: Collection[int], rotate: int) -> frozenset[int]:
    """One in so many of all buckets, of those that the log has not touched, the longest unread first: whatever the log
    touches, each is read within so many comparisons."""
    others = [number for number in range(baseline.buckets.count) if number not in touched]
    others.sort(key=lambda number: baseline.looked[number])
    return frozenset(others[: -(-baseline.buckets.count // rotate)])
