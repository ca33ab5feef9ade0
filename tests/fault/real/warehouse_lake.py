"""The warehouse of a run in a lake's tables, whose catalogue is in PostgreSQL: its trigger notes each commit, and the
rows of all tables are read at the snapshots that the commit has left.
"""

import shutil
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import session_name
from seamline.domain.catalogue import Table
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position, position_from_json
from seamline.plan.model import DestinationPlan
from seamline.ports import ReadView
from seamline.sinks.delta.read_back import live
from seamline.sinks.iceberg.reading import IcebergTable
from seamline.sinks.iceberg.types import typed
from seamline.sinks.lake.loads import unclaimed
from seamline.sinks.lake.read_view import Batches, LakeView
from tests.fault.real import lake_audit
from tests.fault.real.anomalies import Commit, Dump, Leg
from tests.fault.real.bank_plus import MODELLED, opening_totals
from tests.fault.real.commit_audit import owner_epoch_of, place
from tests.fault.real.lake_audit import Noted, Pointers
from tests.fault.real.lake_files import DeltaFiles, LakeFiles, State
from tests.fault.real.log_replay import Rows
from tests.fault.real.warehouse import counted
from tests.fault.real.warehouse_postgres import PostgresWarehouse
from tests.integration.databases import postgres
from tests.lake_heads import DeltaHeads, LakeHeads


