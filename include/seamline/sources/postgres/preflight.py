"""What a PostgreSQL source must be before anything is built on its log.

`preflight_facts.gather` asks the server with the three roles' own sessions; every rule is a pure function of the facts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from seamline.databases.postgres.canonical import quoted
from seamline.plan.model import SourcePlan
from seamline.ports import Problem
from seamline.sources.postgres.grants import publication_statement
from seamline.sources.postgres.partitions import Partition, partition_fault
from seamline.sources.postgres.places import relation_at

GRANTS = "docs/reference/grants.md has the statements for the tables' owner"
VERSION_LEAST = 150000
# Major → minor from which a change is no longer lost after a concurrent ALTER PUBLICATION; 18 always had the fix.
FIXED_IN = {15: 13, 16: 9, 17: 5}
_MIB = 1024 * 1024
FREE_LEAST = 2  # slots and senders: the connector's own, and the one of a snapshot
MARKER_COLUMNS = {
    "id": "character varying(64)",
    "kind": "character varying(16)",
    "payload": "text",
    "at": "timestamp(6) with time zone",
}
PUBLISHED = frozenset({"insert", "update", "delete", "truncate"})


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """What one role's own session showed."""

    connection_id: str
    login: str
    may_replicate: bool = False
    without_usage: tuple[str, ...] = ()  # schemas of the tables that it lacks USAGE on
    unreadable: tuple[str, ...] = ()  # tables it lacks SELECT on
    filtered: tuple[str, ...] = ()  # tables of which row security shows it a part
    may_insert: bool = False  # into the marker table
    may_delete: bool = False  # the same


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One relation as pg_class describes it. `identity` is relreplident: d, f, n or i; the index of the primary key
    counts as d."""

    name: str
    is_keyed: bool = True
    kind: str = "r"
    persistence: str = "p"
    identity: str = "d"
    has_deferrable_key: bool = False
    has_children: bool = False
    is_partition: bool = False
    partitions: tuple[Partition, ...] = ()

    @property
    def is_publishable(self) -> bool:
        return self.kind in "rp" and self.persistence == "p"


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """`tables`, `row_filtered` and `column_listed` are names of the sync's tables, and the marker table's."""

    tables: frozenset[str]
    publishes: frozenset[str] = PUBLISHED
    is_for_all_tables: bool = False
    schemas: tuple[str, ...] = ()
    row_filtered: frozenset[str] = frozenset()
    column_listed: frozenset[str] = frozenset()
    publishes_roots: bool = False  # publish_via_partition_root


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One look at the server. `tables` holds those of the sync and the marker table, as far as they are there.

    `version` is server_version_num; below VERSION_LEAST nothing else was asked. Slots and senders are those that
    others than this source's own capture use.
    """

    source: SourcePlan
    version: int
    wanted: tuple[str, ...] = ()
    without_origin: tuple[str, ...] = ()  # tables of a plan of before origins were kept as a whole
    settings: Mapping[str, str] = field(default_factory=dict)
    is_in_recovery: bool = False
    slots_used: int = 0
    senders_used: int = 0
    wal_left: int | None = None  # bytes until the own slot is given up; None without a slot, or without a limit
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    publication: PublicationFacts | None = None
    marker_columns: Mapping[str, str] = field(default_factory=dict)
    marker_key: tuple[str, ...] = ()
    prepared: tuple[str, ...] = ()  # prepared transactions of more than a minute
    long_running: tuple[str, ...] = ()  # sessions that have written for more than an hour and did not commit
    reader: RoleFacts = field(default_factory=lambda: RoleFacts("reader", ""))
    capture: RoleFacts = field(default_factory=lambda: RoleFacts("capture", ""))
    marker: RoleFacts = field(default_factory=lambda: RoleFacts("marker", ""))

    @property
    def present(self) -> list[TableFacts]:
        """The marker table too: its rows are captured like any other."""
        names = (*self.wanted, self.source.marker_table)
        return [self.tables[name] for name in names if name in self.tables]

    def place(self, table: str) -> str:
        return str(relation_at(self.source.places.of(table)))

    @property
    def publication_statement(self) -> str:
        captured = [self.source.places.captured(name) for name in self.wanted]
        return " ".join(publication_statement(self.source, captured).split())


Rule = Callable[[SourceFacts], Sequence[Problem]]

