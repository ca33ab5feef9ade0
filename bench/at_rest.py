"""What the local stack costs at rest: processor time and memory of all its processes over five quiet minutes.

For a stack that is up (`./seamline demo` leaves one): stops the demo bank's writers, waits until no job runs, measures.
Goals: at most 15 % of a core, 5 GiB PSS. `./seamline exec python -m bench.at_rest --seconds 300`
"""

import argparse
import sys
import time
from collections import Counter

import psutil

from seamline import settings
from seamline.stack import leftovers, supervisor
from seamline.stack.layout import Layout
from tests.checkout import day_and_commit
from tests.waiting import wait_until

CORE_GOAL = 0.15
MEMORY_GOAL_MB = 5 * 1024
# Until streams without a change have given up their workers, whose processor time goes with them.
SETTLE_S = 180


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    chosen = parser.parse_args()
    layout = Layout(settings.load())
    supervisor.stop_programs(layout, ["bank_writers"])
    wait_until(
        lambda: not any(one.is_detached for one in leftovers.processes(layout)),
        timeout_s=600,
        what="the end of the jobs that still run",
        every_s=2,
    )
    let_pass(SETTLE_S)
    before, began = spent(layout), time.monotonic()
    let_pass(chosen.seconds)
    after, took_s = spent(layout), time.monotonic() - began
    memory = proportional_mb(layout)
    for program in sorted(memory):
        share = (after[program] - before[program]) / took_s
        sys.stdout.write(f"  {program:<18} {share:7.2%} {memory[program]:6d} MB\n")
    core, in_all = (after.total() - before.total()) / took_s, memory.total()
    sys.stdout.write(
        f"at rest: {core:.1%} of a core (goal {CORE_GOAL:.0%}),"
        f" {in_all} MB PSS (goal {MEMORY_GOAL_MB} MB), mean of {took_s:.0f} s\n"
    )
    return 0 if core <= CORE_GOAL and in_all <= MEMORY_GOAL_MB else 1


def spent(layout: Layout) -> "Counter[str]":
    """Seconds of processor time by program, with those of children that have ended."""
    seconds: Counter[str] = Counter()
    for one in leftovers.processes(layout):
        seconds[one.program] += sum(psutil.Process(one.pid).cpu_times()[:4])  # type: ignore[assignment]
    return seconds


def proportional_mb(layout: Layout) -> "Counter[str]":
    megabytes: Counter[str] = Counter()
    for one in leftovers.processes(layout):
        megabytes[one.program] += psutil.Process(one.pid).memory_full_info().pss >> 20
    return megabytes


def let_pass(seconds: float) -> None:
    """Time passes: here it is what is measured."""
    time.sleep(seconds)


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
