"""What would keep a PostgreSQL destination from taking its tables, asked with the logins of its publisher and writer.
Changes nothing."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing

from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.domain.errors import ConfigError, Refused
from seamline.plan.list_change import kept_name
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.postgres.cut_places import name_conflicts
from seamline.sinks.postgres.grants import ROWS
from seamline.sinks.postgres.limits import advice as advice_on
from seamline.sinks.postgres.limits import refusals, refusals_of_cuts
from seamline.sinks.postgres.ownership import may_read_carriers, of_others

_NAME = "seamline:preflight"
# Of `kept_name`: the letters behind which nothing is known of the table.
_MARK = 10
# Of schema `seamline`, those that a stream reads and writes.
_STREAM_TABLES = ("ledger", "boundary", "finding")


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where the server does not answer; a refused login is a problem like any other. Of tables without
    a definition in the plan only the names are looked at."""
    name, tables = f"destination {destination.name}", [table.name for table in plan.tables]
    with ExitStack() as opened:
        sessions: dict[str, Session] = {}
        refused = []
        for connection_id in dict.fromkeys((destination.connection, destination.writer)):
            try:
                session = open_session(resolve(connection_id), application_name=_NAME)
            except (ConfigError, Refused) as exc:
                refused.append(Problem(f"{name}: {exc.message}", exc.hint))
            else:
                sessions[connection_id] = opened.enter_context(closing(session))
        if refused:
            return tuple(refused)
        publisher, writer = sessions[destination.connection], sessions[destination.writer]
        with translated(f"check {name}"):
            # Both logins see the same of the server.
            fatal = dict(problem for session in sessions.values() for problem in _of_each(session, destination, tables))
            fatal.update(_of_the_publisher(publisher, destination))
            fatal.update(_of_definitions(plan))
            fatal.update(_of_cuts(publisher, plan, destination))
            fatal.update(_of_live_tables(publisher, plan, destination))
            fatal.update(_of_the_writer(writer, publisher, destination, tables))
            advice = (
                *_checked_row_by_row(publisher, destination, tables),
                *_reading_kept_rows(publisher, destination, tables),
                *(problem for table in plan.tables if table.table for problem in advice_on(table.table)),
            )
        return (
            *(Problem(f"{name}: {what}", cure) for what, cure in fatal.items()),
            *(Problem(f"{name}: {what}", cure, is_fatal=False) for what, cure in advice),
        )


