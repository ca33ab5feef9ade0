"""What would keep a destination from taking its tables, asked with the logins of its publisher and writer. Changes
nothing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from seamline.adapters.connections import resolve
from seamline.databases.mysql.canonical import text_literal
from seamline.domain.cut_names import OWN_COLUMNS
from seamline.domain.errors import ConfigError, Refused
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.relational.cut_places import name_conflicts
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.grants import PUBLISHES, ROWS, STAGES
from seamline.sinks.relational.ownership import of_others
from seamline.sinks.relational.places import ledger_database
from seamline.sinks.relational.session import Session, close, open_session, query, translated
from seamline.sinks.relational.types import advice, refusals

_SETTINGS = (
    "read_only",
    "innodb_page_size",
    "local_infile",
    "binlog_format",
    "log_bin",
    "max_allowed_packet",
    "lower_case_table_names",
    "wsrep_on",
    "group_replication_single_primary_mode",
)
# A statement that finds rows by their keys has 500 of them, each of 3,072 bytes at most, which it may write in hex.
_PACKET_MIN = 4 << 20
# MariaDB's own default.
_PACKET_ADVISED = 16 << 20
_PACKET_CURE = "SET GLOBAL max_allowed_packet = 67108864, and in the server's settings"
_NO_COMMON_LOCKS = "a lock by name holds on one of them alone, so two publishers could meet"
_ONE_WRITER = "a destination is a server of its own, or the one primary of its replicas"


def problems(plan: SyncPlan, destination: DestinationPlan, dialect: Dialect) -> tuple[Problem, ...]:
    """TransientError where the server does not answer; a refused login is a problem like any other. Of tables without
    a definition in the plan only the names are looked at."""
    name = f"destination {destination.name}"
    with ExitStack() as opened:
        sessions: list[Session] = []
        refused = []
        for connection_id in dict.fromkeys((destination.connection, destination.writer)):
            try:
                session = open_session(resolve(connection_id), dialect)
            except (ConfigError, Refused) as exc:
                refused.append(Problem(f"{name}: {exc.message}", exc.hint))
            else:
                opened.callback(close, session)
                sessions.append(session)
        if refused:
            return tuple(refused)
        with translated(f"check {name}"):
            fatal = dict(problem for session in sessions for problem in _of_the_server(session, dialect))
            fatal.update(_of_rights(sessions[0], sessions[-1], destination))
            fatal.update(_of_definitions(plan, dialect))
            fatal.update(of_names(known := _settings(sessions[0]), plan, destination))
            tables = [table.name for table in plan.tables]
            fatal.update(_of_cuts(sessions[0], plan, destination))
            fatal.update(of_others(sessions[0], plan.stream_id(destination.name), destination, tables).values())
            hints = [
                *_of_packets(known, dialect),
                *_unique_indexes(sessions[0], destination, tables),
                *_of_definitions_hints(plan, dialect),
            ]
    return (
        *(Problem(f"{name}: {what}", cure) for what, cure in fatal.items()),
        *(Problem(f"{name}: {what}", cure, is_fatal=False) for what, cure in hints),
    )


def _of_the_server(session: Session, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """What keeps any login from writing."""
    yield from of_settings(_settings(session), dialect)
    collation = text_literal(dialect.collation)
    if not query(session, f"SELECT 1 FROM information_schema.collations WHERE collation_name = {collation}"):
        yield f"it has no collation {dialect.collation}", f"a destination needs a newer {dialect.server}"


def _settings(session: Session) -> Mapping[str, str]:
    """Without those that this server does not have."""
    names = ", ".join(map(text_literal, _SETTINGS))
    return {str(name): str(value) for name, value in query(session, f"SHOW VARIABLES WHERE variable_name IN ({names})")}


def of_settings(known: Mapping[str, str], dialect: Dialect) -> Iterator[tuple[str, str]]:
    """What is wrong with the settings of a server, each with its cure."""
    if known["read_only"] != "OFF":
        yield "the server is read only, as a replica is", "let the connection lead to the primary"
    if int(known["innodb_page_size"]) < 16_384:
        yield (
            f"its pages have {known['innodb_page_size']} bytes: an index then holds less than the keys of a table may"
            " take",
            "a destination needs innodb_page_size=16384 or larger",
        )
    if known["local_infile"] != "ON":
        yield "it takes no rows from a client", "SET GLOBAL local_infile = ON, and in the server's settings"
    if known["log_bin"] == "ON" and known["binlog_format"] == "STATEMENT":
        yield (
            "it writes statements into its binlog, which a session at READ COMMITTED cannot do",
            "SET GLOBAL binlog_format = 'ROW', and in the server's settings",
        )
    if int(known["max_allowed_packet"]) < _PACKET_MIN:
        yield f"its max_allowed_packet is {known['max_allowed_packet']}: statements with keys are longer", _PACKET_CURE
    if known.get("wsrep_on") == "ON":
        yield f"it is a node of a Galera cluster: {_NO_COMMON_LOCKS}", _ONE_WRITER
    if known.get("group_replication_single_primary_mode") == "OFF":
        yield f"it is of a group in which every member takes writes: {_NO_COMMON_LOCKS}", _ONE_WRITER


def of_names(known: Mapping[str, str], plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    """Names that the server would change, so that nobody finds their tables again."""
    if known["lower_case_table_names"] != "1":
        return
    why = "the server writes all names in lower case (lower_case_table_names = 1)"
    if destination.namespace != destination.namespace.lower():
        yield f"its database {destination.namespace} has capitals, and {why}", "declare it in lower case"
    for name in [*(table.name for table in plan.tables), *(table.name for table in plan.derived)]:
        if name != name.lower():
            yield f"table {name} has capitals in its name, and {why}", f"name it in the sync, as `as: {name.lower()}`"


def _of_packets(known: Mapping[str, str], dialect: Dialect) -> Iterator[tuple[str, str]]:
    if _PACKET_MIN <= int(known["max_allowed_packet"]) < _PACKET_ADVISED:
        yield (
            f"its max_allowed_packet is {known['max_allowed_packet']}: {dialect.server} computes no digest of a value"
            " that is longer, so its table cannot be compared",
            _PACKET_CURE,
        )


def _of_rights(publisher: Session, writer: Session, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    live, ledger = destination.namespace, ledger_database(destination)
    joining = destination.incremental_namespace("any")
    beside = (destination.stage_namespace, destination.cut_namespace, ledger, joining)
    wanted: list[tuple[Session, str, Sequence[str]]] = [
        (publisher, database, PUBLISHES) for database in (live, *beside)
    ]
    if writer is not publisher:
        wanted += [(writer, live, ROWS), (writer, joining, ROWS), (writer, ledger, (*ROWS, STAGES))]
    for session, database, rights in wanted:
        if missing := sorted(set(rights) - _rights(session, database, rights)):
            login = query(session, "SELECT CURRENT_USER()")[0][0]
            yield (
                f"{login} has no {', '.join(missing)} in database {database}",
                f"run the script of `seamline grants {destination.name}`",
            )


def _rights(session: Session, database: str, wanted: Sequence[str]) -> set[str]:
    """What the login may do in a database, whether it is there or not. Of a login that has a role, all is taken for
    given: what the role may do, it may not see."""
    account = (
        "CONCAT(QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), '@', QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)))"
    )
    found = query(
        session,
        f"SELECT privilege_type FROM information_schema.user_privileges WHERE grantee = {account} UNION"
        f" SELECT privilege_type FROM information_schema.schema_privileges WHERE grantee = {account}"
        f" AND {text_literal(database)} LIKE table_schema",
    )
    # MySQL says NONE where MariaDB has NULL.
    if query(session, "SELECT CURRENT_ROLE()")[0][0] not in (None, "NONE"):
        return set(wanted)
    return {str(right) for (right,) in found}


def _of_definitions(plan: SyncPlan, dialect: Dialect) -> Iterator[tuple[str, str]]:
    for table in plan.tables:
        if table.table is not None:
            yield from refusals(table.table, dialect)


def _of_cuts(session: Session, plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    if plan.nightly is None:
        return
    for table in plan.tables:
        taken = (
            [] if table.table is None else [one.name for one in table.table.columns if one.name.lower() in OWN_COLUMNS]
        )
        if taken:
            yield (
                f"table {table.name} has a column {taken[0]}, which its cuts need for themselves",
                "rename the column at the source, or leave the table out of the sync",
            )
    yield from name_conflicts(session, destination, sync=plan.sync, tables=[table.name for table in plan.tables])


def _of_definitions_hints(plan: SyncPlan, dialect: Dialect) -> Iterator[tuple[str, str]]:
    for table in plan.tables:
        if table.table is not None:
            yield from advice(table.table, dialect)


def _unique_indexes(session: Session, destination: DestinationPlan, tables: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Those that somebody has added to a live table: they refuse values that change places between rows."""
    if not tables:
        return
    found = query(
        session,
        "SELECT DISTINCT table_name, index_name FROM information_schema.statistics WHERE table_schema ="
        f" {text_literal(destination.namespace)} AND table_name IN ({', '.join(map(text_literal, tables))})"
        " AND NOT non_unique AND index_name NOT IN ('PRIMARY', 'seamline.copies') ORDER BY 1, 2",
    )
    for table, index in found:
        yield (
            f"{destination.namespace}.{table} has the unique index {index}, which is checked row by row: a span of the"
            " stream in which rows exchange their values is written twice, and rows of it are deleted and inserted"
            " again",
            "make it an index that is not unique",
        )
