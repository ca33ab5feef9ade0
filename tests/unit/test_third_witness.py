"""Which side of a break has moved, by what the log has since both sides last matched."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from seamline.domain.baseline import Buckets
from seamline.domain.break_id import break_id
from seamline.domain.catalogue import Table
from seamline.domain.cutover import Boundary
from seamline.domain.digest import Segment
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Break, Verdict
from seamline.domain.witness import THIRD_WITNESS, Moved, third_witness_in_words, witness_from_json, witness_to_json
from seamline.sync.comparison import compare_live
from seamline.sync.third_witness import LOG_READ_MAX_S
from tests.log_topic import position
from tests.unit.memory_views import ENTRY, MemoryView, entries
from tests.unit.test_barrier import World
from tests.unit.test_comparison import RUN
from tests.unit.witnessed_bank import PAIRED, Bank


def matched(table: Table = ENTRY) -> Bank:
    """A bank that has matched, with a log before it."""
    bank = Bank(table=replace(table, rows_estimate=40))
    bank.write(key=9, memo="before the match")
    found = bank.compare()
    assert found.verdict is Verdict.MATCH and THIRD_WITNESS not in found.evidence
    assert bank.read == [], "nobody asks the log of a match"
    return bank


def witness_of(found: Reconciliation, key: str = "") -> Any:
    (table,) = found.tables
    assert table.verdict is Verdict.BREAK
    (one,) = [one for one in table.breaks if key in one.key]
    return one.witness


SCHEMES = pytest.mark.parametrize("table", [ENTRY, PAIRED], ids=["ranges", "hashes"])


@SCHEMES
def test_a_row_that_was_changed_in_the_destination_alone_was_changed_outside_seamline(table: Table) -> None:
    bank = matched(table)
    bank.destination[4]["memo"] = "by hand"
    found = bank.compare()
    witness = witness_of(found)
    assert witness.moved is Moved.DESTINATION and witness.changes == 0 and witness.last == ()
    assert witness.why == f"the log explains no change of this row since {position(1)}"
    assert witness.in_words.startswith("the destination was changed outside Seamline: the log explains no change")
    assert list(third_witness_in_words(found.evidence)) == [
        f"entry: the destination was changed outside Seamline: 1; by the log since {position(1)}, committed"
        " 2026-02-25 06:13:20 +00:00"
    ]
    assert bank.broken == ["entry"]


@SCHEMES
def test_a_row_that_was_changed_in_the_source_without_its_log_is_the_sources(table: Table) -> None:
    bank = matched(table)
    bank.source[4]["memo"] = "with the log switched off"
    witness = witness_of(bank.compare())
    assert (witness.moved, witness.changes) == (Moved.SOURCE, 0)


@SCHEMES
def test_changes_of_other_rows_of_the_bucket_do_not_hide_who_moved(table: Table) -> None:
    bank = matched(table)
    for key in range(1, 41):
        if key != 5:
            bank.write(key=key, amount=Decimal(key))
    bank.destination[4]["memo"] = "by hand"
    assert witness_of(bank.compare()).moved is Moved.DESTINATION


def test_the_last_changes_of_the_row_are_shown_with_position_and_time_and_no_value() -> None:
    bank = matched()
    for memo in ("one", "two", "three", "four"):
        bank.write(key=5, memo=memo)
    bank.destination[4]["memo"] = "by hand"
    witness = witness_of(bank.compare())
    assert (witness.moved, witness.changes, len(witness.last)) == (Moved.DESTINATION, 4, 3)
    assert witness.why == "the source holds the row as the log has it last"
    newest = witness.last[0]
    number = bank.log.transactions
    assert newest.operation == "update" and newest.position.startswith(f"0-1-{number}")
    assert newest.at == datetime.fromtimestamp((1_000 + number) / 1000, UTC)
    assert not {"by hand", "four"} & set(str(witness_to_json(witness)).split("'"))
    assert witness_from_json(witness_to_json(witness)) == witness


def test_a_change_that_the_source_holds_otherwise_than_its_log_is_the_sources() -> None:
    bank = matched()
    bank.write(key=5, memo="logged")
    bank.source[4]["memo"] = "changed again with the log switched off"
    assert witness_of(bank.compare()).moved is Moved.SOURCE


def test_a_row_of_which_neither_side_holds_the_last_image_is_unknown() -> None:
    bank = matched()
    bank.write(key=5, memo="logged")
    bank.source[4]["memo"], bank.destination[4]["memo"] = "one", "other"
    witness = witness_of(bank.compare())
    assert (witness.moved, witness.why) == (Moved.UNKNOWN, "neither side holds the row as the log has it last")


MISSING: dict[str, tuple[Callable[[Bank], None], Moved]] = {
    "inserted and lost": (lambda bank: bank.insert(50, to="source"), Moved.DESTINATION),
    "inserted and gone at the source": (lambda bank: bank.insert(50, to="destination"), Moved.SOURCE),
    "deleted and kept": (lambda bank: bank.delete(7, of="source"), Moved.DESTINATION),
    "deleted and back at the source": (lambda bank: bank.delete(7, of="destination"), Moved.SOURCE),
    "taken away by hand": (lambda bank: bank.destination.pop(4) and None, Moved.DESTINATION),
    "put there by hand": (lambda bank: bank.put(bank.destination, {**entries(1)[0], "id": 999}), Moved.DESTINATION),
}


@pytest.mark.parametrize("what", MISSING)
def test_rows_that_a_side_lacks_are_judged_by_what_the_log_says_of_them(what: str) -> None:
    happens, moved = MISSING[what]
    bank = matched()
    happens(bank)
    assert witness_of(bank.compare()).moved is moved


def test_a_table_that_was_emptied_in_the_log_holds_what_came_behind_that() -> None:
    bank = matched()
    bank.log.truncate("entry")
    # Its BEGIN ends where the next one stands.
    bank.log.transaction()
    bank.source.clear()
    del bank.destination[1:]
    witness = witness_of(bank.compare())
    assert (witness.moved, witness.last[0].operation) == (Moved.DESTINATION, "truncate")


def test_where_the_log_does_not_say_what_rows_were_a_row_that_it_names_is_known_and_another_one_is_not() -> None:
    bank = matched()
    bank.write(key=5, memo="logged")
    for place, record in enumerate(bank.log.records):
        if record.rows:
            # As a PostgreSQL without REPLICA IDENTITY FULL writes it.
            bank.log.records[place] = replace(record, rows=[row._replace(before=None) for row in record.rows])
    bank.destination[4]["memo"] = bank.destination[5]["memo"] = "by hand"
    found = bank.compare()
    assert witness_of(found, '"5"').moved is Moved.DESTINATION
    other = witness_of(found, '"6"')
    assert other.moved is Moved.UNKNOWN and "what other rows of its bucket were before" in other.why


REASONS: dict[str, tuple[Callable[[Bank], None], str]] = {
    "no match yet": (lambda bank: bank.kept.clear(), "no comparison of the table has matched"),
    "loaded again": (
        lambda bank: setattr(bank, "boundaries", (Boundary("entry", position(1), generation=2, ended=True),)),
        "loaded again or altered",
    ),
    "another log": (lambda bank: _another_log(bank), "created again"),
    "altered in between": (lambda bank: _altered(bank), "ALTER TABLE"),
    "a log without end": (lambda bank: setattr(bank.log_clock, "now", iter([0.0, *[LOG_READ_MAX_S + 1] * 9]).__next__),
                          "was not read in 120 s"),
}  # fmt: skip


def _altered(bank: Bank) -> None:
    bank.log.ddl("ALTER TABLE entry ADD x int", "entry")
    bank.write(key=8, memo="logged")


def _another_log(bank: Bank) -> None:
    bank.kept["entry"] = replace(bank.kept["entry"], ledger=replace(bank.kept["entry"].ledger, topic_id="another"))


@pytest.mark.parametrize("what", REASONS)
def test_what_the_log_cannot_say_is_said_with_the_reason_and_the_verdict_stays(what: str) -> None:
    happens, reason = REASONS[what]
    bank = matched()
    bank.write(key=7, memo="logged")
    happens(bank)
    bank.destination[4]["memo"] = "by hand"
    found = bank.compare()
    assert witness_of(found) is None
    (line,) = third_witness_in_words(found.evidence)
    assert line.startswith("entry: which side has moved is not known: ") and reason in line


def test_a_baseline_is_replaced_by_the_next_match_and_stays_at_a_break() -> None:
    bank = matched()
    first = bank.kept["entry"]
    bank.destination[4]["memo"] = "by hand"
    bank.compare()
    assert bank.kept["entry"] == first
    bank.write(key=5, memo="right again")
    assert bank.compare().verdict is Verdict.MATCH
    assert bank.kept["entry"].ledger.next_offset > first.ledger.next_offset


def test_a_comparison_that_keeps_nothing_is_as_it_was() -> None:
    bank = matched()
    assert "third_witness" not in compare_live(RUN, "warehouse", barrier=World().barrier(), views=2).evidence
    assert bank.kept["entry"].buckets == Buckets.of_edges(bank.kept["entry"].buckets.edges or ())
    assert bank.kept["entry"].buckets.count == 10


def test_the_witness_does_not_make_a_break_another_one() -> None:
    bank = matched()
    bank.destination[4]["memo"] = "by hand"
    (one,) = bank.compare().tables[0].breaks
    assert one == replace(one, witness=None) and one.witness is not None
    plain = Break(one.table, one.type, one.key, one.source, one.destination)
    assert break_id("s", "d", one) == break_id("s", "d", plain)


def test_a_bucket_is_the_same_for_the_database_and_for_the_log() -> None:
    for table in (ENTRY, PAIRED):
        bank = matched(table)
        view = MemoryView(table, entries(40))
        buckets = bank.kept["entry"].buckets
        for number in range(buckets.count):
            part: Any = buckets.part(number)
            rows = view.row_hashes(replace(Segment("entry"), **part), run_key="")
            assert {buckets.of(table, row.key) for row in rows} <= {number}
