"""`seamline__maintenance`: hourly, a task per kind of work, each repeatable, none stopped by another's trouble."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from structlog.testing import capture_logs

from seamline import registry
from seamline.domain.errors import ConfigError, GateFailed, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.log_archive import Archived
from seamline.domain.log_floor import Floor, LedgerPlace
from seamline.plan.maintenance import CHORES
from seamline.sinks.postgres.maintenance import LetGo
from seamline.sync.audit_round import Outcome
from seamline.sync.log_archiving import Archiving
from seamline.sync.log_pruning import Pruned
from seamline_airflow import parts
from seamline_airflow.dag_factory import maintenance_dag
from seamline_airflow.operators.maintenance import LOG_NOT_PRUNED, RECORD_ALTERED, in_words
from tests.dags import results
from tests.unit import test_cut_keep, test_log_pruning
from tests.unit.declared import SOURCE, write_declarations

STREAM = StreamId("settlement", "warehouse")


@dataclass
class World(test_log_pruning.World):
    """A log, its ledgers and its cuts; `let_go` and `expire` count what was there the first time."""

    left: int = 3
    failed: tuple[SeamlineError, ...] = ()
    kafka_is_away: bool = False
    cuts: Any = field(default_factory=test_cut_keep.stored)

    def close(self) -> None: ...

    def wanted_plans(self) -> Any:
        return self.streams

    def published_plans(self) -> Any:
        return []

    def cut_off(self) -> frozenset[StreamId]:
        return frozenset()

    def drop_cuts(self, *args: Any) -> int:
        return int(self.cuts.drop_cuts(*args))

    def expire(self) -> Any:
        left, self.left = self.left, 0
        return {"ended alarms": (left, 200)}

    def topics(self) -> Any:
        made = test_log_pruning._Topics(self)
        if self.kafka_is_away:
            made.offsets = _away  # type: ignore[method-assign]
        return made

    def destination(self, plan: Any) -> Any:
        if plan.name in self.away:
            raise TransientError("no route to host")
        return SimpleNamespace(close=self.close, ledgers=lambda: self.ledgers.get(plan.name, []), let_go=self._let_go)

    def _let_go(self) -> LetGo:
        left, self.left = self.left, 0
        return LetGo(0, (), left, failed=self.failed)


def _away(_topic: str) -> Any:
    raise TransientError("Kafka could not report offsets")


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    return results.use(monkeypatch, results.Platform())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: results.Platform) -> World:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path)))
    made = World(ages_s=test_log_pruning.written(100))
    made.streams[STREAM] = results.plan()
    archive = replace(results.plan().destinations[0], name="archive", connection="archive")
    made.streams[StreamId("settlement", "archive")] = results.plan(destinations=(archive,))
    topic = results.plan().source.log_topic
    made.ledgers["archive"] = [LedgerPlace("settlement@archive", topic, test_log_pruning.ID, 90)]
    made.ledgers["warehouse"] = [LedgerPlace(str(STREAM), topic, test_log_pruning.ID, 70)]
    made.cuts.close = made.close
    monkeypatch.setattr(registry, "platform_maintenance", lambda: made)
    monkeypatch.setattr(registry, "platform_expiry", lambda: made)
    monkeypatch.setattr(registry, "log_topics", made.topics)
    monkeypatch.setattr(registry, "destination_maintenance", made.destination)
    monkeypatch.setattr(registry, "cut_expiry", lambda _: made.cuts)
    return made


def run(chore: str) -> Any:
    return maintenance_dag().get_task(chore).execute({})


def test_it_runs_every_hour_with_a_task_for_each_kind_of_work() -> None:
    dag = maintenance_dag()
    assert dag.dag_id == "seamline__maintenance"
    assert [task.task_id for task in dag.tasks] == [chore.id for chore in CHORES]
    assert dag.schedule == "23 * * * *"
    assert not dag.is_paused_upon_creation
    assert dag.max_active_tasks == 1
    assert not any(task.upstream_task_ids for task in dag.tasks), "none waits for another to succeed"


@pytest.mark.parametrize(
    ("chore", "first", "again"),
    [
        ("log", {"core_bank": 70}, {"core_bank": 0}),
        ("destinations", ["warehouse", "archive"], ["warehouse", "archive"]),
        ("records", {"ended alarms": 3}, {"ended alarms": 0}),
    ],
)
def test_a_task_may_be_run_again(world: World, chore: str, first: Any, again: Any) -> None:
    assert run(chore) == first
    assert run(chore) == again


def test_the_log_of_acts_is_anchored_with_the_records_and_the_task_is_red_where_that_is_not_possible(
    world: World, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("records")
    assert platform.anchors == 1
    monkeypatch.setattr(parts, "anchor_audit", _cannot_anchor)
    with pytest.raises(AirflowFailException, match="cannot be anchored"):
        run("records")


def _cannot_anchor() -> str:
    raise ConfigError("the log of acts cannot be anchored in its folder: Permission denied")


def test_the_cuts_of_every_declared_sync_end_and_a_repeat_finds_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cuts = test_cut_keep.stored(90)
    world.cuts.close = world.close
    gone = run("cuts")
    assert set(gone) == {"settlement@warehouse"}
    assert gone["settlement@warehouse"] > 0
    assert run("cuts") == {"settlement@warehouse": 0}


def test_a_log_of_which_something_is_not_known_is_kept_and_alarms_until_it_is(
    world: World, platform: results.Platform
) -> None:
    world.away.add("warehouse")
    assert run("log") == {"core_bank": 0}
    assert (
        "the ledgers of destination warehouse are not known: no route" in platform.alarms[LOG_NOT_PRUNED, "core_bank"]
    )
    world.away.clear()
    platform.alarms[LOG_NOT_PRUNED, "a_source_of_before"] = "nobody has it any more"
    assert run("log") == {"core_bank": 70}
    assert platform.alarms == {}


def test_a_log_that_cannot_be_archived_alarms_and_the_log_of_the_task_says_what_is_archived(
    world: World, platform: results.Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archived = "log: {archive: {location: /srv/archive, keep_days: 400}}\n"
    write_declarations(tmp_path, {"sources/core_bank.yaml": SOURCE + archived})
    monkeypatch.setattr(registry, "log_archive", world.open_archive)
    world.archived_to, world.archive_trouble = 0, "no route to host"
    assert run("log") == {"core_bank": 35}
    assert "what is not archived is not deleted: no route to host" in platform.alarms[LOG_NOT_PRUNED, "core_bank"]
    world.archive_trouble = ""
    assert run("log") == {"core_bank": 35}
    assert platform.alarms == {}
    archiving = Archiving(Archived(0, 70, 1, 2 << 20), 70)
    said = "".join(in_words(Pruned("seamline.core_bank.log", (0, 70), 100, Floor(70, ()), 1, archiving=archiving)))
    assert "its archive holds offsets 0 to 70, 2.0 MiB in 1 files: 70 offsets were added, 0 files expired" in said


def test_a_log_that_was_given_up_leaves_no_alarm(
    world: World, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.away.add("warehouse")
    run("log")
    monkeypatch.setattr(world, "topic_id_of", lambda _topic: "")
    assert run("log") == {"core_bank": 0}
    assert platform.alarms == {}


def test_a_kafka_that_does_not_answer_is_red_and_tried_again(world: World) -> None:
    world.kafka_is_away = True
    with pytest.raises(AirflowException, match="could not report offsets"):
        run("log")
    world.kafka_is_away = False
    assert run("log") == {"core_bank": 70}


def test_a_destination_that_is_away_keeps_no_other_from_being_cleared(world: World) -> None:
    world.away.add("warehouse")
    with pytest.raises(AirflowException, match="no route to host"):
        run("destinations")
    assert world.left == 0, "the others were cleared"


def test_single_syncs_of_a_destination_that_failed_are_all_named_and_the_task_is_red(world: World) -> None:
    world.failed = tuple(GateFailed("a file is gone", sync=sync) for sync in ("cards", "loans"))
    with capture_logs() as lines, pytest.raises(AirflowFailException, match=r"a file is gone \(sync cards\)"):
        run("destinations")
    said = [line["event"] for line in lines if line["log_level"] == "error"]
    assert said == [
        f"destination {destination}: a file is gone (sync {sync})"
        for destination in ("warehouse", "archive")
        for sync in ("cards", "loans")
    ]
    world.failed = ()
    assert run("destinations") == ["warehouse", "archive"]


@dataclass
class Verifier:
    """Of two syncs, the second of which is not declared any more; `wrong`: what is stored otherwise, by sync."""

    wrong: dict[str, Outcome] = field(default_factory=dict)
    is_away: bool = False

    def syncs(self) -> list[str]:
        return ["payroll", "settlement"]

    def chain(self) -> Outcome:
        return Outcome()

    def stored(self, sync: str) -> Outcome:
        if self.is_away:
            raise TransientError("the platform database does not answer")
        return self.wrong.get(sync, Outcome())


def test_an_altered_record_is_an_alarm_until_it_is_as_it_was_and_an_error_ends_none(
    world: World, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = Verifier()
    monkeypatch.setattr(registry, "audit_verifier", lambda: verifier)
    assert sorted(run("audit")["verified"]) == ["payroll", "settlement"] and platform.alarms == {}
    verifier.wrong["settlement"] = Outcome(1, ("table account was changed after entry 812 (compared)",))
    for _ in range(2):
        assert run("audit")["altered"] == ["settlement"]
        assert list(platform.alarms) == [(RECORD_ALTERED, "settlement")]
    text = platform.alarms[RECORD_ALTERED, "settlement"]
    assert "table account was changed" in text and "./seamline audit verify --sync settlement" in text
    verifier.is_away = True
    with pytest.raises(AirflowException, match="does not answer"):
        run("audit")
    assert platform.alarms[RECORD_ALTERED, "settlement"] == text, "an alarm that says what is wrong stays as it is"
    assert "could not be verified" in platform.alarms[RECORD_ALTERED, "payroll"]
    verifier.is_away, verifier.wrong = False, {}
    run("audit")
    assert platform.alarms == {}
