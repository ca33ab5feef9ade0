"""A view of the destination as it stands once the log's changes up to a later position are applied to it.

Digests, counts and sums add up. So the view asks the one below it, takes away what the changed rows were there, and
adds what the log makes of them: each question is answered exactly, at the cost of the rows between the two positions.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext

from seamline.domain.canonical import (
    FloatSummary,
    bucket_of_texts,
    digest_of,
    exact_columns,
    group_key,
    inexact_columns,
    row_hash,
    row_of_texts,
    ungrouped,
)
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import InvariantViolated, SeamlineError
from seamline.domain.log_patch import PatchedRow, TablePatch, Texts
from seamline.domain.measure import SUM_DIGITS, Measure, of_texts
from seamline.domain.position import Position
from seamline.ports import ReadView, RowHash
from seamline.ports.shadow import ShadowCopy, Shadows
from seamline.sync.bucket_search import is_ranged
from seamline.sync.text_view import TextView

_KEYS_AT_ONCE = 500
# So many rows are counted by their values, where what is asked for does not add up.
_COUNTED_ROWS_MAX = 100_000
# Least, greatest and numbers of values come from all rows: the log alone does not say what is left when one goes.
_ADDED_UP = (Measure.SUM, Measure.HASH)
_Total = tuple[int, Decimal | None]


class NotPatched(SeamlineError):
    """The log between both positions does not say what the question asks for."""


# A row, and how many of it come, or go where negative.
_Move = tuple[Texts, int]


@dataclass(frozen=True, slots=True)
class _After:
    """`rows`: by canonical key what stands there in the end."""

    rows: Mapping[str, Texts | None] = field(default_factory=dict)
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class _Moved:
    """What becomes of a table. `moves` are in the order of `numbers`, the keys, where these are one integer."""

    moves: tuple[_Move, ...] = ()
    numbers: tuple[int, ...] = ()
    emptied: bool = False


class PatchedTable:
    """One table's changes, shared by all views of one snapshot: whichever asks first reads the rows as they were.

    `patch` may raise: then no question about this table is answered.
    """

    def __init__(self, table: Table, patch: Callable[[], TablePatch]) -> None:
        self.table = table
        self._patch = patch
        self._lock = threading.RLock()
        self._after: _After | None = None
        self._moved: _Moved | None = None
        self._failed = ""

    def moved(self, base: ReadView) -> _Moved:
        """What the log does to the rows of `base`, every changed row of which is read. NotPatched: its changes could
        not be read."""
        with self._lock, self._kept():
            if self._moved is None:
                self._moved = _moved(self.table, self._patch(), self.after(base), base)
            return self._moved

    def after(self, base: ReadView) -> _After:
        """What the log leaves. Of `base` only those rows are read of which the log left values out. NotPatched as
        `moved`."""
        with self._lock, self._kept():
            if self._after is None:
                self._after = _after(self.table, self._patch(), base)
            return self._after

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """An error stays: whoever asks again meets it again."""
        if self._failed:
            raise NotPatched(self._failed, table=self.table.name)
        try:
            yield
        except NotPatched:
            raise
        except SeamlineError as exc:
            self._failed = f"the log's changes of the table could not be applied: {exc.message}"
            raise NotPatched(self._failed, table=self.table.name) from exc


class PatchedView:
    """`ports.ReadView` at `position`, over `base`. Tables that are not in `tables` have not changed between. A segment
    may name buckets, columns and keys here, and no dates."""

    def __init__(self, base: ReadView, tables: Mapping[str, PatchedTable], position: Position) -> None:
        self._base = base
        self._tables = tables
        self._position = position

    @property
    def position(self) -> Position:
        return self._position

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        patched = self._tables.get(segment.table)
        if patched is None:
            return self._base.digests(segment, run_key=run_key)
        moved = patched.moved(self._base)
        found = {} if moved.emptied else dict(self._base.digests(segment, run_key=run_key))
        hashed = exact_columns(_hashed(patched.table, segment))
        for row, copies in _selected(patched.table, moved, segment, run_key):
            bucket = bucket_of_texts(patched.table, row, buckets=segment.buckets, run_key=run_key)
            one = digest_of([row_of_texts(hashed, row)], run_key=run_key)
            found[bucket] = found.get(bucket, SegmentDigest()) + _times(one, copies)
        return {bucket: digest for bucket, digest in found.items() if digest != SegmentDigest()}

    def key_span(self, table: str) -> tuple[int, int] | None:
        patched = self._tables.get(table)
        if patched is None:
            return self._base.key_span(table)
        moved = patched.moved(self._base)
        ends = None if moved.emptied else self._base.key_span(table)
        come = [int(row[patched.table.key[0]] or 0) for row, copies in moved.moves if copies > 0]
        keys = [*(ends or ()), *come]
        return (min(keys), max(keys)) if keys else None

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        patched = self._tables.get(segment.table)
        if patched is None:
            return self._base.row_hashes(segment, run_key=run_key)
        table, moved = patched.table, patched.moved(self._base)
        found = Counter[tuple[str, str]]()
        for one in () if moved.emptied else self._base.row_hashes(segment, run_key=run_key):
            found[one.key, one.hash] += one.copies
        hashed = exact_columns(_hashed(table, segment))
        for row, copies in _selected(table, moved, segment, run_key):
            found[_name(table, row), row_hash(row_of_texts(hashed, row), run_key=run_key)] += copies
        return [RowHash(*one, copies) for one, copies in found.items() if copies]

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Texts]:
        patched = self._tables.get(table)
        if patched is None:
            return self._base.rows(table, keys)
        if not patched.table.is_keyed:
            # Who names a row by its text has met it: here, or below.
            moved = patched.moved(self._base)
            come = {_name(patched.table, row): row for row, copies in moved.moves if copies > 0}
            return {**self._base.rows(table, keys), **{key: come[key] for key in keys if key in come}}
        after = patched.after(self._base)
        changed = {key: row for key in keys if (row := after.rows.get(key)) is not None}
        rest = [key for key in keys if key not in after.rows]
        return changed if after.emptied or not rest else {**self._base.rows(table, rest), **changed}

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], _Total]:
        patched = self._tables.get(segment.table)
        if patched is None:
            return self._base.totals(segment, columns=columns, by=by, measure=measure)
        table, moved = patched.table, patched.moved(self._base)
        groups: dict[tuple[str, ...], list[_Move]] = {}
        for row, copies in _selected(table, moved, segment, ""):
            groups.setdefault(group_key([row[name] for name in by]), []).append((row, copies))
        found = {} if moved.emptied else dict(self._base.totals(segment, columns=columns, by=by, measure=measure))
        try:
            for group, moves in groups.items():
                found[group] = _patched_total(table, columns, measure, found.get(group, (0, None)), moves)
        except NotPatched:
            rows = sum(before for before, _ in found.values())
            if rows > _COUNTED_ROWS_MAX:
                raise
            return self._totals_by_value(segment, columns, by, measure)
        return {group: total for group, total in found.items() if total[0]}

    def _totals_by_value(
        self, segment: Segment, columns: Sequence[str], by: Sequence[str], measure: Measure
    ) -> Mapping[tuple[str, ...], _Total]:
        """As `totals`, from how often each value is there: what no sum is follows from that too."""
        measured = [self._tables[segment.table].table.column(name) for name in columns]
        groups: dict[tuple[str, ...], list[tuple[str | None, ...]]] = {}
        for named, (rows, _) in self.totals(segment, columns=(), by=(*by, *columns)).items():
            values = tuple(map(ungrouped, named[len(by) :]))
            groups.setdefault(named[: len(by)], []).extend([values] * rows)
        return {group: (len(values), of_texts(measure, measured, values)) for group, values in groups.items()}

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        patched = self._tables.get(segment.table)
        if patched is None:
            return self._base.float_summaries(segment)
        moved = patched.moved(self._base)
        moves = list(_selected(patched.table, moved, segment, ""))
        names = [column.name for column in inexact_columns(patched.table)]
        if moved.emptied or any(_net(moves, (name,)) for name in names):
            raise NotPatched(
                f"{', '.join(names)} changed between both positions, and is too large, or has no key, to be compared"
                " row by row",
                hint="let the destination be compared by the barrier: `reconcile.mode`",
                table=segment.table,
            )
        return self._base.float_summaries(segment)

    def columns(self, table: str) -> tuple[str, ...]:
        return self._base.columns(table)

    def close(self) -> None:
        self._base.close()


class PatchedShadowsView(PatchedView):
    """Over a view that answers for shadow copies too. A copy of rows that have not changed is the view's own."""

    def __init__(self, base: ReadView, tables: Mapping[str, PatchedTable], position: Position) -> None:
        super().__init__(base, tables, position)
        if not isinstance(base, Shadows):
            raise InvariantViolated("the view below answers for no shadow copies")
        self._shadows: Shadows = base

    def sample(self, table: str, *, rows: int, key_from: int | None = None) -> Sequence[str]:
        """`ports.shadow.Shadows`. Of rows that have not changed, if one is found."""
        patched = self._tables.get(table)
        if patched is None:
            return self._shadows.sample(table, rows=rows, key_from=key_from)
        after = patched.after(self._base)
        found = () if after.emptied else self._shadows.sample(table, rows=2 * rows, key_from=key_from)
        still = [key for key in found if key not in after.rows]
        if still:
            return still[:rows]
        return [_name(patched.table, row) for row, copies in patched.moved(self._base).moves if copies > 0][:rows]

    def shadow(self, wanted: ShadowCopy) -> ReadView:
        """`ports.shadow.Shadows`."""
        patched = self._tables.get(wanted.table.name)
        if patched is None or not patched.after(self._base).rows.keys() & set(wanted.keys):
            return PatchedView(self._shadows.shadow(wanted), {}, self._position)
        return TextView.of(wanted, self.rows(wanted.table.name, wanted.keys), self._position)


