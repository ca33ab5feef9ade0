"""The rows of a lake's table at any of its states, by its files as they lie there.

Each file is read once: none of them ever changes. A run looks at hundreds of commits, of which pyiceberg would read all
files each time; what it reads is compared with this at the end of each case.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, read_manifest_list

from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.delta.vectors import Vector

_IO = PyArrowFileIO()


@dataclass(frozen=True, slots=True)
class State:
    """A table at one snapshot: its data files, and where it says which positions of them are gone."""

    data: tuple[str, ...]
    deletes: tuple[str, ...]


@dataclass
class LakeFiles:
    """Of Iceberg: what was read so far, by the path of the file."""

    _metadata: dict[str, tuple[int, dict[int, str]]] = field(default_factory=dict)
    _manifests: dict[str, tuple[tuple[bool, str], ...]] = field(default_factory=dict)
    _states: dict[str, State] = field(default_factory=dict)
    _rows: dict[tuple[str, tuple[str, ...]], pa.Table] = field(default_factory=dict)
    _gone: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    def head(self, location: str) -> int:
        """The current snapshot of a metadata file. FileNotFoundError: a pointer leads to nothing."""
        return self._read_metadata(location)[0]

    def state(self, location: str) -> State:
        """At its current snapshot."""
        number, lists = self._read_metadata(location)
        listed = lists[number]
        if listed not in self._states:
            data, deletes = list[str](), list[str]()
            for manifest in read_manifest_list(_IO.new_input(listed)):
                if manifest.manifest_path not in self._manifests:
                    self._manifests[manifest.manifest_path] = tuple(
                        (entry.data_file.content is DataFileContent.DATA, entry.data_file.file_path)
                        for entry in manifest.fetch_manifest_entry(_IO, discard_deleted=True)
                    )
                for is_data, path in self._manifests[manifest.manifest_path]:
                    (data if is_data else deletes).append(path)
            self._states[listed] = State(tuple(data), tuple(deletes))
        return self._states[listed]

    def rows(self, state: State, columns: Sequence[str]) -> pa.Table:
        """The living rows."""
        gone: dict[str, list[np.ndarray]] = defaultdict(list)
        for place in state.deletes:
            for name, positions in self.deleted(place).items():
                gone[name].append(positions)
        parts = []
        for path in state.data:
            found = self._columns(path, tuple(columns))
            if path in gone:
                lives = np.ones(found.num_rows, np.bool_)
                lives[np.concatenate(gone[path])] = False
                found = found.filter(pa.array(lives))
            parts.append(found)
        return pa.concat_tables(parts) if parts else pa.table({name: pa.nulls(0) for name in columns})

    def _read_metadata(self, location: str) -> tuple[int, dict[int, str]]:
        if location not in self._metadata:
            found = json.loads(_IO.new_input(location).open().read())
            lists = {one["snapshot-id"]: one["manifest-list"] for one in found["snapshots"]}
            self._metadata[location] = found["current-snapshot-id"], lists
        return self._metadata[location]

    def _columns(self, path: str, columns: tuple[str, ...]) -> pa.Table:
        if (path, columns) not in self._rows:
            self._rows[path, columns] = pq.read_table(_plain(path), columns=list(columns), partitioning=None)
        return self._rows[path, columns]

    def deleted(self, path: str) -> dict[str, np.ndarray]:
        """By data file, the positions that a delete file names."""
        if path not in self._gone:
            found: dict[str, list[int]] = defaultdict(list)
            for name, position in zip(
                *(column.to_pylist() for column in pq.read_table(_plain(path)).columns), strict=True
            ):
                found[name].append(position)
            self._gone[path] = {name: np.array(positions) for name, positions in found.items()}
        return self._gone[path]


@dataclass
class DeltaFiles(LakeFiles):
    """Of Delta: each version of a log is replayed on top of the one before."""

    _versions: dict[tuple[str, int], dict[str, str]] = field(default_factory=dict)

    def head(self, location: str) -> int:
        return Pointer.parsed(location).number

    def state(self, location: str) -> State:
        pointer = Pointer.parsed(location)
        files = self._files_at(pointer.folder, pointer.version)
        return State(tuple(files), tuple(vector for vector in files.values() if vector))

    def deleted(self, place: str) -> dict[str, np.ndarray]:
        if place not in self._gone:
            found = json.loads(place)
            vector = Vector.of(found)
            assert vector is not None
            self._gone[place] = {found["path"]: np.asarray(vector.positions(Path(found["folder"])), np.int64)}
        return self._gone[place]

    def _files_at(self, folder: Path, version: int) -> dict[str, str]:
        """Data file → what describes its deletion vector, or nothing."""
        known = self._versions.get((str(folder), version))
        if known is not None:
            return known
        files = dict(self._files_at(folder, version - 1)) if version else {}
        lines = (folder / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8").splitlines()
        actions = list(map(json.loads, lines))
        # Actions of one version have no order: a file with another vector is removed and added.
        for one in actions:
            if "remove" in one:
                files.pop(str(folder / unquote(one["remove"]["path"])), None)
        for one in actions:
            if "add" in one:
                path, vector = str(folder / unquote(one["add"]["path"])), one["add"].get("deletionVector")
                said = {"path": path, "folder": str(folder), "deletionVector": vector}
                files[path] = json.dumps(said) if vector else ""
        self._versions[str(folder), version] = files
        return files


def _plain(path: str) -> str:
    return path.removeprefix("file://")
