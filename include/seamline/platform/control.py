"""PlatformStreamControl: a stream hears orders and reports without ever waiting for the platform database.

One background thread talks to the database: it listens for notices, asks again every few seconds, and passes reports
on. The stream's loop only reads and writes values in memory. Its first orders alone, by which it takes the right to
write, are asked for at that moment.
"""

import dataclasses
import hashlib
import threading
import time
from types import TracebackType
from typing import Self

from seamline.domain.ledger import StreamId
from seamline.domain.position import position_from_json
from seamline.platform.database import OpenSession, Session, open_session
from seamline.platform.notify_loop import NotifyLoop
from seamline.platform.streams import put_report
from seamline.ports import Orders, StreamReport

# The plan is compared by its hash: a stream that runs by an older plan is asked to stop, and the host starts it again.
_ORDERS = """
select stream.is_wanted
        and (%(plan)s = '' or md5(stream.plan_json) = %(plan)s)
        and (%(host)s = '' or (lease.holder = %(host)s and not lease.is_stopping)),
    stream.is_paused, hold.hold_id, extract(epoch from hold.until), hold.apply_to,
    extract(epoch from clock_timestamp())
from (select 1) as always
left join stream on stream.sync = %(sync)s and stream.destination = %(destination)s
left join host_lease as lease on lease.pool = stream.pool
left join lateral (
    select * from stream_hold
    where stream_hold.sync = stream.sync and stream_hold.destination = stream.destination
        and stream_hold.until > clock_timestamp()
    order by asked_at limit 1
) as hold on true
"""


# A loop reports every 5 s, unless it is at work on one span for longer.
_REPORTS_WITHIN_S = 10.0


def as_of_now(report: StreamReport, *, age_s: float) -> StreamReport:
    """A report of `age_s` seconds ago, with the lag of now: no reader has seen anything of these seconds yet. A stream
    that has not begun has no lag."""
    if not report.epoch or age_s < _REPORTS_WITHIN_S:
        return report
    return dataclasses.replace(report, lag_s=report.lag_s + age_s)


def plan_hash(plan_json: str) -> str:
    """As PostgreSQL's md5() of the text: a name for a plan, not a protection."""
    return hashlib.md5(plan_json.encode(), usedforsecurity=False).hexdigest()


def open_for_stream() -> Session:
    session = open_session(application_name="seamline stream control", statement_timeout_s=3)
    # A report lost with a crash of that server is of no use afterwards.
    session.execute("set synchronous_commit = off")
    return session


class PlatformStreamControl:
    """Use it as a context: the thread lives inside.

    `plan_json` and `host` given: orders say `wanted=False` as soon as the stream is wanted by another plan, or the
    pool's lease belongs to another host. `first`: the orders until the database has answered. `patience_s`:
    how long the first call of `orders` waits for that.
    """

    def __init__(
        self,
        stream: StreamId,
        *,
        plan_json: str = "",
        host: str = "",
        first: Orders | None = None,
        open_one: OpenSession = open_for_stream,
        poll_s: float = 5.0,
        patience_s: float = 10.0,
    ) -> None:
        self._stream = stream
        self._patience_s = patience_s
        self._was_asked = False
        self._host = host
        self._question = {
            "sync": stream.sync,
            "destination": stream.destination,
            "plan": plan_hash(plan_json) if plan_json else "",
            "host": host,
        }
        self._lock = threading.Lock()
        self._orders = first or Orders()
        # Database clock minus this process's steady clock: a step of the wall clock ends no lease early or late.
        self._clock_offset_s = 0.0
        self._unsent: StreamReport | None = None
        self._last: StreamReport | None = None
        self._reported_at = time.monotonic()
        self._dropped = 0
        self._loop = NotifyLoop(str(stream), cycle=self._cycle, open_one=open_one, poll_s=poll_s)

    def __enter__(self) -> Self:
        self._loop.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.close()

    # ---- the stream's side: memory only, once it runs --------------------------------------------------------------

    def orders(self) -> Orders:
        if not self._was_asked:
            # What was heard when this worker began may be long past: it may have slept since.
            self._was_asked = True
            self._loop.wait_for_cycle(timeout_s=self._patience_s)
        with self._lock:
            orders, offset_s = self._orders, self._clock_offset_s
        if self._loop.is_away:
            orders = dataclasses.replace(orders, are_old=True)
        if not orders.hold_id:
            return orders
        left_s = orders.hold_until_s - (time.monotonic() + offset_s)
        if left_s <= 0:
            return dataclasses.replace(orders, hold_id="", hold_until_s=0.0, apply_to=None)
        return dataclasses.replace(orders, hold_until_s=time.time() + left_s)

    def report(self, report: StreamReport) -> None:
        with self._lock:
            if self._unsent is not None and self._loop.is_away:
                self._dropped += 1
            last = self._last
            self._unsent = self._last = report
            self._reported_at = time.monotonic()
        if last is None or _is_news(last, report):
            self._loop.wake()

    @property
    def reports_dropped(self) -> int:
        return self._dropped

    # ---- the thread's side -----------------------------------------------------------------------------------------

    def _cycle(self, session: Session) -> None:
        self._send(session)
        self._ask(session)

    def _send(self, session: Session) -> None:
        with self._lock:
            # Also an old report is sent at every cycle: its age shows that this worker lives.
            report, dropped, age_s = self._last, self._dropped, time.monotonic() - self._reported_at
        if report is not None:
            now = as_of_now(report, age_s=age_s)
            put_report(session, dataclasses.replace(now, host=self._host, reports_dropped=dropped))
        with self._lock:
            if self._unsent is report:
                self._unsent = None

    def _ask(self, session: Session) -> None:
        before = time.monotonic()
        row = session.execute(_ORDERS, self._question).fetchone()
        after = time.monotonic()
        if row is None:
            return
        is_wanted, is_paused, hold_id, until_s, apply_to, now_s = row
        orders = Orders(
            wanted=bool(is_wanted),
            paused=bool(is_paused),
            hold_id=hold_id or "",
            hold_until_s=float(until_s or 0),
            apply_to=position_from_json(apply_to) if apply_to else None,
        )
        with self._lock:
            self._orders = orders
            self._clock_offset_s = float(now_s) - (before + after) / 2


def _is_news(last: StreamReport, report: StreamReport) -> bool:
    """What somebody may be waiting for; the rest is passed on at the next poll."""
    return (last.state, last.hold_id, last.error, last.epoch) != (
        report.state,
        report.hold_id,
        report.error,
        report.epoch,
    )