def patched(base: ReadView, tables: Mapping[str, PatchedTable], position: Position) -> ReadView:
    """The view of `base` brought to `position` by these changes; it closes `base`."""
    view = PatchedShadowsView if isinstance(base, Shadows) else PatchedView
    return view(base, tables, position)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _after(table: Table, patch: TablePatch, base: ReadView) -> _After:
    lacking = [row.taken_from for row in patch.rows.values() if row.missing]
    stored = {} if patch.emptied else _rows_of(table, lacking, base)
    return _After({key: _row_after(row, stored) for key, row in patch.rows.items()}, patch.emptied)


def _moved(table: Table, patch: TablePatch, after: _After, base: ReadView) -> _Moved:
    if not table.is_keyed:
        return _Moved(tuple(patch.copies.values()), emptied=patch.emptied)
    before = {} if patch.emptied else _rows_of(table, list(patch.rows), base)
    moves: list[_Move] = []
    for key, row in after.rows.items():
        was = before.get(key)
        if was != row:
            moves += [(one, copies) for one, copies in ((was, -1), (row, 1)) if one is not None]
    if not is_ranged(table):
        return _Moved(tuple(moves), (), patch.emptied)
    moves.sort(key=lambda move: int(move[0][table.key[0]] or 0))
    return _Moved(tuple(moves), tuple(int(row[table.key[0]] or 0) for row, _ in moves), patch.emptied)


