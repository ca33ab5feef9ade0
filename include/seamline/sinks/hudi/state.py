"""What a Hudi table is at one instant: its data files, and who wrote them.

Each commit says the whole of it in its metadata, beside what Hudi's own clients read there. So one file of the timeline
is enough to read a table at an instant, whatever became of those before.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId

# In the metadata of each commit.
_OWN = "seamline"


@dataclass(frozen=True, slots=True)
class DataFile:
    """`name`: in the table's folder. Its first part is the file's id, its last one the instant that it came with."""

    name: str
    rows: int
    size: int

    @property
    def file_id(self) -> str:
        return self.name.split("_", 1)[0]


@dataclass(frozen=True, slots=True)
class TableState:
    """`instant`: of the commit that has left it so; 0 of a table that has none. `rows_of`: the instant whose rows these
    are, which is an earlier one where a commit has put them back. `epoch`: of the stream's ledger. `table`: its name;
    "" of one whose commits do not say it yet."""

    instant: int = 0
    rows_of: int = 0
    stream: str = ""
    epoch: int = 0
    schema: str = ""
    files: Mapping[str, DataFile] = field(default_factory=dict)
    table: str = ""

    @classmethod
    def parsed(cls, text: str, where: Path) -> Self:
        """Of a commit's content. Refused: somebody else wrote it."""
        found = dict(json.loads(text)).get("extraMetadata") or {}
        if _OWN not in found:
            raise Refused(
                f"{where} is a commit of somebody else",
                hint="take it back by Hudi's rollback_to_instant, or onboard the sync again",
            )
        own = json.loads(found[_OWN])
        files = {name: DataFile(name, rows, size) for name, (rows, size) in own["files"].items()}
        said = own["instant"], own["rows_of"], own["stream"], own["epoch"], found["schema"]
        return cls(*said, files, own.get("table", ""))

    def is_of(self, stream: StreamId) -> bool:
        return self.stream == str(stream)

    def is_of_table(self, name: str) -> bool:
        """The names of two tables may make one folder's name."""
        return self.table in ("", name)

    def content(self, before: "TableState") -> str:
        """What a commit that makes this of the state before says: a replacecommit in Hudi's version 6, as JSON."""
        added = [file for name, file in self.files.items() if name not in before.files]
        gone = sorted(file.file_id for name, file in before.files.items() if name not in self.files)
        own = {
            "instant": self.instant,
            "rows_of": self.rows_of,
            "stream": self.stream,
            "epoch": self.epoch,
            "table": self.table,
            "files": {name: (file.rows, file.size) for name, file in self.files.items()},
        }
        metadata = {
            "partitionToWriteStats": {"": list(map(_statistics, added))} if added else {},
            "compacted": False,
            "extraMetadata": {"schema": self.schema, _OWN: json.dumps(own)},
            "operationType": "INSERT_OVERWRITE",
            "partitionToReplaceFileIds": {"": gone} if gone else {},
        }
        return json.dumps(metadata, ensure_ascii=False)


def changed_files(text: str) -> tuple[set[str], set[str]]:
    """Ids of the data files that a commit has added, and of those that it has taken out."""
    found = json.loads(text)
    added = {one["fileId"] for stats in found["partitionToWriteStats"].values() for one in stats}
    return added, {one for ids in found.get("partitionToReplaceFileIds", {}).values() for one in ids}


def _statistics(file: DataFile) -> dict[str, Any]:
    return {
        "fileId": file.file_id,
        "path": file.name,
        "prevCommit": "null",
        "numWrites": file.rows,
        "numInserts": file.rows,
        "numDeletes": 0,
        "numUpdateWrites": 0,
        "totalWriteBytes": file.size,
        "totalWriteErrors": 0,
        "partitionPath": "",
        "fileSizeInBytes": file.size,
    }
