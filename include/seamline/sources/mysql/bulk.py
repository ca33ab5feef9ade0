"""Whole tables out of MySQL at one position: this process reads them, one after another, through one session.

The server does not say where the snapshot of another process stands, so the tasks' own sessions are not brought to the
position yet: they are not started, and `OpenedSource.read_here` reads in their place.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from seamline.databases.mysql.canonical import MYSQL
from seamline.databases.mysql.client import role
from seamline.databases.mysql.mysql_client import translated
from seamline.databases.mysql.one_session import SessionReaders
from seamline.databases.mysql.snapshot_sessions import NeverTogether, close_all
from seamline.kinds.bulk import OpenedSource, Wanted
from seamline.plan.model import SourcePlan
from seamline.sources.mysql.sessions import errors_translated, open_together, views_at

log = logging.getLogger("seamline.bulk_read")


@contextmanager
def open_source(source: SourcePlan, wanted: Wanted) -> Iterator[OpenedSource]:
    """Views, and a session that reads; one session is both where the source commits too often and allows no lock."""
    connection = role(source, source.reader)
    try:
        sessions, position = open_together(source, connection, wanted.views + 1)
    except NeverTogether as exc:
        log.warning("one session reads and digests table after table: %s", exc)
        sessions, position = open_together(source, connection, 1)
    try:
        with errors_translated(sessions, connection):
            views = views_at(sessions, connection=connection, position=position, tables=wanted.tables)
        read_here = partial(
            SessionReaders,
            sessions[-1],
            connection,
            dialect=MYSQL,
            proof=lambda: str(position),
            translated=translated,
        )
        yield OpenedSource(views[: wanted.views], position, views[0].opened_at, str(position), read_here)
    finally:
        close_all(sessions)
