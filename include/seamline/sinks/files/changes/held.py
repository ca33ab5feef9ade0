"""The committed rows of tables as an owner of their stream knows them: read once where a change needs them, and
followed from there."""

from collections.abc import Iterator
from contextlib import contextmanager

from seamline.domain.catalogue import Table
from seamline.kinds.held_rows import HeldRows, keys_of
from seamline.kinds.row_json import row_texts
from seamline.sinks.files.changes.change_files import reader_of
from seamline.sinks.files.changes.fold import folded
from seamline.sinks.files.changes.log import ChangesLog
from seamline.sinks.files.changes.state import StreamState


class HeldTables:
    """They stand behind a commit of the stream, by its number; what another owner has committed since is read again."""

    def __init__(self) -> None:
        self._rows: dict[str, HeldRows] = {}
        self._commit = 0

    def known(self, state: StreamState, table: Table) -> HeldRows | None:
        """The rows of a table behind this state; None where they were never read."""
        if state.commits != self._commit:
            self.close()
        self._commit = state.commits
        return self._rows.get(table.name)

    def read(self, log: ChangesLog, state: StreamState, table: Table) -> HeldRows:
        """The same, where a change needs them."""
        if self.known(state, table) is None:
            self._rows[table.name] = _read(log, state, table)
        return self._rows[table.name]

    def follow(self, commit: int) -> None:
        """What was read stands behind this commit, whose changes it has followed."""
        self._commit = commit

    @contextmanager
    def undone_unless_done(self) -> Iterator[None]:
        """Where the block does not end, what was read may have followed half of it."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for rows in self._rows.values():
            rows.close()
        self._rows, self._commit = {}, 0


def _read(log: ChangesLog, known: StreamState, table: Table) -> HeldRows:
    held = known.tables[table.name]
    rows = HeldRows(keyed=table.is_keyed)
    with reader_of(log.store, held) as read:
        for batch in folded(table, held.files, read):
            texts = row_texts(table, table.columns, batch)
            if table.is_keyed:
                rows.put(zip(keys_of(table, batch), texts, strict=True))
            else:
                counted: dict[bytes, int] = {}
                for text in texts:
                    counted[text] = counted.get(text, 0) + 1
                rows.count(counted)
    return rows
