"""One commit of a stream into tables of a lake, by a process of its own that a failpoint may end at once.

It is forked by one that has imported all that it needs, as a stream's is by Spark's daemon: a fresh interpreter would
import for longer than it lives.
"""

import multiprocessing
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.context import BaseContext
from pathlib import Path

from seamline.adapters.connections import Connection
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.catalogue import Table
from seamline.ports import Failpoints
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from tests.contract.behaviours import Applying, account
from tests.contract.lake_worlds import LAKES, Lake, LakeWorld
from tests.integration.databases import either_of
from tests.log_topic import ACCOUNT, AUDIT, TABLES, TRANSFER, Change, delete, insert, update

# Rows that come, change and go, of tables with and without a key.
CHANGES: Sequence[Change] = (
    update(ACCOUNT, account(1), account(1, "changed")),
    delete(ACCOUNT, **account(2)),
    insert(TRANSFER, tx=1, leg=1, amount="1.0000"),
    delete(AUDIT, actor="x", action="y"),
    insert(AUDIT, actor="x", action="z"),
)


class WorkerWorld(LakeWorld):
    """Of a process that finds catalogue and tables there."""

    def __init__(self, tables: Sequence[Table], warehouse: Path | str, connection: Connection, lake: Lake) -> None:
        super().__init__(tables, warehouse, lake)
        self._connection = connection

    def store(self, *, failpoints: Failpoints | None = None) -> PostgresLakeStore:
        resolve = either_of(self._connection)
        catalogue = self._lake.catalogue(self.destination)
        return PostgresLakeStore(self.destination, catalogue, resolve=resolve, failpoints=failpoints)


FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])
WITHIN_S = 60


# Slower, but with the variables of now, by which connections are found.
SPAWNED = multiprocessing.get_context("spawn")


def exit_code_of_commit(
    warehouse: Path | str, connection: Connection, failpoint: str, *, lake: str, processes: BaseContext = FORKED
) -> int | None:
    """Negative for a signal; None if the process lives on after a minute."""
    # What TLS adds to a connection is no value of a message.
    worker = processes.Process(  # type: ignore[attr-defined]
        target=_commit, args=(warehouse, replace(connection, extra={}), failpoint, lake)
    )
    worker.start()
    worker.join(WITHIN_S)
    return worker.exitcode


def _commit(warehouse: Path | str, connection: Connection, failpoint: str, lake: str) -> None:
    world = WorkerWorld(TABLES, warehouse, connection, LAKES[lake])
    Applying(world, sink=world.sink(failpoints=ArmedFailpoints(failpoint))).span(*CHANGES)  # type: ignore[arg-type]
