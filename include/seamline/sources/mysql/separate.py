"""A MySQL database by itself, for a login that may SELECT and no more."""

from collections.abc import Sequence
from typing import Any

import pymysql

from seamline.databases.mysql import separate
from seamline.databases.mysql.client import Session
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused
from seamline.plan.model import SourcePlan
from seamline.ports.separate import OpenedSide
from seamline.sources.mysql.gtid_set import GtidSet
from seamline.sources.mysql.position import MySqlPosition
from seamline.sources.mysql.sessions import READING, position_now


def open_separately(source: SourcePlan, tables: Sequence[Table]) -> OpenedSide:
    return separate.open_separately(READING, source, tables, begin=_begin, nowhere=MySqlPosition(GtidSet()))


def _begin(session: "Session[Any]") -> MySqlPosition | None:
    """Its place is that of the log before and after, where these are the same. A login without BACKUP_ADMIN may not ask
    for it: the time alone is stated."""
    before = _now(session)
    separate.begin_nowhere(session)
    return before if before is not None and before == _now(session) else None


def _now(session: "Session[Any]") -> MySqlPosition | None:
    try:
        return position_now(session)
    except (Refused, pymysql.err.OperationalError):
        return None
