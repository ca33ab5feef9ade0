"""What people do on the page, by REST: the same acts, by the same functions, under the same rights.

A body is JSON; a field that is not known is refused. What is not possible answers 409 and changes nothing.
"""

from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from seamline.domain.audit import FROM_REST
from seamline.domain.break_work import COMMENT_MAX, OWNER_MAX, Doing, Order
from seamline.domain.late_input import Acknowledged
from seamline.domain.ledger import StreamId
from seamline.domain.masking import Hidden
from seamline.domain.repair import Repair, RootCause, counted
from seamline.domain.runs import Scope
from seamline.domain.sign_off import REASON_MAX, SignOff
from seamline.domain.tolerance import WHY_MAX, Tolerance
from seamline.platform.attachments import Holder
from seamline.platform.breaks import Compared
from seamline.platform.signatures import Take
from seamline_airflow import parts
from seamline_airflow.page import acting, acts, late_pages, reading, repair_pages, selection
from seamline_airflow.page import rest_answers as answers
from seamline_airflow.page import rest_repair_answers as repair_answers
from seamline_airflow.page.rest_rights import REFUSED, Signer, SyncName, Worker
from seamline_airflow.page.rest_stream_answers import LoadStarted, StreamWanted
from seamline_airflow.page.sign_pages import TOGETHER_MAX

api = APIRouter(responses=REFUSED)

