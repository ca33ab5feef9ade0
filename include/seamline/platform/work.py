"""PlatformWork: the state of breaks and the acts of people on them, one or all that a filter lets pass.

An act is one transaction with its entry in the log of acts. Whatever it is about is changed by one statement: a filter
may let a million breaks pass.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import dict_row

from seamline.domain.audit import Act, Subject
from seamline.domain.break_age import Aged
from seamline.domain.break_work import Doing, Order, Work, WorkState, work_document
from seamline.domain.errors import Refused
from seamline.domain.verdict import Break
from seamline.platform import ageing, audit, rows
from seamline.platform.breaks import Compared, Money, Wanted, chosen, number_of
from seamline.platform.database import Database, Session
from seamline.platform.work_settled import VALUES

ACTS_SHOWN = 200
# An act on many breaks may take longer than a question.
ACT_TIMEOUT_S = 120.0

# As the newest comparison with the break has it.
_NEWEST = f"""
select b.reconciliation_id, {VALUES} as differing from break b join reconciliation r using (reconciliation_id)
where b.break_id = w.break_id and r.sync = w.sync order by r.ended_at desc, b.table_ordinal, b.ordinal limit 1
"""
_CHANGE = f"""
update break_work w set
    state = coalesce(%(after)s::text, state),
    since = case when coalesce(%(after)s, state) <> state then clock_timestamp() else since end,
    owner = coalesce(%(new_owner)s::text, owner),
    reason = case when %(after)s = 'open' then '' else coalesce(nullif(%(reason)s::text, ''), reason) end,
    tolerance_id = case when %(after)s in ('open', 'explained') then null else tolerance_id end,
    absorbed = case when %(after)s in ('open', 'explained') then null else absorbed end,
    explained_values = case when %(after)s = 'explained' then coalesce((select differing from ({_NEWEST}) newest), '')
        else explained_values end
where sync = %(sync)s and {{which}}
    and (select state from break_now n where n.break_id = w.break_id) = any(%(before)s)
returning break_id
"""
# An act on all breaks of a comparison is about what the person has seen there, and touches no signed take.
_AS_SEEN = f"""
(%(after)s::text is distinct from 'explained' or exists (select from ({_NEWEST}) newest
    where reconciliation_id = %(number)s or differing in (select {VALUES} from break b
        where (b.break_id, b.reconciliation_id) = (w.break_id, %(number)s))))
"""
_SIGNED = """
select distinct in_cut, seamline.signer_of(in_cut, destination) as signer
from (select distinct in_cut, destination from break_work w where in_cut <> '' and {which}) stands
where seamline.signer_of(in_cut, destination) is not null
"""


# So many of the oldest breaks are judged by amount and age for one page, and for mails, for which nobody waits.
WAITING_MAX, WAITING_FOR_MAILS_MAX = 500, 20_000
# As the index has it.
_OWNED = "o.owner = %(owner)s and o.owner <> ''"
_WAITING = """
select w.*, b.key, b.source_values, b.destination_values, b.witness, b.beside from (
    select n.* from break_work o join break_now n using (break_id)
    where o.state <> 'closed' and n.state = 'open' and o.sync = any(%(syncs)s) and {whose}
        and (o.in_cut <> '' or o.in_live <> '')
    order by o.first_at, break_id limit %(limit)s
) w
join reconciliation r on (r.run_id, r.destination, r.scope) = (coalesce(nullif(w.in_cut, ''), w.in_live),
    w.destination, case when w.in_cut <> '' then 'cut' else 'live' end)
