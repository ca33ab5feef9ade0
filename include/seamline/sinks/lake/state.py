"""`seamline.lake_state`: which snapshots of its tables belong together, one row per commit of a stream.

A reader that opens one table after another may see two commits; one that reads the snapshots of one row sees a state
that the source had. The newest row also says what a table's head must be: another one is somebody else's.
"""

import json
from collections.abc import Collection, Mapping

from seamline.databases.postgres.client import Session
from seamline.domain.ledger import StreamId

_TABLE = """
CREATE TABLE IF NOT EXISTS seamline.lake_state (
    state_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream text NOT NULL,
    next_offset bigint NOT NULL,
    position jsonb NOT NULL,
    snapshots jsonb NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS lake_state_of_stream ON seamline.lake_state (stream, state_id);
"""
_NEWEST = "SELECT snapshots FROM seamline.lake_state WHERE stream = %s ORDER BY state_id DESC LIMIT 1"
# Newest rows stay, whatever their age. A pinned read of an older one finds its snapshots as long as those are kept.
KEPT_DAYS = 7


def create_table(session: Session) -> None:
    """In schema `seamline`, which the ledger's tables have made."""
    session.execute(_TABLE)


def newest(session: Session, stream: StreamId) -> dict[str, int]:
    """Table → snapshot id, after the stream's last commit."""
    row = session.execute(_NEWEST, (str(stream),)).fetchone()
    return {} if row is None else {str(table): int(number) for table, number in row[0].items()}


def keep(session: Session, stream: StreamId, moved: Mapping[str, int], *, gone: Collection[str] = ()) -> None:
    """The state after a commit, in its transaction and behind its ledger: offset and position are the ledger's own."""
    session.execute(
        "INSERT INTO seamline.lake_state (stream, next_offset, position, snapshots)"
        f" SELECT stream, next_offset, position, (coalesce(({_NEWEST}), '{{}}') - %s::text[]) || %s::jsonb"
        " FROM seamline.ledger WHERE stream = %s",
        (str(stream), list(gone), json.dumps(moved), str(stream)),
    )


def all_of(session: Session, destination: str) -> list[tuple[str, str, int]]:
    """(stream, table, snapshot id) of every row of the streams into a destination; none where nothing was published."""
    if session.execute("SELECT to_regclass('seamline.lake_state')").fetchone() == (None,):
        return []
    rows = session.execute(
        "SELECT DISTINCT stream, one.key, one.value::bigint FROM seamline.lake_state, jsonb_each_text(snapshots) one"
        " WHERE right(stream, length(%(tail)s)) = %(tail)s",
        {"tail": f"@{destination}"},
    ).fetchall()
    return [(str(stream), str(table), int(number)) for stream, table, number in rows]


def forget(session: Session, stream: StreamId) -> None:
    session.execute("DELETE FROM seamline.lake_state WHERE stream = %s", (str(stream),))


def prune(session: Session) -> int:
    """Delete what is old, but for each stream's newest; how many rows. 0 where nothing was ever published."""
    if session.execute("SELECT to_regclass('seamline.lake_state')").fetchone() == (None,):
        return 0
    return session.execute(
        "DELETE FROM seamline.lake_state s WHERE committed_at < clock_timestamp() - make_interval(days => %s)"
        " AND EXISTS (SELECT FROM seamline.lake_state n WHERE n.stream = s.stream AND n.state_id > s.state_id)",
        (KEPT_DAYS,),
    ).rowcount
