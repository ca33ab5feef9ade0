"""`seamline.delta_table`: which folder each table lies in, and at which version of its log the ledger has it.

Delta has no catalogue of its own here: a reader opens a folder. All rows of a stream move with its ledger, so the
versions that they name belong together.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from seamline.databases.postgres.client import Session
from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.lake.store import CatalogueChanges, PointerMove, PointerMoved

_TABLE = """
CREATE TABLE IF NOT EXISTS seamline.delta_table (
    warehouse text NOT NULL,
    namespace text NOT NULL,
    table_name text NOT NULL,
    folder text NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (warehouse, namespace, table_name)
);
"""
_OF = "warehouse = %s AND namespace = %s"


@dataclass(frozen=True, slots=True)
class DeltaCatalogue:
    """The rows of one warehouse: `lake.pointers.Pointers`."""

    warehouse: str
    names: ClassVar[Sequence[str]] = ("seamline.delta_table",)

    def create_tables(self, session: Session) -> None:
        session.execute(_TABLE)

    def pointers(self, session: Session, namespace: str) -> dict[str, str]:
        rows = session.execute(
            f"SELECT table_name, folder || '#' || version FROM seamline.delta_table WHERE {_OF}",
            (self.warehouse, namespace),
        ).fetchall()
        return {str(table): str(text) for table, text in rows}

    def held(self, session: Session, namespace: str, tables: Collection[str]) -> dict[str, str]:
        rows = session.execute(
            f"SELECT table_name, folder || '#' || version FROM seamline.delta_table WHERE {_OF}"
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
            self._require_one(self._delete(session, changes.taken_from, table, Pointer.parsed(text)), table)
        self.move(session, namespace, changes.moves)

    def drop_namespace(self, session: Session, namespace: str) -> None:
        session.execute(f"DELETE FROM seamline.delta_table WHERE {_OF}", (self.warehouse, namespace))

    def folders(self, session: Session) -> dict[str, list[Pointer]]:
        """By namespace, every table that has a row."""
        found: dict[str, list[Pointer]] = {}
        for namespace, text in session.execute(
            "SELECT namespace, folder || '#' || version FROM seamline.delta_table WHERE warehouse = %s",
            (self.warehouse,),
        ).fetchall():
            found.setdefault(str(namespace), []).append(Pointer.parsed(text))
        return found

    def _update(self, session: Session, namespace: str, move: PointerMove) -> int:
        old, new = Pointer.parsed(move.old), Pointer.parsed(move.new)
        return session.execute(
            "UPDATE seamline.delta_table SET folder = %s, version = %s"
            f" WHERE {_OF} AND table_name = %s AND folder = %s AND version = %s",
            (str(new.folder), new.version, self.warehouse, namespace, move.table, str(old.folder), old.version),
        ).rowcount

    def _insert(self, session: Session, namespace: str, move: PointerMove) -> int:
        new = Pointer.parsed(move.new)
        return session.execute(
            "INSERT INTO seamline.delta_table (warehouse, namespace, table_name, folder, version)"
            " VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (self.warehouse, namespace, move.table, str(new.folder), new.version),
        ).rowcount

    def _delete(self, session: Session, namespace: str, table: str, at: Pointer) -> int:
        return session.execute(
            f"DELETE FROM seamline.delta_table WHERE {_OF} AND table_name = %s AND folder = %s AND version = %s",
            (self.warehouse, namespace, table, str(at.folder), at.version),
        ).rowcount

    def _rename(self, session: Session, namespace: str, names: Mapping[str, str]) -> None:
        for old, new in sorted(names.items()):
            session.execute(
                f"UPDATE seamline.delta_table SET table_name = %s WHERE {_OF} AND table_name = %s",
                (new, self.warehouse, namespace, old),
            )

    @staticmethod
    def _require_one(rows: int, table: str) -> None:
        if rows != 1:
            raise PointerMoved(table)
