"""T2: random faults on real servers for hours, under writers, and everything goes on by itself.

`./seamline test soak`; `--pytest="--hours 2 --journal soak.jsonl --report docs/reliability/soak.md"`, and again with
the same journal to go on where an earlier run ended.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.adapters.connections import resolve
from seamline.stack.layout import Layout
from tests.checkout import commit_of_checkout
from tests.conftest import RunningStack
from tests.fault.real.bank_under_fire import RECOVERY_MAX_S, BankUnderFire, bank_under_fire
from tests.fault.real.history import Outcome
from tests.fault.real.hosted import hosted
from tests.fault.real.kinds import KINDS, POSTGRES
from tests.fault.real.window import Window
from tests.fault.soak.journal import Begun, Done, Ended, Journal
from tests.fault.soak.kafka_links import kafka_links
from tests.fault.soak.link import link_to
from tests.fault.soak.nemesis import Fault, Scene
from tests.spark.hosts import uri
from tests.waiting import wait_until

COMMITS_MIN = 20


@pytest.mark.parametrize("kind", KINDS)
def test_after_every_fault_the_stream_goes_on_by_itself_and_nothing_is_lost_or_doubled(
    kind: str,
    faults: Sequence[Fault],
    stack: RunningStack,
    journal: Journal,
    hours: float,
    tmp_path: Path,
) -> None:
    left_s = hours * 3600 / len(KINDS) - sum(one.took_s for one in journal.of(kind))
    until = time.monotonic() + left_s
    if left_s > 0:
        seed = f"{journal.seed}/{len(journal.of(kind))}"
        journal.add(Begun(kind, commit_of_checkout()))
        with soaked_bank(kind, Layout(stack.settings), seed=seed, folder=tmp_path) as scene:
            while time.monotonic() < until:
                number = len(journal.of(kind))
                scene.chance.seed(f"{journal.seed}/{kind}/{number}")
                fault = fault_of(faults, journal.seed, kind, number)
                with reported_if_it_fails(journal, kind, fault.name):
                    done = one_fault(scene, fault)
                journal.add(done)
                print(f"{number}: {done}")
                assert done.violations == ()
            with reported_if_it_fails(journal, kind, "the end"):
                journal.add(end_of(scene.bank))
    assert journal.of(kind)
    assert journal.violations(kind) == []


@contextmanager
def reported_if_it_fails(journal: Journal, kind: str, what: str) -> Iterator[None]:
    """A stream that stopped, a wait that never ended, a checker that saw nothing: no report may pass over it."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        # Ended by hand: a later run goes on.
        raise
    except BaseException as failed:
        journal.add(Done(kind, what, 0, 0, 0, 0, (f"{what}: {failed!r}",)))
        raise


def end_of(bank: BankUnderFire) -> Ended:
    anomalies = bank.at_the_end()
    attempts = bank.writers.history.attempts
    transfers = sum(one.outcome is Outcome.OK and one.legs > 0 for one in attempts)
    return Ended(bank.kind, len(attempts), transfers, bank.replay.transactions, len(bank.commits), tuple(anomalies))


def fault_of(faults: Sequence[Fault], seed: str, kind: str, number: int) -> Fault:
    """Each of the source's faults once, in a random order, before any comes again."""
    possible = [fault for fault in faults if kind in fault.kinds]
    turn, place = divmod(number, len(possible))
    random.Random(f"{seed}/{kind}/turn {turn}").shuffle(possible)
    return possible[place]


def one_fault(scene: Scene, fault: Fault) -> Done:
    bank, began = scene.bank, time.monotonic()
    before = bank.warehouse.commits_seen()
    print(f"{time.strftime('%H:%M:%S')} {fault.name}", flush=True)
    fault.make(scene)
    attempted, over = len(bank.writers.history), time.monotonic()
    lasted_s = over - began
    allowed_s = max(RECOVERY_MAX_S, 5 * lasted_s)
    recovery_s = bank.recovered(over, within_s=allowed_s)
    wait_until(
        lambda: bank.keep_streaming() and bank.warehouse.commits_seen() >= before + COMMITS_MIN,
        timeout_s=RECOVERY_MAX_S,
        what=f"{COMMITS_MIN} commits of the stream",
    )
    new, violations = bank.new_commits()
    violations += bank.state_differences()
    violations += scene.window.wrong_before(attempted)
    if not any(commit.transfers_checked for commit in new):
        violations.append(f"{fault.name}: not one transfer was looked at")
    if recovery_s > allowed_s:
        violations.append(f"{fault.name}: it took {recovery_s:.0f} s to go on, {allowed_s:.0f} s are allowed")
    took_s = time.monotonic() - began
    return Done(bank.kind, fault.name, lasted_s, recovery_s, took_s, len(new), tuple(violations))


@contextmanager
def soaked_bank(kind: str, layout: Layout, *, seed: str, folder: Path) -> Iterator[Scene]:
    """A bank under writers, its stream in a stream host; streams and capture reach every server over a link each."""
    with kafka_links(layout) as kafka, bank_under_fire(kind, folder=folder, seed=seed) as bank:
        warehouse, server = resolve(POSTGRES.connection), bank.source.root
        with link_to(warehouse.host, warehouse.port) as link, link_to(server.host, server.port) as capture_link:
            bank.source.endpoint = replace(
                bank.source.endpoint, port=capture_link.port, kafka_servers=f"127.0.0.1:{kafka.connect.port}"
            )
            bank.source.ensure()
            logins = (POSTGRES.connection, POSTGRES.writer)
            linked = {name: uri(replace(resolve(name), port=link.port)) for name in logins}
            linked["kafka"] = f"kafka://127.0.0.1:{kafka.stream.port}"
            environment = {f"SEAMLINE_CONNECTION_{name.upper()}": address for name, address in linked.items()}
            with hosted(bank, **environment) as in_host:
                in_host.stream()
                window = Window(bank.writers.history, bank.warehouse)
                yield Scene(in_host, link, capture_link, kafka, window, random.Random(seed), layout)