# variable → (value wanted, why)
_WANTED = {
    "wal_level": ("logical", "without it there is no log to capture"),
    "fsync": ("on", "after a crash the server could lose transactions that were already captured"),
    "full_page_writes": ("on", "after a crash torn pages could leave the tables other than the log says"),
    "server_encoding": ("UTF8", "other encodings of the database were not tested"),
}
_OTHER_KINDS = {
    "f": "is a foreign table: its changes are in another server's log",
    "v": "is a view: changes are logged for the tables below it only",
    "m": "is a materialized view: its changes are not in the log",
}
_PARTITION_CURE = "ALTER TABLE <partition> SET LOGGED or REPLICA IDENTITY DEFAULT, or leave the table out of the sync"


def check(facts: SourceFacts) -> tuple[Problem, ...]:
    """Every problem of every rule, in the order of the rules."""
    return _checked(facts, RULES)


def _checked(facts: SourceFacts, rules: Sequence[Rule]) -> tuple[Problem, ...]:
    if facts.version < VERSION_LEAST:
        what = f"the server is PostgreSQL {_version(facts.version)}: older than 15"
        return (Problem(what, "upgrade it; what else is to be done is reported then"),)
    return tuple(problem for rule in rules for problem in rule(facts))


def check_unlogged(facts: SourceFacts) -> tuple[Problem, ...]:
    """The same of a source without a log."""
    return _checked(facts, RULES_WITHOUT_LOG)


def version(facts: SourceFacts) -> Sequence[Problem]:
    """Minors before those of 2025-05-08 can lose changes of transactions that run during an ALTER PUBLICATION.

    Release notes of 17.5, 16.9 and 15.13: "Avoid data loss when DDL operations that don't take a strong lock affect
    tables that are being logically replicated" (https://www.postgresql.org/docs/release/17.5/). That fix itself let
    decoding fail for want of memory ("invalid memory alloc request size") until commit d87d07b, one minor later; seen
    by others on 15.13 and 16.9 (https://github.com/PeerDB-io/peerdb/issues/3220).
    """
    major, minor = divmod(facts.version, 10000)
    if major not in FIXED_IN or minor > FIXED_IN[major]:
        return []
    if minor == FIXED_IN[major]:
        what = "a transaction that runs beside many changes of the schema can stop the capture (invalid memory alloc)"
        return [_outdated(facts, what, f"{major}.{minor + 1}", is_fatal=False)]
    what = "changes can be lost when a table is added to a publication while transactions run"
    return [_outdated(facts, what, f"{major}.{FIXED_IN[major] + 1}", is_fatal=True)]


def server_settings(facts: SourceFacts) -> Sequence[Problem]:
    return _unset(facts, _WANTED)


def encoding(facts: SourceFacts) -> Sequence[Problem]:
    return _unset(facts, ["server_encoding"])


def _unset(facts: SourceFacts, names: Iterable[str]) -> Sequence[Problem]:
    return [
        Problem(f"{name} is {facts.settings.get(name, 'unknown')}, wanted {wanted}: {why}", _mend(name, wanted))
        for name, (wanted, why) in ((name, _WANTED[name]) for name in names)
        if facts.settings.get(name) != wanted
    ]


def durability(facts: SourceFacts) -> Sequence[Problem]:
    """Logical decoding sends only what was flushed, so the capture never gets ahead of what a crash leaves."""
    if facts.settings.get("synchronous_commit") != "off":
        return []
    what = "synchronous_commit is off: a crash of the source takes back commits that were confirmed to its applications"
    return [Problem(what, _set("synchronous_commit", "on"), is_fatal=False)]


def standby(facts: SourceFacts) -> Sequence[Problem]:
    if not facts.is_in_recovery:
        return []
    what = "this server is a standby: positions are taken from the primary only"
    return [Problem(what, "point the source's connections at the primary")]


def places_left(facts: SourceFacts) -> Sequence[Problem]:
    """The connector holds one slot and one sender for ever, a snapshot another pair while it is opened."""
    used = {"max_replication_slots": facts.slots_used, "max_wal_senders": facts.senders_used}
    return [
        Problem(
            f"{name} is {limit} and {others} are in use by others: this source needs {FREE_LEAST}",
            f"{_set(name, str(others + FREE_LEAST))}, or drop what nobody uses; it takes a restart",
        )
        for name, others in used.items()
        if (limit := int(facts.settings.get(name, "0"))) - others < FREE_LEAST
    ]


