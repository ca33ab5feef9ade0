"""What a MariaDB source must be before anything is built on its log.

`gather` asks the server with the three roles' own sessions; every rule is a pure function of the facts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from seamline.ports import Problem

GRANTS = "docs/reference/grants.md has the statements for the database's owner"
# The only one that anything here was tried on; log, catalogue and connector all go by the server's version.
TESTED_VERSION = "11.4"
EXPIRE_LEAST_S = 24 * 3600
EXPIRE_ADVISED_S = 7 * 24 * 3600
PACKET_ADVISED_BYTES = 16 * 1024 * 1024
MARKER_SHAPE = {"id": "varchar(64)", "kind": "varchar(16)", "payload": "text", "at": "timestamp(6)"}


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """What one role's own session showed. `global_grants` are privileges ON *.*, `database_grants` those ON the
    database's `.*`, upper case."""

    connection_id: str
    login: str
    global_grants: frozenset[str] = frozenset()
    database_grants: frozenset[str] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)  # table → the server's refusal
    marker_error: str = ""  # the server's refusal of an INSERT into the marker table, rolled back
    prune_error: str = ""  # its refusal of a DELETE there
    session: Mapping[str, str] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        return bool(self.global_grants & {"ALL PRIVILEGES", *names})

    def has_on_database(self, name: str) -> bool:
        return self.has(name) or bool(self.database_grants & {"ALL PRIVILEGES", name})


@dataclass(frozen=True, slots=True)
class ForeignKeyAction:
    table: str
    name: str
    on_delete: str
    on_update: str


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One look at the server. `variables` are global, names in lower case; unknown ones are absent."""

    database: str
    variables: Mapping[str, str]
    engines: Mapping[str, str]  # wanted table → engine
    prepared_xa: int = 0
    foreign_keys: tuple[ForeignKeyAction, ...] = ()
    binlog_do: str = ""
    binlog_ignore: str = ""
    replicates_from: tuple[str, ...] = ()
    marker_table: str = "seamline_marker"
    marker_columns: Mapping[str, str] = field(default_factory=dict)
    marker_key: tuple[str, ...] = ()
    marker_engine: str = ""
    brief_lock: bool = False
    reader: RoleFacts = field(default_factory=lambda: RoleFacts("reader", ""))
    capture: RoleFacts = field(default_factory=lambda: RoleFacts("capture", ""))
    marker: RoleFacts = field(default_factory=lambda: RoleFacts("marker", ""))


Rule = Callable[[SourceFacts], Sequence[Problem]]

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
    return tuple(problem for rule in RULES for problem in rule(facts))


def version(facts: SourceFacts) -> Sequence[Problem]:
    said = facts.variables.get("version", "")
    if "MARIADB" not in said.upper():
        what = f"the server is no MariaDB (version {said or 'unknown'}): what its log and catalogue say was never tried"
        return [Problem(what, "declare a MariaDB; MySQL is not supported yet")]
    if said.startswith(f"{TESTED_VERSION}."):
        return []
    what = f"the server is MariaDB {said}, and Seamline is tested on {TESTED_VERSION}"
    cure = (
        "try a copy of it first: `./seamline certify` sends every type both ways, and the nightly comparison every row"
    )
    return [Problem(what, cure, is_fatal=False)]


def binlog_settings(facts: SourceFacts) -> Sequence[Problem]:
    return [
        Problem(f"{name} is {facts.variables.get(name, 'unknown')}, wanted {wanted}: {why}", _set_global(name, wanted))
        for name, (wanted, why) in _WANTED.items()
        if facts.variables.get(name, "").upper() != wanted
    ]


def session_settings(facts: SourceFacts) -> Sequence[Problem]:
    """A session's own value wins over the global one, and logins can get theirs from init_connect or a proxy."""
    return [
        Problem(
            f"new sessions of `{role.login}` have {name} = {role.session[name]}, wanted {_WANTED[name][0]}",
            "look for init_connect, option files or a proxy that sets it; no session may change it",
        )
        for role in (facts.reader, facts.capture, facts.marker)
        for name in ("binlog_format", "binlog_row_image")
        if name in role.session and role.session[name].upper() != _WANTED[name][0]
    ]


def untested_modes(facts: SourceFacts) -> Sequence[Problem]:
    found = []
    for name, why in (
        ("log_bin_compress", "compressed binlog events were not tested with the connector"),
        ("wsrep_on", "a Galera cluster's positions were not tested"),
    ):
        if facts.variables.get(name, "OFF").upper() not in ("OFF", "0", ""):
            found.append(Problem(f"{name} is ON: {why}", _set_global(name, "OFF")))
    if facts.variables.get("server_id", "0") == "0":
        found.append(Problem("server_id is 0: the server sends its binlog to nobody", "give the server an id"))
    return found


def binlog_filters(facts: SourceFacts) -> Sequence[Problem]:
    """Filters drop changes before they reach the log; nothing in the log shows it.

    Rows are left out by the database of their table, statements by the one that their session has chosen: `TRUNCATE
    bank.account` after `USE mysql` is lost where `mysql` is left out.
    """
    if not facts.binlog_do and not facts.binlog_ignore:
        return []
    filters = f"binlog_do_db = {facts.binlog_do!r}, binlog_ignore_db = {facts.binlog_ignore!r}"
    what = f"the binlog leaves out what sessions in some databases do, also to tables of {facts.database}: {filters}"
    return [Problem(what, "remove the filter from the server's option file and restart it")]


def replica(facts: SourceFacts) -> Sequence[Problem]:
    if not facts.replicates_from:
        return []
    return [
        Problem(
            f"this server is a replica of {', '.join(facts.replicates_from)}: its positions are not its primary's",
            "point the source's connections at the primary",
        )
    ]


