"""The exact-cutover rule: every transaction comes with the snapshot or from the log, never both, never neither."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.cutover import Boundary, BoundaryGate, is_covered
from seamline.domain.errors import InvariantViolated, LogCorrupted
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.position import PostgresPosition


def placed(gtid: str, number: int) -> BinlogPosition:
    """At the address of transaction `number`; addresses grow over files of 50 transactions each."""
    return BinlogPosition(gtid, f"mdb-bin.{1 + number // 50:06}", 4 + number % 50 * 100)


def at(number: int) -> BinlogPosition:
    """The transaction with this sequence number."""
    return placed(f"0-7-{number}", number)


def snapshot_at(number: int) -> BinlogPosition:
    """A snapshot that includes transactions up to `number`; its address is exclusive, where the next transaction
    begins."""
    return placed(f"0-7-{number}", number + 1)


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_snapshot_covers_exactly_the_transactions_up_to_it(transaction: int, snapshot: int) -> None:
    assert is_covered(at(transaction), snapshot_at(snapshot)) == (transaction <= snapshot)


@given(st.lists(st.sampled_from([0, 1, 5]), min_size=1, max_size=80), st.data())
def test_a_snapshot_covers_the_transactions_before_it_in_whatever_domains_they_were_written(
    domains: list[int], data: st.DataObject
) -> None:
    transactions, gtids = [], [""]
    sequences: dict[int, int] = {}
    for number, domain in enumerate(domains):
        sequences[domain] = sequences.get(domain, 0) + 1
        transactions.append(placed(f"{domain}-7-{sequences[domain]}", number))
        gtids.append(",".join(f"{one}-7-{sequence}" for one, sequence in sorted(sequences.items())))
    taken = data.draw(st.integers(0, len(transactions)))
    snapshot = placed(gtids[taken], taken)
    assert [is_covered(transaction, snapshot) for transaction in transactions] == [
        number < taken for number in range(len(transactions))
    ]


@given(st.integers(0, 100), st.integers(0, 100), st.integers(100, 140))
def test_each_transaction_from_the_low_marker_on_is_taken_once(low: int, beyond: int, end: int) -> None:
    """Whatever the snapshot's place after the low marker: snapshot plus log give every transaction exactly once."""
    snapshot = min(low + beyond, end)
    gate = BoundaryGate({"account": Boundary("account", snapshot_at(snapshot))})
    from_snapshot = [
        transaction for transaction in range(1, end + 1) if is_covered(at(transaction), snapshot_at(snapshot))
    ]
    from_log = [transaction for transaction in range(low + 1, end + 1) if gate.keeps("account", at(transaction))]
    assert from_snapshot + from_log == list(range(1, end + 1))


def test_gtid_and_address_that_disagree_stop_everything() -> None:
    with pytest.raises(InvariantViolated, match="disagree"):
        is_covered(BinlogPosition("0-7-5", "mdb-bin.000001", 900), BinlogPosition("0-7-9", "mdb-bin.000001", 400))


def test_another_server_s_binlog_stops_everything() -> None:
    with pytest.raises(InvariantViolated, match="does not belong"):
        is_covered(BinlogPosition("0-7-5", "other-bin.000001", 4), BinlogPosition("0-7-9", "mdb-bin.000001", 400))


def test_where_an_address_is_not_known_the_gtid_decides_alone() -> None:
    assert is_covered(BinlogPosition("0-7-5"), snapshot_at(9))
    assert not is_covered(BinlogPosition("0-7-10"), snapshot_at(9))


def test_positions_of_different_sources_are_never_compared() -> None:
    with pytest.raises(InvariantViolated, match="different sources"):
        is_covered(at(1), PostgresPosition(lsn=5, xmax=9))


def test_a_postgres_transaction_without_its_transaction_id_is_refused() -> None:
    with pytest.raises(InvariantViolated, match="transaction id"):
        is_covered(PostgresPosition(lsn=5), PostgresPosition(lsn=5, xmax=9))


def test_a_transaction_in_progress_at_the_snapshot_comes_from_the_log() -> None:
    snapshot = PostgresPosition(lsn=100, xmin=5, xmax=9, in_progress=(5, 7))
    assert [xid for xid in range(4, 11) if is_covered(PostgresPosition(lsn=200, xid=xid), snapshot)] == [4, 6, 8]


@given(st.permutations(range(12)), st.integers(0, 12), st.integers(-12, 0) | st.integers(5, 1000), st.integers(0, 14))
def test_each_transaction_of_postgres_comes_once_whatever_order_they_began_in(
    commits: list[int], consistent: int, begin: int, behind: int
) -> None:
    """A slot's snapshot sees a prefix of the commits; xids are given when they begin and may wrap around. Where none is
    in progress its xmax may lie `behind` its xmin, which follows records of its own."""
    xids = [2**32 + begin + number for number in commits]
    seen, later = xids[:consistent], xids[consistent:]
    xmax = max(seen, default=min(xids) - 1) + 1
    running = tuple(sorted(xid for xid in later if xid < xmax))
    xmin = min(running, default=xmax)
    xmax = xmax if running else xmin - behind
    snapshot = PostgresPosition(lsn=1_000, xmin=xmin, xmax=xmax, in_progress=running)
    transactions = [PostgresPosition(lsn=place, xid=xid % 2**32) for place, xid in enumerate(xids)]
    gate = BoundaryGate({"account": Boundary("account", snapshot)})
    assert [
        xid for xid, transaction in zip(xids, transactions, strict=True) if is_covered(transaction, snapshot)
    ] == seen
    assert [
        xid for xid, transaction in zip(xids, transactions, strict=True) if gate.keeps("account", transaction)
    ] == later


def test_a_covered_transaction_after_an_uncovered_one_is_a_log_out_of_order() -> None:
    gate = BoundaryGate({"account": Boundary("account", snapshot_at(5))})
    assert gate.keeps("account", at(6))
    with pytest.raises(LogCorrupted) as caught:
        gate.keeps("account", at(4))
    assert caught.value.table == "account"


def test_after_its_high_marker_a_boundary_is_never_asked_again() -> None:
    boundary = Boundary("account", snapshot_at(5), high_marker="high-1")
    gate = BoundaryGate({"account": boundary, "entry": Boundary("entry", snapshot_at(8), high_marker="high-2")})
    assert gate.is_open
    assert gate.end_at_marker("another") == ()
    assert gate.end_at_marker("high-1") == ("account",)
    assert gate.end_at_marker("high-1") == ()
    # The position rule would say "covered": it is not asked.
    assert gate.keeps("account", at(3))
    assert not gate.keeps("entry", at(3))
    assert gate.end_at_marker("high-2") == ("entry",)
    assert not gate.is_open


def test_a_boundary_that_had_ended_before_a_restart_stays_ended() -> None:
    gate = BoundaryGate({"account": Boundary("account", snapshot_at(5), high_marker="high-1", ended=True)})
    assert not gate.is_open
    assert gate.keeps("account", at(1))


def test_every_table_has_its_own_boundary() -> None:
    gate = BoundaryGate({"a": Boundary("a", snapshot_at(3)), "b": Boundary("b", snapshot_at(6))})
    kept = [
        (table, transaction)
        for transaction in range(1, 9)
        for table in ("a", "b")
        if gate.keeps(table, at(transaction))
    ]
    assert [transaction for table, transaction in kept if table == "a"] == [4, 5, 6, 7, 8]
    assert [transaction for table, transaction in kept if table == "b"] == [7, 8]
