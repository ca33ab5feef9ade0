"""First byte of the Reconciliation page with 400 business dates and 1 M breaks stored, over HTTP from Airflow's server.

It fills the platform database of the stack that runs, so that one must be new: `SEAMLINE_DATA=… ./seamline up`, then
`./seamline exec python -m bench.page`. Every page is asked for ten times, after once; the median counts, and that the
page says what was stored. Goal: 300 ms for each.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import psycopg

from seamline import registry, settings
from seamline.adapters import libpq
from seamline.adapters.connections import resolve
from seamline.domain.audit import Kind, verdict_act
from seamline.domain.runs import Cut, RunState, Scope
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.document import plan_to_json
from seamline.platform import audit
from seamline.platform.database import CONNECTION_ID, open_session
from seamline.platform.store import PlatformStore
from seamline.stack import credentials
from seamline.stack.layout import Layout
from tests.checkout import day_and_commit
from tests.dags import results

GOAL_MS = 300.0
SYNC = "settlement"
_TIMES = 10
_TABLES = ("account", "ledger_entry")

# Of the last twenty dates all breaks are open still: 50,000 of a million.
# A break per number, of the tables and dates in turn; each is another key, and a fifth differs on many dates.
_BREAKS = """
with taken as (
    select reconciliation_id, row_number() over (order by business_date) - 1 as nth from reconciliation
    where sync = %(sync)s
), made as (
    select n, reconciliation_id, n %% 2 as at, case when n %% 5 = 0 then n %% 1000 else n end as key
    from generate_series(1, %(breaks)s) as n join taken on taken.nth = (n / 2) %% %(dates)s
)
insert into break (reconciliation_id, table_ordinal, ordinal, table_name, type, key, source_values,
    destination_values, break_id)
select reconciliation_id, at, 1 + row_number() over (partition by reconciliation_id, at order by n),
    case at when 0 then 'account' else 'ledger_entry' end, %(type)s, json_build_object('id', key::text)::text,
    '{"balance": "1.0000"}', '{"balance": "1.0001"}',
    left(encode(sha256(convert_to(at::text || ' ' || key::text, 'UTF8')), 'hex'), 16)
from made
"""
_WORK = """
insert into break_work (break_id, sync, destination, table_name, type, first_at, first_date, since, cut_at, cut_date,
    in_cut, state)
select one.break_id, %(sync)s, 'warehouse', min(one.table_name), min(one.type), min(verdict.ended_at),
    min(verdict.business_date), min(verdict.ended_at), max(verdict.ended_at), max(verdict.business_date),
    max(verdict.run_id), case when max(verdict.business_date) < current_date - 20 then 'closed' else 'open' end
from break as one join reconciliation as verdict using (reconciliation_id)
where verdict.sync = %(sync)s group by one.break_id on conflict do nothing
"""
_COUNTED = """
update table_verdict set breaks_total = (
    select count(*) from break where break.reconciliation_id = table_verdict.reconciliation_id
        and break.table_ordinal = table_verdict.ordinal)