def retention(facts: SourceFacts) -> Sequence[Problem]:
    found = []
    if facts.settings.get("max_slot_wal_keep_size", "-1") == "-1":
        what = "max_slot_wal_keep_size is -1: while a capture pauses, the log it needs can fill the source's disk"
        found.append(
            Problem(what, "set it to what the disk can spare: at that size the slot is given up, not the disk")
        )
    idle = facts.settings.get("idle_replication_slot_timeout", "0")  # since 18
    if idle != "0":
        what = f"idle_replication_slot_timeout is {idle} s: a capture that pauses longer loses its place"
        found.append(Problem(what, _set("idle_replication_slot_timeout", "0"), is_fatal=False))
    return found


def slot_room(facts: SourceFacts) -> Sequence[Problem]:
    """The server itself says so only when it has given the slot up."""
    limit = int(facts.settings.get("max_slot_wal_keep_size", "-1")) * _MIB
    if facts.wal_left is None or facts.wal_left >= limit / 2:
        return []
    what = (
        f"replication slot {facts.source.slot} holds back the WAL: {max(facts.wal_left, 0) // _MIB:,} MB more, and the"
        f" server gives it up (max_slot_wal_keep_size is {limit // _MIB:,} MB)"
    )
    cure = (
        "see whether the capture runs (./seamline status) and let it catch up. Where only other tables are written, the"
        " slot moves by markers: those of a running stream host, or of any run of a sync of this source"
    )
    return [Problem(what, cure, is_fatal=False)]


def publication(facts: SourceFacts) -> Sequence[Problem]:
    source, found = facts.source, facts.publication
    name = quoted(source.publication)
    if found is None:
        cure = f"let the owner of the tables run {facts.publication_statement}"
        return [Problem(f"there is no publication {name}", cure)]
    if found.is_for_all_tables:
        what = f"publication {name} is FOR ALL TABLES: any table without identity would refuse UPDATE and DELETE"
        again = f"DROP PUBLICATION {name}; {facts.publication_statement}"
        return [Problem(what, f"let the owner of the tables run {again}")]
    problems = [
        Problem(
            f"publication {name} has all TABLES IN SCHEMA {schema}: it must be a list of tables",
            f"ALTER PUBLICATION {name} DROP TABLES IN SCHEMA {quoted(schema)}, then ADD TABLE those of the syncs",
        )
        for schema in found.schemas
    ]
    if lacking := sorted(PUBLISHED - found.publishes):
        what = f"publication {name} does not publish {', '.join(lacking)}: such changes would be lost"
        cure = f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')"
        problems.append(Problem(what, cure))
    return problems


def published_tables(facts: SourceFacts) -> Sequence[Problem]:
    """Each table whole in the publication. One that cannot be published at all is reported by another rule."""
    found, name = facts.publication, quoted(facts.source.publication)
    if found is None:
        return []
    problems = []
    for table in (table for table in facts.present if table.is_publishable):
        add = f"ALTER PUBLICATION {name} ADD TABLE {facts.place(table.name)}"
        again = f"BEGIN; ALTER PUBLICATION {name} DROP TABLE {facts.place(table.name)}; {add}; COMMIT"
        if table.name not in found.tables:
            what = f"table {table.name} is not in publication {name}: its changes would be missing"
            problems.append(Problem(what, f"let the table's owner run {add}", table=table.name))
        if table.name in found.row_filtered:
            what = f"publication {name} shows only rows of table {table.name} that meet a WHERE"
            problems.append(Problem(what, f"let the table's owner run {again}", table=table.name))
        if table.name in found.column_listed:
            what = f"publication {name} shows only some columns of table {table.name}"
            problems.append(Problem(what, f"let the table's owner run {again}", table=table.name))
        if table.is_partition and found.publishes_roots:
            what = (
                f"table {table.name} is a partition, and publication {name} sends the changes of partitions as of a"
                " partitioned table above them, once somebody adds that"
            )
            cure = "name the partitioned table in `tables` of the sync: it is kept as one, with all its partitions"
            problems.append(Problem(what, cure, table=table.name))
        if table.kind == "p" and not found.publishes_roots:
            what = f"publication {name} reports the changes of table {table.name} as of its partitions"
            cure = f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true), then load its other tables again"
            problems.append(Problem(what, cure, table=table.name))
    return problems


