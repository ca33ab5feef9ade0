"""Where two read views of one table differ, down to the rows, at a cost that follows the differences.

One pass per side groups the whole table into buckets. Only buckets whose digests differ are looked at again, split
further while they are large, and only their rows are fetched as (key, row hash). Both sides answer the same questions,
so the search is symmetric; what a difference means is decided by the caller.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TypeVar

from seamline.domain.canonical import exact_columns, is_folded_key
from seamline.domain.catalogue import Kind, Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import InvariantViolated, SeamlineError
from seamline.domain.verdict import BreakType
from seamline.ports import ReadView, RowHash

AnswerT = TypeVar("AnswerT")
EMPTY = SegmentDigest()
# A part of a first pass: fields of `Segment` that narrow it.
Part = Mapping[str, object]
WHOLE: Part = MappingProxyType({})
# Per bucket number, of the source and of the destination.
Digests = tuple[Mapping[int, SegmentDigest], Mapping[int, SegmentDigest]]


class Unsteady(SeamlineError):
    """A side's answers contradict each other: nothing can be concluded from them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of the search. `rows` limits count the larger side. Where more than `systematic_share` of the rows
    differ, and at least `systematic_rows`, they are one difference with some examples. `question_s`: how long one
    question of a first pass shall take, where that can be chosen; 0: any time."""

    buckets_max: int = 1_024
    rows_per_bucket: int = 1_024
    leaf_rows: int = 4_096
    refine_by: int = 64
    refinements_max: int = 4
    fetch_rows: int = 65_536
    systematic_share: float = 0.2
    systematic_rows: int = 100
    systematic_sample: int = 200
    systematic_examples: int = 5
    breaks_listed: int = 1_000
    float_rows: int = 1_000_000
    part_rows: int = 250_000
    parts_per_view: int = 4
    ranges_max: int = 1_024
    rows_per_range: int = 4_096
    question_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sides:
    """Two read views of one table, and the part of it that each is asked for.

    The segments differ where one side holds nothing else: a staged cut holds one date's rows, its source holds all.
    `check` runs before every question and raises when the views have become too old. `apart`: where both sides stand,
    in words, where nothing has brought them to one position.
    """

    table: Table
    source: ReadView
    destination: ReadView
    source_segment: Segment
    destination_segment: Segment
    run_key: str
    check: Callable[[], None] = lambda: None
    apart: str = ""

    def ask(self, question: Callable[[ReadView, Segment], AnswerT]) -> tuple[AnswerT, AnswerT]:
        """Put one question to both sides at the same time."""
        self.check()
        with ThreadPoolExecutor(max_workers=2) as pool:
            source = pool.submit(question, self.source, self.source_segment)
            destination = pool.submit(question, self.destination, self.destination_segment)
            return source.result(), destination.result()

    def digests(self, **narrowed: object) -> Digests:
        def question(view: ReadView, segment: Segment) -> Mapping[int, SegmentDigest]:
            return view.digests(replace(segment, **narrowed), run_key=self.run_key)  # type: ignore[arg-type]

        source, destination = self.ask(question)
        for side, answer in (("source", source), ("destination", destination)):
            _require_complete(side, answer)
        return source, destination

    def row_hashes(self, *, buckets: int, among: tuple[int, ...]) -> tuple[Sequence[RowHash], Sequence[RowHash]]:
        def question(view: ReadView, segment: Segment) -> Sequence[RowHash]:
            chosen = replace(segment, buckets=buckets, among=among, among_of=buckets)
            return view.row_hashes(chosen, run_key=self.run_key)

        return self.ask(question)


@dataclass(frozen=True, slots=True)
class Divided:
    """A first pass that was asked in parts, joined, and how many rows each side has when it is asked without parts."""

    digests: Digests
    rows: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """One key (one row where there is none) that is not the same on both sides.

    `rows` is how many rows it stands for: more than one only where identical rows are missing or too many.
    """

    type: BreakType
    key: str
    source_copies: int
    destination_copies: int

    @property
    def rows(self) -> int:
        if self.type is BreakType.VALUE:
            return 1
        return abs(self.source_copies - self.destination_copies)


@dataclass(slots=True)
class Found:
    """The outcome of a search. `differences` is capped, `total` is not, except that after a systematic stop it counts
    only what was looked at: `looked_at` of `dirty_rows` rows, by the larger side."""

    source: SegmentDigest = EMPTY
    destination: SegmentDigest = EMPTY
    buckets: int = 0
    dirty: int = 0
    differences: list[Difference] = field(default_factory=list)
    total: int = 0
    systematic_columns: tuple[str, ...] = ()
    is_systematic: bool = False
    dirty_rows: int = 0
    looked_at: int = 0

    @property
    def total_in_all(self) -> int:
        """After a systematic stop an estimate: the rest is like what was looked at."""
        return (
            self.total if not self.looked_at else max(self.total, round(self.total * self.dirty_rows / self.looked_at))
        )


@dataclass(frozen=True, slots=True)
class _Bucket:
    """A dirty bucket with what both sides said of it."""

    number: int
    of: int
    source: SegmentDigest
    destination: SegmentDigest

    @property
    def rows(self) -> int:
        return max(self.source.rows, self.destination.rows)


def bucket_count(rows: int, limits: Limits) -> int:
    """A power of two, so that small tables have few buckets and none has more than the limit."""
    wanted = max(1, rows // limits.rows_per_bucket)
    return min(limits.buckets_max, 1 << (wanted - 1).bit_length())


def is_ranged(table: Table) -> bool:
    """Whether ranges of its key hold about as many rows each: the key is one integer. (Of several columns the first may
    have one value alone; a YEAR is no integer here, MariaDB takes 39 for 2039.)"""
    return len(table.key) == 1 and table.key_columns[0].kind in (Kind.INTEGER, Kind.UNSIGNED)


def parts_of(table: Table, views: int, limits: Limits, span: Callable[[], tuple[int, int] | None]) -> list[Part]:
    """The parts in which the first pass is worth asking for, so that all `views` have work.

    By ranges of the key between the ends of `span`, which read their own rows alone, some for each view: rows are not
    spread evenly over the keys. (One key far from all others puts these into one part, and one view reads them.) Other
    keys of whole numbers by their buckets: each part skips the others' rows.
    """
    divided = table.rows_estimate // limits.part_rows
    if views == 1 or divided < 2:
        return [WHOLE]
    if is_ranged(table):
        return key_ranges(span(), min(divided, limits.parts_per_view * views))
    if not is_folded_key(table):
        return [WHOLE]
    parts = min(1 << (views.bit_length() - 1), bucket_count(table.rows_estimate, limits))
    return [{"among": (part,), "among_of": parts} for part in range(parts)]


def key_ranges(span: tuple[int, int] | None, parts: int) -> list[Part]:
    """At most `parts` ranges of equal width between the least and the greatest key. Every number is in one of them:
    the other side may hold keys beyond the span."""
    if span is None:
        return [WHOLE]
    least, width = span[0], span[1] - span[0] + 1
    edges = sorted({least + width * number // parts for number in range(1, parts)} - {least})
    return [{"key_from": low, "key_below": high} for low, high in pairwise([None, *edges, None])]


def first_pass(sides: Sides, limits: Limits, part: Part = WHOLE) -> Digests:
    """Both sides' digests per bucket, of the rows in this part."""
    return sides.digests(buckets=bucket_count(sides.table.rows_estimate, limits), **part)


