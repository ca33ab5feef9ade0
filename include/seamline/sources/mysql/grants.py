"""The statements that the owner of a MySQL database runs once: three roles, each with the least it needs."""

from collections.abc import Sequence

from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.grants import account, database_pattern
from seamline.databases.mysql.marker import create_statement
from seamline.kinds.logins import Logins
from seamline.plan.model import SourcePlan


def grant_script(
    database: str,
    tables: Sequence[str],
    *,
    logins: Logins,
    marker_table: str = "seamline_marker",
    snapshot_lock: str = "none",
) -> str:
    """The whole script. Passwords are placeholders: they never pass through Seamline."""
    place = f"{quoted(database)}.{{}}"
    listed = [place.format(quoted(table)) for table in tables]
    marker = place.format(quoted(marker_table))
    reader = account(logins.reader)
    lines = [
        f"-- MySQL source, database {database}. Replace the passwords; a login that is there already keeps its own.",
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
        "-- database, so that one added to a sync later is known to it. XA_RECOVER_ADMIN lists XA transactions.",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {account(logins.capture)};",
        f"GRANT XA_RECOVER_ADMIN ON *.* TO {account(logins.capture)};",
        f"GRANT SELECT ON {database_pattern(database)}.* TO {account(logins.capture)};",
        "",
        "-- reader: snapshots and reconciliation.",
        *(f"GRANT SELECT ON {table} TO {reader};" for table in [*listed, marker]),
    ]
    if snapshot_lock == "brief":
        lines += [
            "-- `snapshot.lock: brief` holds FLUSH TABLES WITH READ LOCK for milliseconds, and reads where the log is.",
            f"GRANT REPLICATION CLIENT ON *.* TO {reader};",
            f"GRANT FLUSH_TABLES ON *.* TO {reader};",
        ]
    else:
        lines += [
            "-- `snapshot.lock: none` takes no lock. This is what it needs to read where the log is.",
            f"GRANT BACKUP_ADMIN ON *.* TO {reader};",
            f"GRANT SELECT ON performance_schema.log_status TO {reader};",
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
    )
