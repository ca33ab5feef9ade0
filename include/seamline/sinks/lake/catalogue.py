"""Iceberg's JDBC catalogue in PostgreSQL: a row per table, whose metadata file is its pointer.

The tables are those that Iceberg's own clients make and look for: in schema `public`, under these names
(`org.apache.iceberg.jdbc.JdbcUtil`, Iceberg 1.12). All clients must call the catalogue alike: the name is part of each
row's key.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from seamline.databases.postgres.client import Session
from seamline.domain.errors import Refused
from seamline.sinks.lake.store import CatalogueChanges, PointerMove, PointerMoved

_TABLES = """
CREATE TABLE IF NOT EXISTS public.iceberg_tables (
    catalog_name varchar(255) NOT NULL,
    table_namespace varchar(255) NOT NULL,
    table_name varchar(255) NOT NULL,
    metadata_location varchar(1000),
    previous_metadata_location varchar(1000),
    iceberg_type varchar(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE IF NOT EXISTS public.iceberg_namespace_properties (
    catalog_name varchar(255) NOT NULL,
    namespace varchar(255) NOT NULL,
    property_key varchar(255),
    property_value varchar(1000),
    PRIMARY KEY (catalog_name, namespace, property_key)
);
"""
# Views have rows of their own there.
_IS_TABLE = "catalog_name = %s AND table_namespace = %s AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
_IS_VIEW = "catalog_name = %s AND table_namespace = %s AND iceberg_type = 'VIEW'"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The rows of one catalogue, by its name: `lake.pointers.Pointers`. `table`: of the rows, with its schema."""

    name: str
    table: ClassVar[str] = "public.iceberg_tables"

    @property
    def names(self) -> Sequence[str]:
        return (self.table,)

    def create_tables(self, session: Session) -> None:
        session.execute(_TABLES)

    # A warehouse may have tables of many catalogues: nothing is dropped there but in folders of a table's own.
    def claim(self, session: Session, namespace: str) -> None:
        return

    def require_own(self, session: Session, namespace: str, pointers: Collection[str]) -> None:
        return

    def pointers(self, session: Session, namespace: str) -> dict[str, str]:
        rows = session.execute(
            f"SELECT table_name, metadata_location FROM {self.table} WHERE {_IS_TABLE}", (self.name, namespace)
        ).fetchall()
        return {str(table): str(location) for table, location in rows}

    def views(self, session: Session, namespace: str) -> dict[str, str]:
        rows = session.execute(
            f"SELECT table_name, metadata_location FROM {self.table} WHERE {_IS_VIEW}", (self.name, namespace)
        ).fetchall()
        return {str(view): str(location) for view, location in rows}

    def held(self, session: Session, namespace: str, tables: Collection[str]) -> dict[str, str]:
        rows = session.execute(
            f"SELECT table_name, metadata_location FROM {self.table} WHERE {_IS_TABLE}"
            " AND table_name = ANY(%s) ORDER BY table_name FOR UPDATE",
            (self.name, namespace, list(tables)),
        ).fetchall()
        return {str(table): str(location) for table, location in rows}

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
            put(session, namespace, move)
            if number == 0:
                between()

    def apply(self, session: Session, namespace: str, changes: CatalogueChanges) -> None:
        self._rename(session, namespace, changes.set_aside)
        for table, location in sorted(changes.taken.items()):
            self._require_one(
                session.execute(
                    f"DELETE FROM {self.table} WHERE {_IS_TABLE} AND table_name = %s AND metadata_location = %s",
                    (self.name, changes.taken_from, table, location),
                ).rowcount,
                table,
            )
        self.move(session, namespace, changes.moves)

    def all_pointers(self, session: Session) -> list[str]:
        """Where the pointers of all tables lead, of every namespace and of every catalogue in this database. By one
        statement: a table that joins, or gets another name, is there once."""
        rows = session.execute(
            f"SELECT metadata_location FROM {self.table} WHERE iceberg_type IS DISTINCT FROM 'VIEW'"
        ).fetchall()
        return [str(location) for (location,) in rows]

    def drop_namespace(self, session: Session, namespace: str) -> None:
        session.execute(f"DELETE FROM {self.table} WHERE {_IS_TABLE}", (self.name, namespace))

    def drop_view(self, session: Session, namespace: str, view: str) -> None:
        session.execute(f"DELETE FROM {self.table} WHERE {_IS_VIEW} AND table_name = %s", (self.name, namespace, view))

    def add_view(self, session: Session, namespace: str, view: str, location: str) -> None:
        """A table of somebody else's under that name stays what it is."""
        session.execute(
            f"INSERT INTO {self.table}"
            " (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
            " VALUES (%s, %s, %s, %s, 'VIEW') ON CONFLICT DO NOTHING",
            (self.name, namespace, view, location),
        )

    def _update(self, session: Session, namespace: str, move: PointerMove) -> None:
        moved = session.execute(
            f"UPDATE {self.table} SET metadata_location = %s, previous_metadata_location = %s"
            f" WHERE {_IS_TABLE} AND table_name = %s AND metadata_location = %s",
            (move.new, move.old, self.name, namespace, move.table, move.old),
        ).rowcount
        self._require_one(moved, move.table)

    def _insert(self, session: Session, namespace: str, move: PointerMove) -> None:
        """Refused: a view has the name."""
        made = session.execute(
            f"INSERT INTO {self.table}"
            " (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
            " VALUES (%s, %s, %s, %s, 'TABLE') ON CONFLICT DO NOTHING",
            (self.name, namespace, move.table, move.new),
        ).rowcount
        if not made and move.table in self.views(session, namespace):
            raise Refused(
                f"{namespace}.{move.table} is a view in the catalogue, and a table cannot have its name",
                hint="rename or drop the view, or choose another namespace",
                table=move.table,
            )
        self._require_one(made, move.table)

    def _rename(self, session: Session, namespace: str, names: Mapping[str, str]) -> None:
        for old, new in sorted(names.items()):
            session.execute(
                f"UPDATE {self.table} SET table_name = %s WHERE {_IS_TABLE} AND table_name = %s",
                (new, self.name, namespace, old),
            )

    @staticmethod
    def _require_one(rows: int, table: str) -> None:
        if rows != 1:
            raise PointerMoved(table)
