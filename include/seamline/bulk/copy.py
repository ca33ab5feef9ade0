"""Copying tables of a source to its destinations inside one task: child processes that read, in turns, and write.

Every child has its own sessions at the read's one position. One of them streams at a time, the others wait. So a task
has one child unless said otherwise, and the sessions at the source grow with the tasks, not with the tables.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import TypeVar

from seamline import registry
from seamline.adapters.children import Children, Message, running, set_table
from seamline.adapters.hanging import SILENCE_S
from seamline.bulk.fan_out import load_each
from seamline.bulk.paced import paced
from seamline.bulk.progress import counted, progress_of, to_log
from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated, SeamlineError
from seamline.domain.load_splits import Split
from seamline.domain.row_transform import RowTransform
from seamline.kinds.bulk import ArrowRows, BulkRead, PostgresCopy, StagedPlace, TableReaders, TableRows
from seamline.kinds.found import power, sink_kind, source_kind
from seamline.kinds.sink import ResumesLoads
from seamline.kinds.source import ExplainsHangingReaders
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.ports import Failpoints
from seamline.sync.reading_pace import Pacer
from seamline.transform.rows import target_rows
from seamline.values.arrow import schema_of

PartT = TypeVar("PartT")

CHILDREN_MAX = 1


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """Where a table goes, by connection ids: secrets are resolved where they are used. `transform`: what is made of its
    rows for this destination. `split`: which part of the table this is, where that is recorded."""

    place: StagedPlace
    destination: DestinationPlan
    transform: RowTransform | None = None
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class CopyItem:
    """One table, or a split of it, which is read once, and where its rows go."""

    read: BulkRead
    targets: tuple[CopyTarget, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """`proof`: the position that the reading session itself reported, "" where nothing was read. `error`: why this
    destination has not all rows, while others have."""

    table: str
    destination: str
    staged_as: str
    rows: int
    proof: str
    error: SeamlineError | None = None


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """The work of one task: per participant of the read its tables. `first_participant` is the number of its first one.

    `barrier` is what participants need to come to the position of the others; it is known when the source is open.
    `destinations`: of all groups of the copy. While one of them goes on, no error of another one ends this group.
    `run_id`: of the run for which the source is read at the pace that it allows; "": as fast as it goes.
    """

    source: SourcePlan
    first_participant: int
    participants: tuple[tuple[CopyItem, ...], ...]
    barrier: str = ""
    streaming_max: int = 1
    destinations: frozenset[str] = frozenset()
    run_id: str = ""


def destinations_of(items: Iterable[CopyItem]) -> frozenset[str]:
    return frozenset(to.destination.name for item in items for to in item.targets)


def grouped(
    items: Sequence[CopyItem], *, source: SourcePlan, tasks: int, children_max: int = CHILDREN_MAX, run_id: str = ""
) -> list[CopyGroup]:
    """Spread items over at most `tasks` groups, the largest tables first and apart. `run_id`: as of `CopyGroup`."""
    if not items:
        return []
    order = sorted(items, key=lambda item: -item.read.table.rows_estimate)
    count = max(1, min(tasks, len(order)))
    groups: list[CopyGroup] = []
    first_participant = 0
    for number in range(count):
        mine = order[number::count]
        children = min(len(mine), children_max)
        participants = tuple(tuple(mine[child::children]) for child in range(children))
        groups.append(
            CopyGroup(source, first_participant, participants, destinations=destinations_of(items), run_id=run_id)
        )
        first_participant += children
    return groups


def copy_group(
    group: CopyGroup,
    *,
    report: Callable[[Copied], None] = lambda _: None,
    began: Callable[[Children], None] = lambda _: None,
    silence_s: float = SILENCE_S,
) -> list[Copied]:
    """Open at the one position, copy. Raises the first error of any child; the others are ended then.

    `began` is called once with the processes that read. `silence_s`: as of `children.running`.
    """
    works = [partial(_participant, group, number) for number in range(len(group.participants))]
    order = deque(number for number, items in enumerate(group.participants) for _ in items)
    expected = len(order)
    copied: list[Copied] = []
    read = 0
    look = partial(why_a_reader_hangs, group.source)
    with running(works, look=look, silence_s=silence_s) as children:
        began(children)
        for _ in range(min(group.streaming_max, expected)):
            children.send(order.popleft(), "your turn")
        for message in children.messages():
            if message.error is not None:
                raise message.error
            if isinstance(message.value, tuple):
                read += 1
                copied += message.value
                for one in message.value:
                    report(one)
                if order:
                    children.send(order.popleft(), "your turn")
    if read != expected:
        raise InvariantViolated(f"{read} of {expected} tables were copied and no reader said why")
    return copied


def _participant(group: CopyGroup, number: int, pipe: Pipe) -> None:
    items = group.participants[number]
    readers = source_kind(group.source.kind).open_readers(
        group.source, [item.read for item in items], barrier=group.barrier, participant=group.first_participant + number
    )
    failed: dict[str, SeamlineError] = {}
    pacer = registry.reading_pacer(group.source, group.run_id, say=to_log) if group.run_id else None
    try:
        readers.open_at_barrier()
        for index, item in enumerate(items):
            pipe.recv()
            pipe.send(Message(number, value=copy_one(readers, index, item, failed, group.destinations, pacer)))
    finally:
        readers.close()


def why_a_reader_hangs(source: SourcePlan, waits_for: str) -> str:
    """ "" where a task's readers are looked after by their own process."""
    kind = source_kind(source.kind)
    return kind.why_a_reader_hangs(source, waits_for) if waits_for and isinstance(kind, ExplainsHangingReaders) else ""


