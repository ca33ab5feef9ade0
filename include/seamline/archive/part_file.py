"""A part of the archive as a Parquet file: a row per message of the log topic, as columns to query and as it was."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.archive.described import Described
from seamline.domain.errors import LogCorrupted
from seamline.domain.log_archive import LogMessage

_TIME = pa.timestamp("ms", "UTC")
_HEADER = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        # When Kafka has it that the message was written.
        pa.field("written_at", _TIME, nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("transaction_id", pa.string()),
        pa.field("position", pa.string()),
        pa.field("committed_at", _TIME),
        pa.field("table", pa.string()),
        pa.field("op", pa.string()),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        pa.field("statement", pa.string()),
        # The message as it was: nothing else is read by us.
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(_HEADER)),
    ]
)
_AS_IT_WAS = ["offset", "written_at", "key", "value", "headers"]
_COMPRESSION, _LEVEL = "zstd", 3
_BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
    """A message as it came from the log, with the methods that Kafka's client gives one."""

    at: int
    time_ms: int
    its_key: bytes | None
    its_value: bytes | None
    its_headers: tuple[tuple[str, bytes | None], ...] | None

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 0, self.time_ms

    def key(self) -> bytes | None:
        return self.its_key

    def value(self) -> bytes | None:
        return self.its_value

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        return self.its_headers


def write_part(messages: Sequence[Described], path: Path) -> None:
    columns: dict[str, list[Any]] = {
        "offset": [one.message.offset() for one in messages],
        "written_at": [one.message.timestamp()[1] for one in messages],
        "kind": [one.kind for one in messages],
        "transaction_id": [one.transaction_id or None for one in messages],
        "position": [one.position or None for one in messages],
        "committed_at": [one.committed_ms or None for one in messages],
        "table": [one.table or None for one in messages],
        "op": [one.op or None for one in messages],
        "before": [_text(one.before) for one in messages],
        "after": [_text(one.after) for one in messages],
        "statement": [one.statement or None for one in messages],
        "key": [one.message.key() for one in messages],
        "value": [one.message.value() for one in messages],
        "headers": [_headers(one.message) for one in messages],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
    rows = pa.Table.from_arrays(arrays, schema=SCHEMA)
    pq.write_table(rows, path, compression=_COMPRESSION, compression_level=_LEVEL)


def read_part(path: Path) -> Iterator[list[ArchivedMessage]]:
    """Its messages in order, some at a time. LogCorrupted: it is no such file."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=_AS_IT_WAS):
                yield _messages(batch)
    except (pa.ArrowException, KeyError, OSError) as exc:
        raise LogCorrupted(f"{path.name} is no file of the archive: {exc}", hint="put it back from a copy") from exc


def _messages(batch: pa.RecordBatch) -> list[ArchivedMessage]:
    offsets, keys = batch["offset"].to_pylist(), batch["key"].to_pylist()
    times = batch["written_at"].cast(pa.int64()).to_pylist()
    values, headers = batch["value"].to_pylist(), batch["headers"].to_pylist()
    rows = zip(offsets, times, keys, values, headers, strict=True)
    return [ArchivedMessage(at, time_ms, key, value, _pairs(some)) for at, time_ms, key, value, some in rows]


def _text(image: bytes | None) -> str | None:
    """For a person's query; the message itself has the bytes."""
    return None if image is None else image.decode("utf-8", "replace")


def _headers(message: LogMessage) -> list[dict[str, Any]] | None:
    found = cast("Sequence[tuple[str, bytes | None]] | None", message.headers())
    return None if not found else [{"name": name, "value": value} for name, value in found]


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...] | None:
    return None if headers is None else tuple((one["name"], one["value"]) for one in headers)
