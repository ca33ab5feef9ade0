"""Which folder each table of a format without a catalogue lies in, and at which of its states the ledger has it.

A reader opens a folder. All rows of a stream move with its ledger, so the states that they name belong together.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from seamline.databases.postgres.client import Session
from seamline.sinks.lake import ownership
from seamline.sinks.lake.files import content, local, namespace_folder, translated
from seamline.sinks.lake.store import CatalogueChanges, PointerMove, PointerMoved

_OF = "warehouse = %s AND namespace = %s"


@dataclass(frozen=True, slots=True)
class FolderCatalogue:
    """The rows of one warehouse: `lake.pointers.Pointers`. A pointer is `<folder>#<number>`.

    `table`: the table of the rows, with its schema; `state`: its column of the number; `log`: the folder that each
    table of the format has in its own.
    """

    warehouse: str
    table: ClassVar[str]
    state: ClassVar[str]
    log: ClassVar[str]

    @property
    def names(self) -> Sequence[str]:
        return (self.table,)

    def create_tables(self, session: Session) -> None:
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {self.table} (warehouse text NOT NULL, namespace text NOT NULL,"
            f" table_name text NOT NULL, folder text NOT NULL, {self.state} bigint NOT NULL,"
            " PRIMARY KEY (warehouse, namespace, table_name))"
        )

    def claim(self, session: Session, namespace: str) -> None:
        folder, tables = self._there(namespace)
        # Whoever has never published has no table of rows.
        is_there = session.execute("SELECT to_regclass(%s) IS NOT NULL", (self.table,)).fetchone() == (True,)
        pointers = self.pointers(session, namespace) if is_there else {}
        with translated(f"write into {folder}"):
            known = map(_folder, pointers.values())
            ownership.claim(folder, ownership.ledger_of(session), tables=tables, known=known)

    def require_own(self, session: Session, namespace: str, pointers: Collection[str]) -> None:
        folder, tables = self._there(namespace)
        with translated(f"look into {folder}"):
            known = map(_folder, pointers)
            ownership.require_own(folder, ownership.ledger_of(session), tables=tables, known=known)

    def pointers(self, session: Session, namespace: str) -> dict[str, str]:
        rows = session.execute(
            f"SELECT table_name, folder || '#' || {self.state} FROM {self.table} WHERE {_OF}",
            (self.warehouse, namespace),
        ).fetchall()
        return {str(table): str(text) for table, text in rows}

    def views(self, session: Session, namespace: str) -> dict[str, str]:  # noqa: ARG002 (formats in folders have none)
        return {}

    def held(self, session: Session, namespace: str, tables: Collection[str]) -> dict[str, str]:
        rows = session.execute(
            f"SELECT table_name, folder || '#' || {self.state} FROM {self.table} WHERE {_OF}"
            " AND table_name = ANY(%s) ORDER BY table_name FOR UPDATE",
            (self.warehouse, namespace, list(tables)),
        ).fetchall()
        return {str(table): str(text) for table, text in rows}

    def move(
        self,
        session: Session,
        namespace: str,
        moves: Sequence[PointerMove],
        *,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        for number, move in enumerate(sorted(moves, key=lambda move: move.table)):
            put = self._update if move.old else self._insert
            self._require_one(put(session, namespace, move), move.table)
            if number == 0:
                between()

    def apply(self, session: Session, namespace: str, changes: CatalogueChanges) -> None:
        self._rename(session, namespace, changes.set_aside)
        for table, text in sorted(changes.taken.items()):
            self._require_one(self._delete(session, changes.taken_from, table, text), table)
        self.move(session, namespace, changes.moves)

    def drop_namespace(self, session: Session, namespace: str) -> None:
        session.execute(f"DELETE FROM {self.table} WHERE {_OF}", (self.warehouse, namespace))

    def all_pointers(self, session: Session) -> list[tuple[str, str]]:
        """(namespace, pointer) of every table that has a row."""
        rows = session.execute(
            f"SELECT namespace, folder || '#' || {self.state} FROM {self.table} WHERE warehouse = %s",
            (self.warehouse,),
        ).fetchall()
        return [(str(namespace), str(text)) for namespace, text in rows]

    def _there(self, namespace: str) -> tuple[Path, list[Path]]:
        """The folder of a namespace, and those of its tables."""
        folder = local(namespace_folder(self.warehouse, namespace))
        with translated(f"look into {folder}"):
            return folder, [path for path in map(local, content(folder)) if (path / self.log).is_dir()]

    def _update(self, session: Session, namespace: str, move: PointerMove) -> int:
        (old_folder, old), (folder, new) = _parts(move.old), _parts(move.new)
        return session.execute(
            f"UPDATE {self.table} SET folder = %s, {self.state} = %s"
            f" WHERE {_OF} AND table_name = %s AND folder = %s AND {self.state} = %s",
            (folder, new, self.warehouse, namespace, move.table, old_folder, old),
        ).rowcount

    def _insert(self, session: Session, namespace: str, move: PointerMove) -> int:
        folder, new = _parts(move.new)
        return session.execute(
            f"INSERT INTO {self.table} (warehouse, namespace, table_name, folder, {self.state})"
            " VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (self.warehouse, namespace, move.table, folder, new),
        ).rowcount

    def _delete(self, session: Session, namespace: str, table: str, text: str) -> int:
        folder, at = _parts(text)
        return session.execute(
            f"DELETE FROM {self.table} WHERE {_OF} AND table_name = %s AND folder = %s AND {self.state} = %s",
            (self.warehouse, namespace, table, folder, at),
        ).rowcount

    def _rename(self, session: Session, namespace: str, names: Mapping[str, str]) -> None:
        for old, new in sorted(names.items()):
            session.execute(
                f"UPDATE {self.table} SET table_name = %s WHERE {_OF} AND table_name = %s",
                (new, self.warehouse, namespace, old),
            )

    @staticmethod
    def _require_one(rows: int, table: str) -> None:
        if rows != 1:
            raise PointerMoved(table)


def _folder(text: str) -> Path:
    return Path(_parts(text)[0])


def _parts(text: str) -> tuple[str, int]:
    folder, _, number = text.rpartition("#")
    return folder, int(number)
