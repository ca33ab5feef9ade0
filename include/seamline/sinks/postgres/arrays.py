"""Few rows as parameters of a statement: a binary array per column, made of the values of a binary COPY."""

from collections.abc import Sequence
from struct import Struct

from psycopg import postgres, pq
from psycopg.adapt import Dumper

from seamline.databases.postgres.binary_copy import fields_in
from seamline.databases.postgres.client import Session

# `array_recv` in PostgreSQL's arrayfuncs.c: dimensions, whether any is NULL, type of the elements; size and lower bound
# of the one dimension. Then the elements, each with its length in front; -1 is NULL.
_HEAD = Struct(">iiIii")
_NULL = b"\xff\xff\xff\xff"


class BinaryArray(bytes):
    """An array in the server's binary form."""

    __slots__ = ()


class _BinaryArrayDumper(Dumper):
    """As it is; the statement names its type by a cast."""

    format = pq.Format.BINARY

    def dump(self, obj: BinaryArray) -> BinaryArray:
        return obj


def take_arrays(session: Session) -> None:
    """Let the session send BinaryArray."""
    session.adapters.register_dumper(BinaryArray, _BinaryArrayDumper)


def arrays_of(document: bytes, types: Sequence[str]) -> tuple[BinaryArray, ...]:
    """The rows of a binary COPY, a column each. `types`: those of the columns, without modifiers."""
    columns = fields_in(document, len(types))
    return tuple(_array(values, postgres.types[of].oid) for values, of in zip(columns, types, strict=True))


def _array(values: Sequence[bytes], oid: int) -> BinaryArray:
    has_null = int(_NULL in values)
    return BinaryArray(_HEAD.pack(1, has_null, oid, len(values), 1) + b"".join(values))
