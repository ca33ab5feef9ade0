"""Positions: places in one source's log. Partly ordered: ask `covers`, never `<`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from seamline.domain.errors import InvariantViolated

_GTID = re.compile(r"^(\d+)-(\d+)-(\d+)$")


def gtid_sequences(gtid: str) -> dict[int, int]:
    """MariaDB GTID text (`0-7-123,1-7-9`, may be empty) as {domain: sequence number}; the server part is ignored.

    Ignoring the server is right only under `gtid_strict_mode=1`, which preflight demands.
    """
    sequences: dict[int, int] = {}
    for part in filter(None, (chunk.strip() for chunk in gtid.split(","))):
        match = _GTID.match(part)
        if match is None:
            raise InvariantViolated(f"not a MariaDB GTID: {part!r}")
        sequences[int(match[1])] = int(match[3])
    return sequences


def binlog_file(name: str) -> tuple[str, int]:
    """`mdb-bin.000012` as ("mdb-bin", 12)."""
    base, dot, number = name.rpartition(".")
    if not dot or not number.isdigit():
        raise InvariantViolated(f"not a binlog file name: {name!r}")
    return base, int(number)


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A place in the binlog of one MariaDB server.

    As the position *of a snapshot or ledger*: everything of `gtid`'s sequences is included, `offset` is exclusive.
    As the position *of a transaction*: `gtid` is the transaction's own, `file` and `offset` are where one of its events
    begins. `file` is "" where only the GTID is known (a transaction without rows).
    """

    KIND: ClassVar[str] = "binlog"

    gtid: str
    file: str = ""
    offset: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"gtid": self.gtid, "file": self.file, "offset": self.offset}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "BinlogPosition":
        return cls(**fields)

    def covers(self, other: "BinlogPosition") -> bool:
        """Whether everything up to `other` is included in this position."""
        mine = gtid_sequences(self.gtid)
        return all(mine.get(domain, 0) >= sequence for domain, sequence in gtid_sequences(other.gtid).items())

    def advanced_by(self, transaction: "BinlogPosition") -> "BinlogPosition":
        """The position after `transaction` was applied on top of this one; other domains keep their sequence."""
        parts = {domain: gtid for gtid in self.gtid.split(",") if gtid for domain in gtid_sequences(gtid)}
        parts.update({domain: gtid for gtid in transaction.gtid.split(",") if gtid for domain in gtid_sequences(gtid)})
        newer = transaction if transaction.file else self
        return BinlogPosition(",".join(parts[d] for d in sorted(parts)), newer.file, newer.offset)

    def __str__(self) -> str:
        place = f" {self.file}:{self.offset}" if self.file else ""
        return f"{self.gtid or 'empty'}{place}"


@dataclass(frozen=True, slots=True)
class PostgresPosition:
    """A place in the WAL of one PostgreSQL cluster.

    As the position *of a snapshot*: `xmin`, `xmax`, `in_progress` are those of `pg_current_snapshot()` and `lsn` is the
    slot's consistent point. As the position *of a transaction*: `xid` is its 32-bit transaction id, `lsn` its commit
    end.
    """

    KIND: ClassVar[str] = "postgres"

    lsn: int
    xid: int | None = None
    xmin: int = 0
    xmax: int = 0
    in_progress: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "lsn": self.lsn,
            "xid": self.xid,
            "xmin": self.xmin,
            "xmax": self.xmax,
            "in_progress": list(self.in_progress),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "PostgresPosition":
        return cls(**{**fields, "in_progress": tuple(fields["in_progress"])})

    def covers(self, other: "PostgresPosition") -> bool:
        """Whether everything up to `other` is included: by transaction where known, else by commit LSN."""
        if other.xid is not None and self.xmax:
            return self.sees(other.xid)
        return self.lsn >= other.lsn

    def sees(self, xid32: int) -> bool:
        """Whether a committed transaction is visible in this snapshot; MVCC visibility is this predicate."""
        return self.sees_wide(widen_xid(xid32, self.xmax))

    def sees_wide(self, xid: int) -> bool:
        """The same for a 64-bit id, asked in PostgreSQL's own order (XidInMVCCSnapshot): what lies below xmin is seen.

        A snapshot that a slot exports may have an xmax below its xmin: xmin follows every record of running
        transactions, xmax only commits that were decoded (PostgreSQL 18.4 said `2444:2443:` and saw 2443).
        """
        return xid < self.xmin or (xid < self.xmax and xid not in self.in_progress)

    def __str__(self) -> str:
        return f"{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}"


def widen_xid(xid32: int, near: int) -> int:
    """The 64-bit transaction id that ends in `xid32` and lies nearest to `near`.

    Debezium's `txId` has 32 bits, `pg_current_snapshot()` 64. Right while both lie within 2^31 of each other, which
    is why the rule is used only until a boundary has been passed.
    """
    xid = (near & ~0xFFFFFFFF) | (xid32 & 0xFFFFFFFF)
    if xid - near > 2**31:
        return xid - 2**32
    if near - xid > 2**31:
        return xid + 2**32
    return xid


Position = BinlogPosition | PostgresPosition


_KINDS: Mapping[str, type[Position]] = {one.KIND: one for one in (BinlogPosition, PostgresPosition)}


def position_to_json(position: Position) -> dict[str, Any]:
    """A JSON object with a `kind`, for ledger, platform database and plan."""
    return {"kind": position.KIND, **position.to_json()}


def position_from_json(document: dict[str, Any]) -> Position:
    """The inverse of `position_to_json`."""
    fields = dict(document)
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise InvariantViolated(f"unknown kind of position: {kind!r}")
    return _KINDS[kind].from_json(fields)