"""


def fill(store: PlatformStore, *, dates: int, breaks: int) -> None:
    """Dates up to yesterday, each a published cut that is not clean."""
    for ago in range(dates, 0, -1):
        day = datetime.now(UTC).date() - timedelta(days=ago)
        at = datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=17)
        run_id = f"{SYNC}/nightly/{day}/bench"
        store.start_run(
            run_id=run_id, sync=SYNC, kind="nightly", plan_json=plan_to_json(results.plan()), business_date=day
        )
        found = results.reconciliation(
            *(results.table(name, Verdict.BREAK) for name in _TABLES),
            run_id=run_id, business_date=day, position_time=at, started_at=at, ended_at=at,
        )  # fmt: skip
        store.save_reconciliation(found)
        for key, value in results.published().result.items():
            store.put_result(run_id, key, value)
        store.finish_run(run_id, state=RunState.SUCCEEDED)
        store.save_cut(
            Cut(SYNC, "warehouse", day, 1, run_id, results.POSITION, at, tuple(sorted(_TABLES)), Verdict.BREAK)
        )
    values = {"sync": SYNC, "breaks": breaks, "dates": dates, "type": BreakType.VALUE.value}
    # As the server's owner: rows of the past are kept out of by triggers, for everybody else.
    owner = replace(resolve("postgres_root"), database=resolve(CONNECTION_ID).database)
    with psycopg.connect(**libpq.address(owner), autocommit=True) as session:
        session.execute("set search_path = seamline")
        session.execute("set session_replication_role = replica")
        for statement in (_BREAKS, _WORK, _COUNTED):
            session.execute(statement.encode(), values)
        session.execute("set session_replication_role = origin")
        session.execute("analyze")
    with closing(open_session(application_name="bench", statement_timeout_s=60)) as log:
        for cut in store.cuts(SYNC):
            compared = store.reconciliation(cut.run_id, Scope.CUT)
            assert compared is not None
            with log.transaction():
                # What a report shows is held against this entry.
                audit.append(log, verdict_act(compared, Kind.COMPARED))


def pages(store: PlatformStore) -> dict[str, tuple[str, str]]:
    """What it is → its address, and what it has to say."""
    newest = max(store.cuts(SYNC), key=lambda cut: cut.business_date)
    day = newest.business_date
    listed = f"breaks?sync={SYNC}&run={newest.run_id}&destination=warehouse&scope=cut"
    with closing(open_session(application_name="bench", statement_timeout_s=60)) as session:
        often = session.execute("select break_id from break group by 1 order by count(*) desc, 1 limit 1").fetchone()
    assert often is not None
    return {
        "the overview": ("page", str(day)),
        "a sync": (f"page?sync={SYNC}", str(day)),
        "an earlier part of its dates": (f"page?sync={SYNC}&before={day - timedelta(days=200)}", "BREAK"),
        "the report of a date": (f"page?sync={SYNC}&business_date={day}", 'class="verdict BREAK big"'),
        "its breaks": (listed, "balance"),
        "its breaks by type": (f"{listed}&sort=type", "balance"),
        "its breaks with a text": (f"{listed}&text=1", "balance"),
        "one break over all dates": (f"break?sync={SYNC}&id={often[0]}", "balance"),
    }


def first_byte_ms(client: httpx.Client, path: str, says: str) -> float:
    started = time.perf_counter()
    with client.stream("GET", path) as answer:
        parts = answer.iter_bytes()
        first = next(parts)
        spent = (time.perf_counter() - started) * 1_000
        text = (first + b"".join(parts)).decode()
    if answer.status_code != httpx.codes.OK or says not in text:
        raise SystemExit(f"{path} answered {answer.status_code} without {says!r}: it does not count")
    return spent


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dates", type=int, default=400)
    parser.add_argument("--breaks", type=int, default=1_000_000)
    asked = parser.parse_args(arguments)
    known = settings.load()
    with closing(registry.platform()) as store:
        if not store.cuts(SYNC):
            fill(store, dates=asked.dates, breaks=asked.breaks)
        wanted = pages(store)
    address = f"http://127.0.0.1:{known.ports.airflow}"
    password = credentials.load_or_make(Layout(known))["airflow_user_operator"]
    token = httpx.post(
        f"{address}/auth/token", json={"username": "operator", "password": password}, trust_env=False, timeout=60
    ).json()["access_token"]
    print(f"{day_and_commit()}: {asked.dates} dates, {asked.breaks:,} breaks")
    worst = 0.0
    with httpx.Client(
        base_url=f"{address}/seamline/", headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=120
    ) as client:
        for name, (path, says) in wanted.items():
            first_byte_ms(client, path, says)
            times = [first_byte_ms(client, path, says) for _ in range(_TIMES)]
            worst = max(worst, statistics.median(times))
            print(f"{name:30} first byte {statistics.median(times):7.1f} ms (most {max(times):.1f})")
    print(f"goal {GOAL_MS:.0f} ms: {'met' if worst <= GOAL_MS else 'missed'}")
    return 0 if worst <= GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
