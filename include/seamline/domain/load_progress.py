"""How far the load of a run is, over all of its tables."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from seamline.domain.duration import duration
from seamline.domain.phrase import phrase

# Under this name a run keeps it while it loads.
LOADING = "loading"
_MB = 1_000_000
_PACE_AFTER_S, _PACE_AFTER_PERCENT = 60.0, 5


@dataclass(frozen=True, slots=True)
class LoadSoFar:
    """`rows` are staged of about `expected`, `kept` of them by earlier attempts; 0 rows where only bytes are known.
    `size_bytes`: of the staged tables as the destination counts them. `elapsed_s`: of this attempt. `held_back`: why it
    is read slower than it could be, or waits; "" where it is not."""

    rows: int
    expected: int
    kept: int
    size_bytes: int
    elapsed_s: float
    held_back: str = ""

    @classmethod
    def waiting(cls, why: str) -> "LoadSoFar":
        """One that has not begun."""
        return cls(0, 0, 0, 0, 0.0, why)

    @property
    def percent(self) -> int | None:
        """None where it is not known; never more than 100, for what is expected is an estimate."""
        return min(100, 100 * self.rows // self.expected) if self.rows and self.expected else None

    @property
    def has_pace(self) -> bool:
        """Whether this attempt has read enough to say when it ends."""
        made = self.rows - self.kept
        is_enough = self.elapsed_s >= _PACE_AFTER_S or 100 * made >= _PACE_AFTER_PERCENT * self.expected
        return made > 0 and self.expected > 0 and is_enough

    @property
    def left(self) -> timedelta | None:
        """At the pace of this attempt; None while that says nothing."""
        made = self.rows - self.kept
        if made <= 0 or self.rows >= self.expected:
            return None
        return timedelta(seconds=self.elapsed_s * (self.expected - self.rows) / made)

    def in_words(self) -> str:
        """For people, in their language where a page shows it."""
        done = self._done()
        return phrase("%(done)s; slowed down: %(why)s", done=done, why=self.held_back) if self.held_back else done

    def _done(self) -> str:
        size = f"{self.size_bytes / _MB:,.1f}"
        if self.percent is None:
            return phrase("%(size)s MB staged", size=size)
        done = phrase(
            "%(rows)s of about %(expected)s rows (%(percent)s %%), %(size)s MB staged",
            rows=f"{self.rows:,}",
            expected=f"{self.expected:,}",
            percent=self.percent,
            size=size,
        )
        if self.kept:
            done = phrase("%(done)s, %(kept)s rows by an earlier attempt", done=done, kept=f"{self.kept:,}")
        return (
            done if self.left is None else phrase("%(done)s, about %(left)s left", done=done, left=duration(self.left))
        )


def load_to_json(so_far: LoadSoFar) -> dict[str, Any]:
    return asdict(so_far)


def load_from_json(document: Mapping[str, Any]) -> LoadSoFar:
    return LoadSoFar(**document)
