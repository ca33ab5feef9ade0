"""Reconciliation of two read views, table by table, to verdicts. Symmetric, and MATCH is said in one place only.

`compare_table` knows neither databases nor how both sides came to stand at one position: the barrier
(`sync.barrier`) and the nightly cut (`sync.cut`) see to that.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from seamline.domain.canonical import (
    exact_columns,
    floats_agree,
    inexact_columns,
    named_text,
    parse_row_text,
    readable_text,
)
from seamline.domain.catalogue import Column, Table
from seamline.domain.changes import Finding
from seamline.domain.digest import KeyedDigest, Segment
from seamline.domain.errors import SchemaConflict, SeamlineError
from seamline.domain.measure import Measure
from seamline.domain.position import is_same_place
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.plan.checks import ControlTotalPlan
from seamline.ports import ReadView
from seamline.sync.bucket_search import (
    Difference,
    Divided,
    Found,
    Limits,
    Sides,
    Unsteady,
    bucket_count,
    is_ranged,
    search,
)
from seamline.sync.paced_pass import paced_pass
from seamline.sync.suspected import Pairs, Rows, another_column, suspected

COPIES = "(copies)"
ROW_HASH = "(row hash)"
_ROWS_PER_FETCH = 500
Texts = Mapping[str, str | None]


def new_run_key() -> str:
    """A random key for the row hashes of one run: nobody can prepare two rows that pass for each other."""
    return secrets.token_hex(16)


def not_run(table: str, reason: str) -> TableVerdict:
    return TableVerdict(table, Verdict.NOT_RUN, reason)


def inconclusive(table: str, reason: str, *, position: str = "") -> TableVerdict:
    return TableVerdict(table, Verdict.INCONCLUSIVE, reason, position)


def compare_table(
    sides: Sides,
    *,
    totals: Sequence[ControlTotalPlan] = (),
    findings: Sequence[Finding] = (),
    limits: Limits | None = None,
    first: Divided | None = None,
    found: Found | None = None,
) -> TableVerdict:
    """The verdict of one table. An error of either side becomes INCONCLUSIVE, a changed schema BREAK, never MATCH.

    Findings are a BREAK whatever becomes of the comparison: they are reported once.
    `first`: the answers of a first pass that was asked before, in parts. `found`: what a search has found already.
    """
    name = sides.table.name
    position = sides.apart or str(sides.source.position)
    met = tuple(Break(name, BreakType.FINDING, finding.key, {"": finding.kind}) for finding in findings)
    if not sides.apart and not is_same_place(sides.source.position, sides.destination.position):
        apart = f"the sides stand at different positions: source {position}, destination {sides.destination.position}"
        return _not_compared(name, apart, position="", met=met)
    try:
        return _compare(sides, totals, met, limits or Limits(), first, found)
    except SchemaConflict as exc:
        broken = (Break(name, BreakType.SCHEMA, "{}", {"": exc.message}, None), *met)
        return TableVerdict(name, Verdict.BREAK, exc.message, position, breaks=broken, breaks_total=len(broken))
    except SeamlineError as exc:
        return _not_compared(name, exc.message, position=position, met=met)


def _not_compared(name: str, reason: str, *, position: str, met: tuple[Break, ...]) -> TableVerdict:
    if not met:
        return inconclusive(name, reason, position=position)
    reason_text = f"{len(met)} findings of the stream; the rows were not compared: {reason}"
    return TableVerdict(name, Verdict.BREAK, reason_text, position, breaks=met, breaks_total=len(met))


def _compare(
    sides: Sides,
    totals: Sequence[ControlTotalPlan],
    met: Sequence[Break],
    limits: Limits,
    first: Divided | None,
    found: Found | None,
) -> TableVerdict:
    name = sides.table.name
    _require_columns(sides)
    by_plan = [tuple(_control_totals(sides, plan)) for plan in totals if plan.table == name]
    if found is None:
        if first is None and limits.question_s and is_ranged(sides.table):
            first = paced_pass(sides, limits)
        found = search(sides, limits, first=first)
    for of_plan in by_plan:
        _require_same_count(sides, found, of_plan)
    compared_totals = tuple(total for of_plan in by_plan for total in of_plan)
    floats = _float_breaks(sides, found, limits)
    breaks = [*_listed(sides, found, totals, limits), *_floats_listed(sides.table, floats, found, limits), *met]
    unequal = [total for total in compared_totals if not total.is_equal]
    is_equal = found.source == found.destination and not breaks and not unequal
    return TableVerdict(
        table=name,
        verdict=Verdict.MATCH if is_equal else Verdict.BREAK,
        reason="" if is_equal else _reason(found, breaks, unequal),
        position=sides.apart or str(sides.source.position),
        source_rows=found.source.rows,
        destination_rows=found.destination.rows,
        totals=compared_totals,
        breaks=tuple(breaks[: limits.breaks_listed]),
        breaks_total=max(found.total_in_all + len(floats) + len(met), 0 if is_equal else 1),
        digest=KeyedDigest(sides.run_key, found.destination),
    )


def _require_columns(sides: Sides) -> None:
    """Both catalogues must show the planned columns, and no others: else even two empty tables are no match."""
    planned = [column.name for column in sides.table.columns]
    for side, view in (("source", sides.source), ("destination", sides.destination)):
        shown = list(view.columns(sides.table.name))
        if sorted(shown) != sorted(planned):
            lacking = sorted(set(planned) - set(shown))
            extra = sorted(set(shown) - set(planned))
            raise SchemaConflict(
                f"the {side}'s columns are not those of the plan: lacking {lacking or 'none'}, extra {extra or 'none'}",
                hint="onboard the table again after a change of its columns",
                table=sides.table.name,
            )


def _control_totals(sides: Sides, plan: ControlTotalPlan) -> Iterator[ControlTotal]:
    def question(view: ReadView, segment: Segment) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        return view.totals(segment, columns=plan.columns, by=plan.by, measure=plan.measure)

    source, destination = sides.ask(question)
    none: tuple[int, Decimal | None] = (0, None)
    for group in sorted(source.keys() | destination.keys()):
        (rows, amount), (rows_there, amount_there) = (_counted(side.get(group, none)) for side in (source, destination))
        yield ControlTotal(plan.table, plan.label, group, rows, rows_there, amount, amount_there)


def _counted(answer: tuple[int, Decimal | None]) -> tuple[int, Decimal | None]:
    """Of no row nothing is measured: a server counts 0 there, and another one has no such group."""
    return answer if answer[0] else (0, None)


def _require_same_count(sides: Sides, found: Found, totals: Sequence[ControlTotal]) -> None:
    """`totals` of one declaration. They and the digests were read separately in one view: their counts must agree on
    each side."""
    counted = sum(total.source_rows for total in totals), sum(total.destination_rows for total in totals)
    if counted != (found.source.rows, found.destination.rows):
        raise Unsteady(
            f"control totals count {counted[0]} and {counted[1]} rows, digests {found.source.rows} and"
            f" {found.destination.rows}: a view is not steady",
            table=sides.table.name,
        )


def _reason(found: Found, breaks: Sequence[Break], unequal: Sequence[ControlTotal]) -> str:
    parts = [str((entry.source or {})[""]) for entry in breaks if entry.type is BreakType.SYSTEMATIC]
    # Beside a systematic difference there are examples of it.
    counted = (BreakType.FINDING,) if parts else tuple(BreakType)
    kinds = [kind for kind in counted if any(entry.type is kind for entry in breaks)]
    is_listed = not parts
    parts += [f"{sum(entry.type is kind for entry in breaks)} {kind.value}" for kind in kinds]
    if is_listed and found.total > len(found.differences):
        parts.append(f"{found.total} rows in all")
    if unequal:
        parts.append("1 control total differs" if len(unequal) == 1 else f"{len(unequal)} control totals differ")
    return ", ".join(parts)


def _listed(sides: Sides, found: Found, totals: Sequence[ControlTotalPlan], limits: Limits) -> list[Break]:
    """The differences as breaks; those with one cause as one, with some of them as examples."""
    rows = max(found.source.rows, found.destination.rows)
    is_widespread = found.total > limits.systematic_share * rows and found.total >= limits.systematic_rows
    if not (found.is_systematic or is_widespread):
        return [_with_beside(sides.table, totals, *one) for one in _described(sides, found.differences)]
    sample = _described(sides, found.differences[: limits.systematic_sample])
    systematic = Break(sides.table.name, BreakType.SYSTEMATIC, "{}", {"": _in_words(sides.table, found, sample)})
    examples = sample[: limits.systematic_examples]
    return [systematic, *(_with_beside(sides.table, totals, *one) for one in examples)]


def _with_beside(
    table: Table, totals: Sequence[ControlTotalPlan], found: Break, source: Texts | None, destination: Texts | None
) -> Break:
    """With the currency of an amount that differs, and the amount of a row whose currency does: else nobody knows how
    much of which currency is at risk."""
    if found.type is not BreakType.VALUE or found.source is None or source is None or destination is None:
        return found
    summed = [(one.column, *one.by) for one in totals if one.table == table.name and one.measure is Measure.SUM]
    wanted = {name for columns in summed if found.source.keys() & set(columns) for name in columns if name}
    alike = {name: source[name] for name in wanted - found.source.keys() if name in source}
    return replace(found, beside=_readable(table, alike)) if alike else found


# A difference, and both rows where it has a key.
_Described = tuple[Break, Texts | None, Texts | None]


def _described(sides: Sides, differences: Sequence[Difference]) -> list[_Described]:
    """The differences as breaks, with the differing columns of each."""
    if not sides.table.is_keyed:
        return [(_keyless_break(sides.table, difference), None, None) for difference in differences]
    described: list[_Described] = []
    for start in range(0, len(differences), _ROWS_PER_FETCH):
        part = differences[start : start + _ROWS_PER_FETCH]
        source, destination = _rows(sides, [difference.key for difference in part])
        for one in part:
            both = source.get(one.key), destination.get(one.key)
            described.append((_keyed_break(sides.table, one, *both), *both))
    return described


def _in_words(table: Table, found: Found, sample: Sequence[_Described]) -> str:
    """What a systematic difference is: how many rows, which columns, and what may have been done to them."""
    pairs = [(mine, theirs) for one, mine, theirs in sample if one.type is BreakType.VALUE and mine and theirs]
    exact = exact_columns(table)
    apart = {c.name: [p for p in ((m.get(c.name), t.get(c.name)) for m, t in pairs) if p[0] != p[1]] for c in exact}
    named = [column for column in exact if apart[column.name]]
    kinds = sorted({one.type.value for one, _, _ in sample} - {BreakType.VALUE.value})
    columns = found.systematic_columns or [column.name for column in named]
    if found.is_systematic:
        much = f"{found.dirty} of {found.buckets} buckets differ, in {', '.join(columns) or 'no single column'}"
        seen = f"of {found.looked_at:,} rows looked at {found.total:,} differ, about {found.total_in_all:,} in all"
        parts = [f"systematic: {much}; {seen}"]
    else:
        rows = max(found.source.rows, found.destination.rows)
        where = f", in {', '.join(columns)}" if columns else ""
        parts = [f"systematic: {found.total:,} of {rows:,} rows differ{where}"]
    if kinds:
        parts.append(f"among {len(sample)} of them: {', '.join(kinds)}")
    guesses = [(one.name, _guess(one, exact, apart[one.name], pairs)) for one in named]
    parts += [f"transformation of {name} suspected: {guess}" for name, guess in guesses if guess]
    return "; ".join(parts)


def _guess(column: Column, columns: Sequence[Column], apart: Pairs, rows: Rows) -> str:
    """What may have been done to a column. `apart`: its values where they differ."""
    differ = [(mine, theirs) for mine, theirs in rows if mine.get(column.name) != theirs.get(column.name)]
    return another_column(column, columns, differ) or suspected(column, apart)


def _rows(sides: Sides, keys: Sequence[str]) -> tuple[Mapping[str, Texts], Mapping[str, Texts]]:
    return sides.ask(lambda view, segment: view.rows(segment.table, keys))


def row_break(table: Table, key: str, source: Texts | None, destination: Texts | None) -> Break | None:
    """The break that a comparison lists of this key of a keyed table; None where both sides are alike."""
    if source is None and destination is None:
        return None
    if source is None or destination is None:
        kind = BreakType.UNEXPECTED if source is None else BreakType.MISSING
        return _keyed_break(
            table, Difference(kind, key, int(source is not None), int(destination is not None)), source, destination
        )
    if any(source[column.name] != destination[column.name] for column in exact_columns(table)):
        return _keyed_break(table, Difference(BreakType.VALUE, key, 1, 1), source, destination)
    return _float_break(table, key, source, destination)


def _keyed_break(table: Table, difference: Difference, source: Texts | None, destination: Texts | None) -> Break:
    key = _named(table.key_columns, difference.key)
    match difference.type:
        case BreakType.MISSING:
            return Break(table.name, difference.type, key, _readable(table, source), None)
        case BreakType.UNEXPECTED:
            return Break(table.name, difference.type, key, None, _readable(table, destination))
        case BreakType.VALUE if source is not None and destination is not None:
            changed = [c.name for c in exact_columns(table) if source.get(c.name) != destination.get(c.name)]
            if changed:
                mine, theirs = (
                    _readable(table, {name: side.get(name) for name in changed}) for side in (source, destination)
                )
                return Break(table.name, difference.type, key, mine, theirs)
            return Break(table.name, difference.type, key, {ROW_HASH: "differs"}, {ROW_HASH: "differs"})
        case _:
            return Break(table.name, difference.type, key, *_copies(difference))


def _keyless_break(table: Table, difference: Difference) -> Break:
    return Break(table.name, difference.type, _named(exact_columns(table), difference.key), *_copies(difference))


def _copies(difference: Difference) -> tuple[dict[str, str | None], dict[str, str | None]]:
    return {COPIES: str(difference.source_copies)}, {COPIES: str(difference.destination_copies)}


def _named(columns: Sequence[Column], row: str) -> str:
    """A row text, or a key's, as JSON of column and value."""
    return named_text(columns, parse_row_text(columns, row))


