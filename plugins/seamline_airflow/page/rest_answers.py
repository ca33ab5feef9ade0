"""What REST answers: the values of the page, typed. Amounts are texts with all their digits; moments carry a zone."""

from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field

from seamline.domain.cut_state import Headline
from seamline.domain.runs import Scope
from seamline.domain.verdict import BreakType, Verdict
from seamline_airflow.page.rest_stream_answers import Stream
from seamline_airflow.page.rest_values import Amount, Answer


class Problem(Answer):
    """`hint`: how to mend it, where that is known."""

    detail: str
    hint: str = ""


class Destination(Answer):
    name: str
    level: str | None = Field(description="What readers may rely on there.")


class Unreadable(Answer):
    """A sync of which something that is stored cannot be read, so nothing is known of it. `why`: what."""

    sync: str
    why: str


class SyncInList(Answer):
    sync: str
    verdict: str = Field(
        description="The word that the page and `status` have for it; UNREADABLE where something that is stored of it"
        " cannot be read: `state` says what, and the rest is empty."
    )
    state: str
    timezone: str
    destinations: list[Destination]


class Note(Answer):
    word: Headline
    text: str


class Sync(SyncInList):
    streams: list[Stream]
    notes: list[Note]
    alarms: list[str]


class FailedCheck(Answer):
    on: str
    type: str
    why: str
    detail: str
    rows: int | None
    keys: list[str]


class Checks(Answer):
    outcome: Literal["not run", "passed", "failed"]
    checked: int | None
    failed: list[FailedCheck]
    notes: list[str]


class Decision(Answer):
    state: str
    since: str
    approvers: list[str]
    who: str
    reason: str
    at: str
    destinations: list[str]


class Publication(Answer):
    version: int | None
    at: datetime | None
    in_force: int | None
    in_force_is: str | None
    why_not: str


class Failure(Answer):
    task: str
    error: str
    cure: str
    at: datetime | None


class ControlTotal(Answer):
    column: str
    group: list[str]
    source_rows: int
    destination_rows: int
    source_sum: Amount | None
    destination_sum: Amount | None
    difference: Amount | None
    is_equal: bool


class Table(Answer):
    table: str
    verdict: Verdict
    reason: str
    source_rows: int | None
    destination_rows: int | None
    control_totals: list[ControlTotal]
    breaks_total: int


class Recorded(Answer):
    """What the log of acts has of a take or comparison. `faults`: what is stored otherwise; then nobody can rely on the
    verdict."""

    warning: str | None = Field(description="null: all is stored as it was recorded.")
    faults: list[str]
    verdict_hash: str = Field(description="Of the verdict, as its newest entry has it.")


class Comparison(Answer):
    """Of live tables."""

    run: str
    sync: str
    destination: str
    scope: Scope
    level: str | None
    level_achieved: bool | None = Field(
        None, description="Whether this run shows it for all tables of the sync; null: it kept nothing."
    )
    level_not_shown: list[str] = Field([], description="Tables of which nothing was compared.")
    after_cut_of: date | None = None
    verdict: Headline
    recorded: Recorded | None = Field(
        None, description="null where it was not held against the log of acts, as what is a BREAK anyway in a list."
    )
    partial: bool
    position: str | None
    position_time: datetime | None = Field(
        description="Of live tables when the source committed the position; of a cut that was read when it was looked"
        " at, and of one from the log the moment whose state it is."
    )
    mode: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    evidence: dict[str, Any]
    tables: list[Table]


class Cut(Comparison):
    """One take of the cut of a business date in one destination. `verdict` is the worst of its four parts."""

    business_date: date
    compared: Verdict
    checks: Checks
    decision: Decision | None
    publication: Publication
    failure: Failure | None


class Exposure(Answer):
    column: str
    group: list[str]
    unequal: int = Field(description="How many control totals differ.")
    rows: int
    net: Amount | None
    absolute: Amount | None


class Count(Answer):
    table: str
    type: BreakType
    breaks: int


class KindAmount(Answer):
    table: str
    type: BreakType
    column: str
    group: list[str] | None = Field(
        description="null where neither the differing columns nor what stands beside them says it."
    )
    breaks: int
    net: Amount
    gross: Amount


