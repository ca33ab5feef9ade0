"""Tables enter or leave a stream that goes on: one transaction, in which the stream and their incremental snapshot
stand at one offset.

An incremental snapshot is a stream of its own, with its tables in a database of its own. When both ledgers say the same
offset, the tables of the incremental snapshot are what the stream's own would be.
"""

from seamline.domain.errors import NotCaughtUp, Refused
from seamline.plan.model import INCREMENTAL
from seamline.ports import Joining, Load
from seamline.sinks.relational import ledger as ledger_tables
from seamline.sinks.relational.publish import Publisher


def is_done(area: Publisher, joining: Joining) -> bool:
    """Whether this run's tables have joined already. The lock on publishes lives as long as the session."""
    area.lock()
    area.carry_out_pending()
    if joining.incremental_stream is not None:
        area.carry_out_pending(joining.incremental_stream)
    return ledger_tables.is_published(area.session, area.at, area.stream, joining.run_id)


def put_together(area: Publisher, joining: Joining) -> None:
    """Open the transaction and do all but COMMIT. NotCaughtUp may leave the transaction open."""
    session, at, stream = area.session, area.at, area.stream
    names = [table.name for table in joining.tables]
    loads = [Load(table, f"{joining.incremental_namespace}.{table.name}", 0) for table in joining.tables]
    # A look without a hold: who is not there yet waits for no reader.
    _require_caught_up(area, joining)
    area.wait_for_readers(loads, joining.kept_as)
    area.begin()
    _require_caught_up(area, joining)
    area.set_aside(joining.kept_as)
    ledger_tables.end_findings(session, at, stream, [*names, *joining.kept_as])
    if joining.incremental_stream is not None:
        area.put_tables_in_place(loads)
        ledger_tables.take_over_boundaries(session, at, stream, joining.incremental_stream, names)
    _end_incremental_snapshots(area)
    ledger_tables.write_run(session, at, stream, joining.run_id, names)
    area.write_down()


def _end_incremental_snapshots(area: Publisher) -> None:
    """Also those that were given up: their tables stand still and would hold the log for ever."""
    prefix = f"{area.stream.sync}{INCREMENTAL}"
    for name in ledger_tables.streams_of(area.session, area.at, prefix, area.stream.destination):
        ledger_tables.forget(area.session, area.at, name)
        area.drop_database_after(area.destination.incremental_namespace(name.sync.removeprefix(prefix)))


def _require_caught_up(area: Publisher, joining: Joining) -> None:
    """In a transaction both ledgers are locked: from here on neither moves."""
    mine = ledger_tables.locked_place(area.session, area.at, area.stream)
    if mine is None:
        raise Refused(f"nothing was published for {area.stream}", hint="onboard the sync first", sync=area.stream.sync)
    if joining.incremental_stream is None:
        return
    passed = ledger_tables.locked_place(area.session, area.at, joining.incremental_stream)
    if passed != mine:
        raise NotCaughtUp(
            f"{area.stream} stands at {_described(mine)}, its incremental snapshot at {_described(passed)}",
            sync=area.stream.sync,
        )


def _described(place: tuple[str, int] | None) -> str:
    return f"offset {place[1]} of topic {place[0]}" if place else "no place yet"
