"""The statements that the owner of a MySQL database runs once."""

from seamline.databases.mysql.grants import Rights

_RIGHTS = Rights(
    "MySQL",
    (
        [],
        ["-- database, so that one added to a sync later is known to it. XA_RECOVER_ADMIN lists XA transactions."],
    ),
    ["REPLICATION SLAVE, REPLICATION CLIENT", "XA_RECOVER_ADMIN"],
    {
        "brief": (
            "-- `snapshot.lock: brief` holds FLUSH TABLES WITH READ LOCK for milliseconds, never beside a long\n"
            "-- statement, and reads where the log is.",
            ["REPLICATION CLIENT, PROCESS ON *.*", "FLUSH_TABLES ON *.*"],
        ),
        "none": (
            "-- `snapshot.lock: none` takes no lock. This is what it needs to read where the log is.",
            ["BACKUP_ADMIN ON *.*", "SELECT ON performance_schema.log_status"],
        ),
    },
    "REPLICATION CLIENT",
)
grant_script, script_of = _RIGHTS.grant_script, _RIGHTS.script_of
