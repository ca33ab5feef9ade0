"""Which destination of a sync is read, by its name."""

from dataclasses import replace
from typing import Any

import pytest

from seamline import reading, registry
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.iceberg.kind import Iceberg
from tests.log_topic import sync_plan

LAKES = tuple(DestinationPlan(name, "iceberg", name, "settlement") for name in ("lake", "archive"))
PLAN = replace(sync_plan(), destinations=(*sync_plan().destinations, *LAKES))


class Platform:
    """A platform database that knows the streams of a plan."""

    def __init__(self, plan: SyncPlan) -> None:
        self._plan = plan

    def wanted_plans(self) -> dict[StreamId, SyncPlan]:
        return {self._plan.stream_id(one.name): self._plan for one in self._plan.destinations}

    def close(self) -> None:
        return


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(stream, place) of what was opened."""
    found: list[tuple[str, str]] = []

    def open_tables(_: Iceberg, destination: DestinationPlan, stream: StreamId, at: Any) -> Any:
        assert destination.name == stream.destination
        found.append((str(stream), at))

    monkeypatch.setattr(Iceberg, "open_tables", open_tables)
    return found


def of_plan(monkeypatch: pytest.MonkeyPatch, plan: SyncPlan) -> None:
    monkeypatch.setattr(registry, "platform_maintenance", lambda: Platform(plan))


def test_the_one_that_can_be_read_is_taken_and_of_several_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, str]]
) -> None:
    of_plan(monkeypatch, PLAN.into(["warehouse", "lake"]))
    reading.open_sync("settlement", at="live")
    of_plan(monkeypatch, PLAN)
    reading.open_sync("settlement", destination="archive")
    assert opened == [("settlement@lake", "live"), ("settlement@archive", "proven")]


@pytest.mark.parametrize(
    ("sync", "destination", "hint"),
    [("settlement", "", "name one: archive, lake"), ("settlement", "warehouse", "name one"), ("other", "", "onboard")],
)
def test_what_cannot_be_read_is_refused_with_what_can(
    monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, str]], sync: str, destination: str, hint: str
) -> None:
    of_plan(monkeypatch, PLAN)
    with pytest.raises(Refused) as refused:
        reading.open_sync(sync, destination=destination)
    assert hint in refused.value.hint
    assert opened == []
