"""One read of a source into PostgreSQL, into topics and into change files, each with a verdict of its own."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.committed import committed, written_ends
from seamline.domain.position import Position
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import ReadView
from seamline.sinks.files.spec import ChangeFilesDestination
from seamline.sinks.kafka.loads import topics_of
from seamline.sinks.kafka.spec import KafkaDestination
from tests.conftest import RunningStack
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres, postgres_database
from tests.integration.into_mariadb import synced_into_all
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.test_mariadb_destination import AFTER, BEFORE

NAME, PREFIX = "beside_topics", "one-read"
# Longer than PostgreSQL keeps in the row: the log leaves it out where it is not changed.
LARGE = "INSERT INTO account SELECT 9, 9, string_agg(md5(i::text), '') FROM generate_series(1, 200) AS i"
UNCHANGED = "UPDATE account SET a = 10 WHERE id = 9"


@pytest.fixture
def destinations(stack: RunningStack, tmp_path: Path) -> Iterator[tuple[DestinationPlan, ...]]:
    said = KafkaDestination(destination="feed", kind="kafka", connection="kafka", prefix=PREFIX, partitions=2)
    feed = DestinationPlan("feed", "kafka", "kafka", PREFIX, options=tuple(said.options.items()), no_cuts=True)
    kept = ChangeFilesDestination.model_validate(
        {"destination": "kept", "kind": "change_files", "location": str(tmp_path), "format": "parquet"}
    )
    options = tuple(kept.options.items())
    files = DestinationPlan("kept", "change_files", "", kept.location, options=options, no_cuts=True)
    with postgres_database(NAME) as publisher, destination_known_by_id(publisher, NAME):
        yield destination_plan(NAME, "bank"), feed, files
    topics = topics_of(feed)
    topics.delete([*topics.names(f"{PREFIX}."), *topics.names(f"{PREFIX}_")])


def live(plan: SyncPlan, destination: DestinationPlan, at: Position) -> ReadView:
    kind = sink_kind(destination.kind)
    assert isinstance(kind, ReadsBack)
    (view,) = kind.open_live(plan, destination, 1)
    view._position = at  # type: ignore[attr-defined]  # noqa: SLF001
    return view


def test_one_read_goes_into_postgresql_topics_and_files_and_each_has_its_verdict(
    destinations: tuple[DestinationPlan, ...],
) -> None:
    with captured_postgres("one_read") as bank:
        bank.plan = replace(bank.plan, destinations=destinations)
        there = dict.fromkeys((one.name for one in destinations), live)
        verdicts = synced_into_all(bank, before=(*BEFORE, LARGE), after=(*AFTER, UNCHANGED), there=there)
    assert verdicts == dict.fromkeys(there, dict.fromkeys(("account", "audit"), Verdict.MATCH))
    with closing(postgres(resolve(NAME))) as session:
        stored = dict(session.execute("SELECT id, memo FROM bank.account").fetchall())
    settings, newest = client_settings(resolve("kafka")), dict[int, str]()
    ends = written_ends(settings, f"{PREFIX}.account", 2)
    assert ends is not None
    for record in (one for some in committed(settings, f"{PREFIX}.account", ends) for one in some):
        key = json.loads(record.key() or b"")["id"]
        newest.pop(key, None)
        if (value := record.value()) is not None:
            newest[key] = json.loads(value)["memo"]
    assert newest == stored
    assert Counter(map(len, (memo or "" for memo in newest.values())))[6400] == 1
