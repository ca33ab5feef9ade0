"""The facts that preflight judges, asked with the three roles' own sessions. Changes nothing in the source."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.domain.table_places import TablePlace
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.client import Session, open_session, translated
from seamline.sources.postgres.origin import is_watched
from seamline.sources.postgres.partitions import read_partitions
from seamline.sources.postgres.places import WANTED, asked_for
from seamline.sources.postgres.preflight import (
    VERSION_LEAST,
    PublicationFacts,
    RoleFacts,
    SourceFacts,
    TableFacts,
)

# What a sync calls the tables of these places.
Names = Mapping[TablePlace, str]
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
    marker_place = source.places.of(source.marker_table)
    every = {source.places.of(name): name for name in wanted} | {marker_place: source.marker_table}
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
            tables=_tables(session, every, {table.name: table.is_keyed for table in tables}),
            publication=_publication(session, source, every),
            marker_columns=columns,
            marker_key=key,
            reader=_role(session, reader, source, every),
        )
    return replace(
        facts,
        capture=_own_role(capture, source, every),
        marker=_own_role(marker, source, {marker_place: source.marker_table}),
    )


def gather_read(source: SourcePlan, tables: Sequence[Table], *, reader: Connection) -> SourceFacts:
    """Of a source without a log: what its reader sees of the tables."""
    names = {source.places.of(table.name): table.name for table in tables}
    with closing(open_session(reader)) as session, translated(reader):
        facts = SourceFacts(source, session.info.server_version, tuple(table.name for table in tables))
        if facts.version < VERSION_LEAST:
            return facts
        return replace(
            _about_server(session, facts),
            tables=_tables(session, names, {table.name: table.is_keyed for table in tables}),
            reader=_role(session, reader, source, names),
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


def _tables(session: Session, names: Names, keyed: dict[str, bool]) -> dict[str, TableFacts]:
    """Those of the sync and the marker table, whose missing key is a matter of its definition."""
    rows = session.execute(
        "SELECT n.nspname, c.relname, c.relkind::text, c.relpersistence::text,"
        # The index of the primary key, named as identity, is the default.
        " CASE WHEN c.relreplident = 'i' AND coalesce(k.indisreplident, false) THEN 'd' ELSE c.relreplident::text END,"
        " coalesce(NOT k.indimmediate, false), EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid),"
        " c.relispartition"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " LEFT JOIN pg_index k ON k.indrelid = c.oid AND k.indisprimary"
        f" WHERE (c.relnamespace, c.relname) IN ({WANTED})",
        asked_for(names),
    ).fetchall()
    found = [(names[TablePlace(schema, table)], *facts) for schema, table, *facts in rows]
    partitions = {names[place]: parts for place, parts in read_partitions(session, names).items()}
    return {
        name: TableFacts(
            name=name,
            is_keyed=keyed.get(name, True),
            kind=kind,
            persistence=persistence,
            identity=identity,
            has_deferrable_key=is_deferrable,
            has_children=has_children,
            is_partition=is_partition,
            partitions=tuple(partitions.get(name, {}).values()),
        )
        for name, kind, persistence, identity, is_deferrable, has_children, is_partition in found
    }


def _publication(session: Session, source: SourcePlan, names: Names) -> PublicationFacts | None:
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
        "SELECT schemaname, tablename, rowfilter IS NOT NULL FROM pg_publication_tables WHERE pubname = %s",
        (source.publication,),
    ).fetchall()
    # pg_publication_tables shows column names for every table, listed or not.
    by_name = session.execute(
        "SELECT n.nspname, c.relname, r.prattrs IS NOT NULL FROM pg_publication_rel r"
        " JOIN pg_publication p ON p.oid = r.prpubid"
        " JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s",
        (source.publication,),
    ).fetchall()
    known = [(names.get(TablePlace(schema, table)), is_filtered) for schema, table, is_filtered in listed]
    known_by_name = [(names.get(TablePlace(schema, table)), is_listed) for schema, table, is_listed in by_name]
    kinds = ("insert", "update", "delete", "truncate")
    return PublicationFacts(
        tables=frozenset(name for name, _ in (*known, *known_by_name) if name),
        publishes=frozenset(kind for kind, is_published in zip(kinds, published, strict=True) if is_published),
        is_for_all_tables=is_for_all_tables,
        schemas=tuple(schemas),
        row_filtered=frozenset(name for name, is_filtered in known if name and is_filtered),
        column_listed=frozenset(name for name, is_listed in known_by_name if name and is_listed),
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


def _own_role(connection: Connection, source: SourcePlan, names: Names) -> RoleFacts:
    with closing(open_session(connection)) as session, translated(connection):
        return _role(session, connection, source, names)


def _role(session: Session, connection: Connection, source: SourcePlan, names: Names) -> RoleFacts:
    """Privileges are asked by oid: a name in a schema without USAGE would be an error."""
    schemas = sorted({place.namespace for place in names})
    ((may_replicate, usable),) = session.execute(
        "SELECT (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user), ARRAY("
        " SELECT nspname::text FROM pg_namespace WHERE nspname = ANY(%s) AND has_schema_privilege(oid, 'USAGE'))",
        (schemas,),
    ).fetchall()
    rows = session.execute(
        "SELECT n.nspname, c.relname, has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),"
        " has_table_privilege(c.oid, 'DELETE'), row_security_active(c.oid)"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE (c.relnamespace, c.relname) IN ({WANTED})",
        asked_for(names),
    ).fetchall()
    # In the order asked for.
    found = {TablePlace(schema, table): privileges for schema, table, *privileges in rows}
    privileges = {name: found[place] for place, name in names.items() if place in found}
    marker = privileges.get(source.marker_table, ())
    return RoleFacts(
        connection.connection_id,
        connection.login,
        may_replicate=bool(may_replicate),
        without_usage=tuple(schema for schema in schemas if schema not in usable),
        unreadable=tuple(name for name, (may_select, *_) in privileges.items() if not may_select),
        filtered=tuple(name for name, (*_, is_filtered) in privileges.items() if is_filtered),
        may_insert=any(marker[1:2]),
        may_delete=any(marker[2:3]),
    )
