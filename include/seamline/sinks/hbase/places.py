"""Where rows lie, and how keys are written.

| table in HBase | row key | what it holds |
|---|---|---|
| `<namespace>:<table>` | key parts | the rows that readers see |
| `<namespace>:seamline.rows` | `<name>/` and key parts | rows of loads, and of incremental snapshots |
| | `undo/<stream>/<number>/` | rows as they were before a commit that has not ended |
| `<namespace>:seamline.state` | `ledger/<stream>` | how far the stream has come, and what it is about to write |
| | `table/<table>` | the stream that has made the table |
| | `staged/<name>` | whose rows of a load these are |
| | `finding/<stream>/<number>/<epoch>` | what the stream met that its log did not promise |

All cells lie in the family `r`, one per column, as canonical text; NULL is a cell that is not there. Key parts are
canonical texts too, in the order of the table's key, with `:` in between; in a part `%` and `:` are written `%25` and
`%3A`. In the name of a table each byte that HBase does not take there is `.` and its two hexadecimal digits;
a name that would begin so has `_.-` before it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan
from seamline.sinks.hbase.options import NAMESPACE
from seamline.values.digest import canonical_texts

# HBase takes 32,767 bytes; our longest prefix of a key has less than what is left.
KEY_MAX = 32_000
_SHOWN = 40
# Of no table's name: behind the point is no hexadecimal digit.
_OWN = ("seamline.state", "seamline.rows")
_OTHERS = re.compile(rb"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Place:
    """The rows of `table` in HBase whose keys begin with `prefix`."""

    table: str
    prefix: bytes = b""

    @property
    def end(self) -> bytes:
        """The first key behind them; b"" where nothing is."""
        return self.prefix[:-1] + bytes([self.prefix[-1] + 1]) if self.prefix else b""


@dataclass(frozen=True, slots=True)
class Places:
    """Those of one destination."""

    namespace: str

    @staticmethod
    def of(destination: DestinationPlan) -> "Places":
        return Places(dict(destination.options)[NAMESPACE])

    @property
    def own(self) -> str:
        return f"{self.namespace}:{_OWN[0]}"

    @property
    def beside(self) -> str:
        return f"{self.namespace}:{_OWN[1]}"

    def live(self, namespace: str, table: str) -> Place:
        """`namespace`: the destination's own, or that of an incremental snapshot."""
        if namespace == self.namespace:
            return Place(f"{self.namespace}:{_name_of(table)}")
        return Place(self.beside, f"{namespace}/{table}/".encode())

    def of_snapshot(self, namespace: str) -> Place:
        """All tables of an incremental snapshot."""
        return Place(self.beside, f"{namespace}/".encode())

    def staged(self, name: str) -> Place:
        return Place(self.beside, f"staged/{name}/".encode())


def ledger_key(stream: StreamId | str) -> bytes:
    return f"ledger/{stream}".encode()


def table_key(name: str) -> bytes:
    return f"table/{name}".encode()


def staged_key(name: str) -> bytes:
    return f"staged/{name}".encode()


def finding_key(stream: StreamId | str, number: int, epoch: int) -> bytes:
    return f"finding/{stream}/{number:012d}/{epoch:012d}".encode()


def _name_of(table: str) -> str:
    name = _OTHERS.sub(lambda found: b".%02X" % found[0][0], table.encode()).decode()
    return f"_.-{name}" if name[0] in ".-" else name


def keys_of(table: Table, rows: pa.RecordBatch) -> list[bytes]:
    """The row keys, without a prefix. SchemaConflict: one is none of HBase."""
    parts = [canonical_texts(column, rows.column(column.name)).to_pylist() for column in table.key_columns]
    keys = [_key(texts) for texts in zip(*parts, strict=True)]
    if wrong := next((key for key in keys if not 0 < len(key) <= KEY_MAX), None):
        _refuse(table, f"of {len(wrong)} bytes ({wrong[:_SHOWN].decode(errors='replace')}…)")
    if b"" in keys:
        _refuse(table, "without a byte")
    return keys


def _refuse(table: Table, what: str) -> NoReturn:
    raise SchemaConflict(
        f"a key of {table.name} ({', '.join(table.key)}) makes a row key {what}, and HBase takes 1 to {KEY_MAX}",
        hint=f"leave such rows out of the sync by a filter, or the table. {PARK_IT}",
        table=table.name,
    )


def _key(parts: Sequence[str]) -> bytes:
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts).encode()
