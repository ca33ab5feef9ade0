"""Deletes the records of log topics that nobody needs any more. It decides nothing itself: `domain.log_floor` does.

A need that ends while a floor is computed is seen: holds are read before ledgers, and a hold ends only when the ledger
stands. One that arises meanwhile, as of a cut that begins with an old one, is seen too: holds are read once more before
anything is deleted.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from seamline.domain.errors import PositionLost, SeamlineError
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import Answer, Floor, LogEnds, LogHold, log_floor
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan
from seamline.ports.maintenance import Ledgers, LogTopics
from seamline.sync.log_archiving import Archiving, OpenArchive, archive_log, archived_before, knowing, no_archive

_DAY_S = 86_400.0
# A segment goes as a whole, once its newest record may go. So what cannot go yet is a tenth of the keep more, and an
# hour at most; below a minute a broker would be busy with files.
_SEGMENT_OF_KEEP = 0.1
_SEGMENT_MIN_S, _SEGMENT_MAX_S = 60.0, 3600.0


class Holds(Protocol):
    def living_holds(self, topic: str) -> Sequence[LogHold]: ...


@dataclass(frozen=True, slots=True)
class PruningTools:
    topics: LogTopics
    holds: Holds
    open_ledgers: Callable[[DestinationPlan], AbstractContextManager[Ledgers]]
    open_archive: OpenArchive = no_archive


@dataclass(frozen=True, slots=True)
class LogUsers:
    """Who may need the log of a source. `streams` are those that were ever wanted: each must have a ledger. `cut_off`:
    those whose ledger is not counted."""

    source: SourcePlan
    destinations: tuple[DestinationPlan, ...]
    streams: frozenset[str] = frozenset()
    cut_off: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pruned:
    """What became of one log topic. `begins`: its first offset, before and after. `segments`: why they could not be
    made to end in time; "" where they do. `archiving`: None where the source declares no archive."""

    topic: str
    begins: tuple[int, int]
    ends: int
    floor: Floor
    size_bytes: int
    segments: str = ""
    archiving: Archiving | None = None

    @property
    def records(self) -> int:
        return self.begins[1] - self.begins[0]


def log_users(
    declared: Sequence[SyncPlan],
    wanted: Mapping[StreamId, SyncPlan],
    published: Collection[SyncPlan],
    *,
    cut_off: Collection[StreamId] = (),
) -> list[LogUsers]:
    """By log topic: all destinations of all syncs, whether declared, wanted, paused or neither.

    A sync that was published and not yet wanted has a ledger too. The keep is the declared one; of a source that no
    declaration has any more, the longest that was heard of. Destinations of cuts only read no log, and some
    sources have none. A destination whose streams are all cut off is not asked: it may be away for good.
    """
    plans = [*declared, *wanted.values(), *published]
    sources: dict[str, SourcePlan] = {}
    for plan in sorted((*wanted.values(), *published), key=lambda one: one.source.log_keep_days):
        sources[plan.source.log_topic] = plan.source
    sources |= {plan.source.log_topic: plan.source for plan in declared}
    return [
        LogUsers(
            source,
            tuple(
                dict.fromkeys(
                    one
                    for plan in plans
                    if plan.source.log_topic == topic
                    for one in plan.streamed.destinations
                    if plan.stream_id(one.name) not in cut_off
                )
            ),
            frozenset(
                str(stream)
                for stream, plan in wanted.items()
                if plan.source.log_topic == topic and stream not in cut_off
            ),
            frozenset(map(str, cut_off)),
        )
        for topic, source in sorted(sources.items())
        if source.has_log
    ]


def prune_log(users: LogUsers, tools: PruningTools) -> Pruned | None:
    """Delete what is below the floor of this log, and in its archive where one is declared; None where there is no
    topic. A repeat finds nothing to do.

    Raises PositionLost for a topic that was made again meanwhile, TransientError where Kafka does not answer.
    """
    topic, keep_s = users.source.log_topic, users.source.log_keep_days * _DAY_S
    topic_id = tools.topics.topic_id(topic)
    if not topic_id:
        return None
    segments = _end_segments(topic, keep_s, tools.topics)
    holds = tools.holds.living_holds(topic)
    answers = [_ask(destination, tools, users.cut_off) for destination in users.destinations]
    begins, ends = tools.topics.offsets(topic)
    log = LogEnds(topic, topic_id, begins, ends, tools.topics.young_from(topic, keep_s=keep_s))
    before = archived_before(users.source, log, tools.open_archive) if users.source.archive else None
    log = knowing(log, before) if before else log
    floor = log_floor(log, answers=answers, streams=users.streams, holds=holds)
    archiving = archive_log(users.source, log, floor, before, tools.open_archive) if before else None
    below = archiving.below(floor.below, begins) if archiving else floor.below
    begins_now = begins
    if below > begins:
        _require_same(topic, topic_id, tools.topics)
        below = min([below, *(hold.next_offset for hold in tools.holds.living_holds(topic))])
    if below > begins:
        begins_now = tools.topics.prune(topic, below=below)
    return Pruned(topic, (begins, begins_now), ends, floor, tools.topics.size_bytes(topic), segments, archiving)


def segment_s(keep_s: float) -> float:
    """How long a segment of the log may stay open."""
    return min(max(keep_s * _SEGMENT_OF_KEEP, _SEGMENT_MIN_S), _SEGMENT_MAX_S)


def _end_segments(topic: str, keep_s: float, topics: LogTopics) -> str:
    """A Kafka that lets nobody change this gives its space back later: no reason to give none back. One that is away
    says so again at the next question."""
    try:
        topics.end_segments(topic, within_s=segment_s(keep_s))
    except SeamlineError as exc:
        return exc.message
    return ""


def _ask(destination: DestinationPlan, tools: PruningTools, cut_off: Collection[str]) -> Answer:
    try:
        with tools.open_ledgers(destination) as opened:
            return Answer(destination.name, tuple(one for one in opened.ledgers() if one.stream not in cut_off))
    except SeamlineError as exc:
        return Answer(destination.name, unknown=exc.message)


def _require_same(topic: str, topic_id: str, topics: LogTopics) -> None:
    """Kafka deletes by the topic's name, and the floor is of this very topic."""
    found = topics.topic_id(topic)
    if found != topic_id:
        raise PositionLost(
            f"log topic {topic} was made again while its floor was computed (id {found or 'none'}, was {topic_id})",
            hint="nothing was deleted; onboard the syncs of its source again",
        )
