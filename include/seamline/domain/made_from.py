"""What a night makes its cut of: one read of the source; the cut before it and the log since (ADR 73); or that cut and
the rows behind it (ADR 82)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from seamline.domain.digest import KeyedDigest
from seamline.domain.errors import SeamlineError
from seamline.domain.phrase import phrase
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.verdict import Verdict

# Names in a reconciliation's evidence.
LOG_PLACE = "log_place"
BY_LOG = "by_log"
PROVEN_BY_KEYS = "proven_by_keys"
NOT_BY_LOG = "not_by_log"
TAKEN_OVER = "taken_over"
NOT_TAKEN_OVER = "not_taken_over"
OF_THE_DATE_ALONE = "of_the_date_alone"
LATE_NAMED_MAX = 100
# So much of heartbeats behind the cut-off, or so many changes, are looked through for late transactions of a date that
# has been over for a day.
LATE_S = 3_600.0
CHANGES_MAX = 1_000_000
LOOKS_ON = (
    "behind the end of the cut the log is looked through for transactions that say to be from before the cut-off, up"
    f" to a marker of now, or, of a date that has been over for a day, up to {LATE_S / 60:g} min of heartbeats without"
    f" one or {CHANGES_MAX:,} changes; the verdict names them, the cut does not hold them, and a signature then needs"
    " a reason"
)

# What to do about a date that the log cannot make: a sync with `log` reads its first cut alone, one with `auto` any.
LET_IT_BE_READ = (
    "`from: auto` reads this date: where the sync has `from: log`, write `auto`, run the date, and write `log` again"
)


class MadeFrom(StrEnum):
    READ = "read"  # a snapshot of the source at P
    LOG = "log"  # the cut before it and the log since, up to the cut-off
    AUTO = "auto"  # the log where it can be, else a read
    DAY_SLICE = "day_slice"  # a snapshot at P, of the rows of the date alone
    INCREMENTAL = "incremental"  # a snapshot at P, of the rows behind the newest cut, and that cut

    @property
    def uses_log(self) -> bool:
        return self in (MadeFrom.LOG, MadeFrom.AUTO)

    @property
    def begins_with_a_cut(self) -> bool:
        return self.uses_log or self is MadeFrom.INCREMENTAL

    @property
    def may_be_read(self) -> bool:
        """Whether a date that cannot be made so is read."""
        return self in (MadeFrom.AUTO, MadeFrom.INCREMENTAL)


@dataclass(frozen=True, slots=True)
class LateTransaction:
    """A transaction that lies behind the cut in the log although it says that it was committed before the cut-off."""

    position: str
    committed: str
    changes: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Transactions that say to be of the date and lie behind its cut in the log. `changes`: of rows, in those that are
    `named`; `is_all`: all of them are."""

    transactions: int
    changes: int
    is_all: bool
    named: tuple[LateTransaction, ...] = ()

    @property
    def in_words(self) -> str:
        changes = f"{self.changes:,}" if self.is_all else phrase("at least %(number)s", number=f"{self.changes:,}")
        return phrase(
            "left out of the cut by the log: %(transactions)s transactions with %(changes)s changes of rows say that"
            " they were committed before the cut-off, and lie behind it",
            transactions=f"{self.transactions:,}",
            changes=changes,
        )


