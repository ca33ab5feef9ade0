"""Probe tables in a MySQL source."""

from collections.abc import Mapping, Sequence

from seamline.adapters.probe_statements import default_of
from seamline.databases.mysql.edge_values import readable_literal
from seamline.databases.mysql.mysql_client import MYSQL
from seamline.databases.mysql.probes import BinlogProbes
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.probe import Default
from seamline.plan.model import SourcePlan
from seamline.sources.mysql.catalogue import unescaped
from seamline.sources.mysql.edge_values import LIMITS, edge_values

# Their defaults are printed as SQL has them.
_PRINTED_AS_SQL = frozenset({Kind.BITS, Kind.BINARY, Kind.BYTES})


class MySqlProbes(BinlogProbes):
    server = MYSQL
    read_as = "CONVERT({byte} USING {charset})"

    def limits(self) -> Mapping[Kind, Sequence[tuple[str, str]]]:
        return LIMITS

    def _edge_values_of(self, column: Column, letters: str) -> Sequence[str]:
        return edge_values(column, letters=letters)

    def _defaults_of(self, table: Table) -> Mapping[str, Default]:
        """The server prints an expression as SQL, and of a literal the value alone."""
        rows = self._rows(
            "SELECT column_name, column_default, INSTR(extra, 'DEFAULT_GENERATED') FROM information_schema.columns"
            f" WHERE {self._is_at(table.name)} AND column_default IS NOT NULL"
        )
        return {
            str(name): default_of(
                f"({unescaped(str(text))})" if is_expression else _literal(table.column(str(name)), str(text))
            )
            for name, text, is_expression in rows
        }


def _literal(column: Column, text: str) -> str:
    return text if column.kind in _PRINTED_AS_SQL else readable_literal(text)


def open_probes(source: SourcePlan) -> MySqlProbes:
    return MySqlProbes(source)
