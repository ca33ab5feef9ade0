"""PlatformSignatures: signatures under published cuts, each stored with its entry in the log of acts.

Every method is one short transaction and may be repeated with the same arguments: what a person has signed is not
signed again by the same order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from psycopg.rows import dict_row

from seamline.domain import audit
from seamline.domain.audit import FROM_PAGE, Act, Kind, Subject
from seamline.domain.date_before import SinceCut
from seamline.domain.errors import Refused
from seamline.domain.made_from import left_out_of
from seamline.domain.runs import RunState, Scope
from seamline.domain.sign_off import KIND_OF, SignAct, Signature, SignOff, SignOrder, SignState
from seamline.domain.verdict import Verdict
from seamline.platform import audit as log
from seamline.platform import audit_check, checks, late_postings, reconciliations, rows
from seamline.platform.database import Database, Session

# Cuts that are kept, and what was signed of others: a signature outlives its cut.
_TAKES = """
with take as (
    select sync, destination, business_date, version, run_id, verdict, partial, saved_at, true as is_kept from cut
    where sync = any(%(syncs)s) and (%(day)s::date is null or business_date = %(day)s)
    union all (
        select distinct on (sync, destination, business_date, version)
            sync, destination, business_date, version, run_id, verdict, false, at, false from sign_off
        where sync = any(%(syncs)s) and business_date >= coalesce(%(day)s::date, %(since)s)
            and (%(day)s::date is null or business_date = %(day)s) and not exists (
                select from cut where (cut.sync, cut.destination, cut.business_date, cut.version)
                = (sign_off.sync, sign_off.destination, sign_off.business_date, sign_off.version)
            )
        order by sync, destination, business_date, version, number desc
    )
)
select take.*, max(version) over (partition by sync, destination, business_date) as in_force,
    coalesce((select nullif(person(result->>'asked_by'), '')
        from run where run.run_id = take.run_id), %(scheduler)s) as preparer,
    coalesce((select result->>'reason' from run where run.run_id = take.run_id), '') as prepared_reason,
    coalesce((select document::json->>'hash' from audit_entry entry where entry.run_id = take.run_id
        and entry.destination = take.destination and entry.scope = 'cut' and entry.kind = any(%(kinds)s)
        order by number desc limit 1), '') as verdict_hash,
    coalesce((select document::json->'expectations'->>'verdict' from audit_entry entry
        where entry.run_id = take.run_id and entry.destination = take.destination and entry.scope = 'cut'
        and entry.kind = any(%(kinds)s) order by number desc limit 1), '') as checks,
    (select evidence->'by_log' from reconciliation found where found.run_id = take.run_id
        and found.destination = take.destination and found.scope = 'cut' order by ended_at desc limit 1) as by_log,
    (select later.state from run later, run own where own.run_id = take.run_id and later.kind = 'nightly'
        and (later.sync, later.business_date) = (take.sync, take.business_date)
        and not coalesce(later.result->'kept' ? take.destination, false)
        and later.started_at > own.started_at order by later.started_at desc limit 1) as later
from take order by sync, business_date desc, destination, version desc
"""
_ACTS = """
select * from sign_off where sync = any(%(syncs)s) and business_date = any(%(days)s) order by version, run_id, number
"""
# What a later night has found last of a date; where it could not look, an earlier answer stands.
_LATE = """
select distinct on (found.sync, destination, one->>'business_date', one->>'table')
    found.sync, destination, (one->>'business_date')::date as business_date, one
from reconciliation found, jsonb_array_elements(evidence->'date_before') one
where found.sync = any(%(syncs)s) and scope = 'cut' and found.business_date > %(first)s
    and (%(day)s::date is null or found.business_date <= %(day)s::date + %(nights)s)
    and evidence ? 'date_before' and one->>'business_date' = any(%(texts)s) and one->>'unknown' = ''
order by found.sync, destination, one->>'business_date', one->>'table', ended_at desc
"""
# So many days behind a date a night may still have looked back at it: no bank is closed for longer.
_NIGHTS = 60
_ADD = """
insert into sign_off (run_id, destination, sync, business_date, version, act, who, reason, verdict, verdict_hash)
values (%(run_id)s, %(destination)s, %(sync)s, %(business_date)s, %(version)s, %(act)s, %(who)s, %(reason)s,
    %(verdict)s, %(verdict_hash)s)