def _readable(table: Table, texts: Texts | None) -> dict[str, str | None] | None:
    """Values as a person reads them: moments are not shown in microseconds."""
    if texts is None:
        return None
    return {
        column.name: _readable_value(column, texts[column.name]) for column in table.columns if column.name in texts
    }


def _readable_value(column: Column, text: str | None) -> str | None:
    return None if text is None else readable_text(column, text)


def _float_breaks(sides: Sides, found: Found, limits: Limits) -> list[Break]:
    """Inexact columns stand outside the digest: compared by tolerance, row by row where rows can be paired.

    A table without a key, or too large for that, is judged by count, least, greatest and sum of each column.
    """
    columns = inexact_columns(sides.table)
    if not columns or found.source != found.destination or not found.source.rows:
        return []
    if not sides.table.is_keyed or found.source.rows > limits.float_rows:
        return _summary_breaks(sides)
    breaks: list[Break] = []
    for keys in _all_keys(sides, found, limits):
        source, destination = _rows(sides, keys)
        if source.keys() != destination.keys():
            raise Unsteady("rows with equal digests were not found by their keys again: a view is not steady")
        breaks += filter(None, (_float_break(sides.table, key, source[key], destination[key]) for key in source))
    return breaks


def _floats_listed(table: Table, floats: list[Break], found: Found, limits: Limits) -> list[Break]:
    """As `_listed`."""
    if len(floats) < limits.systematic_rows or len(floats) <= limits.systematic_share * found.source.rows:
        return floats
    columns = [column.name for column in inexact_columns(table) if any(column.name in (b.source or ()) for b in floats)]
    much = f"{len(floats):,} of {found.source.rows:,} rows differ beyond the tolerance"
    words = f"systematic: {much}, in {', '.join(columns)}"
    return [Break(table.name, BreakType.SYSTEMATIC, "{}", {"": words}), *floats[: limits.systematic_examples]]


