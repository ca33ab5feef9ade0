"""How much of a log topic lies on the disk while it is written and pruned: MariaDB → Debezium → Kafka → PostgreSQL.

A writer commits transactions of four changes at a steady rate, one stream applies them, and what the task `log` of
`seamline__maintenance` does is done every minute. Every few seconds the topic's folder is measured, with the files that
Kafka has let go of and not yet removed, and held against its bound: the bytes of the records that somebody needs at
that moment, which are those younger than `log.keep_days` and those that the ledger has not applied. Destination and
source must match at the end.

The keep is the least that may be declared, 14.4 minutes. The task runs every hour beside a keep of 7 days, here every
minute beside a quarter of an hour: more of what is over lies there until it is looked at, so the goal is harder here.
Goal: once the log is older than its keep, its folder never holds more than 1.3 times the bound.

On the servers of the local stack: `./seamline exec python -m bench.log_pruning`; `--minutes 5 --keep-minutes 2` shows
that it runs, and not the figure: below a keep of 10 minutes a segment is longer than a tenth of it.
"""

import argparse
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.late_destination import Sync, platform
from bench.latency import CREATE, TABLES, open_accounts, streaming, write_steadily
from seamline import registry, settings
from seamline.plan.document import plan_to_json
from seamline.plan.model import SyncPlan
from seamline.sync.log_pruning import Pruned, PruningTools, log_users, prune_log
from tests.checkout import day_and_commit
from tests.integration.captured import captured
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id
from tests.spark.empty_sync import publish_empty

NAME = "bench_pruning"
GOAL = 1.3
_MIB = 1 << 20
_SAID_EVERY_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="of writing")
    parser.add_argument("--keep-minutes", type=float, default=14.4, help="`log.keep_days`, in minutes")
    parser.add_argument("--per-s", type=float, default=60, help="transactions of four changes a second")
    parser.add_argument("--look-every", type=float, default=5, metavar="S")
    parser.add_argument("--prune-every", type=float, default=60, metavar="S")
    chosen = parser.parse_args()
    if chosen.minutes <= chosen.keep_minutes:
        parser.error("nothing is pruned before the log is older than its keep: write for longer")
    with (
        platform() as store,
        postgres_database(f"{NAME}_warehouse") as warehouse,
        destination_known_by_id(warehouse, warehouse.database),
        captured(NAME) as bank,
    ):
        bank.execute(*CREATE)
        bank.ensure(bank.with_tables(*TABLES))
        plan = publish_empty(bank, warehouse, sync=NAME, schema="live", tables=TABLES)
        plan = replace(plan, source=replace(plan.source, log_keep_days=chosen.keep_minutes / (24 * 60)))
        with closing(registry.director()) as director:
            director.want(plan.stream_id("warehouse"), plan_json=plan_to_json(plan))
        open_accounts(bank)
        sync, watch = Sync(bank, store, plan), Watch(plan, chosen.keep_minutes * 60)
        stop, committed = threading.Event(), dict[int, float]()
        with streaming(plan), ThreadPoolExecutor(1) as pool:
            writing = pool.submit(
                write_steadily, bank, committed, seconds=chosen.minutes * 60, stop=stop, per_s=chosen.per_s
            )
            try:
                for since_s in looks(writing, chosen.look_every):
                    watch.look(since_s, prune_every_s=chosen.prune_every)
                writing.result()
            finally:
                stop.set()
            sync.wait_until_applied("warehouse")
        sync.require_match()
    return watch.report(len(committed))


def looks(writing: "Future[None]", every_s: float) -> Iterator[float]:
    """Seconds since the begin, until nobody writes any more."""
    began = time.monotonic()
    while not writing.done():
        yield time.monotonic() - began
        wait([writing], timeout=every_s)


