"""What both sides of a table held when they were last equal, bucket by bucket, and where the log stood then.

A bucket is a range of the key, where that is one integer, or the keys with one hash. All digests of a sync are made
under one key, which never leaves the platform database and the process that compares: what is stored today is held
against what is read next week.
"""

import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any

from seamline.domain.calendar import moment_in_words
from seamline.domain.canonical import bucket_of_texts, parse_row_text
from seamline.domain.catalogue import Table, fingerprint
from seamline.domain.digest import SegmentDigest
from seamline.domain.ledger import LedgerRow

# The name in a reconciliation's evidence: of each table that was read in part how much of it.
REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class Buckets:
    """How the rows of a table with a key are divided. `edges`: where each range but the first begins; the first and the
    last have no other end. Without them there are `count` buckets by the hash of the key."""

    count: int
    edges: tuple[int, ...] | None = None

    @staticmethod
    def of_edges(edges: Sequence[int]) -> "Buckets":
        return Buckets(len(edges) + 1, tuple(edges))

    def of(self, table: Table, key: str) -> int:
        """The bucket of the row with this key text."""
        if self.edges is not None:
            return bisect_right(self.edges, int(key))
        texts = dict(zip(table.key, parse_row_text(table.key_columns, key), strict=True))
        return bucket_of_texts(table, texts, buckets=self.count, run_key="")

    def part(self, number: int) -> Mapping[str, object]:
        """The fields of a `Segment` that select the bucket; its only answer is that of this bucket."""
        if self.edges is None:
            return {"among": (number,), "among_of": self.count}
        low = self.edges[number - 1] if number else None
        return {"key_from": low, "key_below": self.edges[number] if number < len(self.edges) else None}


@dataclass(frozen=True, slots=True)
class Looked:
    """A comparison that has read buckets: the position, and its commit time or else when it was read."""

    position: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Baseline:
    """`ledger`: the destination's when the table last matched; `made_of`: what the rows were then (`identity_of`).
    `digests` and `looked` have one entry for each bucket; `looked` says in which of `comparisons` it was read."""

    table: str
    made_of: str
    ledger: LedgerRow
    buckets: Buckets
    digests: tuple[SegmentDigest, ...]
    looked: tuple[int, ...]
    comparisons: Mapping[int, Looked] = field(default_factory=dict)

    @property
    def newest(self) -> Looked:
        return self.comparisons[max(self.comparisons)]


def identity_of(table: Table, ledger: LedgerRow) -> str:
    """Another one where the rows were loaded again, or mean something else: no log says what that has changed."""
    loaded = [f"{one.generation}@{one.position}" for one in ledger.boundaries if one.table == table.name]
    return ",".join([fingerprint(table), *loaded])


def packed(baseline: Baseline) -> bytes:
    """Buckets, digests and comparisons, without ledger and table. Numbers of 70 bits, as text, take half of that."""
    document = {
        "count": baseline.buckets.count,
        "edges": baseline.buckets.edges,
        "rows": [one.rows for one in baseline.digests],
        "low": [str(one.low) for one in baseline.digests],
        "high": [str(one.high) for one in baseline.digests],
        "looked": baseline.looked,
        "comparisons": {str(n): [one.position, one.at.isoformat()] for n, one in baseline.comparisons.items()},
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode())


def unpacked(table: str, made_of: str, ledger: LedgerRow, content: bytes) -> Baseline:
    """The inverse of `packed`."""
    document = json.loads(zlib.decompress(content))
    edges = document["edges"]
    return Baseline(
        table,
        made_of,
        ledger,
        Buckets(document["count"], None if edges is None else tuple(edges)),
        tuple(_digests(document["rows"], document["low"], document["high"])),
        tuple(document["looked"]),
        {int(n): Looked(position, datetime.fromisoformat(at)) for n, (position, at) in document["comparisons"].items()},
    )


def _digests(rows: Sequence[int], low: Sequence[str], high: Sequence[str]) -> Iterator[SegmentDigest]:
    for count, first, second in zip(rows, low, high, strict=True):
        yield SegmentDigest(count, count, int(first), int(second))


def repeated_in_words(evidence: Mapping[str, Any], zone: tzinfo = UTC) -> Iterator[str]:
    """What a report says of tables that were read in part."""
    for table, of in (evidence.get(REPEATED) or {}).items():
        at = moment_in_words(datetime.fromisoformat(of["since_at"]), zone)
        yield (
            f"{table}: {of['read']:,} of {of['buckets']:,} buckets read; {of['rows_before']:,} rows stand on earlier"
            f" comparisons, the oldest at {of['since']}, committed {at}"
        )
