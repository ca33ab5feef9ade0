"""Rows of a staged table against those of the version that counts, by a hash of each row."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.staged_cut import Lateness


def late_rows(staged: Iterable[pa.Array], current: Iterable[pa.Array]) -> Lateness:
    """A row counts as often as it is there. All hashes are in memory."""
    both = _counted(staged, "staged").join(_counted(current, "current"), "hash", join_type="full outer")
    more = pc.subtract(pc.fill_null(both["staged_sum"], 0), pc.fill_null(both["current_sum"], 0))
    late, gone = pc.sum(pc.max_element_wise(more, 0)), pc.sum(pc.min_element_wise(more, 0))
    return Lateness(late.as_py() or 0, -(gone.as_py() or 0))


def _counted(hashes: Iterable[pa.Array], name: str) -> pa.Table:
    """Each hash with how often it is there, in `<name>_sum`."""
    found = pa.chunked_array([one.cast(pa.string()) for one in hashes], pa.string())
    counted = pa.table({"hash": found, name: pa.repeat(1, len(found))})
    return counted.group_by("hash").aggregate([(name, "sum")])
