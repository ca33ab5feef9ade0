"""Copying tables from MariaDB to PostgreSQL inside one task: child processes that read, in turns, and write.

Every child has its own sessions at the rendezvous' one position; a few of them stream at a time, the others wait.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection as Pipe

from seamline.adapters.children import Message, running
from seamline.adapters.connections import resolve
from seamline.adapters.mariadb.bulk import BulkRead, BulkReaders, arrow_schema
from seamline.adapters.mariadb.client import role
from seamline.adapters.mariadb.rendezvous import Gates
from seamline.adapters.postgres.staging import StagedPlace, fill
from seamline.domain.errors import InvariantViolated
from seamline.plan.model import SourcePlan

# A child costs about 30 MB of its own. More tables than children: each child has several sessions.
CHILDREN_MAX = 8


@dataclass(frozen=True, slots=True)
class CopyItem:
    """One table for one destination, given by its connection id: secrets are resolved where they are used."""

    read: BulkRead
    place: StagedPlace
    destination: str
    connection_id: str


@dataclass(frozen=True, slots=True)
class Copied:
    """`address` is where the reading session stood, by its own word."""

    table: str
    destination: str
    staged_as: str
    rows: int
    address: str


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """The work of one task: per member of the rendezvous its tables. `first_member` is the number of its first one."""

    source: SourcePlan
    run: str
    first_member: int
    members: tuple[tuple[CopyItem, ...], ...]
    streaming_max: int = 1


def grouped(
    items: Sequence[CopyItem], *, source: SourcePlan, run: str, tasks: int, children_max: int = CHILDREN_MAX
) -> list[CopyGroup]:
    """Spread items over at most `tasks` groups, the largest tables first and apart."""
    order = sorted(items, key=lambda item: -item.read.table.rows_estimate)
    count = max(1, min(tasks, len(order)))
    groups: list[CopyGroup] = []
    first_member = 0
    for number in range(count):
        mine = order[number::count]
        children = min(len(mine), children_max)
        members = tuple(tuple(mine[child::children]) for child in range(children))
        groups.append(CopyGroup(source, run, first_member, members))
        first_member += children
    return groups


def copy_group(group: CopyGroup, *, report: Callable[[Copied], None] = lambda _: None) -> list[Copied]:
    """Open, wait for the rendezvous, copy. Raises the first error of any child; the others are ended then."""
    works = [partial(_member, group, number) for number in range(len(group.members))]
    turns = deque(number for number, items in enumerate(group.members) for _ in items)
    expected = len(turns)
    copied: list[Copied] = []
    with running(works) as children:
        for _ in range(min(group.streaming_max, expected)):
            children.tell(turns.popleft(), "your turn")
        for message in children.messages():
            if message.error is not None:
                raise message.error
            if isinstance(message.value, Copied):
                copied.append(message.value)
                report(message.value)
                if turns:
                    children.tell(turns.popleft(), "your turn")
    if len(copied) != expected:
        raise InvariantViolated(f"{len(copied)} of {expected} tables were copied and no reader said why")
    return copied


def _member(group: CopyGroup, number: int, pipe: Pipe) -> None:
    items = group.members[number]
    connection = role(group.source, group.source.reader)
    readers = BulkReaders(
        connection, [item.read for item in items], gates=Gates(group.run), member=group.first_member + number
    )
    try:
        readers.meet()
        for index, item in enumerate(items):
            pipe.recv()
            pipe.send(Message(number, value=_copy(readers, index, item)))
    finally:
        readers.close()


def _copy(readers: BulkReaders, index: int, item: CopyItem) -> Copied:
    addresses: list[str] = []
    table = item.read.table
    rows = fill(
        resolve(item.connection_id),
        item.place,
        readers.batches(index, proven=addresses.append),
        schema=arrow_schema(table),
    )
    return Copied(table.name, item.destination, item.place.name, rows, addresses[0])