class Found(Answer):
    """What a comparison has found, beside its tables. `not_listed`: by table how many breaks are not listed."""

    exposure: list[Exposure]
    counts: list[Count]
    amounts: list[KindAmount]
    not_listed: dict[str, int]


class Take(Answer):
    cut: Cut
    found: Found | None
    before: str | None = Field(description="The run of the take before it, where that was compared.")
    breaks_new: int | None
    breaks_gone: int | None


class LiveReport(Answer):
    comparison: Comparison
    found: Found


class DateReport(Answer):
    """`takes`: all of the date, the newest first; `shown`: those of one run; `caused`: comparisons of live tables."""

    sync: str
    business_date: date
    timezone: str
    chosen: str
    takes: list[Cut]
    shown: list[Take]
    caused: list[Comparison]


class RunReport(Answer):
    """What one run of Airflow left. `kept`: what stays in force where it has found nothing new to take."""

    cuts: list[Take]
    live: list[LiveReport]
    failures: list[Failure]
    kept: list[str] = []


class Break(Answer):
    id: str
    table: str
    type: BreakType
    key: str
    source: dict[str, str | None] | None = Field(description="null: this side has no such row.")
    destination: dict[str, str | None] | None
    beside: dict[str, str | None] | None = Field(
        None, description="Where an amount or its currency differs the other of both, which both sides have alike."
    )
    first_date: date | None = None
    first_at: datetime | None = None


class Breaks(Answer):
    """Some breaks of one comparison. `next_after`: what to ask for `after`; null behind the last one."""

    sync: str
    run: str
    destination: str
    scope: Scope
    business_date: date | None
    verdict: Headline
    ended_at: datetime
    breaks_total: int
    counts: list[Count]
    breaks: list[Break]
    next_after: str | None


class Sighting(Answer):
    run: str
    destination: str
    scope: Scope
    business_date: date | None
    at: datetime
    found: Break


class Attachment(Answer):
    """One version of a file that a person has attached, without its bytes. `number`: of its entry in the log of acts;
    `size`: bytes."""

    number: int
    name: str
    version: int
    size: int
    sha256: str
    who: str
    at: datetime


class History(Answer):
    """The newest comparisons that have found the break, at most 400, the newest first. `first`, `last` and `dates` are
    of all cuts that have found it. `gone_by`: the newest compared date, where a cut has looked for it and has it no
    more. `files`: by name, the newest version first."""

    id: str
    sightings: list[Sighting]
    files: list[Attachment]
    first: date | None
    last: date | None
    dates: int
    gone_by: date | None


class Cell(Answer):
    business_date: date
    verdict: Headline
    breaks: int
    partial: bool
    waits: bool


class Row(Answer):
    sync: str
    verdict: str
    live_verdict: Headline | None
    cells: list[Cell]


class Waiting(Answer):
    sync: str
    destination: str
    business_date: date
    run: str
    since: str
    approvers: list[str]


class Awaited(Answer):
    """`is_declared`: by the sync's `verdict_by`; else it is due so long after its night begins."""

    sync: str
    business_date: date
    due: datetime
    is_late: bool
    is_declared: bool


class SourceAcknowledged(Answer):
    """`until`: by when it is to be back."""

    who: str
    reason: str
    at: datetime
    until: datetime


class Away(Answer):
    """A source that cannot be read, as an alarm says. `due`: when it is to be back."""

    sync: str
    source: str
    since: datetime
    due: datetime
    why: str
    acknowledged: SourceAcknowledged | None


class Missing(Answer):
    """`word`: a headline of a cut, or EXPECTED, WAITS FOR INPUT, LATE INPUT, UNKNOWN (no calendar knows the day).
    `due`: when its verdict was, or is, to be there. `owners`: whose matter it is while that is late, in words."""

    sync: str
    destination: str
    business_date: date
    word: str
    why: str
    next_step: str
    since: datetime | None
    due: datetime | None
    owners: str
    is_late: bool


class KeptCut(Answer):
    """`rows`: of all its tables, null where its run does not say; `kept`: until when it stays, or why."""

    destination: str
    business_date: date
    version: int
    verdict: Headline
    partial: bool
    mode: str
    rows: int | None
    position: str
    as_of: datetime
    run: str
    kept: str


