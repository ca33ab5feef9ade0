"""From where on a log topic is still needed, and by whom. Pure.

What is not known keeps the whole log: a log that is too long costs a disk, which alarms; one that is too short costs an
onboarding.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogEnds:
    """A log topic as its broker reports it: records are kept in `[begins, ends)`.

    `young_from`: every record before it is older than `log.keep_days`. `archived_from`: records between it and
    `begins` are in the archive; None where there is none, or it is not known.
    """

    topic: str
    topic_id: str
    begins: int
    ends: int
    young_from: int
    archived_from: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where the ledger of a stream stands, or that of an incremental snapshot: `next_offset` is the first one that it
    still needs."""

    stream: str
    topic: str
    topic_id: str
    next_offset: int


@dataclass(frozen=True, slots=True)
class LogHold:
    """Somebody's living lease: records from `next_offset` on are needed."""

    holder: str
    next_offset: int


@dataclass(frozen=True, slots=True)
class Answer:
    """All ledgers of one destination. `unknown`: why it could not be asked; "" where it was."""

    destination: str
    ledgers: tuple[LedgerPlace, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Floor:
    """Records below `below` (exclusive) are needed by nobody.

    `needs`: who needs which records, the oldest first. `unknown`: why nothing may be deleted, whoever needs what.
    `needed_from`: the first record that somebody needs, in the log or in its archive; 0 where that is not known.
    """

    below: int
    needs: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    needed_from: int = 0


def log_floor(log: LogEnds, *, answers: Sequence[Answer], streams: Collection[str], holds: Sequence[LogHold]) -> Floor:
    """The floor of pruning (PROTOCOL 10). `streams` must have a ledger: one that is not found is not one that needs
    nothing.

    A ledger of another topic, or of an earlier one of the same name, says nothing about this one: its offset is not
    counted, and nothing is deleted until its stream was onboarded again.
    """
    places = [
        place for answer in answers for place in answer.ledgers if place.topic == log.topic or place.stream in streams
    ]
    needs = sorted(
        [
            *((place.next_offset, f"the ledger of {place.stream}") for place in places if _is_of(place, log)),
            *((hold.next_offset, f"the hold of {hold.holder}") for hold in holds),
            (log.young_from, "log.keep_days"),
            # As while the first sync of a source is being onboarded.
            *(() if places else [(log.begins, "whoever is to come, for no ledger in this log is known yet,")]),
        ]
    )
    reasons = tuple(_described(offset, who, log) for offset, who in needs)
    unknown = tuple(_unknown(log, answers, places, streams))
    below = log.begins if unknown else max(log.begins, needs[0][0])
    return Floor(below, reasons, unknown, 0 if unknown else needs[0][0])


def _is_of(place: LedgerPlace, log: LogEnds) -> bool:
    return (place.topic, place.topic_id) == (log.topic, log.topic_id)


def _described(offset: int, who: str, log: LogEnds) -> str:
    if log.archived_from is not None and log.archived_from <= offset < log.begins:
        return f"{who} needs records from offset {offset} on, of which those before {log.begins} are in the archive"
    if offset < log.begins:
        return f"{who} needs records from offset {offset} on, which are gone: onboard its sync again"
    return f"{who} needs records from offset {offset} on"


def _unknown(
    log: LogEnds, answers: Sequence[Answer], places: Sequence[LedgerPlace], streams: Collection[str]
) -> Iterator[str]:
    for answer in answers:
        if answer.unknown:
            yield f"the ledgers of destination {answer.destination} are not known: {answer.unknown}"
    for missing in sorted(set(streams) - {place.stream for place in places}):
        yield f"stream {missing} has no ledger in its destination"
    for place in places:
        if not _is_of(place, log):
            yield f"the ledger of {place.stream} is of topic {place.topic}, id {place.topic_id}: onboard its sync again"
        elif place.next_offset > log.ends:
            yield f"the ledger of {place.stream} stands at {place.next_offset}, behind the end of the log, {log.ends}"
