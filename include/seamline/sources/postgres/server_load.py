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
_AS_STANDBY = """
SELECT CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
            ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END
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
    """None of a primary without standbys. ConfigError: as above."""
    if (own := session.execute(_AS_STANDBY).fetchone()) is not None:
        return math.inf if own[0] is None else float(own[0])
    lag, unseen = session.execute(_OF_STANDBYS).fetchone() or (None, 0)
    _require_seen(unseen, "standbys", reader)
    return None if lag is None else float(lag)


def _require_seen(unseen: int, what: str, reader: str) -> None:
    if unseen:
        raise ConfigError(
            f"the role of connection `{reader}` does not see what {unseen} {what} of the source do, and the source's"
            " `budget` asks for it",
            hint="as a superuser: GRANT pg_read_all_stats TO <the role of that connection>",
        )
