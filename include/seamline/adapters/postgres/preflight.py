"""What would keep a PostgreSQL destination from taking its tables, asked with the writer's login. Changes nothing."""

from collections.abc import Iterator, Sequence
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.adapters.postgres.client import Session, open_session, translated
from seamline.domain.errors import ConfigError, Refused
from seamline.plan.list_change import kept_name
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem

_NAME = "seamline:preflight"
# Of `kept_name`: the letters behind which nothing is known of the table.
_MARK = 10
# Of `kept_name`: the letters behind which nothing is known of the table.
_MARK = 10


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where the server does not answer; a refused login is a problem like any other."""
    connection = resolve(destination.connection)
    try:
        session = open_session(connection, application_name=_NAME)
    except (ConfigError, Refused) as exc:
        return (Problem(f"destination {destination.name}: {exc.message}", exc.hint),)
    with closing(session), translated(f"check destination {destination.name}"):
        fatal = _found(session, destination, connection.login)
        names = [table.name for table in plan.tables]
        advice = (
            *_checked_row_by_row(session, destination, names),
            *_reading_kept_rows(session, destination, names),
        )
        return (
            *(Problem(f"destination {destination.name}: {what}", cure) for what, cure in fatal),
            *(Problem(f"destination {destination.name}: {what}", cure, is_fatal=False) for what, cure in advice),
        )


def _found(session: Session, destination: DestinationPlan, login: str) -> Iterator[tuple[str, str]]:
    row = session.execute(
        "SELECT current_database(), pg_encoding_to_char(encoding), pg_is_in_recovery(),"
        " current_setting('default_transaction_read_only')::boolean,"
        " has_database_privilege(current_database(), 'CREATE'), has_database_privilege(current_database(), 'TEMPORARY')"
        " FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    database, encoding, is_standby, is_read_only, may_create, may_stage = row
    if is_standby:
        yield "the server is a standby, which takes no writes", "let the connection lead to the primary"
    elif is_read_only:
        yield f"sessions of {login} are read only", f"ALTER ROLE {login} RESET default_transaction_read_only"
    if encoding != "UTF8":
        yield (
            f"database {database} is encoded in {encoding}, which does not hold every letter",
            "make the database with ENCODING 'UTF8' TEMPLATE template0",
        )
    for is_granted, right in ((may_create, "CREATE"), (may_stage, "TEMPORARY")):
        if not is_granted:
            yield f"{login} has no {right} on database {database}", _script(destination)
    yield from _foreign_schemas(session, destination, login)


def _foreign_schemas(session: Session, destination: DestinationPlan, login: str) -> Iterator[tuple[str, str]]:
    wanted = [destination.schema, destination.cut_schema, destination.stage_schema, "seamline"]
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
    """Unique indexes that somebody has added to a live table: values that change places meet each other there."""
    found = session.execute(
        "SELECT t.relname, i.relname,"
        " EXISTS (SELECT FROM pg_index p WHERE p.indrelid = t.oid AND p.indisprimary)"
        " FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid"
        " JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_namespace n ON n.oid = t.relnamespace"
        " WHERE n.nspname = %s AND t.relname = ANY(%s) AND x.indisunique AND NOT x.indisprimary AND x.indimmediate"
        " ORDER BY 1, 2",
        (destination.schema, list(tables)),
    ).fetchall()
    for table, index, is_keyed in found:
        then = "is written twice, and rows of it are deleted and inserted anew" if is_keyed else "stops the stream"
        yield (
            f"{destination.schema}.{table} has the unique index {index}, which is checked row by row: a span of the"
            f" stream in which rows exchange their values {then}",
            "make it a constraint that is DEFERRABLE INITIALLY DEFERRED, or an index that is not unique",
        )


def _reading_kept_rows(
    session: Session, destination: DestinationPlan, tables: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """A view goes with the table that it was made over. Where that left and came back, it shows the rows of before."""
    kept_as = {kept_name(table, "")[:-_MARK]: table for table in tables}
    found = session.execute(
        "SELECT DISTINCT k.relname, v.oid::regclass::text FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace"
        " JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = k.oid"
        " JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid"
        " JOIN pg_class v ON v.oid = r.ev_class"
        " WHERE n.nspname = %s AND left(k.relname, -%s) = ANY(%s) ORDER BY 1, 2",
        (destination.schema, _MARK, list(kept_as)),
    ).fetchall()
    for kept, view in found:
        table = kept_as[kept[:-_MARK]]
        yield (
            f"{view} reads {destination.schema}.{kept}, which holds {table} as it was when it left the sync: it shows"
            " nothing of what came since",
            f"make it anew over {destination.schema}.{table}, whose rights are to be granted anew too",
        )


def _script(destination: DestinationPlan) -> str:
    return f"run the script of `seamline grants {destination.name}`"
