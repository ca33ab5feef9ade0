"""Fewer, larger change files: what lies side by side is merged, and what is older than is kept becomes rows.

The new file is written first. Then one manifest names it in the place of the others, so whoever reads by a manifest
finds each change once, whichever manifest it is. The others stay for a day, for who has begun to read them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from seamline.domain.ledger import StreamId
from seamline.sinks.files.changes import columns
from seamline.sinks.files.changes.change_files import Read, reader_of, write_changes
from seamline.sinks.files.changes.fold import standing
from seamline.sinks.files.changes.log import ChangesLog, Seen
from seamline.sinks.files.changes.options import ChangesOptions
from seamline.sinks.files.changes.state import ChangeFile, HeldTable


@dataclass(frozen=True, slots=True)
class Swap:
    """Files of a table that follow each other, and whether what happened before is forgotten."""

    stream: StreamId
    table: str
    old: tuple[ChangeFile, ...]
    is_base: bool = False


def swaps(seen: Seen, options: ChangesOptions, *, now: datetime) -> Iterator[Swap]:
    """What is due. Of a table first what is too old, as the rest is merged behind it the next time."""
    for stream, state in seen.state.streams.items():
        for name, held in state.tables.items():
            old = _too_old(held, options, now)
            if old:
                yield Swap(stream, name, old, is_base=True)
            else:
                yield from (Swap(stream, name, run) for run in _small(held, options))


def _too_old(held: HeldTable, options: ChangesOptions, now: datetime) -> tuple[ChangeFile, ...]:
    if options.keep_days is None:
        return ()
    before_ms = (now - timedelta(days=options.keep_days)).timestamp() * 1000
    count = 0
    for file in held.files:
        if not file.is_base and file.through_ms >= before_ms:
            break
        count += 1
    old = held.files[:count]
    return old if any(not file.is_base for file in old) else ()


def _small(held: HeldTable, options: ChangesOptions) -> Iterator[tuple[ChangeFile, ...]]:
    """Runs of small files that are many, each at most as large as a file that is not small."""
    run, size = list[ChangeFile](), 0
    for file in (*held.files, None):
        fits = file is not None and not file.is_base and size + file.size_bytes <= options.compact_below_bytes
        if not fits:
            if len(run) >= options.compact_from_files:
                yield tuple(run)
            run, size = [], 0
        if file is not None and not file.is_base and file.size_bytes <= options.compact_below_bytes:
            run.append(file)
            size += file.size_bytes


def swap(log: ChangesLog, seen: Seen, due: Swap) -> int:
    """How many files became one; 0 where somebody has changed them meanwhile."""
    held = seen.state.streams[due.stream].tables[due.table]
    made = _merged(log, held, due)
    log.require_written(made)

    def once(newest: Seen) -> bool | None:
        state = newest.state.streams.get(due.stream)
        swapped = state.tables[due.table].swapped(due.old, made) if state and due.table in state.tables else None
        # Behind a removal of what nothing names, the new file may be gone.
        if state is None or swapped is None or newest.state.sweeps != seen.state.sweeps:
            return False
        after = replace(state, tables={**state.tables, due.table: swapped})
        return True if log.decide(newest, newest.state.with_stream(after)) is not None else None

    # What was made in vain goes with whatever no manifest names: not here, where a manifest that was removed since may
    # have named it.
    return len(due.old) if log.settle(once) else 0


def _merged(log: ChangesLog, held: HeldTable, due: Swap) -> list[ChangeFile]:
    with reader_of(log.store, held) as read:
        path = log.path(held.definition.name, held.format)
        changes = _as_read(held, due.old, read) if due.is_base else _all(due.old, read)
        made = write_changes(log.store, path, held, changes)
    if made is None:
        return []
    commits = (due.old[0].commits[0], due.old[-1].commits[1])
    through = max(file.through_ms for file in due.old)
    return [replace(made, commits=commits, through_ms=through, is_base=due.is_base)]


def _all(files: Sequence[ChangeFile], read: Read) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from read(file)


def _as_read(held: HeldTable, files: Sequence[ChangeFile], read: Read) -> Iterator[pa.RecordBatch]:
    """The rows that stand behind these changes, as a load would have read them, each with its own place."""
    for batch in standing(held.definition, files, read):
        as_read = _with(batch, columns.OP, columns.READ)
        yield _with(as_read, columns.BEFORE, None) if held.has_before else as_read


def _with(batch: pa.RecordBatch, name: str, value: str | None) -> pa.RecordBatch:
    place = batch.schema.get_field_index(name)
    field = batch.schema.field(place)
    return batch.set_column(place, field, pa.array([value] * batch.num_rows, field.type))


def utc_now() -> datetime:
    return datetime.now(UTC)
