"""The facts that preflight judges, asked with the three roles' own sessions. Changes nothing in the source."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.client import Session, open_session, translated
from seamline.sources.postgres.origin import is_watched
from seamline.sources.postgres.partitions import read_partitions
from seamline.sources.postgres.preflight import (
    VERSION_LEAST,
    PublicationFacts,
    RoleFacts,
    SourceFacts,
    TableFacts,
)

_SETTINGS = (
    "wal_level fsync full_page_writes synchronous_commit server_encoding max_replication_slots max_wal_senders"
    " max_slot_wal_keep_size idle_replication_slot_timeout"
)
# As long as PREPARE and COMMIT PREPARED of a healthy coordinator never lie apart.
_PREPARED_S = 60
_RUNNING_S = 3600


def gather(
    source: SourcePlan, tables: Sequence[Table], *, reader: Connection, capture: Connection, marker: Connection
) -> SourceFacts:
    """Errors of the driver come as Seamline's, with the connection that met them."""
    wanted = tuple(table.name for table in tables)
    every = (*wanted, source.marker_table)
    with closing(open_session(reader)) as session, translated(reader):
        without_origin = tuple(table.name for table in tables if not is_watched(table))
        facts = SourceFacts(source, session.info.server_version, wanted, without_origin)
        if facts.version < VERSION_LEAST:
            # Its catalogues lack columns that the questions name.
            return facts
        facts = _about_server(session, facts)
        columns, key = _marker_definition(session, source)
        facts = replace(
            facts,
            tables=_tables(session, source, {table.name: table.is_keyed for table in tables}),
            publication=_publication(session, source),
            marker_columns=columns,
            marker_key=key,
            reader=_role(session, reader, source, every),
        )
    return replace(
        facts,
        capture=_own_role(capture, source, every),
        marker=_own_role(marker, source, (source.marker_table,)),
    )


def _about_server(session: Session, facts: SourceFacts) -> SourceFacts:
    rows = session.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", (_SETTINGS.split(),))
    settings = {str(name): str(value) for name, value in rows.fetchall()}
    # The own slot, and the sender that serves it, do not count: a repeated preflight says what the first one said.
    ((is_in_recovery, slots, senders, wal_left),) = session.execute(
        "SELECT pg_is_in_recovery(), (SELECT count(*) FROM pg_replication_slots WHERE slot_name <> %(slot)s),"
        " (SELECT count(*) FROM pg_stat_replication WHERE pid NOT IN"
        " (SELECT active_pid FROM pg_replication_slots WHERE slot_name = %(slot)s AND active_pid IS NOT NULL)),"
        " (SELECT safe_wal_size FROM pg_replication_slots WHERE slot_name = %(slot)s)",
        {"slot": facts.source.slot},
    ).fetchall()
    return replace(
        facts,
        settings=settings,
        is_in_recovery=bool(is_in_recovery),
        slots_used=int(slots),
        senders_used=int(senders),
        wal_left=None if wal_left is None else int(wal_left),
        prepared=_prepared(session),
        long_running=_long_running(session),
    )


def _prepared(session: Session) -> tuple[str, ...]:
    """Of every database: creating a slot waits for them all."""
    rows = session.execute(
        "SELECT gid, database FROM pg_prepared_xacts WHERE prepared < now() - make_interval(secs => %s) ORDER BY 1",
        (_PREPARED_S,),
    )
    return tuple(f"`{gid}` in database {database}" for gid, database in rows.fetchall())


def _long_running(session: Session) -> tuple[str, ...]:
    """Those with a transaction id, because a slot waits for no others.

    When a transaction of another login began is shown only to members of pg_read_all_stats; without it such a
    transaction is not found here, and a snapshot that waits for it names it.
    """
    rows = session.execute(
        "SELECT pid, coalesce(usename, backend_type) FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
        " AND xact_start < now() - make_interval(secs => %s) ORDER BY xact_start",
        (_RUNNING_S,),
    )
    return tuple(f"pid {pid} of {login}" for pid, login in rows.fetchall())


