"""The self-test of comparisons: what is planted is found, and a comparison that is wrong is caught by it."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from seamline.domain.canonical import row_hash, row_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import TransientError
from seamline.domain.made_from import PROVEN_BY_KEYS
from seamline.domain.self_test import SELF_TEST, SelfTest, self_test_in_words, self_test_to_json
from seamline.domain.verdict import Verdict
from seamline.kinds.arrow_view import ArrowView
from seamline.ports import ReadView, RowHash
from seamline.ports.shadow import ShadowCopy, Shadows
from seamline.sync import reconcile
from seamline.sync.bucket_search import Sides
from seamline.sync.comparison import Work, compare_tables
from seamline.sync.plants import KINDS, plants
from seamline.sync.repetition import NEEDS_A_PERSON
from seamline.sync.self_test import self_test, self_tested
from seamline.sync.text_view import TextView
from seamline.values.build import batch_of
from tests.unit.memory_views import AUDIT, ENTRY, MemoryView, P, entries

# A column of every kind that is planted, and two of some.
WIDE = Table(
    "wide",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
        Column("fee", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
        Column("count", Kind.INTEGER, "int", length=32),
        Column("memo", Kind.STRING, "varchar(40)", length=40),
        Column("note", Kind.STRING, "varchar(40)", length=40),
        Column("currency", Kind.CHAR, "char(3)", nullable=False, length=3),
        Column("proof", Kind.BYTES, "varbinary(8)", length=8),
        Column("booked_at", Kind.DATETIME, "datetime(6)", precision=6),
        Column("valued", Kind.DATE, "date"),
        Column("is_open", Kind.BOOLEAN, "boolean", nullable=False),
    ),
    key=("id",),
)


def wide_row(n: int) -> tuple[Any, ...]:
    return (
        n, Decimal(n * 7) / 4 - 30, Decimal(n) / 8, n % 11, None if n % 5 == 0 else f"memo {n}", f"Note{n}",
        ("EUR", "USD", "CNY")[n % 3], bytes([n % 256, 7]), datetime(2026, 3, 1) + timedelta(hours=n),  # noqa: DTZ001
        date(2026, 3, 1) + timedelta(days=n % 20), n % 2,
    )  # fmt: skip


ROWS = [wide_row(n) for n in range(1, 401)]
# One break of each of 20 kinds, three of which give two, and those that are planted in several types.
PLANTED = 31
KEYLESS = replace(WIDE, name="bare", key=())


def arrow(table: Table, rows: Sequence[tuple[Any, ...]] = ROWS, kind: type[ArrowView] = ArrowView) -> ArrowView:
    batch = batch_of(table, rows)
    return kind(P, {table: lambda: iter([batch[:200], batch[200:]])})


def work(table: Table, rows: int = 400) -> Work:
    return Work(replace(table, rows_estimate=rows), Segment(table.name), Segment(table.name))


def ran(table: Table, source: ReadView, destination: ReadView, seed: str = "1") -> SelfTest:
    verdicts = compare_tables([work(table)], source=[source], destination=[destination])
    assert [one.verdict for one in verdicts] == [Verdict.MATCH], verdicts
    return self_test([work(table)], verdicts, source=source, destination=destination, seed=seed)


def test_every_kind_of_break_is_planted_and_found_and_nothing_else() -> None:
    found = ran(WIDE, arrow(WIDE), arrow(WIDE))
    assert found.is_passed, found
    assert found.found == found.planted == PLANTED
    assert set(found.kinds) == set(KINDS)
    assert len(KINDS) == 20
    assert not found.by_reference


@pytest.mark.parametrize("seed", [str(n) for n in range(50)])
def test_other_seeds_plant_other_breaks_that_are_found_too(seed: str) -> None:
    found = ran(WIDE, arrow(WIDE), arrow(WIDE), seed)
    assert (found.is_passed, found.planted, found.seed) == (True, PLANTED, seed), found


def test_the_same_seed_plants_the_same_breaks() -> None:
    view = arrow(WIDE)
    rows = view.rows("wide", view.sample("wide", rows=200))
    first, again, other = (plants(WIDE, rows, Random(seed)).expected for seed in ("a", "a", "b"))  # noqa: S311
    assert first == again != other


def test_a_table_without_a_key_is_planted_row_by_row() -> None:
    found = ran(KEYLESS, arrow(KEYLESS), arrow(KEYLESS))
    assert found.is_passed, found
    assert set(found.kinds) == set(KINDS)
    assert found.by_reference == ("bare",)


def test_identical_rows_of_a_table_without_a_key_do_not_disturb_it() -> None:
    rows = [{"actor": "ann", "object": None if n % 7 else f"o{n}"} for n in range(60)]
    found = ran(AUDIT, MemoryView(AUDIT, rows), MemoryView(AUDIT, rows))
    assert found.is_passed, found
    assert found.planted > 4


def test_sides_that_answer_for_no_copy_are_tested_by_the_reference() -> None:
    source, destination = MemoryView(ENTRY, entries(300)), MemoryView(ENTRY, entries(300))
    assert not isinstance(source, Shadows)
    found = ran(ENTRY, source, destination)
    assert found.is_passed, found
    assert found.by_reference == ("entry",)
    assert "one side computed by the reference: entry" in self_test_in_words({SELF_TEST: self_test_to_json(found)})


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_a_small_table_gets_as_many_as_it_has_rows(count: int) -> None:
    rows = ROWS[:count]
    for seed in "abc":
        found = ran(WIDE, arrow(WIDE, rows), arrow(WIDE, rows), seed)
        assert found.is_passed, found
        assert found.planted


def test_a_table_that_is_no_match_or_has_no_rows_is_named_and_not_planted() -> None:
    verdicts = compare_tables([work(WIDE)], source=[arrow(WIDE)], destination=[arrow(WIDE, ROWS[:-1])])
    found = self_test([work(WIDE)], verdicts, source=arrow(WIDE), destination=arrow(WIDE))
    assert (found.is_passed, found.planted, found.left_out) == (True, 0, {"wide": "it is no MATCH"})
    found = ran(WIDE, arrow(WIDE, []), arrow(WIDE, []))
    assert (found.planted, found.left_out) == (0, {"wide": "it has no rows"})


def test_a_table_whose_rows_are_not_found_by_their_keys_is_no_match() -> None:
    class Forgetful(ArrowView):
        def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
            return {}

    found = ran(WIDE, arrow(WIDE), arrow(WIDE, kind=Forgetful))
    assert (found.is_passed, found.failed) == (False, {"wide": "none of its rows was found again by its key"})


def test_no_table_is_begun_when_the_time_is_over() -> None:
    view = arrow(WIDE)
    verdicts = compare_tables([work(WIDE)], source=[view], destination=[view])
    found = self_test([work(WIDE)], verdicts, source=view, destination=view, budget_s=-1.0)
    assert "were over" in found.left_out["wide"]


# ---- comparisons that are wrong -------------------------------------------------------------------------------------


class Answering(ArrowView):
    """A server whose digests are made of other texts than the rows have. `said`: what it makes of one."""

    said: Callable[[Column, str | None], str | None] = staticmethod(lambda _, text: text)

    def shadow(self, wanted: ShadowCopy) -> ArrowView:
        kept = super().shadow(wanted)
        return type(self)(kept._position, dict(kept._tables.values()))

    def _hashes(self, segment: Segment, run_key: str) -> list[tuple[str, str]]:
        table, batches = self._tables[segment.table]
        found = []
        plain = ArrowView(self._position, {table: batches}).row_hashes(segment, run_key=run_key)
        texts = self.rows(table.name, [one.key for one in plain])
        for one in plain:
            said = [self.said(column, texts[one.key][column.name]) for column in table.columns]
            found.append((one.key, row_hash(row_text(table.columns, said), run_key=run_key)))
        return found

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        found: dict[int, SegmentDigest] = {}
        for bucket in range(segment.buckets):
            part = replace(segment, buckets=segment.buckets, among=(bucket,), among_of=segment.buckets)
            hashes = [one for _, one in self._hashes(part, run_key)]
            if hashes:
                found[bucket] = self.digest(hashes)
        return found

    def digest(self, hashes: Sequence[str]) -> SegmentDigest:
        low, high = (sum(int(one[at : at + 15], 16) for one in hashes) for at in (0, 15))
        return SegmentDigest(len(hashes), len(hashes), low, high)

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        return [RowHash(*both) for both in self._hashes(segment, run_key)]


class Xor(Answering):
    def digest(self, hashes: Sequence[str]) -> SegmentDigest:
        low = high = 0
        for one in hashes:
            low, high = low ^ int(one[:15], 16), high ^ int(one[15:30], 16)
        return SegmentDigest(len(hashes), len(hashes), low, high)


def altered(said: Callable[[Column, str | None], str | None]) -> type[Answering]:
    return type("Altered", (Answering,), {"said": staticmethod(said)})


def on(*kinds: Kind) -> Callable[[Callable[[str], str | None]], type[Answering]]:
    def of(change: Callable[[str], str | None]) -> type[Answering]:
        return altered(lambda column, text: change(text) if text is not None and column.kind in kinds else text)

    return of


WRONG = {
    "trims": on(Kind.STRING)(lambda text: text.strip()),
    "drops NULLs": altered(lambda _, text: text or ""),
    "folds case": on(Kind.STRING, Kind.CHAR)(lambda text: text.lower()),
    "rounds decimals": on(Kind.DECIMAL)(lambda text: text[:-1]),
    "loses signs": on(Kind.DECIMAL)(lambda text: text.removeprefix("-")),
    "cuts seconds": on(Kind.DATETIME)(lambda text: str(int(text) // 1_000_000)),
    "takes local time for UTC": on(Kind.DATETIME)(lambda text: str(int(text) % 3_600_000_000)),
    "leaves a column out": altered(lambda column, text: None if column.name == "proof" else text),
    "adds letters up": on(Kind.STRING, Kind.CHAR)(lambda text: "".join(sorted(text))),
    "takes a flag for true": on(Kind.BOOLEAN)(lambda _: "1"),
    "adds hashes by XOR": Xor,
}


def answering(kind: type[ArrowView]) -> ArrowView:
    return arrow(WIDE, ROWS[:120], kind)


def test_a_server_that_answers_by_the_texts_that_it_has_passes() -> None:
    assert ran(WIDE, answering(Answering), answering(Answering)).is_passed


@pytest.mark.parametrize("wrong", list(WRONG))
def test_a_digest_that_is_wrong_on_both_sides_is_caught(wrong: str) -> None:
    source, destination = answering(WRONG[wrong]), answering(WRONG[wrong])
    verdicts = compare_tables([work(WIDE)], source=[source], destination=[destination])
    assert [one.verdict for one in verdicts] == [Verdict.MATCH]
    (under,), evidence = self_tested(verdicts, [work(WIDE)], source=source, destination=destination)
    assert under.verdict is Verdict.INCONCLUSIVE, evidence
    assert "seed" in under.reason


def test_a_comparison_that_finds_nothing_is_caught_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    right = reconcile.compare_table

    def blind(sides: Sides, **rest: Any) -> Any:
        return replace(right(sides, **rest), verdict=Verdict.MATCH, breaks=())

    monkeypatch.setattr("seamline.sync.self_test.compare_table", blind)
    view = arrow(WIDE)
    verdicts = compare_tables([work(WIDE)], source=[view], destination=[view])
    (under,), evidence = self_tested(verdicts, [work(WIDE)], source=view, destination=view)
    assert under.verdict is Verdict.INCONCLUSIVE
    assert f"did not find its planted breaks: {PLANTED} of {PLANTED} missed, 0 found that nobody" in under.reason
    assert evidence[NEEDS_A_PERSON]
    (missed,) = (line for line in self_test_in_words(evidence) if line.startswith("not found: wide"))
    assert missed.endswith(f" and {PLANTED - 5} more")


def test_a_comparison_that_finds_what_is_not_there_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = reconcile.compare_table

    def seeing(sides: Sides, **rest: Any) -> Any:
        found = right(sides, **rest)
        return replace(found, breaks=(*found.breaks, replace(found.breaks[0], key='{"id": "-7"}')))

    monkeypatch.setattr("seamline.sync.self_test.compare_table", seeing)
    view = arrow(WIDE)
    verdicts = compare_tables([work(WIDE)], source=[view], destination=[view])
    (under,), _ = self_tested(verdicts, [work(WIDE)], source=view, destination=view)
    assert under.verdict is Verdict.INCONCLUSIVE
    assert "0 of 31 missed, 1 found that nobody planted" in under.reason


def test_a_self_test_that_comes_to_no_end_leaves_its_table_inconclusive_and_no_other() -> None:
    other = replace(WIDE, name="other")
    batch = batch_of(WIDE, ROWS)

    class HalfLost(ArrowView):
        def shadow(self, wanted: ShadowCopy) -> ArrowView:
            if wanted.table.name == "other":
                raise TransientError("the server of other went away")
            return super().shadow(wanted)

    view = HalfLost(P, {WIDE: lambda: iter([batch]), other: lambda: iter([batch])})
    items = [work(WIDE), work(other)]
    verdicts = compare_tables(items, source=[view], destination=[view])
    under, evidence = self_tested(verdicts, items, source=view, destination=view)
    assert [one.verdict for one in under] == [Verdict.MATCH, Verdict.INCONCLUSIVE]
    assert "the server of other went away" in under[1].reason
    assert NEEDS_A_PERSON not in evidence


# ---- what it is made of ---------------------------------------------------------------------------------------------


def test_what_a_reconciliation_keeps_of_it_is_plain_json_and_reads_as_one_line() -> None:
    found = ran(WIDE, arrow(WIDE), arrow(WIDE), "8f3a")
    evidence = json.loads(json.dumps({SELF_TEST: self_test_to_json(found)}))
    assert self_test_in_words(evidence) == [
        f"{PLANTED} of {PLANTED} planted breaks found, 0 others; 20 kinds in 1 table, seed 8f3a"
    ]
    assert self_test_in_words({}) == []


def test_a_table_that_another_proof_gave_its_verdict_is_named_as_planted_for_the_search_alone() -> None:
    found = SelfTest("8f3a", PLANTED, PLANTED, 1, ("gone",), left_out={"log": "it has no rows"})
    evidence = {SELF_TEST: self_test_to_json(found), PROVEN_BY_KEYS: ["log", "wide"]}
    assert self_test_in_words(evidence)[1] == (
        "planted for the search alone, which did not give the verdict of a table proven by keys: wide"
    )


def test_a_view_of_texts_answers_as_one_of_rows_does() -> None:
    rows = entries(200)
    memory = MemoryView(ENTRY, rows)
    texts = TextView(ENTRY, list(memory.rows("entry", _keys(memory)).values()), P)
    for segment in (Segment("entry", buckets=16), Segment("entry", buckets=16, among=(3,), among_of=8)):
        assert texts.digests(segment, run_key="k") == memory.digests(segment, run_key="k")
        mine, theirs = (view.row_hashes(segment, run_key="k") for view in (texts, memory))
        assert Counter(mine) == Counter(theirs)
    assert texts.key_span("entry") == memory.key_span("entry")
    assert texts.columns("entry") == memory.columns("entry")
    assert {group: count for group, (count, _) in texts.totals(Segment("entry"), columns=(), by=()).items()} == {
        (): len(rows)
    }
    summed = texts.totals(Segment("entry"), columns=["amount"], by=("currency",))
    assert sum(amount or 0 for _, amount in summed.values()) == sum(row["amount"] for row in rows)


def _keys(view: MemoryView) -> list[str]:
    return [row.key for row in view.row_hashes(Segment("entry"), run_key="k")]
