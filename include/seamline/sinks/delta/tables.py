"""The Delta tables of one stream: `LakeTables` by versions of each table's own log.

A version is there before the ledger names it. Where the ledger's commit does not follow, the table is ahead: spans are
formed again and may end elsewhere, so what is ahead is taken back by a version with the opposite actions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.ports import Failpoints, Joining, Load, Unarmed
from seamline.sinks.delta import placing, types
from seamline.sinks.delta.actions import changes_rows, epoch_of, information, is_of, transaction
from seamline.sinks.delta.edit import TableEdit
from seamline.sinks.delta.log import CHECKPOINT_EVERY, DeltaLog, VersionTaken
from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.delta.rows import RowIndex
from seamline.sinks.delta.state import Action, TableState, difference
from seamline.sinks.lake.files import NewFiles, url_of
from seamline.sinks.lake.loads import require_as_compared, staged_files
from seamline.sinks.lake.rows import FileRows
from seamline.sinks.lake.sink import Mark
from seamline.sinks.lake.store import CatalogueChanges, PointerMove, PointerMoved, Seen
from seamline.values.changes import ChangeBatch

# How often a version is written again because somebody else has taken its number.
_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What lies between the ledger's version and the head. `own`: the state before the first version of this stream
    that changed rows and that the ledger does not name; None where there is none. `foreign`: what somebody else did."""

    head: TableState
    own: TableState | None = None
    foreign: str = ""


class DeltaTables:
    """`lake.sink.LakeTables`."""

    undoing: ClassVar[str] = "RESTORE TABLE … TO VERSION AS OF the version that seamline.delta_table names"

    def __init__(
        self, definitions: Sequence[Table], warehouse: str, namespace: str, *, failpoints: Failpoints | None = None
    ) -> None:
        self._definitions = {table.name: table for table in definitions}
        self._place = placing.Place(warehouse, namespace)
        self._failpoints = failpoints or Unarmed()
        # By table: where it stood when this was last looked at, and the head whose rows are those of that pointer.
        self._heads: dict[str, tuple[Pointer, TableState]] = {}
        self._indexes: dict[str, RowIndex] = {}

    def forget(self) -> None:
        self._heads, self._indexes = {}, {}

    def close(self) -> None:
        """Nothing is open between two calls."""

    def take_over(self, tables: Sequence[str], seen: Seen, *, mark: Mark) -> None:
        """A version of our own on each, also where there is nothing to undo: its number is the one that an older owner
        would write."""
        for name in tables:
            self._settled(name, seen, mark, takes_number=True)

    def foreign(self, table: str, seen: Seen, stream: StreamId) -> str:
        return self._ahead(table, seen, stream).foreign

    def edited(
        self, name: str, seen: Seen, batches: Iterable[ChangeBatch], *, mark: Mark
    ) -> tuple["_StagedTable | None", list[Finding]]:
        pointer, head = Pointer.parsed(seen.heads[name]), self._settled(name, seen, mark)
        files = NewFiles(url_of(pointer.folder), str(mark))
        index = self._indexes.setdefault(name, RowIndex(self._definitions[name], pointer.folder))
        edit = TableEdit(self._definitions[name], head, index, pointer.folder, files)
        try:
            findings = edit.apply(batches)
            staged = edit.staged()
        except SeamlineError:
            files.drop()
            raise
        if staged is None:
            return None, findings
        actions, rows = staged
        return _StagedTable(self, name, pointer, head, [*_signed(mark, "WRITE"), *actions], rows, files), findings

    def put(self, pointer: Pointer, actions: Sequence[Action]) -> None:
        """Write the version to which the pointer is to move. VersionTaken."""
        DeltaLog(pointer.folder).put(pointer.version, actions)
        self._failpoints.reach("app.dml_half")

    def go_on_from(
        self, name: str, before: Pointer, after: Pointer, state: TableState, rows: Mapping[str, FileRows]
    ) -> None:
        """What is committed: nothing of it is read again."""
        self._indexes[name].keep(state, rows)
        if after.version // CHECKPOINT_EVERY > before.version // CHECKPOINT_EVERY:
            state = state.without_old_tombstones()
            DeltaLog(after.folder).write_checkpoint(state)
        self._heads[name] = after, state

    def require_staged(self, loads: Sequence[Load]) -> None:
        for load in loads:
            require_as_compared(staged_files(self._place.warehouse, load), load, types)

    def changes_of_publish(
        self, loads: Sequence[Load], heads: Mapping[str, str], aside: Mapping[str, str], *, mark: Mark
    ) -> CatalogueChanges:
        return placing.changes_of_publish(self._place, loads, heads, aside, mark=mark)

    def changes_of_join(
        self, joining: Joining, heads: Mapping[str, str], arriving: Mapping[str, str], *, mark: Mark
    ) -> CatalogueChanges:
        return placing.changes_of_join(self._place, joining, heads, arriving, mark=mark)

    # ---- versions that the ledger does not name ---------------------------------------------------------------------

    def _settled(self, name: str, seen: Seen, mark: Mark, *, takes_number: bool = False) -> TableState:
        """The head, once its rows are those of the ledger's version.

        TransientError: a later owner writes, or somebody has just written who is nobody of this stream.
        """
        pointer = Pointer.parsed(seen.heads[name])
        for _ in range(_ATTEMPTS):
            ahead = self._ahead(name, seen, mark.stream)
            if epoch_of(ahead.head, mark.stream) > mark.epoch:
                raise TransientError(f"table {name} is written by a later owner of {mark.stream}", table=name)
            if ahead.foreign:
                raise TransientError(f"somebody else has just written {name}: {ahead.foreign}", table=name)
            if ahead.own is None and not takes_number:
                self._heads[name] = pointer, ahead.head
                return ahead.head
            undone = difference(ahead.head, ahead.own) if ahead.own else []
            actions = [*_signed(mark, "RESTORE" if undone else "FENCE"), *undone]
            try:
                DeltaLog(pointer.folder).put(ahead.head.version + 1, actions)
            except VersionTaken:
                continue
            head = ahead.head.after(actions)
            self._heads[name] = pointer, head
            return head
        raise TransientError(f"somebody writes {name} all the time", hint="let that end", table=name)

    def _ahead(self, name: str, seen: Seen, stream: StreamId) -> _Ahead:
        pointer = Pointer.parsed(seen.heads[name])
        log = DeltaLog(pointer.folder)
        known = self._heads.get(name)
        if known is not None and known[0] == pointer:
            head = log.newest(known[1])
            # Nothing has come since it was looked at.
            if head.version == known[1].version:
                return _Ahead(head)
        base = log.at(pointer.version)
        head = log.newest(base)
        if head.keys == base.keys:
            return _Ahead(head)
        return _examined(log, base, head, stream)


