"""Checks of rows of lakes: by copies of exactly what was compared, with the same suite and the same answers as of rows
in a database."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.domain.digest import KeyedDigest, Segment
from seamline.domain.errors import GateFailed, TransientError
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import CopiesRows, CutsLiveTables, Derives
from seamline.plan.checks import RulePlan, Says
from seamline.plan.model import DestinationPlan, NightlyPlan
from seamline.sinks.lake import row_copies
from seamline.values.build import batch_of
from seamline_airflow.cut_checks import judge_cut
from seamline_airflow.expectations import GateResult
from seamline_airflow.gx_engine import Check
from tests.contract.behaviours import Applying, account, published
from tests.contract.lake_worlds import LAKES, PostgresLakeWorld
from tests.integration.databases import either_of, postgres_database
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, insert, position, sync_plan, update

RUN = "settlement__nightly/2026-11-27"
SECRET = "8675309"
NET = "SELECT tx, SUM(amount) AS net FROM {batch} GROUP BY tx HAVING SUM(amount) <> 0"
SUITE: tuple[Check, ...] = (
    ("account", "expect_column_values_to_be_in_set", {"column": "name", "value_set": ["a", "b"]}, "a known name"),
    ("transfer", "unexpected_rows_expectation", {"unexpected_rows_query": NET}, "both legs of a transfer are there"),
    ("transfer", "expect_column_values_to_not_be_null", {"column": "amount"}, "an amount"),
)


@dataclass(frozen=True, slots=True)
class Lake:
    """A run that holds the tables of a stream, which may go on meanwhile."""

    world: PostgresLakeWorld
    cut: StagedCut
    warehouse: Path

    @property
    def destination(self) -> DestinationPlan:
        return self.world.destination

    def judged(self, suite: Sequence[Check] = SUITE) -> GateResult:
        return GateResult(tuple(judge_cut(self.world.plan, self.destination, self.cut, (), suite, suite="s")))

    def copied(self) -> AbstractContextManager[StagedCut]:
        kind = sink_kind(self.destination.kind)
        assert isinstance(kind, CopiesRows)
        return kind.copied(self.world.plan, self.destination, self.cut, {"account"})

    def copies(self) -> list[str]:
        found = self.world.session.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'seamline_rows%'")
        return [name for (name,) in found.fetchall()]


@pytest.fixture(scope="module")
def server() -> Iterator[Connection]:
    with postgres_database("seamline_test_lake_expectations") as connection:
        yield connection


@pytest.fixture(params=sorted(LAKES))
def lake(
    request: pytest.FixtureRequest, server: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """Two accounts, a transfer and two like rows without a key, as a nightly run holds them."""
    for module in ("sinks.lake.cuts", "sinks.lake.row_copies", "databases.postgres.rows_url"):
        monkeypatch.setattr(f"seamline.{module}.resolve", either_of(server))
    with closing(PostgresLakeWorld(TABLES, server, tmp_path / "lake", lake=LAKES[request.param])) as world:
        published(world).span(
            *(insert(ACCOUNT, **account(n)) for n in (1, 2)),
            *(insert(TRANSFER, tx=1, leg=leg, amount=f"{sign}5.0000") for leg, sign in ((1, ""), (2, "-"))),
            *(insert(AUDIT, actor="x", action="y") for _ in range(2)),
        )
        yield Lake(world, held(world), tmp_path / "lake")


def held(world: PostgresLakeWorld) -> StagedCut:
    """What the run compares and holds now."""
    kind, destination = sink_kind(world.destination.kind), world.destination
    assert isinstance(kind, CutsLiveTables)
    pinned = kind.pin_live(replace(world.plan, nightly=NightlyPlan()), destination, 1, run_id=RUN)
    view, tables = pinned.views[0], []
    for name, staged_as in pinned.staged_as.items():
        (digest,) = view.digests(Segment(name), run_key="key").values()
        keyed = KeyedDigest("key", digest)
        tables.append(StagedTable(name, CutMode.WHOLE, staged_as, digest.rows, Verdict.MATCH, digest=keyed))
    day, now = date(2026, 11, 27), datetime.now(UTC)
    return StagedCut(RUN, STREAM.sync, STREAM.destination, day, view.position, now, tuple(tables))


def derived(lake: Lake) -> StagedTable:
    """A table that the run has staged beside what it holds."""
    kind, summed = sink_kind(lake.destination.kind), TRANSFER.column("amount")
    assert isinstance(kind, Derives)
    rows = pa.table({"amount": pa.array([Decimal("1.0000"), Decimal("-1.0000")], pa.decimal128(20, 4))})
    load = kind.stage_derived(lake.destination, Table("net", (summed,)), rows, run_id=RUN)
    return StagedTable("net", CutMode.DERIVED, load.staged_as, load.rows, Verdict.MATCH)


def goes_on(world: PostgresLakeWorld) -> None:
    """The stream breaks both rules, with as many rows as before."""
    changed = update(ACCOUNT, account(1), account(1, SECRET))
    transfer = {"tx": 1, "leg": 1, "amount": "5.0000"}
    Applying(world).span(changed, update(TRANSFER, transfer, {**transfer, "amount": "5.0001"}))


def test_a_check_sees_what_was_compared_whatever_the_stream_has_done_since(lake: Lake) -> None:
    goes_on(lake.world)
    result = lake.judged()
    assert result.verdict is Verdict.MATCH, result.to_json()
    # Of each table its receipt, its key and its rules; `audit` has none and is not copied.
    assert [outcome.batch for outcome in result.outcomes] == ["account"] * 3 + ["transfer"] * 4
    assert lake.copies() == []


def test_each_breach_of_a_declared_rule_is_found_in_the_copy_and_only_its_tables_are_copied(lake: Lake) -> None:
    rules = (
        RulePlan("both legs", "transfer", Says.BALANCE, ("amount",), ("tx",)),
        RulePlan("no line twice", "audit", Says.UNIQUE, ("actor", "action")),
        RulePlan("no account is missing", "account", Says.NO_GAP, ("id",)),
    )
    declared = replace(lake.world.plan.reconcile, rules=rules)
    goes_on(lake.world)
    plan = replace(lake.world.plan, reconcile=declared)
    result = GateResult(tuple(judge_cut(plan, lake.destination, held(lake.world), (), (), suite="s")))
    assert {one.expectation.why.partition(":")[0]: one.keys for one in result.broken} == {
        "both legs": ('{"tx": "1", "total": "0.0001"}',),
        "no line twice": ('{"actor": "x", "action": "y", "copies": "2"}',),
    }
    assert lake.copies() == []


def test_each_broken_rule_is_found_with_the_keys_of_its_rows_and_no_other_value(lake: Lake) -> None:
    goes_on(lake.world)
    cut = held(lake.world)
    with_derived = replace(cut, tables=(*cut.tables, derived(lake)))
    no_debit: Check = ("net", "expect_column_values_to_be_between", {"column": "amount", "min_value": 0}, "no debit")
    result = replace(lake, cut=with_derived).judged([*SUITE, no_debit])
    assert result.verdict is Verdict.BREAK
    failed = {outcome.expectation.why: outcome for outcome in result.broken}
    assert failed.keys() == {"a known name", "both legs of a transfer are there", "no debit"}
    # A derived table has no key that a plan would know.
    assert (failed["no debit"].rows, failed["no debit"].keys) == (1, ())
    assert (failed["a known name"].rows, failed["a known name"].keys) == (1, ('{"id": "1"}',))
    assert failed["both legs of a transfer are there"].rows == 1
    assert SECRET not in str(result.to_json())


def at_heads(lake: Lake, patch: pytest.MonkeyPatch) -> None:
    """A reader of what is newest, in place of what the run holds."""
    heads, live, real = lake.world.seen().heads, LAKES[lake.destination.kind].live, row_copies.copied

    def copied(*given: Any, held: row_copies.HeldRows) -> Any:
        return real(*given, held=replace(held, at=lambda _, table, __: live(table, heads[table.name])))

    patch.setattr(row_copies, "copied", copied)


def test_a_reader_of_another_position_than_was_compared_is_caught(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: it reads as many rows, but newer ones, which keep every rule."""
    Applying(lake.world).span(update(ACCOUNT, account(1), account(1, "b")))
    at_heads(lake, monkeypatch)
    with pytest.raises(GateFailed, match="account to be checked are not the 2 rows that were compared"):
        lake.judged()
    assert lake.copies() == []