def _rows_of(table: Table, wanted: Sequence[str], base: ReadView) -> Mapping[str, Texts]:
    found: dict[str, Texts] = {}
    for start in range(0, len(wanted), _KEYS_AT_ONCE):
        found |= base.rows(table.name, wanted[start : start + _KEYS_AT_ONCE])
    return found


def _row_after(row: PatchedRow, before: Mapping[str, Texts]) -> Texts | None:
    """None too where the log left values out of a row that is not there: what it lacks, it goes on lacking."""
    if row.texts is None or not row.missing:
        return row.texts
    stored = before.get(row.taken_from)
    return None if stored is None else {**row.texts, **{name: stored[name] for name in row.missing}}


def _selected(table: Table, moved: _Moved, segment: Segment, run_key: str) -> Iterator[_Move]:
    if segment.date_column:
        raise InvariantViolated("a view that is patched by the log has no dates", table=table.name)
    of, among = segment.selection or (1, (0,))
    for row, copies in _within_keys(table, moved, segment):
        if of == 1 or bucket_of_texts(table, row, buckets=of, run_key=run_key) in among:
            yield row, copies


def _within_keys(table: Table, moved: _Moved, segment: Segment) -> Sequence[_Move]:
    if segment.key_from is None and segment.key_below is None:
        return moved.moves
    if not is_ranged(table):
        raise InvariantViolated("only a table whose key is one integer has ranges of it", table=table.name)
    first = 0 if segment.key_from is None else bisect_left(moved.numbers, segment.key_from)
    end = len(moved.numbers) if segment.key_below is None else bisect_left(moved.numbers, segment.key_below)
    return moved.moves[first:end]


