"""Kafka gives the space of a log back, behind real ledgers and holds, and never more."""

import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from seamline import registry
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.databases.postgres.ledger import create_tables
from seamline.domain.errors import PositionLost, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.log import LogRecord, RecordKind
from seamline.domain.runs import PUBLISH
from seamline.files.stores.s3 import S3Store
from seamline.plan.document import plan_to_json
from seamline.plan.model import ArchivePlan, SyncPlan
from seamline.platform import migrate
from seamline.platform.capture_registry import PlatformPruningHolds
from seamline.platform.database import Database
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector
from seamline.sync.log_pruning import Pruned, PruningTools, log_users, prune_log
from tests import s3_server
from tests.conftest import RunningStack
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.platform_database import Server, database_of_its_own, empty_tables
from tests.integration.platform_database import plan as platform_plan
from tests.waiting import wait_until

DAY_S = 86_400.0
KIB = 1024
RECORD = bytes(32 * KIB)


@pytest.fixture(scope="module")
def migrated() -> Iterator[Server]:
    with database_of_its_own("pruning_platform") as server:
        migrate.upgrade(server.open)
        yield server


@pytest.fixture(scope="module")
def warehouse() -> Iterator[None]:
    with postgres_database("pruning_warehouse") as connection, destination_known_by_id(connection, "pruning_warehouse"):
        with postgres(connection) as session:
            create_tables(session)
        yield


@dataclass
class Scene:
    """A log topic with a ledger that reads it, and the platform database that knows of it."""

    topic: str
    settings: dict[str, str]
    platform: Server
    plan: SyncPlan

    @property
    def topics(self) -> CaptureTopics:
        return CaptureTopics(self.settings)

    def write(self, *ages_days: float) -> None:
        """One record per age, each a batch of its own."""
        producer = Producer({**self.settings, "linger.ms": 0})
        for age in ages_days:
            producer.produce(self.topic, value=RECORD, timestamp=int((time.time() - age * DAY_S) * 1000))
            assert producer.flush(20) == 0

    def ledger(self, stream: StreamId, next_offset: int, *, topic_id: str = "") -> None:
        destination = self.plan.destinations[0]
        with closing(registry.destination_maintenance(destination)) as opened:
            opened._session.execute(
                "INSERT INTO seamline.ledger (stream, topic, topic_id, next_offset, position, epoch)"
                " VALUES (%s, %s, %s, %s, '{}', 1)"
                " ON CONFLICT (stream) DO UPDATE SET next_offset = excluded.next_offset",
                (str(stream), self.topic, topic_id or self.topics.topic_id(self.topic), next_offset),
            )

    def want(self, sync: str = "settlement") -> StreamId:
        plan = replace(self.plan, sync=sync)
        stream = plan.stream_id("warehouse")
        with closing(PlatformStreamDirector(Database(self.platform.open))) as director:
            director.want(stream, plan_json=plan_to_json(plan))
        return stream

    def prune(self, *, keep_days: float = 7, archive: ArchivePlan | None = None) -> Pruned:
        source = replace(self.plan.source, log_keep_days=keep_days, archive=archive)
        with closing(PlatformMaintenance(Database(self.platform.open))) as maintenance:
            tools = PruningTools(
                self.topics,
                maintenance,
                lambda destination: closing(registry.destination_maintenance(destination)),
                registry.log_archive,
            )
            declared = [replace(self.plan, source=source)]
            (users,) = log_users(declared, maintenance.wanted_plans(), maintenance.published_plans())
            pruned = prune_log(users, tools)
        assert pruned is not None
        return pruned


@pytest.fixture
def scene(stack: RunningStack, migrated: Server, warehouse: None) -> Iterator[Scene]:
    topic = f"seamline-test.pruning.{uuid.uuid4().hex[:8]}"
    settings = client_settings(stack.connection("kafka"))
    plan = platform_plan()
    destination = replace(plan.destinations[0], connection="pruning_warehouse")
    plan = replace(plan, source=replace(plan.source, log_topic=topic), destinations=(destination,))
    one = Scene(topic, settings, migrated, plan)
    one.topics.ensure_log(topic)
    wait_until(lambda: _is_listed(one), timeout_s=20, what="the broker to know its new topic")
    yield one
    one.topics.delete(topic)
    empty_tables(migrated)
    with closing(registry.destination_maintenance(destination)) as opened:
        opened._session.execute("DELETE FROM seamline.ledger")


