"""Publish: whole staged tables put in place, with boundaries, epoch and ledger, in one transaction.

A first publish creates the names. A table that people already use keeps its identity (views, grants, readers stay);
its differences to the staged rows are merged into it.
"""

from collections.abc import Mapping, Sequence

from psycopg import errors

from seamline.databases.postgres import ledger as ledger_tables
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session
from seamline.databases.postgres.read import Relation
from seamline.domain.catalogue import Table
from seamline.domain.cut_names import fitted
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.plan.list_change import kept_name
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports import Load, Publication
from seamline.sinks.postgres.delete_insert import deletable, is_of
from seamline.sinks.postgres.live_columns import columns_of, misfit
from seamline.sinks.postgres.ownership import of_others
from seamline.sinks.postgres.staged_rows import require_as_compared
from seamline.sinks.postgres.staging import index_rows
from seamline.sinks.postgres.statements import multiset_merge

# Long enough for a report to end, short enough not to queue everybody behind us; the task that publishes tries again.
_LOCK_TIMEOUT = "5s"


def prepare(
    session: Session,
    stream: StreamId,
    loads: Sequence[Load],
    destination: DestinationPlan,
    publication: Publication,
) -> bool:
    """Everything that takes long, before the transaction. True if this run is published already. Repeatable.

    One publish at a time per destination: the lock lives as long as the session.
    """
    lock_publishes(session, destination)
    if ledger_tables.is_published(session, stream, publication.run_id):
        return True
    session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(destination.namespace)}")
    for load in loads:
        _require_there(session, load, destination)
        require_as_compared(
            session,
            Relation(*staged_place(load, destination)),
            rows=load.rows,
            digest=load.digest,
            definition=load.table,
            position=publication.position,
        )
        if not _has_index(session, _staged(load, destination), load.table):
            index_rows(session, load.table, _staged(load, destination))
    return False


def lock_publishes(session: Session, destination: DestinationPlan) -> None:
    session.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (f"seamline publish {destination.namespace}",))
    ledger_tables.create_tables(session)


def begin(session: Session) -> None:
    session.execute("BEGIN")
    session.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")


def put_in_place(
    session: Session,
    stream: StreamId,
    loads: Sequence[Load],
    destination: DestinationPlan,
    publication: Publication,
) -> None:
    """Open the transaction and do all but COMMIT."""
    begin(session)
    # First: from here on a stream of the old epoch cannot commit between our statements.
    ledger_tables.end_epoch(session, stream)
    names = [load.table.name for load in loads]
    left = ledger_tables.carried(session, stream) - set(names)
    set_aside(session, stream, {name: kept_name(name, publication.run_id) for name in left}, destination)
    put_tables_in_place(session, stream, loads, destination)
    ledger_tables.write_publication(session, stream, publication, names)


def put_tables_in_place(
    session: Session, stream: StreamId, loads: Sequence[Load], destination: DestinationPlan
) -> None:
    """Inside the transaction: each staged table becomes the live one, or what differs is merged into the live one."""
    for load in loads:
        if _exists(session, destination.namespace, load.table.name):
            _merge_into_live(session, stream, load, destination)
        else:
            _move(session, stream, load, destination)


def set_aside(session: Session, stream: StreamId, kept_as: Mapping[str, str], destination: DestinationPlan) -> None:
    """Rename the live tables that leave, and their primary keys: others may need the names. In the transaction."""
    for table, kept in kept_as.items():
        live = f"{quoted(destination.namespace)}.{quoted(table)}"
        if _exists(session, destination.namespace, table):
            for name in _keys_of(session, live):
                session.execute(f"ALTER TABLE {live} RENAME CONSTRAINT {quoted(name)} TO {quoted(f'{kept}_pkey')}")
            session.execute(f"ALTER TABLE {live} RENAME TO {quoted(kept)}")
    ledger_tables.end_life(session, stream, list(kept_as))


def staged_place(load: Load, destination: DestinationPlan) -> tuple[str, str]:
    """(schema, name) of a staged table; `staged_as` may carry the schema."""
    schema, dot, name = load.staged_as.rpartition(".")
    return (schema, name) if dot else (destination.stage_namespace, name)


def _staged(load: Load, destination: DestinationPlan) -> str:
    schema, name = staged_place(load, destination)
    return f"{quoted(schema)}.{quoted(name)}"


def _require_there(session: Session, load: Load, destination: DestinationPlan) -> None:
    place = _staged(load, destination)
    if session.execute("SELECT to_regclass(%s)", (place,)).fetchone() == (None,):
        raise Refused(
            f"the staged table {place} of {load.table.name} is gone", hint="load it again", table=load.table.name
        )


def _has_index(session: Session, place: str, table: Table) -> bool:
    """Whether the primary key, or the index over the identity of keyless rows, stands already."""
    kind = "indisprimary" if table.is_keyed else "indexprs IS NOT NULL"
    row = session.execute(f"SELECT 1 FROM pg_index WHERE indrelid = %s::regclass AND {kind}", (place,)).fetchone()
    return row is not None


