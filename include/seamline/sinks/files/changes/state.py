"""What the newest manifest says of change files: each stream's ledger, and the files of its tables in their order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from seamline.domain.catalogue import Table, table_from_json, table_to_json
from seamline.domain.cutover import Boundary
from seamline.domain.errors import Refused
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.files.dialect import Dialect
from seamline.kinds.ledger_json import ledger_from_json, ledger_to_json, stream_of
from seamline.kinds.ledger_rules import with_tables
from seamline.sinks.files.changes.columns import ChangeForm

# Of the newest, by which a publish or a join finds itself done.
_RUNS_KEPT = 100


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """`path`: below the place. `commits`: the first and the last of which it holds changes. `through_ms`: when the
    newest of them was committed at the source, or written, if that was later; milliseconds since 1970. `is_base`: it
    holds rows as they stood, and nothing that happened before."""

    path: str
    rows: int
    size_bytes: int
    sha256: str
    commits: tuple[int, int]
    through_ms: int
    is_base: bool = False


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A table of a stream. `files`: its changes, from the oldest to the newest; each row of them counts once.
    `has_before`: as of `ChangeForm`."""

    definition: Table
    format: str
    dialect: Dialect
    files: tuple[ChangeFile, ...] = ()
    has_before: bool = False

    @property
    def form(self) -> ChangeForm:
        return ChangeForm(self.definition, self.has_before)

    def with_files(self, more: Iterable[ChangeFile]) -> "HeldTable":
        return replace(self, files=(*self.files, *more))

    def swapped(self, old: Sequence[ChangeFile], new: Sequence[ChangeFile]) -> "HeldTable | None":
        """With other files in the place of these, which follow each other; None where they do not any more."""
        paths, gone = [file.path for file in self.files], [file.path for file in old]
        for start in range(len(paths) - len(gone) + 1):
            if paths[start : start + len(gone)] == gone:
                return replace(self, files=(*self.files[:start], *new, *self.files[start + len(gone) :]))
        return None


@dataclass(frozen=True, slots=True)
class StreamState:
    """`commits`: how many have brought rows or moved the ledger; it never goes back. `generations`: table → its last
    one, also of tables that have left. `runs`: the last ones that have published. `kept`: tables that have left, by the
    names under which they are kept. `moved_ms`: when the ledger was last written, milliseconds since 1970."""

    row: LedgerRow
    tables: Mapping[str, HeldTable] = field(default_factory=dict)
    commits: int = 0
    generations: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    kept: Mapping[str, HeldTable] = field(default_factory=dict)
    moved_ms: int = 0

    def with_tables(
        self,
        entering: Sequence[Boundary],
        tables: Mapping[str, HeldTable],
        *,
        left: Mapping[str, str],
        run_id: str,
    ) -> "StreamState":
        """The tables that enter begin their next generation. `left`: table → the name under which it is kept."""
        row, generations = with_tables(self.row, self.generations, entering, left=list(left))
        stay = {name: held for name, held in self.tables.items() if name not in left}
        kept = {new: self.tables[old] for old, new in left.items() if new and old in self.tables}
        return replace(
            self,
            row=row,
            tables={**stay, **tables},
            generations=generations,
            runs=(*self.runs, run_id)[-_RUNS_KEPT:],
            kept={**self.kept, **kept},
        )

    def paths(self) -> Iterator[str]:
        for held in (*self.tables.values(), *self.kept.values()):
            yield from (file.path for file in held.files)


@dataclass(frozen=True, slots=True)
class ChangesState:
    """`leaving`: path → when nothing named it any more; readers of an older manifest may still read it. `sweeps`: how
    often what nothing names was removed. Who wrote files before such a removal cannot count on them."""

    streams: Mapping[StreamId, StreamState] = field(default_factory=dict)
    leaving: Mapping[str, datetime] = field(default_factory=dict)
    sweeps: int = 0

    def with_stream(self, state: StreamState, *, without: Iterable[StreamId] = ()) -> "ChangesState":
        """What nothing names any more leaves."""
        stay = {stream: one for stream, one in self.streams.items() if stream not in set(without)}
        streams = {**stay, state.row.stream: state}
        return self._let_go(streams)

    def without(self, streams: Iterable[StreamId]) -> "ChangesState":
        gone = set(streams)
        return self._let_go({stream: one for stream, one in self.streams.items() if stream not in gone})

    def named(self) -> set[str]:
        return {path for one in self.streams.values() for path in one.paths()}

    def _let_go(self, streams: Mapping[StreamId, StreamState]) -> "ChangesState":
        after = replace(self, streams=streams)
        now, named = datetime.now(UTC), after.named()
        left = {path: now for path in self.named() - named}
        return replace(after, leaving={**self.leaving, **left})


def state_to_json(state: ChangesState) -> dict[str, Any]:
    return {
        "streams": {str(stream): _stream_to_json(one) for stream, one in state.streams.items()},
        "leaving": {path: since.isoformat() for path, since in state.leaving.items()},
        "sweeps": state.sweeps,
    }


def state_from_json(document: Mapping[str, Any]) -> ChangesState:
    """The inverse of `state_to_json`; of {} where nothing was ever decided. Refused: it is of cuts."""
    if not document:
        return ChangesState()
    if "streams" not in document:
        raise Refused(
            "cuts were delivered to this place, and no change files begin there",
            hint="`mode` was changed to `changes`: give the destination another `location`, or name a new destination",
        )
    streams = {stream_of(text): said for text, said in document["streams"].items()}
    return ChangesState(
        {stream: _stream_from_json(said, stream) for stream, said in streams.items()},
        {path: datetime.fromisoformat(since) for path, since in document["leaving"].items()},
        document["sweeps"],
    )


def _stream_to_json(state: StreamState) -> dict[str, Any]:
    return {
        "ledger": ledger_to_json(state.row),
        "commits": state.commits,
        "tables": {name: _table_to_json(held) for name, held in state.tables.items()},
        "kept": {name: _table_to_json(held) for name, held in state.kept.items()},
        "generations": dict(state.generations),
        "runs": list(state.runs),
        "moved_ms": state.moved_ms,
    }


def _stream_from_json(said: Mapping[str, Any], stream: StreamId) -> StreamState:
    return StreamState(
        ledger_from_json(said["ledger"], stream),
        {name: _table_from_json(one) for name, one in said["tables"].items()},
        said["commits"],
        said["generations"],
        tuple(said["runs"]),
        {name: _table_from_json(one) for name, one in said["kept"].items()},
        said["moved_ms"],
    )


def _table_to_json(held: HeldTable) -> dict[str, Any]:
    return {
        "definition": table_to_json(held.definition),
        "format": held.format,
        "dialect": asdict(held.dialect),
        "files": [asdict(file) for file in held.files],
        "has_before": held.has_before,
    }


def _table_from_json(said: Mapping[str, Any]) -> HeldTable:
    files = tuple(ChangeFile(**{**one, "commits": tuple(one["commits"])}) for one in said["files"])
    return HeldTable(
        table_from_json(said["definition"]), said["format"], Dialect(**said["dialect"]), files, said["has_before"]
    )
