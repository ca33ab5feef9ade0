"""By when each stage of a night is to be through, and how long each stage of an onboarding may take: as declared, and a
default where nothing is. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from seamline.domain.calendar import zone
from seamline.domain.runs import RunKind
from seamline.plan.model import NightlyPlan
from seamline.plan.night import night_of

NIGHT_STAGES = ("closed", "cut", "checks", "publish")
# Of the time between the start of a night and the hour of its verdict. When the source closes its day, and whether a
# person is asked before the date is published, only a declaration can know.
_SHARES = {"cut": 0.5, "checks": 0.75}
# A large snapshot takes hours; whatever takes longer than this is worth a look, or a declared limit.
ONBOARD_WITHIN = {
    "preflight": timedelta(minutes=15),
    "capture": timedelta(minutes=15),
    "snapshot": timedelta(hours=12),
    "publish": timedelta(hours=1),
    "start_stream": timedelta(minutes=15),
    "join": timedelta(hours=2),
    "cutover": timedelta(hours=2),
    "reconcile": timedelta(hours=6),
    "compare": timedelta(hours=6),
}
ONBOARDINGS = (RunKind.ONBOARD, RunKind.TABLES)


@dataclass(frozen=True, slots=True)
class StageDue:
    """`at`: with the sync's zone."""

    stage: str
    at: datetime
    is_declared: bool


def night_deadlines(nightly: NightlyPlan, day: date) -> list[StageDue]:
    """In the order of the stages. A default that a declared hour of another stage contradicts is left out."""
    where, night = zone(nightly.timezone), night_of(nightly, day)
    declared = {
        stage: datetime.combine(day + timedelta(days=1), time.fromisoformat(by), where)
        for stage, by in nightly.stages_by
    }
    length = night.due.astimezone(UTC) - night.starts_at.astimezone(UTC)
    found = []
    for stage in NIGHT_STAGES:
        if stage in declared:
            found.append(StageDue(stage, declared[stage], is_declared=True))
        elif stage in _SHARES and length > timedelta(0):
            at = (night.starts_at.astimezone(UTC) + length * _SHARES[stage]).astimezone(where)
            if _fits(stage, at, declared):
                found.append(StageDue(stage, at.replace(second=0, microsecond=0), is_declared=False))
    return found


def _fits(stage: str, at: datetime, declared: Mapping[str, datetime]) -> bool:
    place = NIGHT_STAGES.index(stage)
    return all((at > other) if NIGHT_STAGES.index(name) < place else (at < other) for name, other in declared.items())


def onboard_limits(declared: Mapping[str, timedelta]) -> Iterator[tuple[str, timedelta, bool]]:
    """Of each stage of an onboarding, or of a change of its tables: how long it may take, and whether that is
    declared."""
    for stage, default in ONBOARD_WITHIN.items():
        # A change of the tables compares under another name, and joins where an onboarding cuts over.
        name = {"compare": "reconcile", "join": "cutover"}.get(stage, stage)
        yield stage, declared.get(name, default), name in declared