def _exists(session: Session, schema: str, name: str) -> bool:
    place = f"{quoted(schema)}.{quoted(name)}"
    return session.execute("SELECT to_regclass(%s)", (place,)).fetchone() != (None,)


def _keys_of(session: Session, place: str) -> Sequence[str]:
    rows = session.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'p'", (place,)
    ).fetchall()
    return [str(name) for (name,) in rows]


def _move(session: Session, stream: StreamId, load: Load, destination: DestinationPlan) -> None:
    schema, name = staged_place(load, destination)
    place = f"{quoted(schema)}.{quoted(name)}"
    live = quoted(load.table.name)
    if schema != destination.namespace:
        session.execute(f"ALTER TABLE {place} SET SCHEMA {quoted(destination.namespace)}")
    moved = f"{quoted(destination.namespace)}.{quoted(name)}"
    if name != load.table.name:
        session.execute(f"ALTER TABLE {moved} RENAME TO {live}")
    # In an incremental snapshot it keeps the name of its own: one like the others would be in the way when the table
    # moves on.
    if load.table.is_keyed and INCREMENTAL not in stream.sync:
        wanted, place = fitted(f"{load.table.name}_pkey"), f"{quoted(destination.namespace)}.{live}"
        for name in _keys_of(session, place):
            if name != wanted and not _exists(session, destination.namespace, wanted):
                session.execute(f"ALTER TABLE {place} RENAME CONSTRAINT {quoted(name)} TO {quoted(wanted)}")


def _merge_into_live(session: Session, stream: StreamId, load: Load, destination: DestinationPlan) -> None:
    table = load.table
    live = f"{quoted(destination.namespace)}.{quoted(table.name)}"
    staged = _staged(load, destination)
    _check_owned(session, stream, load, destination)
    if not table.is_keyed:
        for statement in multiset_merge(table, live, staged):
            session.execute(statement.encode())
    else:
        try:
            # A savepoint: the staged tables before this one stay in place.
            with session.transaction():
                _merge_keyed(session, table, live, staged)
        except errors.UniqueViolation as refusal:
            if not is_of(refusal, destination.namespace, table.name):
                raise
            said = f"cannot publish {table.name}: {refusal.diag.message_primary}"
            _delete_and_insert(session, table, live, staged, said=said)
    session.execute(f"DROP TABLE {staged}")


def _merge_keyed(session: Session, table: Table, live: str, staged: str) -> None:
    columns = [quoted(column.name) for column in table.columns]
    left, right = (", ".join(f"{alias}.{column}" for column in columns) for alias in ("l", "s"))
    same = _same_key(table)
    session.execute(f"DELETE FROM {live} AS l WHERE NOT EXISTS (SELECT FROM {staged} AS s WHERE {same})")
    # `*<>` compares the stored bytes: `=` would keep -0.0 where the source has 0.0.
    session.execute(
        f"MERGE INTO {live} AS l USING {staged} AS s ON {same} "
        f"WHEN MATCHED AND ROW({left})::record OPERATOR(pg_catalog.*<>) ROW({right})::record THEN UPDATE SET "
        + ", ".join(f"{column} = s.{column}" for column in columns)
        + f" WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({right})"
    )


def _delete_and_insert(session: Session, table: Table, live: str, staged: str, *, said: str) -> None:
    """As `_merge_keyed`, where values change places under a unique index: all rows that differ go before any comes."""
    columns = [quoted(column.name) for column in table.columns]
    left, right = (", ".join(f"{alias}.{column}" for column in columns) for alias in ("l", "s"))
    same = _same_key(table)
    with deletable(session, table, live, said=said):
        session.execute(
            f"DELETE FROM {live} AS l WHERE NOT EXISTS (SELECT FROM {staged} AS s WHERE {same} "
            f"AND ROW({left})::record OPERATOR(pg_catalog.*=) ROW({right})::record)"
        )
    session.execute(
        f"INSERT INTO {live} ({', '.join(columns)}) SELECT {right} FROM {staged} AS s "
        f"WHERE NOT EXISTS (SELECT FROM {live} AS l WHERE {same})"
    )


def _same_key(table: Table) -> str:
    return " AND ".join(f"l.{quoted(name)} = s.{quoted(name)}" for name in table.key)


def _check_owned(session: Session, stream: StreamId, load: Load, destination: DestinationPlan) -> None:
    """A live table is written only if this stream made it and it still has the planned definition."""
    for what, cure in of_others(session, stream, destination, [load.table.name]).values():
        raise Refused(what, hint=cure, sync=stream.sync, table=load.table.name)
    places = (f"{quoted(destination.namespace)}.{quoted(load.table.name)}", _staged(load, destination))
    live, staged = (columns_of(session, place) for place in places)
    if found := misfit(load.table, live, staged, destination):
        raise found.conflict(sync=stream.sync)