def test_what_cannot_be_evaluated_or_read_is_no_pass(lake: Lake) -> None:
    unknown = lake.judged([("account", "expect_nonsense", {}, "it is known"), *SUITE])
    assert (unknown.verdict, [one.detail for one in unknown.broken]) == (
        Verdict.BREAK,
        ["Great Expectations does not know this expectation"],
    )
    Applying(lake.world).span(insert(AUDIT, actor="x", action="before\0after"))
    rule: Check = ("audit", "expect_column_values_to_not_be_null", {"column": "actor"}, "an actor")
    with pytest.raises(GateFailed, match="audit cannot be checked: a value of it has no place in PostgreSQL"):
        replace(lake, cut=held(lake.world)).judged([rule])
    assert lake.copies() == []
    shutil.rmtree(lake.warehouse)
    with pytest.raises((GateFailed, TransientError)):
        lake.judged()


def test_copies_that_a_crash_of_the_server_may_have_emptied_are_no_evidence(lake: Lake) -> None:
    def lost() -> None:
        with lake.copied():
            lake.world.session.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE application_name = 'seamline copies rows'"
            )

    with pytest.raises(TransientError, match="drop copies of rows"):
        lost()
    (left,) = lake.copies()
    with lake.world.session.transaction():
        lake.world.session.execute(f"SELECT FROM {left}.t0".encode())
        with lake.copied():
            assert left in lake.copies(), "what somebody reads, as a backup does, is in nobody's way"
    with lake.copied():
        (mine,) = lake.copies()
        assert mine != left, "what nobody checks any more goes with the next check"
        with lake.copied():
            assert mine in lake.copies(), "and what somebody does stays"
    assert lake.copies() == []


def test_rows_that_are_staged_for_a_cut_of_hive_are_checked_as_well(
    server: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sinks.lake.row_copies", "databases.postgres.rows_url"):
        monkeypatch.setattr(f"seamline.{module}.resolve", either_of(server))
    options = (("metastore", "metastore"), ("warehouse", str(tmp_path)))
    plan = sync_plan()
    hive = replace(plan.destinations[0], kind="hive", options=options)
    rows = batch_of(ACCOUNT, [(1, "a"), (2, SECRET)])
    place = sink_kind("hive").load_area(hive, run_id=RUN).create([ACCOUNT])["account"]
    sink_kind("hive").load(hive, place, ArrowRows(rows.schema, iter([rows])))
    staged = StagedTable("account", CutMode.DATE, place.name, 2, Verdict.MATCH)
    day, now = date(2026, 11, 27), datetime.now(UTC)
    cut = StagedCut(RUN, STREAM.sync, STREAM.destination, day, position(1), now, (staged,))
    result = GateResult(tuple(judge_cut(plan, hive, cut, (), SUITE, suite="s")))
    (broken,) = result.broken
    assert (result.verdict, broken.rows, broken.keys) == (Verdict.BREAK, 1, ('{"id": "2"}',))
