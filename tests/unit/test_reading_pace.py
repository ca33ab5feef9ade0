"""A source is read as fast as its load, its hours and its log allow: slower, not at all for a while, or no longer."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from seamline.bulk.paced import paced
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import ConfigError, Refused, SeamlineError, TransientError
from seamline.domain.load_progress import LoadSoFar, load_from_json, load_to_json
from seamline.domain.reading_pace import (
    LogPressure,
    QuietTime,
    Rate,
    ReadingPace,
    ServerLoad,
    by_load,
    by_time,
    with_log,
)
from seamline.domain.verdict import Verdict
from seamline.kinds.bulk import ArrowRows, PostgresCopy, TableRows
from seamline.kinds.found import source_kind
from seamline.kinds.logins import Logins
from seamline.plan.checks import BudgetPlan, SourceBudgetPlan
from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.ports import Load as Staged
from seamline.ports import ReadView
from seamline.sources.jdbc.spec import JdbcSource
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from seamline.sync.budget import Spending
from seamline.sync.comparison import compare_live
from seamline.sync.reading_pace import LOOK_EVERY_S, PaceQuestion, Pacer
from seamline.sync.snapshot import take_snapshot
from tests.unit.declared import SOURCE, write_declarations
from tests.unit.test_barrier import World
from tests.unit.test_budget import compared, sides
from tests.unit.test_comparison import RUN
from tests.unit.test_snapshot import World as Load
from tests.unit.test_snapshot import run as onboarding

BUSY = ReadingPace(Rate.WAITS, "source core works on 50 statements, its limit is 50")
SLOW = ReadingPace(Rate.SLOWED, "stream a@b has 3 GiB of the log of core before it")
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@dataclass
class Scripted:
    """A clock that only sleep moves, and a source that says what is written here, the last of it again and again."""

    answers: list[ReadingPace]
    time: float = 100.0
    asked: int = 0
    said: list[str] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def ask(self) -> ReadingPace:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def pacer(self, wait_max_s: float = 3_600) -> Pacer:
        return Pacer("core", self.ask, wait_max_s=wait_max_s, clock=self, say=self.said.append)


def blocks(count: int, world: Scripted, each_s: float = 1.0) -> Iterator[bytes]:
    for _ in range(count):
        world.time += each_s
        yield b"x"


def passed_on(rows: TableRows, pacer: Pacer) -> Iterator[object]:
    read = paced(rows, pacer)
    return read.blocks if isinstance(read, PostgresCopy) else read.batches


def test_a_short_read_asks_nobody_and_rests_nowhere() -> None:
    world = Scripted([BUSY])
    assert len(list(passed_on(PostgresCopy(blocks(9, world)), world.pacer()))) == 9
    assert (world.asked, world.time) == (0, 109)
    assert paced(rows := PostgresCopy(iter(())), None) is rows


def test_a_read_is_slowed_to_a_quarter_of_its_speed_and_let_go_by_itself() -> None:
    world = Scripted([SLOW, SLOW, ReadingPace()])
    times = [world.time for _ in passed_on(PostgresCopy(blocks(100, world)), world.pacer())]
    assert len(times) == 100
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    assert set(gaps[:8]) == {1.0} and 4.0 in gaps and set(gaps[-50:]) == {1.0}
    assert world.said == [
        f"source core is read at a quarter of the speed: {SLOW.why}",
        "source core is read at full speed again",
    ]


def test_a_read_that_waits_passes_a_part_a_minute_so_that_no_server_takes_it_for_dead() -> None:
    world = Scripted([BUSY] * 13 + [ReadingPace()])
    batch = pa.record_batch({"id": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(30):
            world.time += 1
            yield batch

    times = [world.time for _ in passed_on(ArrowRows(batch.schema, batches()), world.pacer())]
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    assert len(times) == 30
    assert gaps.count(61.0) == 2, "one part a minute"
    assert max(gaps) == 61.0 and set(gaps[-10:]) == {1.0}
    assert world.said[-1] == "source core is read at full speed again"


def test_who_waits_for_too_long_fails_with_what_it_waited_for() -> None:
    world = Scripted([BUSY])
    shown: list[str] = []
    with pytest.raises(Refused, match=r"has waited for 10 min: source core works on 50") as caught:
        world.pacer(600).begin(shown.append)
    assert shown == [BUSY.why], "once, for the run's page"
    assert world.time == 700 and "budget.wait_max" in caught.value.hint


def test_a_read_that_keeps_the_log_is_never_slowed_down_for_it_and_ends_where_it_would_have_to_wait() -> None:
    log = LogPressure(Rate.WAITS, "the log of core holds 9.8 GiB", is_ours=True)
    assert with_log(ReadingPace(), log) == ReadingPace()
    assert with_log(SLOW, log) == SLOW
    ends = with_log(BUSY, log)
    assert ends.rate is Rate.ENDS
    with pytest.raises(
        Refused, match=r"50 statements.*meanwhile the log fills, which this read keeps: the log of core"
    ):
        Scripted([ends]).pacer().begin()


def test_a_read_follows_the_streams_that_keep_the_log() -> None:
    for rate in (Rate.SLOWED, Rate.WAITS):
        assert with_log(ReadingPace(), LogPressure(rate, "a@b is behind")) == ReadingPace(rate, "a@b is behind")
    both = with_log(SLOW, LogPressure(Rate.WAITS, "the log is full"))
    assert (both.rate, both.why) == (Rate.WAITS, f"{SLOW.why}; the log is full")


@pytest.mark.parametrize(
    ("load", "rate"),
    [
        (ServerLoad(39, 23.9), Rate.FULL),
        (ServerLoad(40, None), Rate.SLOWED),
        (ServerLoad(50, None), Rate.WAITS),
        (ServerLoad(1, 24.0), Rate.SLOWED),
        (ServerLoad(40, 30.0), Rate.WAITS),
        (ServerLoad(1, float("inf")), Rate.WAITS),
        (ServerLoad(None, None), Rate.FULL),
    ],
)
def test_a_source_is_read_slower_from_four_fifths_of_a_limit_on_and_not_at_all_from_the_limit_on(
    load: ServerLoad, rate: Rate
) -> None:
    assert by_load("core", load, running_max=50, replica_lag_max_s=30).rate is rate
    assert by_load("core", load, running_max=0, replica_lag_max_s=0) == ReadingPace()


@pytest.mark.parametrize(
    ("now", "is_quiet"),
    [("21:59", False), ("22:00", True), ("23:59", True), ("00:29", True), ("00:30", False)],
)
def test_a_quiet_time_goes_through_midnight_by_the_clock_of_its_zone(now: str, is_quiet: bool) -> None:
    moment = datetime.fromisoformat(f"2026-07-01T{now}:00+02:00")
    found = by_time("core", [QuietTime("22:00", "00:30")], "Europe/Berlin", moment)
    assert (found.rate is Rate.WAITS) is is_quiet
    assert ("quiet until 00:30 (Europe/Berlin)" in found.why) is is_quiet


@dataclass
class Server:
    found: ServerLoad | SeamlineError
    asked: list[str] = field(default_factory=list)

    def running(self) -> int:
        return self._said("running").running or 0

    def replica_lag_s(self) -> float | None:
        return self._said("replicas").replica_lag_s

    def _said(self, what: str) -> ServerLoad:
        self.asked.append(what)
        if isinstance(self.found, SeamlineError):
            raise self.found
        return self.found


def question(budget: SourceBudgetPlan | None, server: object, pressures: Sequence[object] = (None,)) -> PaceQuestion:
    left = list(pressures)

    def pressure() -> LogPressure | None:
        found = left.pop(0)
        if isinstance(found, SeamlineError):
            raise found
        assert found is None or isinstance(found, LogPressure)
        return found

    return PaceQuestion(replace(RUN.plan.source, budget=budget), lambda: server, pressure, now=lambda: NOON)


def test_a_source_that_does_not_answer_is_read_slower_and_one_that_may_not_be_asked_stops_the_read() -> None:
    away = question(SourceBudgetPlan(running_max=5), Server(TransientError("too many connections")))()
    assert away.rate is Rate.SLOWED and "is not known: too many connections" in away.why
    with pytest.raises(ConfigError, match="does not see"):
        question(SourceBudgetPlan(running_max=5), Server(ConfigError("the role does not see it")))()
    with pytest.raises(ConfigError, match="nobody can ask"):
        question(SourceBudgetPlan(running_max=5), object())()


def test_a_server_is_asked_only_for_what_is_declared_and_not_in_a_quiet_time() -> None:
    server = Server(ServerLoad(4, 1.0))
    assert question(SourceBudgetPlan(quiet=(("11:00", "13:00"),), running_max=5), server)().rate is Rate.WAITS
    assert question(SourceBudgetPlan(quiet=(("13:00", "14:00"),)), server)() == ReadingPace()
    assert question(None, server)() == ReadingPace()
    assert server.asked == []
    assert question(SourceBudgetPlan(running_max=5), server)().rate is Rate.SLOWED
    assert question(SourceBudgetPlan(replica_lag_max_s=9), server)() == ReadingPace()
    assert server.asked == ["running", "replicas"]


def test_while_the_platform_database_is_away_nothing_is_changed() -> None:
    ask = question(None, None, [LogPressure(Rate.SLOWED, "a@b"), TransientError("away"), None])
    assert [ask().rate for _ in range(3)] == [Rate.SLOWED, Rate.SLOWED, Rate.FULL]


def test_a_comparison_waits_for_its_source_within_its_budget_and_says_what_it_waited_for() -> None:
    world = Scripted([ReadingPace(), BUSY])
    pacer = world.pacer()
    pacer.begin()
    world.time += LOOK_EVERY_S
    found = compared(*sides(), Spending(BudgetPlan(time_s=60), world, pacer))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "the budget of 60 s was over" in found.reason and f"while {BUSY.why}" in found.reason
    world.answers = [ReadingPace()]
    assert compared(*sides(), Spending(BudgetPlan(), world, world.pacer())).verdict is Verdict.MATCH


def test_a_live_comparison_opens_nothing_while_its_source_is_to_be_quiet_and_is_inconclusive_after_the_wait() -> None:
    world = World()
    barrier = world.barrier()
    found = compare_live(RUN, "warehouse", barrier=barrier, views=2, begin=Scripted([BUSY]).pacer(60).begin)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "has waited for 60 s: source core works on 50" in found.tables[0].reason


def test_the_rest_after_a_question_is_three_times_as_long_as_that_question_took() -> None:
    world = Scripted([SLOW])
    pacer = world.pacer()
    pacer.begin()
    rests = []
    for took_s in (0.1, 6.0, 600.0):
        before = world.time
        pacer.before_a_question(0.5, lambda: None)
        rests.append(world.time - before)
        world.time += took_s
    pacer.before_a_question(0.5, lambda: None)
    assert rests == [pytest.approx(1.5), pytest.approx(1.5), pytest.approx(18.0)]
    assert world.time == pytest.approx(100 + sum(rests) + 606.1 + 30), "no rest is longer than half a minute"


@dataclass
class TimedLoad(Load):
    """Each step of its proof takes so long that the source is looked at again."""

    clock: Scripted = field(default_factory=lambda: Scripted([ReadingPace()]))
    read_at: list[float] = field(default_factory=list)

    @contextmanager
    def open_staged(
        self, destination: DestinationPlan, loads: Sequence[Staged], count: int
    ) -> Iterator[Sequence[ReadView]]:
        self.clock.time += LOOK_EVERY_S
        with super().open_staged(destination, loads, count) as views:
            yield views
        self.clock.time += LOOK_EVERY_S

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:
        self.read_at.append(self.clock.time)
        return super().digest(segment, destination)


def test_the_proof_of_a_load_waits_like_the_load_before_it_compares_and_before_each_receipt() -> None:
    load = TimedLoad(clock=Scripted([ReadingPace(), BUSY, BUSY, ReadingPace()]))
    take_snapshot(onboarding(), replace(load.tools, pacer=load.clock.pacer()))
    assert load.read_at == [140.0, 140.0], "twenty seconds after the comparison"


def test_a_proof_that_may_not_read_on_ends_with_its_reason_and_lets_the_log_go_and_nothing_differs() -> None:
    load = TimedLoad(clock=Scripted([BUSY]))
    with pytest.raises(Refused, match=r"has waited for 60 s: source core works on 50"):
        take_snapshot(onboarding(), replace(load.tools, pacer=load.clock.pacer(60)))
    assert load.steps[-1].endswith("lets the log go") and not load.results


def test_the_line_of_a_load_says_why_it_is_slow() -> None:
    load = LoadSoFar(0, 0, 0, 2_500_000, 3.0, SLOW.why)
    assert load.in_words() == f"2.5 MB staged; slowed down: {SLOW.why}"
    assert load_from_json(load_to_json(load)) == load
    before = {key: value for key, value in load_to_json(load).items() if key != "held_back"}
    assert load_from_json(before).in_words() == "2.5 MB staged"


BUDGET = 'budget: {running_max: 50, replica_lag_max: 30s, quiet: ["22:00-23:30"], timezone: Europe/Berlin}\n'


def test_a_budget_is_planned_explained_and_comes_back_from_the_text_of_the_plan(tmp_path: Path) -> None:
    declarations = load_declarations(write_declarations(tmp_path, {"sources/core_bank.yaml": SOURCE + BUDGET}))
    plan = compile_plan(declarations, "settlement")
    assert plan.source.budget == SourceBudgetPlan(50, 30, (("22:00", "23:30"),), "Europe/Berlin", 7_200)
    assert plan_from_json(plan_to_json(plan)) == plan
    said = " ".join(explain(plan).split())
    assert "read while it works on fewer than 50 statements, while replicas are less than 30 s behind" in said
    assert "but not at 22:00-23:30 (Europe/Berlin); slower from 80 % of a limit on, waits for up to 2 h 0 min" in said


def test_a_source_without_a_budget_keeps_the_hash_of_its_syncs_and_the_text_of_their_plans(tmp_path: Path) -> None:
    plain = load_declarations(write_declarations(tmp_path / "plain"))
    other = load_declarations(write_declarations(tmp_path / "other", {"sources/core_bank.yaml": SOURCE + BUDGET}))
    assert '"budget"' not in plan_to_json(compile_plan(plain, "settlement"))
    assert config_hash(plain, "settlement") != config_hash(other, "settlement")


@pytest.mark.parametrize(
    ("budget", "path", "cause"),
    [
        ("{}", "budget", "without any it bounds nothing"),
        ("{running_max: 0}", "budget.running_max", "must be"),
        ("{replica_lag_max: 0s}", "budget.replica_lag_max", "at least 1s"),
        ('{quiet: ["22:00"]}', "budget.quiet", "HH:MM-HH:MM"),
        ('{quiet: ["24:00-01:00"]}', "budget.quiet", "HH:MM-HH:MM"),
        ('{quiet: ["01:00-01:00"]}', "budget.quiet", "would let nobody read"),
        ("{running_max: 9, timezone: Berlin}", "budget.timezone", "is not a time zone"),
    ],
)
def test_a_wrong_budget_is_reported_with_its_place(tmp_path: Path, budget: str, path: str, cause: str) -> None:
    text = f"{SOURCE}budget: {budget}\n"
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, {"sources/core_bank.yaml": text}))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert cause in fault.cause


@pytest.mark.parametrize(
    ("kind", "budget", "right"),
    [
        ("mariadb", SourceBudgetPlan(replica_lag_max_s=30), "GRANT SLAVE MONITOR ON *.* TO 'reader'@'%';"),
        ("mysql", SourceBudgetPlan(replica_lag_max_s=30), "GRANT REPLICATION CLIENT ON *.* TO 'reader'@'%';"),
        ("postgres", SourceBudgetPlan(running_max=50), 'GRANT pg_read_all_stats TO "reader";'),
    ],
)
@pytest.mark.parametrize("topic", ["log", ""])
def test_the_script_of_a_source_grants_what_its_budget_looks_at_and_only_then(
    kind: str, budget: SourceBudgetPlan, right: str, topic: str
) -> None:
    plan = SourcePlan("core", kind, "bank", "reader", "capture", "marker", topic, "connector", schema="public")
    logins = Logins("capture", "reader", "marker")

    def rights(source: SourcePlan) -> list[str]:
        return source_kind(kind).grant_script(source, ["account"], logins=logins).splitlines()

    quiet = replace(plan, budget=SourceBudgetPlan(quiet=(("22:00", "23:00"),)))
    assert right in rights(replace(plan, budget=budget))
    assert rights(quiet) == rights(plan) and right not in rights(plan)


def test_a_source_that_nobody_can_ask_for_its_load_may_be_quiet_and_nothing_else() -> None:
    declared = {"source": "core", "kind": "jdbc", "connection": "core", "database": "core", "schema": "S"}
    assert JdbcSource.model_validate({**declared, "budget": {"quiet": ["22:00-23:30"]}}).budget is not None
    with pytest.raises(ValidationError, match="nobody can ask this kind of source for its load"):
        JdbcSource.model_validate({**declared, "budget": {"running_max": 5}})
