"""What a MySQL source must be before anything is built on its log.

Facts and most rules are those of `databases.mysql.preflight`; here is what MySQL 9.7 has otherwise. Every
rule is a pure function.
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
TESTED_VERSION = "9.7"
_FOR_GOOD = "after a crash the server could lose transactions that were already captured"
# variable → (value wanted, why)
_WANTED = {
    "log_bin": ("ON", "without a binlog there is nothing to capture"),
    "binlog_format": ("ROW", "other formats do not log rows: changes would be lost without a trace"),
    "binlog_row_image": ("FULL", "with partial rows the capture stops at the first change"),
    "binlog_row_metadata": ("FULL", "the log must name columns and signedness itself"),
    "binlog_row_value_options": ("", "a document would be logged as a difference, and its update lost without a trace"),
    "gtid_mode": ("ON", "only then does every transaction have a name"),
    "enforce_gtid_consistency": ("ON", "only then does every transaction keep its name"),
    "binlog_order_commits": ("ON", "else transactions become visible in another order than the log has them"),
    "sync_binlog": ("1", _FOR_GOOD),
    "innodb_flush_log_at_trx_commit": ("1", _FOR_GOOD),
}
_OF_SESSIONS = ("binlog_format", "binlog_row_image", "binlog_row_value_options")
# What `preflight_facts` asks for.
VARIABLES = (
    *_WANTED,
    *("binlog_expire_logs_seconds", "binlog_expire_logs_auto_purge", "innodb_native_foreign_keys", "server_id"),
    *("sql_mode", "max_allowed_packet", "lower_case_table_names", "version", "group_replication_group_name"),
)


def check(facts: SourceFacts) -> tuple[Problem, ...]:
    """Every problem of every rule, in the order of the rules."""
    return problems(facts, RULES)


def version(facts: SourceFacts) -> Sequence[Problem]:
    said = facts.variables.get("version", "")
    if "MARIADB" in said.upper() or not said:
        what = f"the server is no MySQL (version {said or 'unknown'}): its log and catalogue have another form"
        return [Problem(what, "declare a source of kind mariadb")]
    if said.startswith(f"{TESTED_VERSION}."):
        return []
    what = f"the server is MySQL {said}, and Seamline is tested on {TESTED_VERSION}"
    return [Problem(what, "try a copy of it first, with every type that your tables have", is_fatal=False)]


def binlog_settings(facts: SourceFacts) -> Sequence[Problem]:
    return [
        Problem(
            f"{name} is {facts.variables.get(name, 'unknown') or 'empty'}, wanted {wanted or 'empty'}: {why}",
            set_global(name, wanted or "''"),
        )
        for name, (wanted, why) in _WANTED.items()
        if facts.variables.get(name, "unknown").upper() != wanted
    ]


def sessions(facts: SourceFacts) -> Sequence[Problem]:
    return session_settings(facts, wanted={name: _WANTED[name][0] for name in _OF_SESSIONS})


def untested_modes(facts: SourceFacts) -> Sequence[Problem]:
    if group := facts.variables.get("group_replication_group_name", ""):
        what = f"the server is a member of Group Replication ({group}), whose positions were not tested"
        return [Problem(what, "use a server of its own as the source")]
    return []


def cascades(facts: SourceFacts) -> Sequence[Problem]:
    """Since 9.6 the server carries such actions out itself and logs the child's rows; InnoDB's own are not logged."""
    is_logged = facts.variables.get("innodb_native_foreign_keys", "ON").upper() in ("OFF", "0")
    silent = ("CASCADE", "SET NULL", "SET DEFAULT")
    return [
        Problem(
            f"foreign key {key.name} of table {key.table} acts by itself (ON DELETE {key.on_delete}, ON UPDATE"
            f" {key.on_update}), and InnoDB does not write such changes into the binlog, so they would be lost",
            "set innodb_native_foreign_keys = OFF (MySQL 9.6 and later), or make the key RESTRICT and let the"
            " application change the child rows, or leave the table out of the sync",
            table=key.table,
        )
        for key in facts.foreign_keys
        if not is_logged and (key.on_delete.upper() in silent or key.on_update.upper() in silent)
    ]


def kept_log(facts: SourceFacts) -> Sequence[Problem]:
    """The period counts only where the server purges by itself."""
    return [] if facts.variables.get("binlog_expire_logs_auto_purge", "ON").upper() == "OFF" else retention(facts)


def reader_role(facts: SourceFacts) -> Sequence[Problem]:
    found = unreadable(facts.reader)
    if not facts.brief_lock:
        if not facts.reader.has("BACKUP_ADMIN"):
            found.append(lacks(facts.reader, "BACKUP_ADMIN, which `snapshot.lock: none` needs to read log_status"))
        return found
    if not facts.reader.has("RELOAD", "FLUSH_TABLES"):
        found.append(lacks(facts.reader, "FLUSH_TABLES, which `snapshot.lock: brief` needs"))
    if not facts.reader.has("REPLICATION CLIENT"):
        found.append(lacks(facts.reader, "REPLICATION CLIENT, which `snapshot.lock: brief` needs"))
    if not facts.reader.has("PROCESS"):
        found.append(lacks(facts.reader, "PROCESS, by which `snapshot.lock: brief` keeps from long statements"))
    return found


def capture_role(facts: SourceFacts) -> Sequence[Problem]:
    found = unreadable(facts.capture)
    if not facts.capture.has_on_database("SELECT"):
        # The connector reads all structures at its first start: a table that it could not see is unknown later.
        found.append(lacks(facts.capture, f"SELECT on the whole database {facts.database}"))
    found += [
        lacks(facts.capture, name)
        for name in ("REPLICATION SLAVE", "REPLICATION CLIENT")
        if not facts.capture.has(name)
    ]
    if not facts.capture.has("XA_RECOVER_ADMIN"):
        # The rows of such a transaction are in the log before it is committed.
        found.append(lacks(facts.capture, "XA_RECOVER_ADMIN, so nobody knows of prepared XA transactions"))
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
    kept_log,
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
