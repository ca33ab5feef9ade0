"""The Hudi tables of one stream: `LakeTables` by the instants of each table's own timeline.

An instant is there before the ledger names it. Where the ledger's commit does not follow, the table is ahead: spans are
formed again and may end elsewhere, so what is ahead is taken back by a commit that has the earlier rows again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import Refused, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.ports import Failpoints, Joining, Load, Unarmed
from seamline.sinks.hudi import placing, types
from seamline.sinks.hudi.edit import TableEdit
from seamline.sinks.hudi.pointer import Pointer
from seamline.sinks.hudi.rows import RowIndex
from seamline.sinks.hudi.state import TableState
from seamline.sinks.hudi.timeline import NumberTaken, Timeline
from seamline.sinks.lake.files import NewFiles, url_of
from seamline.sinks.lake.loads import require_as_compared, staged_files
from seamline.sinks.lake.rows import FileRows
from seamline.sinks.lake.sink import Mark
from seamline.sinks.lake.store import CatalogueChanges, PointerMove, PointerMoved, Seen
from seamline.values.changes import ChangeBatch

# How often a number is taken again because somebody else has taken it.
_ATTEMPTS = 50


class HudiTables:
    """`lake.sink.LakeTables`."""

    undoing: ClassVar[str] = "CALL rollback_to_instant of the instants that are not the stream's"

    def __init__(
        self, definitions: Sequence[Table], warehouse: str, namespace: str, *, failpoints: Failpoints | None = None
    ) -> None:
        self._definitions = {table.name: table for table in definitions}
        self._place = placing.Place(warehouse, namespace)
        self._failpoints = failpoints or Unarmed()
        self._indexes: dict[str, RowIndex] = {}
        # By table, what is known of its timeline: commits of the stream, and actions that did it no harm.
        self._own: dict[str, set[str]] = {}

    def forget(self) -> None:
        self._indexes, self._own = {}, {}

    def close(self) -> None:
        """Nothing is open between two calls."""

    def take_over(self, tables: Sequence[str], seen: Seen, *, mark: Mark) -> None:
        """A number of our own on each, also where there is nothing to undo: it is the one that an older owner would
        take."""
        for name in tables:
            self._settled(name, seen, mark, takes_number=True)

    def foreign(self, table: str, seen: Seen, stream: StreamId) -> str:
        timeline = Timeline(Pointer.parsed(seen.heads[table]).folder)
        own = self._own.setdefault(table, set())
        commits, services = timeline.commits(), timeline.services()
        own &= commits.keys() | services
        for name in sorted(commits.keys() - own):
            if not _is_of(timeline, name, stream):
                return f"commit {name}"
            own.add(name)
        for name in sorted(services - own):
            # What takes back a commit of somebody else leaves the stream's files alone. A clean takes those of cuts.
            if name.endswith(".clean") or not timeline.has_files():
                return f"action {name}"
            own.add(name)
        return ""

    def edited(
        self, name: str, seen: Seen, batches: Iterable[ChangeBatch], *, mark: Mark
    ) -> tuple["_StagedTable | None", list[Finding]]:
        pointer = Pointer.parsed(seen.heads[name])
        number, head = self._settled(name, seen, mark)
        timeline = Timeline(pointer.folder)
        files = NewFiles(url_of(pointer.folder), str(mark))
        index = self._indexes.setdefault(name, RowIndex(self._definitions[name], pointer.folder))
        reserve = partial(timeline.reserve, head.instant)
        edit = TableEdit(self._definitions[name], head, index, pointer.folder, files, mark=mark, reserve=reserve)
        try:
            findings = edit.apply(batches)
            staged = edit.staged()
        except SeamlineError:
            files.drop()
            raise
        if staged is None:
            return None, findings
        state, rows = staged
        return _StagedTable(self, name, pointer, (number, head), state, rows, files), findings

    def put(self, pointer: Pointer, number: int, state: TableState, before: TableState) -> None:
        """Write the commit to which the pointer is to move. NumberTaken."""
        Timeline(pointer.folder).put(number, state, before)
        self._failpoints.reach("app.dml_half")

    def go_on_from(self, name: str, rows: Mapping[str, FileRows]) -> None:
        """What is committed: nothing of it is read again."""
        self._indexes[name].keep(rows)

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

    def _settled(self, name: str, seen: Seen, mark: Mark, *, takes_number: bool = False) -> tuple[int, TableState]:
        """The newest number and the head, once its rows are those of the ledger's instant.

        TransientError: a later owner writes.
        """
        pointer = Pointer.parsed(seen.heads[name])
        timeline = Timeline(pointer.folder)
        for _ in range(_ATTEMPTS):
            number, head = timeline.head()
            if head.epoch > mark.epoch:
                raise TransientError(f"table {name} is written by a later owner of {mark.stream}", table=name)
            named = timeline.at(pointer.instant)
            if head.rows_of == named.rows_of:
                if not takes_number:
                    return number, head
                # The same table, written by this owner. It is in Hudi's timeline already.
                after = replace(head, stream=str(mark.stream), epoch=mark.epoch)
            else:
                after = placing.put_back(timeline, head, named, mark)
            try:
                timeline.put(number + 1, after, head)
            except NumberTaken:
                continue
            takes_number = False
        raise TransientError(f"somebody writes {name} all the time", hint="let that end", table=name)


def _is_of(timeline: Timeline, name: str, stream: StreamId) -> bool:
    try:
        return timeline.read(name).is_of(stream)
    except FileNotFoundError:
        # Somebody has just taken it back.
        return True
    except Refused:
        return False


class _StagedTable:
    """`lake.sink.StagedTable`: an instant that is not in the timeline before `land`."""

    def __init__(
        self,
        tables: HudiTables,
        name: str,
        pointer: Pointer,
        head: tuple[int, TableState],
        state: TableState,
        rows: Mapping[str, FileRows],
        files: NewFiles,
    ) -> None:
        self._tables = tables
        self._name = name
        self._before = pointer
        self._after = pointer.at(state.instant)
        self._number, self._head = head
        self._state = state
        self._rows = rows
        self._files = files
        self._is_there = False

    @property
    def move(self) -> PointerMove:
        return PointerMove(self._name, self._before.text, self._after.text, self._after.instant)

    def land(self) -> None:
        self._files.synced()
        try:
            # From here on its files may be named, also where the answer is lost.
            self._is_there = True
            self._tables.put(self._after, self._number + 1, self._state, self._head)
        except NumberTaken as exc:
            self._is_there = False
            raise PointerMoved(self._name) from exc

    def drop(self) -> None:
        """A commit that is there is undone by whoever writes the table next."""
        if not self._is_there:
            self._files.drop()

    def keep(self) -> None:
        self._tables.go_on_from(self._name, self._rows)
