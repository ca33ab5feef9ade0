"""What the changes of one commit do to one Hudi table: files with a row that goes are written again without it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.sinks.hudi import types
from seamline.sinks.hudi.data_files import new_name, written_file
from seamline.sinks.hudi.rows import RowIndex
from seamline.sinks.hudi.state import DataFile, TableState
from seamline.sinks.lake.edit import RowEdit
from seamline.sinks.lake.files import NewFiles, local
from seamline.sinks.lake.rows import FileRows
from seamline.sinks.lake.sink import Mark
from seamline.sinks.lake.storage import write_parquet


class TableEdit(RowEdit):
    """Over one state of the table, and it changes nothing of the index. `reserve`: an instant, asked for once where
    something changes."""

    def __init__(
        self,
        table: Table,
        state: TableState,
        index: RowIndex,
        folder: Path,
        files: NewFiles,
        *,
        mark: Mark,
        reserve: Callable[[], int],
    ) -> None:
        super().__init__(
            table, types, index.of(state), {str(folder / name): one.size for name, one in state.files.items()}
        )
        self._folder = folder
        self._files = files
        self._state = state
        self._mark = mark
        self._reserve = reserve
        self._reserved = 0
        self._added: dict[str, DataFile] = {}

    def staged(self) -> tuple[TableState, dict[str, FileRows]] | None:
        """The next state, and the rows by file in it; None where nothing has changed."""
        if not (self._added or self._gone or self._out):
            return None
        if self._gone:
            self._without_gone(list(self._gone))
        if small := self._small_files():
            self._write_again(small)
        kept = {name: one for name, one in self._state.files.items() if str(self._folder / name) not in self._out}
        files = {**kept, **{one.name: one for one in self._added.values()}}
        instant = self._instant
        state = replace(
            self._state,
            instant=instant,
            rows_of=instant,
            stream=str(self._mark.stream),
            epoch=self._mark.epoch,
            files=files,
        )
        return state, self._rows

    @property
    def _instant(self) -> int:
        if not self._reserved:
            self._reserved = self._reserve()
        return self._reserved

    def _without_gone(self, paths: list[str]) -> None:
        """Of before, or of this commit's own, from which a later batch took rows again: these leave at once."""
        self._write_again(paths)
        own = [path for path in paths if path in self._added]
        self._files.drop(map(Path, own))
        for path in own:
            del self._added[path]

    def _write(self, rows: pa.Table, *, ending: str) -> str:  # noqa: ARG002 (Hudi has its own form of names)
        path = local(self._files.beside(new_name(self._instant, self._mark.epoch)))
        write_parquet(rows, path)
        self._added[str(path)] = written_file(path)
        return str(path)

    def _drop_added(self) -> None:
        self._files.drop(map(Path, self._added))
        self._added = {}
