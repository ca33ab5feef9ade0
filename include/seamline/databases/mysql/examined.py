"""What a server of MariaDB or MySQL says of itself and of the login of a connection, before anything is declared."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import MARIADB, Session, query
from seamline.databases.mysql.preflight_facts import granted_somewhere, grants_of
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.server_found import CAPTURES, MAKES, READS, ServerFound, Use

_SETTINGS = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_OF_SERVERS = "('mysql', 'information_schema', 'performance_schema', 'sys')"
_ALL = "ALL PRIVILEGES"


class _SessionOfEither(WatchedSession):
    server = "the server of MariaDB or MySQL"


# What its sessions are set to is known to both servers.
_EITHER = replace(MARIADB, session=_SessionOfEither)


@dataclass(frozen=True, slots=True)
class _Facts:
    version: str
    time_zone: str
    cipher: str
    database: str
    tables: int
    everywhere: frozenset[str]
    here: frozenset[str]
    settings: Mapping[str, str]

    @property
    def is_mariadb(self) -> bool:
        return "MARIADB" in self.version.upper()

    def lacks(self, *names: str) -> bool:
        """Whether the login has none of these rights on the whole server."""
        return self.everywhere.isdisjoint({*names, _ALL})

    def lacks_here(self, name: str) -> bool:
        return (self.everywhere | self.here).isdisjoint({name, _ALL})


def examined(connection: Connection) -> ServerFound:
    """Changes nothing. ConfigError: the server refuses the session; TransientError: it cannot be reached."""
    with closing(_EITHER.open_session(connection)) as session:
        try:
            facts = _facts(session, connection.database)
        except pymysql.err.MySQLError as exc:
            raise _EITHER.translated(exc, connection) from exc
    return ServerFound(
        f"{'MariaDB' if facts.is_mariadb else 'MySQL'} {facts.version}",
        f"encrypted ({facts.cipher})" if facts.cipher else "in the clear",
        "mariadb" if facts.is_mariadb else "mysql",
        tuple(_uses(facts)),
        facts.time_zone,
    )


def _facts(session: "Session[Any]", database: str) -> _Facts:
    ((version, zone, roles),) = query(
        session,
        "SELECT VERSION(), IF(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone),"
        " COALESCE(CURRENT_ROLE(), 'NONE')",
    )
    is_mariadb = "MARIADB" in str(version).upper()
    using = "" if is_mariadb or roles == "NONE" else f" FOR CURRENT_USER() USING {roles}"
    grants = [str(row[0]) for row in query(session, f"SHOW GRANTS{using}")]
    ((_, cipher),) = query(session, "SHOW SESSION STATUS LIKE 'Ssl_version'")
    place = ("= %s", (database,)) if database else (f"NOT IN {_OF_SERVERS}", ())
    ((tables,),) = query(
        session,
        f"SELECT COUNT(*) FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema {place[0]}",
        place[1],
    )
    names = "','".join(_SETTINGS)
    settings = {
        str(name): str(value)
        for name, value in query(session, f"SHOW GLOBAL VARIABLES WHERE variable_name IN ('{names}')")
    }
    everywhere, here = grants_of(grants, database)
    # A destination's login may make its databases, and none of them is there yet.
    here = here if database else granted_somewhere(grants)
    return _Facts(str(version), str(zone), str(cipher), database, int(tables), everywhere, here, settings)


def _uses(facts: _Facts) -> list[Use]:
    where = f"in database {facts.database}" if facts.database else "in all databases"
    # Without a right a server shows no table, so an empty database looks like one that may not be read.
    can_read = facts.tables or not facts.lacks_here("SELECT")
    unfit = [
        f"{name} is {facts.settings.get(name, 'unknown')}, wanted {wanted}: the server's option file sets it"
        for name, wanted in _SETTINGS.items()
        if facts.settings.get(name, "").upper() != wanted
    ]
    captures = ["REPLICATION SLAVE"] if facts.lacks("REPLICATION SLAVE", "REPLICATION REPLICA") else []
    captures += ["REPLICATION CLIENT"] if facts.lacks("BINLOG MONITOR", "REPLICATION CLIENT") else []
    makes = [f"{right} on the destination's databases" for right in ("CREATE", "INSERT") if facts.lacks_here(right)]
    return [
        Use(READS, () if can_read else ("SELECT on the tables",), f"{facts.tables} {where}"),
        Use(CAPTURES, tuple(captures), unfit=tuple(unfit)),
        Use(MAKES, tuple(makes)),
    ]
