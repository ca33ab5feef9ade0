"""What maintenance needs of the log and of a destination."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seamline.domain.errors import SeamlineError
from seamline.domain.log_floor import LedgerPlace

# Over since their table was put in place again; long enough to be asked for after a quarter has closed.
FINDINGS_KEPT_DAYS = 100
# A join that failed before a weekend is run again after it, and goes on from its incremental snapshot.
INCREMENTAL_KEPT_DAYS = 7


@dataclass(frozen=True, slots=True)
class LetGo:
    """What left a destination: findings, the streams of incremental snapshots, staged tables, and files of a lake that
    nothing names. `orphans_kept`: why files that nothing names were left; "" where they were not. `failed`: why single
    syncs were not maintained to the end; the others of the destination were."""

    findings: int
    incremental_snapshots: tuple[str, ...]
    staged: int
    orphan_files: int = 0
    orphans_kept: str = ""
    failed: tuple[SeamlineError, ...] = ()


class LogTopics(Protocol):
    """The log topics of one Kafka."""

    def topic_id(self, topic: str) -> str: ...

    def offsets(self, topic: str) -> tuple[int, int]: ...

    def size_bytes(self, topic: str) -> int: ...

    def young_from(self, topic: str, *, keep_s: float) -> int:
        """An offset before which every record is older than `keep_s`."""

    def end_segments(self, topic: str, *, within_s: float) -> None:
        """Let a segment end after so long, however slowly it fills."""

    def prune(self, topic: str, *, below: int) -> int: ...


class Ledgers(Protocol):
    """The ledgers of one destination, of whatever log."""

    def ledgers(self) -> Sequence[LedgerPlace]: ...


class DestinationMaintenance(Ledgers, Protocol):
    def let_go(self) -> LetGo:
        """Drop what dead runs have left and findings that are long over. A repeat finds nothing."""

    def close(self) -> None: ...
