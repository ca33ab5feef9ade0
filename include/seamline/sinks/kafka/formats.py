"""The two forms of a record: the plain row, and the envelope of Debezium's consumers.

What a record does stands in its header `op` in both, with Debezium's letters: `c` a row comes, `u` it changes, `d` it
goes, `r` it was read by a load.
"""

from typing import Protocol

from seamline.kinds.row_json import document_of, not_ours, text_of
from seamline.sinks.kafka.options import DEBEZIUM

COMES, CHANGES, GOES, READ = b"c", b"u", b"d", b"r"


class Form(Protocol):
    def written(self, op: bytes, row: bytes) -> bytes:
        """The value of the record that says what happens to this row. One that goes is of a table without a key."""

    def gone(self, key: bytes) -> tuple[bytes | None, ...]:
        """The values of the records, one after another, that let the row of this key go."""

    def row_in(self, value: bytes) -> bytes:
        """The row of a record's value. LogCorrupted: somebody else has written it."""


class PlainRows:
    """The row itself, and a tombstone."""

    def written(self, op: bytes, row: bytes) -> bytes:  # noqa: ARG002 (its header says it)
        return row

    def gone(self, key: bytes) -> tuple[bytes | None, ...]:  # noqa: ARG002 (it is the record's)
        return (None,)

    def row_in(self, value: bytes) -> bytes:
        return value


class Envelopes:
    """`before`, `after`, `op` and `source`. `before` is known of a row that goes alone: its key, or all of a row
    without one. Behind a key that goes comes a tombstone, as Debezium writes it."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    def written(self, op: bytes, row: bytes) -> bytes:
        before, after = (row, b"null") if op == GOES else (b"null", row)
        parts = (b'{"before":', before, b',"after":', after, b',"op":"', op, b'","source":', self._source, b"}")
        return b"".join(parts)

    def gone(self, key: bytes) -> tuple[bytes | None, ...]:
        return self.written(GOES, key), None

    def row_in(self, value: bytes) -> bytes:
        try:
            said = document_of(value)
            return text_of(said["before"] if said["op"] == GOES.decode() else said["after"])
        except (ValueError, KeyError, TypeError) as exc:
            raise not_ours(exc) from exc


def form_of(name: str, *, source: str, sync: str, table: str) -> Form:
    """`source`: the name of the sync's source."""
    if name != DEBEZIUM:
        return PlainRows()
    said = {"connector": "seamline", "name": source, "sync": sync, "table": table}
    return Envelopes(text_of(said))
