"""Repairs in the platform database. Each step is entered into the log of acts in the transaction that makes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Json, Jsonb

from seamline.domain.audit import Act, Kind, Subject
from seamline.domain.errors import InvariantViolated, Refused
from seamline.domain.repair import Repair, RepairRow, RepairState, RootCause, RowAction, RowState, counted
from seamline.domain.runs import ASKED_BY, RunKind, Scope
from seamline.domain.verdict import Verdict
from seamline.platform import audit
from seamline.platform.database import Database, Session

LISTED_MAX = 200
# The log of acts is all that is kept of it.
_WHY = """
select case when document is json then document::json->>'reason' end as reason from audit_entry
where run_id = %s and kind = %s order by number limit 1
"""


class PlatformRepairs:
    """Every method is one short transaction. TransientError: the database is away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def save(self, repair: Repair, *, plan_json: str, by: str, origin: str) -> None:
        """Keep a new plan and its run. A plan is never replaced: a repeat with the same rows changes nothing, one with
        others is Refused."""

        def work(session: Session) -> None:
            _require_person(by)
            kept = session.execute("select hash from repair where run_id = %s", (repair.run_id,)).fetchone()
            if kept is not None:
                if kept[0] != repair.hash:
                    raise Refused(f"repair {repair.run_id} exists with another plan", hint="plan it as another run")
                return
            session.execute(
                "insert into run (run_id, sync, kind, plan_json, result) values (%s, %s, %s, %s, %s)"
                " on conflict (run_id) do update set plan_json = excluded.plan_json,"
                " result = run.result || excluded.result",
                (repair.run_id, repair.sync, RunKind.REPAIR.value, plan_json, Jsonb({ASKED_BY: by})),
            )
            session.execute(
                "insert into repair (run_id, sync, destination, compared, position, refused, hash, planned_by)"
                " values (%s, %s, %s, %s, %s, %s, %s, %s)",
                (
                    repair.run_id,
                    repair.sync,
                    repair.destination,
                    repair.compared,
                    repair.position,
                    Jsonb(dict(repair.refused)),
                    repair.hash,
                    by,
                ),
            )
            session.cursor().executemany(
                "insert into repair_row values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [_columns(repair.run_id, ordinal, row) for ordinal, row in enumerate(repair.rows)],
            )
            document = {
                "compared": repair.compared,
                "hash": repair.hash,
                "position": repair.position,
                "refused": sorted(repair.refused),
                "rows": counted(repair.rows),
                **({"reason": repair.why} if repair.why else {}),
            }
            audit.append(session, _act(Kind.REPAIR_PLANNED, repair, document, by, origin))

        self._database.transact(work)

    def approve(self, run_id: str, *, by: str, cause: RootCause, reason: str, origin: str) -> None:
        """A person other than the planner lets it be applied. Refused for the planner, for a repair that has nothing to
        apply or is approved, and without a reason."""

        def work(session: Session) -> None:
            _require_person(by)
            if not reason.strip():
                raise Refused("an approval needs a reason", hint="say in words how the rows came to differ")
            repair = _one(session, run_id, for_update=True)
            if repair.state is not RepairState.PLANNED:
                raise Refused(
                    f"repair {run_id} is {repair.state} already, approved by {repair.approved_by}", sync=repair.sync
                )
            if not repair.planned:
                raise Refused(f"repair {run_id} changes no row", hint="compare the live tables again", sync=repair.sync)
            session.execute(
                "update repair set state = 'approved', approved_by = %s, approved_at = clock_timestamp(), cause = %s,"
                " reason = %s where run_id = %s",
                (by, cause.value, reason.strip(), run_id),
            )
            document = {"cause": cause.value, "hash": repair.hash, "reason": reason.strip()}
            audit.append(session, _act(Kind.REPAIR_APPROVED, repair, document, by, origin))

        self._database.transact(work)

    def repair(self, run_id: str) -> Repair:
        """Refused where there is none. InvariantViolated: its rows are not those that its hash was made of."""
        return self._database.transact(lambda session: _one(session, run_id))

    def approved(self, run_id: str) -> Repair:
        """The repair, to be applied. Refused unless the log of acts holds an approval of just this plan."""

        def work(session: Session) -> Repair:
            repair = _one(session, run_id)
            row = session.execute(
                "select document::json->>'hash' from audit_entry where run_id = %s and kind = %s",
                (run_id, Kind.REPAIR_APPROVED.value),
            ).fetchone()
            if repair.state is RepairState.PLANNED or row is None:
                raise Refused(
                    f"repair {run_id} is not approved",
                    hint=f"a person other than {repair.planned_by} approves it, with the cause",
                    sync=repair.sync,
                )
            if row[0] != repair.hash:
                raise InvariantViolated(f"repair {run_id} is not what was approved", sync=repair.sync)
            return repair

        return self._database.transact(work)

    def named(self, name: str, *, sync: str = "") -> str:
        """The id of the repair with this id, or whose id ends in `/<name>`. Refused: there is none, or several."""

        def work(session: Session) -> list[str]:
            found = session.execute(
                "select run_id from repair where (run_id = %(name)s or right(run_id, length(%(name)s) + 1) = '/' ||"
                " %(name)s) and %(sync)s in ('', sync) order by planned_at desc",
                {"name": name, "sync": sync},
            )
            return [row[0] for row in found]

        found = self._database.transact(work)
        if len(found) != 1:
            raise Refused(
                f"{len(found)} repairs are called {name!r}",
                hint=f"give one of these: {', '.join(found)}" if found else "`seamline repair list <sync>` has them",
            )
        return found[0]

    def of_sync(self, sync: str) -> tuple[Repair, ...]:
        """Without their rows, the newest first, at most `LISTED_MAX`."""

        def work(session: Session) -> tuple[Repair, ...]:
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute("select * from repair where sync = %s order by planned_at desc limit %s", (sync, LISTED_MAX))
            return tuple(_repair_of(row, ()) for row in cursor)

        return self._database.transact(work)

    # ---- sync.repair.RepairRecords ----------------------------------------------------------------------------------

    def begin(self, run_id: str, rows: Sequence[RepairRow]) -> None:
        def work(session: Session) -> None:
            changed = session.execute(
                "update repair set state = 'applying' where run_id = %s and state in ('approved', 'applying')",
                (run_id,),
            ).rowcount
            if changed != 1:
                raise Refused(f"repair {run_id} is not approved", hint="a second person approves it first")
            _keep_states(session, run_id, rows)

        self._database.transact(work)

    def applied(self, run_id: str, rows: Sequence[RepairRow], *, position: str) -> None:
        def work(session: Session) -> None:
            repair = _one(session, run_id, for_update=True)
            if repair.state is RepairState.PLANNED:
                raise Refused(f"repair {run_id} is not approved", hint="a second person approves it first")
            if repair.state is RepairState.APPLIED:
                return
            _keep_states(session, run_id, rows)
            session.execute(
                "update repair set state = 'applied', applied_at = clock_timestamp(), applied_position = %s"
                " where run_id = %s",
                (position, run_id),
            )
            document = {"hash": repair.hash, "position": position, "rows": counted(rows)}
            audit.append(session, _act(Kind.REPAIR_APPLIED, repair, document, "", "run"))

        self._database.transact(work)

    def verified(self, run_id: str, verdict: Verdict) -> None:
        """What the comparison behind it has found. Its own entry in the log is that comparison's."""
        self._database.transact(
            lambda session: (
                session.execute("update repair set verdict = %s where run_id = %s", (verdict.value, run_id)).rowcount
            )
        )


