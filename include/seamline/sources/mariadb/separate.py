"""A MariaDB database by itself, for a login that may SELECT and no more."""

from collections.abc import Sequence
from typing import Any

import pymysql

from seamline.databases.mysql import separate
from seamline.databases.mysql.client import Session
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused, TransientError
from seamline.plan.model import SourcePlan
from seamline.ports.separate import OpenedSide
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.sessions import READING, address_of, position_of


def open_separately(source: SourcePlan, tables: Sequence[Table]) -> OpenedSide:
    return separate.open_separately(READING, source, tables, begin=_begin, nowhere=BinlogPosition(""))


def _begin(session: "Session[Any]") -> BinlogPosition | None:
    """A server without a binlog, or a login without BINLOG MONITOR, has no place to name: the time alone is stated."""
    separate.begin_nowhere(session)
    try:
        return position_of(session, address_of(session))
    except (Refused, TransientError, pymysql.err.OperationalError):
        return None
