"""PlatformStreamControl: a stream hears orders and tells of itself without ever waiting for the platform database.

One background thread talks to the database: it listens for notices, asks again every few seconds, and passes reports
on. The stream's loop only reads and writes values in memory.
"""

import dataclasses
import hashlib
import logging
import selectors
import socket
import threading
import time
from types import TracebackType
from typing import Self

import psycopg

from seamline.adapters.platform.database import OpenSession, Session, open_session
from seamline.adapters.platform.streams import CHANNEL, put_report
from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import StreamId
from seamline.domain.position import position_from_json
from seamline.ports import Orders, StreamReport

log = logging.getLogger(__name__)

# The plan is compared by its hash: a stream that runs by an older plan is asked to stop, and the host starts it anew.
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


def plan_hash(plan_json: str) -> str:
    """As PostgreSQL's md5() of the text: a name for a plan, not a protection."""
    return hashlib.md5(plan_json.encode(), usedforsecurity=False).hexdigest()


def open_for_stream() -> Session:
    return open_session(application_name="seamline stream control", statement_timeout_s=3)


class PlatformStreamControl:
    """Use it as a context: the thread lives inside.

    `plan_json` and `host` given: orders say `wanted=False` as soon as the stream is wanted by another plan, or the
    pool's lease belongs to another host. `first`: the orders until the database was heard.
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
    ) -> None:
        self._stream = stream
        self._host = host
        self._question = {
            "sync": stream.sync,
            "destination": stream.destination,
            "plan": plan_hash(plan_json) if plan_json else "",
            "host": host,
        }
        self._open = open_one
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._orders = first or Orders()
        # Database clock minus this process's steady clock: a step of the wall clock ends no lease early or late.
        self._clock_offset_s = 0.0
        self._unsent: StreamReport | None = None
        self._last: StreamReport | None = None
        self._dropped = 0
        self._is_away = False
        self._is_closing = False
        self._bell, self._ear = socket.socketpair()
        self._bell.settimeout(0)
        self._ear.settimeout(0)
        self._thread = threading.Thread(target=self._live, name=f"control {stream}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing = True
        self._ring()
        # Long enough for the last report, too short to hold back whoever waits for this stream to end.
        self._thread.join(timeout=5)
        self._bell.close()

    # ---- the stream's side: memory only ----------------------------------------------------------------------------

    def orders(self) -> Orders:
        with self._lock:
            orders, offset_s = self._orders, self._clock_offset_s
        if not orders.hold_id:
            return orders
        left_s = orders.hold_until_s - (time.monotonic() + offset_s)
        if left_s <= 0:
            return dataclasses.replace(orders, hold_id="", hold_until_s=0.0, apply_to=None)
        return dataclasses.replace(orders, hold_until_s=time.time() + left_s)

    def report(self, report: StreamReport) -> None:
        with self._lock:
            if self._unsent is not None and self._is_away:
                self._dropped += 1
            last = self._last
            self._unsent = self._last = report
        if last is None or _is_news(last, report):
            self._ring()

    @property
    def reports_dropped(self) -> int:
        return self._dropped

    def _ring(self) -> None:
        try:
            self._bell.send(b"!")
        except (BlockingIOError, OSError):
            return  # the thread has many rings to hear already, or is gone

    # ---- the thread's side -----------------------------------------------------------------------------------------

    def _live(self) -> None:
        with self._ear:
            while not self._is_closing:
                try:
                    with self._open() as session:
                        session.execute(f"listen {CHANNEL}")
                        # A report lost with a crash of that server is of no use afterwards.
                        session.execute("set synchronous_commit = off")
                        self._talk(session)
                except (psycopg.Error, SeamlineError) as exc:
                    self._note_absence(exc)
                    self._wait_to_try_again()

    def _talk(self, session: Session) -> None:
        while True:
            is_closing = self._is_closing
            self._send(session)
            if is_closing:
                return
            self._ask(session)
            self._sleep(session)

    def _send(self, session: Session) -> None:
        with self._lock:
            # Also an old report is sent at every turn: its age tells that this worker lives.
            report, dropped = self._last, self._dropped
        if report is not None:
            put_report(session, dataclasses.replace(report, host=self._host, reports_dropped=dropped))
        with self._lock:
            if self._unsent is report:
                self._unsent = None
            if self._is_away:
                log.info("platform database is back: stream=%s reports_dropped=%d", self._stream, dropped)
            self._is_away = False

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

    def _sleep(self, session: Session) -> None:
        """Until a notice, a ring or the next poll."""
        # A notice that came in with the last answer waits inside the client: the socket tells nothing of it.
        if any(True for _ in session.notifies(timeout=0)):
            return
        with selectors.DefaultSelector() as selector:
            selector.register(session.fileno(), selectors.EVENT_READ)
            selector.register(self._ear, selectors.EVENT_READ)
            selector.select(self._poll_s)
        self._drain()

    def _drain(self) -> None:
        try:
            while self._ear.recv(4096):
                pass
        except BlockingIOError:
            return

    def _note_absence(self, exc: Exception) -> None:
        with self._lock:
            is_news, self._is_away = not self._is_away, True
        if is_news:
            reason = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
            log.warning("platform database is away, orders stay as before: stream=%s error=%s", self._stream, reason)

    def _wait_to_try_again(self) -> None:
        """A ring does not shorten it, or each report would mean an attempt to connect; only the end does."""
        deadline = time.monotonic() + self._poll_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            while not self._is_closing and (left_s := deadline - time.monotonic()) > 0:
                selector.select(left_s)
                self._drain()


def _is_news(last: StreamReport, report: StreamReport) -> bool:
    """What somebody may be waiting for; the rest is passed on at the next poll."""
    return (last.state, last.hold_id, last.error, last.epoch) != (
        report.state,
        report.hold_id,
        report.error,
        report.epoch,
    )
