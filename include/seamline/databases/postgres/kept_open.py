"""A transaction stays open while its caller writes files, for which its session idles at the server."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from seamline.databases.postgres.client import Session

# The server ends a session that idles in a transaction for 15 s: a dead caller's locks are free again by then.
ASKED_EVERY_S = 4.0
# Others wait for the locks of whoever writes, a stream among them.
KEPT_OPEN_S = 600.0


@contextmanager
def kept_open(session: Session) -> Iterator[None]:
    """Ask the server something again and again while the block is open. After `KEPT_OPEN_S` no more: the server ends
    the transaction, and the caller's next statement fails."""
    over = threading.Event()
    asking = threading.Thread(target=_ask, args=(session, over), daemon=True, name="keeps a session open")
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


def _ask(session: Session, over: threading.Event) -> None:
    ends_at = time.monotonic() + KEPT_OPEN_S
    while not over.wait(ASKED_EVERY_S) and time.monotonic() < ends_at:
        try:
            session.execute("SELECT")
        except psycopg.Error:
            # The caller's next statement says why.
            return