def _examined(log: DeltaLog, base: TableState, head: TableState, stream: StreamId) -> _Ahead:
    own: TableState | None = None
    state = base
    while state.version < head.version:
        actions = log.actions(state.version + 1)
        assert actions is not None, "the head was made of it"
        if changes_rows(actions):
            if not is_of(actions, stream):
                return _Ahead(head, foreign=f"{information(actions)} of version {state.version + 1}")
            own = own or state
        state = state.after(actions)
    return _Ahead(head, own)


def _signed(mark: Mark, operation: str) -> list[Action]:
    return transaction(mark.stream, mark.epoch, operation)


class _StagedTable:
    """`lake.sink.StagedTable`: a version that is not in the log before `land`."""

    def __init__(
        self,
        tables: DeltaTables,
        name: str,
        pointer: Pointer,
        head: TableState,
        actions: Sequence[Action],
        rows: Mapping[str, FileRows],
        files: NewFiles,
    ) -> None:
        self._tables = tables
        self._name = name
        self._before = pointer
        self._after = pointer.at(head.version + 1)
        self._head = head
        self._actions = actions
        self._rows = rows
        self._files = files
        self._is_there = False

    @property
    def move(self) -> PointerMove:
        return PointerMove(self._name, self._before.text, self._after.text, self._after.number)

    def land(self) -> None:
        self._files.synced()
        try:
            # From here on its files may be named, also where the answer is lost.
            self._is_there = True
            self._tables.put(self._after, self._actions)
        except VersionTaken as exc:
            self._is_there = False
            raise PointerMoved(self._name) from exc

    def drop(self) -> None:
        """A version that is there is undone by whoever writes the table next."""
        if not self._is_there:
            self._files.drop()

    def keep(self) -> None:
        state = self._head.after(self._actions)
        self._tables.go_on_from(self._name, self._before, self._after, state, self._rows)
