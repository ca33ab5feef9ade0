"""The table that benches of lakes change: its rows and its changes, which any number of processes make alike.

A row follows from its id and its version, so the table after any number of batches is a vector of versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges

TABLE = Table(
    "entry",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("account_id", Kind.INTEGER, "int", nullable=False, length=32),
        Column("currency", Kind.STRING, "char(3)", nullable=False, length=3),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", nullable=False, precision=20, scale=4),
        Column("booked_at", Kind.DATETIME, "datetime(6)", nullable=False, precision=6),
        Column("value_date", Kind.DATE, "date", nullable=False),
        Column("memo", Kind.STRING, "varchar(80)", length=80),
    ),
    ("id",),
)
_CURRENCIES = pa.array(["EUR", "USD", "CNY"])
_FIRST_MOMENT_US, _FIRST_DAY = 1_767_225_600_000_000, 18_262
_TEN_THOUSANDTH = pa.scalar(Decimal("0.0001"), pa.decimal128(5, 4))
_GONE = -1
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("account_id", pa.int32()),
        ("currency", pa.string()),
        ("amount", pa.decimal128(20, 4)),
        ("booked_at", pa.timestamp("us")),
        ("value_date", pa.date32()),
        ("memo", pa.string()),
    ]
)


def rows_of(ids: Any, versions: Any) -> pa.Table:
    """The rows with these ids, in the given order."""
    number, version = pa.array(ids, pa.int64()), pa.array(versions, pa.int64())
    ten_thousandths = pa.array((np.asarray(ids) % 1_000_003) * 12_500 + np.asarray(versions))
    texts = [pc.cast(one, pa.string()) for one in (number, version)]
    columns = [
        number,
        pa.array(np.asarray(ids) % 1_000, pa.int32()),
        _CURRENCIES.take(pa.array(np.asarray(ids) % 3)),
        pc.multiply(ten_thousandths.cast(pa.decimal128(19, 0)), _TEN_THOUSANDTH),
        pa.array(_FIRST_MOMENT_US + np.asarray(ids) * 1_000_001, pa.timestamp("us")),
        pa.array(_FIRST_DAY + np.asarray(ids) % 2_000, pa.int32()).cast(pa.date32()),
        pc.binary_join_element_wise("transfer", *texts, " "),
    ]
    return pa.table(columns, names=SCHEMA.names).cast(SCHEMA)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one commit changes. Ids of updates and deletes are there before, those of inserts are not."""

    updated: Any
    deleted: Any
    inserted: Any
    versions: Any  # of the updated

    @property
    def changes(self) -> int:
        return len(self.updated) + len(self.deleted) + len(self.inserted)

    @property
    def written(self) -> pa.Table:
        """The rows that are there behind it, of those that it changes."""
        return pa.concat_tables(
            [rows_of(self.updated, self.versions), rows_of(self.inserted, np.zeros(len(self.inserted), np.int64))]
        )


@dataclass(slots=True)
class History:
    """The table as batches leave it, one after the other: 80 of 100 changes are updates, 10 deletes, 10 inserts."""

    rows: int
    size: int
    versions: Any = field(init=False)
    batches: int = 0

    def __post_init__(self) -> None:
        self.versions = np.zeros(self.rows, np.int64)

    def first(self) -> pa.Table:
        return rows_of(np.arange(self.rows), np.zeros(self.rows, np.int64))

    def next(self) -> Batch:
        rng = np.random.default_rng(self.batches)
        live = np.flatnonzero(self.versions != _GONE)
        share = self.size // 10
        touched = rng.choice(live, self.size - share, replace=False)
        updated, deleted = touched[share:], touched[:share]
        inserted = np.arange(len(self.versions), len(self.versions) + share)
        self.versions = np.concatenate([self.versions, np.zeros(share, np.int64)])
        self.versions[updated] += 1
        self.versions[deleted] = _GONE
        self.batches += 1
        return Batch(updated, deleted, inserted, self.versions[updated])

    def require(self, found: pa.Table) -> None:
        """RuntimeError where a table holds other rows than these: one is lost, doubled or stale."""
        ids = np.flatnonzero(self.versions != _GONE)
        wanted = rows_of(ids, self.versions[ids])
        if not found.select(SCHEMA.names).sort_by("id").cast(SCHEMA).equals(wanted):
            raise RuntimeError(f"{found.num_rows:,} rows are not the {wanted.num_rows:,} of {self.batches} batches")


def table_changes(batch: Batch, *, offset: int) -> TableChanges:
    """As the span loop hands a batch to a sink: rows as a MariaDB capture logs them."""
    parts = [
        (batch.deleted, rows_of(batch.deleted, np.zeros(len(batch.deleted), np.int64)), True, True),
        (batch.updated, rows_of(batch.updated, batch.versions), False, True),
        (batch.inserted, rows_of(batch.inserted, np.zeros(len(batch.inserted), np.int64)), False, False),
    ]
    keyed = []
    for ids, rows, is_delete, met_row in parts:
        for number, row in zip(ids.tolist(), _logged(rows), strict=True):
            keyed.append(KeyedChange(b'{"id":%d}' % number, is_delete, met_row, row, offset))
    return TableChanges(TABLE.name, keyed=keyed, changes_in=len(keyed))


def _logged(rows: pa.Table) -> Iterator[bytes]:
    amounts = pc.cast(rows["amount"], pa.string())
    moments, days = rows["booked_at"].cast(pa.int64()), rows["value_date"].cast(pa.int32())
    plain = rows.set_column(3, "amount", amounts).set_column(4, "booked_at", moments).set_column(5, "value_date", days)
    return (orjson.dumps(row) for row in plain.to_pylist())
