"""The log of acts in the platform database: entries are appended in the transaction of what they are about."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from seamline.domain import audit
from seamline.domain.audit import Act, Entry, Kind, Subject
from seamline.domain.decision import DECISION
from seamline.domain.errors import InvariantViolated
from seamline.domain.runs import Scope
from seamline.platform import reconciliations, rows
from seamline.platform.database import Database, Session

# A repeat adds nothing: neither after a lost answer to a commit, nor of a task that is run again.
_APPEND = """
insert into audit_entry (kind, who, origin, sync, destination, business_date, run_id, scope, document)
select %(kind)s, coalesce(nullif(%(who)s, ''),
        (select nullif(result->>'asked_by', '') from run where run_id = %(run_id)s), %(scheduler)s),
    %(origin)s, %(sync)s, %(destination)s, %(business_date)s, %(run_id)s, %(scope)s, %(document)s
where not exists (
    select from (
        select kind, document from audit_entry
        where run_id = %(run_id)s and destination = %(destination)s and scope = %(scope)s and kind = any(%(among)s)
        order by number desc limit 1
    ) newest where newest.kind = %(kind)s and newest.document = %(document)s
)
"""
_SET_DECISION = """
with before as (select result->'decision' as decision from run where run_id = %(run_id)s for update)
update run set result = jsonb_set(result, '{decision}', %(decision)s) from before where run_id = %(run_id)s
returning sync, business_date, coalesce(before.decision, 'null')
"""
_OF_VERDICTS = """
select distinct on (run_id, destination, scope) * from audit_entry where run_id = any(%s) and kind = any(%s)
order by run_id, destination, scope, number desc
"""
_GROUPS = (audit.ABOUT_VERDICTS, audit.ABOUT_DECISIONS, audit.ABOUT_CUTS)
_ROWS_AT_ONCE = 1_000
# What makes a stored row unreadable: a text that is none of the known words, a position of no known kind.
UNREADABLE = (InvariantViolated, ValueError, KeyError, TypeError)
_BY_MIGRATION = {"who": "migration", "origin": "migration"}


@dataclass(frozen=True, slots=True)
class Head:
    """The newest entry, as it is written down outside of the database."""

    number: int
    hash: str


def lock(session: Session) -> None:
    """From here to the end of the transaction nobody else enters an act: what is read now is what the next entry
    follows."""
    session.execute("select pg_advisory_xact_lock(x'7365616d6c6f67'::bigint)")


def append(session: Session, act: Act) -> None:
    """Enter the act: the last statement of its transaction, because other writers wait from here on. A repeat of what
    the log has last about the same verdict, decision or cut adds nothing."""
    among = next((group for group in _GROUPS if act.kind in group), ())
    session.execute(
        _APPEND,
        {
            "kind": act.kind.value,
            "who": act.who,
            "origin": act.origin,
            "sync": act.subject.sync,
            "destination": act.subject.destination,
            "business_date": act.subject.business_date,
            "run_id": act.subject.run_id,
            "scope": act.subject.scope,
            "document": audit.canonical_json(act.document),
            "among": [kind.value for kind in among],
            "scheduler": audit.SCHEDULER,
        },
    )


def append_about(session: Session, act: Act, breaks: Sequence[str]) -> None:
    """Enter an act on breaks, by which each of them is led to it."""
    append(session, act)
    # Nobody else appends before this transaction ends, so the newest entry is this one.
    session.execute(
        "insert into break_act select break_id, (select max(number) from audit_entry) from unnest(%s::text[]) break_id",
        (list(breaks),),
    )


def set_decision(session: Session, run_id: str, decision: Mapping[str, Any] | None) -> int:
    """Keep a run's decision and enter it; None takes it back. How many runs there were."""
    row = session.execute(_SET_DECISION, {"run_id": run_id, "decision": Jsonb(decision)}).fetchone()
    if row is None:
        return 0
    sync, day, before = row
    if decision is not None or before is not None:
        about = decision["destinations"] if decision else []
        verdicts = verdicts_of(session, run_id)
        named = {name: hashed for name, hashed in verdicts.items() if not about or name in about}
        append(session, audit.decision_act(Subject(sync, "", day, run_id, Scope.CUT.value), decision, named))
    return 1


def verdicts_of(session: Session, run_id: str) -> dict[str, str]:
    """Of each destination the hash of the newest verdict of a run's cut, by the log."""
    found = session.execute(
        "select distinct on (destination) destination, document::json->>'hash' from audit_entry"
        " where run_id = %s and scope = 'cut' and kind = any(%s) order by destination, number desc",
        (run_id, [kind.value for kind in audit.ABOUT_VERDICTS]),
    )
    return {str(destination): str(hashed) for destination, hashed in found}


