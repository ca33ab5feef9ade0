"""What maintenance reads from the platform database, and what it deletes there."""

from collections.abc import Sequence
from datetime import date

from psycopg.rows import dict_row

from seamline.domain.audit import SCHEDULER, Kind, cut_act
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LogHold
from seamline.domain.log_keepers import held_for_cut, held_for_load
from seamline.domain.runs import NOT_PUBLISHED, PUBLISH, RunKind
from seamline.plan.document import plan_from_json
from seamline.plan.model import SyncPlan
from seamline.platform import audit, rows
from seamline.platform.database import Database, Session
from seamline.platform.followers import cut_off_streams

# What a run that has failed would need to go on is needed no more once another one has published its date.
_HOLDS = """
select holder, next_offset from pruning_hold where topic = %(topic)s and (expires_at > clock_timestamp() or exists (
    select from run where run_id = holder and state = 'running' and started_at > clock_timestamp() - interval '7 days'))
    and not exists (select from run join cut using (sync, business_date) where run.state = 'failed'
        and cut.run_id <> run.run_id and cut.saved_at > run.started_at
        and (starts_with(holder, replace(%(load)s, '?', run.run_id))
        or starts_with(holder, replace(%(cut)s, '?', run.run_id))))
union all
select 'the unpublished run ' || run_id, (result->'snapshot'->>'next_offset')::bigint from run
where kind = any(%(kinds)s) and state <> 'succeeded' and result->'snapshot'->>'topic' = %(topic)s
    and (coalesce(result->%(publish)s, '{}') = '{}' or coalesce(result->%(missing)s, '{}') <> '{}')
    and started_at > clock_timestamp() - interval '7 days'
    and not exists (select from run newer where newer.sync = run.sync and newer.kind = any(%(kinds)s)
        and newer.started_at > run.started_at and coalesce(newer.result->%(publish)s, '{}') <> '{}')
order by next_offset
"""


class PlatformMaintenance:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def wanted_plans(self, sync: str = "") -> dict[StreamId, SyncPlan]:
        """Every stream that was ever wanted, or those of one sync, also one that is paused or not wanted now, with its
        last plan. ConfigError where one cannot be read: nobody knows then what it needs."""

        def work(session: Session) -> dict[StreamId, SyncPlan]:
            cursor = session.execute(
                "select sync, destination, plan_json from stream where %s in ('', sync) order by sync, destination",
                (sync,),
            )
            return {StreamId(sync, destination): plan_from_json(text) for sync, destination, text in cursor}

        return self._database.transact(work)

    def cut_off(self) -> frozenset[StreamId]:
        return self._database.transact(cut_off_streams)

    def published_plans(self) -> list[SyncPlan]:
        """Of each sync that has no stream yet, the plan of the newest run that began to publish its tables."""

        def work(session: Session) -> list[SyncPlan]:
            cursor = session.execute(
                "select distinct on (sync) plan_json from run where kind = any(%s) and result ? %s"
                " and sync not in (select sync from stream) order by sync, started_at desc",
                ([RunKind.ONBOARD.value, RunKind.TABLES.value], PUBLISH),
            )
            return [plan_from_json(text) for (text,) in cursor]

        return self._database.transact(work)

    def living_holds(self, topic: str) -> Sequence[LogHold]:
        """Who holds this log now: by a lease, which does not end while its run reads, or as a run whose tables are
        read and not yet published everywhere.

        Such a run, above all one whose publish failed, may wait for a person for longer than its lease. It counts for a
        week, or until its sync was published by another one. Nor does the lease of a failed run count once another run
        has published its date.
        """

        def work(session: Session) -> Sequence[LogHold]:
            kinds = [RunKind.ONBOARD.value, RunKind.TABLES.value]
            wanted = {
                "topic": topic,
                "publish": PUBLISH,
                "missing": NOT_PUBLISHED,
                "kinds": kinds,
                "load": held_for_load("?"),
                "cut": held_for_cut("?"),
            }
            return tuple(LogHold(holder, int(offset)) for holder, offset in session.execute(_HOLDS, wanted))

        return self._database.transact(work)

    # ---- cuts ------------------------------------------------------------------------------------------------------

    def drop_cuts(self, sync: str, destination: str, gone: Sequence[tuple[date, int]]) -> int:
        """Take cuts that are gone from the list, which is an act each; their reconciliations stay. How many were on
        it."""
        if not gone:
            return 0

        def work(session: Session) -> int:
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute(
                "delete from cut using unnest(%s::date[], %s::int[]) as gone (business_date, version)"
                " where cut.sync = %s and cut.destination = %s and cut.business_date = gone.business_date"
                " and cut.version = gone.version returning cut.*",
                ([day for day, _ in gone], [version for _, version in gone], sync, destination),
            )
            for cut in (expired := [rows.cut_of(row) for row in cursor]):
                verdict = audit.verdicts_of(session, cut.run_id).get(cut.destination, "")
                act = cut_act(cut, Kind.CUT_EXPIRED, verdict=verdict, who=SCHEDULER, origin="maintenance")
                audit.append(session, act)
            return len(expired)

        return self._database.transact(work)
