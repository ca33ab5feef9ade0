"""What a run leaves behind: receipts of staged tables, cuts, reconciliations. (`Run` itself holds a plan, so it stands
in `plan.model`.)"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from seamline.domain.digest import SegmentDigest
from seamline.domain.log_patch import LOG
from seamline.domain.position import Position
from seamline.domain.recorded import Recorded
from seamline.domain.verdict import TableVerdict, Verdict

# A value that JSON can hold; `object` because the checker has no recursive JSON type that reads well.
Json = Mapping[str, object]


# Under these keys of its result a run keeps that it has published, and what it has to change in the list of tables.
PUBLISH = "publish"
TABLES = "tables"
# And why a destination lacks the tables that others have by this run: name → error.
NOT_PUBLISHED = "not_published"
# And how to mend that, of a cut: name → cure.
NOT_PUBLISHED_CURES = "not_published_cures"
# And into which destinations an onboarding goes, where these are not all of its sync.
INTO = "into"
# And how destinations of cuts only hold its tables: name → table → transform, None for the source's rows.
CUT_TRANSFORMS = "cut_transforms"
# And this: why it failed for good, by which task, with the cure; gone when the run goes on.
FAILURE = "failure"
# In the evidence of a comparison: a hash of the code that made it.
CODE = "code"
# And what the checks of a staged cut said, for each destination; `checked_in` reads it.
EXPECTATIONS = "expectations"
# And why a destination has nothing staged while others have: name → error.
NOT_STAGED = "not_staged"
# And what the gate, or the verdicts of live tables, judged: `lines` say what was not clean. Of a cut `destinations`
# holds them by the destination that they are about, [] where it is clean.
GATE = "gate"
# Under this key of its evidence a reconciliation keeps the signature.
SIGNED_BY = "signed_by"
# Under these keys of its result a nightly run keeps what was asked of it: how far it goes, why, and which user of
# Airflow asked; the last two may be "".
MODE, REASON, ASKED_BY = "mode", "reason", "asked_by"
# The parameter of a nightly run by which a date that is done is left as it is.
KEEP_DONE = "keep_done"
# Under this key of its result a nightly run keeps where it takes nothing, because what it would take is in force there
# and is well: destination → `run` that published it, `version`, and `why`. And this, where that is so of all.
KEPT, TOOK_NOTHING = "kept", "took_nothing"
# And that what is in force is taken once more: the task of a run that had ended well was cleared.
AGAIN = "again"
# Under this key a run keeps which of its tasks began last, and when.
STAGE = "stage"
# Under this key a run keeps that all of its load is staged and written down: a hash of the plan that it was made by;
# None once a later task has begun.
LOADED = "loaded"
# Under this key a run keeps which attempt of its load began last; what others say of it is not written down any more.
ATTEMPT = "attempt"
# Under this key a comparison of live tables keeps that all rows were to be read.
WHOLE = "whole"
# The tables that a nightly run was to compare; [] for all.
ONLY_TABLES = "only_tables"


def checked_in(result: Mapping[str, Any], destination: str) -> Mapping[str, Any] | None:
    """What the checks said of the staged cut in one destination, from a run's result; None where they have not run, or
    where what is stored there is of no form that they leave."""
    left = result.get(EXPECTATIONS)
    # Runs of before said it once, for all of their destinations.
    if isinstance(left, Mapping) and "destinations" in left:
        of_each = left["destinations"]
        left = of_each.get(destination) if isinstance(of_each, Mapping) else None
    return left if isinstance(left, Mapping) and left else None


class NightlyMode(StrEnum):
    """How far a nightly run goes. What was only compared is never published."""

    PUBLISH = "publish"
    COMPARE_ONLY = "compare only"


class RunKind(StrEnum):
    ONBOARD = "onboard"
    NIGHTLY = "nightly"
    RECONCILE = "reconcile"
    TABLES = "tables"
    REPAIR = "repair"


PUT_TABLES_IN_PLACE = (RunKind.ONBOARD, RunKind.TABLES)


class RunState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class SyncState(StrEnum):
    ONBOARDING = "onboarding"
    ENABLED = "enabled"


class Scope(StrEnum):
    """What was compared with the source: the live tables, or a staged cut."""

    LIVE = "live"
    CUT = "cut"


class Moment(StrEnum):
    """What the moment beside a position says."""

    COMMITTED = "committed"  # when the source committed it
    READ = "read"  # when it was looked at; what stands there may be much older
    AS_OF = "state as of"  # the moment whose state a cut from the log is


@dataclass(frozen=True, slots=True)
class Receipt:
    """One table (or chunk) that one attempt staged, and what the source's own read view said of it.

    `attempt` counts from 0; the receipt of a later attempt supersedes those of earlier ones.
    """

    table: str
    attempt: int
    staged_as: str
    rows: int
    digest: SegmentDigest | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """The tables of a sync at one position, published under a business date.

    `as_of` is the commit time of `position` in the source. `partial`: some tables of the sync are not in it. `saved_at`
    is filled in by the platform database.
    """

    sync: str
    destination: str
    business_date: date
    version: int
    run_id: str
    position: Position
    as_of: datetime
    tables: tuple[str, ...]
    verdict: Verdict
    partial: bool = False
    saved_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Both sides compared at one position. `mode` says how both came to stand there (barrier, read).

    `evidence` holds what a reader needs to believe it: times, digests, offsets, versions. It is plain JSON. `recorded`:
    of live tables, what the log of acts has of it; None where nobody has looked. A cut has it in its `CutState`.
    """

    run_id: str
    sync: str
    destination: str
    scope: Scope
    business_date: date | None
    position: Position | None
    position_time: datetime | None
    mode: str
    verdict: Verdict
    tables: tuple[TableVerdict, ...]
    started_at: datetime
    ended_at: datetime
    evidence: Json = field(default_factory=dict)
    recorded: Recorded | None = field(default=None, compare=False)

    @property
    def moment(self) -> Moment:
        """What `position_time` is. Of a read nobody knows when the last of it was committed."""
        if self.scope is Scope.LIVE:
            return Moment.COMMITTED
        return Moment.AS_OF if self.mode == LOG else Moment.READ

    @property
    def is_altered(self) -> bool:
        """Whether it is known not to be stored as it was recorded."""
        return bool(self.recorded and self.recorded.faults)

    @property
    def signed_by(self) -> str:
        """Who let this cut be published though it is not clean, and why; "" where nobody signed."""
        return str(self.evidence.get(SIGNED_BY, ""))

    @property
    def is_partial(self) -> bool:
        """Whether some of its tables were left out, and others were not."""
        left_out = [table.verdict is Verdict.NOT_RUN for table in self.tables]
        return any(left_out) and not all(left_out)
