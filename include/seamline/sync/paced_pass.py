"""A first pass in short questions: ranges of the key, each as wide as half a second allows by what the last one took.

A database that is asked so is never busy with one statement of ours for long, and a comparison whose budget is over
knows how far it came.
"""

import time

from seamline.sync.bucket_search import WHOLE, Digests, Divided, Limits, Sides, first_pass, joined, row_counts
from seamline.sync.budget import BudgetSpent

# Rows of the first question, whose time is not known.
_ROWS_FIRST = 20_000
_WIDER_MAX, _NARROWER_MAX = 4.0, 0.1


def paced_pass(sides: Sides, limits: Limits) -> Divided:
    """The first pass over a table whose key is one integer. A BudgetSpent says how far it came."""
    span = _span(sides)
    passes: list[Digests] = []
    if span is None:
        return Divided(first_pass(sides, limits, WHOLE), row_counts(sides))
    least, greatest = span
    width = max(1, (greatest - least + 1) * _ROWS_FIRST // max(1, sides.table.rows_estimate))
    low, below = None, least
    try:
        while True:
            below += width
            # The first and the last question have no other end: nothing lies beyond the span, and that is asked too.
            is_last = below > greatest
            began = time.perf_counter()
            passes.append(first_pass(sides, limits, {"key_from": low, "key_below": None if is_last else below}))
            if is_last:
                return Divided(joined(passes), row_counts(sides))
            width = next_width(width, time.perf_counter() - began, limits.question_s)
            low = below
    except BudgetSpent as exc:
        raise _on_its_way(exc, passes, low, span) from exc


def next_width(width: int, took_s: float, wanted_s: float) -> int:
    """How many keys the next question asks for. Keys that are not there cost nothing, so it may grow fast."""
    factor = wanted_s / took_s if took_s > 0 else _WIDER_MAX
    return max(1, round(width * min(_WIDER_MAX, max(_NARROWER_MAX, factor))))


def _span(sides: Sides) -> tuple[int, int] | None:
    """Least and greatest key of both sides; None where neither has a row."""
    known = [one for one in sides.ask(lambda view, segment: view.key_span(segment.table)) if one is not None]
    return (min(least for least, _ in known), max(greatest for _, greatest in known)) if known else None


def _on_its_way(exc: BudgetSpent, passes: list[Digests], low: int | None, span: tuple[int, int]) -> BudgetSpent:
    if low is None:
        return exc
    least, greatest = span
    share = (low - least) / (greatest - least + 1)
    differ = sum(mine != theirs for mine, theirs in passes)
    so_far = f"{differ} of {len(passes)} parts of them differ" if differ else "they are equal"
    text = f"keys below {low:,} of {least:,} to {greatest:,} ({share:.0%}) were compared till then, and {so_far}"
    return BudgetSpent(f"{exc.message}: {text}", hint=exc.hint)