class LakeWarehouse(PostgresWarehouse):
    """Of Iceberg. The ledger and the pointers are rows there; what PostgreSQL's warehouse asks of the ledger is asked
    here too."""

    pointers: ClassVar[Pointers] = lake_audit.ICEBERG
    files_of: ClassVar[type[LakeFiles]] = LakeFiles
    heads_of: ClassVar[type[LakeHeads]] = LakeHeads

    def __init__(self, database: Connection, stream: StreamId, plan: DestinationPlan) -> None:
        super().__init__(database, stream)
        self._plan = plan
        self.files = self.files_of()
        self._seen: list[Commit] = []
        # Of each commit, in its order, the snapshots of all tables.
        self.snapshots: list[dict[str, int]] = []
        self._noted = 0
        self._before: tuple[dict[str, int], dict[str, State]] = ({}, {})
        self._watching: psycopg.Connection[Any] | None = None
        self._one_looks = threading.Lock()
        self._stop = threading.Event()
        self._watch = threading.Thread(target=self._go_on_looking, daemon=True)

    def audit(self) -> None:
        with self._one_looks:
            self._seen, self.snapshots, self._noted = [], [], 0
            # Each commit is held against the one before.
            self._before = self._states(self.pinned().heads)
            with self.session() as session:
                lake_audit.install(session, self._stream, self._plan.namespace, self.pointers)
        if not self._watch.is_alive():
            self._watch.start()

    def _go_on_looking(self) -> None:
        """Also while nobody asks: metadata files are kept for a hundred commits."""
        while not self._stop.wait(0.2):
            # Before a first publish there is nothing to look at.
            with suppress(psycopg.errors.UndefinedTable):
                self.commits_seen()

    def close(self) -> None:
        self._stop.set()
        if self._watch.is_alive():
            self._watch.join()
        if self._watching is not None:
            self._watching.close()
            self._watching = None
        super().close()

    def forget_all(self) -> None:
        with self.session() as session:
            session.execute("DROP SCHEMA IF EXISTS checked, seamline CASCADE")
            session.execute("DELETE FROM public.iceberg_tables")

    # ---- its commits ----------------------------------------------------------------------------------------------

    def commits_seen(self) -> int:
        with self._one_looks:
            self._look_on()
        return len(self._seen)

    def _look_on(self) -> None:
        self._watching = self._watching or postgres(self._database)
        for one in lake_audit.noted(self._watching, after=self._noted):
            self._noted = one.commit_id
            commit, now = self._looked_at(one, len(self._seen) + 1)
            # A tag moves a pointer, and nothing of the rows or the ledger.
            if commit.has_ledger or commit.has_rows or commit.apart:
                self._seen.append(commit)
                self.snapshots.append(now[0])
            self._before = now

    def commits(self, *, after: int = 0) -> list[Commit]:
        self.commits_seen()
        return [one for one in self._seen if one.number > after]

    def newest_commit(self) -> Commit:
        return self.commits()[-1]

    def missing_audit(self) -> list[str]:
        with self.session() as session:
            return lake_audit.missing(session, self.pointers)

    def _looked_at(self, one: Noted, number: int) -> tuple[Commit, tuple[dict[str, int], dict[str, State]]]:
        """The commit, and the snapshots and files that it has left."""
        apart = []
        try:
            snapshots, states = self._states(one.heads)
            apart = [
                f"{name} stands at {snapshots.get(name)}, the ledger's is {wanted}"
                for name, wanted in one.state.items()
                if snapshots.get(name) != wanted
            ]
            apart += [f"{name} is no table of the ledger's" for name in snapshots.keys() - one.state.keys()]
        except FileNotFoundError as exc:
            snapshots, states = {}, {}
            apart.append(f"a pointer leads to nothing: {exc}")
        if one.state_offset > one.next_offset:
            apart.append(f"lake_state is ahead of the ledger: {one.state_offset}, {one.next_offset}")
        has_rows = snapshots != self._before[0]
        looked = _rows_looked_at(self.files, states, self._before[1]) if states else {}
        return (
            Commit(
                number,
                one.epoch,
                one.next_offset,
                place(position_from_json(one.position)),
                one.publications,
                one.transactions,
                owner_epoch=owner_epoch_of(one.committer),
                has_ledger=one.has_ledger,
                has_rows=has_rows,
                is_catching_up=one.is_catching_up,
                apart=tuple(sorted(apart)),
                **looked,
            ),
            (snapshots, states),
        )

    def _states(self, heads: Mapping[str, str]) -> tuple[dict[str, int], dict[str, State]]:
        return (
            {name: self.files.head(location) for name, location in heads.items()},
            {name: self.files.state(location) for name, location in heads.items()},
        )

    # ---- its state ------------------------------------------------------------------------------------------------

    def pinned(self) -> LakeHeads:
        with self.session() as session:
            return self.heads_of.read(session, self._stream, self._plan.namespace)

    def leftovers(self) -> list[str]:
        """Loads that nobody has published, and what nightly runs hold."""
        return [*self.pins(), *map(str, unclaimed(dict(self._plan.options)["warehouse"], self._plan.namespace))]

    def pins(self) -> list[str]:
        with self.session() as session:
            exists = session.execute("SELECT to_regclass('seamline.lake_pin') IS NOT NULL").fetchone()
            pins = session.execute("SELECT run_id FROM seamline.lake_pin").fetchall() if exists == (True,) else []
        return [str(run) for (run,) in pins]

    def state(self) -> tuple[int, Rows]:
        found = self.pinned()
        rows = {name: [tuple(row.values()) for row in found.pinned(name).to_pylist()] for name in MODELLED}
        return found.offset, counted(rows)

    def view_of(self, table: Table, *, at: Position) -> ReadView:
        return LakeView(at, {table: self.rows_of(table, self.pinned())})

    def rows_of(self, table: Table, found: LakeHeads) -> Batches:
        """As the ledger's state has them, in the typed form."""
        read = IcebergTable(table.name, found.heads[table.name], found.snapshots[table.name])
        return lambda: (typed(table, batch) for batch in read.batches())

    def evidence(self) -> str:
        said = []
        with self.session() as session:
            for table in (
                "seamline.ledger",
                "seamline.boundary",
                "seamline.publication",
                "seamline.finding",
                self.pointers.table,
                "seamline.lake_state",
            ):
                rows = session.execute(f"SELECT to_json(t)::text FROM {table} AS t".encode()).fetchall()
                said += [f"{table}: {row[0]}" for row in rows[-50:]]
        return "\n".join(said) + "\n"

    def dump(self) -> Dump:
        found = self.pinned()
        entries = found.pinned("entry").select(["tx_id", "leg", "legs", "amount"])
        seq = found.pinned("seq").select(["writer", "n"])
        return Dump(
            [Leg(*row.values()) for row in entries.to_pylist()],
            [(row["writer"], row["n"]) for row in seq.to_pylist()],
            Counter((row["actor"], row["action"]) for row in found.pinned("audit").to_pylist()),
        )

    def dump_of(self, attempts: Sequence[int]) -> Dump:
        raise NotImplementedError("only a soak looks at windows")

    # ---- states that are wrong ------------------------------------------------------------------------------------

    def _seen_after(self, owner_epoch: int | None, *statements: str) -> Commit:
        name = "somebody" if owner_epoch is None else session_name(self._id, owner_epoch)
        self.commits_seen()
        with self.session() as session, session.transaction(force_rollback=True):
            session.execute("SELECT set_config('application_name', %s, true)", (name,))
            for statement in statements:
                session.execute(statement.encode())
            session.execute("SET CONSTRAINTS ALL IMMEDIATE")
            noted = lake_audit.noted(session, after=self._noted)[-1]
        return self._looked_at(noted, len(self._seen) + 1)[0]