def _name(table: Table, row: Texts) -> str:
    """By what a comparison names a row."""
    return row_of_texts(table.key_columns or exact_columns(table), row)


def _hashed(table: Table, segment: Segment) -> Table:
    if not segment.columns:
        return table
    return replace(table, columns=tuple(column for column in table.columns if column.name in segment.columns))


def _times(digest: SegmentDigest, copies: int) -> SegmentDigest:
    return SegmentDigest(digest.rows * copies, digest.hashed * copies, digest.low * copies, digest.high * copies)


# ---- totals ---------------------------------------------------------------------------------------------------------


def _net(moves: Sequence[_Move], columns: Sequence[str]) -> Counter[tuple[str | None, ...]]:
    """How many more, or fewer, rows have these values; what has not changed is not among them."""
    found = Counter[tuple[str | None, ...]]()
    for row, copies in moves:
        found[tuple(row[name] for name in columns)] += copies
    return Counter({values: copies for values, copies in found.items() if copies})


def _patched_total(
    table: Table, columns: Sequence[str], measure: Measure, before: _Total, moves: Sequence[_Move]
) -> _Total:
    rows = before[0] + sum(copies for _, copies in moves)
    net = _net(moves, columns)
    if not columns or not net:
        return rows, before[1]
    if not before[0]:
        # All of the group that there is came by the log.
        texts = [values for values, copies in net.items() for _ in range(max(0, copies))]
        return rows, of_texts(measure, [table.column(name) for name in columns], texts)
    if measure not in _ADDED_UP:
        raise NotPatched(
            f"{measure.value} of {', '.join(columns)} comes from all rows, and these changed between both positions",
            hint="let the destination be compared by the barrier: `reconcile.mode`",
            table=table.name,
        )
    return rows, _patched_sum(table, columns, measure, before[1], net)


def _patched_sum(
    table: Table,
    columns: Sequence[str],
    measure: Measure,
    before: Decimal | None,
    net: Counter[tuple[str | None, ...]],
) -> Decimal | None:
    measured = [table.column(name) for name in columns]
    each = {values: of_texts(measure, measured, [values]) for values in net}
    known = {values: number for values, number in each.items() if number is not None}
    if not known:
        return before
    if before is None and all(net[values] > 0 for values in known):
        before = Decimal(0)
    if before is None or not all(number.is_finite() for number in (before, *known.values())):
        raise _not_summed(table, columns)
    with localcontext(prec=SUM_DIGITS):
        total = sum((number * net[values] for values, number in known.items()), before)
    may_lack = measured[0].nullable or measure is Measure.HASH
    if not total and may_lack and not any(net[values] > 0 for values in known):
        # Whether values are left that add up to 0, or none at all, is not known.
        raise _not_summed(table, columns)
    return total


def _not_summed(table: Table, columns: Sequence[str]) -> NotPatched:
    return NotPatched(
        f"the sum of {', '.join(columns)} between both positions does not follow from the log",
        hint="compare again, or let the destination be compared by the barrier: `reconcile.mode`",
        table=table.name,
    )
