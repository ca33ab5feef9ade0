"""Which attempt of a run may change what the run has staged: a row beside the staged tables (ADR 112).

An attempt takes the row once, before it looks what is there, and never again. Whoever changes anything of what is
staged holds the row in share mode until that is committed. So what an attempt finds is what it goes on with: an earlier
one can neither add to it nor take away from it.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, translated
from seamline.kinds.bulk import StagedPlace
from seamline.kinds.split_rules import LoadTakenOver

TABLE = (
    "CREATE TABLE IF NOT EXISTS {schema}.staged_attempt (run_id text PRIMARY KEY, attempt text NOT NULL,"
    " taken_at timestamptz NOT NULL)"
)
# What is done under a lease are drops and creations of tables, and words to the platform database. Whoever takes over
# waits for longer, so that an attempt that hangs there does not cost the one behind it.
_HELD, _WAITED = "10min", "11min"


def take(session: Session, schema: str, run_id: str, attempt: str) -> None:
    """Of all attempts of the run, this one changes what is staged from now on."""
    at = quoted(schema)
    with session.transaction():
        session.execute(f"SET LOCAL lock_timeout = '{_WAITED}'".encode())
        session.execute(
            f"INSERT INTO {at}.staged_attempt VALUES (%s, %s, now()) ON CONFLICT (run_id)"
            " DO UPDATE SET attempt = excluded.attempt, taken_at = excluded.taken_at".encode(),
            (run_id, attempt),
        )


def forget_old(session: Session, schema: str, *, older_than_s: float) -> None:
    session.execute(
        f"DELETE FROM {quoted(schema)}.staged_attempt WHERE taken_at < now() - make_interval(secs => %s)".encode(),
        (older_than_s,),
    )


@contextmanager
def held(session: Session, schema: str, run_id: str, attempt: str) -> Iterator[None]:
    """The session is for this alone, and is closed. LoadTakenOver: another attempt has the lease."""
    with closing(session):
        with translated("hold what is staged"):
            session.execute("BEGIN")
            session.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{_HELD}'".encode())
            row = session.execute(
                f"SELECT 1 FROM {quoted(schema)}.staged_attempt WHERE run_id = %s AND attempt = %s FOR SHARE".encode(),
                (run_id, attempt),
            ).fetchone()
        if row is None:
            raise LoadTakenOver
        yield


def require_held_for(session: "psycopg.Connection[Any]", place: StagedPlace, attempt: str) -> None:
    """At the end of a transaction that changes a staged table. LoadTakenOver: another attempt has the lease."""
    at = quoted(place.schema)
    row = session.execute(
        f"SELECT 1 FROM {at}.staged_attempt WHERE attempt = %s"
        f" AND run_id = (SELECT run_id FROM {at}.staged_load WHERE staged_as = %s) FOR SHARE".encode(),
        (attempt, place.name),
    ).fetchone()
    if row is None:
        raise LoadTakenOver(table=place.table.name)
