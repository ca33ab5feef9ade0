"""What a TRUNCATE inside of a transaction that is larger than memory does to the chunks that are spilled already."""

from dataclasses import replace

from tests.contract.behaviours import Applying, Behaviour, account, published, texts
from tests.contract.worlds import World
from tests.log_topic import ACCOUNT, AUDIT, Change, insert, update

TRUNCATE_BEHAVIOURS: list[Behaviour] = []


def behaviour(function: Behaviour) -> Behaviour:
    TRUNCATE_BEHAVIOURS.append(function)
    return function


def changes_of(number: int) -> list[Change]:
    """Those of one chunk: a row of its own, one that every chunk makes and changes, and rows without a key."""
    again = account(50, f"made {number}")
    return [
        insert(ACCOUNT, **account(number, "own")),
        insert(ACCOUNT, **again),
        update(ACCOUNT, again, account(50, f"changed {number}")),
        insert(AUDIT, actor="all", action="same"),
        insert(AUDIT, actor="x", action=str(number)),
        insert(AUDIT, actor="x", action=str(number)),
    ]


def span_emptied_in(stream: Applying, emptied: set[int]) -> None:
    """Chunks 1, 2, 3 and the rest as 4; both tables are emptied at the begin of each of `emptied`."""
    staged = []
    for number in (1, 2, 3, 4):
        for batch in stream.batches(*changes_of(number)):
            batch = replace(batch, chunk=number % 4, truncate_first=number in emptied)
            staged.append(stream.sink.stage(stream.lease, batch))
    commit = stream.sink.commit(stream.lease, staged, progress=stream.progress())
    stream.next_offset = commit.ledger.next_offset


def assert_only_from(world: World, first: int) -> None:
    numbers = range(first, 5)
    assert world.rows(ACCOUNT) == texts(*(account(n, "own") for n in numbers), account(50, "changed 4"))
    every = [{"actor": "all", "action": "same"}] * len(numbers)
    assert world.rows(AUDIT) == texts(*every, *({"actor": "x", "action": str(n)} for n in numbers for _ in range(2)))


def holding(world: World) -> Applying:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(n, "old")) for n in (2, 50, 99)], insert(AUDIT, actor="all", action="same"))
    return stream


@behaviour
def a_truncate_before_all_chunks_empties_the_table(world: World) -> None:
    stream = holding(world)
    span_emptied_in(stream, {1, 2, 3, 4})
    assert_only_from(world, 4)
    assert world.findings() == []


@behaviour
def a_truncate_between_chunks_undoes_those_before_it(world: World) -> None:
    stream = holding(world)
    span_emptied_in(stream, {2, 3})
    assert_only_from(world, 3)


@behaviour
def a_truncate_in_the_rest_undoes_all_chunks(world: World) -> None:
    stream = holding(world)
    span_emptied_in(stream, {4})
    assert_only_from(world, 4)
    stream.span(insert(ACCOUNT, **account(1)))
    assert world.findings() == []
