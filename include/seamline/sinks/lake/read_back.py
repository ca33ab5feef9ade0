"""A lake's tables as views of a comparison, whatever their format: the power `ReadsBack`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session
from seamline.domain.catalogue import Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.lake import cut_rows
from seamline.sinks.lake.loads import staged_files
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.postgres_store import look
from seamline.sinks.lake.read_view import Batches, LakeView, part_of
from seamline.sinks.lake.storage import RowStorage
from seamline.sinks.lake.store import Seen
from seamline.sinks.lake.stores import FilePath

# The rows of a table where its pointer leads.
Live = Callable[[Table, str], Batches]
# The rows of a table at the number by which a run or a cut holds it. Refused where that is gone.
OpenAt = Callable[[Session, Table, int], Batches]


def open_live(
    plan: SyncPlan, destination: DestinationPlan, count: int, *, catalogue: Pointers, live: Live
) -> list[LakeView]:
    """`count` views of the live tables as one look at the catalogue has found them, at the ledger's position then."""
    stream = plan.stream_id(destination.name)
    with closing(open_session(resolve(destination.connection), application_name="seamline reads back")) as session:
        seen = look(session, catalogue, stream, destination.namespace)
    return [view_of(plan, seen, live)] * count


def view_of(plan: SyncPlan, seen: Seen, live: Live) -> LakeView:
    """Of the plan's tables at the heads of one look."""
    if seen.ledger is None:
        raise Refused(f"{plan.sync} was never published there", hint="onboard the sync first", sync=plan.sync)
    tables = {
        entry.definition: live(entry.definition, location_in(seen.heads, entry.definition)) for entry in plan.tables
    }
    return LakeView(seen.ledger.position, tables)


def open_staged(
    warehouse: str | FilePath, loads: Sequence[Load], count: int, *, position: Position, storage: RowStorage
) -> list[LakeView]:
    tables = {load.table: _staged(warehouse, load, storage) for load in loads}
    return [LakeView(position, tables)] * count


def open_published(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position, at: OpenAt
) -> LakeView:
    """Of each table of a cut the rows of its business date, at the number that the cut's rows name."""
    stream = plan.stream_id(destination.name)
    found = dict[Table, Batches]()
    with closing(open_session(resolve(destination.connection), application_name="seamline reads back")) as session:
        for one in tables:
            number = cut_rows.snapshot_of(session, stream, one)
            if number is None:
                raise Refused(f"cut {one.name} has no table {one.table} any more", table=one.table)
            table = plan.table(one.table).definition
            found[table] = date_of(plan, one, at(session, table, number))
    return LakeView(position, found)


def date_of(plan: SyncPlan, published: PublishedTable, whole: Batches) -> Batches:
    """Of a table of a cut the rows of its business date: the cut itself holds the whole table."""
    entry = plan.table(published.table)
    if entry.business_date is None or plan.nightly is None:
        raise Refused(f"table {published.table} has no business date any more", table=published.table)
    segment = plan.nightly.segment_of(entry, published.business_date)
    return part_of(segment, entry.definition, whole)


def location_in(heads: Mapping[str, str], table: Table) -> str:
    if table.name not in heads:
        raise Refused(f"table {table.name} is not in the catalogue", hint="onboard it again", table=table.name)
    return heads[table.name]


def _staged(warehouse: str | FilePath, load: Load, storage: RowStorage) -> Batches:
    staged = staged_files(warehouse, load)
    return lambda: staged.batches(load.table, storage)
