"""Spark's DataFrames, as a destination that writes through them asks for them.

Kinds import no Spark: whoever has a session hands it over in this form.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Sink

if TYPE_CHECKING:
    import pyarrow as pa

    from seamline.values.changes import ChangeDecoder


class Frames(Protocol):
    """A session of one stream's own: its settings and views are seen by no other.

    TransientError: the engine could not do it, as when a worker is lost. A statement that makes no sense is a bug and
    leaves as the engine's own error.
    """

    def has(self, class_name: str) -> bool:
        """Whether the engine has this class, which a jar of its own brings."""

    def configure(self, options: Mapping[str, str]) -> None:
        """Settings of the session, by the engine's names."""

    def show(self, view: str, rows: "pa.Table") -> None:
        """Let statements find rows under a name, in place of those that had it."""

    def run(self, statement: str) -> "pa.Table":
        """What a statement of SQL answers, once it is done."""


@runtime_checkable
class WritesFrames(Protocol):
    """A kind whose destinations may be written through DataFrames."""

    def needs_frames(self, destination: DestinationPlan) -> bool:
        """Whether a stream into this destination does: it runs where the session is."""

    def open_sink_over(
        self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder", frames: Frames
    ) -> Sink:
        """`open_sink` of such a destination, for a stream. Without frames it publishes and joins, and applies no
        change."""
