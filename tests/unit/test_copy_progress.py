"""How far the copy of a table is, as the log of its task says it."""

from dataclasses import replace

import pyarrow as pa
import pytest

from seamline.bulk.progress import SAY_EVERY_S, Progress, counted, progress_of
from seamline.domain.digest import Segment
from seamline.kinds.bulk import ArrowRows, BulkRead, PostgresCopy
from tests.dags import results

TABLE = results.plan().tables[0].target


class Clock:
    """One second for each look."""

    def __init__(self, step_s: float) -> None:
        self.now, self.step_s = -step_s, step_s

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


def _copied(expected: int, *, batches: int, step_s: float) -> list[str]:
    said: list[str] = []
    progress = Progress("account", expected, said.append, Clock(step_s))
    made = pa.record_batch({"id": pa.array(range(1000), pa.int64())})
    passed = list(counted(ArrowRows(made.schema, iter([made] * batches)), progress).batches)  # type: ignore[union-attr]
    assert passed == [made] * batches, "the rows pass as they are"
    return said


def test_a_long_copy_says_rows_percent_bytes_and_what_is_left() -> None:
    first, *_, last = _copied(10_000, batches=8, step_s=SAY_EVERY_S)
    assert first == "copying account: 1,000 of about 10,000 rows (10 %), 0.0 MB, 0.0 MB/s, about 2 min left"
    assert "8,000 of about 10,000 rows (80 %)" in last and "about 30 s left" in last


def test_a_copy_that_is_soon_done_says_nothing() -> None:
    assert _copied(10_000, batches=8, step_s=1) == []


def test_an_estimate_that_was_too_low_is_not_shown_as_more_than_all() -> None:
    assert _copied(1_500, batches=3, step_s=SAY_EVERY_S)[-1].startswith("copying account: 3,000 rows, ")


def test_of_a_native_form_bytes_are_said() -> None:
    said: list[str] = []
    progress = Progress("account", 10_000, said.append, Clock(SAY_EVERY_S))
    blocks = counted(PostgresCopy(iter([b"x" * 3_000_000])), progress).blocks  # type: ignore[union-attr]
    assert list(blocks) == [b"x" * 3_000_000]
    assert said == ["copying account: 3.0 MB, 0.2 MB/s"]


@pytest.mark.parametrize(("segment", "expected"), [(Segment("account"), 500), (Segment("account", "booked_at"), 0)])
def test_the_rows_of_a_date_are_not_estimated_by_the_table(segment: Segment, expected: int) -> None:
    assert progress_of(BulkRead(replace(TABLE, rows_estimate=500), segment, 0)).expected == expected
