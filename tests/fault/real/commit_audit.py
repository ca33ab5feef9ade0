"""What a PostgreSQL itself saw at each COMMIT: a deferred trigger that looks at the state as it becomes visible and
writes one row of its own, in the same transaction. Every statement that changes the stream's ledger or a live table
wakes it.

Installed by the harness once the tables are published. It raises nothing: a violation must be seen, not prevented.
"""

import re
from typing import Any

import psycopg
from psycopg.rows import dict_row

from seamline.domain.position import Position, position_from_json
from seamline.sources.mariadb.position import BinlogPosition, gtid_sequences
from seamline.sources.mysql.position import MySqlPosition
from tests.fault.real.anomalies import Commit
from tests.fault.real.bank_plus import TABLES, opening_totals

_INSTALL = """
CREATE SCHEMA checked;
CREATE TABLE checked.opening (ccy text PRIMARY KEY, total numeric NOT NULL);
CREATE UNLOGGED TABLE checked.touched (tx_id bigint NOT NULL);
CREATE TABLE checked.audited (stream text NOT NULL);
CREATE UNLOGGED TABLE checked.woken (
    transaction_id xid8 PRIMARY KEY, has_ledger boolean NOT NULL, has_rows boolean NOT NULL);
CREATE TABLE checked.commits (
    commit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    has_ledger boolean NOT NULL,
    has_rows boolean NOT NULL,
    committer text NOT NULL,
    epoch bigint NOT NULL,
    next_offset bigint NOT NULL,
    position jsonb NOT NULL,
    publications integer NOT NULL,
    transactions bigint NOT NULL,
    is_catching_up boolean NOT NULL,
    sums jsonb NOT NULL,
    wrong_sums text[] NOT NULL,
    transfers_checked integer NOT NULL,
    torn bigint[] NOT NULL,
    gaps integer[] NOT NULL
);

CREATE FUNCTION checked.remember_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO checked.touched SELECT DISTINCT tx_id FROM new_rows;
    RETURN NULL;
END $$;
CREATE FUNCTION checked.remember_old() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO checked.touched SELECT DISTINCT tx_id FROM old_rows;
    RETURN NULL;
END $$;
CREATE TRIGGER inserted AFTER INSERT ON live.entry REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION checked.remember_new();
CREATE TRIGGER updated_to AFTER UPDATE ON live.entry REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION checked.remember_new();
CREATE TRIGGER updated_from AFTER UPDATE ON live.entry REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION checked.remember_old();
CREATE TRIGGER deleted AFTER DELETE ON live.entry REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION checked.remember_old();
CREATE INDEX entry_of_transfer ON live.entry (tx_id);

CREATE FUNCTION checked.wake_by_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO checked.woken VALUES (pg_current_xact_id(), false, true)
    ON CONFLICT (transaction_id) DO UPDATE SET has_rows = true;
    RETURN NULL;
END $$;
CREATE FUNCTION checked.wake_by_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM checked.audited WHERE stream = NEW.stream) THEN
        INSERT INTO checked.woken VALUES (pg_current_xact_id(), true, false)
        ON CONFLICT (transaction_id) DO UPDATE SET has_ledger = true;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER wake AFTER INSERT OR UPDATE ON seamline.ledger FOR EACH ROW EXECUTE FUNCTION checked.wake_by_ledger();

CREATE FUNCTION checked.look() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    woken checked.woken;
    whose text;
    ledger seamline.ledger;
    found_sums jsonb;
    found_wrong text[];
    looked_at integer;
    found_torn bigint[];
    found_gaps integer[];
BEGIN
    DELETE FROM checked.woken WHERE transaction_id = NEW.transaction_id RETURNING * INTO woken;
    SELECT stream INTO whose FROM checked.audited;
    SELECT * INTO ledger FROM seamline.ledger WHERE stream = whose;
    SELECT jsonb_object_agg(ccy, total), coalesce(array_agg(ccy) FILTER (WHERE total IS DISTINCT FROM opened), '{}')
    INTO found_sums, found_wrong
    FROM (SELECT ccy, sum(a.balance) AS total, min(o.total) AS opened
          FROM checked.opening o FULL JOIN live.account a USING (ccy) GROUP BY ccy) s;
    WITH transfers AS (
        SELECT t.tx_id, coalesce(sum(e.amount), 0) AS total, count(e.id) AS held, count(DISTINCT e.leg) AS different,
               coalesce(max(e.legs), 0) AS wanted
        FROM (SELECT DISTINCT tx_id FROM checked.touched) t LEFT JOIN live.entry e USING (tx_id) GROUP BY t.tx_id)
    SELECT count(*),
           coalesce(array_agg(tx_id) FILTER (WHERE total <> 0 OR held <> wanted OR different <> held), '{}')
    INTO looked_at, found_torn FROM transfers;
    DELETE FROM checked.touched;
    SELECT coalesce(array_agg(writer), '{}') INTO found_gaps
    FROM (SELECT writer FROM live.seq GROUP BY writer HAVING count(*) <> max(n)) g;
    INSERT INTO checked.commits (has_ledger, has_rows, committer, epoch, next_offset, position, publications,
    transactions,
                                 is_catching_up, sums, wrong_sums, transfers_checked, torn, gaps)
    SELECT woken.has_ledger, woken.has_rows, current_setting('application_name'), ledger.epoch, ledger.next_offset,
           ledger.position, (SELECT count(*) FROM seamline.publication WHERE stream = whose),
           ledger.applied_units, EXISTS (SELECT FROM seamline.boundary WHERE stream = whose AND ended_at IS
           NULL), found_sums, found_wrong, looked_at, found_torn, found_gaps;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER look_at_commit AFTER INSERT ON checked.woken
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION checked.look();
"""
_WAKE = """
CREATE TRIGGER wake AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON live.{table}
    FOR EACH STATEMENT EXECUTE FUNCTION checked.wake_by_rows()
"""
# Without one of these a commit would go by unseen, or its transfers would not be looked at.
_TRIGGERS = {
    ("seamline.ledger", "wake"),
    ("checked.woken", "look_at_commit"),
    *(("live.entry", name) for name in ("inserted", "updated_to", "updated_from", "deleted")),
    *((f"live.{table}", "wake") for table in TABLES),
}
# What `seamline.databases.postgres.client.session_name` calls the session of a stream's owner.
_OWNER = re.compile(r"seamline:.*:e(\d+)")


