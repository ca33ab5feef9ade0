"""A stream's control without any platform database: orders stay, reports are counted, nothing waits."""

import threading
import time

from seamline.domain.errors import TransientError
from seamline.domain.ledger import StreamId
from seamline.platform.control import PlatformStreamControl, as_of_now, plan_hash
from seamline.platform.database import Session
from seamline.ports import Orders, StreamReport
from tests.waiting import wait_until

STREAM = StreamId("settlement", "warehouse")


class Absence:
    """A platform database that is away; it counts who asked for it."""

    def __init__(self) -> None:
        self.attempts = 0

    def __call__(self) -> Session:
        self.attempts += 1
        raise TransientError("the platform database does not answer")


def test_without_a_database_the_first_orders_hold_and_reports_are_counted() -> None:
    absence = Absence()
    with PlatformStreamControl(STREAM, open_one=absence, poll_s=0.02, first=Orders(paused=True)) as control:
        wait_until(lambda: absence.attempts >= 3, timeout_s=30, what="attempts to connect")
        for transactions in range(5):
            control.report(StreamReport(STREAM, "paused", transactions=transactions))
        assert control.orders() == Orders(paused=True, are_old=True)
        assert control.reports_dropped == 4


def test_the_first_orders_are_asked_of_the_database_once_more_and_do_not_wait_for_one_that_is_away() -> None:
    absence = Absence()
    with PlatformStreamControl(STREAM, open_one=absence, poll_s=60, patience_s=30) as control:
        wait_until(lambda: absence.attempts, timeout_s=30, what="an attempt to connect")
        before = time.monotonic()
        assert control.orders() == control.orders() == Orders(are_old=True)
        assert time.monotonic() - before < 5
        assert absence.attempts == 2


def test_a_database_that_does_not_answer_keeps_no_stream_from_its_start() -> None:
    silence = threading.Event()

    def never() -> Session:
        silence.wait(30)
        raise TransientError("too late")

    with PlatformStreamControl(STREAM, open_one=never, poll_s=60, patience_s=0.2) as control:
        assert control.orders().wanted
        silence.set()


def test_many_reports_do_not_mean_many_attempts_to_connect() -> None:
    absence = Absence()
    with PlatformStreamControl(STREAM, open_one=absence, poll_s=60) as control:
        wait_until(lambda: absence.attempts, timeout_s=30, what="an attempt to connect")
        for number in range(1000):
            control.report(StreamReport(STREAM, "streaming", epoch=number))
        assert absence.attempts == 1


def test_a_stream_ends_at_once_although_the_database_is_away() -> None:
    absence = Absence()
    with PlatformStreamControl(STREAM, open_one=absence, poll_s=60) as control:
        wait_until(lambda: absence.attempts, timeout_s=30, what="an attempt to connect")
        control.report(StreamReport(STREAM, "stopped"))
        before = time.monotonic()
    assert time.monotonic() - before < 2


def test_the_lag_of_a_stream_that_is_at_work_on_one_large_span_grows_while_it_reports_nothing() -> None:
    """Its worker lives and says the last report again: the lag in it was that of minutes ago."""
    report = StreamReport(STREAM, "streaming", epoch=3, lag_s=0.5)
    assert as_of_now(report, age_s=9.9) == report
    assert as_of_now(report, age_s=240.0).lag_s == 240.5
    starting = StreamReport(STREAM, "starting")
    assert as_of_now(starting, age_s=240.0) == starting


def test_a_plan_is_known_by_the_hash_that_postgresql_computes() -> None:
    assert plan_hash('{"sync": "é"}') == "d6ec2b27d8e6ae1161a543348b44eaa6"