_NO_NUL = r"^[^\x00]*$"
# PostgreSQL keeps no NUL.
Name = Annotated[str, Field(max_length=1_000, pattern=_NO_NUL)]
Reason = Annotated[str, Field(max_length=REASON_MAX, pattern=_NO_NUL)]
BreakId = Annotated[str, Path(pattern=selection.BREAK_ID)]
Destination = Annotated[str, Path(min_length=1, max_length=128, pattern=_NO_NUL)]
Number = Annotated[int, Path(ge=1, le=999_999_999)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BreakAct(Body):
    """`owner`: whom to assign it to; `reason`: a code of the sync's list, for an explanation."""

    doing: Doing
    owner: Annotated[str, Field(max_length=OWNER_MAX, pattern=_NO_NUL)] = ""
    reason: Annotated[str, Field(max_length=selection.TEXT_MAX, pattern=_NO_NUL)] = ""
    comment: Annotated[str, Field(max_length=COMMENT_MAX)] = ""

    def order(self, user: Any) -> Order:
        return Order(self.doing, acting.name_of(user), self.owner, self.reason, self.comment, FROM_REST)


class Filter(Body):
    """Breaks of one comparison: that of `run` in `destination`."""

    run: Name
    destination: Name
    scope: Scope = Scope.CUT
    table: Name = ""
    kind: Annotated[str, Field(pattern=selection.KIND)] = ""
    text: Annotated[str, Field(max_length=selection.TEXT_MAX, pattern=_NO_NUL)] = ""
    state: Annotated[str, Field(pattern=selection.STATE)] = ""
    of: Annotated[str, Field(max_length=OWNER_MAX, pattern=_NO_NUL, description="Whose they are; -: nobody's.")] = ""


class BreaksAct(Filter, BreakAct):
    """On all breaks of one comparison that the filter lets pass."""


class ToleranceAsked(Body):
    """`column`: one that the sync sums as a control total. `until`: the last day on which it holds."""

    destination: Name
    table: Name
    column: Name
    amount: Annotated[str, Field(max_length=100, examples=["1000.50"])]
    until: date
    why: Annotated[str, Field(max_length=WHY_MAX)]


class Version(Body):
    """One version of the cut of a business date in a destination."""

    business_date: date
    destination: Annotated[str, Field(min_length=1, max_length=128, pattern=_NO_NUL)]
    version: Annotated[int, Field(ge=1, le=999_999_999)]

    def take(self, sync: str) -> Take:
        return Take(sync, self.destination, self.business_date, self.version)


class SeenVersion(Version):
    """`verdict_hash`: of the verdict that the person has seen; another one there refuses the signature."""

    verdict_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class SignatureGiven(SeenVersion):
    reason: Reason = ""


class CleanSigned(Body):
    takes: Annotated[list[SeenVersion], Field(min_length=1, max_length=TOGETHER_MAX)]
    reason: Reason = ""


class LeftOutSigned(Body):
    takes: Annotated[list[SeenVersion], Field(min_length=1, max_length=TOGETHER_MAX)]
    reason: Reason


class Reopened(Version):
    reason: Reason


class LateAcknowledged(Body):
    reason: Reason


class StreamPaused(Body):
    reason: Reason


class LoadAsked(Body):
    reason: Reason


class SourceAcknowledged(Body):
    """`since`: as the overview has it of the source; `until`: by when it is to be back."""

    source: Name
    since: AwareDatetime
    until: AwareDatetime
    reason: Reason


class Restated(Body):
    reason: Reason


class RepairAsked(Body):
    """`compared`: the comparison that has found the rows, the newest where it is left out. `repair`: one that is
    planned already; the run waits for its approval and applies it."""

    destination: Name = ""
    compared: Name = ""
    repair: Name = ""
    reason: Reason


class RepairApproved(Body):
    id: Name
    cause: RootCause
    reason: Reason


# ---- breaks --------------------------------------------------------------------------------------------------------


@api.get("/syncs/{sync}/breaks/{break_id}/work")
def get_work(sync: SyncName, break_id: BreakId) -> answers.BreakWork:
    """In which state a break is, and what was done about it."""
    return _work(sync, break_id)


@api.post("/syncs/{sync}/breaks/{break_id}/acts")
def act_on_break(sync: SyncName, user: Worker, break_id: BreakId, body: BreakAct) -> answers.BreakWork:
    """Assign, hand back, comment, explain, open again or close one break."""
    acts.on_break(sync, break_id, body.order(user))
    return _work(sync, break_id)


@api.post("/syncs/{sync}/breaks/acts")
def act_on_breaks(sync: SyncName, user: Worker, body: BreaksAct) -> answers.Done:
    """The same on all breaks of a filter, as one act; those whose state does not allow it are left alone."""
    wanted = selection.wanted_of(table=body.table, kind=body.kind, text=body.text, state=body.state, of=body.of)
    done = acts.on_all(sync, Compared(body.run, body.destination, body.scope), wanted, body.order(user))
    return answers.Done.model_validate(done)


def _work(sync: str, break_id: str) -> answers.BreakWork:
    with parts.work() as store:
        known, deeds = store.of([break_id]).get(break_id), store.deeds(break_id)
    if known is None or not _is_of(sync, break_id):
        raise HTTPException(status_code=404, detail=f"no comparison of {sync} has found break {break_id}")
    done = [answers.Deed.model_validate(one) for one in deeds]
    return answers.BreakWork(
        id=break_id, state=known.state.value, since=known.since, owner=known.owner, reason=known.reason, done=done
    )


def _is_of(sync: str, break_id: str) -> bool:
    with reading.breaks(sync) as store:
        return bool(store.history(sync, break_id))


# ---- tolerances ----------------------------------------------------------------------------------------------------


@api.get("/syncs/{sync}/tolerances")
def get_tolerances(sync: SyncName) -> list[answers.Tolerance]:
    """All of a sync, the newest first."""
    now = datetime.now(UTC)
    with parts.tolerances() as store, reading.platform() as platform:
        zone = ZoneInfo(platform.timezone(sync))
        return [_tolerance_of(one, now, zone) for one in store.of_sync(sync)]


@api.post("/syncs/{sync}/tolerances", status_code=201)
def ask_tolerance(sync: SyncName, user: Worker, body: ToleranceAsked) -> answers.Tolerance:
    """It tolerates nothing before another person has approved it."""
    place = (body.destination, body.table, body.column)
    by = acts.actor(user, FROM_REST)
    return _tolerance(sync, acts.ask_tolerance(sync, place, amount=body.amount, until=body.until, why=body.why, by=by))


@api.post("/syncs/{sync}/tolerances/{number}/approve")
def approve_tolerance(sync: SyncName, user: Signer, number: Number) -> answers.Tolerance:
    acts.approve_tolerance(sync, number, by=acts.actor(user, FROM_REST))
    return _tolerance(sync, number)


@api.post("/syncs/{sync}/tolerances/{number}/end")
def end_tolerance(sync: SyncName, user: Worker, number: Number) -> answers.Tolerance:
    acts.end_tolerance(sync, number, by=acts.actor(user, FROM_REST))
    return _tolerance(sync, number)


def _tolerance_of(one: Tolerance, now: datetime, zone: ZoneInfo) -> answers.Tolerance:
    return answers.Tolerance(state=one.state_at(now).value, last_day=one.last_day(zone), **asdict(one))


def _tolerance(sync: str, number: int) -> answers.Tolerance:
    return next(one for one in get_tolerances(sync) if one.number == number)


# ---- signatures ----------------------------------------------------------------------------------------------------


@api.get("/syncs/{sync}/signatures")
def get_signatures(sync: SyncName, business_date: date | None = None) -> list[answers.SignOff]:
    """Of every version of a date; without one, of every cut that is kept."""
    with parts.signatures() as store:
        found = store.of_date(sync, business_date) if business_date else store.kept([sync])
    return [_sign_off(one) for one in found]


@api.post("/syncs/{sync}/signatures")
def sign(sync: SyncName, user: Signer, body: SignatureGiven) -> answers.SignOff:
    """One version, as the person has seen it."""
    take = body.take(sync)
    acts.sign(take, verdict_hash=body.verdict_hash, reason=body.reason, by=acts.actor(user, FROM_REST))
    return _of_take(take)


@api.post("/syncs/{sync}/signatures/clean")
def sign_clean(sync: SyncName, user: Signer, body: CleanSigned) -> list[answers.SignOff]:
    """Clean dates together: all of them, or none."""
    takes = {one.take(sync): one.verdict_hash for one in body.takes}
    acts.sign_clean(sync, takes, reason=body.reason, by=acts.actor(user, FROM_REST))
    return [_of_take(take) for take in takes]


@api.post("/syncs/{sync}/signatures/left_out")
def sign_left_out(sync: SyncName, user: Signer, body: LeftOutSigned) -> list[answers.SignOff]:
    """Dates whose cut from the log leaves transactions out and that are clean otherwise, with one reason: all of them,
    or none."""
    takes = {one.take(sync): one.verdict_hash for one in body.takes}
    acts.sign_left_out(sync, takes, reason=body.reason, by=acts.actor(user, FROM_REST))
    return [_of_take(take) for take in takes]


@api.post("/syncs/{sync}/signatures/reopen")
def reopen(sync: SyncName, user: Worker, body: Reopened) -> answers.SignOff:
    """By another person than the one who has signed."""
    take = body.take(sync)
    acts.reopen(take, reason=body.reason, by=acts.actor(user, FROM_REST))
    return _of_take(take)


def _of_take(take: Take) -> answers.SignOff:
    with parts.signatures() as store:
        found = store.of_date(take.sync, take.business_date)
    return next(_sign_off(one) for one in found if (one.destination, one.version) == (take.destination, take.version))


def _sign_off(one: SignOff) -> answers.SignOff:
    return answers.SignOff.model_validate(one)


@api.get("/syncs/{sync}/dates/{business_date}/files")
def get_files(sync: SyncName, business_date: date) -> list[answers.FileOfDate]:
    """What was attached to versions of the date; the bytes are to be had on the page."""
    with parts.signatures() as store:
        takes = store.of_date(sync, business_date)
    with parts.attachments() as files:
        return [
            answers.FileOfDate(destination=one.destination, cut_version=one.version, **asdict(file))
            for one in takes
            for file in files.files(Holder(sync, run_id=one.run_id, destination=one.destination))
        ]


@api.get("/syncs/{sync}/dates/{business_date}/late_postings")
def get_late_postings(sync: SyncName, business_date: date) -> list[answers.LatePosting]:
    """What streams have applied against signed versions of the date, the newest first; 1,000 of each at most. Keys with
    sensitive columns are masked."""
    with parts.signatures() as store:
        found = store.of_date(sync, business_date)
    return [
        answers.LatePosting(destination=one.destination, version=one.version, **asdict(posting))
        for one in found
        for posting in late_pages.postings_of(one, limit=1_000)
    ]


@api.post("/syncs/{sync}/dates/{business_date}/restate", status_code=202)
def restate(sync: SyncName, user: Worker, business_date: date, body: Restated) -> answers.RestatementStarted:
    """A run of the DAG `<sync>__nightly` takes a signed date again. What was signed stays; the new version waits for a
    signature of another person than who has asked for it."""
    acting.require_cutter(user, sync)
    made = acts.restate(sync, business_date, reason=body.reason, by=acts.actor(user, FROM_REST))
    return answers.RestatementStarted(run=made)


@api.post("/syncs/{sync}/dates/{business_date}/acknowledge")
def acknowledge(sync: SyncName, user: Worker, business_date: date, body: LateAcknowledged) -> answers.Acknowledged:
    """That its verdict is late; it stays late until it is there."""
    acts.acknowledge(sync, business_date, reason=body.reason, by=acts.actor(user, FROM_REST))
    with parts.late_inputs() as store:
        known: Acknowledged = store.acknowledged([sync], [business_date])[sync, business_date]
    return answers.Acknowledged.model_validate(known)


@api.post("/syncs/{sync}/sources/acknowledge")
def acknowledge_source(sync: SyncName, user: Worker, body: SourceAcknowledged) -> answers.SourceAcknowledged:
    """That a source is away, and by when it is to be back; it is late then."""
    by = acts.actor(user, FROM_REST)
    acts.acknowledge_source(sync, body.source, body.since, until=body.until, reason=body.reason, by=by)
    with parts.late_inputs() as store:
        known: Acknowledged = store.acknowledged_sources([sync])[sync, body.source, body.since]
    return answers.SourceAcknowledged.model_validate(known)


# ---- streams -------------------------------------------------------------------------------------------------------


@api.post("/syncs/{sync}/streams/{destination}/pause")
def pause_stream(sync: SyncName, user: Worker, destination: Destination, body: StreamPaused) -> StreamWanted:
    """It stands still at its next whole transaction, until it is let go."""
    stream = StreamId(sync, destination)
    acts.pause_stream(stream, reason=body.reason, by=acts.actor(user, FROM_REST))
    return _wanted(stream)


@api.post("/syncs/{sync}/streams/{destination}/resume")
def resume_stream(sync: SyncName, user: Worker, destination: Destination) -> StreamWanted:
    stream = StreamId(sync, destination)
    acts.resume_stream(stream, by=acts.actor(user, FROM_REST))
    return _wanted(stream)


@api.post("/syncs/{sync}/streams/{destination}/restart")
def restart_stream(sync: SyncName, user: Worker, destination: Destination) -> StreamWanted:
    """A stream that has ended is wanted again, once what ended it is mended; its `why` says what that is."""
    stream = StreamId(sync, destination)
    acts.restart_stream(stream, by=acts.actor(user, FROM_REST))
    return _wanted(stream)


@api.post("/syncs/{sync}/streams/{destination}/load", status_code=202)
def load_again(sync: SyncName, user: Worker, destination: Destination, body: LoadAsked) -> LoadStarted:
    """A run of the DAG `<sync>__onboard` reads all tables of the sync into this destination again."""
    acting.require_loader(user, sync)
    run = acts.load_again(StreamId(sync, destination), reason=body.reason, by=acts.actor(user, FROM_REST))
    return LoadStarted(run=run)


def _wanted(stream: StreamId) -> StreamWanted:
    with parts.director() as director:
        found = next((one for one in director.wanted_of(stream.sync) if one.stream == stream), None)
    if found is None:
        raise HTTPException(status_code=404, detail=f"nobody wants the stream {stream} any more")
    return StreamWanted(
        stream=str(stream),
        paused=found.paused,
        paused_by=found.paused_by,
        paused_at=found.paused_at,
        reason=found.pause_reason,
    )


# ---- repairs -------------------------------------------------------------------------------------------------------


@api.get("/syncs/{sync}/repairs")
def get_repairs(sync: SyncName) -> list[repair_answers.Repair]:
    """All of a sync, the newest first, without their rows."""
    with parts.repairs() as store:
        return [repair_answers.Repair.model_validate(one) for one in store.of_sync(sync)]


@api.get("/syncs/{sync}/repair")
def get_repair(sync: SyncName, id: Annotated[str, Query(max_length=1_000)]) -> repair_answers.RepairPlan:
    """One of them with its first rows, both values of each; values of sensitive columns are masked."""
    return repair_plan(acts.repair_of(sync, id))


@api.post("/syncs/{sync}/repairs", status_code=202)
def start_repair(sync: SyncName, user: Worker, body: RepairAsked) -> repair_answers.RepairStarted:
    """A run of the DAG `<sync>__repair` plans it; its plan is there once the run has made it."""
    acting.require_repairer(user, sync)
    made = acts.start_repair(
        sync,
        destination=body.destination,
        compared=body.compared,
        named=body.repair,
        reason=body.reason,
        by=acts.actor(user, FROM_REST),
    )
    return repair_answers.RepairStarted(id=made)


@api.post("/syncs/{sync}/repair/approve")
def approve_repair(sync: SyncName, user: Signer, body: RepairApproved) -> repair_answers.RepairPlan:
    """By another person than the one who has planned it; its DAG then applies it."""
    by = acts.actor(user, FROM_REST)
    acts.approve_repair(acts.repair_of(sync, body.id), cause=body.cause, reason=body.reason, by=by)
    return repair_plan(acts.repair_of(sync, body.id))


def repair_plan(found: Repair, hidden: Hidden | None = None) -> repair_answers.RepairPlan:
    """`hidden`: what of its rows is masked; None: what the sync declares."""
    rows = repair_pages.shown_rows(found, reading.hidden(found.sync) if hidden is None else hidden)
    return repair_answers.RepairPlan(
        **repair_answers.Repair.model_validate(found).model_dump(),
        hash=found.hash,
        why=found.why,
        refused=dict(found.refused),
        counts=counted(found.rows),
        rows_total=len(found.rows),
        rows=[repair_answers.RepairRow.model_validate(one.row) for one in rows],
    )
