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
    """Its records are `[begins, ends)` and take so many bytes."""

    begins: int
    ends: int
    size_bytes: int

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
