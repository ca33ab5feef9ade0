"""What the changes of one commit do to one Delta table: new data files, and new deletion vectors of old ones."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.sinks.delta import types
from seamline.sinks.delta.data_files import with_vector, written_file
from seamline.sinks.delta.rows import RowIndex
from seamline.sinks.delta.state import Action, DataFile, TableState, addition, removal
from seamline.sinks.delta.vectors import VectorFile
from seamline.sinks.lake.edit import RowEdit
from seamline.sinks.lake.files import NewFiles, local
from seamline.sinks.lake.rows import FileRows
from seamline.sinks.lake.storage import write_parquet


class TableEdit(RowEdit):
    """Over one version of the table, and it changes nothing of the index."""

    def __init__(self, table: Table, state: TableState, index: RowIndex, folder: Path, files: NewFiles) -> None:
        rows = index.of(state)
        self._known = {str(file.path_in(folder)): file for file in state.files.values()}
        # By what lives in it: a file of which most rows are gone is a small one.
        sizes = {path: int(file.size * _living(rows[path])) for path, file in self._known.items()}
        super().__init__(table, types, rows, sizes)
        self._folder = folder
        self._files = files
        self._added: dict[str, DataFile] = {}

    def staged(self) -> tuple[list[Action], dict[str, FileRows]] | None:
        """The actions of the next version, and the rows by file after it; None where nothing has changed."""
        if not (self._added or self._gone or self._out):
            return None
        self._join_small_files()
        return list(self._actions()), self._rows

    def _actions(self) -> Iterator[Action]:
        yield from (removal(self._known[path]) for path in sorted(self._out))
        vectors = VectorFile(uuid4())
        for path in [path for path in self._rows if path in self._gone]:
            yield from self._without_rows(path, vectors)
        yield from map(addition, self._added.values())
        if not vectors.is_empty:
            vectors.write(local(self._files.beside(vectors.name)))

    def _without_rows(self, path: str, vectors: VectorFile) -> Iterator[Action]:
        """Of a file of before, or of this commit's own, from which a later batch took rows again."""
        dead = np.flatnonzero(self._rows[path].dead)
        is_empty = len(dead) == len(self._rows[path].dead)
        if path in self._known:
            yield removal(self._known[path])
            if not is_empty:
                yield addition(with_vector(self._known[path], vectors.put(dead)))
        elif is_empty:
            del self._added[path]
        else:
            self._added[path] = with_vector(self._added[path], vectors.put(dead))
        if is_empty:
            del self._rows[path]

    def _write(self, rows: pa.Table, *, ending: str) -> str:
        path = local(self._files.data(ending))
        write_parquet(rows, path)
        self._added[str(path)] = written_file(path, self._folder)
        return str(path)

    def _drop_added(self) -> None:
        self._files.drop(map(Path, self._added))
        self._added = {}


def _living(rows: FileRows) -> float:
    return 1.0 - float(rows.dead.mean()) if len(rows.dead) else 0.0
