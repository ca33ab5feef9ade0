"""One side of a comparison by itself: a database that some tool reads or writes, and that we may only SELECT from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seamline.domain.catalogue import Table
from seamline.domain.separate import Stand
from seamline.ports import ReadView, Survey


@dataclass(frozen=True, slots=True)
class OpenedSide:
    """Views of one snapshot of a side, and where that stands."""

    views: Sequence[ReadView]
    stand: Stand


class SeparateSide(Protocol):
    def survey(self, tables: Sequence[str]) -> Survey:
        """What is there of these tables."""

    def open(self, tables: Sequence[Table], count: int) -> OpenedSide:
        """At most `count` views, at least one, which read these tables as they are given. The caller closes them."""
