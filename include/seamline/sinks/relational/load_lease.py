"""Which attempt of a run may change what the run has staged: a row beside the staged tables (ADR 112).

An attempt takes the row once, before it looks what is there, and never again. Whoever changes anything of what is
staged holds the row in share mode until that is committed. So what an attempt finds is what it goes on with: an earlier
one can neither add to it nor take away from it.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from seamline.databases.mysql.canonical import quoted
from seamline.kinds.bulk import StagedPlace
from seamline.kinds.split_rules import LoadTakenOver
from seamline.sinks.relational.session import PATIENCE_S, Session, close, execute, query, translated

# What is done under a lease are drops and creations of tables, and words to the platform database. Whoever takes over
# waits for minutes, so that an attempt that hangs there does not cost the one behind it.
_WAITED_S = 660
# MariaDB has no FOR SHARE.
_SHARED = "LOCK IN SHARE MODE"
_NAME = "varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
# A run's id is no key, for it may be longer than one: its hash is.
TABLE = (
    f"staged_attempt (run_key {_NAME}, attempt {_NAME}, taken_at bigint NOT NULL, PRIMARY KEY (run_key)) ENGINE=InnoDB"
)


def take(session: Session, database: str, run_id: str, attempt: str) -> None:
    """Of all attempts of the run, this one changes what is staged from now on."""
    execute(session, f"SET SESSION innodb_lock_wait_timeout = {_WAITED_S}")
    execute(
        session,
        f"REPLACE INTO {quoted(database)}.staged_attempt VALUES (%s, %s, UNIX_TIMESTAMP())",
        (_key(run_id), attempt),
    )
    execute(session, f"SET SESSION innodb_lock_wait_timeout = {PATIENCE_S}")


def forget_old(session: Session, database: str, *, older_than_s: int) -> None:
    """One by one, so that no lease that is held is waited for."""
    old = f"SELECT run_key FROM {quoted(database)}.staged_attempt WHERE taken_at < UNIX_TIMESTAMP() - %s"
    for (run_key,) in query(session, old, (older_than_s,)):
        execute(session, f"DELETE FROM {quoted(database)}.staged_attempt WHERE run_key = %s", (run_key,))


@contextmanager
def held(session: Session, database: str, run_id: str, attempt: str) -> Iterator[None]:
    """The session is for this alone, and is closed. LoadTakenOver: another attempt has the lease."""
    try:
        with translated("hold what is staged"):
            execute(session, "START TRANSACTION")
            _require(session, database, run_id, attempt, "")
        yield
    finally:
        close(session)


def require_held_for(session: Session, place: StagedPlace, attempt: str) -> None:
    """At the end of a transaction that changes a staged table. LoadTakenOver: another attempt has the lease."""
    run_of = f"SELECT run_id FROM {quoted(place.schema)}.staged_load WHERE staged_as = %s"
    for (run_id,) in query(session, run_of, (place.name,)):
        return _require(session, place.schema, str(run_id), attempt, place.table.name)
    raise LoadTakenOver(table=place.table.name)


def _require(session: Session, database: str, run_id: str, attempt: str, table: str) -> None:
    """The row is locked by its key: no other lease is waited for."""
    wanted = f"SELECT attempt FROM {quoted(database)}.staged_attempt WHERE run_key = %s {_SHARED}"
    if list(query(session, wanted, (_key(run_id),))) != [(attempt,)]:
        raise LoadTakenOver(table=table)


def _key(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()
