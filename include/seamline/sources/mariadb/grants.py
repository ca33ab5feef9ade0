"""The statements that the owner of a MariaDB database runs once."""

from seamline.databases.mysql.grants import Rights

_RIGHTS = Rights(
    "MariaDB",
    (
        [
            "-- The binlog keeps them, and the capture may read it: better BY PASSWORD and what SELECT PASSWORD('…')"
            " says.",
        ],
        ["-- database, so that one added to a sync later is known to it."],
    ),
    ["REPLICATION SLAVE, BINLOG MONITOR"],
    {
        "brief": (
            "-- `snapshot.lock: brief` holds BACKUP STAGE BLOCK_COMMIT for milliseconds.",
            ["RELOAD ON *.*"],
        )
    },
    "SLAVE MONITOR",
)
grant_script, script_of = _RIGHTS.grant_script, _RIGHTS.script_of