def _disturbed(rows: TableRows, armed: Failpoints) -> TableRows:
    def each(parts: Iterator[PartT]) -> Iterator[PartT]:
        for part in parts:
            armed.reach("snap.chunk_read")
            yield part

    if isinstance(rows, PostgresCopy):
        return PostgresCopy(each(rows.blocks))
    return replace(rows, batches=each(rows.batches))


def _made_of(table: Table, transform: RowTransform | None, rows: TableRows) -> TableRows:
    """The rows as a destination with this transform holds them."""
    if transform is None:
        return rows
    if isinstance(rows, PostgresCopy):
        raise InvariantViolated("rows in a native form cannot be transformed", table=table.name)
    return ArrowRows(schema_of(transform.planned), target_rows(transform, table, rows.batches))


class _Loads:
    """The loads of one table into destinations that hold it by the same transform, which is applied once for them."""

    def __init__(self, table: Table, transform: RowTransform | None, proofs: Sequence[str]) -> None:
        self._table = table
        self._proofs = proofs
        self.transform = transform
        self.targets: list[CopyTarget] = []
        self._outcomes: list[int | SeamlineError] = []

    def load(self, rows: TableRows) -> int:
        """`fan_out.Load` of all of them."""
        loads = [partial(_load, to, self._proofs) for to in self.targets]
        self._outcomes = load_each(_made_of(self._table, self.transform, rows), loads)
        return 0

    def outcomes(self, ended: int | SeamlineError) -> Iterator[tuple[CopyTarget, int | SeamlineError]]:
        """What became of each. `ended`: what became of `load`."""
        for number, to in enumerate(self.targets):
            yield to, ended if isinstance(ended, SeamlineError) else self._outcomes[number]


def _load(to: CopyTarget, proofs: Sequence[str], rows: TableRows) -> int:
    kind = sink_kind(to.destination.kind)
    if to.split is None:
        return kind.load(to.destination, to.place, rows)
    resuming = power(kind, ResumesLoads, to="go on with a load")
    return resuming.load_split(to.destination, to.place, rows, to.split, proof=lambda: proofs[0])


def _by_transform(table: Table, targets: Sequence[CopyTarget], proofs: Sequence[str]) -> list[_Loads]:
    groups: list[_Loads] = []
    for to in targets:
        group = next((one for one in groups if one.transform == to.transform), None)
        if group is None:
            groups.append(group := _Loads(table, to.transform, proofs))
        group.targets.append(to)
    return groups


def copy_one(
    readers: TableReaders,
    index: int,
    item: CopyItem,
    failed: dict[str, SeamlineError],
    destinations: Collection[str] = (),
    pacer: Pacer | None = None,
) -> tuple[Copied, ...]:
    """Table number `index` of the readers into each of its places. It is not read where all of them have failed.

    `failed`: destinations that no further table is loaded into, and why; what fails here is added. `destinations`: of
    the whole copy; those of this table where none is given. Raises where none of them is left, and where `pacer` ends
    the read.
    """
    proofs: list[str] = []
    set_table(item.read.table.name)
    targets = [to for to in item.targets if to.destination.name not in failed]
    written: Mapping[str, int | SeamlineError] = {}
    if targets:
        written = _written(paced(readers.rows(index, proven=proofs.append), pacer), item, targets, proofs)
    for name, outcome in written.items():
        if isinstance(outcome, SeamlineError):
            outcome.table = outcome.table or item.read.table.name
            failed[name] = outcome
    if failed.keys() >= (set(destinations) or destinations_of([item])):
        raise next((one for one in written.values() if isinstance(one, SeamlineError)), next(iter(failed.values())))
    proof = proofs[0] if proofs else ""
    return tuple(_copied(item, to, written.get(to.destination.name, 0), proof, failed) for to in item.targets)


def _written(
    rows: TableRows, item: CopyItem, targets: Sequence[CopyTarget], proofs: Sequence[str]
) -> dict[str, int | SeamlineError]:
    """By destination the rows that it has of a table, or its error. Raises an error of the read."""
    armed = registry.failpoints()
    rows = counted(rows, progress_of(item.read))
    groups = _by_transform(item.read.table, targets, proofs)
    try:
        ended = load_each(rows if armed is None else _disturbed(rows, armed), [group.load for group in groups])
    except SeamlineError as error:
        error.table = error.table or item.read.table.name
        raise
    outcomes = (one for group, each in zip(groups, ended, strict=True) for one in group.outcomes(each))
    return {to.destination.name: outcome for to, outcome in outcomes}


def _copied(
    item: CopyItem, to: CopyTarget, rows: int | SeamlineError, proof: str, failed: Mapping[str, SeamlineError]
) -> Copied:
    error = failed.get(to.destination.name)
    count = 0 if isinstance(rows, SeamlineError) else rows
    return Copied(item.read.table.name, to.destination.name, to.place.name, count, proof, error)