class Overview(Answer):
    dates: list[date]
    rows: list[Row]
    waiting: list[Waiting]
    awaited: list[Awaited]
    away: list[Away]
    unreadable: list[Unreadable] = Field(
        description="Syncs that are in none of the other lists: what is stored of them cannot be read."
    )


class Head(Answer):
    """The newest entry of the log of acts."""

    number: int
    hash: str


class Deed(Answer):
    """One act, as the log of acts has it. `breaks`: how many it was about."""

    number: int
    at: datetime
    kind: str
    who: str
    origin: str
    run_id: str
    breaks: int
    owner: str
    reason: str
    comment: str


class BreakWork(Answer):
    id: str
    state: str
    since: datetime
    owner: str
    reason: str
    done: list[Deed]


class Done(Answer):
    """`breaks`: how many were changed; `left_alone`: those whose state does not allow it."""

    breaks: int
    left_alone: int


class Tolerance(Answer):
    number: int
    state: str
    destination: str
    table: str
    column: str
    amount: Amount
    why: str
    made_by: str
    made_at: datetime
    last_day: date = Field(description="The last one on which it holds, in the sync's zone.")
    expires_at: datetime = Field(description="The first moment at which it holds no more.")
    approved_by: str
    approved_at: datetime | None
    ended_by: str
    ended_at: datetime | None
    breaks: int
    absorbed: Amount


class DeclaredTolerance(Answer):
    """One that stands in the sync's file and waits for its approver. `hash`: of all that it says, to approve it by."""

    hash: str
    destination: str
    table: str
    column: str
    amount: Amount
    until: date
    why: str
    asked_by: str
    approver: str


class Tolerated(Answer):
    """`breaks`: how many it tolerates at once."""

    breaks: int


class ChangeOfDeclaration(Answer):
    """`number`: of its entry in the log of acts; `step`: `proposed` waits for another person; `diff`: the lines of the
    file that differ."""

    number: int
    change: str
    value: str
    reason: str
    diff: str
    who: str
    at: datetime
    step: str
    ended_by: str
    ended_at: datetime | None


class Signature(Answer):
    act: str
    number: int
    who: str
    reason: str
    verdict: Verdict
    verdict_hash: str
    at: datetime


class LeftOutTransaction(Answer):
    """It lies behind a cut in the log though it says, by `committed`, that it was committed before the cut-off.
    `changes`: of rows."""

    position: str
    committed: str
    changes: int


class SignOff(Answer):
    """Of one version. `waits`: for a signature; `goes_by_bulk`: it may be signed together with other clean ones;
    `goes_by_one_reason`: with others that the log leaves transactions out of.
    `prepared_reason`: why the version was made, "" where nobody has said it.
    `late_in_words`: what came late for it, as its stream has applied it and as a later night has found it;
    `left_out_in_words`: transactions that a cut from the log leaves out, "" where there are none;
    `left_out_transactions`: the same, 100 at most."""

    destination: str
    business_date: date
    version: int
    in_force: int
    run_id: str
    verdict: Verdict
    partial: bool
    verdict_hash: str
    state: str
    waits: bool
    goes_by_bulk: bool
    goes_by_one_reason: bool
    preparer: str
    prepared_at: datetime
    prepared_reason: str
    acts: list[Signature]
    late_in_words: list[str]
    left_out_in_words: str
    left_out_transactions: list[LeftOutTransaction]


class FileOfDate(Attachment):
    """Of one version of the cut in one destination."""

    destination: str
    cut_version: int


class LatePosting(Answer):
    """What one transaction changed in a table's rows of a signed date; of very many, what several did. `rows`: changes;
    `key`: of the first of them; `position`: of the last transaction in the source's log."""

    destination: str
    version: int
    table: str
    key: str
    rows: int
    transactions: int
    position: str
    committed_at: datetime | None


class RestatementStarted(Answer):
    run: str = Field(description="The run of the nightly DAG that takes the date again.")


class Acknowledged(Answer):
    who: str
    reason: str
    at: datetime
