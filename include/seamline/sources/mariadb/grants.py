"""The statements that the owner of a MariaDB database runs once: three roles, each with the least it needs."""

from collections.abc import Sequence

from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.grants import account, database_pattern
from seamline.databases.mysql.marker import create_statement
from seamline.databases.mysql.read import relation_at
from seamline.domain.table_places import TablePlace
from seamline.kinds.logins import Logins
from seamline.plan.model import SourcePlan


def grant_script(
    database: str,
    tables: Sequence[str],
    *,
    logins: Logins,
    marker_table: str = "seamline_marker",
    snapshot_lock: str = "none",
    databases: Sequence[str] = (),
) -> str:
    """The whole script; `tables` as the capture calls them, `databases` beside `database`. Passwords are placeholders:
    they never pass through Seamline."""
    listed = [relation_at(TablePlace.declared(table, database)) for table in tables]
    marker = relation_at(TablePlace(database, marker_table))
    lines = [
        f"-- MariaDB source, database {database}. Replace the passwords; a login that is there already keeps its own.",
        "-- The binlog keeps them, and the capture may read it: better BY PASSWORD and what SELECT PASSWORD('…') says.",
        *(
            f"CREATE USER IF NOT EXISTS {account(name)} IDENTIFIED BY '<password of {name}>';"
            for name in sorted({logins.capture, logins.reader, logins.marker})
        ),
        "",
        "-- The marker table: its rows prove order and progress in the log.",
        f"USE {quoted(database)};",
        f"{create_statement(marker_table)};",
        "",
        "-- capture: the connector reads the binlog, and at its first start the structure of every table of the",
        "-- database, so that one added to a sync later is known to it.",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {account(logins.capture)};",
        *(f"GRANT SELECT ON {database_pattern(one)}.* TO {account(logins.capture)};" for one in (database, *databases)),
        "",
        "-- reader: snapshots and reconciliation.",
        *(f"GRANT SELECT ON {table} TO {account(logins.reader)};" for table in [*listed, marker]),
    ]
    if snapshot_lock == "brief":
        lines += [
            "-- `snapshot.lock: brief` holds BACKUP STAGE BLOCK_COMMIT for milliseconds.",
            f"GRANT RELOAD ON *.* TO {account(logins.reader)};",
        ]
    lines += [
        "",
        "-- marker: rows of one table, nothing else; it deletes its own old ones.",
        f"GRANT SELECT, INSERT, DELETE ON {marker} TO {account(logins.marker)};",
    ]
    return "\n".join(lines) + "\n"


def script_of(source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:
    """`grant_script` of a plan's source."""
    return grant_script(
        source.database,
        tables,
        logins=logins,
        marker_table=source.marker_table,
        snapshot_lock=source.snapshot_lock,
        databases=source.databases,
    )