def adopt(session: Session) -> None:
    """Open the log: enter what was stored before there was one, as it is now. Does nothing in a log that was opened.

    Only what this version's migration finds is ever adopted: whatever is stored later without an entry is a fault. So
    is what cannot be read at this moment, as a position of a kind that is not installed; the opening lists it.
    """
    opened = session.execute("select from audit_entry where kind = %s", (Kind.LOG_OPENED.value,)).fetchone()
    if opened is not None:
        return
    unreadable: list[str] = []
    document = {
        "verdicts": _adopt_verdicts(session, unreadable),
        "cuts": _adopt_cuts(session, unreadable),
        "decisions": _adopt_decisions(session),
        "unreadable": unreadable,
        "note": "what is adopted stands as it was found here; of what it was before, this log knows nothing",
    }
    append(session, Act(Kind.LOG_OPENED, Subject(), document, **_BY_MIGRATION))


def _adopt_verdicts(session: Session, unreadable: list[str]) -> int:
    stored = session.execute(
        "select reconciliation_id, run_id, destination, scope from reconciliation where not exists (select from"
        " audit_entry entry where (entry.run_id, entry.destination, entry.scope)"
        " = (reconciliation.run_id, reconciliation.destination, reconciliation.scope)) order by 1"
    ).fetchall()
    for number, *place in stored:
        try:
            (found,) = reconciliations.read(session, "reconciliation_id = %s", (number,))
        except UNREADABLE as exc:
            unreadable.append(f"verdict {' '.join(place)}: {exc}")
            continue
        append(session, audit.verdict_act(found, Kind.VERDICT_ADOPTED, **_BY_MIGRATION))
    return len(stored)


def _adopt_cuts(session: Session, unreadable: list[str]) -> int:
    cursor = session.cursor(row_factory=dict_row)
    stored = cursor.execute("select * from cut order by saved_at").fetchall()
    for row in stored:
        try:
            cut = rows.cut_of(row)
        except UNREADABLE as exc:
            unreadable.append(f"cut {row['sync']} {row['destination']} {row['business_date']}: {exc}")
            continue
        verdict = verdicts_of(session, cut.run_id).get(cut.destination, "")
        append(session, audit.cut_act(cut, Kind.CUT_ADOPTED, verdict=verdict, **_BY_MIGRATION))
    return len(stored)


def _adopt_decisions(session: Session) -> int:
    found = session.execute(
        "select run_id, sync, business_date, result->%s from run where coalesce(result->%s, 'null') <> 'null'"
        " order by started_at",
        (DECISION, DECISION),
    ).fetchall()
    for run_id, sync, day, decision in found:
        subject = Subject(sync, "", day, run_id, Scope.CUT.value)
        document = {"decision": decision, "verdict_hashes": verdicts_of(session, run_id)}
        append(session, Act(Kind.DECISION_ADOPTED, subject, document, **_BY_MIGRATION))
    return len(found)


def entry_of(row: Mapping[str, Any]) -> Entry:
    return Entry(
        number=row["number"],
        at=row["at"],
        kind=row["kind"],
        who=row["who"],
        origin=row["origin"],
        subject=Subject(row["sync"], row["destination"], row["business_date"], row["run_id"], row["scope"]),
        document=row["document"],
        previous=row["previous"],
        content_hash=row["content_hash"],
        hash=row["hash"],
    )


def entries(session: Session, condition: str, arguments: Sequence[Any] | Mapping[str, Any]) -> Iterator[Entry]:
    """Those that meet the condition, by number, a thousand in memory; inside a transaction. `condition` is text of this
    package, never input."""
    with session.cursor(name="entries", row_factory=dict_row) as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        cursor.execute(f"select * from audit_entry where {condition} order by number".encode(), arguments)
        for row in cursor:
            yield entry_of(row)


class PlatformAudit:
    """What is asked of the log as such."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def head(self) -> Head | None:
        """The newest entry; None where the log is empty."""
        return self._database.transact(_head)

    def enter(self, act: Act) -> Head:
        """Enter an act that changes nothing else, as an export. Returns its entry."""

        def work(session: Session) -> Head:
            append(session, act)
            # Other writers wait until this transaction ends.
            head = _head(session)
            if head is None:
                raise InvariantViolated(f"an act was entered and is not in the log: {act.kind}")
            return head

        return self._database.transact(work)

    def verdict_entries(self, runs: Sequence[str]) -> dict[tuple[str, str, str], Entry]:
        """By run, destination and scope the newest entry about the verdict of these runs; nothing where none names
        it."""

        def work(session: Session) -> dict[tuple[str, str, str], Entry]:
            cursor = session.cursor(row_factory=dict_row)
            kinds = [kind.value for kind in audit.ABOUT_VERDICTS]
            found = [entry_of(row) for row in cursor.execute(_OF_VERDICTS, (list(runs), kinds))]
            return {(one.subject.run_id, one.subject.destination, one.subject.scope): one for one in found}

        return self._database.transact(work)


def _head(session: Session) -> Head | None:
    row = session.execute("select number, hash from audit_entry order by number desc limit 1").fetchone()
    return None if row is None else Head(int(row[0]), str(row[1]))