def row_counts(sides: Sides) -> tuple[int, int]:
    """Rows of the source and of the destination, counted in one."""

    def count(view: ReadView, segment: Segment) -> int:
        return view.totals(segment, columns=(), by=()).get((), (0, None))[0]

    return sides.ask(count)


def joined(passes: Sequence[Digests]) -> Digests:
    """The parts of a first pass as one: digests add up."""
    source: dict[int, SegmentDigest] = {}
    destination: dict[int, SegmentDigest] = {}
    for answers in passes:
        for whole, part in zip((source, destination), answers, strict=True):
            for number, digest in part.items():
                whole[number] = whole.get(number, EMPTY) + digest
    return source, destination


def search(sides: Sides, limits: Limits, *, first: Divided | None = None) -> Found:
    """Compare both sides whole, from the answers of a `first` pass where it was asked already.

    Raises Unsteady when an answer is incomplete or two answers contradict.
    """
    buckets = bucket_count(sides.table.rows_estimate, limits)
    source, destination = first.digests if first is not None else first_pass(sides, limits)
    found = Found(sum(source.values(), EMPTY), sum(destination.values(), EMPTY), buckets)
    if first is not None:
        _require_every_row(first, found)
    dirty = _dirty(source, destination, buckets)
    found.dirty = len(dirty)
    if not dirty:
        return found
    if _is_widespread(dirty, buckets, limits):
        # Rows are spread over buckets by a hash: the others are like the first one.
        _look_into(sides, dirty[:1], found, limits)
        if found.total > limits.systematic_share * dirty[0].rows:
            found.is_systematic = True
            found.systematic_columns = _differing_columns(sides, dirty[: limits.refinements_max])
            found.dirty_rows, found.looked_at = sum(bucket.rows for bucket in dirty), dirty[0].rows
            return found
        dirty = dirty[1:]
    _look_into(sides, dirty, found, limits)
    return found