def _tables(session: Session, source: SourcePlan, keyed: dict[str, bool]) -> dict[str, TableFacts]:
    """Those of the sync and the marker table, whose missing key is a matter of its definition."""
    rows = session.execute(
        "SELECT c.relname, c.relkind::text, c.relpersistence::text,"
        # The index of the primary key, named as identity, is the default.
        " CASE WHEN c.relreplident = 'i' AND coalesce(k.indisreplident, false) THEN 'd' ELSE c.relreplident::text END,"
        " coalesce(NOT k.indimmediate, false), EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid),"
        " c.relispartition"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " LEFT JOIN pg_index k ON k.indrelid = c.oid AND k.indisprimary"
        " WHERE n.nspname = %s AND c.relname = ANY(%s)",
        (source.schema, [*keyed, source.marker_table]),
    ).fetchall()
    partitions = read_partitions(session, source.schema, [*keyed])
    return {
        str(name): TableFacts(
            name=str(name),
            is_keyed=keyed.get(name, True),
            kind=kind,
            persistence=persistence,
            identity=identity,
            has_deferrable_key=is_deferrable,
            has_children=has_children,
            is_partition=is_partition,
            partitions=tuple(partitions.get(name, {}).values()),
        )
        for name, kind, persistence, identity, is_deferrable, has_children, is_partition in rows
    }


def _publication(session: Session, source: SourcePlan) -> PublicationFacts | None:
    rows = session.execute(
        "SELECT p.puballtables, p.pubviaroot, p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, ARRAY("
        " SELECT n.nspname::text FROM pg_publication_namespace s JOIN pg_namespace n ON n.oid = s.pnnspid"
        " WHERE s.pnpubid = p.oid ORDER BY 1) FROM pg_publication p WHERE p.pubname = %s",
        (source.publication,),
    ).fetchall()
    if not rows:
        return None
    is_for_all_tables, publishes_roots, *published, schemas = rows[0]
    listed = session.execute(
        "SELECT tablename, rowfilter IS NOT NULL FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s",
        (source.publication, source.schema),
    ).fetchall()
    # pg_publication_tables shows column names for every table, listed or not.
    by_name = session.execute(
        "SELECT c.relname, r.prattrs IS NOT NULL FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid"
        " JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE p.pubname = %s AND n.nspname = %s",
        (source.publication, source.schema),
    ).fetchall()
    kinds = ("insert", "update", "delete", "truncate")
    return PublicationFacts(
        tables=frozenset(str(name) for name, _ in (*listed, *by_name)),
        publishes=frozenset(kind for kind, is_published in zip(kinds, published, strict=True) if is_published),
        is_for_all_tables=is_for_all_tables,
        schemas=tuple(schemas),
        row_filtered=frozenset(str(name) for name, is_filtered in listed if is_filtered),
        column_listed=frozenset(str(name) for name, is_listed in by_name if is_listed),
        publishes_roots=publishes_roots,
    )


def _marker_definition(session: Session, source: SourcePlan) -> tuple[dict[str, str], tuple[str, ...]]:
    """(column → type as PostgreSQL prints it, the primary key's columns)."""
    rows = session.execute(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), array_position(i.indkey::int2[], a.attnum)"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary"
        " WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped",
        (source.schema, source.marker_table),
    ).fetchall()
    # An int2vector counts from 0, as no other array does.
    places = sorted((place, str(name)) for name, _, place in rows if place is not None)
    return {str(name): str(shown) for name, shown, _ in rows}, tuple(name for _, name in places)


def _own_role(connection: Connection, source: SourcePlan, tables: Sequence[str]) -> RoleFacts:
    with closing(open_session(connection)) as session, translated(connection):
        return _role(session, connection, source, tables)


def _role(session: Session, connection: Connection, source: SourcePlan, tables: Sequence[str]) -> RoleFacts:
    """Privileges are asked by oid: a name in a schema without USAGE would be an error."""
    ((may_replicate, has_usage),) = session.execute(
        "SELECT (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user),"
        " coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s), false)",
        (source.schema,),
    ).fetchall()
    rows = session.execute(
        "SELECT c.relname, has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),"
        " has_table_privilege(c.oid, 'DELETE'), row_security_active(c.oid)"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = ANY(%s) ORDER BY array_position(%s::text[], c.relname::text)",
        (source.schema, list(tables), list(tables)),
    ).fetchall()
    markers = [row for row in rows if row[0] == source.marker_table]
    return RoleFacts(
        connection.connection_id,
        connection.login,
        may_replicate=bool(may_replicate),
        has_usage=bool(has_usage),
        unreadable=tuple(str(row[0]) for row in rows if not row[1]),
        filtered=tuple(str(row[0]) for row in rows if row[4]),
        may_insert=any(row[2] for row in markers),
        may_delete=any(row[3] for row in markers),
    )
