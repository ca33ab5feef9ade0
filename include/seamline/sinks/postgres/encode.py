"""Row images of a span → what is sent: few rows as one JSON document, many as CSV of their wire forms for COPY.

Here every image is read, for the first time if a decoder cut it out of its record unread. Another schema than planned
is an error before anything is sent.
"""

import io
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv

from seamline.adapters.debezium.row_images import RowImages
from seamline.domain.catalogue import Table
from seamline.domain.changes import TableChanges
from seamline.domain.unavailable_values import may_lack_values
from seamline.sinks.postgres.statements import (
    COPIES_FIELD,
    DELETED_FIELD,
    MET_FIELD,
    OFFSET_FIELD,
    unavailable_columns,
)
from seamline.sinks.postgres.wire import WireForms

# Up to this a batch travels as a parameter of the statement that applies it: no staging table, one round trip.
_SENT_ROWS_MAX = 250
_SENT_BYTES_MAX = 4 << 20
_CSV_OPTIONS = pyarrow.csv.WriteOptions(include_header=False, batch_size=16384)
_OFFSET, _DELETED, _MET, _COPIES = (field.encode() for field in (OFFSET_FIELD, DELETED_FIELD, MET_FIELD, COPIES_FIELD))


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of one table: `document` is JSON where `is_sent`, else CSV with the control columns first.

    `chunk` as in TableChanges; a chunk is always CSV, with its number in front. `is_partial`: a row lacks values that
    its update did not change.
    """

    table: str
    rows: int
    document: bytes
    is_sent: bool
    truncate_first: bool
    expects_deletes: bool
    chunk: int
    is_partial: bool = False


class RowEncoder:
    """Encodes the batches of one table."""

    def __init__(self, table: Table, wire: WireForms) -> None:
        self._table = table
        self._images = RowImages(table, wire.arrow_schema(table.columns).types)
        self._may_lack = bool(unavailable_columns(table))

    def encode(self, changes: TableChanges) -> Encoded:
        images = [change.row for change in changes.keyed] if self._table.is_keyed else list(changes.net)
        is_sent = not changes.chunk and len(images) <= _SENT_ROWS_MAX and sum(map(len, images)) <= _SENT_BYTES_MAX
        return Encoded(
            changes.table,
            len(images),
            self._json(changes) if is_sent else self._csv(changes, images),
            is_sent,
            changes.truncate_first,
            any(change.is_delete and change.met_row for change in changes.keyed),
            changes.chunk,
            self._may_lack and any(map(may_lack_values, images)),
        )

    def _json(self, changes: TableChanges) -> bytes:
        """The images with the control fields written in front of their own."""
        if self._table.is_keyed:
            rows = [
                b'{"%b":%d,"%b":%b,"%b":%b,%b'
                % (
                    _OFFSET,
                    change.offset,
                    _DELETED,
                    b"true" if change.is_delete else b"false",
                    _MET,
                    b"true" if change.met_row else b"false",
                    self._inside(change.row),
                )
                for change in changes.keyed
            ]
        else:
            rows = [b'{"%b":%d,%b' % (_COPIES, copies, self._inside(image)) for image, copies in changes.net.items()]
        return b"[" + b",".join(rows) + b"]"

    def _inside(self, image: bytes) -> bytes:
        self._images.check(image)
        return image[image.index(b"{") + 1 :]

    def _csv(self, changes: TableChanges, images: Sequence[bytes]) -> bytes:
        control: list[Sequence[int]] = [list(changes.net.values())]
        if self._table.is_keyed:
            keyed = changes.keyed
            # Truth as 0 and 1, which COPY reads as well.
            control = [[c.offset for c in keyed], [c.is_delete for c in keyed], [c.met_row for c in keyed]]
        if changes.chunk:
            control.insert(0, [changes.chunk] * len(images))
        if not images:
            return b""
        rows = self._images.read(images)
        for index, values in enumerate(control):
            rows = rows.add_column(index, f"seamline.{index}", _whole_numbers(values))
        sink = io.BytesIO()
        pyarrow.csv.write_csv(rows, sink, _CSV_OPTIONS)
        return sink.getvalue()


def _whole_numbers(values: Sequence[int]) -> pa.Array:
    # Not pa.array(values): looking whether they are a Series imports pandas, 1.7 s and 60 MB in every worker.
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])