def _look_into(sides: Sides, dirty: list[_Bucket], found: Found, limits: Limits) -> None:
    for batch in _leaves(sides, dirty, limits):
        _compare_leaves(sides, batch, found, limits)


def _require_every_row(first: Divided, found: Found) -> None:
    """The parts hold each row once. A key that is NULL is in none."""
    for side, rows, digest in zip(
        ("source", "destination"), first.rows, (found.source, found.destination), strict=True
    ):
        if rows != digest.rows:
            raise Unsteady(
                f"the {side} has {rows:,} rows, and {digest.rows:,} in the parts that it was asked for",
                hint="see whether a key is NULL there",
            )


def _require_complete(side: str, answer: Mapping[int, SegmentDigest]) -> None:
    for number, digest in answer.items():
        if not digest.is_complete:
            raise Unsteady(
                f"{digest.rows - digest.hashed} of {digest.rows} rows in bucket {number} of the {side} have no hash",
                hint="a row text became NULL on the way, as one larger than max_allowed_packet does",
            )


def _dirty(source: Mapping[int, SegmentDigest], destination: Mapping[int, SegmentDigest], of: int) -> list[_Bucket]:
    numbers = sorted(source.keys() | destination.keys())
    if numbers and not 0 <= numbers[0] <= numbers[-1] < of:
        raise InvariantViolated(f"a bucket outside 0..{of - 1} was answered: {numbers[0]} to {numbers[-1]}")
    pairs = ((number, source.get(number, EMPTY), destination.get(number, EMPTY)) for number in numbers)
    return [_Bucket(number, of, mine, theirs) for number, mine, theirs in pairs if mine != theirs]


def _is_widespread(dirty: Sequence[_Bucket], buckets: int, limits: Limits) -> bool:
    """Many dirty buckets *and* many rows in them: a small table is always worth looking at row by row."""
    is_widespread = len(dirty) > limits.systematic_share * buckets
    return is_widespread and sum(bucket.rows for bucket in dirty) > limits.fetch_rows


def _differing_columns(sides: Sides, sample: Sequence[_Bucket]) -> tuple[str, ...]:
    """Which columns differ in a sample of dirty buckets; the key's own where rows are missing or unexpected."""
    key = sides.table.key
    among, of = tuple(bucket.number for bucket in sample), sample[0].of

    def differs(columns: tuple[str, ...]) -> bool:
        source, destination = sides.digests(buckets=1, among=among, among_of=of, columns=columns)
        return source != destination

    if key and differs(key):
        return key
    others = [column.name for column in exact_columns(sides.table) if column.name not in key]
    return tuple(name for name in others if differs((*key, name)))


def _leaves(sides: Sides, dirty: list[_Bucket], limits: Limits) -> Iterator[list[_Bucket]]:
    """Dirty buckets small enough to fetch (or that cannot be split further), in batches of one bucket count."""
    for _ in range(limits.refinements_max):
        large = [bucket for bucket in dirty if bucket.rows > limits.leaf_rows]
        yield from _batches([bucket for bucket in dirty if bucket.rows <= limits.leaf_rows], limits)
        if not large:
            return
        dirty = _refined(sides, large, limits)
        if sum(bucket.rows for bucket in dirty) == sum(b.rows for b in large) and len(dirty) == len(large):
            # Nothing was split off: so many identical rows that no finer bucket parts them.
            break
    yield from _batches(dirty, limits)


