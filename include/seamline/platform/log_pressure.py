"""What the watch of a source does to its capture just now, for whoever reads the source meanwhile."""

from collections.abc import Callable
from contextlib import closing

from seamline.domain.alarms import AlarmKind
from seamline.domain.log_keepers import LogUser, pressure_on
from seamline.domain.reading_pace import LogPressure, Rate
from seamline.domain.runs import RunKind
from seamline.plan.document import plan_from_json
from seamline.plan.model import SourcePlan
from seamline.platform.database import Database, Session
from seamline.platform.followers import PlatformFollowers
from seamline.platform.maintenance import PlatformMaintenance

_ALARMS = "select kind, message from alarm where subject = %s and kind = any(%s) and ended_at is null order by kind"
_HELD_UP = [AlarmKind.CAPTURE_PAUSED.value, AlarmKind.CAPTURE_SLOWED.value]


def log_pressure(
    source: SourcePlan, run_id: str, open_database: Callable[[], Database] = Database
) -> LogPressure | None:
    """By the open alarms; None where the capture is free, or held up for nobody whom this run could spare. `run_id`: of
    the run that reads."""

    def alarms(session: Session) -> list[tuple[str, str]]:
        return [(str(kind), str(why)) for kind, why in session.execute(_ALARMS, (source.name, _HELD_UP))]

    with closing(open_database()) as database:
        if not (found := database.transact(alarms)):
            return None
        user = database.transact(lambda session: _user(session, run_id))
        holds = PlatformMaintenance(database).living_holds(source.log_topic)
    # Sorted by name, that of a capture that pauses comes first.
    kind, why = found[0]
    rate = Rate.WAITS if kind == AlarmKind.CAPTURE_PAUSED else Rate.SLOWED
    return pressure_on(user, rate, why, followers=PlatformFollowers(open_database).of(source.name), holds=holds)


def _user(session: Session, run_id: str) -> LogUser:
    row = session.execute("select kind, plan_json from run where run_id = %s", (run_id,)).fetchone()
    if row is None:
        return LogUser(run_id)
    plan = plan_from_json(row[1])
    return LogUser(run_id, plan.sync, frozenset(plan.destination_names), RunKind(row[0]))
