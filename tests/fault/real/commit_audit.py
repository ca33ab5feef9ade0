"""What the warehouse itself saw at each COMMIT: a deferred trigger on the ledger that looks at the state as it becomes
visible and writes one row of its own, in the same transaction.

Installed by the harness once the tables are published. It raises nothing: a violation must be seen, not prevented.
"""

from typing import Any

import psycopg

from seamline.domain.position import BinlogPosition, Position, gtid_sequences, position_from_json
from tests.fault.real.anomalies import Commit
from tests.fault.real.bank_plus import opening_totals

_INSTALL = """
CREATE SCHEMA checked;
CREATE TABLE checked.opening (ccy text PRIMARY KEY, total numeric NOT NULL);
CREATE UNLOGGED TABLE checked.touched (tx_id bigint NOT NULL);
CREATE TABLE checked.commits (
    commit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transaction_id xid8 NOT NULL UNIQUE,
    stream text NOT NULL,
    epoch bigint NOT NULL,
    next_offset bigint NOT NULL,
    position jsonb NOT NULL,
    publications integer NOT NULL,
    units bigint NOT NULL,
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

CREATE FUNCTION checked.look() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ledger seamline.ledger;
    found_sums jsonb;
    found_wrong text[];
    looked_at integer;
    found_torn bigint[];
    found_gaps integer[];
BEGIN
    -- A publish writes the ledger twice in one transaction: this is called for each, and only one look is kept.
    IF EXISTS (SELECT FROM checked.commits WHERE transaction_id = pg_current_xact_id()) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO ledger FROM seamline.ledger WHERE stream = NEW.stream;
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
    INSERT INTO checked.commits (transaction_id, stream, epoch, next_offset, position, publications, units, sums,
                                 wrong_sums, transfers_checked, torn, gaps)
    SELECT pg_current_xact_id(), NEW.stream, ledger.epoch, ledger.next_offset, ledger.position,
           (SELECT count(*) FROM seamline.publication WHERE stream = NEW.stream), ledger.applied_units,
           found_sums, found_wrong, looked_at, found_torn, found_gaps;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER look_at_commit AFTER INSERT OR UPDATE ON seamline.ledger
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION checked.look();
"""


def install(session: "psycopg.Connection[Any]") -> None:
    """Once, after the first publish. From here on no commit of the stream goes by unseen."""
    with session.transaction():
        session.execute(_INSTALL)
        with session.cursor() as cursor:
            cursor.executemany("INSERT INTO checked.opening VALUES (%s, %s)", list(opening_totals().items()))


def commits(session: "psycopg.Connection[Any]", stream: str, *, after: int = 0) -> list[Commit]:
    """What was seen of a stream after commit `after`, in the order of its commits: the ledger's row lock makes it."""
    rows = session.execute(
        "SELECT commit_id, epoch, next_offset, position, publications, units, wrong_sums, torn, gaps, "
        "transfers_checked FROM checked.commits WHERE stream = %s AND commit_id > %s ORDER BY commit_id",
        (stream, after),
    ).fetchall()
    return [
        Commit(number, epoch, offset, place(position_from_json(position)), publications, units,
               tuple(wrong), tuple(torn), tuple(gaps), looked_at)
        for number, epoch, offset, position, publications, units, wrong, torn, gaps, looked_at in rows
    ]  # fmt: skip


def place(position: Position) -> int:
    """A number that grows with the source's log: one server, so one GTID domain counts."""
    if isinstance(position, BinlogPosition):
        return max(gtid_sequences(position.gtid).values(), default=0)
    return position.lsn