def _require_person(by: str) -> None:
    if not by.strip():
        raise Refused("nobody is named", hint="sign in, or act from the command line of your own login")


def _act(kind: Kind, repair: Repair, document: Mapping[str, object], who: str, origin: str) -> Act:
    subject = Subject(repair.sync, repair.destination, None, repair.run_id, Scope.LIVE.value)
    return Act(kind, subject, document, who, origin)


def _keep_states(session: Session, run_id: str, rows: Sequence[RepairRow]) -> None:
    session.cursor().executemany(
        "update repair_row set state = %s where run_id = %s and table_name = %s and key = %s and action is not null",
        [(row.state.value, run_id, row.table, row.key) for row in rows],
    )


def _columns(run_id: str, ordinal: int, row: RepairRow) -> tuple[Any, ...]:
    # `json`, not `jsonb`: columns keep their order for the reader.
    source, destination = (None if side is None else Json(dict(side)) for side in (row.source, row.destination))
    action = None if row.action is None else row.action.value
    return run_id, ordinal, row.table, row.key, row.named, action, source, destination, row.state.value, row.why


def _one(session: Session, run_id: str, *, for_update: bool = False) -> Repair:
    cursor = session.cursor(row_factory=dict_row)
    lock = " for update" if for_update else ""
    kept = cursor.execute(f"select * from repair where run_id = %s{lock}".encode(), (run_id,)).fetchone()
    planned = cursor.execute(_WHY, (run_id, Kind.REPAIR_PLANNED.value)).fetchone()
    if kept is None:
        raise Refused(f"there is no repair {run_id!r}", hint="`seamline repair list <sync>` has them")
    cursor.execute("select * from repair_row where run_id = %s order by ordinal", (run_id,))
    why = str((planned or {}).get("reason") or "")
    repair = replace(_repair_of(kept, tuple(_row_of(row) for row in cursor)), why=why)
    if repair.hash != kept["hash"]:
        raise InvariantViolated(f"the rows of repair {run_id} were changed in the platform database", sync=kept["sync"])
    return repair


def _repair_of(row: Mapping[str, Any], rows: tuple[RepairRow, ...]) -> Repair:
    return Repair(
        run_id=row["run_id"],
        sync=row["sync"],
        destination=row["destination"],
        compared=row["compared"],
        position=row["position"],
        rows=rows,
        refused=row["refused"],
        state=RepairState(row["state"]),
        planned_by=row["planned_by"],
        planned_at=row["planned_at"],
        approved_by=row["approved_by"],
        approved_at=row["approved_at"],
        cause=RootCause(row["cause"]) if row["cause"] else None,
        reason=row["reason"],
        applied_at=row["applied_at"],
        applied_position=row["applied_position"],
        verdict=Verdict(row["verdict"]) if row["verdict"] else None,
    )


def _row_of(row: Mapping[str, Any]) -> RepairRow:
    return RepairRow(
        table=row["table_name"],
        key=row["key"],
        named=row["named"],
        action=RowAction(row["action"]) if row["action"] else None,
        source=row["source_values"],
        destination=row["destination_values"],
        state=RowState(row["state"]),
        why=row["why"],
    )
