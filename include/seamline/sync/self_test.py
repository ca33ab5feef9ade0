"""The self-test of a comparison: known breaks are planted in shadow copies of the tables that were just compared, and
must be found, all of them and nothing else.

It runs after the comparison, in the same read views and by the same code: what answers for the tables answers for the
copies. A copy is a query over some rows; nothing is written. A comparison whose self-test fails is no MATCH. A proof
that stands for the first pass of a table (`Work.proven`) is not asked again: the report names such tables.
"""

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from seamline.domain.digest import Segment
from seamline.domain.errors import SeamlineError
from seamline.domain.runs import Json
from seamline.domain.self_test import SELF_TEST, SelfTest, self_test_to_json
from seamline.domain.verdict import BreakType, TableVerdict, Verdict
from seamline.ports import ReadView
from seamline.ports.shadow import ShadowCopy, Shadows
from seamline.sync.bucket_search import Limits, Sides, bucket_count, is_ranged
from seamline.sync.plants import Expected, Plants, plants
from seamline.sync.reconcile import compare_table, new_run_key
from seamline.sync.repetition import NEEDS_A_PERSON
from seamline.sync.text_view import Texts, TextView

if TYPE_CHECKING:
    from seamline.sync.comparison import Work

log = logging.getLogger(__name__)

SAMPLE_ROWS = 256
# Of the values of a sample, in characters: the rows of some tables are large.
_SAMPLE_CHARACTERS = 1_000_000
_ROWS_AT_ONCE = 32
# No further table is begun after so many seconds; the report names those that were left out.
_BUDGET_S = 60.0
# Rows of a sample lie in several buckets and come in several batches, so that the search has to find them. What differs
# in most buckets is planted there: every row is looked at.
_LIMITS = Limits(rows_per_bucket=16, leaf_rows=64, refine_by=4, fetch_rows=128, systematic_share=1.0)


@dataclass(slots=True)
class _Tally:
    planted: int = 0
    tables: int = 0
    kinds: set[str] = field(default_factory=set)
    missed: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    by_reference: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def self_tested(
    verdicts: Sequence[TableVerdict],
    work: Sequence["Work"],
    *,
    source: ReadView,
    destination: ReadView,
    check: Callable[[], None] = lambda: None,
) -> tuple[tuple[TableVerdict, ...], Json]:
    """The verdicts of this work under the self-test of the code that gave them, and what a reconciliation keeps of it.

    Raises nothing that a side does: a self-test that came to no end makes its table INCONCLUSIVE.
    """
    found = self_test(work, verdicts, source=source, destination=destination, check=check)
    evidence: dict[str, object] = {SELF_TEST: self_test_to_json(found)}
    if found.missed or found.others:
        # The same code would say the same, or pass once by luck.
        evidence[NEEDS_A_PERSON] = "the comparison itself is wrong: see the self-test, and report it with its seed"
    return _under(verdicts, found), evidence


def self_test(
    tested: Sequence["Work"],
    verdicts: Sequence[TableVerdict],
    *,
    source: ReadView,
    destination: ReadView,
    check: Callable[[], None] = lambda: None,
    seed: str = "",
    budget_s: float = _BUDGET_S,
) -> SelfTest:
    """Plant breaks in each table that is a MATCH. Errors of a side are part of the answer and not raised.

    The views must stand where the comparison stood, and serve nobody else meanwhile. `seed`: "" for a random one.
    """
    seed = seed or secrets.token_hex(4)
    random, tally = Random(seed), _Tally()  # noqa: S311 - the same breaks again from the seed of a report
    matched = {verdict.table: verdict for verdict in verdicts if verdict.verdict is Verdict.MATCH}
    order = list(tested)
    random.shuffle(order)
    until = time.monotonic() + budget_s
    for one in order:
        name = one.table.name
        if name not in matched:
            tally.left_out[name] = "it is no MATCH"
        elif not matched[name].destination_rows:
            tally.left_out[name] = "it has no rows"
        elif time.monotonic() > until:
            tally.left_out[name] = f"the {budget_s:g} s of the self-test were over"
        else:
            try:
                _test_table(one, source, destination, check, random, tally)
            except SeamlineError as exc:
                tally.failed[name] = exc.message
    return SelfTest(
        seed=seed,
        planted=tally.planted,
        found=tally.planted - len(tally.missed),
        tables=tally.tables,
        kinds=tuple(sorted(tally.kinds)),
        missed=tuple(tally.missed),
        others=tuple(tally.others),
        by_reference=tuple(tally.by_reference),
        left_out=tally.left_out,
        failed=tally.failed,
    )


