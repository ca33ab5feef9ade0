"""The comparison of live tables by the log, with everything real: PostgreSQL, its capture, the log, a stream that is
not held, PostgreSQL."""

from collections.abc import Iterator

import pytest

from seamline import registry
from seamline.domain.log_patch import LOG_BETWEEN, log_between_in_words
from seamline.domain.verdict import BreakType, Verdict
from tests.conftest import RunningStack
from tests.integration.bank_writers import in_postgres
from tests.integration.captured_postgres import captured_postgres
from tests.integration.compared_chain import Chain, chained, compared_while_writing, listed
from tests.integration.databases import postgres
from tests.waiting import wait_until

# Of so many letters that the server stores it out of line, where an update that does not change it leaves it out of the
# log.
LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) AS n)"


@pytest.fixture(scope="module")
def chain(stack: RunningStack) -> Iterator[Chain]:
    with chained("compared_by_log", captured_postgres, in_postgres, by_log=True) as one:
        yield one


def test_live_tables_match_by_the_log_while_writers_write(chain: Chain, pytestconfig: pytest.Config) -> None:
    count, comparisons = (pytestconfig.getoption(name) for name in ("writers", "comparisons"))
    found = compared_while_writing(chain, count=count, comparisons=comparisons)
    assert {one.mode for one in found} == {"log"}
    assert {one.evidence["held_s"] for one in found} == {0.0}
    between = [one.evidence[LOG_BETWEEN] for one in found]
    print(f"changes of the log between both sides: {sorted(int(one['changes']) for one in between)}")  # type: ignore[index]


def test_a_stream_that_stands_is_compared_too_and_only_what_is_wrong_differs(chain: Chain) -> None:
    chain.bank.execute(
        "INSERT INTO account VALUES (-1, 1, 'one'), (-2, 2, 'two'), (-3, 3, 'three')",
        f"INSERT INTO account VALUES (-4, 4, {LARGE}), (-5, 5, {LARGE})",
        "INSERT INTO audit VALUES (-1, 'once'), (-1, 'once')",
    )
    with postgres(chain.warehouse) as session:
        there = b"SELECT count(*) FROM live.audit WHERE a = -1"
        wait_until(lambda: session.execute(there).fetchone() == (2,), timeout_s=60, what="the rows to arrive")
    director, stream = registry.director(), chain.plan.stream_id("warehouse")
    director.pause(stream, by="ann")
    wait_until(lambda: getattr(director.latest_report(stream), "state", "") == "paused", timeout_s=30, what="the pause")
    chain.bank.execute(
        "UPDATE account SET a = 40 WHERE id = -4",
        "UPDATE account SET id = -50 WHERE id = -5",
        "UPDATE account SET memo = 'newer' WHERE id = -1",
        "DELETE FROM audit WHERE ctid = (SELECT min(ctid) FROM audit WHERE a = -1)",
        "INSERT INTO account VALUES (-6, 6, 'six')",
    )
    found = chain.compare()
    assert found.verdict is Verdict.MATCH, [one.reason for one in found.tables]
    (line,) = log_between_in_words(found.evidence)
    # A change of key is a delete and an insert.
    assert "6 changes of the log in" in line
    chain.spoil(
        "UPDATE live.account SET memo = 'spoilt' WHERE id IN (-1, -2)",
        "DELETE FROM live.account WHERE id = -3",
        "UPDATE live.account SET memo = 'spoilt' WHERE id = -4",
        "INSERT INTO live.audit VALUES (-1, 'never')",
    )
    found = chain.compare()
    assert found.verdict is Verdict.BREAK
    # What the log writes whole does not differ once it is applied.
    assert listed(found) == {
        "account": {
            (BreakType.VALUE, '{"id": "-2"}'),
            (BreakType.MISSING, '{"id": "-3"}'),
            (BreakType.VALUE, '{"id": "-4"}'),
        },
        "audit": {(BreakType.UNEXPECTED, '{"a": "-1", "memo": "never"}')},
    }
    chain.spoil(
        "UPDATE live.account SET memo = 'two' WHERE id = -2",
        "INSERT INTO live.account VALUES (-3, 3, 'three')",
        "UPDATE live.account SET memo = (SELECT memo FROM live.account WHERE id = -5) WHERE id = -4",
        "DELETE FROM live.audit WHERE memo = 'never'",
    )
    director.resume(stream, by="ann")
    wait_until(lambda: chain.applied("account WHERE id = -6") == 1, timeout_s=60, what="the stream to go on")
    assert chain.compare().verdict is Verdict.MATCH
