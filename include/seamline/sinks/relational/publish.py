"""Publish: whole staged tables put in place, with boundaries, epoch and ledger.

These servers commit a transaction before they make, rename or drop a table. So one transaction decides: with the ledger
it writes which tables are to be renamed and dropped, and merges into each live table what differs of the staged one,
so that indexes, triggers and foreign keys stay as they are. What it has written down is carried out after its COMMIT,
all renames by one statement, and by whoever comes next where that fails in between. Until it is done nobody takes the
stream, and nobody compares its tables.
"""

from collections.abc import Collection, Mapping, Sequence

import pymysql
from pymysql.constants import ER

from seamline.databases.mysql.canonical import quoted
from seamline.domain.errors import InvariantViolated, Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.plan.list_change import kept_name
from seamline.plan.model import DestinationPlan
from seamline.ports import Load, Publication
from seamline.sinks.relational import ledger as ledger_tables
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.live_columns import columns_of, misfit
from seamline.sinks.relational.merge import merge_into_live
from seamline.sinks.relational.ownership import of_others, tables_in
from seamline.sinks.relational.places import ledger_database, ledger_place, relation, staged_place
from seamline.sinks.relational.session import PATIENCE_S, Row, Session, code_of, execute, lock_name, query
from seamline.sinks.relational.staged_rows import require_as_compared

_RENAME, _DROP_TABLE, _DROP_DATABASE = "rename", "drop table", "drop database"


def still_pending(stream: StreamId) -> TransientError:
    return TransientError(
        f"the tables of {stream} are published and do not have their names yet",
        hint="the task that publishes them ends it; where it has failed, run it again",
        sync=stream.sync,
    )


