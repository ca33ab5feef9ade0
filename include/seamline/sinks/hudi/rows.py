"""Where the rows of a Hudi table stand: all rows of its data files are in the table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from seamline.domain.catalogue import Table
from seamline.sinks.hudi import types
from seamline.sinks.hudi.state import TableState
from seamline.sinks.lake.rows import FileRows, identities_in


class RowIndex:
    """The rows of a table's files, kept from commit to commit: to find them means to read their keys. By path."""

    def __init__(self, table: Table, folder: Path) -> None:
        self._table = table
        self._folder = folder
        self._rows: dict[str, FileRows] = {}

    def of(self, state: TableState) -> dict[str, FileRows]:
        paths = [str(self._folder / name) for name in state.files]
        self._rows = {path: self._rows.get(path) or self._read(path) for path in paths}
        return dict(self._rows)

    def keep(self, rows: Mapping[str, FileRows]) -> None:
        """The rows as a commit of our own has left them: nothing is read again."""
        self._rows = dict(rows)

    def _read(self, path: str) -> FileRows:
        found = identities_in(self._table, path, types)
        return FileRows(found, np.zeros(len(found), np.bool_))