returning *
"""


@dataclass(frozen=True, slots=True, order=True)
class Take:
    """Which published cut an act is about."""

    sync: str
    destination: str
    business_date: date
    version: int

    def __str__(self) -> str:
        return f"version {self.version} of {self.business_date} of {self.sync} in {self.destination}"


class PlatformSignatures:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def of_date(self, sync: str, day: date) -> tuple[SignOff, ...]:
        """Of every version of the date, in each destination; the newest version first."""
        return self._database.transact(lambda session: read(session, [sync], day=day))

    def kept(self, syncs: Sequence[str], *, since: date = date.max) -> tuple[SignOff, ...]:
        """Of every cut of these syncs that is kept, and of what was signed of business dates from `since` on though its
        cut has expired; the newest date first."""
        return self._database.transact(lambda session: read(session, list(syncs), since=since))

    def sign(self, take: Take, order: SignOrder) -> None:
        """Refused: `SignOff.check_signing` says when; and where the stored verdict is not what the log of acts has."""
        self._database.transact(lambda session: _sign(session, take, order))

    def sign_clean(self, takes: Mapping[Take, str], order: SignOrder) -> None:
        """Sign all of these in one transaction, each with its own entry. `takes`: by the hash of the verdict that the
        person has seen; that of `order` does not count. Refused, all of them: one of them is not clean."""
        self._sign_together(takes, order, SignOff.check_bulk)

    def sign_left_out(self, takes: Mapping[Take, str], order: SignOrder) -> None:
        """The same for dates that are clean but for transactions that the log leaves out of them, by one reason."""
        self._sign_together(takes, order, SignOff.check_one_reason)

    def _sign_together(self, takes: Mapping[Take, str], order: SignOrder, require: Callable[[SignOff], None]) -> None:
        def work(session: Session) -> None:
            # The log of acts makes other writers wait from its first entry on, so that all are checked before.
            found = {take: _locked(session, take) for take in sorted(takes)}
            wanted = {take: replace(order, verdict_hash=seen) for take, seen in takes.items()}
            todo = {take: one for take, one in found.items() if not _is_repeat(one, wanted[take])}
            for take, one in todo.items():
                require(one)
                one.check_signing(wanted[take])
            _verified(session, list(todo.values()))
            for one in todo.values():
                _add(session, one, SignAct.SIGNED, order.who, order.reason, order.origin)

        self._database.transact(work)

    def reopen(self, take: Take, *, who: str, reason: str, origin: str = FROM_PAGE) -> None:
        """Refused: `SignOff.check_reopening` says when."""

        def work(session: Session) -> None:
            found = _locked(session, take)
            newest = found.acts[-1] if found.acts else None
            if newest and (newest.act, newest.who, newest.reason) == (SignAct.REOPENED, who, reason):
                return
            found.check_reopening(who=who, reason=reason)
            _add(session, found, SignAct.REOPENED, who, reason, origin)

        self._database.transact(work)

    def is_restatable(self, sync: str, day: date) -> bool:
        """Whether a person has signed a version of the date that readers see."""
        return any(one.may_be_restated for one in self.of_date(sync, day))

    def require_restatable(self, sync: str, day: date, reason: str) -> None:
        """Refused: no version of the date that readers see is signed, or there is no reason to take it again."""
        if not self.is_restatable(sync, day):
            raise Refused(
                f"no version of {day} that readers see is signed, so there is nothing to restate",
                hint=f"start the DAG {sync}__nightly for that date",
            )
        if not reason:
            raise Refused("a restatement needs a reason", hint="say in words why the date is taken again")

    def enter_restatement(
        self, sync: str, day: date, *, who: str, reason: str, run: str, origin: str = FROM_PAGE
    ) -> None:
        """That the date is taken again by this run of the nightly DAG: an entry for each signed version in force."""

        def work(session: Session) -> None:
            for one in read(session, [sync], day=day):
                if one.may_be_restated:
                    subject = Subject(sync, one.destination, day, one.run_id, Scope.CUT.value)
                    document = {"version": one.version, "reason": reason, "run": run}
                    log.append(session, Act(Kind.RESTATEMENT_ASKED, subject, document, who, origin))

        self._database.transact(work)


def read(
    session: Session, syncs: Sequence[str], *, day: date | None = None, since: date = date.max
) -> tuple[SignOff, ...]:
    """As the methods above say, inside of a transaction."""
    cursor = session.cursor(row_factory=dict_row)
    arguments = {
        "syncs": list(syncs),
        "day": day,
        "since": since,
        "scheduler": audit.SCHEDULER,
        "kinds": [kind.value for kind in audit.ABOUT_VERDICTS],
    }
    takes = cursor.execute(_TAKES, arguments).fetchall()
    days = list({row["business_date"] for row in takes})
    looked = {
        **arguments,
        "first": min(days, default=date.max),
        "texts": [one.isoformat() for one in days],
        "nights": _NIGHTS,
    }
    late: dict[tuple[Any, ...], list[SinceCut]] = {}
    for row in cursor.execute(_LATE, looked).fetchall():
        late.setdefault(_date_of(row), []).append(SinceCut(**row["one"]))
    acts = [(_date_of(row), row) for row in cursor.execute(_ACTS, {"syncs": list(syncs), "days": days})]
    of_dates: dict[tuple[Any, ...], list[Signature]] = {}
    for place, row in acts:
        of_dates.setdefault(place, []).append(_signature_of(row))
    watches = late_postings.summed(session, [row["run_id"] for row in takes])
    found = [_sign_off(row, of_dates.get(_date_of(row), []), late.get(_date_of(row), [])) for row in takes]
    return tuple(replace(one, watch=watches.get((one.run_id, one.destination))) for one in found)


def _date_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["sync"], row["destination"], row["business_date"]


def _sign_off(row: Mapping[str, Any], acts: Sequence[Signature], late: Sequence[SinceCut]) -> SignOff:
    """`acts`: of all versions of the date, by version and number; `late`: of whichever version."""
    version = row["version"]
    newest = {one.version: one for one in acts if one.version < version}
    standing = [one for one in newest.values() if one.act is SignAct.SIGNED]
    return SignOff(
        sync=row["sync"],
        destination=row["destination"],
        business_date=row["business_date"],
        version=version,
        in_force=row["in_force"],
        run_id=row["run_id"],
        verdict=Verdict(row["verdict"]),
        partial=row["partial"],
        verdict_hash=row["verdict_hash"],
        checks=row["checks"],
        preparer=row["preparer"],
        prepared_reason=row["prepared_reason"],
        prepared_at=row["saved_at"],
        acts=tuple(one for one in acts if one.version == version),
        earlier=standing[-1] if standing else None,
        is_kept=row["is_kept"],
        later=RunState(row["later"]) if row["later"] else None,
        left_out=left_out_of(row["by_log"]),
        late=tuple(one for one in late if one.version == version and not one.is_same),
    )


def _signature_of(row: Mapping[str, Any]) -> Signature:
    return Signature(
        act=SignAct(row["act"]),
        number=row["number"],
        version=row["version"],
        who=row["who"],
        reason=row["reason"],
        verdict=Verdict(row["verdict"]),
        verdict_hash=row["verdict_hash"],
        at=row["at"],
    )


# ---- acts ----------------------------------------------------------------------------------------------------------


def _sign(session: Session, take: Take, order: SignOrder) -> None:
    found = _locked(session, take)
    if _is_repeat(found, order):
        return
    found.check_signing(order)
    _verified(session, [found])
    _add(session, found, SignAct.SIGNED, order.who, order.reason, order.origin)


def _is_repeat(found: SignOff, order: SignOrder) -> bool:
    standing = found.acts[-1] if found.state is SignState.SIGNED else None
    if standing is None:
        return False
    done = (standing.who, standing.reason, standing.verdict_hash)
    return done == (order.who, order.reason, order.verdict_hash)


def _locked(session: Session, take: Take) -> SignOff:
    """Nobody else signs or re-opens it, or compares it again, before this transaction ends."""
    row = session.execute(
        "select run_id from cut where sync = %s and destination = %s and business_date = %s and version = %s"
        " for update",
        (take.sync, take.destination, take.business_date, take.version),
    ).fetchone()
    if row is None:
        raise Refused(f"{take} is not published, or has expired", hint="load the page of this date again")
    session.execute(
        "select from reconciliation where run_id = %s and destination = %s and scope = 'cut' for update",
        (row[0], take.destination),
    )
    found = read(session, [take.sync], day=take.business_date)
    return next(one for one in found if (one.destination, one.version) == (take.destination, take.version))


def _verified(session: Session, takes: Sequence[SignOff]) -> None:
    """Nobody signs for what was changed behind the log of acts: by the checks that make a report ALTERED."""
    for found in takes:
        _verified_verdict(session, found)
    recorded = audit_check.recorded_of(session, [one.run_id for one in takes])
    for found in takes:
        take = recorded.of(found.run_id, found.destination)
        if take and take.faults:
            raise Refused(
                f"nobody signs for {found.business_date} in {found.destination}: {take.faults[0]}",
                hint=f"`./seamline audit verify --sync {found.sync}` looks at the whole log",
            )


def _verified_verdict(session: Session, found: SignOff) -> None:
    stored = reconciliations.read(
        session, "run_id = %s and destination = %s and scope = 'cut'", (found.run_id, found.destination)
    )
    if not stored:
        raise Refused(
            f"the stored verdict of {found.business_date} in {found.destination} is gone",
            hint=f"`./seamline audit verify --sync {found.sync}` names what is missing",
        )
    for one in stored:
        checks.require_as_entered(session, one)
        checks.require_as_checked(session, one)


def _add(session: Session, found: SignOff, act: SignAct, who: str, reason: str, origin: str) -> None:
    row = (
        session.cursor(row_factory=dict_row)
        .execute(
            _ADD,
            {
                "run_id": found.run_id,
                "destination": found.destination,
                "sync": found.sync,
                "business_date": found.business_date,
                "version": found.version,
                "act": act.value,
                "who": who,
                "reason": reason,
                "verdict": found.verdict.value,
                "verdict_hash": found.verdict_hash,
            },
        )
        .fetchone()
    )
    assert row is not None
    subject = Subject(found.sync, found.destination, found.business_date, found.run_id, Scope.CUT.value)
    log.append(session, Act(KIND_OF[act], subject, rows.signature_document(row), who, origin))
