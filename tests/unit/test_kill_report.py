"""The report of the fault layer shows what happened where, mode by mode, what did not, and every violation."""

from collections import Counter

from seamline.adapters.failpoints import Mode
from tests.fault.real.bank_under_fire import Case
from tests.fault.real.report import LISTED_MAX, WANTED, End, PlantedBug, Tally, written


def test_the_report_counts_cases_and_shows_every_violation() -> None:
    tally = Tally("17")
    tally.cases = [
        Case("mariadb", "app.fetched", Mode.KILL9, 3, 2.04, 40, 90, ()),
        Case("postgres", "app.fetched", Mode.STOP, 5, 7.96, 41, 91, ("audit: 2 too many", "torn: commit 9")),
    ]
    tally.ends = [End("postgres", 900, 800, 850, 81, ("lost: writer 1 committed number 3",))]
    text = written(tally, tests=3, failed=1)
    assert f"2 cases at 1 of {len(WANTED)} failpoints, 81 commits checked, 3 violations; 1 of 3 tests failed" in text
    assert "seed 17" in text
    assert "slowest recovery 8.0 s" in text
    assert "| postgres | `app.fetched` | stop | 5 | 8.0 | 41 | 91 | 2 |" in text
    assert f"| kill9 | 1 | 1 of {len(WANTED)} | 40 | 2.0 | 0 |" in text
    assert f"| stop | 1 | 1 of {len(WANTED)} | 41 | 8.0 | 2 |" in text
    assert f"| wait | 0 | 0 of {len(WANTED)} | 0 | 0.0 | 0 |" in text
    assert "| postgres | 900 | 800 | 850 | 81 | 1 |" in text
    for violation in ("audit: 2 too many", "torn: commit 9", "lost: writer 1 committed number 3"):
        assert f"- {violation}\n" in text


def test_the_report_of_a_part_names_the_failpoints_and_modes_that_it_left_out() -> None:
    tally = Tally("1", cases=[Case("mariadb", "app.fetched", Mode.KILL9, 3, 2.0, 40, 90, ())])
    text = written(tally, tests=1, failed=0)
    assert all(f"- `{name}`: kill9\n" in text for name in WANTED - {"app.fetched"})
    assert "- `app.fetched`: stop\n" in text
    assert "- `app.fetched`: kill9\n" not in text


def test_a_flood_of_violations_is_reported_in_part_and_counted_in_full() -> None:
    many = tuple(f"torn: commit {number}" for number in range(LISTED_MAX + 7))
    text = written(
        Tally("1", cases=[Case("mariadb", "app.fetched", Mode.KILL9, 3, 2.0, 40, 90, many)]), tests=1, failed=1
    )
    assert f", {LISTED_MAX + 7} violations;" in text
    assert text.endswith(f"- torn: commit {LISTED_MAX - 1}\n- and 7 more\n")


def test_planted_bugs_are_distinguished_and_count_for_nothing() -> None:
    found = PlantedBug("mariadb", "deletes_dropped", ("state", "torn"), 44)
    tally = Tally("1", planted=[found, PlantedBug("postgres", "epoch_ignored", (), 41)])
    text = written(tally, tests=2, failed=1)
    assert "0 cases at 0 of " in text
    assert ", 0 commits checked, 0 violations; 1 of 2 tests failed" in text
    assert "| mariadb | deletes dropped | state, torn | 44 |" in text
    assert "| postgres | epoch ignored | nothing | 41 |" in text
    assert "planted" not in written(Tally("1"), tests=0, failed=0)


def test_what_was_proven_beside_the_failpoints_is_reported_with_how_often() -> None:
    text = written(Tally("1", proven=Counter({"a million rows": 1, "a table published": 12})), tests=13, failed=0)
    assert "\n- a million rows\n- a table published: 12 times\n" in text
    assert "Beside them" not in written(Tally("1"), tests=0, failed=0)
