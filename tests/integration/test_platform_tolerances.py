"""Tolerances in a real PostgreSQL: what they cover, that two persons make one, and that they end."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest

from seamline.domain.break_work import Doing, WorkState
from seamline.domain.errors import Refused
from seamline.domain.tolerance import Asked, ToleranceState
from seamline.domain.verdict import Break, BreakType
from seamline.platform.breaks import PlatformBreaks, Wanted
from seamline.platform.database import Database
from seamline.platform.store import PlatformStore
from seamline.platform.tolerances import PlatformTolerances
from seamline.platform.work import PlatformWork
from tests.integration.platform_database import Server, stored_id
from tests.integration.test_platform_work import entries, order, saved
from tests.integration.test_platform_work import server as server
from tests.integration.test_platform_work import store as store
from tests.integration.test_platform_work import template as template
from tests.integration.test_platform_work import work as work

NOW = datetime.now(UTC)
UNTIL = NOW + timedelta(days=30)
ASKED = Asked("settlement", "warehouse", "account", "balance", Decimal("0.05"), date(2026, 3, 31), "rounding of fees")
OPEN, TOLERATED, CLOSED, EXPLAINED = WorkState.OPEN, WorkState.TOLERATED, WorkState.CLOSED, WorkState.EXPLAINED


@pytest.fixture
def tolerances(server: Server) -> Iterator[PlatformTolerances]:
    with closing(PlatformTolerances(Database(server.open))) as opened:
        yield opened


def off(key: str, by: str, **more: str) -> Break:
    mine, theirs = {"balance": "100.00"}, {"balance": str(Decimal("100.00") + Decimal(by))}
    return Break("account", BreakType.VALUE, key, mine | more, theirs | dict.fromkeys(more, "other"))


def states(work: PlatformWork, *keys: str, kind: BreakType = BreakType.VALUE) -> list[WorkState]:
    names = [stored_id(Break("account", kind, key)) for key in keys]
    known = work.of(names)
    return [known[name].state for name in names]


def in_force(tolerances: PlatformTolerances, asked: Asked = ASKED) -> int:
    number = tolerances.ask(asked, who="ann", expires_at=UNTIL)
    tolerances.approve("settlement", number, who="bo")
    return number


def test_only_what_differs_in_the_column_alone_and_within_the_bound_is_tolerated(
    store: PlatformStore, work: PlatformWork, tolerances: PlatformTolerances, server: Server
) -> None:
    missing = Break("account", BreakType.MISSING, "m", {"balance": "0.01"}, None)
    words = Break("account", BreakType.VALUE, "w", {"balance": "100"}, {"balance": None})
    elsewhere = replace(off("e", "0.01"), table="payment")
    compared = saved(
        store, 0, off("1", "0.05"), off("2", "-0.05"), off("3", "0.0501"), off("4", "0.01", owner="x"), missing, words,
        elsewhere,
    )  # fmt: skip
    number = tolerances.ask(ASKED, who="ann", expires_at=UNTIL)
    assert states(work, "1", "2") == [OPEN, OPEN], "it is not approved yet"
    assert tolerances.approve("settlement", number, who="bo") == 2
    assert states(work, "1", "2", "3", "4", "w") == [TOLERATED, TOLERATED, OPEN, OPEN, OPEN]
    assert states(work, "m", kind=BreakType.MISSING) == [OPEN]
    (mine,) = tolerances.of_comparison("settlement", compared)
    assert (mine.tolerance.approved_by, mine.breaks, mine.absorbed) == ("bo", 2, Decimal("0.10"))
    # What comes later comes under it as well, and counts into what is absorbed so far.
    saved(store, 1, off("1", "0.02"), off("5", "0.03"))
    assert states(work, "1", "2", "5") == [TOLERATED, CLOSED, TOLERATED]
    (known,) = tolerances.in_force("settlement")
    assert (known.breaks, known.absorbed) == (3, Decimal("0.10"))
    assert [one.kind for one in entries(server)] == [
        "tolerance asked", "tolerance approved", "break closed", "tolerated",
    ]  # fmt: skip
    said = json.loads(entries(server)[1].document)
    assert (said["amount"], said["made_by"], said["breaks"], said["state"]) == ("0.05", "ann", 2, "tolerated")
    name = stored_id(off("5", "0.03"))
    assert [(one.kind, one.who) for one in work.deeds(name)] == [("tolerated", "comparison")]


def test_a_break_beyond_the_bound_is_open_again_and_one_that_a_person_explained_is_left_alone(
    store: PlatformStore, work: PlatformWork, tolerances: PlatformTolerances
) -> None:
    saved(store, 0, off("1", "0.05"), off("2", "0.01"))
    work.act("settlement", stored_id(off("2", "0")), order(Doing.EXPLAIN, reason="timing"))
    in_force(tolerances)
    assert states(work, "1", "2") == [TOLERATED, EXPLAINED]
    saved(store, 1, off("1", "0.06"), off("2", "0.01"))
    assert states(work, "1", "2") == [OPEN, EXPLAINED]
    name = stored_id(off("1", "0"))
    assert work.deeds(name)[0].comment == "no tolerance in force covers it any more"


def test_whoever_asks_for_a_tolerance_never_approves_it_whichever_way_the_name_is_written(
    tolerances: PlatformTolerances, server: Server
) -> None:
    number = tolerances.ask(ASKED, who="ann li", expires_at=UNTIL)
    for who in ("ann li", " ann  li", "ann:li", "Ann Li"):
        with pytest.raises(Refused, match="does not approve it"):
            tolerances.approve("settlement", number, who=who)
    assert [one.kind for one in entries(server)] == ["tolerance asked"]
    with server.open() as session, pytest.raises(psycopg.errors.CheckViolation):
        session.execute("update tolerance set approved_by = made_by, approved_at = now()")
    tolerances.approve("settlement", number, who="bo")
    for sync, of in (("settlement", number), ("another", number), ("settlement", number + 1)):
        with pytest.raises(Refused, match="does not wait for approval"):
            tolerances.approve(sync, of, who="cy")


@pytest.mark.parametrize(
    "change",
    [
        "amount = 1000000",
        "expires_at = now() + interval '9 years'",
        "made_by = 'eve'",
        "approved_by = 'eve'",
        "approved_by = null, approved_at = null",
        "column_name = 'limit'",
    ],
)
def test_what_was_approved_is_not_changed(tolerances: PlatformTolerances, server: Server, change: str) -> None:
    in_force(tolerances)
    with server.open() as session, pytest.raises(psycopg.Error, match="a tolerance is not changed"):
        session.execute(f"update tolerance set {change}".encode())


def test_a_tolerance_that_has_expired_or_was_ended_tolerates_nothing(
    store: PlatformStore, work: PlatformWork, tolerances: PlatformTolerances, server: Server
) -> None:
    compared = saved(store, 0, off("1", "0.05"))
    number = in_force(tolerances)
    assert work.states(compared) == {TOLERATED: 1}
    # Its end comes without a comparison.
    with server.open() as session:
        session.execute("alter table tolerance disable trigger keep_tolerance")
        session.execute("update tolerance set expires_at = clock_timestamp()")
        session.execute("alter table tolerance enable trigger keep_tolerance")
    assert states(work, "1") == [OPEN]
    assert work.states(compared) == {OPEN: 1}
    with closing(PlatformBreaks(Database(server.open))) as breaks:
        assert breaks.number(compared, Wanted(state=OPEN)) == 1
        assert breaks.number(compared, Wanted(state=TOLERATED)) == 0
    assert tolerances.in_force("settlement") == ()
    (one,) = tolerances.of_sync("settlement")
    assert one.state_at(datetime.now(UTC)) is ToleranceState.EXPIRED
    assert tolerances.end("settlement", number, who="ann") == 1
    with pytest.raises(Refused, match="has ended"):
        tolerances.end("settlement", number, who="ann")
    second = in_force(tolerances)
    assert states(work, "1") == [TOLERATED]
    assert tolerances.end("settlement", second, who="cy") == 1
    assert states(work, "1") == [OPEN]
    saved(store, 1, off("1", "0.05"))
    assert states(work, "1") == [OPEN]
    assert [one.kind for one in entries(server)].count("tolerance ended") == 2
