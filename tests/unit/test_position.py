"""Positions are partly ordered, and survive the way through JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.databases.mysql.binlog_address import binlog_file
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import position_from_json, position_to_json
from seamline.sources.mariadb.position import BinlogPosition, gtid_sequences
from seamline.sources.postgres.position import PostgresPosition, widen_xid
from seamline.sources.postgres.sessions import position_at
from seamline.sources.postgres.slots import parse_lsn

sequences = st.dictionaries(st.integers(0, 3), st.integers(1, 1000), max_size=4)
binlog_positions = st.builds(
    lambda found, file, offset: BinlogPosition(gtid_of(found), file, offset if file else 0),
    sequences,
    st.sampled_from(("", "mdb-bin.000001", "mdb-bin.000012")),
    st.integers(4, 2**31),
)
postgres_positions = st.builds(
    PostgresPosition,
    st.integers(0, 2**63),
    st.none() | st.integers(0, 2**32 - 1),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.lists(st.integers(0, 2**40), max_size=3).map(tuple),
)


def gtid_of(found: dict[int, int], server: int = 7) -> str:
    return ",".join(f"{domain}-{server}-{number}" for domain, number in sorted(found.items()))


@given(binlog_positions | postgres_positions)
def test_a_position_survives_the_way_through_json(position: BinlogPosition | PostgresPosition) -> None:
    assert position_from_json(json.loads(json.dumps(position_to_json(position)))) == position


def test_an_unknown_kind_of_position_is_refused() -> None:
    with pytest.raises(InvariantViolated, match="unknown kind of position"):
        position_from_json({"kind": "oracle"})


@given(sequences)
def test_every_position_covers_itself_and_the_empty_one(found: dict[int, int]) -> None:
    position = BinlogPosition(gtid_of(found))
    assert position.covers(position)
    assert position.covers(BinlogPosition(""))


@given(sequences, sequences, sequences)
def test_covering_is_transitive(first: dict[int, int], second: dict[int, int], third: dict[int, int]) -> None:
    a, b, c = (BinlogPosition(gtid_of(found)) for found in (first, second, third))
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


@given(sequences, sequences)
def test_covering_both_ways_means_the_same_sequences(first: dict[int, int], second: dict[int, int]) -> None:
    a, b = BinlogPosition(gtid_of(first)), BinlogPosition(gtid_of(second))
    if a.covers(b) and b.covers(a):
        assert first == second


def test_positions_of_two_domains_need_not_be_ordered() -> None:
    a, b = BinlogPosition("0-7-5,1-7-1"), BinlogPosition("0-7-4,1-7-2")
    assert not a.covers(b)
    assert not b.covers(a)


@given(sequences, st.integers(0, 3), st.integers(1, 100))
def test_a_position_advanced_by_a_transaction_covers_both(found: dict[int, int], domain: int, further: int) -> None:
    before = BinlogPosition(gtid_of(found), "mdb-bin.000001", 4)
    # Another server of the replica set may have written the unit.
    transaction = BinlogPosition(f"{domain}-9-{found.get(domain, 0) + further}", "mdb-bin.000002", 400)
    after = before.advanced_by(transaction)
    assert after.covers(before)
    assert after.covers(transaction)
    assert not before.covers(transaction)
    assert (after.file, after.offset) == (transaction.file, transaction.offset)
    assert gtid_sequences(after.gtid) == {**found, domain: found.get(domain, 0) + further}


def test_a_transaction_without_an_address_leaves_the_address_as_it_was() -> None:
    after = BinlogPosition("0-7-1", "mdb-bin.000001", 4).advanced_by(BinlogPosition("0-7-2"))
    assert after == BinlogPosition("0-7-2", "mdb-bin.000001", 4)


@pytest.mark.parametrize("gtid", ["1-2", "a-b-c", "0-7-1;1-7-2", "0-7--1"])
def test_what_is_not_a_gtid_is_refused(gtid: str) -> None:
    with pytest.raises(InvariantViolated, match="not a MariaDB GTID"):
        gtid_sequences(gtid)


@pytest.mark.parametrize("name", ["", "mdb-bin", "mdb-bin.x"])
def test_what_is_not_a_binlog_file_is_refused(name: str) -> None:
    with pytest.raises(InvariantViolated, match="not a binlog file"):
        binlog_file(name)


def test_binlog_files_are_ordered_by_number_not_by_text() -> None:
    assert binlog_file("mdb-bin.999999")[1] < binlog_file("mdb-bin.1000000")[1]


@given(st.integers(0, 2**48), st.integers(-(2**31) + 1, 2**31 - 1))
def test_a_32_bit_xid_is_widened_to_the_nearest(near: int, distance: int) -> None:
    xid = near + distance
    if xid >= 0:
        assert widen_xid(xid & 0xFFFFFFFF, near) == xid


@given(st.integers(3, 2**40), st.sets(st.integers(1, 50), max_size=10))
def test_a_postgres_snapshot_sees_what_was_committed_before_it(xmax: int, back: set[int]) -> None:
    in_progress = tuple(sorted(xmax - distance for distance in back if distance < xmax))
    snapshot = PostgresPosition(lsn=1, xmin=min(in_progress, default=xmax), xmax=xmax, in_progress=in_progress)
    assert not snapshot.sees_xid(xmax & 0xFFFFFFFF)
    for distance in range(1, min(60, xmax)):
        xid = xmax - distance
        assert snapshot.sees_xid(xid & 0xFFFFFFFF) == (xid not in in_progress)


EPOCH = 2**32


@given(st.integers(1, 2**20), st.integers(-(2**20), 2**20), st.integers(-(2**31) + 1, 2**31 - 1))
def test_xids_around_their_wraparound_are_distinguished(epoch: int, offset: int, distance: int) -> None:
    xmax = epoch * EPOCH + offset
    xid = xmax + distance
    assert widen_xid(xid & 0xFFFFFFFF, xmax) == xid
    assert PostgresPosition(lsn=1, xmin=xmax, xmax=xmax).sees_xid(xid & 0xFFFFFFFF) == (distance < 0)


def test_a_snapshot_sees_what_lies_below_its_xmin_though_its_xmax_is_smaller() -> None:
    # A slot exports such ones: xmin follows every record of running transactions, xmax does not (PostgreSQL 18.4).
    # `2444:2443:` at 0/33525D0 saw 2443, which had committed at 0/33524A0: XidInMVCCSnapshot asks for xmin first.
    snapshot = PostgresPosition(lsn=53814736, xmin=2444, xmax=2443)
    assert [snapshot.sees_xid(xid) for xid in (2442, 2443, 2444)] == [True, True, False]


def test_a_snapshot_taken_just_after_the_wraparound_sees_what_committed_before_it() -> None:
    snapshot = PostgresPosition(lsn=1, xmin=EPOCH - 2, xmax=EPOCH + 5, in_progress=(EPOCH - 2, EPOCH + 3))
    xids = [EPOCH - 3, EPOCH - 2, EPOCH - 1, EPOCH + 2, EPOCH + 3, EPOCH + 4, EPOCH + 5, EPOCH + 6]
    assert [snapshot.sees_xid(xid % EPOCH) for xid in xids] == [True, False, True, True, False, True, False, False]


def test_a_postgres_snapshot_covers_by_transaction_and_not_by_where_a_row_lies() -> None:
    snapshot = PostgresPosition(lsn=500, xmin=745, xmax=750, in_progress=(746, 748))
    assert snapshot.covers(PostgresPosition(lsn=900, xid=747))
    # Its rows were in the WAL already, its commit was not.
    assert not snapshot.covers(PostgresPosition(lsn=100, xid=746))
    assert not snapshot.covers(PostgresPosition(lsn=100, xid=750))


@pytest.mark.parametrize(
    ("position", "other"),
    [
        (PostgresPosition(lsn=500, xid=750), PostgresPosition(lsn=500, xid=745)),
        (PostgresPosition(lsn=500, xid=740), PostgresPosition(lsn=400, xid=745)),
        (PostgresPosition(lsn=500, xmin=1, xmax=9), PostgresPosition(lsn=500)),
        (PostgresPosition(lsn=500, xmin=1, xmax=9), PostgresPosition(lsn=400, xmin=1, xmax=12)),
    ],
)
def test_without_a_snapshot_or_a_transaction_the_commit_decides(
    position: PostgresPosition, other: PostgresPosition
) -> None:
    assert position.covers(other)
    assert not other.covers(position) or other.lsn == position.lsn


@pytest.mark.parametrize(
    ("text", "number"),
    [("0/0", 0), ("0/27A9D68", 41590120), ("16/B374D848", 0x16B374D848), ("FFFFFFFF/FFFFFFFF", 2**64 - 1)],
)
def test_an_lsn_is_read_as_the_server_prints_it(text: str, number: int) -> None:
    assert parse_lsn(text) == number
    assert str(PostgresPosition(number)) == text


@given(st.integers(0, 2**64 - 1))
def test_every_lsn_comes_back_from_its_text(lsn: int) -> None:
    assert parse_lsn(str(PostgresPosition(lsn))) == lsn
    assert parse_lsn(str(PostgresPosition(lsn)).lower()) == lsn


@pytest.mark.parametrize(
    ("seen", "xmin", "xmax", "in_progress"),
    [
        ("745:750:746,748", 745, 750, (746, 748)),
        ("745:745:", 745, 745, ()),
        ("745:746:745", 745, 746, (745,)),
        (f"{EPOCH - 1}:{EPOCH + 2}:{EPOCH - 1},{EPOCH}", EPOCH - 1, EPOCH + 2, (EPOCH - 1, EPOCH)),
    ],
)
def test_a_snapshot_as_the_server_prints_it_becomes_a_position(
    seen: str, xmin: int, xmax: int, in_progress: tuple[int, ...]
) -> None:
    assert position_at(41591136, seen) == PostgresPosition(
        lsn=41591136, xid=None, xmin=xmin, xmax=xmax, in_progress=in_progress
    )
