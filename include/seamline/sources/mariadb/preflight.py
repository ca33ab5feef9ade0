"""What a MariaDB source must be before anything is built on its log.

`preflight_facts` asks the server with the three roles' own sessions; every rule is a pure function of the facts.
"""

from collections.abc import Sequence

from seamline.databases.mysql.preflight import (
    Rule,
    SourceFacts,
    binlog_filters,
    engines,
    lacks,
    marker_role,
    marker_table,
    problems,
    read_values,
    reader_without_log,
    replica,
    retention,
    server_id,
    session_settings,
    set_global,
    unreadable,
    values,
    xa,
)
from seamline.ports import Problem

# The only one that anything here was tried on; log, catalogue and connector all go by the server's version.
TESTED_VERSION = "11.4"
# variable → (value wanted, why)
_WANTED = {
    "log_bin": ("ON", "without a binlog there is nothing to capture"),
    "binlog_format": ("ROW", "other formats do not log rows: changes would be lost without a trace"),
    "binlog_row_image": ("FULL", "with partial rows the capture stops at the first change"),
    "binlog_row_metadata": ("FULL", "the log must hold columns and signedness itself"),
    "gtid_strict_mode": ("ON", "only then do sequence numbers order the log"),
    "sync_binlog": ("1", "after a crash the server could lose transactions that were already captured"),
    "innodb_flush_log_at_trx_commit": ("1", "after a crash the server could lose transactions already captured"),
}


def check(facts: SourceFacts) -> tuple[Problem, ...]:
    """Every problem of every rule, in the order of the rules."""
    return problems(facts, RULES)


def version(facts: SourceFacts) -> Sequence[Problem]:
    said = facts.variables.get("version", "")
    if "MARIADB" not in said.upper():
        what = f"the server is no MariaDB (version {said or 'unknown'}): what its log and catalogue say was never tried"
        return [Problem(what, "declare a source of kind mysql")]
    if said.startswith(f"{TESTED_VERSION}."):
        return []
    what = f"the server is MariaDB {said}, and Seamline is tested on {TESTED_VERSION}"
    cure = (
        "try a copy of it first: `./seamline certify` sends every type both ways, and the nightly comparison every row"
    )
    return [Problem(what, cure, is_fatal=False)]


def binlog_settings(facts: SourceFacts) -> Sequence[Problem]:
    return [
        Problem(f"{name} is {facts.variables.get(name, 'unknown')}, wanted {wanted}: {why}", set_global(name, wanted))
        for name, (wanted, why) in _WANTED.items()
        if facts.variables.get(name, "").upper() != wanted
    ]


def sessions(facts: SourceFacts) -> Sequence[Problem]:
    return session_settings(facts, wanted={name: _WANTED[name][0] for name in ("binlog_format", "binlog_row_image")})


def untested_modes(facts: SourceFacts) -> Sequence[Problem]:
    found = []
    for name, why in (
        ("log_bin_compress", "compressed binlog events were not tested with the connector"),
        ("wsrep_on", "a Galera cluster's positions were not tested"),
    ):
        if facts.variables.get(name, "OFF").upper() not in ("OFF", "0", ""):
            found.append(Problem(f"{name} is ON: {why}", set_global(name, "OFF")))
    return found


def cascades(facts: SourceFacts) -> Sequence[Problem]:
    """InnoDB carries out such actions by itself, below the binlog: the child's rows change without a log record."""
    silent = ("CASCADE", "SET NULL", "SET DEFAULT")
    return [
        Problem(
            f"foreign key {key.name} of table {key.table} acts by itself (ON DELETE {key.on_delete}, ON UPDATE "
            f"{key.on_update}): MariaDB does not write such changes into the binlog, so they would be lost",
            "make it RESTRICT and let the application change the child rows, or leave the table out of the sync",
            table=key.table,
        )
        for key in facts.foreign_keys
        if key.on_delete.upper() in silent or key.on_update.upper() in silent
    ]


def reader_role(facts: SourceFacts) -> Sequence[Problem]:
    found = unreadable(facts.reader)
    if facts.brief_lock and not facts.reader.has("RELOAD"):
        found.append(lacks(facts.reader, "RELOAD, which `snapshot.lock: brief` needs"))
    return found


def capture_role(facts: SourceFacts) -> Sequence[Problem]:
    found = unreadable(facts.capture)
    if not facts.capture.has_on_database("SELECT"):
        # The connector reads all structures at its first start. A table that it could not see then is unknown when a
        # sync adds it later, and its first row stops the capture for good (seen on 3.5.0.Final).
        found.append(lacks(facts.capture, f"SELECT on the whole database {facts.database}"))
    if not facts.capture.has("REPLICATION SLAVE", "REPLICATION REPLICA"):
        found.append(lacks(facts.capture, "REPLICATION SLAVE"))
    if not facts.capture.has("BINLOG MONITOR", "REPLICATION CLIENT"):
        found.append(lacks(facts.capture, "BINLOG MONITOR (REPLICATION CLIENT before 10.5)"))
    return found


RULES: tuple[Rule, ...] = (
    version,
    binlog_settings,
    sessions,
    untested_modes,
    server_id,
    binlog_filters,
    replica,
    engines,
    xa,
    cascades,
    retention,
    values,
    marker_table,
    reader_role,
    capture_role,
    marker_role,
)

# Of a source without a log.
RULES_WITHOUT_LOG: tuple[Rule, ...] = (version, engines, read_values, reader_without_log)

# Of another database of the server.
RULES_OF_TABLES: tuple[Rule, ...] = (engines, cascades, reader_role, capture_role)
