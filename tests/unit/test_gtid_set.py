"""Sets of MySQL's transactions are read, printed and reckoned with as sets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.cutover import is_covered
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import position_from_json, position_to_json
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mysql.gtid_set import LAST_NUMBER, GtidSet
from seamline.sources.mysql.position import MySqlPosition
from tests.gtid_texts import FIRST, SECOND, Transactions, gtid_text, set_of, transactions

Gtids = GtidSet.parse


@given(transactions)
def test_a_set_is_read_from_any_order_and_printed_in_one(these: Transactions) -> None:
    gtids = Gtids(gtid_text(these))
    assert Gtids(str(gtids)) == gtids == set_of(these)
    assert gtids.count == len(these)
    assert bool(gtids) == bool(these)


@given(transactions, transactions)
def test_sets_of_gtids_are_sets(these: Transactions, those: Transactions) -> None:
    one, other = Gtids(gtid_text(these)), Gtids(gtid_text(those))
    assert one.contains(other) == (these >= those)
    assert one.union(other) == set_of(these | those)
    assert one.minus(other) == set_of(these - those)
    assert (one == other) == (these == those)


@given(transactions, transactions)
def test_a_position_sees_exactly_the_transactions_of_its_set(these: Transactions, those: Transactions) -> None:
    position = MySqlPosition(set_of(these))
    for one in these | those:
        assert position.sees(MySqlPosition(set_of({one}))) == (one in these)
    assert position.covers(MySqlPosition(set_of(those))) == (those <= these)


@given(transactions, transactions)
def test_a_position_advanced_by_transactions_covers_them_in_whatever_order_they_come(
    these: Transactions, those: Transactions
) -> None:
    before = after = MySqlPosition(set_of(these), "binlog.000001", 158)
    for number, one in enumerate(those, 200):
        after = after.advanced_by(MySqlPosition(set_of({one}), "binlog.000002", number))
    assert after.gtids == set_of(these | those)
    assert after.covers(before)
    assert (after.file, after.offset) == (("binlog.000002", 199 + len(those)) if those else ("binlog.000001", 158))


@given(transactions, transactions)
def test_a_stream_has_passed_what_it_passed_and_no_transaction_of_a_gap(
    these: Transactions, those: Transactions
) -> None:
    tracker = MySqlPosition(set_of(these)).tracker()
    for one in those:
        tracker.advance_to(MySqlPosition(set_of({one}), "binlog.000001", 158))
    assert tracker.position.covers(MySqlPosition(set_of(these | those)))
    for number in range(1, 11):
        one = (FIRST, "", number)
        assert tracker.has_passed(MySqlPosition(set_of({one}))) == (one in these | those)


@given(transactions, st.sampled_from(("", "binlog.000007")))
def test_a_position_survives_the_way_through_json(these: Transactions, file: str) -> None:
    position = MySqlPosition(set_of(these), file, 4 if file else 0)
    assert position_from_json(json.loads(json.dumps(position_to_json(position)))) == position


def test_a_transaction_without_an_address_leaves_the_address_as_it_was() -> None:
    after = MySqlPosition(Gtids(f"{FIRST}:1-4"), "binlog.000001", 158).advanced_by(MySqlPosition(Gtids(f"{FIRST}:6")))
    assert after == MySqlPosition(Gtids(f"{FIRST}:1-4:6"), "binlog.000001", 158)
    assert str(after) == f"{FIRST}:1-4:6 binlog.000001:158"
    assert str(MySqlPosition(Gtids(""))) == "empty"


@pytest.mark.parametrize(
    ("number", "file", "offset", "is_inside"),
    [
        (4, "binlog.000001", 157, True),
        (6, "binlog.000001", 158, False),
        (5, "binlog.000002", 4, False),
        (4, "", 0, True),
    ],
)
def test_a_transaction_is_inside_a_snapshot_by_its_gtid_and_its_address(
    number: int, file: str, offset: int, is_inside: bool
) -> None:
    snapshot = MySqlPosition(Gtids(f"{FIRST}:1-4:6-7" if is_inside else f"{FIRST}:1-4"), "binlog.000001", 158)
    assert is_covered(MySqlPosition(Gtids(f"{FIRST}:{number}"), file, offset), snapshot) == is_inside


@pytest.mark.parametrize(("number", "offset"), [(4, 158), (5, 157)])
def test_a_gtid_and_an_address_that_disagree_stop_the_cutover(number: int, offset: int) -> None:
    snapshot = MySqlPosition(Gtids(f"{FIRST}:1-4"), "binlog.000001", 158)
    with pytest.raises(InvariantViolated, match="disagree whether"):
        is_covered(MySqlPosition(Gtids(f"{FIRST}:{number}"), "binlog.000001", offset), snapshot)


def test_a_transaction_of_another_kind_of_source_has_no_place_in_a_snapshot() -> None:
    with pytest.raises(InvariantViolated, match="positions of different sources"):
        is_covered(BinlogPosition("0-7-1"), MySqlPosition(Gtids(f"{FIRST}:1-4")))


# As MySQL 9.7.4 answers GTID_SUBTRACT(text, '').
@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (
            f"{FIRST.upper()}:1-5:Tag_b:3:1-2:taga:9, {FIRST}:4-9:11-3:13,\n{SECOND}:1",
            f"{SECOND}:1,{FIRST}:1-9:13:tag_b:1-3:taga:9",
        ),
        ("", ""),
        (FIRST, ""),
        (f"{FIRST}:taga", ""),
        (f"{FIRST}:9-3", ""),
        (f"{FIRST.replace('-', '')}:1:2", f"{FIRST}:1-2"),
        (f"{{{FIRST}}}:1:2", f"{FIRST}:1-2"),
        (f",, {FIRST} : 1 - 3 : tag : 1 ,", f"{FIRST}:1-3:tag:1"),
        (f"{FIRST}:_t1:1,{FIRST}:2:_T1:2", f"{FIRST}:2:_t1:1-2"),
        (f"{FIRST}:1-{LAST_NUMBER}", f"{FIRST}:1-{LAST_NUMBER}"),
    ],
)
def test_a_text_is_read_as_the_server_reads_it(text: str, printed: str) -> None:
    assert str(Gtids(text)) == printed


@pytest.mark.parametrize(
    "text",
    [f"{FIRST}:0", f"{FIRST}:", f"{FIRST}:1tag:1", f"{FIRST}:1-{LAST_NUMBER + 1}", "0-7-12", f"{FIRST};{SECOND}:1"],
)
def test_what_the_server_refuses_is_refused(text: str) -> None:
    with pytest.raises(InvariantViolated, match="not a set of MySQL GTIDs"):
        Gtids(text)
