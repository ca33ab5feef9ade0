"""Whole tables put in place, and tables that enter and leave a running stream: each one manifest.

The files of a table that is put in place are its next generation: no manifest names those of before any more. A table
that joins brings the files of its incremental snapshot along; none of them is written again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from seamline.domain.errors import NotCaughtUp, Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.ledger_rules import is_caught_up, row_of_publish
from seamline.plan.model import INCREMENTAL
from seamline.ports import Joining, Load, Publication
from seamline.sinks.files import types
from seamline.sinks.files.changes.log import Seen
from seamline.sinks.files.changes.rows import CommitMarks, read_rows
from seamline.sinks.files.changes.state import ChangeFile, ChangesState, HeldTable, StreamState
from seamline.sinks.files.changes.writing import Writing, position_text
from seamline.sinks.files.staging import staging_of
from seamline.sinks.lake.loads import StagedFiles, require_as_compared, staged_files


@dataclass(frozen=True, slots=True)
class Loaded:
    """Tables whose files no manifest names yet, as of this commit, and the removals that had been decided before."""

    tables: Mapping[str, HeldTable]
    commit: int
    sweeps: int


def loaded(writing: Writing, seen: Seen, stream: StreamId, loads: Sequence[Load], publication: Publication) -> Loaded:
    """Refused: a staged table is gone. GateFailed: one holds something else than was staged or compared."""
    staged = [(load, staged_files(staging_of(writing.destination), load)) for load in loads]
    for load, files in staged:
        require_as_compared(files, load, types)
    known = seen.state.streams.get(stream)
    commit = (known.commits if known else 0) + 1
    tables = {}
    for load, files in staged:
        marks = writing.marks(commit, position_text(publication.position), 0)
        held = writing.begun(load.table)
        tables[load.table.name] = held.with_files(_files(writing, held, files, marks))
    return Loaded(tables, commit, seen.state.sweeps)


def published(stream: StreamId, known: StreamState | None, new: Loaded, publication: Publication) -> StreamState:
    """The stream's state once these tables are in place."""
    row = row_of_publish(stream, known.row if known else None, publication)
    before = replace(known, row=row) if known else StreamState(row)
    entering = {boundary.table for boundary in publication.boundaries}
    left = {boundary.table: "" for boundary in row.boundaries if boundary.table not in entering}
    after = before.with_tables(publication.boundaries, new.tables, left=left, run_id=publication.run_id)
    # What the stream has committed while the files were written counts too.
    return moved(replace(after, commits=max(before.commits + 1, new.commit)))


def _files(writing: Writing, held: HeldTable, staged: StagedFiles, marks: CommitMarks) -> Iterator[ChangeFile]:
    for path in staged.paths:
        batches = StagedFiles(staged.location, (path,), 0).batches(held.definition, types)
        made = writing.file(held, (read_rows(held.form, rows, marks) for rows in batches), marks)
        if made is not None:
            writing.log.require_written([made])
            yield replace(made, is_base=True)


def joined(state: ChangesState, stream: StreamId, joining: Joining) -> tuple[StreamState, list[StreamId]]:
    """The stream's state once the tables have joined, and the incremental snapshots that end with that.

    Refused: nothing was published. NotCaughtUp: the two stand elsewhere.
    """
    known = state.streams.get(stream)
    if known is None:
        raise Refused(f"nothing was published for {stream}", hint="onboard the sync first", sync=stream.sync)
    snapshot = state.streams.get(joining.incremental_stream) if joining.incremental_stream else None
    if joining.incremental_stream is not None and not is_caught_up(snapshot.row if snapshot else None, known.row):
        raise NotCaughtUp(
            f"{stream} stands at offset {known.row.next_offset}, its incremental snapshot elsewhere", sync=stream.sync
        )
    names = {table.name for table in joining.tables}
    entering = [one for one in snapshot.row.boundaries if one.table in names] if snapshot else []
    tables = {name: snapshot.tables[name] for name in names} if snapshot else {}
    # What comes next has a higher number than whatever the tables bring along.
    commits = max(known.commits, snapshot.commits if snapshot else 0) + 1
    after = replace(known, row=replace(known.row, epoch=known.row.epoch + 1), commits=commits)
    after = after.with_tables(entering, tables, left=dict(joining.kept_as), run_id=joining.run_id)
    return moved(after), list(incremental_streams(state, stream))


def incremental_streams(state: ChangesState, stream: StreamId) -> Iterator[StreamId]:
    """Those of all incremental snapshots into it, also abandoned ones."""
    for one in state.streams:
        if one.destination == stream.destination and one.sync.startswith(f"{stream.sync}{INCREMENTAL}"):
            yield one


def moved(state: StreamState) -> StreamState:
    """As of now."""
    return replace(state, moved_ms=int(time.time() * 1000))
