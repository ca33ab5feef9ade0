"""The warehouse of a run, as somebody reads it who is no part of the stream. Each kind of destination has its own."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

from seamline.domain.catalogue import Table
from seamline.domain.position import Position
from seamline.ports import ReadView
from tests.fault.real.anomalies import Commit, Dump
from tests.fault.real.log_replay import Rows


class Warehouse(Protocol):
    """The live tables lie in `live`. The small questions of those who wait are cheap."""

    def audit(self) -> None:
        """From here on each commit of the destination is looked at. Called after a first publish."""

    def forget_all(self) -> None:
        """As before the first publish."""

    def session(self) -> AbstractContextManager[Any]:
        """As the publisher; of the kind's own driver."""

    def session_of_writer(self) -> AbstractContextManager[Any]:
        """By the login that streams have, which may end their sessions."""

    def close(self) -> None: ...

    def last_marker(self) -> str:
        """ "" while its server is away."""

    def commits_seen(self) -> int: ...

    def commits(self, *, after: int = 0) -> list[Commit]: ...

    def newest_commit(self) -> Commit: ...

    def has_queue(self) -> bool:
        """Whether somebody has waited for more than a moment for the lock of all publishes."""

    def findings(self) -> int: ...

    def missing_audit(self) -> list[str]:
        """By what commits may have gone by unseen."""

    def leftovers(self) -> list[str]:
        """Staged tables; chunks of large transactions are temporary, and gone with their session."""

    def state(self) -> tuple[int, Rows]:
        """The ledger's offset and all rows, of one and the same state."""

    def view_of(self, table: Table, *, at: Position) -> ReadView:
        """A live table, as a reconciliation reads it."""

    def evidence(self) -> str:
        """What the destination's own tables say of progress, boundaries and findings."""

    def seen_after(self, statement: str, *, owner_epoch: int | None = None) -> Commit:
        """What is seen of a state that this statement makes, with the ledger; nothing of it is kept."""

    def seen_after_rows(self, *statements: str) -> Commit:
        """The same, without the ledger."""

    def dump(self) -> Dump: ...

    def dump_of(self, attempts: Sequence[int]) -> Dump:
        """The rows that these attempts have left; of those without a key nobody can say."""


def counted(rows: Mapping[str, Sequence[Sequence[Any]]]) -> Rows:
    """Rows as a multiset per table; PyMySQL shows moments without their zone, which is UTC."""
    return {table: Counter(tuple(map(_in_utc, row)) for row in found) for table, found in rows.items()}


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value
