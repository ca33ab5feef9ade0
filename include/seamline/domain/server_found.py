"""What a server says of itself, of one session and of its login."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """What a login can be asked to do. `missing`: the rights without which it cannot; `unfit`: what is wrong with the
    server, each a sentence; `extent`: of what it can do so much. All are for people."""

    role: str
    missing: tuple[str, ...] = ()
    extent: str = ""
    unfit: tuple[str, ...] = ()

    @property
    def is_possible(self) -> bool:
        return not self.missing and not self.unfit

    @property
    def why_not(self) -> str:
        """For people, behind the login or its connection; "" where it is possible."""
        lacks = [f"it lacks {'; '.join(self.missing)}"] if self.missing else []
        return "; ".join([*lacks, *self.unfit])


@dataclass(frozen=True, slots=True)
class ServerFound:
    """`product`: name and version. `encryption`: of the session that asked, for people. `kind`: the kind of source and
    destination that the server is, "" where it is not a database.
    `time_zone`: the server's, "" where it has not said it."""

    product: str
    encryption: str = ""
    kind: str = ""
    uses: tuple[Use, ...] = ()
    time_zone: str = ""


READS = "read tables"
CAPTURES = "read the log"
MAKES = "make and write tables"


def lists(place: str) -> str:
    """The role of a login that sees what lies in a place for files."""
    return f"list {place}"


def keeps(namespace: str) -> str:
    """The role of a login that writes all that a destination keeps under this name."""
    return f"keep rows in {namespace}"


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table that a database lists. `namespace`: its schema in PostgreSQL, its database in MariaDB and MySQL. `rows`
    and `size`, in bytes, are the server's own estimates; None where it has none."""

    namespace: str
    name: str
    rows: int | None = None
    size: int | None = None
