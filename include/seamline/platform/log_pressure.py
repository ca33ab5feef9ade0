"""What the watch of a source does to its capture just now, for whoever reads the source meanwhile."""

from collections.abc import Callable
from contextlib import closing

from seamline.domain.alarms import AlarmKind
from seamline.domain.reading_pace import LogPressure, Rate
from seamline.plan.model import SourcePlan
from seamline.platform.database import Database, Session
from seamline.platform.followers import PlatformFollowers

_ALARMS = "select kind, message from alarm where subject = %s and kind = any(%s) and ended_at is null order by kind"
_HELD_UP = [AlarmKind.CAPTURE_PAUSED.value, AlarmKind.CAPTURE_SLOWED.value]
_NEEDED = (
    "select min(next_offset) from pruning_hold where topic = %(topic)s"
    " and (holder = %(run)s or starts_with(holder, %(load)s))"
)


def log_pressure(
    source: SourcePlan, run_id: str, open_database: Callable[[], Database] = Database
) -> LogPressure | None:
    """By the open alarms; None where the capture is free, or held up by nobody else than this run. `run_id`: of the
    run that reads, which keeps the log from its begin on."""

    def work(session: Session) -> tuple[list[tuple[str, str]], int | None]:
        alarms = session.execute(_ALARMS, (source.name, _HELD_UP)).fetchall()
        if not alarms:
            return [], None
        named = {"topic": source.log_topic, "run": run_id, "load": f"the load of {run_id} into "}
        row = session.execute(_NEEDED, named).fetchone()
        return [(str(kind), str(message)) for kind, message in alarms], None if row is None else row[0]

    with closing(open_database()) as database:
        alarms, needed = database.transact(work)
    if not alarms:
        return None
    slowest = min((one.next_offset for one in PlatformFollowers(open_database).of(source.name)), default=None)
    if slowest is None and needed is None:
        # Nobody follows: an alarm that a host has left says nothing about this read.
        return None
    # Sorted by name, that of a capture that pauses comes first.
    kind, message = alarms[0]
    is_ours = needed is not None and (slowest is None or slowest >= needed)
    return LogPressure(Rate.WAITS if kind == AlarmKind.CAPTURE_PAUSED else Rate.SLOWED, message, is_ours)
