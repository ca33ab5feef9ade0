"""What preflight asks of MySQL in its own words."""

from typing import Any

import pymysql

from seamline.databases.mysql.client import Session, query
from seamline.databases.mysql.mysql_client import MYSQL
from seamline.databases.mysql.preflight_facts import Questions, Seen
from seamline.sources.mysql.preflight import VARIABLES


def _seen(session: "Session[Any]") -> Seen:
    """What the login may not see has a check of its own: that of its grants."""
    status = _allowed(session, "SHOW BINARY LOG STATUS")
    return Seen(
        *((str(status[0][2]), str(status[0][3])) if status else ("", "")),
        replicates_from=_sources(session),
        prepared_xa=len(_allowed(session, "XA RECOVER")),
    )


def _allowed(session: "Session[Any]", statement: str) -> tuple[tuple[Any, ...], ...]:
    try:
        return query(session, statement)
    except (pymysql.err.OperationalError, pymysql.err.InternalError):
        return ()


def _sources(session: "Session[Any]") -> tuple[str, ...]:
    try:
        with session.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            return tuple(f"{row['Source_Host']}:{row['Source_Port']}" for row in cursor.fetchall())
    except pymysql.err.OperationalError:
        return ()


def _grants(session: "Session[Any]") -> list[str]:
    """SHOW GRANTS must be asked for the roles that are active."""
    ((roles,),) = query(session, "SELECT CURRENT_ROLE()")
    using = "" if roles == "NONE" else f" FOR CURRENT_USER() USING {roles}"
    return [str(row[0]) for row in query(session, f"SHOW GRANTS{using}")]


QUESTIONS = Questions(MYSQL, VARIABLES, _seen, _grants)
