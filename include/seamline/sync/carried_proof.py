"""The proof of a table that was carried on from an earlier cut, by one pass over its rows (ADR 73).

What the earlier cut was proven to hold is known as a digest, and digests add up. With C for the rows of the earlier cut
whose keys the log has changed since, and A for what the log makes of them, the table is right if

- its rows with these keys are A, and
- its other rows and C together are what the earlier cut was proven to hold.

The keys keep both apart: no row of one can stand for a row of the other. So rows of the earlier cut that somebody has
changed since are found, whether the log has changed them too or not, although only C is read of it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from seamline.domain.canonical import digest_of, exact_columns, inexact_columns, row_of_texts
from seamline.domain.catalogue import Table
from seamline.domain.digest import KeyedDigest, Segment, SegmentDigest
from seamline.domain.errors import SeamlineError
from seamline.domain.log_patch import TablePatch
from seamline.domain.made_from import LET_IT_BE_READ, EarlierCut, NotByLog
from seamline.ports import ReadView, StagedView
from seamline.ports.digests_by_keys import DigestsByKeys, Others
from seamline.sync.bucket_search import Divided, Sides, is_ranged


@dataclass(frozen=True, slots=True)
class Carried:
    """A table that is read whole. `known`: what the earlier cut was proven to hold; `patch`: what the log makes of it;
    `base`: a view of the earlier cut, under the same name."""

    known: KeyedDigest
    patch: TablePatch
    base: ReadView


def is_proven_by_keys(table: Table, carried: Carried) -> bool:
    """Whether the proof is possible: every changed row is known whole, and by one integer, and no column of the table
    is left out of its digests."""
    patch = carried.patch
    if not isinstance(carried.base, DigestsByKeys) or patch.emptied or patch.copies or inexact_columns(table):
        return False
    return not patch.rows or (is_ranged(table) and not any(row.missing for row in patch.rows.values()))


def proven_by_keys(sides: Sides, carried: Carried) -> Divided | None:
    """The first pass of both sides where the destination's rows are proven; else None, also where a side fails.
    What `sides.check` raises is raised: nothing is asked after it.

    The answer is under the run key of `sides`: both hashes of a row are of one text, read once.
    """
    staged, base, known, name = sides.destination, carried.base, carried.known, sides.table.name
    if not (isinstance(staged, DigestsByKeys) and isinstance(base, DigestsByKeys)):
        return None
    keys, run_keys = [int(key) for key in carried.patch.rows], (known.run_key, sides.run_key)
    sides.check()
    try:
        with ThreadPoolExecutor(max_workers=2) as pool:
            held = pool.submit(staged.digests_by_keys, name, keys, run_keys=run_keys, others=Others.APART)
            before = pool.submit(base.digests_by_keys, name, keys, run_keys=run_keys[:1], others=Others.LEFT_OUT)
            made = digest_of(_row_texts(sides.table, carried.patch), run_key=known.run_key)
            (changed, changed_now), (others, others_now) = held.result()
            ((was,), _) = before.result()
    except SeamlineError:
        # The comparison itself meets it again, and judges it.
        return None
    now = changed_now + others_now
    if not (changed == made and others + was == known.digest and was.is_complete and now.is_complete):
        return None
    answer = {0: now} if now != SegmentDigest() else {}
    return Divided((answer, answer), (now.rows, now.rows))


def require_as_proven(view: ReadView, table: Table, base: EarlierCut) -> None:
    """NotByLog: the rows that a cut begins with are not those that were compared, in all of their columns."""
    name, known = table.name, base.digests[table.name]
    is_same = sum(view.digests(Segment(name), run_key=known.run_key).values(), SegmentDigest()) == known.digest
    of = f"{name} of the cut of {base.business_date}, version {base.version}"
    if is_same and inexact_columns(table):
        if known.whole is None or not isinstance(view, StagedView):
            raise NotByLog(
                f"nobody knows whether {of}, still holds its FLOAT and DOUBLE values", hint=LET_IT_BE_READ, table=name
            )
        is_same = view.whole_digest(name, run_key=known.run_key) == known.whole
    if not is_same:
        raise NotByLog(
            f"{of}, no longer holds what was compared",
            hint=f"find out who has changed it, and make that cut again; {LET_IT_BE_READ}",
            table=name,
        )


def _row_texts(table: Table, patch: TablePatch) -> Iterator[str]:
    columns = exact_columns(table)
    return (row_of_texts(columns, row.texts) for row in patch.rows.values() if row.texts is not None)