join lateral (
    select * from break where (break.break_id, break.reconciliation_id) = (w.break_id, r.reconciliation_id)
    order by table_ordinal, ordinal limit 1
) b on true
order by w.first_at, w.break_id
"""


@dataclass(frozen=True, slots=True)
class Done:
    """`breaks`: how many were changed; `left_alone`: those that were chosen, in a state that does not allow it."""

    breaks: int
    left_alone: int = 0


@dataclass(frozen=True, slots=True)
class Deed:
    """An entry of the log of acts, as the history of a break shows it. `breaks`: how many it is about; `run_id`: of the
    comparison beside which it was done."""

    number: int
    at: datetime
    kind: str
    who: str
    origin: str
    run_id: str
    breaks: int
    owner: str = ""
    reason: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Mine:
    """Breaks of one table that are assigned to a person."""

    sync: str
    destination: str
    table: str
    breaks: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """An open break that stands, with its newest values."""

    work: Work
    sync: str
    destination: str
    found: Break


class PlatformWork:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def of(self, breaks: Sequence[str]) -> Mapping[str, Work]:
        """What is known of each of these breaks, by identity."""

        def work(session: Session) -> Mapping[str, Work]:
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute("select * from break_now where break_id = any(%s)", (list(breaks),))
            return {row["break_id"]: _work_of(row) for row in cursor}

        return self._database.transact(work)

    def states(self, compared: Compared) -> Mapping[WorkState, int]:
        """How many of the listed breaks of a comparison are in which state now."""

        def work(session: Session) -> Mapping[WorkState, int]:
            cursor = session.execute(
                "select w.state, count(*) from break b join break_now w using (break_id)"
                " where b.reconciliation_id = %s group by w.state",
                (number_of(session, compared),),
            )
            found: dict[str, int] = dict(cursor.fetchall())
            return {state: found[state] for state in WorkState if state in found}

        return self._database.transact(work)

    def owners(self, compared: Compared) -> tuple[str, ...]:
        """Whose breaks of this comparison are, by name."""

        def work(session: Session) -> tuple[str, ...]:
            cursor = session.execute(
                "select distinct w.owner from break b join break_work w using (break_id)"
                " where b.reconciliation_id = %s and w.owner <> '' order by w.owner",
                (number_of(session, compared),),
            )
            return tuple(owner for (owner,) in cursor)

        return self._database.transact(work)

    def ageing(self, compared: Compared, money: Sequence[Money], bounds: Sequence[int]) -> tuple[Aged, ...]:
        """The breaks of a comparison, and of a cut those that it carries forward, by bands of age."""
        return self._database.transact(lambda session: ageing.of_comparison(session, compared, money, bounds))

    def deeds(self, break_id: str) -> tuple[Deed, ...]:
        """What was done about a break, the newest first."""

        def work(session: Session) -> tuple[Deed, ...]:
            cursor = session.execute(
                "select e.number, e.at, e.kind, e.who, e.origin, e.run_id, e.document from break_act a"
                " join audit_entry e using (number) where a.break_id = %s order by number desc limit %s",
                (break_id, ACTS_SHOWN),
            )
            return tuple(_deed_of(*row) for row in cursor)

        return self._database.transact(work)

    def mine(self, who: str, syncs: Sequence[str]) -> tuple[Mine, ...]:
        """What is assigned to a person and open, the oldest first."""

        def work(session: Session) -> tuple[Mine, ...]:
            cursor = session.execute(
                "select o.sync, o.destination, o.table_name, count(*), min(o.first_at)"
                " from break_work o join break_now n using (break_id)"
                f" where o.state <> 'closed' and n.state = 'open' and o.sync = any(%(syncs)s) and {_OWNED}"
                " group by o.sync, o.destination, o.table_name order by min(o.first_at)",
                {"owner": who, "syncs": list(syncs)},
            )
            return tuple(Mine(*row) for row in cursor)

        return self._database.transact(work)

    def waiting(self, syncs: Sequence[str], *, owner: str = "", most: int = WAITING_MAX) -> tuple[Waiting, ...]:
        """Open breaks as they were found last, the oldest first, at most `most`; with `owner` that person's alone."""

        def work(session: Session) -> tuple[Waiting, ...]:
            cursor = session.cursor(row_factory=dict_row)
            statement = _WAITING.format(whose=_OWNED if owner else "true")
            cursor.execute(statement.encode(), {"syncs": list(syncs), "owner": owner, "limit": most})
            return tuple(Waiting(_work_of(row), row["sync"], row["destination"], rows.break_of(row)) for row in cursor)

        return self._database.transact(work)

    # ---- acts ------------------------------------------------------------------------------------------------------

    def act(self, sync: str, break_id: str, order: Order) -> Done:
        """On one break. Refused where its state does not allow it. `order` was checked before."""

        def work(session: Session) -> Done:
            row = session.execute(
                "select destination, cut_date, coalesce(nullif(in_cut, ''), in_live), in_cut, state"
                " from break_work w where break_id = %s and sync = %s for update",
                (break_id, sync),
            ).fetchone()
            if row is None:
                raise Refused(f"sync {sync} has no break {break_id}")
            destination, day, run_id, in_cut, state = row
            changed = _changed(session, sync, order, "break_id = %(break_id)s", {"break_id": break_id})
            if not changed:
                raise Refused(f"{order.doing.value}: not possible while the break is {state}", hint=_way(order))
            subject = Subject(sync, destination, day if in_cut else None, run_id, "cut" if in_cut else "live")
            _enter(session, subject, order, changed, "")
            return Done(len(changed))

        return self._database.transact(work)

    def act_on_all(self, sync: str, compared: Compared, wanted: Wanted, order: Order) -> Done:
        """On all breaks of a comparison that the filter lets pass, on whichever page. Left alone are those whose state
        does not allow it, those that stand in a signed take, and to be explained those that have other values by now.
        Refused where none is changed."""

        def work(session: Session) -> Done:
            number = number_of(session, compared)
            session.execute(f"set local statement_timeout = {int(ACT_TIMEOUT_S * 1000)}".encode())
            condition, arguments = chosen(session, number, wanted)
            which = f"break_id in (select break_id from break where {condition})"
            row = session.execute(
                f"select count(distinct break_id) from break where {condition}".encode(), arguments
            ).fetchone()
            signed = _signed(session, which, arguments)
            open_ones = f"{which} and {_AS_SEEN} and w.in_cut <> all(%(signed)s)"
            changed = _changed(session, sync, order, open_ones, {**arguments, "signed": list(signed)})
            total = int(row[0]) if row else 0
            if not changed:
                by = "".join(f"; run {run} is signed by {who}" for run, who in signed.items())
                raise Refused(
                    f"{order.doing.value}: none of {total:,} breaks is in a state for it{by}", hint=_way(order)
                )
            day = session.execute(
                "select business_date from reconciliation where reconciliation_id = %s", (number,)
            ).fetchone()
            subject = Subject(sync, compared.destination, day[0] if day else None, compared.run_id, compared.scope)
            _enter(session, subject, order, changed, filter_in_words(wanted))
            # Behind the lock of the log: a signature of meanwhile is seen here.
            for run, who in _signed(session, "break_id = any(%(changed)s)", {"changed": changed}).items():
                raise Refused(f"run {run} is signed by {who}: re-open it first")
            return Done(len(changed), total - len(changed))

        return self._database.transact(work)


