"""Control totals of rows in the typed form, for kinds that no server adds up for."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext

import pyarrow as pa

from seamline.domain.canonical import group_key, row_text
from seamline.domain.catalogue import TEXTS, Table
from seamline.domain.measure import SUM_DIGITS, Measure, hash_number
from seamline.values.build import values_of
from seamline.values.segments import texts_of

Group = tuple[str, ...]
_Number = int | Decimal
# Values that are kept at most before those that stand there twice are dropped.
_KEPT = 1_000_000
_DISTINCT = (Measure.MISSING, Measure.DUPLICATES)


def _sum(one: _Number, other: _Number) -> _Number:
    return one + other


_JOINED: Mapping[Measure, Callable[[_Number, _Number], _Number]] = {
    Measure.SUM: _sum,
    Measure.HASH: _sum,
    Measure.LEAST: min,
    Measure.GREATEST: max,
}


class GroupTotals:
    """`ports.ReadView.totals` of the batches that were added.

    MISSING and DUPLICATES keep each value that they have seen once, as Arrow.
    """

    def __init__(self, table: Table, *, columns: Sequence[str], by: Sequence[str], measure: Measure) -> None:
        self._columns = [table.column(name) for name in columns]
        self._by = [table.column(name) for name in by]
        self._measure = measure
        self._rows = Counter[Group]()
        self._known = Counter[Group]()
        self._numbers: dict[tuple[Measure, Group], _Number] = {}
        self._distinct = _Distinct()

    def add(self, rows: pa.RecordBatch) -> None:
        groups = [group_key(texts) for texts in texts_of(self._by, rows)]
        self._rows.update(groups)
        if not self._columns:
            return
        if self._measure in _DISTINCT:
            found = zip(groups, texts_of(self._columns, rows), strict=True)
            known = [(group, row_text(self._columns, texts)) for group, texts in found if None not in texts]
            self._known.update(group for group, _ in known)
            self._distinct.add(known)
        if self._measure is not Measure.DUPLICATES:
            self._add_numbers(groups, rows)

    def _add_numbers(self, groups: Sequence[Group], rows: pa.RecordBatch) -> None:
        (column,) = self._columns
        values = values_of(column, rows.column(column.name))
        if self._measure is Measure.HASH and column.kind in TEXTS:
            values = [None if value is None else hash_number(value) for value in values]
        measures = (Measure.LEAST, Measure.GREATEST) if self._measure is Measure.MISSING else (self._measure,)
        with localcontext(prec=SUM_DIGITS):
            for group, value in zip(groups, values, strict=True):
                for measure in measures if value is not None else ():
                    place = measure, group
                    before = self._numbers.get(place)
                    self._numbers[place] = value if before is None else _JOINED[measure](before, value)

    def found(self) -> dict[Group, tuple[int, Decimal | None]]:
        distinct = self._distinct.counted() if self._measure in _DISTINCT else Counter[Group]()
        with localcontext(prec=SUM_DIGITS):
            return {group: (rows, self._of(group, distinct[group])) for group, rows in self._rows.items()}

    def _of(self, group: Group, distinct: int) -> Decimal | None:
        if not self._columns:
            return None
        if self._measure is Measure.DUPLICATES:
            return Decimal(self._known[group] - distinct)
        if self._measure is not Measure.MISSING:
            number = self._numbers.get((self._measure, group))
            return None if number is None else Decimal(number)
        if not distinct:
            return None
        least, greatest = (self._numbers[one, group] for one in (Measure.LEAST, Measure.GREATEST))
        return Decimal(greatest) - Decimal(least) + 1 - distinct


class _Distinct:
    """Pairs of a group and a text, each once."""

    def __init__(self) -> None:
        self._codes: dict[Group, int] = {}
        self._parts: list[pa.Table] = []
        self._rows = 0

    def add(self, pairs: Sequence[tuple[Group, str]]) -> None:
        codes = [self._codes.setdefault(group, len(self._codes)) for group, _ in pairs]
        texts = pa.array([text for _, text in pairs], pa.large_string())
        self._parts.append(pa.table({"group": pa.array(codes, pa.int64()), "text": texts}))
        self._rows += len(pairs)
        if self._rows > _KEPT:
            self._parts, self._rows = [self._once()], 0

    def _once(self) -> pa.Table:
        return pa.concat_tables(self._parts).group_by(["group", "text"]).aggregate([])

    def counted(self) -> Counter[Group]:
        if not self._parts:
            return Counter()
        of_code = self._once().group_by("group").aggregate([("text", "count")])
        groups = list(self._codes)
        codes, counts = (of_code.column(name).to_pylist() for name in ("group", "text_count"))
        return Counter({groups[code]: count for code, count in zip(codes, counts, strict=True)})
