"""Tables of a lake as ReadViews: no server can be asked in SQL, so their rows are read and digested here."""

from seamline.domain.canonical import row_hash, row_text
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.kinds.arrow_view import ArrowView, Batches
from seamline.values.segments import in_segment, texts_of

__all__ = ["Batches", "LakeView", "part_of"]


class LakeView(ArrowView):
    """`ports.StagedView` over what nobody changes any more: each table's rows at one snapshot."""

    def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
        found, batches = self._tables[table]
        total = SegmentDigest()
        for rows in batches():
            for texts in texts_of(found.columns, rows):
                hashed = row_hash(row_text(found.columns, texts), run_key=run_key)
                total += SegmentDigest(1, 1, int(hashed[:15], 16), int(hashed[15:30], 16))
        return total


def part_of(segment: Segment, table: Table, batches: Batches) -> Batches:
    """The rows of a segment alone."""
    return lambda: (in_segment(segment, table, rows, run_key="") for rows in batches())