def kinds(facts: SourceFacts) -> Sequence[Problem]:
    problems = _missing(facts)
    for table in facts.present:
        if table.kind not in "rp":
            why = _OTHER_KINDS.get(table.kind, f"is a relation of kind {table.kind}")
            problems.append(Problem(f"{table.name} {why}", "leave it out of the sync", table=table.name))
        elif table.persistence != "p":
            what = f"table {table.name} is {'temporary' if table.persistence == 't' else 'unlogged'}: it has no log"
            cure = f"ALTER TABLE {facts.place(table.name)} SET LOGGED, or leave it out of the sync"
            problems.append(Problem(what, cure, table=table.name))
    return [*problems, *_inherited(facts)]


def tables_read(facts: SourceFacts) -> Sequence[Problem]:
    """A snapshot covers the rows of a table, and neither another server's nor those that a view finds when asked."""
    others = [
        Problem(f"{table.name} is no table: a snapshot does not hold its rows", "leave it out", table=table.name)
        for table in facts.present
        if table.kind not in "rp"
    ]
    return [*_missing(facts), *others, *_inherited(facts)]


def _missing(facts: SourceFacts) -> list[Problem]:
    return [
        Problem(
            f"there is no table {place.table} in schema {place.namespace}", "was it renamed or dropped?", table=name
        )
        for name, place in ((name, facts.source.places.of(name)) for name in facts.wanted)
        if name not in facts.tables
    ]


def _inherited(facts: SourceFacts) -> list[Problem]:
    return [
        Problem(
            f"table {table.name} has tables that inherit from it: whether a row is its own, reads do not show",
            "ALTER TABLE <child> NO INHERIT, or leave it out",
            table=table.name,
        )
        for table in facts.present
        if table.kind == "r" and table.has_children
    ]


def identities(facts: SourceFacts) -> Sequence[Problem]:
    problems = []
    for table in (table for table in facts.present if table.is_publishable):
        problems += [
            Problem(f"table {table.name}: {fault}", _PARTITION_CURE, table=table.name)
            for fault in map(partition_fault, table.partitions)
            if fault
        ]
        if table.kind == "p" and not table.is_keyed:
            what = f"table {table.name} is partitioned and has no primary key: a new partition would refuse UPDATE"
            cure = f"ALTER TABLE {facts.place(table.name)} ADD PRIMARY KEY (…), or leave it out of the sync"
            problems.append(Problem(what, cure, table=table.name))
        elif not table.is_keyed and table.identity != "f":
            what = f"table {table.name} has no primary key and its replica identity is not FULL"
            cure = f"ALTER TABLE {facts.place(table.name)} REPLICA IDENTITY FULL"
            problems.append(Problem(what, cure, table=table.name))
        if table.is_keyed and table.identity not in "df":
            which = "NOTHING" if table.identity == "n" else "an index that is not its primary key"
            what = f"the replica identity of table {table.name} is {which}: its changes would come without their key"
            cure = f"ALTER TABLE {facts.place(table.name)} REPLICA IDENTITY DEFAULT"
            problems.append(Problem(what, cure, table=table.name))
        if table.has_deferrable_key:
            # PostgreSQL does not use it as identity. FULL is no way out: rows that exchange their keys would be in
            # the log as two rows of one key.
            what = f"the primary key of table {table.name} is deferrable: inside a transaction it may not be unique"
            cure = "make the constraint NOT DEFERRABLE, which takes dropping it and adding it again"
            problems.append(Problem(what, cure, table=table.name))
    return problems


def origins(facts: SourceFacts) -> Sequence[Problem]:
    """Of a stream that an earlier version has onboarded."""
    what = "was loaded by an earlier version: an alteration that its schema does not show may go unnoticed"
    cure = "load it again: run <sync>__tables with it under `again`"
    return [Problem(f"table {name} {what}", cure, is_fatal=False, table=name) for name in facts.without_origin]


def waiting(facts: SourceFacts) -> Sequence[Problem]:
    """A slot, and with it every snapshot, comes into being only when all transactions that run have ended."""
    cases = (
        (facts.prepared, "prepared transactions", "COMMIT PREPARED or ROLLBACK PREPARED ends them"),
        (facts.long_running, "transactions that have run for over an hour", "let them end, or end their sessions"),
    )
    return [
        Problem(f"{what}: {', '.join(found)}; creating a snapshot waits for their end", cure, is_fatal=False)
        for found, what, cure in cases
        if found
    ]


