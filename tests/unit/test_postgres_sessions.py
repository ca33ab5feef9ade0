"""Before a snapshot is read: transactions that the log holds for committed, and the server not yet, are waited for."""

from hypothesis import given
from hypothesis import strategies as st

from seamline.sources.postgres.sessions import position_at, unfinished

FIRST = 750
STATES = ("ended", "in limbo", "running")


@given(st.lists(st.sampled_from(STATES), max_size=12))
def test_exactly_the_transactions_whose_commit_is_in_the_log_and_not_yet_known_are_waited_for(
    states: list[str],
) -> None:
    at = {FIRST + number: state for number, state in enumerate(states)}
    by_log = snapshot_text({xid for xid, state in at.items() if state in ("ended", "in limbo")})
    by_server = snapshot_text({xid for xid, state in at.items() if state == "ended"})
    in_limbo = [xid for xid, state in at.items() if state == "in limbo"]
    assert sorted(unfinished(position_at(0, by_log), position_at(0, by_server))) == in_limbo


def test_a_last_commit_that_the_server_has_not_counted_yet_is_waited_for() -> None:
    """As PostgreSQL 18.4 said it, a commit stopped between its WAL record and its mark in the commit log."""
    assert unfinished(position_at(0, "755:756:"), position_at(0, "755:755:")) == [755]


def test_a_snapshot_whose_xmax_lies_below_its_xmin_sees_what_lies_between() -> None:
    """As a slot of PostgreSQL 18.4 exported one."""
    assert unfinished(position_at(0, "2444:2443:"), position_at(0, "2443:2443:")) == [2443]
    assert unfinished(position_at(0, "2444:2443:"), position_at(0, "2444:2444:")) == []


def snapshot_text(completed: set[int]) -> str:
    """What pg_current_snapshot prints: xmax is one beyond the last that has ended, all others below it are running."""
    xmax = max(completed, default=FIRST - 1) + 1
    running = [xid for xid in range(FIRST, xmax) if xid not in completed]
    return f"{min(running, default=xmax)}:{xmax}:{','.join(map(str, running))}"
