"""A load without splits beside an attempt of it that was thought dead and lives: whichever step that one comes to, what
the next attempt has staged and said stands, or is gone, and is never another one's (ADR 112)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import SeamlineError
from seamline.domain.runs import ATTEMPT, LOADED, NOT_STAGED, Receipt, Scope
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.kinds.bulk import ArrowRows, LoadArea, StagedPlace
from seamline.kinds.found import power, sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.kinds.split_rules import LoadTakenOver
from seamline.plan.model import DestinationPlan, TablePlan
from seamline.platform.attempts import RecordsOfAttempt
from seamline.platform.store import PlatformStore
from seamline.ports import Load
from seamline.sinks.files.spec import FilesDestination
from seamline.values.build import batch_of
from seamline.values.digest import segment_digest
from tests.conftest import RunningStack
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.test_platform import migrated as migrated
from tests.integration.test_platform import server as server
from tests.integration.test_platform import start_run
from tests.integration.test_platform import store as store
from tests.log_topic import ACCOUNT, position, sync_plan
from tests.unit.reported import reconciliation

RUN = "settlement/nightly/2026-11-27/zombie"
OLD, NEW = [(1, "old")], [(1, "new"), (2, "new")]


@dataclass
class Attempt:
    """One of the run's load into a destination."""

    destination: DestinationPlan
    area: LoadArea

    def stages(self, place: StagedPlace, rows: Sequence[tuple[object, ...]]) -> None:
        batch = batch_of(ACCOUNT, list(rows))
        sink_kind(self.destination.kind).load(self.destination, place, ArrowRows(batch.schema, iter([batch])))

    def creates(self) -> StagedPlace:
        return self.area.create([ACCOUNT])["account"]

    def holds(self, place: StagedPlace, rows: int) -> SegmentDigest:
        """What a comparison reads of the staged table. SeamlineError: it is gone."""
        kind = power(sink_kind(self.destination.kind), ReadsBack, to="be read back")
        plan = replace(
            sync_plan([ACCOUNT]), destinations=(self.destination,), tables=(TablePlan("account", None, ACCOUNT),)
        )
        load = Load(ACCOUNT, place.name, rows)
        (view,) = kind.open_staged(plan, self.destination, [load], 1, position=position(1))
        with closing(view):
            return sum(view.digests(Segment("account"), run_key="k").values(), SegmentDigest())


def of_postgres() -> Iterator[DestinationPlan]:
    destination = destination_plan("zombie_warehouse", "bank")
    with (
        postgres_database(destination.connection) as connection,
        destination_known_by_id(connection, destination.connection),
    ):
        yield destination


def of_files(folder: Path) -> DestinationPlan:
    said = {"destination": "partner", "kind": "files", "location": str(folder), "staging": str(folder)}
    spec = FilesDestination.model_validate(said)
    return DestinationPlan("partner", "files", "", spec.namespace, options=tuple(spec.options.items()), cuts_only=True)


@pytest.fixture(params=["postgres", "files"])
def attempts(request: pytest.FixtureRequest, stack: RunningStack, tmp_path: Path) -> Iterator[Callable[[], Attempt]]:
    for destination in of_postgres() if request.param == "postgres" else [of_files(tmp_path)]:
        yield lambda at=destination: Attempt(at, sink_kind(at.kind).load_area(at, run_id=RUN))


def test_what_the_next_attempt_has_staged_stands_or_is_gone_whichever_step_an_earlier_one_comes_to(
    attempts: Callable[[], Attempt],
) -> None:
    old, new = attempts(), attempts()
    before = old.creates()
    old.stages(before, OLD)
    place = new.creates()
    new.stages(place, NEW)
    compared = segment_digest(ACCOUNT, batch_of(ACCOUNT, NEW), run_key="k")
    is_dropped = old.destination.kind == "postgres"

    def stages_once_more() -> None:
        try:
            old.stages(before, OLD)
        except SeamlineError:
            assert is_dropped, "its own table is there as long as nobody drops it"

    for step in (stages_once_more, old.area.progress, old.area.drop, old.area.drop):
        step()
        assert new.holds(place, len(NEW)) == compared, step
    # It reads again, and clears away in PostgreSQL what it takes for a dead attempt's.
    again = old.creates()
    old.stages(again, OLD)
    if is_dropped:
        with pytest.raises(SeamlineError):
            new.holds(place, len(NEW))
    else:
        assert new.holds(place, len(NEW)) == compared
    assert again.name != place.name
    fresh = attempts()
    place = fresh.creates()
    fresh.stages(place, NEW)
    old.area.drop()
    assert fresh.holds(place, len(NEW)) == compared


def test_what_an_earlier_attempt_says_of_its_load_is_not_written_over_what_the_next_one_has_said(
    store: PlatformStore,
) -> None:
    """Its manifest and verdict were, behind the checks of the next one's rows: its own rows passed for checked."""
    start_run(store, "r1")
    old, new = RecordsOfAttempt(store, "old"), RecordsOfAttempt(store, "new")
    old.begin("r1")
    old.put_result("r1", "cut", {"warehouse": "by old"})
    new.begin("r1")

    def verdict(of: Verdict) -> TableVerdict:
        return TableVerdict("account", of, source_rows=1, destination_rows=1)

    mine = replace(reconciliation(verdict(Verdict.BREAK), scope=Scope.CUT, day=date(2026, 3, 1)), run_id="r1")
    new.save_reconciliation(mine)
    new.put_result("r1", "cut", {"warehouse": "by new"})
    for key in ("cut", NOT_STAGED, LOADED):
        with pytest.raises(LoadTakenOver):
            old.put_result("r1", key, {"warehouse": "by old"})
    with pytest.raises(LoadTakenOver):
        old.put_receipt("r1", Receipt("account", 0, "by_old", 1))
    with pytest.raises(LoadTakenOver):
        old.save_reconciliation(replace(mine, tables=(verdict(Verdict.MATCH),), verdict=Verdict.MATCH))
    kept = store.run("r1").result
    assert (kept["cut"], kept.get(NOT_STAGED), kept.get(LOADED)) == ({"warehouse": "by new"}, None, None)
    assert (kept[ATTEMPT], store.receipts("r1")) == ("new", ())
    found = store.reconciliation("r1", Scope.CUT, "warehouse")
    assert found is not None
    assert found.verdict is Verdict.BREAK
    new.put_result("r1", LOADED, "a plan")
    store.put_result("r1", LOADED, None)
    assert store.run("r1").result[LOADED] is None, "whoever speaks for no load is not asked"