def engines(facts: SourceFacts) -> Sequence[Problem]:
    return [
        Problem(
            f"table {table} uses engine {engine}: a consistent snapshot does not cover it",
            f"ALTER TABLE `{table}` ENGINE=InnoDB",
            table=table,
        )
        for table, engine in facts.engines.items()
        if engine.lower() != "innodb"
    ]


def xa(facts: SourceFacts) -> Sequence[Problem]:
    if not facts.prepared_xa:
        return []
    return [
        Problem(
            f"{facts.prepared_xa} prepared XA transactions: their rows are in the binlog before they are committed",
            "end them (XA RECOVER lists them) and do not use XA on the captured tables",
        )
    ]


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


def retention(facts: SourceFacts) -> Sequence[Problem]:
    seconds = int(float(facts.variables.get("binlog_expire_logs_seconds", "0") or 0))
    if not seconds or seconds >= EXPIRE_ADVISED_S:
        return []
    return [
        Problem(
            f"the binlog is kept for {seconds / 3600:.0f} h only: a capture that pauses longer loses its place",
            _set_global("binlog_expire_logs_seconds", str(EXPIRE_ADVISED_S)),
            is_fatal=seconds < EXPIRE_LEAST_S,
        )
    ]


def values(facts: SourceFacts) -> Sequence[Problem]:
    found = []
    modes = facts.variables.get("sql_mode", "").upper().split(",")
    if not {"NO_ZERO_DATE", "TRADITIONAL"} & set(modes):
        found.append(
            Problem(
                "sql_mode allows zero dates ('0000-00-00'): a snapshot or a stream stops where one is written",
                "add NO_ZERO_DATE and NO_ZERO_IN_DATE to sql_mode",
                is_fatal=False,
            )
        )
    packet = int(facts.variables.get("max_allowed_packet", "0") or 0)
    if packet < PACKET_ADVISED_BYTES:
        found.append(
            Problem(
                f"max_allowed_packet is {packet} bytes: row texts longer than that cannot be compared",
                _set_global("max_allowed_packet", str(PACKET_ADVISED_BYTES)),
                is_fatal=False,
            )
        )
    if facts.variables.get("lower_case_table_names", "0") != "0":
        found.append(
            Problem(
                "lower_case_table_names is not 0: a TRUNCATE that writes a table's name in another case than the server"
                " stops its stream, for the log does not say which table it is of",
                "let the statements write names as information_schema prints them",
                is_fatal=False,
            )
        )
    return found


def marker_table(facts: SourceFacts) -> Sequence[Problem]:
    from_owner = f"let the owner of database {facts.database} create it; {GRANTS}"
    if not facts.marker_columns:
        return [Problem(f"there is no marker table `{facts.marker_table}`, or the reader may not read it", from_owner)]
    wrong = [
        f"{name} is {facts.marker_columns.get(name, 'missing')}, wanted {wanted}"
        for name, wanted in MARKER_SHAPE.items()
        if facts.marker_columns.get(name) != wanted
    ]
    if facts.marker_key != ("id",):
        wrong.append(f"its primary key is {facts.marker_key}, wanted (id)")
    if facts.marker_engine.lower() != "innodb":
        wrong.append(f"its engine is {facts.marker_engine}, wanted InnoDB")
    if not wrong:
        return []
    return [Problem(f"marker table `{facts.marker_table}` is not as it must be: {'; '.join(wrong)}", from_owner)]


def reader_role(facts: SourceFacts) -> Sequence[Problem]:
    found = _unreadable(facts.reader)
    if facts.brief_lock and not facts.reader.has("RELOAD"):
        found.append(_lacks(facts.reader, "RELOAD, which `snapshot.lock: brief` needs"))
    return found


def capture_role(facts: SourceFacts) -> Sequence[Problem]:
    found = _unreadable(facts.capture)
    if not facts.capture.has_on_database("SELECT"):
        # The connector reads all structures at its first start. A table that it could not see then is unknown when a
        # sync adds it later, and its first row stops the capture for good (seen on 3.5.0.Final).
        found.append(_lacks(facts.capture, f"SELECT on the whole database {facts.database}"))
    if not facts.capture.has("REPLICATION SLAVE", "REPLICATION REPLICA"):
        found.append(_lacks(facts.capture, "REPLICATION SLAVE"))
    if not facts.capture.has("BINLOG MONITOR", "REPLICATION CLIENT"):
        found.append(_lacks(facts.capture, "BINLOG MONITOR (REPLICATION CLIENT before 10.5)"))
    return found


def marker_role(facts: SourceFacts) -> Sequence[Problem]:
    if not facts.marker_columns:
        return []
    login = f"login `{facts.marker.login}` (connection `{facts.marker.connection_id}`)"
    if facts.marker.marker_error:
        return [Problem(f"{login} cannot write a marker: {facts.marker.marker_error}", GRANTS)]
    if facts.marker.prune_error:
        what = f"{login} cannot delete old markers, so their table grows: {facts.marker.prune_error}"
        return [Problem(what, GRANTS, is_fatal=False)]
    return []


RULES: tuple[Rule, ...] = (
    version,
    binlog_settings,
    session_settings,
    untested_modes,
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


def _set_global(name: str, value: str) -> str:
    return f"set {name} = {value} in the server's option file (SET GLOBAL only lasts until its restart)"


def _lacks(role: RoleFacts, what: str) -> Problem:
    return Problem(f"login `{role.login}` (connection `{role.connection_id}`) lacks {what}", GRANTS)


def _unreadable(role: RoleFacts) -> list[Problem]:
    return [
        Problem(
            f"login `{role.login}` (connection `{role.connection_id}`) cannot read table {table}: {refusal}",
            GRANTS,
            table=table,
        )
        for table, refusal in role.unreadable.items()
    ]
