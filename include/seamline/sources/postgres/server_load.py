"""How busy a PostgreSQL server is, and how far it is behind as a standby, or its standbys are."""

import math

from seamline.domain.errors import ConfigError
from seamline.sources.postgres.client import Session

# `state` and `backend_type` are NULL of what the role may not see, the login is not.
_SESSIONS = """
SELECT count(*) FILTER (WHERE state = 'active'), count(*) FILTER (WHERE state IS NULL)
FROM pg_stat_activity WHERE coalesce(backend_type, 'client backend') = 'client backend' AND usesysid IS NOT NULL
  AND pid <> pg_backend_pid()
"""
# A standby that was ever to stream has a place up to which it has received, also while it receives nothing any more. By
# `primary_conninfo` that is not to be seen: it takes pg_read_all_settings.
_AS_STANDBY = """
SELECT pg_last_wal_receive_lsn() IS NOT NULL, coalesce(pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn(), false),
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()),
       (SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'),
       (SELECT count(*) FROM pg_stat_wal_receiver WHERE status IS NULL)
WHERE pg_is_in_recovery()
"""
# The slots of captures are logical: how far those are behind is the capture's matter.
_OF_STANDBYS = """
SELECT extract(epoch FROM max(replay_lag)), count(*) FILTER (WHERE state IS NULL) FROM pg_stat_replication
WHERE pid NOT IN (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)
"""


def running(session: Session, reader: str) -> int:
    """Statements of others. `reader`: id of the connection that asks. ConfigError: its role does not see them."""
    found, unseen = session.execute(_SESSIONS).fetchone() or (0, 0)
    _require_seen(unseen, "sessions", reader)
    return int(found)


def replica_lag_s(session: Session, reader: str) -> float | None:
    """None of a primary without standbys. Infinite of a standby that streams no more. ConfigError: as above."""
    if (own := session.execute(_AS_STANDBY).fetchone()) is not None:
        streamed, has_all, age_s, streaming, unseen = own
        _require_seen(unseen, "WAL receivers", reader)
        return _behind(is_lost=streamed and not streaming, has_all=bool(streaming and has_all), age_s=age_s)
    lag, unseen = session.execute(_OF_STANDBYS).fetchone() or (None, 0)
    _require_seen(unseen, "standbys", reader)
    return None if lag is None else float(lag)


def _behind(*, is_lost: bool, has_all: bool, age_s: float | None) -> float:
    """`age_s`: of the newest transaction that the standby has applied."""
    if has_all:
        return 0.0
    # What it lacks it will not get, or it has applied nothing yet.
    return math.inf if is_lost or age_s is None else float(age_s)


def _require_seen(unseen: int, what: str, reader: str) -> None:
    if unseen:
        raise ConfigError(
            f"the role of connection `{reader}` does not see what {unseen} {what} of the source do, and the source's"
            " `budget` asks for it",
            hint="as a superuser: GRANT pg_read_all_stats TO <the role of that connection>",
        )
