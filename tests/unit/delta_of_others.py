"""A Delta table as another tool writes it: plain Parquet files, and a log of the oldest protocol."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIELDS = {"id": "short", "amount": "decimal(18,4)", "paid_at": "timestamp", "day": "date"}


class Written:
    def __init__(self, warehouse: Path, name: str = "payment") -> None:
        self.folder = warehouse / "bank" / name
        self.log = self.folder / "_delta_log"
        self.log.mkdir(parents=True)
        self.version = -1

    def commit(self, *actions: Mapping[str, Any]) -> None:
        self.version += 1
        text = "".join(f"{json.dumps(one)}\n" for one in actions)
        (self.log / f"{self.version:020d}.json").write_text(text, encoding="utf-8")

    def begin(self, fields: Mapping[str, object] = FIELDS, *, partitions: Sequence[str] = (), **protocol: Any) -> None:
        known = {"minReaderVersion": 1, "minWriterVersion": 2, **protocol}
        self.commit({"protocol": known}, self.schema(fields, partitions=partitions))

    def schema(
        self, fields: Mapping[str, object], *, partitions: Sequence[str] = (), **settings: str
    ) -> Mapping[str, Any]:
        said = [{"name": name, "type": of, "nullable": True, "metadata": {}} for name, of in fields.items()]
        content = {
            "id": "1",
            "schemaString": json.dumps({"type": "struct", "fields": said}),
            "partitionColumns": list(partitions),
            "configuration": settings,
        }
        return {"metaData": content}

    def add(self, rows: pa.Table, **partition: str) -> Mapping[str, Any]:
        name = f"part-{self.version}.parquet"
        # As Spark writes moments.
        pq.write_table(rows, self.folder / name, use_deprecated_int96_timestamps=True)
        return {"add": {"path": name, "partitionValues": partition, "size": 1, "dataChange": True}}