def _summary_breaks(sides: Sides) -> list[Break]:
    source, destination = sides.ask(lambda view, segment: view.float_summaries(segment))
    return [
        Break(
            sides.table.name,
            BreakType.VALUE,
            "{}",
            {column.name: str(source[column.name])},
            {column.name: str(destination[column.name])},
        )
        for column in inexact_columns(sides.table)
        if not source[column.name].agrees_with(destination[column.name], kind=column.kind)
    ]


def _all_keys(sides: Sides, found: Found, limits: Limits) -> Iterator[list[str]]:
    buckets = bucket_count(found.source.rows, limits)
    at_once = max(1, limits.fetch_rows * buckets // found.source.rows)
    for first in range(0, buckets, at_once):
        rows, _ = sides.row_hashes(buckets=buckets, among=tuple(range(first, min(first + at_once, buckets))))
        keys = [row.key for row in rows]
        for start in range(0, len(keys), _ROWS_PER_FETCH):
            yield keys[start : start + _ROWS_PER_FETCH]


def _float_break(table: Table, key: str, source: Texts, destination: Texts) -> Break | None:
    apart = [
        column.name
        for column in inexact_columns(table)
        if not floats_agree(column.kind, source[column.name], destination[column.name])
    ]
    if not apart:
        return None
    mine, theirs = ({name: side[name] for name in apart} for side in (source, destination))
    return Break(table.name, BreakType.VALUE, _named(table.key_columns, key), mine, theirs)
