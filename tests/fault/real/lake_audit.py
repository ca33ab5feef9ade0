"""What a lake's catalogue itself saw at each COMMIT: a deferred trigger notes the ledger and the pointers of all tables
as they become visible, in the same transaction. Every statement that changes either of them wakes it.

What the pointers lead to is read afterwards (`lake_files.py`): files never change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True)
class Pointers:
    """`table`: the catalogue's rows. `heads`: in its SQL an object, table → pointer, of a namespace's tables."""

    table: str
    heads: str


ICEBERG = Pointers(
    "public.iceberg_tables",
    "SELECT coalesce(jsonb_object_agg(table_name, metadata_location), '{}') FROM public.iceberg_tables"
    " WHERE table_namespace = audited.namespace AND iceberg_type IS DISTINCT FROM 'VIEW'",
)
DELTA = Pointers(
    "seamline.delta_table",
    "SELECT coalesce(jsonb_object_agg(table_name, folder || '#' || version), '{}') FROM seamline.delta_table"
    " WHERE namespace = audited.namespace",
)
_INSTALL = """
CREATE SCHEMA checked;
CREATE TABLE checked.audited (stream text NOT NULL, namespace text NOT NULL);
CREATE UNLOGGED TABLE checked.woken (transaction_id xid8 PRIMARY KEY, has_ledger boolean NOT NULL);
CREATE TABLE checked.commits (
    commit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    has_ledger boolean NOT NULL,
    committer text NOT NULL,
    epoch bigint NOT NULL,
    next_offset bigint NOT NULL,
    position jsonb NOT NULL,
    publications integer NOT NULL,
    transactions bigint NOT NULL,
    is_catching_up boolean NOT NULL,
    heads jsonb NOT NULL,
    state_offset bigint NOT NULL,
    state jsonb NOT NULL
);
CREATE FUNCTION checked.wake_by_pointer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO checked.woken VALUES (pg_current_xact_id(), false) ON CONFLICT (transaction_id) DO NOTHING;
    RETURN NULL;
END $$;
CREATE FUNCTION checked.wake_by_ledger() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM checked.audited WHERE stream = NEW.stream) THEN
        INSERT INTO checked.woken VALUES (pg_current_xact_id(), true)
        ON CONFLICT (transaction_id) DO UPDATE SET has_ledger = true;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER wake AFTER INSERT OR UPDATE ON seamline.ledger FOR EACH ROW EXECUTE FUNCTION checked.wake_by_ledger();
CREATE TRIGGER wake AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON <pointers>
    FOR EACH STATEMENT EXECUTE FUNCTION checked.wake_by_pointer();
CREATE TRIGGER wake AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON seamline.lake_state
    FOR EACH STATEMENT EXECUTE FUNCTION checked.wake_by_pointer();

CREATE FUNCTION checked.look() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    woken checked.woken;
    audited checked.audited;
    ledger seamline.ledger;
    state seamline.lake_state;
BEGIN
    DELETE FROM checked.woken WHERE transaction_id = NEW.transaction_id RETURNING * INTO woken;
    SELECT * INTO audited FROM checked.audited;
    SELECT * INTO ledger FROM seamline.ledger WHERE stream = audited.stream;
    SELECT * INTO state FROM seamline.lake_state WHERE stream = audited.stream ORDER BY state_id DESC LIMIT 1;
    INSERT INTO checked.commits (has_ledger, committer, epoch, next_offset, position, publications, transactions,
                                 is_catching_up, heads, state_offset, state)
    SELECT woken.has_ledger, current_setting('application_name'), ledger.epoch, ledger.next_offset, ledger.position,
           (SELECT count(*) FROM seamline.publication WHERE stream = audited.stream), ledger.applied_units,
           EXISTS (SELECT FROM seamline.boundary WHERE stream = audited.stream AND ended_at IS NULL),
           (<heads>),
           coalesce(state.next_offset, -1), coalesce(state.snapshots, '{}');
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER look_at_commit AFTER INSERT ON checked.woken
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION checked.look();
"""
# Without one of these a commit would go by unseen.
_TRIGGERS = {
    ("seamline.ledger", "wake"),
    ("seamline.lake_state", "wake"),
    ("checked.woken", "look_at_commit"),
}


@dataclass(frozen=True, slots=True)
class Noted:
    """A row of the trigger. `heads`: table → pointer; `state`: table → what the newest `lake_state` has of it."""

    commit_id: int
    has_ledger: bool
    committer: str
    epoch: int
    next_offset: int
    position: Any
    publications: int
    transactions: int
    is_catching_up: bool
    heads: Mapping[str, str]
    state_offset: int
    state: Mapping[str, int]


def install(session: "psycopg.Connection[Any]", stream: str, namespace: str, pointers: Pointers) -> None:
    """Once, after the first publish."""
    statements = _INSTALL.replace("<pointers>", pointers.table).replace("<heads>", pointers.heads)
    with session.transaction():
        session.execute(statements.encode())
        session.execute("INSERT INTO checked.audited VALUES (%s, %s)", (stream, namespace))


def missing(session: "psycopg.Connection[Any]", pointers: Pointers) -> list[str]:
    """Triggers of the audit that are gone, or that fire no more."""
    rows = session.execute(
        "SELECT nspname || '.' || relname, tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid "
        "JOIN pg_namespace n ON n.oid = relnamespace WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
    ).fetchall()
    wanted = {*_TRIGGERS, (pointers.table, "wake")}
    return sorted(f"{name} on {table}" for table, name in wanted - {(str(t), str(n)) for t, n in rows})


def noted(session: "psycopg.Connection[Any]", *, after: int = 0) -> list[Noted]:
    """In the order of the commits."""
    with session.cursor(row_factory=class_row(Noted)) as cursor:
        cursor.execute("SELECT * FROM checked.commits WHERE commit_id > %s ORDER BY commit_id", (after,))
        return cursor.fetchall()
