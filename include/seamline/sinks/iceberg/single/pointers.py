"""`seamline.iceberg_table`: where each table leads by the ledger, of a catalogue that commits single tables.

The rows move with the ledger in one transaction. The catalogue follows them, table by table.
"""

from typing import ClassVar

from seamline.databases.postgres.client import Session
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.lake.catalogue import Catalogue


class LedgerPointers(Catalogue):
    """Beside the ledger, where no client of Iceberg looks for a catalogue."""

    table: ClassVar[str] = "seamline.iceberg_table"

    def create_tables(self, session: Session) -> None:
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {self.table} (catalog_name varchar(255) NOT NULL,"
            " table_namespace varchar(255) NOT NULL, table_name varchar(255) NOT NULL,"
            " metadata_location varchar(1000), previous_metadata_location varchar(1000), iceberg_type varchar(5),"
            " PRIMARY KEY (catalog_name, table_namespace, table_name))"
        )


def pointers_of(options: LakeOptions) -> Catalogue:
    return LedgerPointers(options.catalog) if options.is_single else Catalogue(options.catalog)
