"""What a log topic holds, what it may hold, and who has yet to read it."""

from dataclasses import dataclass

from seamline.domain.ledger import StreamId

GIB = 1 << 30
# Of `log.max_gb`, where `log.behind_max_gb` is not declared.
_BEHIND_OF_MAX = 0.8


@dataclass(frozen=True, slots=True)
class LogLimits:
    """`behind_max_gb`: of what a stream has yet to apply; 0: by `max_gb`."""

    max_gb: float
    behind_max_gb: float = 0.0

    @property
    def bytes_max(self) -> float:
        return self.max_gb * GIB

    @property
    def behind_bytes_max(self) -> float:
        return self.behind_max_gb * GIB or self.bytes_max * _BEHIND_OF_MAX


@dataclass(frozen=True, slots=True)
class LogFill:
    """Its records are `[begins, ends)` and take so many bytes. `free_bytes`: what the disk of its broker has left; None
    where that is not known."""

    begins: int
    ends: int
    size_bytes: int
    free_bytes: int | None = None

    def bytes_max(self, limits: LogLimits) -> float:
        """What it may take: as declared, or as much as its disk has room for where that is less."""
        return min(limits.bytes_max, self._disk_bytes)

    def is_disk_nearer(self, limits: LogLimits) -> bool:
        """Whether the disk of its broker is full before the declared limit is reached."""
        return self._disk_bytes < limits.bytes_max

    @property
    def _disk_bytes(self) -> float:
        return float("inf") if self.free_bytes is None else self.size_bytes + self.free_bytes

    @property
    def record_bytes(self) -> float:
        return self.size_bytes / max(1, self.ends - self.begins)

    def behind_bytes(self, next_offset: int) -> float:
        """What comes from this offset on, as far as the log still has it."""
        return max(0, self.ends - max(next_offset, self.begins)) * self.record_bytes


@dataclass(frozen=True, slots=True)
class Follower:
    """A stream that is wanted, and the first offset that it has yet to apply. `cut_off_gb`: with so much before it it
    is cut off; 0: never. `has_ended`: it applies nothing until a person starts it again."""

    stream: StreamId
    next_offset: int
    cut_off_gb: float = 0.0
    has_ended: bool = False


def gib_in_words(size: float) -> str:
    """A size for people, in MiB below a hundredth of a GiB."""
    return f"{size / GIB:.2f} GiB" if size >= GIB / 100 else f"{size / (1 << 20):.1f} MiB"
