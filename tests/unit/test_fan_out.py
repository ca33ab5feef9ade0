"""Rows that are read once go to every load whole and in order, and a load that fails takes no other with it."""

import threading
from collections.abc import Iterator

import pytest

from seamline.bulk.fan_out import Load, load_each
from seamline.domain.errors import InvariantViolated, TransientError
from seamline.kinds.bulk import PostgresCopy, TableRows


def blocks(rows: TableRows) -> Iterator[bytes]:
    assert isinstance(rows, PostgresCopy)
    return rows.blocks


def numbered(count: int, read: list[int]) -> PostgresCopy:
    def each() -> Iterator[bytes]:
        for number in range(count):
            read.append(number)
            yield b"%d," % number

    return PostgresCopy(each())


def test_every_load_gets_all_rows_in_order_and_they_are_read_once() -> None:
    read: list[int] = []
    got: list[bytes] = [b"", b"", b""]

    def load(index: int, rows: TableRows) -> int:
        got[index] = b"".join(blocks(rows))
        return len(got[index])

    counts = load_each(numbered(50, read), [lambda rows, index=index: load(index, rows) for index in range(3)])
    assert read == list(range(50))
    assert got == [b"".join(b"%d," % number for number in range(50))] * 3
    assert counts == [len(got[0])] * 3


def test_the_slowest_load_sets_the_pace() -> None:
    """Else the rows of a whole table would wait in memory."""
    read: list[int] = []
    go_on = threading.Event()
    ahead_at_most: list[int] = []

    def slow(rows: TableRows) -> int:
        source = blocks(rows)
        next(source)
        assert go_on.wait(10)
        return 1 + sum(1 for _ in source)

    def fast(rows: TableRows) -> int:
        count = 0
        for count, _ in enumerate(blocks(rows), 1):
            if count == 3:
                ahead_at_most.append(len(read))
                go_on.set()
        return count

    assert load_each(numbered(100, read), [slow, fast]) == [100, 100]
    assert ahead_at_most[0] <= 5


def away(rows: TableRows) -> int:
    next(blocks(rows))
    raise TransientError("the destination is away")


def test_an_error_of_one_load_is_its_outcome_and_the_others_get_every_row() -> None:
    read: list[int] = []
    counted, error = load_each(numbered(50, read), [lambda rows: sum(1 for _ in blocks(rows)), away])
    assert counted == 50
    assert isinstance(error, TransientError)
    assert read == list(range(50))


@pytest.mark.parametrize("loads", [[away], [away, away]])
def test_where_every_load_fails_each_has_its_error_and_the_rest_is_not_read(loads: list[Load]) -> None:
    read: list[int] = []
    assert [type(one) for one in load_each(numbered(10**6, read), loads)] == [TransientError] * len(loads)
    assert len(read) < 100


def test_a_violated_invariant_of_one_load_ends_all() -> None:
    def wrong(rows: TableRows) -> int:
        raise InvariantViolated("what must not be")

    with pytest.raises(InvariantViolated):
        load_each(numbered(5, []), [lambda rows: sum(1 for _ in blocks(rows)), wrong])


def test_an_error_of_the_read_ends_every_load_and_none_takes_it_for_the_end() -> None:
    finished: list[int] = []

    def broken() -> Iterator[bytes]:
        yield b"1"
        raise TransientError("the source is away")

    def load(rows: TableRows) -> int:
        count = sum(1 for _ in blocks(rows))
        finished.append(count)
        return count

    for loads in ([load, load], [load]):
        with pytest.raises(TransientError, match="the source is away"):
            load_each(PostgresCopy(broken()), loads)
    assert finished == []


def test_a_single_load_runs_in_the_callers_thread() -> None:
    """Its read and its write hold one another back as they always did, and nothing is handed over."""
    threads: list[int] = []

    def load(rows: TableRows) -> int:
        threads.append(threading.get_ident())
        return sum(1 for _ in blocks(rows))

    assert load_each(numbered(3, []), [load]) == [3]
    assert threads == [threading.get_ident()]