def _refined(sides: Sides, large: Sequence[_Bucket], limits: Limits) -> list[_Bucket]:
    of = large[0].of
    finer = of * limits.refine_by
    among = tuple(bucket.number for bucket in large)
    source, destination = sides.digests(buckets=finer, among=among, among_of=of)
    dirty = _dirty(source, destination, finer)
    if not dirty:
        raise Unsteady(f"{len(large)} of {of} buckets differed, none of their parts does: a view is not steady")
    return dirty


def _batches(leaves: Sequence[_Bucket], limits: Limits) -> Iterator[list[_Bucket]]:
    batch: list[_Bucket] = []
    rows = 0
    for leaf in leaves:
        if batch and rows + leaf.rows > limits.fetch_rows:
            yield batch
            batch, rows = [], 0
        batch.append(leaf)
        rows += leaf.rows
    if batch:
        yield batch


def _compare_leaves(sides: Sides, leaves: Sequence[_Bucket], found: Found, limits: Limits) -> None:
    among = tuple(leaf.number for leaf in leaves)
    source, destination = sides.row_hashes(buckets=leaves[0].of, among=among)
    _require_same_rows("source", source, [leaf.source for leaf in leaves])
    _require_same_rows("destination", destination, [leaf.destination for leaf in leaves])
    differ = _keyed_differences if sides.table.is_keyed else _keyless_differences
    differences = differ(source, destination)
    if not differences:
        raise Unsteady("digests differ but no row does: a view is not steady")
    found.total += sum(difference.rows for difference in differences)
    room = limits.breaks_listed - len(found.differences)
    found.differences.extend(differences[: max(room, 0)])


def _require_same_rows(side: str, rows: Sequence[RowHash], digests: Sequence[SegmentDigest]) -> None:
    """The rows fetched must be the rows digested: adding up their hashes proves it."""
    count = sum(row.copies for row in rows)
    low = sum(int(row.hash[:15], 16) * row.copies for row in rows)
    high = sum(int(row.hash[15:30], 16) * row.copies for row in rows)
    if SegmentDigest(count, count, low, high) != sum(digests, EMPTY):
        raise Unsteady(f"the {side} gave other rows than it had digested: its view is not steady")


def _keyed_differences(source: Sequence[RowHash], destination: Sequence[RowHash]) -> list[Difference]:
    mine, theirs = _by_key(source), _by_key(destination)
    found: list[Difference] = []
    for key in sorted(mine.keys() | theirs.keys()):
        here, there = mine.get(key, Counter()), theirs.get(key, Counter())
        if here != there:
            found.append(_keyed_difference(key, here, there))
    return found


def _keyed_difference(key: str, here: Counter[str], there: Counter[str]) -> Difference:
    copies, copies_there = here.total(), there.total()
    if not copies_there:
        kind = BreakType.MISSING
    elif not copies:
        kind = BreakType.UNEXPECTED
    elif copies == copies_there:
        kind = BreakType.VALUE
    else:
        kind = BreakType.DUPLICATE
    return Difference(kind, key, copies, copies_there)


def _by_key(rows: Sequence[RowHash]) -> dict[str, Counter[str]]:
    by_key: dict[str, Counter[str]] = {}
    for row in rows:
        by_key.setdefault(row.key, Counter())[row.hash] += row.copies
    return by_key


def _keyless_differences(source: Sequence[RowHash], destination: Sequence[RowHash]) -> list[Difference]:
    """Multisets of row texts. A row that both sides have, but not equally often, is a duplicate or a missing copy."""
    mine, theirs = _copies(source), _copies(destination)
    found: list[Difference] = []
    for text in sorted(mine.keys() | theirs.keys()):
        here, there = mine[text], theirs[text]
        if here > there:
            found.append(Difference(BreakType.MISSING, text, here, there))
        elif here < there:
            kind = BreakType.DUPLICATE if here else BreakType.UNEXPECTED
            found.append(Difference(kind, text, here, there))
    return found


def _copies(rows: Sequence[RowHash]) -> Counter[str]:
    copies: Counter[str] = Counter()
    for row in rows:
        copies[row.key] += row.copies
    return copies
