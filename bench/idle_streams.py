"""What a host with idle streams costs: processor time of its whole process tree over a quiet minute, and memory.

A bank of its own on the servers of the local stack, its capture, its streams, heartbeats as always; nobody
writes until, at the end, one row wakes all. Goals: at most 3 % of a core for ten, 5 % for a hundred.
`./seamline exec python -m bench.idle_streams --streams 10 --seconds 60`
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from seamline.adapters.connections import Connection
from seamline.plan.document import plan_to_json
from tests.checkout import day_and_commit
from tests.integration.captured import Captured, captured
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.spark.chains import SCRIPT, TABLES
from tests.spark.empty_sync import publish_empty
from tests.spark.hosts import START_S, Hosts, hosts_of, session_of
from tests.waiting import wait_until

NAME = "idle_streams"
GOALS = {10: 0.03, 100: 0.05}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--still", action="store_true", help="stop the capture: others write on this server")
    parser.add_argument("--awake", action="store_true", help="let every stream keep its worker")
    chosen = parser.parse_args()
    with (
        captured(NAME) as bank,
        postgres_database(f"{NAME}_warehouse") as warehouse,
        destination_known_by_id(warehouse, warehouse.database),
        tempfile.TemporaryDirectory() as folder,
    ):
        bank.ensure()
        with hosts_of(SCRIPT, Path(folder), name=f"{NAME}_platform") as hosts:
            syncs = [f"{NAME}_{number}" for number in range(chosen.streams)]
            for sync in syncs:
                plan = publish_empty(bank, warehouse, sync=sync, schema=f"live_{sync}", tables=TABLES)
                hosts.director.want(plan.stream_id("warehouse"), plan_json=plan_to_json(plan))
            idle_after = ["--idle-after", "inf"] if chosen.awake else []
            host = hosts.start("--slots", str(chosen.streams + 2), *idle_after)
            wait_until(
                lambda: all(hosts.state(sync) == "streaming" for sync in syncs),
                timeout_s=START_S + 2 * chosen.streams,
                what="all streams",
            )
            if not chosen.awake:
                wait_until(
                    lambda: hosts.log().count("outcome=idle") >= chosen.streams,
                    timeout_s=300 + 2 * chosen.streams,
                    what="all streams to be idle",
                )
            if chosen.still:
                bank.connector.stop()
            offset = bank.topics.end_offset()
            is_met = report(hosts, host.pid, syncs, seconds=chosen.seconds)
            # Every transaction of the server passes through the log, as an empty transaction where it is of another
            # database.
            records = bank.topics.end_offset() - offset
            sys.stdout.write(f"  meanwhile {records} records came into the log\n")
            woken(bank, warehouse, syncs)
    return 0 if is_met else 1


def woken(bank: Captured, warehouse: Connection, syncs: list[str]) -> None:
    """How long one row takes that is news for every one of them."""
    began, took_s = time.monotonic(), list[float]()
    bank.execute("INSERT INTO account VALUES (1, 1, 'news')")
    left = set(syncs)
    with postgres(warehouse) as session:
        while left:
            for sync in sorted(left):
                if session.execute(f"SELECT 1 FROM live_{sync}.account".encode()).fetchone():
                    left.remove(sync)
                    took_s.append(time.monotonic() - began)
    sys.stdout.write(
        f"  one row for all: visible in the first after {took_s[0]:.2f} s, in the last {took_s[-1]:.2f} s\n"
    )


def report(hosts: Hosts, host: int, syncs: list[str], *, seconds: float) -> bool:
    """Whether the goal is met."""
    quiet(seconds=20)
    before, began = cpu(host), time.monotonic()
    quiet(seconds=seconds)
    after, took_s = cpu(host), time.monotonic() - began
    spent = {pid: after[pid] - before.get(pid, 0.0) for pid in after}
    share, goal = sum(spent.values()) / took_s, next((GOALS[most] for most in GOALS if len(syncs) <= most), GOALS[100])
    processes = session_of(host)
    memory = sum(process.memory_full_info().pss for process in processes) >> 20
    sys.stdout.write(f"{len(syncs)} idle streams: {share:.2%} of a core (goal {goal:.0%}), {memory} MB in all\n")
    for process in processes:
        pss = process.memory_full_info().pss >> 20
        name = "driver" if process.pid == host else process.name()
        sys.stdout.write(f"  {name:<12} {spent.get(process.pid, 0.0) / took_s:7.3%} {pss:5d} MB\n")
    assert all(hosts.state(sync) == "streaming" for sync in syncs)
    return share <= goal


def cpu(host: int) -> dict[int, float]:
    """Seconds of processor time by process."""
    times = {process.pid: process.cpu_times() for process in session_of(host)}
    return {pid: used.user + used.system for pid, used in times.items()}


def quiet(*, seconds: float) -> None:
    """Let time pass: here it is what is measured."""
    time.sleep(seconds)


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