def _is_listed(scene: Scene) -> bool:
    """Who asks for the offsets of a topic that was made just now may get the answer that it does not exist."""
    with suppress(TransientError):
        return scene.topics.offsets(scene.topic) == (0, 0)
    return False


def test_a_log_that_is_written_for_half_an_hour_stays_flat_and_kafka_gives_the_space_back(scene: Scene) -> None:
    """As a demo writes: the stream follows, and the keep is the least that can be declared, 14.4 minutes. Time is
    reported by the records alone; segments end by it too."""
    stream, minute = scene.want(), 1 / (24 * 60)
    held = []
    for written in range(2, 31, 2):
        scene.write(*((30 - written + half / 2) * minute for half in range(4, 0, -1)))
        scene.ledger(stream, 2 * written)
        begins, ends = scene.prune(keep_days=0.01).begins[1], scene.topics.offsets(scene.topic)[1]
        held.append(ends - begins)
    assert max(held) == held[-1] <= 2 * 15 + 4, "a keep, and what came since the look before"
    assert ends == 60
    wait_until(
        lambda: scene.topics.size_bytes(scene.topic) < 2 * (14.4 + 4) * (len(RECORD) + KIB),
        timeout_s=60,
        what="the space to come back",
    )


def test_what_is_needed_or_young_is_still_read_and_who_comes_from_before_is_reported(scene: Scene) -> None:
    scene.write(*(20 - n / 4 for n in range(40)), *(0.0 for _ in range(20)))
    scene.ledger(scene.want(), 60)
    pruned = scene.prune()
    assert pruned.floor.unknown == ()
    assert (pruned.begins, pruned.ends) == ((0, 40), 60)
    assert scene.topics.offsets(scene.topic) == (40, 60)
    assert scene.prune().records == 0
    with closing(registry.log_reader(scene.plan)) as reader:
        reader.assign(40)
    with (
        closing(registry.log_reader(scene.plan)) as reader,
        pytest.raises(PositionLost, match="begins at offset 40, wanted 39: 1 offsets were deleted") as raised,
    ):
        reader.assign(39)
    assert "log.keep_days" in raised.value.hint


def test_what_a_paused_stream_an_incremental_snapshot_a_hold_and_an_unpublished_run_need_stays(scene: Scene) -> None:
    scene.write(*(20.0 for _ in range(50)), 0.0)
    scene.ledger(scene.want(), 45)
    scene.ledger(scene.want("paused"), 40)
    with closing(PlatformStreamDirector(Database(scene.platform.open))) as director:
        director.pause(StreamId("paused", "warehouse"), by="olga")
        director.unwant(StreamId("paused", "warehouse"))
    assert scene.prune().begins == (0, 40)
    scene.ledger(StreamId("paused", "warehouse"), 50)
    scene.ledger(StreamId("settlement~incremental_0123456789", "warehouse"), 42)
    holds = PlatformPruningHolds(Database(scene.platform.open))
    hold_id = holds.hold_log(scene.topic, holder="run r1", offset=41, lease_s=60)
    pruned = scene.prune()
    assert pruned.begins == (40, 41)
    assert pruned.floor.needs[0] == "the hold of run r1 needs records from offset 41 on"
    holds.release_log(hold_id)
    assert scene.prune().begins == (41, 42)
    scene.ledger(StreamId("settlement~incremental_0123456789", "warehouse"), 50)
    with closing(PlatformStore(Database(scene.platform.open))) as store:
        store.start_run(run_id="r2", sync="new", kind="onboard", plan_json=plan_to_json(scene.plan))
        store.put_result("r2", "snapshot", {"topic": scene.topic, "next_offset": 43})
        assert scene.prune().begins == (42, 43), "its tables are read and not yet published"
        store.put_result("r2", PUBLISH, {})
        assert scene.prune().begins == (43, 43), "it is at it"
        store.put_result("r2", PUBLISH, {"warehouse": "0-1-7"})
        assert scene.prune().begins == (43, 45)


def _read(plan: SyncPlan, since: int, until: int) -> list[tuple[int, RecordKind, int]]:
    found: list[LogRecord] = []
    with closing(registry.log_reader(plan)) as reader:
        reader.assign(since)
        wait_until(
            lambda: found.extend(reader.poll(0.2, 7)) or (found and found[-1].offset >= until),
            timeout_s=20,
            what=f"offset {until}",
        )
    return [(one.offset, one.kind, one.ts_ms) for one in found]


