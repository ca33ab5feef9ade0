"""The watch of a source, as the stream host runs it: it starts a capture again that has failed."""

from collections.abc import Iterator
from contextlib import contextmanager

from seamline import registry
from seamline.sync.source_watch import SourceWatch, SourceWatchThread
from tests.fault.real.bank_under_fire import BankUnderFire


class Alarms:
    """What the watch says, in the output of a run that failed."""

    def raise_alarm(self, kind: str, subject: str, message: str) -> None:
        print(f"alarm {kind} of {subject}: {message}")

    def end_alarm(self, kind: str, subject: str) -> None:
        print(f"over: alarm {kind} of {subject}")


@contextmanager
def watched(bank: BankUnderFire) -> Iterator[None]:
    plan = bank.source.plan
    watch = SourceWatch(
        plan.source,
        open_source=lambda: registry.source(plan),
        open_probe=lambda: registry.capture_probe(plan),
        alarms=Alarms(),
    )
    thread = SourceWatchThread(watch, name=plan.source.name)
    try:
        yield
    finally:
        thread.close()
