"""Order-free digests `cdg1`: a segment of rows as four numbers that add up."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SegmentDigest:
    """(rows, rows with a hash, Σ int(h[0:15]), Σ int(h[15:30])) of the keyed SHA-256 row hashes, hex.

    `rows != hashed` means that a row text became NULL on the way (an oversized CONCAT): an error, never a match.
    """

    rows: int = 0
    hashed: int = 0
    low: int = 0
    high: int = 0

    def __add__(self, other: "SegmentDigest") -> "SegmentDigest":
        return SegmentDigest(
            self.rows + other.rows, self.hashed + other.hashed, self.low + other.low, self.high + other.high
        )

    def __sub__(self, other: "SegmentDigest") -> "SegmentDigest":
        return SegmentDigest(
            self.rows - other.rows, self.hashed - other.hashed, self.low - other.low, self.high - other.high
        )

    @property
    def is_complete(self) -> bool:
        return self.rows == self.hashed


@dataclass(frozen=True, slots=True)
class KeyedDigest:
    """What a whole table held when it was compared, and the key under which that was hashed.

    `whole`: the same rows with their inexact columns as the server itself prints them, unlike the source:
    only this server's own later answer is held against it. None where there are no such columns.
    """

    run_key: str
    digest: SegmentDigest
    whole: SegmentDigest | None = None


def digest_to_json(digest: SegmentDigest) -> dict[str, str]:
    """As text: the sums are wider than the numbers that every JSON reader keeps exact."""
    return {name: str(value) for name, value in asdict(digest).items()}


def digest_from_json(document: Mapping[str, str]) -> SegmentDigest:
    return SegmentDigest(**{name: int(value) for name, value in document.items()})


def keyed_digest_to_json(keyed: KeyedDigest | None) -> dict[str, Any] | None:
    if keyed is None:
        return None
    whole = {} if keyed.whole is None else {"whole": digest_to_json(keyed.whole)}
    return {"run_key": keyed.run_key, **digest_to_json(keyed.digest), **whole}


def keyed_digest_from_json(document: Mapping[str, Any] | None) -> KeyedDigest | None:
    if document is None:
        return None
    numbers = {name: value for name, value in document.items() if name not in ("run_key", "whole")}
    whole = document.get("whole")
    return KeyedDigest(
        document["run_key"], digest_from_json(numbers), None if whole is None else digest_from_json(whole)
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a table that both sides can select alike.

    `date_from` and `date_to` bound the business date column, half-open, as canonical texts in the column's own terms
    (computed in the plan, never a function on the column); no `date_to` leaves that end open. `bucket` of `buckets`:
    rows whose hash of the key (of the row, where there is no key) falls into that bucket; `buckets` = 1 is everything.

    Drilling asks for many dirty buckets in one pass: with `among` = (3, 17) and `among_of` = 1024 only rows that fall
    into bucket 3 or 17 *of 1,024* are taken, while `buckets` still says how the answer is grouped. `columns` narrows
    digest and row hash to these columns (the bucket still comes from the key); () is every column.

    `key_from` and `key_below` bound the first key column, an integer, half-open; None leaves that end open.
    """

    table: str
    date_column: str = ""
    date_from: str = ""
    date_to: str = ""
    buckets: int = 1
    bucket: int | None = None
    among: tuple[int, ...] = ()
    among_of: int = 1
    columns: tuple[str, ...] = ()
    key_from: int | None = None
    key_below: int | None = None

    @property
    def selection(self) -> tuple[int, tuple[int, ...]] | None:
        """(of how many buckets, which of them) a row must fall into; None takes every row."""
        if self.among:
            return self.among_of, self.among
        return None if self.bucket is None else (self.buckets, (self.bucket,))