def test_what_is_pruned_lies_in_the_archive_on_s3_and_is_read_from_there_and_on_in_the_log(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first attempt dies between its file and its entry. The log has holes, at the seam too. Markers of
    transactions have the broker's own time, so the keep is none."""
    producer = Producer({**scene.settings, "transactional.id": scene.topic})
    producer.init_transactions(20)
    for number in range(9):
        producer.begin_transaction()
        content, headers = b'{"ts_ms":%d}' % (number + 1), [("n", b"%d" % number)]
        producer.produce(scene.topic, value=content, headers=headers)
        assert producer.flush(20) == 0
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(20)
    scene.ledger(scene.want(), 12)
    before = _read(scene.plan, 0, 16)
    assert [offset for offset, _, _ in before] == [0, 4, 6, 10, 12, 16]
    with s3_server.running() as store:
        monkeypatch.setenv("SEAMLINE_CONNECTION_OBJECTS", store.connection)
        archive = ArchivePlan(f"s3://{store.bucket}/archive", "objects")
        with monkeypatch.context() as dying:
            dying.setattr(S3Store, "put_if_absent", _dies)
            with pytest.raises(KeyboardInterrupt):
                scene.prune(keep_days=0, archive=archive)
        assert scene.topics.offsets(scene.topic)[0] == 0
        pruned = scene.prune(keep_days=0, archive=archive)
        assert pruned.archiving is not None
        assert pruned.archiving.trouble == ""
        (file,) = [key for key in sorted(store.keys()) if key.endswith(".parquet")]
        assert pruned.begins == (0, 11), "offset 11 is the marker of a transaction"
        plan = replace(scene.plan, source=replace(scene.plan.source, archive=archive))
        assert _read(plan, 0, 16) == before
        assert _read(plan, 4, 16) == [one for one in before if one[0] >= 4]
        rows = pq.read_table(file, filesystem=store.filesystem)
        assert rows["offset"].to_pylist() == [one[0] for one in before if one[0] < 11]
        assert scene.prune(keep_days=0, archive=archive).archiving == replace(pruned.archiving, added=0)


def _dies(*_: object) -> bool:
    raise KeyboardInterrupt


def test_nothing_is_deleted_while_a_ledger_is_not_known(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream without its ledger; then a sync that was published elsewhere, where nobody answers."""
    scene.write(*(20.0 for _ in range(10)), 0.0)
    scene.ledger(scene.want(), 10)
    other = scene.want("other")
    assert scene.prune().floor.unknown == ("stream other@warehouse has no ledger in its destination",)
    scene.ledger(other, 5, topic_id="an earlier one")
    (said,) = scene.prune().floor.unknown
    assert "other@warehouse is of topic" in said
    with scene.platform.open() as session:
        session.execute("delete from stream where sync = 'other'")
    with closing(registry.destination_maintenance(scene.plan.destinations[0])) as opened:
        opened._session.execute("DELETE FROM seamline.ledger WHERE stream = 'other@warehouse'")
    monkeypatch.setenv("SEAMLINE_CONNECTION_PRUNING_AWAY", "postgres://nobody:x@127.0.0.1:1/away")
    away = replace(scene.plan.destinations[0], name="away", connection="pruning_away")
    with closing(PlatformStore(Database(scene.platform.open))) as store:
        plan_json = plan_to_json(replace(scene.plan, sync="away", destinations=(away,)))
        store.start_run(run_id="r9", sync="away", kind="onboard", plan_json=plan_json)
        store.put_result("r9", PUBLISH, {})
    (said,) = scene.prune().floor.unknown
    assert "the ledgers of destination away are not known" in said
    assert scene.topics.offsets(scene.topic)[0] == 0


def test_what_is_young_is_reported_by_the_first_young_record_whatever_times_follow(scene: Scene) -> None:
    """A clock that was put back for a while: old times behind young ones are not old records."""
    scene.write(20.0, 9.0, 1.0, 30.0, 25.0, 0.0)
    assert scene.topics.young_from(scene.topic, keep_s=7 * DAY_S) == 2
    assert scene.topics.young_from(scene.topic, keep_s=15 * DAY_S) == 1


def test_a_source_that_has_been_silent_for_long_keeps_its_last_records(scene: Scene) -> None:
    """By this clock all of them are old; by the log's own the last is young, as if nothing had passed since."""
    assert scene.topics.young_from(scene.topic, keep_s=7 * DAY_S) == 0
    scene.write(40.0, 35.0, 30.0)
    assert scene.topics.young_from(scene.topic, keep_s=7 * DAY_S) == 1
