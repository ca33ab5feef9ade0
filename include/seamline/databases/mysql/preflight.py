"""What preflight knows of a source, and the rules that MariaDB and MySQL have in common.

Every rule is a pure function of the facts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from seamline.ports import Problem

GRANTS = "docs/reference/grants.md has the statements for the database's owner"
EXPIRE_LEAST_S = 24 * 3600
EXPIRE_ADVISED_S = 7 * 24 * 3600
PACKET_ADVISED_BYTES = 16 * 1024 * 1024
MARKER_COLUMNS = {"id": "varchar(64)", "kind": "varchar(16)", "payload": "text", "at": "timestamp(6)"}


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


def problems(facts: SourceFacts, rules: Sequence[Rule]) -> tuple[Problem, ...]:
    """Every problem of every rule, in the order of the rules."""
    return tuple(problem for rule in rules for problem in rule(facts))


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


def retention(facts: SourceFacts) -> Sequence[Problem]:
    seconds = int(float(facts.variables.get("binlog_expire_logs_seconds", "0") or 0))
    if not seconds or seconds >= EXPIRE_ADVISED_S:
        return []
    return [
        Problem(
            f"the binlog is kept for {seconds / 3600:.0f} h only: a capture that pauses longer loses its place",
            set_global("binlog_expire_logs_seconds", str(EXPIRE_ADVISED_S)),
            is_fatal=seconds < EXPIRE_LEAST_S,
        )
    ]


def read_values(facts: SourceFacts) -> Sequence[Problem]:
    found = []
    modes = facts.variables.get("sql_mode", "").upper().split(",")
    if not {"NO_ZERO_DATE", "TRADITIONAL"} & set(modes):
        found.append(
            Problem(
                "sql_mode allows zero dates ('0000-00-00'): reading stops where one is written",
                "add NO_ZERO_DATE and NO_ZERO_IN_DATE to sql_mode",
                is_fatal=False,
            )
        )
    packet = int(facts.variables.get("max_allowed_packet", "0") or 0)
    if packet < PACKET_ADVISED_BYTES:
        found.append(
            Problem(
                f"max_allowed_packet is {packet} bytes: row texts longer than that cannot be compared",
                set_global("max_allowed_packet", str(PACKET_ADVISED_BYTES)),
                is_fatal=False,
            )
        )
    return found


def values(facts: SourceFacts) -> Sequence[Problem]:
    found = [*read_values(facts)]
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
        for name, wanted in MARKER_COLUMNS.items()
        if facts.marker_columns.get(name) != wanted
    ]
    if facts.marker_key != ("id",):
        wrong.append(f"its primary key is {facts.marker_key}, wanted (id)")
    if facts.marker_engine.lower() != "innodb":
        wrong.append(f"its engine is {facts.marker_engine}, wanted InnoDB")
    if not wrong:
        return []
    return [Problem(f"marker table `{facts.marker_table}` is not as it must be: {'; '.join(wrong)}", from_owner)]


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


def set_global(name: str, value: str) -> str:
    """The cure of a wrong setting."""
    return f"set {name} = {value} in the server's option file (SET GLOBAL only lasts until its restart)"


def lacks(role: RoleFacts, what: str) -> Problem:
    return Problem(f"login `{role.login}` (connection `{role.connection_id}`) lacks {what}", GRANTS)


def unreadable(role: RoleFacts) -> list[Problem]:
    return [
        Problem(
            f"login `{role.login}` (connection `{role.connection_id}`) cannot read table {table}: {refusal}",
            GRANTS,
            table=table,
        )
        for table, refusal in role.unreadable.items()
    ]


def reader_without_log(facts: SourceFacts) -> Sequence[Problem]:
    return unreadable(facts.reader)


def session_settings(facts: SourceFacts, *, wanted: Mapping[str, str]) -> Sequence[Problem]:
    """A session's own value wins over the global one, and logins can get theirs from init_connect or a proxy."""
    return [
        Problem(
            f"new sessions of `{role.login}` have {name} = {role.session[name]}, wanted {value or 'empty'}",
            "look for init_connect, option files or a proxy that sets it; no session may change it",
        )
        for role in (facts.reader, facts.capture, facts.marker)
        for name, value in wanted.items()
        if name in role.session and role.session[name].upper() != value
    ]


def server_id(facts: SourceFacts) -> Sequence[Problem]:
    if facts.variables.get("server_id", "0") != "0":
        return []
    return [Problem("server_id is 0: the server sends its binlog to nobody", "give the server an id")]
