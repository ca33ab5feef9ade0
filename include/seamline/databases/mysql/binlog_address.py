"""Addresses in the binlog of one server: a file, and the offset of a byte in it."""

from typing import Protocol

from seamline.domain.errors import InvariantViolated


class BinlogAddress(Protocol):
    """`file` is "" where the address is not known."""

    @property
    def file(self) -> str: ...

    @property
    def offset(self) -> int: ...


def binlog_file(name: str) -> tuple[str, int]:
    """`mdb-bin.000012` as ("mdb-bin", 12)."""
    base, dot, number = name.rpartition(".")
    if not dot or not number.isdigit():
        raise InvariantViolated(f"not a binlog file name: {name!r}")
    return base, int(number)


def lies_before(one: BinlogAddress, other: BinlogAddress) -> bool | None:
    """Whether an address lies before another of the same log; None where either is not known."""
    if not one.file or not other.file:
        return None
    (one_base, one_number), (base, number) = binlog_file(one.file), binlog_file(other.file)
    if one_base != base:
        raise InvariantViolated(f"binlog {one.file!r} does not belong to the log of {other.file!r}")
    return (one_number, one.offset) < (number, other.offset)
