"""A PostgreSQL database by itself: read views for a login that may SELECT and no more, also on a standby."""

from collections.abc import Sequence

from seamline.domain.catalogue import Table
from seamline.domain.separate import Stand
from seamline.plan.model import SourcePlan
from seamline.ports.separate import OpenedSide
from seamline.sources.postgres.own_snapshot import open_own_views


def open_separately(source: SourcePlan, tables: Sequence[Table], count: int) -> OpenedSide:
    """`count` views on one snapshot."""
    opened, stood = open_own_views(source, tables, count, position=lambda stood: stood.wal)
    return OpenedSide(opened.views, Stand(f"{stood.wal} (snapshot {stood.seen})", stood.at, stood.seen))