def filter_in_words(wanted: Wanted) -> str:
    """What of a filter chooses, as JSON; order and page do not."""
    chosen_by = {"table": wanted.table or None, "type": wanted.type, "text": wanted.text or None, "state": wanted.state}
    named = {key: value for key, value in {**chosen_by, "owner": wanted.owner}.items() if value is not None}
    return json.dumps(named, ensure_ascii=False)


def _changed(session: Session, sync: str, order: Order, which: str, arguments: Mapping[str, Any]) -> list[str]:
    values = {
        **arguments,
        "sync": sync,
        "before": [state.value for state in order.before],
        "after": order.after and order.after.value,
        # The filter has an `owner` and a `state` of its own.
        "new_owner": order.owner if order.doing in (Doing.ASSIGN, Doing.HAND_BACK) else None,
        "reason": order.reason,
    }
    statement = _CHANGE.format(which=which)
    return [name for (name,) in session.execute(statement.encode(), values)]


def _signed(session: Session, which: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The signed takes in which some of these breaks stand, each with who has signed."""
    return dict(session.execute(_SIGNED.format(which=which).encode(), arguments).fetchall())


def _enter(session: Session, subject: Subject, order: Order, breaks: Sequence[str], about: str) -> None:
    act = Act(order.kind, subject, work_document(order, breaks, about=about), order.who, order.origin)
    audit.append_about(session, act, breaks)


def _way(order: Order) -> str:
    states = " or ".join(order.before)
    return f"it is done with breaks that are {states}" + ("; explain it first" if order.doing is Doing.CLOSE else "")


def _work_of(row: Mapping[str, Any]) -> Work:
    return Work(
        break_id=row["break_id"],
        state=WorkState(row["state"]),
        since=row["since"],
        first_at=row["first_at"],
        owner=row["owner"],
        reason=row["reason"],
        first_date=row["first_date"],
        tolerance=row["tolerance_id"] if row["state"] == WorkState.TOLERATED else None,
        absorbed=row["absorbed"] if row["state"] == WorkState.TOLERATED else None,
        in_cut=row["in_cut"],
        in_live=row["in_live"],
    )


def _deed_of(number: int, at: datetime, kind: str, who: str, origin: str, run_id: str, document: str) -> Deed:
    said = json.loads(document)
    texts = {name: str(said.get(name, "")) for name in ("owner", "reason", "comment")}
    if "file" in said:
        texts["comment"] = f"{said['file']}, version {said['version']}"
    return Deed(number, at, kind, who, origin, run_id, int(said.get("breaks", 1)), **texts)
