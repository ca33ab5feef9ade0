"""Probe tables in a MariaDB source."""

from collections.abc import Mapping, Sequence

from seamline.adapters.probe_statements import default_of
from seamline.databases.mysql.client import MARIADB
from seamline.databases.mysql.edge_values import edge_values
from seamline.databases.mysql.probes import BinlogProbes
from seamline.domain.catalogue import Column, Table
from seamline.domain.probe import Default
from seamline.plan.model import SourcePlan


class MariaDbProbes(BinlogProbes):
    server = MARIADB
    read_as = "_{charset} {byte}"

    def _edge_values_of(self, column: Column, letters: str) -> Sequence[str]:
        return edge_values(column, letters=letters)

    def _defaults_of(self, table: Table) -> Mapping[str, Default]:
        """A nullable column without one has the default NULL, in the server's words."""
        rows = self._rows(
            "SELECT column_name, column_default FROM information_schema.columns"
            f" WHERE {self._is_at(table.name)} AND column_default <> 'NULL'"
        )
        return {str(name): default_of(str(text)) for name, text in rows}


def open_probes(source: SourcePlan) -> MariaDbProbes:
    return MariaDbProbes(source)
