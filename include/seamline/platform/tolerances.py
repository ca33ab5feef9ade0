"""PlatformTolerances: asked for by one person, approved by another, and ended; each act in one transaction with its
entry in the log of acts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from psycopg.rows import dict_row

from seamline.domain.audit import FROM_PAGE, FROM_RUN, Act, Kind, Subject
from seamline.domain.break_work import WorkState, breaks_document
from seamline.domain.errors import Refused
from seamline.domain.tolerance import Absorbed, Asked, DeclaredTolerance, Tolerance
from seamline.plan.document import plan_from_json
from seamline.platform import audit, tolerated
from seamline.platform.breaks import Compared, number_of
from seamline.platform.database import Database, Session

SHOWN_MAX = 500
# Who ends what is declared no more.
DECLARATION = "declaration"

_READ = """
select t.*, count(w.break_id) as breaks, coalesce(sum(w.absorbed), 0) as absorbed
from tolerance t left join break_work w using (tolerance_id) where {which} group by t.tolerance_id
order by t.tolerance_id desc limit %(limit)s
"""
_IN_FORCE = (
    "t.sync = %(sync)s and t.approved_by is not null and t.ended_by is null and t.expires_at > statement_timestamp()"
)


class PlatformTolerances:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def of_sync(self, sync: str) -> tuple[Tolerance, ...]:
        """All of them, the newest first, up to a bound."""
        return self._database.transact(lambda session: _read(session, "t.sync = %(sync)s", {"sync": sync}))

    def in_force(self, sync: str) -> tuple[Tolerance, ...]:
        """Those that tolerate something now."""
        return self._database.transact(lambda session: _read(session, _IN_FORCE, {"sync": sync}))

    def of_comparison(self, sync: str, compared: Compared) -> tuple[Absorbed, ...]:
        """Those in force in its destination, with what they tolerate of its breaks."""

        def work(session: Session) -> tuple[Absorbed, ...]:
            mine = [one for one in _read(session, _IN_FORCE, {"sync": sync}) if one.destination == compared.destination]
            if not mine:
                return ()  # no break has to be looked at
            cursor = session.execute(
                "select w.tolerance_id, count(*), sum(w.absorbed) from break b join break_now w using (break_id)"
                " where b.reconciliation_id = %s and w.state = 'tolerated' group by w.tolerance_id",
                (number_of(session, compared),),
            )
            under = {number: (breaks, absorbed) for number, breaks, absorbed in cursor}
            return tuple(Absorbed(one, *under.get(one.number, (0, Decimal(0)))) for one in mine)

        return self._database.transact(work)

    def ask(self, asked: Asked, *, who: str, expires_at: datetime, origin: str = FROM_PAGE) -> int:
        """Its number. It tolerates nothing before it is approved. `asked` was checked before."""

        def work(session: Session) -> int:
            row = session.execute(
                "insert into tolerance (sync, destination, table_name, column_name, amount, reason, made_by,"
                " expires_at) values (%s, %s, %s, %s, %s, %s, %s, %s) returning tolerance_id",
                (
                    asked.sync,
                    asked.destination,
                    asked.table,
                    asked.column,
                    asked.amount,
                    asked.why,
                    who,
                    expires_at,
                ),
            ).fetchone()
            number = int(row[0]) if row else 0
            audit.append(session, _act(Kind.TOLERANCE_ASKED, _one(session, asked.sync, number), who, origin))
            return number

        return self._database.transact(work)

    def approve(self, sync: str, number: int, *, who: str, origin: str = FROM_PAGE) -> int:
        """How many breaks it tolerates at once. Refused for the person who asked for it, which the table itself holds,
        and for one that is not waiting."""

        return self._database.transact(lambda session: _approve(session, sync, number, who, origin))

    def approve_declared(
        self, one: DeclaredTolerance, *, who: str, expires_at: datetime, origin: str = FROM_PAGE
    ) -> int:
        """The same for one of the sync's file, which this makes. Refused for everybody but the approver that it names,
        which the table itself holds, and where it is approved already. `one` was checked before."""

        def work(session: Session) -> int:
            asked = one.asked
            row = session.execute(
                "insert into tolerance (sync, destination, table_name, column_name, amount, reason, made_by,"
                " expires_at, declared, approver) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                " on conflict (sync, declared) where declared <> '' and ended_by is null do nothing"
                " returning tolerance_id",
                (
                    asked.sync,
                    asked.destination,
                    asked.table,
                    asked.column,
                    asked.amount,
                    asked.why,
                    one.asked_by,
                    expires_at,
                    one.hash,
                    one.approver,
                ),
            ).fetchone()
            if row is None:
                raise Refused("this text of the declaration is approved already")
            return _approve(session, asked.sync, int(row[0]), who, origin)

        return self._database.transact(work)

    def end(self, sync: str, number: int, *, who: str, origin: str = FROM_PAGE) -> int:
        """How many breaks are open again. Refused for one that has ended."""

        def work(session: Session) -> int:
            act, breaks = _end(session, sync, number, who, origin)
            audit.append_about(session, act, breaks)
            return len(breaks)

        return self._database.transact(work)


def end_undeclared(session: Session, sync: str) -> list[tuple[Act, list[str]]]:
    """End those that were approved as the sync's file had them and that its newest run is not declared with any more:
    another text needs another approval. Acts to be entered, each with the breaks that are open again."""
    kept = "select tolerance_id, declared, approved_at from tolerance where sync = %s and declared <> ''"
    known = session.execute(f"{kept} and ended_by is null".encode(), (sync,)).fetchall()
    newest = session.execute(
        "select plan_json, started_at from run where sync = %s order by started_at desc limit 1", (sync,)
    ).fetchone()
    if not known or newest is None:
        return []
    declared = plan_from_json(newest[0]).reconcile.tolerances
    # One that was approved since that run began may be of a newer file than the run's.
    over = [number for number, text, at in known if text not in declared and at < newest[1]]
    return [_end(session, sync, number, DECLARATION, FROM_RUN) for number in over]


def _approve(session: Session, sync: str, number: int, who: str, origin: str) -> int:
    changed = session.execute(
        "update tolerance set approved_by = %s, approved_at = clock_timestamp() where tolerance_id = %s"
        " and sync = %s and approved_by is null and ended_by is null and expires_at > statement_timestamp()",
        (who, number, sync),
    ).rowcount
    if not changed:
        raise Refused(f"tolerance {number} of {sync} does not wait for approval")
    breaks = tolerated.bring(session, number)
    approved, state = _one(session, sync, number), WorkState.TOLERATED
    audit.append_about(session, _act(Kind.TOLERANCE_APPROVED, approved, who, origin, breaks, state), breaks)
    return len(breaks)


def _end(session: Session, sync: str, number: int, who: str, origin: str) -> tuple[Act, list[str]]:
    changed = session.execute(
        "update tolerance set ended_by = %s, ended_at = clock_timestamp()"
        " where tolerance_id = %s and sync = %s and ended_by is null",
        (who, number, sync),
    ).rowcount
    if not changed:
        raise Refused(f"tolerance {number} of {sync} has ended, or there is none")
    ended = _one(session, sync, number)
    opened = session.execute(
        "update break_work set state = 'open', since = clock_timestamp(), tolerance_id = null, absorbed = null"
        " where tolerance_id = %s and state = 'tolerated' returning break_id",
        (number,),
    )
    breaks = [name for (name,) in opened]
    return _act(Kind.TOLERANCE_ENDED, ended, who, origin, breaks, WorkState.OPEN), breaks


def _read(session: Session, which: str, arguments: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    cursor = session.cursor(row_factory=dict_row)
    # `which` is text of this file.
    cursor.execute(_READ.format(which=which).encode(), {**arguments, "limit": SHOWN_MAX})
    return tuple(_tolerance_of(row) for row in cursor)


def _one(session: Session, sync: str, number: int) -> Tolerance:
    (found,) = _read(session, "t.sync = %(sync)s and t.tolerance_id = %(number)s", {"sync": sync, "number": number})
    return found


def _act(
    kind: Kind, about: Tolerance, who: str, origin: str, breaks: Sequence[str] = (), state: WorkState | None = None
) -> Act:
    document: dict[str, object] = {
        "tolerance": about.number,
        "table": about.table,
        "column": about.column,
        "amount": about.amount,
        "expires_at": about.expires_at,
        "made_by": about.made_by,
        "comment": about.why,
    }
    if about.declared:
        document["declared"] = about.declared
    changed = {**breaks_document(breaks), "state": state} if breaks else {}
    return Act(kind, Subject(about.sync, about.destination), {**document, **changed}, who, origin)


def _tolerance_of(row: Mapping[str, Any]) -> Tolerance:
    return Tolerance(
        number=row["tolerance_id"],
        sync=row["sync"],
        destination=row["destination"],
        table=row["table_name"],
        column=row["column_name"],
        amount=row["amount"],
        why=row["reason"],
        made_by=row["made_by"],
        made_at=row["made_at"],
        expires_at=row["expires_at"],
        approved_by=row["approved_by"] or "",
        approved_at=row["approved_at"],
        ended_by=row["ended_by"] or "",
        ended_at=row["ended_at"],
        breaks=row["breaks"],
        absorbed=row["absorbed"],
        declared=row["declared"],
    )
