"""Where the rows of a Delta table stand, by the deletion vectors of its files."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from seamline.domain.catalogue import Table
from seamline.sinks.delta import types
from seamline.sinks.delta.state import DataFile, TableState
from seamline.sinks.lake.rows import FileRows, identities_in


class RowIndex:
    """The rows of a table's files, kept from commit to commit: to find them means to read their keys. By the path of
    the file on this machine."""

    def __init__(self, table: Table, folder: Path) -> None:
        self._table = table
        self._folder = folder
        self._rows: dict[str, FileRows] = {}
        # Of each path the deletion vector that its rows stand for.
        self._vectors: dict[str, str] = {}

    def of(self, state: TableState) -> dict[str, FileRows]:
        files = {str(file.path_in(self._folder)): file for file in state.files.values()}
        self._rows = {path: self._known(path, file) for path, file in files.items()}
        self._vectors = {path: file.key[1] for path, file in files.items()}
        return dict(self._rows)

    def keep(self, state: TableState, rows: Mapping[str, FileRows]) -> None:
        """The rows as a commit of our own has left them: nothing is read again."""
        files = {str(file.path_in(self._folder)): file for file in state.files.values()}
        self._rows = {path: rows[path] for path in files}
        self._vectors = {path: file.key[1] for path, file in files.items()}

    def _known(self, path: str, file: DataFile) -> FileRows:
        if path in self._rows and self._vectors[path] == file.key[1]:
            return self._rows[path]
        found = self._rows[path].identities if path in self._rows else identities_in(self._table, path, types)
        dead = np.zeros(len(found), np.bool_)
        if file.vector is not None:
            dead[file.vector.positions(self._folder)] = True
        return FileRows(found, dead)