class Publisher:
    """What publishes and joins tables of one stream, in one session of its own."""

    def __init__(self, session: Session, stream: StreamId, destination: DestinationPlan, dialect: Dialect) -> None:
        self.session = session
        self.stream = stream
        self.destination = destination
        self.dialect = dialect
        self.at = ledger_place(destination)
        self._steps: list[Row] = []

    def prepare(self, loads: Sequence[Load], publication: Publication) -> bool:
        """Everything that takes long, before the transaction. True if this run is published already. Repeatable."""
        self.lock()
        self.carry_out_pending()
        if ledger_tables.is_published(self.session, self.at, self.stream, publication.run_id):
            return True
        for load in loads:
            self._require_there(load)
            require_as_compared(
                self.session,
                staged_place(load, self.destination),
                rows=load.rows,
                digest=load.digest,
                definition=load.table,
                position=publication.position,
                dialect=self.dialect,
            )
        self.wait_for_readers(loads, self._left_by([load.table.name for load in loads]))
        return False

    def lock(self) -> None:
        """One publish at a time per destination: the lock lives as long as the session."""
        name = lock_name(f"publish {ledger_database(self.destination)}")
        if query(self.session, "SELECT GET_LOCK(%s, %s)", (name, PATIENCE_S)) != ((1,),):
            raise TransientError(
                f"another publish into {self.destination.name} is under way", hint="it is tried again after it"
            )
        ledger_tables.create_tables(self.session, self.at, self.dialect)
        execute(
            self.session,
            f"CREATE DATABASE IF NOT EXISTS {quoted(self.destination.namespace)} CHARACTER SET utf8mb4"
            f" COLLATE {self.dialect.collation}",
        )

    def wait_for_readers(self, loads: Sequence[Load], leaving: Collection[str]) -> None:
        """Before the transaction: behind it a reader would hold up the names of tables that are published already.

        One table at a time, with nothing held beside it: no reader is ended for a deadlock.
        """
        live = (self.destination.namespace, tables_in(self.session, self.destination.namespace))
        staged = [staged_place(load, self.destination) for load in loads]
        places = [place for place in staged if place[1] in tables_in(self.session, place[0])]
        for place in [*places, *((live[0], name) for name in leaving if name in live[1])]:
            try:
                execute(self.session, f"LOCK TABLES {relation(*place)} WRITE")
                execute(self.session, "UNLOCK TABLES")
            except pymysql.err.MySQLError as exc:
                if code_of(exc) != ER.LOCK_WAIT_TIMEOUT:
                    raise
                raise TransientError(
                    f"table {'.'.join(place)} is being read, so it cannot get another name",
                    hint="it is tried again; a reader that never ends its transaction has to be ended",
                    sync=self.stream.sync,
                ) from exc

    def put_in_place(self, loads: Sequence[Load], publication: Publication) -> None:
        """Open the transaction and do all but COMMIT."""
        self.begin()
        names = [load.table.name for load in loads]
        self.set_aside({name: kept_name(name, publication.run_id) for name in self._left_by(names)})
        self.put_tables_in_place(loads)
        ledger_tables.write_publication(self.session, self.at, self.stream, publication, names)
        self.write_down()

    def _left_by(self, names: Collection[str]) -> set[str]:
        return ledger_tables.carried(self.session, self.at, self.stream) - set(names)

    def begin(self) -> None:
        execute(self.session, "START TRANSACTION")
        self._steps = []
        # First: from here on a stream of the old epoch cannot commit between our statements.
        ledger_tables.end_epoch(self.session, self.at, self.stream)

    def put_tables_in_place(self, loads: Sequence[Load]) -> None:
        """Inside the transaction: each staged table gets the name of the live one once it is over, or what differs is
        merged into the live one."""
        live = tables_in(self.session, self.destination.namespace)
        for load in loads:
            self._require_there(load)
            place = staged_place(load, self.destination)
            if load.table.name in live:
                self._check_owned(load)
                merge_into_live(
                    self.session,
                    load.table,
                    database=self.destination.namespace,
                    staged=relation(*place),
                )
                self._steps.append((_DROP_TABLE, *place, "", ""))
            else:
                self._steps.append((_RENAME, *place, self.destination.namespace, load.table.name))

    def set_aside(self, kept_as: Mapping[str, str]) -> None:
        """The live tables that leave get other names, by which their rows are kept."""
        database = self.destination.namespace
        live = tables_in(self.session, database)
        self._steps += [(_RENAME, database, name, database, kept) for name, kept in kept_as.items() if name in live]
        ledger_tables.end_life(self.session, self.at, self.stream, list(kept_as))

    def drop_database_after(self, database: str) -> None:
        self._steps.append((_DROP_DATABASE, database, "", "", ""))

    def write_down(self) -> None:
        ledger_tables.write_pending(self.session, self.at, self.stream, self._steps)

    def carry_out_pending(self, stream: StreamId | None = None) -> None:
        """Rename and drop what a transaction has written down. May be repeated, by anybody who has the lock."""
        owner = stream or self.stream
        steps = ledger_tables.pending_steps(self.session, self.at, owner)
        if not steps:
            return
        renames = [step for step in steps if step[0] == _RENAME and self._is_to_be_renamed(step)]
        if renames:
            pairs = (f"{relation(*step[1:3])} TO {relation(*step[3:5])}" for step in renames)
            execute(self.session, f"RENAME TABLE {', '.join(pairs)}")
        for step, database, name, _, _ in steps:
            if step == _DROP_TABLE:
                execute(self.session, f"DROP TABLE IF EXISTS {relation(database, name)}")
            elif step == _DROP_DATABASE:
                execute(self.session, f"DROP DATABASE IF EXISTS {quoted(database)}")
        execute(self.session, f"DELETE FROM {self.at}.pending WHERE stream = %s", (str(owner),))

    def _is_to_be_renamed(self, step: Row) -> bool:
        _, database, name, to_database, to_name = step
        is_there, is_taken = (place[1] in tables_in(self.session, place[0]) for place in ((database, name), step[3:5]))
        if is_there and is_taken:
            raise Refused(
                f"{to_database}.{to_name} was made by somebody while {database}.{name} was to get its name",
                hint=f"rename it (RENAME TABLE {relation(to_database, to_name)} TO …), and run this again",
                sync=self.stream.sync,
            )
        if not is_there and not is_taken:
            raise InvariantViolated(f"neither {database}.{name} nor {to_database}.{to_name} is there: who dropped it?")
        return is_there

    def _require_there(self, load: Load) -> None:
        database, name = staged_place(load, self.destination)
        if name not in tables_in(self.session, database):
            raise Refused(
                f"the staged table {relation(database, name)} of {load.table.name} is gone",
                hint="load it again",
                table=load.table.name,
            )

    def _check_owned(self, load: Load) -> None:
        """A live table is written only if this stream made it and it still has the planned definition."""
        name = load.table.name
        for what, cure in of_others(self.session, self.stream, self.destination, [name]).values():
            raise Refused(what, hint=cure, sync=self.stream.sync, table=name)
        places = ((self.destination.namespace, name), staged_place(load, self.destination))
        live, staged = (columns_of(self.session, relation(*place)) for place in places)
        if found := misfit(load.table, live, staged, self.destination):
            raise found.conflict(sync=self.stream.sync)
