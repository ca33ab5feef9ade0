"""What a task reads the tables of a MariaDB source with, and how its parent sees that it hangs."""

from collections.abc import Sequence
from contextlib import closing

import pymysql

from seamline.databases.mysql import client
from seamline.databases.mysql.canonical import text_literal
from seamline.databases.mysql.snapshot_barrier import BarrierLocks
from seamline.databases.mysql.watched import what_hangs
from seamline.domain.errors import SeamlineError, TransientError
from seamline.kinds.bulk import BulkRead, TableReaders
from seamline.plan.model import SourcePlan
from seamline.sources.mariadb.bulk import BulkReaders


def open_readers(source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int) -> TableReaders:
    """`SourceKind.open_readers`."""
    connection = client.role(source, source.reader)
    return BulkReaders(connection, reads, locks=BarrierLocks(barrier), participant=participant, places=source.places)


def why_it_hangs(source: SourcePlan, waits_for: str) -> str:
    """`hanging.Look` at the session that holds the user lock `waits_for`."""
    connection = client.role(source, source.reader)
    try:
        with closing(client.open_session(connection)) as session:
            ((number,),) = client.query(session, f"SELECT IS_USED_LOCK({text_literal(waits_for)})")
            return what_hangs(session, number or 0)
    except TransientError as exc:
        return f"the server does not answer another session either ({exc})"
    except (SeamlineError, pymysql.err.MySQLError):
        return ""  # it refuses the session, so it lives