class DeltaWarehouse(LakeWarehouse):
    """Of Delta: a version that is ahead of the ledger is nothing that anybody reads."""

    pointers: ClassVar[Pointers] = lake_audit.DELTA
    files_of: ClassVar[type[LakeFiles]] = DeltaFiles
    heads_of: ClassVar[type[LakeHeads]] = DeltaHeads

    def leftovers(self) -> list[str]:
        """What is staged stays for maintenance, also where its files became a table's: they are hard links."""
        return self.pins()

    def forget_all(self) -> None:
        with self.session() as session:
            session.execute("DROP SCHEMA IF EXISTS checked, seamline CASCADE")
        for folder in Path(dict(self._plan.options)["warehouse"]).iterdir():
            shutil.rmtree(folder)
        self.files = self.files_of()

    def rows_of(self, table: Table, found: LakeHeads) -> Batches:
        return live(table, found.heads[table.name])


def _rows_looked_at(files: LakeFiles, states: Mapping[str, State], before: Mapping[str, State]) -> dict[str, Any]:
    """What the deferred trigger of a PostgreSQL says of its rows. `transfers_checked`: those with rows in new files."""
    none = State((), ())
    accounts = files.rows(states.get("account", none), ("ccy", "balance"))
    sums = {
        one["ccy"]: one["balance_sum"] for one in accounts.group_by("ccy").aggregate([("balance", "sum")]).to_pylist()
    }
    opened = opening_totals()
    columns = ("tx_id", "leg", "legs", "amount")
    entries = files.rows(states.get("entry", none), columns)
    transfers = entries.group_by("tx_id").aggregate(
        [("amount", "sum"), ("leg", "count"), ("leg", "count_distinct"), ("legs", "max")]
    )
    is_torn = pc.or_(
        pc.not_equal(transfers["amount_sum"], pa.scalar(Decimal(0), transfers["amount_sum"].type)),
        pc.or_(
            pc.not_equal(transfers["leg_count"], pc.cast(transfers["legs_max"], pa.int64())),
            pc.not_equal(transfers["leg_count"], transfers["leg_count_distinct"]),
        ),
    )
    known = before.get("entry", none).data
    new = State(tuple(path for path in states.get("entry", none).data if path not in known), ())
    seq = files.rows(states.get("seq", none), ("writer", "n"))
    numbers = seq.group_by("writer").aggregate([("n", "count"), ("n", "max")]).to_pylist()
    return {
        "wrong_sums": tuple(sorted(ccy for ccy in {*sums, *opened} if sums.get(ccy, 0) != opened.get(ccy, 0))),
        "torn": tuple(transfers.filter(is_torn)["tx_id"].to_pylist()),
        "gaps": tuple(sorted(one["writer"] for one in numbers if one["n_count"] != one["n_max"])),
        "transfers_checked": len(pc.unique(files.rows(new, columns)["tx_id"])),
    }