def marker_table(facts: SourceFacts) -> Sequence[Problem]:
    source = facts.source
    from_owner = f"let the owner of schema {source.schema} create it; {GRANTS}"
    if source.marker_table not in facts.tables:
        return [Problem(f"there is no marker table {facts.place(source.marker_table)}", from_owner)]
    wrong = [
        f"{name} is {facts.marker_columns.get(name, 'missing')}, wanted {wanted}"
        for name, wanted in MARKER_COLUMNS.items()
        if facts.marker_columns.get(name) != wanted
    ]
    if facts.marker_key != ("id",):
        wrong.append(f"its primary key is ({', '.join(facts.marker_key)}), wanted (id)")
    if not wrong:
        return []
    what = f"marker table {facts.place(source.marker_table)} is not as it must be: {'; '.join(wrong)}"
    return [Problem(what, from_owner)]


def reader_role(facts: SourceFacts) -> Sequence[Problem]:
    found = _without_access(facts.reader)
    found += [
        Problem(
            f"row security shows {_named(facts.reader)} only some rows of table {table}",
            f"let a superuser run ALTER ROLE {quoted(facts.reader.login)} BYPASSRLS",
            table=table,
        )
        for table in facts.reader.filtered
    ]
    return found


def capture_role(facts: SourceFacts) -> Sequence[Problem]:
    found = _without_access(facts.capture)
    if not facts.capture.may_replicate:
        cure = f"let a superuser run ALTER ROLE {quoted(facts.capture.login)} REPLICATION"
        found.append(Problem(f"{_named(facts.capture)} lacks REPLICATION", cure))
    marker_table = facts.source.marker_table
    if marker_table in facts.capture.filtered:
        what = f"row security hides markers of table {marker_table} from {_named(facts.capture)}, which knows its"
        cure = f"ALTER TABLE {facts.place(marker_table)} DISABLE ROW LEVEL SECURITY"
        found.append(Problem(f"{what} source by the last one", cure, table=marker_table))
    return found


def marker_role(facts: SourceFacts) -> Sequence[Problem]:
    role, table = facts.marker, facts.source.marker_table
    if table not in facts.tables:
        return []
    found = _without_access(role)
    if not role.may_insert:
        found.append(Problem(f"{_named(role)} cannot write a marker: it lacks INSERT on table {table}", GRANTS))
    elif table in role.filtered:
        what = f"row security keeps {_named(role)} from table {table}, so it may not write a marker"
        found.append(Problem(what, f"ALTER TABLE {facts.place(table)} DISABLE ROW LEVEL SECURITY", table=table))
    if not role.may_delete:
        what = f"{_named(role)} cannot delete old markers, so their table grows: it lacks DELETE on table {table}"
        found.append(Problem(what, GRANTS, is_fatal=False))
    return found


RULES: tuple[Rule, ...] = (
    version,
    server_settings,
    durability,
    standby,
    places_left,
    retention,
    slot_room,
    publication,
    published_tables,
    kinds,
    identities,
    origins,
    waiting,
    marker_table,
    reader_role,
    capture_role,
    marker_role,
)


RULES_WITHOUT_LOG: tuple[Rule, ...] = (encoding, tables_read, reader_role)


def _version(number: int) -> str:
    """server_version_num as people write it; before 10 there was one more part, which nobody needs here."""
    return f"{number // 10000}.{number % 10000}"


def _outdated(facts: SourceFacts, what: str, cure: str, *, is_fatal: bool) -> Problem:
    said = f"the server is PostgreSQL {_version(facts.version)}: {what}"
    return Problem(said, f"update it to {cure} or newer", is_fatal=is_fatal)


def _mend(name: str, wanted: str) -> str:
    if name == "server_encoding":
        return "an encoding is chosen when a database is created: move the tables to one with UTF8"
    return _set(name, wanted)


def _set(name: str, value: str) -> str:
    return f"set {name} = {value} in postgresql.conf, and look for ALTER SYSTEM, ALTER DATABASE or ALTER ROLE on it"


def _named(role: RoleFacts) -> str:
    return f"login `{role.login}` (connection `{role.connection_id}`)"


def _without_access(role: RoleFacts) -> list[Problem]:
    found = [
        Problem(f"{_named(role)} cannot read table {table}: it lacks SELECT", GRANTS, table=table)
        for table in role.unreadable
    ]
    found += [Problem(f"{_named(role)} lacks USAGE on schema {schema}", GRANTS) for schema in role.without_usage]
    return found