def _of_each(session: Session, destination: DestinationPlan, tables: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What keeps any login from writing."""
    login = session.info.user
    row = session.execute(
        "SELECT current_database(), pg_encoding_to_char(encoding), pg_is_in_recovery(),"
        " current_setting('default_transaction_read_only')::boolean"
        " FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    database, encoding, is_standby, is_read_only = row
    if is_standby:
        yield "the server is a standby, which takes no writes", "let the connection lead to the primary"
    elif is_read_only:
        yield f"sessions of {login} are read only", f"ALTER ROLE {login} RESET default_transaction_read_only"
    if encoding != "UTF8":
        yield (
            f"database {database} is encoded in {encoding}, which does not hold every letter",
            "make the database with ENCODING 'UTF8' TEMPLATE template0",
        )
    hiding = session.execute(
        "SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.relname) FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = ANY(%s) AND row_security_active(c.oid)",
        (destination.namespace, list(tables)),
    ).fetchone()
    if hiding and hiding[0]:
        yield (
            f"row security hides rows of {hiding[0]} from {login}",
            f"let a superuser ALTER ROLE {login} BYPASSRLS",
        )


def _of_definitions(plan: SyncPlan) -> Iterator[tuple[str, str]]:
    for table in plan.tables:
        if table.table is not None:
            yield from refusals(table.table)
            if plan.nightly is not None:
                yield from refusals_of_cuts(table.table)


def _of_cuts(session: Session, plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    if plan.nightly is not None:
        names = [*(table.name for table in plan.tables), *(derived.name for derived in plan.derived)]
        yield from name_conflicts(session, destination, sync=plan.sync, tables=names)


def _of_live_tables(session: Session, plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    # Where the ledger cannot be read, that is the error.
    if may_read_carriers(session) is not False:
        tables = [table.name for table in plan.tables]
        yield from of_others(session, plan.stream_id(destination.name), destination, tables).values()


def _of_the_publisher(session: Session, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    yield from _rights_on_database(session, destination, "CREATE")
    yield from _foreign_schemas(session, destination)


def _of_the_writer(
    session: Session, publisher: Session, destination: DestinationPlan, tables: Sequence[str]
) -> Iterator[tuple[str, str]]:
    yield from _rights_on_database(session, destination, "TEMPORARY")
    if _database(session) != _database(publisher):
        yield (
            f"connections {destination.connection} and {destination.writer} lead to different databases",
            "let both lead to one",
        )
        return
    # Whoever has all that the publisher has: that login itself, a member, a superuser.
    owner = publisher.info.user
    if session.execute("SELECT pg_has_role(%s, 'USAGE')", (owner,)).fetchone() == (True,):
        return
    yield from _rights_on_what_comes(session, owner, destination)
    yield from _rights_on_what_is_there(session, destination, tables)


def _rights_on_database(session: Session, destination: DestinationPlan, right: str) -> Iterator[tuple[str, str]]:
    asked = "SELECT current_database(), has_database_privilege(current_database(), %s)"
    row = session.execute(asked, (right,)).fetchone()
    if row is not None and not row[1]:
        yield f"{session.info.user} has no {right} on database {row[0]}", _script(destination)


def _database(session: Session) -> object:
    """What identifies it, also on another server."""
    return session.execute(
        "SELECT system_identifier, oid FROM pg_control_system(), pg_database WHERE datname = current_database()"
    ).fetchone()


def _rights_on_what_comes(session: Session, owner: str, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    given = session.execute(
        "SELECT d.defaclobjtype::text, a.privilege_type FROM pg_default_acl d, aclexplode(d.defaclacl) a"
        " WHERE pg_get_userbyid(d.defaclrole) = %s AND d.defaclnamespace = 0"
        " AND (a.grantee = 0 OR pg_has_role(a.grantee, 'USAGE'))",
        (owner,),
    ).fetchall()
    wanted = {("n", "USAGE"), *(("r", right) for right in ROWS)}
    if missing := wanted.difference(given):
        rights = ", ".join(sorted(right for _, right in missing))
        yield f"{session.info.user} will not have {rights} on what {owner} makes", _script(destination)


def _rights_on_what_is_there(
    session: Session, destination: DestinationPlan, tables: Sequence[str]
) -> Iterator[tuple[str, str]]:
    login, live = quoted(session.info.user), destination.namespace
    schemas = session.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname = ANY(%s) AND NOT has_schema_privilege(oid, 'USAGE')"
        " ORDER BY nspname",
        (["seamline", live],),
    ).fetchall()
    found = session.execute(
        "SELECT DISTINCT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,"
        " unnest(%s::text[]) AS wanted (right_on_rows) WHERE (n.nspname = 'seamline' AND c.relname = ANY(%s)"
        " OR n.nspname = %s AND c.relname = ANY(%s)) AND NOT has_table_privilege(c.oid, right_on_rows) ORDER BY 1, 2",
        (list(ROWS), list(_STREAM_TABLES), live, list(tables)),
    ).fetchall()
    if schemas:
        names = ", ".join(quoted(name) for (name,) in schemas)
        yield f"{login} may not use what is in {names}", f"let its owner GRANT USAGE ON SCHEMA {names} TO {login}"
    if found:
        names = ", ".join(f"{quoted(schema)}.{quoted(table)}" for schema, table in found)
        yield f"{login} may not write rows of {names}", f"let its owner GRANT {', '.join(ROWS)} ON {names} TO {login}"


def _foreign_schemas(session: Session, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    login = session.info.user
    wanted = [destination.namespace, destination.cut_namespace, destination.stage_namespace, "seamline"]
    found = session.execute(
        "SELECT nspname, pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = ANY(%s)"
        " AND NOT (has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')) ORDER BY nspname",
        (wanted,),
    ).fetchall()
    for schema, owner in found:
        yield (
            f"schema {schema} is there already, belongs to {owner}, and {login} may not write in it",
            f"let its owner GRANT USAGE, CREATE ON SCHEMA {schema} TO {login}, or declare another schema",
        )


def _checked_row_by_row(
    session: Session, destination: DestinationPlan, tables: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Unique indexes that somebody has added to a live table: they refuse values that change places between rows."""
    found = session.execute(
        "SELECT t.relname, i.relname,"
        " EXISTS (SELECT FROM pg_index p WHERE p.indrelid = t.oid AND p.indisprimary)"
        " FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid"
        " JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_namespace n ON n.oid = t.relnamespace"
        " WHERE n.nspname = %s AND t.relname = ANY(%s) AND x.indisunique AND NOT x.indisprimary AND x.indimmediate"
        " ORDER BY 1, 2",
        (destination.namespace, list(tables)),
    ).fetchall()
    for table, index, is_keyed in found:
        then = "is written twice, and rows of it are deleted and inserted again" if is_keyed else "stops the stream"
        yield (
            f"{destination.namespace}.{table} has the unique index {index}, which is checked row by row: a span of the"
            f" stream in which rows exchange their values {then}",
            "make it a constraint that is DEFERRABLE INITIALLY DEFERRED, or an index that is not unique",
        )


def _reading_kept_rows(
    session: Session, destination: DestinationPlan, tables: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """A view belongs to the table that it was made over: after the table left and came back, it shows the old rows."""
    kept_as = {kept_name(table, "")[:-_MARK]: table for table in tables}
    found = session.execute(
        "SELECT DISTINCT k.relname, v.oid::regclass::text FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace"
        " JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = k.oid"
        " JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid"
        " JOIN pg_class v ON v.oid = r.ev_class"
        " WHERE n.nspname = %s AND left(k.relname, -%s) = ANY(%s) ORDER BY 1, 2",
        (destination.namespace, _MARK, list(kept_as)),
    ).fetchall()
    for kept, view in found:
        table = kept_as[kept[:-_MARK]]
        yield (
            f"{view} reads {destination.namespace}.{kept}, which holds {table} as it was when it left the sync: it"
            " shows nothing of what came since",
            f"make it again over {destination.namespace}.{table}, whose rights are to be granted again too",
        )


def _script(destination: DestinationPlan) -> str:
    return f"run the script of `seamline grants {destination.name}`"
