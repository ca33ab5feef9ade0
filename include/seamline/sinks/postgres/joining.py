"""Tables enter or leave a stream that goes on: one transaction, in which the stream and their incremental snapshot
stand at one offset.

An incremental snapshot is a stream of its own, with its tables in a schema of its own. When both ledgers say the same
offset, the tables of the incremental snapshot are what the stream's own would be.
"""

from dataclasses import replace

from seamline.databases.postgres import ledger as ledger_tables
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session
from seamline.domain.ledger import StreamId
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports import Joining, Load
from seamline.sinks.postgres.publish import begin, lock_publishes, put_tables_in_place, set_aside


def is_done(session: Session, stream: StreamId, joining: Joining, destination: DestinationPlan) -> bool:
    """Whether this run's tables have joined already. The lock on publishes lives as long as the session."""
    lock_publishes(session, destination)
    return ledger_tables.is_published(session, stream, joining.run_id)


def put_together(session: Session, stream: StreamId, joining: Joining, destination: DestinationPlan) -> None:
    """Open the transaction and do all but COMMIT. Raises NotCaughtUp with the transaction open."""
    begin(session)
    ledger_tables.require_caught_up(session, stream, joining)
    ledger_tables.end_epoch(session, stream)
    set_aside(session, stream, joining.kept_as, destination)
    names = [table.name for table in joining.tables]
    ledger_tables.end_findings(session, stream, [*names, *joining.kept_as])
    if joining.incremental_stream is not None:
        loads = [Load(table, table.name, 0) for table in joining.tables]
        put_tables_in_place(session, stream, loads, replace(destination, staged_in=joining.incremental_namespace))
        ledger_tables.take_over_boundaries(session, stream, joining.incremental_stream, names)
    _end_incremental_snapshots(session, stream, destination)
    ledger_tables.write_run(session, stream, joining.run_id, names)


def _end_incremental_snapshots(session: Session, stream: StreamId, destination: DestinationPlan) -> None:
    """Also those that were given up: their tables stand still and would hold the log for ever."""
    prefix = f"{stream.sync}{INCREMENTAL}"
    for name in ledger_tables.streams_of(session, prefix, stream.destination):
        ledger_tables.forget(session, name)
        mark = name.sync.removeprefix(prefix)
        session.execute(f"DROP SCHEMA IF EXISTS {quoted(destination.incremental_namespace(mark))} CASCADE")