def _under(verdicts: Sequence[TableVerdict], found: SelfTest) -> tuple[TableVerdict, ...]:
    """The verdicts under this self-test: no MATCH by a comparison that missed what was planted, or found what was not;
    and none of a table whose own self-test came to no end. A reason goes into alarms: it names no row."""
    wrong = f"{len(found.missed)} of {found.planted} missed, {len(found.others)} found that nobody planted"

    def under(verdict: TableVerdict) -> TableVerdict:
        if verdict.verdict is not Verdict.MATCH:
            return verdict
        if found.missed or found.others:
            why = f"the comparison did not find its planted breaks: {wrong} (seed {found.seed})"
            return replace(verdict, verdict=Verdict.INCONCLUSIVE, reason=why)
        if verdict.table in found.failed:
            why = f"the self-test of the comparison came to no end: {found.failed[verdict.table]} (seed {found.seed})"
            return replace(verdict, verdict=Verdict.INCONCLUSIVE, reason=why)
        return verdict

    return tuple(map(under, verdicts))


def _test_table(
    one: "Work",
    source: ReadView,
    destination: ReadView,
    check: Callable[[], None],
    random: Random,
    tally: _Tally,
) -> None:
    table = one.table
    rows = _sample(one, source, destination, check, random)
    if not rows:
        tally.failed[table.name] = "none of its rows was found again by its key"
        return
    planted = plants(replace(table, rows_estimate=len(rows)), rows, random)
    mine, is_mine = _copy(source, planted.source, rows)
    theirs, is_theirs = _copy(destination, planted.destination, rows)
    sides = Sides(
        planted.source.table, mine, theirs,
        one.source_segment if is_mine else Segment(table.name),
        one.destination_segment if is_theirs else Segment(table.name),
        new_run_key(), check, one.apart,
    )  # fmt: skip
    verdict = compare_table(sides, limits=_LIMITS)
    if verdict.verdict is Verdict.INCONCLUSIVE:
        # An answer that contradicts itself is what a comparer that is wrong gives too.
        tally.failed[table.name] = verdict.reason
        return
    _count(planted, verdict, tally)
    if not (is_mine and is_theirs):
        tally.by_reference.append(table.name)


def _count(planted: Plants, verdict: TableVerdict, tally: _Tally) -> None:
    name = planted.source.table.name
    found = {
        Expected(one.type, one.key, frozenset(one.source or ()) if one.type is BreakType.VALUE else frozenset())
        for one in verdict.breaks
    }
    tally.planted += len(planted.expected)
    tally.tables += 1
    tally.kinds |= planted.kinds.keys()
    tally.missed += [_in_words(name, one) for one in sorted(planted.expected - found, key=repr)]
    tally.others += [_in_words(name, one) for one in sorted(found - planted.expected, key=repr)]
    log.info(
        "self-test: table=%s planted=%d kinds=%s", name, len(planted.expected), ", ".join(sorted(planted.kinds))
    )  # fmt: skip


def _in_words(table: str, one: Expected) -> str:
    columns = f" in {', '.join(sorted(one.columns))}" if one.columns else ""
    return f"{table} {one.key}: {one.type.value}{columns}"


def _sample(
    one: "Work", source: ReadView, destination: ReadView, check: Callable[[], None], random: Random
) -> Mapping[str, Texts]:
    """Some rows of the destination by their canonical keys, each of which finds its row on both sides."""
    keys = _keys(one, destination, check, random)
    # Of one that answers for no copy the reference takes the destination's rows.
    is_asked = isinstance(source, Shadows) and one.table.is_keyed
    found: dict[str, Texts] = {}
    characters = 0
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        check()
        asked = keys[start : start + _ROWS_AT_ONCE]
        there = source.rows(one.table.name, asked).keys() if is_asked else set(asked)
        for key, row in destination.rows(one.table.name, asked).items():
            if key in there:
                found[key] = row
                characters += sum(len(text) for text in row.values() if text is not None)
        if characters > _SAMPLE_CHARACTERS:
            break
    return found


def _keys(one: "Work", view: ReadView, check: Callable[[], None], random: Random) -> Sequence[str]:
    """From some place in the table on where its key is an integer; else whichever rows its side finds first."""
    table = one.table
    check()
    if not isinstance(view, Shadows):
        buckets = bucket_count(table.rows_estimate, Limits(rows_per_bucket=SAMPLE_ROWS, buckets_max=1 << 20))
        part = replace(one.destination_segment, buckets=buckets, among=(random.randrange(buckets),), among_of=buckets)
        keys = [row.key for row in view.row_hashes(part, run_key=new_run_key())]
        return list(dict.fromkeys(keys))[:SAMPLE_ROWS]
    keys = []
    if is_ranged(table) and (span := view.key_span(table.name)):
        keys += view.sample(table.name, rows=SAMPLE_ROWS, key_from=random.randint(*span))
    if len(keys) < SAMPLE_ROWS:
        keys += view.sample(table.name, rows=SAMPLE_ROWS)
    return list(dict.fromkeys(keys))[:SAMPLE_ROWS]


def _copy(view: ReadView, wanted: ShadowCopy, rows: Mapping[str, Texts]) -> tuple[ReadView, bool]:
    """A view of the copy, and whether the side itself answers for it."""
    if isinstance(view, Shadows) and wanted.table.is_keyed:
        return view.shadow(wanted), True
    return TextView.of(wanted, rows, view.position), False