class NotByLog(SeamlineError):
    """Why a cut cannot be made from the log. `is_first`: no cut is there that it could begin with."""

    is_first = False


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where the log of a cut goes on: from `offset` of the topic.

    `after`: the position of the last transaction before `offset`. `is_exact`: the cut holds all before `offset` and
    nothing behind it. Else it was read at a P of its own somewhere behind `offset`, and P says of each transaction
    whether the cut holds it.
    """

    topic: str
    topic_id: str
    offset: int
    after: Position
    is_exact: bool


@dataclass(frozen=True, slots=True)
class ByLog:
    """How a cut was made from the log. `base_*`: the cut that it began with. `read_date`: the date whose cut was read
    from the source, `steps` cuts before this one. `ended_by`: the transaction before which it ends, and when that was
    committed. `late` are at most so many of `late_total`, found up to `looked_until`, the latest commit time that was
    seen; `look_ended_by`: why no further, "" where the log's time said enough. `moved_on`: the system date by which it
    ended, and not by the cut-off."""

    base_date: str
    base_version: int
    base_run: str
    base_verdict: str
    base_position: str
    position: str
    cut_off: str
    ended_by: str
    ended_at: str
    transactions: int
    changes: int
    read_date: str
    steps: int
    looked_until: str
    late_total: int = 0
    late: tuple[LateTransaction, ...] = ()
    moved_on: str = ""
    look_ended_by: str = ""

    @property
    def in_words(self) -> str:
        earlier = f"made so too, {self.steps - 1} cuts after that of {self.read_date}, which was read from the source"
        how = "read from the source" if self.steps == 1 else earlier
        ended = f"the first that was committed at {self.cut_off} or later"
        if self.moved_on:
            ended = f"which moved {self.moved_on} on at {self.ended_at}"
        return (
            f"made by the log since the cut of {self.base_date} (version {self.base_version}, {self.base_verdict},"
            f" {how}): from {self.base_position} to {self.position}, {self.changes:,} changes in {self.transactions:,}"
            f" transactions. It ends before {self.ended_by}, {ended}"
        )


@dataclass(frozen=True, slots=True)
class EarlierCut:
    """A published cut that another one can begin with. `read_date`: the date whose cut was read from the source,
    `steps` cuts before this one (0: this one was). `digests`: by table what it held when it was compared."""

    business_date: date
    version: int
    run_id: str
    verdict: Verdict
    position: Position
    place: LogPlace
    read_date: str
    steps: int
    digests: Mapping[str, KeyedDigest]


@dataclass(frozen=True, slots=True)
class TakenOver:
    """How a table of a cut came about: `read` rows with a key above `above`, and `kept` rows of an earlier cut. Where
    `column` is named, rows were read whose value in it is `above` or more."""

    table: str
    business_date: str
    version: int
    above: int | str
    kept: int
    read: int
    column: str = ""

    @property
    def in_words(self) -> str:
        bound = f"{self.column} from {self.above} on" if self.column else f"a key above {self.above}"
        return (
            f"{self.table}: {self.read} rows with {bound} were read, {self.kept} are those of the cut"
            f" of {self.business_date}, version {self.version}; all of them were compared with the source"
        )


def taken_over_from_json(evidence: Mapping[str, Any]) -> list[TakenOver]:
    return [TakenOver(**one) for one in evidence.get(TAKEN_OVER, ())]


def taken_over_in_words(evidence: Mapping[str, Any]) -> list[str]:
    lines = [f"{one.in_words}." for one in taken_over_from_json(evidence)]
    if NOT_TAKEN_OVER in evidence:
        lines.append(f"Read whole: {evidence[NOT_TAKEN_OVER]}.")
    return lines


def day_slice_in_words(evidence: Mapping[str, Any]) -> list[str]:
    said = (
        "Read by `from: day_slice`: the rows of this date alone. They take the place of those that the date had; other"
        " dates stay as they are."
    )
    return [said] if evidence.get(OF_THE_DATE_ALONE) else []


def place_to_json(place: LogPlace) -> dict[str, Any]:
    return {
        "topic": place.topic,
        "topic_id": place.topic_id,
        "offset": place.offset,
        "after": position_to_json(place.after),
        "is_exact": place.is_exact,
    }


def place_from_json(document: Mapping[str, Any]) -> LogPlace:
    return LogPlace(**{**document, "after": position_from_json(document["after"])})


def by_log_to_json(made: ByLog) -> dict[str, Any]:
    return {**asdict(made), "late": [asdict(one) for one in made.late]}


def by_log_from_json(document: Mapping[str, Any]) -> ByLog:
    return ByLog(**{**document, "late": tuple(LateTransaction(**one) for one in document["late"])})


def left_out_of(by_log: Mapping[str, Any] | None) -> LeftOut | None:
    """None of a cut that was not made from the log, or leaves nothing out. `by_log`: as its evidence has it."""
    if not by_log or not by_log["late_total"]:
        return None
    named, total = tuple(LateTransaction(**one) for one in by_log["late"]), by_log["late_total"]
    return LeftOut(total, sum(one.changes for one in named), total == len(named), named)


def moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def by_log_in_words(evidence: Mapping[str, Any]) -> list[str]:
    """What a report says of how a cut was made; nothing of one that was read whole."""
    lines = []
    if BY_LOG in evidence:
        found = by_log_from_json(evidence[BY_LOG])
        lines.append(f"{found.in_words}.")
        no_further = f", and no further because of {found.look_ended_by}" if found.look_ended_by else ""
        lines.append(f"Behind it the log was looked through up to commits of {found.looked_until}{no_further}.")
        if found.late_total:
            named = ", ".join(f"{one.position} of {one.committed} ({one.changes} changes)" for one in found.late)
            lines.append(
                f"{found.late_total} transactions behind it say that they were committed before the cut-off: {named}."
            )
    if tables := evidence.get(PROVEN_BY_KEYS):
        lines.append(
            f"Proven by what the cut before it was proven to hold, in one pass over the new rows: {', '.join(tables)}."
        )
    if NOT_BY_LOG in evidence:
        lines.append(f"Read from the source, and not made from the log: {evidence[NOT_BY_LOG]}.")
    return lines