def install(session: "psycopg.Connection[Any]", stream: str) -> None:
    """Once, after the first publish. From here on no commit that changes this stream's ledger or live rows goes by
    unseen."""
    with session.transaction():
        session.execute(_INSTALL)
        session.execute("INSERT INTO checked.audited VALUES (%s)", (stream,))
        for table in TABLES:
            session.execute(_WAKE.format(table=table).encode())
        with session.cursor() as cursor:
            cursor.executemany("INSERT INTO checked.opening VALUES (%s, %s)", list(opening_totals().items()))


def missing(session: "psycopg.Connection[Any]") -> list[str]:
    """Triggers of the audit that are gone, or that fire no more."""
    rows = session.execute(
        "SELECT nspname || '.' || relname, tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid "
        "JOIN pg_namespace n ON n.oid = relnamespace WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
    ).fetchall()
    return sorted(f"{name} on {table}" for table, name in _TRIGGERS - {(str(t), str(n)) for t, n in rows})


def commits(session: "psycopg.Connection[Any]", *, after: int = 0) -> list[Commit]:
    """What was seen after commit `after`, in the order of the stream's commits: the ledger's row lock makes it. With it
    whatever changed rows beside the ledger."""
    with session.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            "SELECT position, committer, wrong_sums, torn, gaps, commit_id AS number, epoch, next_offset, "
            "publications, transactions, transfers_checked, has_ledger, has_rows, is_catching_up "
            "FROM checked.commits WHERE commit_id > %s ORDER BY commit_id",
            (after,),
        )
        return [_commit(**row) for row in cursor]


def _commit(*, position: Any, committer: str, **columns: Any) -> Commit:
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in columns.items()}
    return Commit(place=place(position_from_json(position)), owner_epoch=owner_epoch_of(committer), **plain)


def owner_epoch_of(committer: str) -> int | None:
    """None where it was no session of a stream's owner."""
    named = _OWNER.fullmatch(committer)
    return int(named[1]) if named else None


def place(position: Position) -> int:
    """A number that grows with the source's log: one server, so one GTID domain counts, or one set without a gap."""
    if isinstance(position, BinlogPosition):
        return max(gtid_sequences(position.gtid).values(), default=0)
    if isinstance(position, MySqlPosition):
        return position.gtids.count
    return position.lsn