@dataclass(frozen=True, slots=True)
class Look:
    """`ends`: the offset after the newest record; `disk`: bytes of the topic's folder; `bound`: of what is needed."""

    since_s: float
    ends: int
    begins: int
    disk: int
    bound: float
    is_full: bool

    @property
    def ratio(self) -> float:
        return self.disk / self.bound


@dataclass
class Watch:
    """What lies there, look after look."""

    plan: SyncPlan
    keep_s: float
    looks: list[Look] = field(default_factory=list)
    _pruned_s: float = 0.0
    _said_s: float = -_SAID_EVERY_S
    _record_bytes: float = 0.0

    def look(self, since_s: float, *, prune_every_s: float) -> None:
        if since_s - self._pruned_s >= prune_every_s:
            self._pruned_s = since_s
            prune(self.plan)
        topic = self.plan.source.log_topic
        begins, ends = registry.log_topics().offsets(topic)
        with closing(registry.sink(self.plan, "warehouse")) as sink:
            ledger = sink.read_ledger(self.plan.stream_id("warehouse"))
        assert ledger is not None
        disk = bytes_of(folder_of(topic))
        if begins == 0:
            # Nothing was let go of yet: so much is a record, with its part of batches and indexes.
            self._record_bytes = disk / max(1, ends)
        is_full = since_s > self.keep_s
        needed = ends - min(self._young_from(since_s) if is_full else 0, ledger.next_offset)
        one = Look(since_s, ends, begins, disk, max(1, needed) * self._record_bytes, is_full)
        self.looks.append(one)
        if since_s - self._said_s >= _SAID_EVERY_S:
            self._said_s = since_s
            print(
                f"{since_s / 60:5.1f} min: offsets {begins:,} to {ends:,}, {needed:,} needed;"
                f" {disk / _MIB:.1f} MiB on the disk, {one.ratio:.2f} of the bound",
                flush=True,
            )

    def _young_from(self, now_s: float) -> int:
        """By the looks themselves, and not by the broker's answer that pruning goes by: the first one that is within
        the keep. Records that came just before it are counted as needed by nobody."""
        place = bisect_right(self.looks, now_s - self.keep_s, key=lambda one: one.since_s)
        return self.looks[place].ends if place < len(self.looks) else self.looks[-1].ends

    def report(self, transactions: int) -> int:
        full = [one for one in self.looks if one.is_full]
        worst = max(full, key=lambda one: one.ratio)
        seconds = self.looks[-1].since_s
        print(
            f"{transactions:,} transactions in {seconds / 60:.1f} min, {self.looks[-1].ends:,} records, of which"
            f" {self.looks[-1].begins:,} were pruned; destination and source match"
        )
        print(
            f"{len(full):,} looks since the log was older than its keep: at most {worst.ratio:.2f} of the bound"
            f" (goal ≤ {GOAL:g}), after {worst.since_s / 60:.1f} min, {worst.disk / _MIB:.1f} MiB;"
            f" on average {sum(one.ratio for one in full) / len(full):.2f}"
        )
        return 0 if worst.ratio <= GOAL else 1


def prune(plan: SyncPlan) -> Pruned:
    """As the task does. RuntimeError where it would raise its alarm."""
    with closing(registry.platform_maintenance()) as kept:
        tools = PruningTools(
            registry.log_topics(),
            kept,
            lambda destination: closing(registry.destination_maintenance(destination)),
            registry.log_archive,
        )
        (users,) = log_users([plan], kept.wanted_plans(), kept.published_plans(), cut_off=kept.cut_off())
        pruned = prune_log(users, tools)
    if pruned is None or pruned.floor.unknown or pruned.segments:
        raise RuntimeError(f"the log is not pruned: {pruned}")
    return pruned


def folder_of(topic: str) -> Path:
    (found,) = (settings.load().data / "kafka").rglob(f"{topic}-0")
    return found


def bytes_of(folder: Path) -> int:
    """On the disk. A file may go while they are counted."""
    total = 0
    for path in folder.iterdir():
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    raise SystemExit(main())
