"""What a Delta table is at one version: the actions of its log, the newest of each kind.

Only what a writer of rows needs. Actions of others are carried on as they are.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from seamline.sinks.delta.vectors import Vector

# One line of a log: {"add": {…}}.
Action = Mapping[str, Mapping[str, Any]]
# A busy stream removes a hundred thousand files a week: all of them would fill its memory and each checkpoint.
_TOMBSTONES_KEPT_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table, with what is left of it. `add`: the content of the action that put it there."""

    add: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        vector = self.vector
        return self.add["path"], vector.unique_id if vector else ""

    @property
    def vector(self) -> Vector | None:
        return Vector.of(self.add)

    @property
    def size(self) -> int:
        return int(self.add["size"])

    def path_in(self, folder: Path) -> Path:
        return path_in(folder, self.add["path"])


@dataclass(frozen=True, slots=True)
class TableState:
    """`files`: by the path of the action. `removed`: what earlier versions had, by path and deletion vector."""

    version: int = -1
    protocol: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, DataFile] = field(default_factory=dict)
    removed: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def after(self, actions: Iterable[Action]) -> "TableState":
        """One version later."""
        of: dict[str, list[Mapping[str, Any]]] = {}
        for action in actions:
            for kind, content in action.items():
                of.setdefault(kind, []).append(content)
        files, removed = dict(self.files), dict(self.removed)
        # Actions of one version have no order: a file with another deletion vector is removed and added.
        for content in of.get("remove", ()):
            gone = DataFile(content).key
            if content["path"] in files and files[content["path"]].key == gone:
                del files[content["path"]]
            removed[gone] = content
        for file in map(DataFile, of.get("add", ())):
            files[file.add["path"]] = file
            removed.pop(file.key, None)
        return TableState(
            self.version + 1,
            of.get("protocol", [self.protocol])[-1],
            of.get("metaData", [self.metadata])[-1],
            {**self.transactions, **{one["appId"]: int(one["version"]) for one in of.get("txn", ())}},
            files,
            removed,
        )

    def without_old_tombstones(self) -> "TableState":
        """Removed files are named for the VACUUM of other clients. With the retention that our tables have, that leaves
        every file alone anyway: none is so old."""
        oldest = now_ms() - _TOMBSTONES_KEPT_MS
        return replace(
            self, removed={key: one for key, one in self.removed.items() if one.get("deletionTimestamp", 0) > oldest}
        )

    @property
    def keys(self) -> frozenset[tuple[str, str]]:
        """What is in the table. Two states with equal ones have the same rows."""
        return frozenset(file.key for file in self.files.values())


def path_in(folder: Path, path: str) -> Path:
    """Where the file of an action lies: relative to the table, or somewhere else."""
    plain = unquote(path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:"))
    return folder / plain


def path_as_action(relative: Path) -> str:
    return quote(relative.as_posix())


def removal(file: DataFile, *, at_ms: int | None = None) -> Action:
    """What takes a file out of the table."""
    kept = {name: file.add[name] for name in ("partitionValues", "size", "deletionVector") if name in file.add}
    moment = now_ms() if at_ms is None else at_ms
    return {
        "remove": {
            "path": file.add["path"],
            "deletionTimestamp": moment,
            "dataChange": True,
            "extendedFileMetadata": True,
            **kept,
        }
    }


def addition(file: DataFile) -> Action:
    return {"add": {**file.add, "dataChange": True}}


def difference(before: TableState, after: TableState) -> list[Action]:
    """What makes the files of the one state those of the other."""
    kept = before.keys & after.keys
    gone = [file for file in before.files.values() if file.key not in kept]
    come = [file for file in after.files.values() if file.key not in kept]
    return [*map(removal, gone), *map(addition, come)]


def now_ms() -> int:
    return int(time.time() * 1000)
