"""Tolerances of the declaration in a real PostgreSQL: who makes one hold, and that another text ends it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import psycopg
import pytest

from seamline.domain.errors import Refused
from seamline.domain.runs import Scope
from seamline.domain.tolerance import Asked, DeclaredTolerance, ToleranceState
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.document import plan_to_json
from seamline.platform.audit_check import check
from seamline.platform.store import PlatformStore
from seamline.platform.tolerances import DECLARATION, PlatformTolerances
from seamline.platform.work import PlatformWork
from tests.integration.platform_database import Server, plan
from tests.integration.test_platform import reconciliation
from tests.integration.test_platform_tolerances import NOW, OPEN, TOLERATED, UNTIL, off, states
from tests.integration.test_platform_tolerances import tolerances as tolerances
from tests.integration.test_platform_work import entries, saved
from tests.integration.test_platform_work import server as server
from tests.integration.test_platform_work import store as store
from tests.integration.test_platform_work import template as template
from tests.integration.test_platform_work import work as work

ASKED = Asked("settlement", "warehouse", "account", "balance", Decimal("0.05"), date(2026, 3, 31), "rounding of fees")
ONE = DeclaredTolerance(ASKED, "ann", "bo")
WIDER = DeclaredTolerance(replace(ASKED, amount=Decimal("0.50")), "ann", "bo")


def run_of(store: PlatformStore, run_id: str, *declared: DeclaredTolerance) -> None:
    """A run that begins now, of a file that has these."""
    made = replace(plan(), reconcile=replace(plan().reconcile, tolerances=tuple(one.hash for one in declared)))
    store.start_run(run_id=run_id, sync="settlement", kind="reconcile", plan_json=plan_to_json(made))


def compare(store: PlatformStore, run_id: str) -> None:
    """What the live tables of a run have: a row that differs by 0.05."""
    table = TableVerdict("account", Verdict.BREAK, breaks=(off("1", "0.05"),), breaks_total=1)
    at = datetime.now(UTC)
    found = replace(reconciliation(), run_id=run_id, scope=Scope.LIVE, tables=(table,), started_at=at, ended_at=at)
    store.save_reconciliation(found)


def faults(server: Server) -> list[str]:
    found: list[str] = []
    with server.open() as session:
        check(session, sync="", anchors=(), report=found.append)
    return found


def in_force(tolerances: PlatformTolerances) -> Sequence[str]:
    return [one.declared for one in tolerances.in_force("settlement")]


def test_the_declared_approver_makes_it_hold_and_it_is_listed_with_approver_end_and_what_it_absorbs(
    store: PlatformStore, work: PlatformWork, tolerances: PlatformTolerances, server: Server
) -> None:
    compared = saved(store, 0, off("1", "0.05"), off("2", "0.06"))
    assert states(work, "1") == [OPEN], "a declaration alone tolerates nothing"
    assert tolerances.approve_declared(ONE, who="bo", expires_at=UNTIL) == 1
    assert states(work, "1", "2") == [TOLERATED, OPEN]
    (mine,) = tolerances.of_comparison("settlement", compared)
    known = mine.tolerance
    assert (known.made_by, known.approved_by, known.expires_at, mine.absorbed, known.declared) == (
        "ann", "bo", UNTIL, Decimal("0.05"), ONE.hash,
    )  # fmt: skip
    (entry,) = entries(server)
    said = json.loads(entry.document)
    assert (entry.kind, entry.who, said["declared"], said["made_by"]) == ("tolerance approved", "bo", ONE.hash, "ann")
    with pytest.raises(Refused, match="is approved already"):
        tolerances.approve_declared(ONE, who="bo", expires_at=UNTIL)
    assert faults(server) == []


@pytest.mark.parametrize("who", ["eve", "ann"])
def test_nobody_but_the_declared_approver_makes_it_hold(
    store: PlatformStore, tolerances: PlatformTolerances, server: Server, who: str
) -> None:
    saved(store, 0, off("1", "0.05"))
    with pytest.raises(Refused, match="names another approver|does not approve it"):
        tolerances.approve_declared(ONE, who=who, expires_at=UNTIL)
    assert tolerances.of_sync("settlement") == () and entries(server) == []


@pytest.mark.parametrize(
    "statement",
    [
        "update tolerance set amount = 100",
        "update tolerance set declared = repeat('0', 64)",
        "update tolerance set approver = 'eve'",
        "update tolerance set approved_by = 'eve'",
        "insert into tolerance (sync, destination, table_name, column_name, amount, reason, made_by, expires_at,"
        " declared, approver, approved_by, approved_at) select sync, destination, table_name, column_name, amount,"
        " reason, made_by, expires_at, 'x', 'bo', 'eve', now() from tolerance",
        "insert into tolerance (sync, destination, table_name, column_name, amount, reason, made_by, expires_at,"
        " declared, approver, approved_by, approved_at) select sync, destination, table_name, column_name, amount,"
        " reason, made_by, expires_at, 'x', 'ann', 'ann', now() from tolerance",
        "insert into tolerance (sync, destination, table_name, column_name, amount, reason, made_by, expires_at,"
        " declared) select sync, destination, table_name, column_name, amount, reason, made_by, expires_at, 'x'"
        " from tolerance",
    ],
)
def test_the_database_itself_holds_text_and_approver(
    tolerances: PlatformTolerances, server: Server, statement: str
) -> None:
    tolerances.approve_declared(ONE, who="bo", expires_at=UNTIL)
    with server.open() as session, pytest.raises(psycopg.Error, match="is not changed|violates check constraint"):
        session.execute(statement.encode())
    assert in_force(tolerances) == [ONE.hash]


def test_another_text_ends_it_at_the_next_comparison_and_needs_an_approval_of_its_own(
    store: PlatformStore, work: PlatformWork, tolerances: PlatformTolerances, server: Server
) -> None:
    tolerances.approve_declared(ONE, who="bo", expires_at=UNTIL)
    run_of(store, "same", ONE)
    compare(store, "same")
    assert (states(work, "1"), in_force(tolerances)) == ([TOLERATED], [ONE.hash])
    run_of(store, "wider", WIDER)
    compare(store, "wider")
    (ended,) = tolerances.of_sync("settlement")
    assert (ended.ended_by, ended.state_at(NOW)) == (DECLARATION, ToleranceState.ENDED)
    assert states(work, "1") == [OPEN]
    assert tolerances.approve_declared(WIDER, who="bo", expires_at=UNTIL) == 1
    assert in_force(tolerances) == [WIDER.hash]
    assert ("tolerance ended", DECLARATION, "run") in [(one.kind, one.who, one.origin) for one in entries(server)]
    assert faults(server) == []
    # The text of before is another one again.
    run_of(store, "same again", ONE)
    compare(store, "same again")
    assert in_force(tolerances) == []
    tolerances.approve_declared(ONE, who="bo", expires_at=UNTIL)
    assert in_force(tolerances) == [ONE.hash]


def test_what_was_approved_since_the_newest_run_began_is_of_a_newer_file_and_stays(
    store: PlatformStore, tolerances: PlatformTolerances
) -> None:
    run_of(store, "before")
    tolerances.approve_declared(ONE, who="bo", expires_at=UNTIL)
    compare(store, "before")
    assert in_force(tolerances) == [ONE.hash]


def test_what_was_asked_for_on_the_page_is_not_ended_by_a_declaration(
    store: PlatformStore, tolerances: PlatformTolerances
) -> None:
    number = tolerances.ask(ASKED, who="ann", expires_at=UNTIL)
    tolerances.approve("settlement", number, who="bo")
    run_of(store, "none")
    compare(store, "none")
    assert in_force(tolerances) == [""]
