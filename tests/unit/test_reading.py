"""Which destination of a sync is read, by its name."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.errors import PySparkValueError

from seamline import reading, registry
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.reading import SyncTables, place_of
from seamline.plan.model import DestinationPlan, ParkedTable, SyncPlan
from seamline.sinks.iceberg.kind import Iceberg
from seamline.sinks.postgres.kind import Postgres
from seamline.sources.mariadb.position import BinlogPosition
from seamline_spark.data_source import SeamlineDataSource
from tests.log_topic import sync_plan

LAKES = tuple(DestinationPlan(name, "iceberg", name, "settlement") for name in ("lake", "archive"))
TOPICS = DestinationPlan("topics", "kafka", "topics", "settlement")
PLAN = replace(sync_plan(), destinations=(*sync_plan().destinations, *LAKES, TOPICS))


class Platform:
    """A platform database that knows the streams of a plan."""

    def __init__(self, plan: SyncPlan) -> None:
        self._plan = plan

    def wanted_plans(self, sync: str = "") -> dict[StreamId, SyncPlan]:
        plans = {self._plan.stream_id(one.name): self._plan for one in self._plan.destinations}
        return plans if sync in ("", self._plan.sync) else {}

    def close(self) -> None:
        return


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(stream, place) of what was opened."""
    found: list[tuple[str, str]] = []

    def open_tables(_: Any, destination: DestinationPlan, stream: StreamId, at: Any) -> SyncTables:
        assert destination.name == stream.destination
        found.append((str(stream), at))
        return SyncTables(stream.sync, BinlogPosition("0-1-7"), {}, left_out={"fee": "no business date"})

    for kind in (Iceberg, Postgres):
        monkeypatch.setattr(kind, "open_tables", open_tables)
    return found


AT = (("lake", "live"), ("archive", "proven"), ("warehouse", "proven"))


def of_plan(monkeypatch: pytest.MonkeyPatch, plan: SyncPlan) -> None:
    monkeypatch.setattr(registry, "platform_maintenance", lambda: Platform(plan))


def test_the_one_that_can_be_read_is_taken_and_of_several_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, str]]
) -> None:
    of_plan(monkeypatch, PLAN.into(["topics", "lake"]))
    reading.open_sync("settlement", at="live")
    of_plan(monkeypatch, PLAN)
    for destination in ("archive", "warehouse"):
        reading.open_sync("settlement", destination=destination)
    assert opened == [(f"settlement@{one}", at) for one, at in AT]


@pytest.mark.parametrize(
    ("sync", "destination", "hint"),
    [
        ("settlement", "", "name one: archive, lake, warehouse"),
        ("settlement", "topics", "name one"),
        ("other", "", "onboard"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_can(
    monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, str]], sync: str, destination: str, hint: str
) -> None:
    of_plan(monkeypatch, PLAN)
    with pytest.raises(Refused) as refused:
        reading.open_sync(sync, destination=destination)
    assert hint in refused.value.hint
    assert opened == []


@pytest.mark.parametrize(("table", "why"), [("account", "it is parked: zero dates"), ("fee", "no business date")])
def test_a_table_that_is_parked_or_left_out_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, str]], table: str, why: str
) -> None:
    of_plan(monkeypatch, replace(sync_plan(), parked=(ParkedTable("account", "zero dates"),)))
    with pytest.raises(Refused, match=why):
        reading.open_changes("settlement", table, since="2026-11-26", at="2026-11-27")
    assert opened


@pytest.mark.parametrize("at", ["yesterday", "2026-13-01", "cut_2026_11_27"])
def test_a_place_that_is_none_is_refused_with_what_one_looks_like(at: str) -> None:
    with pytest.raises(ConfigError) as refused:
        place_of(at)
    assert "cut_2026_11_27_v1" in refused.value.hint


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"table": "account"}, "needs .option('sync'"),
        ({"sync": "settlement", "date": "proven"}, "needs .option('table'"),
        ({"sync": "settlement", "table": "account", "dates": "2026-11-27"}, "no option 'dates', did you mean 'date'?"),
        ({"sync": "settlement", "table": "account", "path": "x"}, "sync, table, destination, date, since"),
    ],
)
def test_an_option_that_is_missing_or_unknown_is_refused_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, str]], options: dict[str, str], says: str
) -> None:
    of_plan(monkeypatch, PLAN)
    with pytest.raises(PySparkValueError) as refused:
        SeamlineDataSource(options).schema()
    assert says in str(refused.value)
    assert opened == []
