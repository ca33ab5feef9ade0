"""Which way a night takes, what it begins with, and what it says where it cannot."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from seamline.bulk.since_cut import require_equal
from seamline.domain.day_closed import CLOSED
from seamline.domain.digest import KeyedDigest, SegmentDigest
from seamline.domain.errors import ConfigError, Refused, SeamlineError, TransientError
from seamline.domain.made_from import (
    LOG_PLACE,
    NOT_BY_LOG,
    TAKEN_OVER,
    EarlierCut,
    LogPlace,
    MadeFrom,
    NotByLog,
    TakenOver,
    by_log_in_words,
    place_from_json,
    place_to_json,
)
from seamline.domain.runs import Cut, Reconciliation, RunKind, RunState, Scope
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable, cut_to_json
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import AHEAD, BusinessDate, DestinationPlan, Run, SyncPlan
from seamline.plan.stages import nightly_stages
from seamline.ports import TableRead
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from seamline.sync.log_cut import LogHeld, find_base, needed_from
from seamline.sync.nightly_cut import CutTools, How, LogWay, take_conclusive_cut
from tests.log_topic import TOPIC, TOPIC_ID, position
from tests.unit.declared import SYNC, write_declarations
from tests.unit.test_nightly_cut import DAY, ENTRY, PLAN, ROWS, SOON, DatedView, Views, World

LAKE = "destination: lake\nkind: iceberg\nconnection: warehouse\nnamespace: bank\ncatalog: lake\nwarehouse: /lake\n"

PLACE = LogPlace(TOPIC, TOPIC_ID, 100, position(5), is_exact=False)
AHEAD_ROWS = f"entry{AHEAD}"


def made_from(way: MadeFrom, plan: SyncPlan = PLAN) -> SyncPlan:
    assert plan.nightly is not None
    return replace(plan, nightly=replace(plan.nightly, made_from=way), derived=())


@dataclass
class Nights(World):
    """A world whose cuts from the log are those of its read, or fail with `why`."""

    why: SeamlineError | None = None
    place_fault: SeamlineError | None = None
    kept_for: list[str] = field(default_factory=list)

    def views_for(self, destination: DestinationPlan) -> Sequence[Any]:
        tables = [read.table for read in self.reads]
        return [Views({table.name: OpenEnded(table, self._rows(table.name)) for table in tables})]

    @staticmethod
    def _rows(name: str) -> list[Any]:
        return ROWS[name.removesuffix(AHEAD)]

    def _staged(self, read: TableRead) -> list[Any]:
        return OpenEnded(read.table, self._rows(read.table.name))._selected(read.segment, "")

    def from_log(self, destination: DestinationPlan) -> CutTools:
        if self.why is not None:
            raise self.why
        return replace(self.tools(), how=How("log"))

    def place(self, destinations: Sequence[str]) -> LogPlace:
        self.kept_for += destinations
        if self.place_fault is not None:
            raise self.place_fault
        return PLACE

    def night(self, way: MadeFrom, day: date = DAY, *, open_at: datetime | None = None) -> Reconciliation:
        closed = {CLOSED: {"open_at": open_at.isoformat()}} if open_at else {}
        run = Run("r1", "settlement", RunKind.NIGHTLY, day, made_from(way), RunState.RUNNING, closed)
        take_conclusive_cut(run, replace(self.tools(), log=LogWay(self.from_log, lambda _: self.tools(), self.place)))
        return self.saved[-1]


class OpenEnded(DatedView):
    def _selected(self, segment: Any, run_key: str) -> list[Any]:
        return super()._selected(replace(segment, date_to=segment.date_to or "9999"), run_key)


def first(why: str) -> NotByLog:
    error = NotByLog(why)
    error.is_first = True
    return error


_DIFFERING = (BreakType.MISSING, BreakType.VALUE, BreakType.MISSING, BreakType.UNEXPECTED)

# ---- which way -------------------------------------------------------------------------------------------------------


def test_a_cut_that_the_next_one_begins_with_keeps_the_rows_of_later_dates() -> None:
    world = Nights(why=first("there is none"))
    found = world.night(MadeFrom.LOG)
    assert found.verdict is Verdict.MATCH
    cut = world.results["cut"]["warehouse"]
    modes = {table["table"]: (table["mode"], table["rows"]) for table in cut["tables"]}
    assert modes == {"account": (CutMode.WHOLE, 5), "entry": (CutMode.DATE, 5), AHEAD_ROWS: (CutMode.AHEAD, 0)}
    assert place_from_json(found.evidence[LOG_PLACE]) == PLACE  # type: ignore[arg-type]
    assert world.kept_for == ["warehouse"]
    assert by_log_in_words(found.evidence) == ["Read from the source, and not made from the log: there is none."]


def test_a_night_that_is_read_keeps_nothing_for_another_one() -> None:
    world = Nights(why=TransientError("nobody asks"))
    found = world.night(MadeFrom.READ)
    assert [table.table for table in found.tables] == ["account", "entry"]
    assert (found.mode, world.kept_for, LOG_PLACE in found.evidence) == ("read", [], False)


@pytest.mark.parametrize("way", [MadeFrom.LOG, MadeFrom.AUTO])
def test_a_cut_is_made_from_the_log_where_that_can_be(way: MadeFrom) -> None:
    world = Nights()
    found = world.night(way)
    assert (found.mode, found.verdict, world.kept_for) == ("log", Verdict.MATCH, [])
    assert list(world.results["cut"]) == ["warehouse"]


def test_auto_reads_and_says_why_also_in_the_log_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "seamline.sync.nightly_cut")
    found = Nights(why=TransientError("the log is away")).night(MadeFrom.AUTO)
    assert (found.mode, found.evidence[NOT_BY_LOG]) == ("read", "the log is away")
    said = [one.getMessage() for one in caplog.records]
    assert any("not from an earlier cut: the log is away" in one for one in said)
    assert [one for one in said if "not day_slice: " in one] and [one for one in said if "not incremental: " in one]


def test_auto_reads_also_where_no_later_cut_can_begin_with_it() -> None:
    world = Nights(why=NotByLog("another definition"), place_fault=TransientError("no marker came"))
    found = world.night(MadeFrom.AUTO)
    assert LOG_PLACE not in found.evidence
    assert found.evidence[NOT_BY_LOG] == "another definition; nor can the next one begin with it: no marker came"


@pytest.mark.parametrize(
    ("way", "why"),
    [
        (MadeFrom.AUTO, Refused("the read has waited for too long")),
        (MadeFrom.AUTO, ConfigError("nobody can ask the source for its load")),
        (MadeFrom.INCREMENTAL, Refused("the read has waited for too long")),
        (MadeFrom.INCREMENTAL, TransientError("the source is away")),
    ],
)
def test_what_was_refused_is_not_answered_by_reading_everything(way: MadeFrom, why: SeamlineError) -> None:
    with pytest.raises(type(why), match=why.message):
        Nights(why=why).night(way)


def test_increments_that_cannot_be_taken_are_read() -> None:
    assert Nights(why=NotByLog("2 came late")).night(MadeFrom.INCREMENTAL).mode == "read"


def test_log_refuses_what_cannot_be_made_so() -> None:
    with pytest.raises(Refused, match="cannot be made from the log: the log begins later") as refused:
        Nights(why=NotByLog("the log begins later", hint="dates after 2026-03-02")).night(MadeFrom.LOG)
    assert refused.value.hint == "dates after 2026-03-02"
    with pytest.raises(Refused) as refused:
        Nights(why=NotByLog("tables were altered since")).night(MadeFrom.LOG)
    assert "write `auto`, run the date, and write `log` again" in refused.value.hint
    with pytest.raises(TransientError, match="away"):
        Nights(why=TransientError("the log is away")).night(MadeFrom.LOG)


def test_a_first_cut_is_read_only_where_that_is_whole() -> None:
    world = Nights(why=first("there is none"), now=SOON + timedelta(days=3), position_time=SOON + timedelta(days=3))
    with pytest.raises(Refused, match="there is none"):
        world.night(MadeFrom.LOG)


def test_a_first_cut_whose_source_closed_its_date_late_is_read_all_the_same() -> None:
    late = SOON + timedelta(hours=3)
    world = Nights(why=first("there is none"), now=late, position_time=late)
    with pytest.raises(Refused, match="there is none"):
        world.night(MadeFrom.LOG)
    assert world.night(MadeFrom.LOG, open_at=late - timedelta(minutes=1)).mode == "read"


def test_a_first_cut_is_not_read_once_its_source_has_closed_the_next_date_too() -> None:
    class CaughtUp(Nights):
        def tools(self) -> CutTools:
            return replace(super().tools(), is_closed=lambda _: True)

    with pytest.raises(Refused, match="there is none"):
        CaughtUp(why=first("there is none")).night(MadeFrom.LOG, DAY - timedelta(days=1), open_at=SOON)


def test_explain_says_how_nights_are_made() -> None:
    def cut(way: MadeFrom) -> str:
        return next(stage.does for stage in nightly_stages(made_from(way)) if stage.id == "cut")

    assert "the log" not in cut(MadeFrom.READ)
    assert "refuses a date that cannot be made so; the very first one is read" in cut(MadeFrom.LOG)
    assert "where that cannot be it says why" in cut(MadeFrom.AUTO)
    whole = {
        way: [line for line in explain(made_from(way)).splitlines() if "holds it whole, " in line] for way in MadeFrom
    }
    assert all(
        "whole, as it was at the end of the date; of a cut that is read as of P" in str(whole[way])
        for way in (MadeFrom.LOG, MadeFrom.AUTO)
    )
    assert "whole, as of P" in str(whole[MadeFrom.READ])


def test_a_plan_keeps_its_way_and_one_that_reads_has_the_text_of_before() -> None:
    plan = made_from(MadeFrom.LOG)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert "made_from" not in plan_to_json(made_from(MadeFrom.READ))
    assert plan_from_json(plan_to_json(made_from(MadeFrom.READ))) == made_from(MadeFrom.READ)


def test_rows_of_later_dates_are_read_where_their_table_lies() -> None:
    plan = made_from(MadeFrom.LOG).of_cuts
    assert plan.source.places.of(AHEAD_ROWS) == plan.source.places.of("entry")
    assert plan.table(AHEAD_ROWS).definition.columns == ENTRY.columns
    assert made_from(MadeFrom.READ).of_cuts == made_from(MadeFrom.READ)


def test_the_log_alone_is_refused_where_a_destination_cannot(tmp_path: Path) -> None:
    sync = SYNC.replace("[warehouse]", "[warehouse, lake]").replace("nightly:\n", "nightly:\n  from: log\n")
    files = {"destinations/lake.yaml": LAKE, "syncs/settlement.yaml": sync}
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, files))
    (fault,) = [one for one in caught.value.faults if one.path == "nightly.from"]
    assert "`lake` (iceberg) cannot make a cut from the one before it and the log" in fault.cause
    write_declarations(tmp_path, {"syncs/settlement.yaml": sync.replace("from: log", "from: auto")})
    plan = compile_plan(load_declarations(tmp_path), "settlement")
    assert plan.nightly is not None
    assert plan.nightly.made_from is MadeFrom.AUTO


def test_a_destination_that_holds_each_cut_whole_replaces_no_date(tmp_path: Path) -> None:
    sync = SYNC.replace("[warehouse]", "[warehouse, lake]").replace("nightly:\n", "nightly:\n  from: day_slice\n")
    sync = sync.replace("  - account\n", "  - {name: account, business_date: {column: day, as: digits}}\n")
    files = {"destinations/lake.yaml": LAKE, "syncs/settlement.yaml": sync}
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, files))
    (fault,) = caught.value.faults
    assert (fault.path, "`lake` (iceberg) makes its cuts of live tables" in fault.cause) == ("destinations[1]", True)
    write_declarations(tmp_path, {"syncs/settlement.yaml": sync.replace(", lake]", "]")})
    plan = compile_plan(load_declarations(tmp_path), "settlement")
    assert plan.nightly is not None
    assert (plan.nightly.made_from, plan.of_cuts) == (MadeFrom.DAY_SLICE, plan)
    assert plan_from_json(plan_to_json(plan)) == plan


def test_cuts_are_stored_as_versions_where_a_destination_can_and_explain_says_so(tmp_path: Path) -> None:
    sync = SYNC.replace("  - account\n", "  - {name: account, cut_storage: versions}\n")
    before = compile_plan(load_declarations(write_declarations(tmp_path, {})), "settlement")
    files = {"destinations/lake.yaml": LAKE, "syncs/settlement.yaml": sync.replace("[warehouse]", "[warehouse, lake]")}
    plan = compile_plan(load_declarations(write_declarations(tmp_path, files)), "settlement")
    assert {one.name: one.versioned for one in plan.destinations} == {"warehouse": ("account",), "lake": ()}
    assert plan_from_json(plan_to_json(plan)) == plan
    assert plan.of_stream("warehouse").destination("warehouse") == before.of_stream("warehouse").destination(
        "warehouse"
    )
    (said,) = [line for line in explain(plan).splitlines() if line.startswith("  table account")]
    assert "cuts in warehouse are stored as versions, for `cut_storage` says so" in said
    assert "those in lake as such a destination stores all cuts" in said
    write_declarations(tmp_path, {"syncs/settlement.yaml": sync.replace("[warehouse]", "[lake]")})
    with pytest.raises(DeclarationsInvalid, match="no destination of this sync stores cuts as versions: lake"):
        load_declarations(tmp_path)


def test_a_destination_that_cannot_carry_a_cut_on_takes_no_increments(tmp_path: Path) -> None:
    sync = SYNC.replace("[warehouse]", "[warehouse, lake]").replace("nightly:\n", "nightly:\n  from: incremental\n")
    files = {"destinations/lake.yaml": LAKE, "syncs/settlement.yaml": sync}
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, files))
    (fault,) = [one for one in caught.value.faults if one.path == "nightly.from"]
    assert "`lake` (iceberg) cannot make a cut from the one before it and a read of what came since" in fault.cause
    assert "Write `read`" in fault.cure


def test_a_cursor_is_declared_where_it_is_used_and_is_in_the_plan_of_nights_alone(tmp_path: Path) -> None:
    plain = compile_plan(load_declarations(write_declarations(tmp_path, {})), "settlement")
    with_cursor = SYNC.replace("  - account\n", "  - {name: account, cursor: changed_at}\n")
    write_declarations(tmp_path, {"syncs/settlement.yaml": with_cursor})
    with pytest.raises(DeclarationsInvalid, match="cursor `changed_at` is used by `nightly.from: incremental` alone"):
        load_declarations(tmp_path)
    right = with_cursor.replace("nightly:\n", "nightly:\n  from: incremental\n  ready_when: {file: 'closed_{date}'}\n")
    write_declarations(tmp_path, {"syncs/settlement.yaml": right})
    plan = compile_plan(load_declarations(tmp_path), "settlement")
    assert plan.nightly is not None
    assert (plan.nightly.made_from, plan.nightly.cursors) == (MadeFrom.INCREMENTAL, (("account", "changed_at"),))
    assert plan_from_json(plan_to_json(plan)) == plan
    assert plan.of_stream("warehouse").nightly.cursors == ()  # type: ignore[union-attr]
    assert "cursors" not in plan_to_json(plain)
    (said,) = [line for line in explain(plan).splitlines() if line.startswith("  table account")]
    assert said.endswith("read from the newest changed_at of the cut before on, that included")
    dated = right.replace("cursor: changed_at}", "cursor: changed_at, business_date: {column: day, as: date}}")
    write_declarations(tmp_path, {"syncs/settlement.yaml": dated})
    with pytest.raises(DeclarationsInvalid, match="a table with `business_date` is read by its date"):
        load_declarations(tmp_path)


@pytest.mark.parametrize(
    ("night", "why"),
    [
        ("ready_when: {file: 'closed_{date}'}", "the source says by `ready_when` that its day is closed"),
        (
            "cut_off: {table: elsewhere, column: day}",
            "a system date ends the date, and ledger_entry counts its rows by",
        ),
        ("cut_off: '00:00'", ""),
    ],
)
def test_auto_that_is_compiled_to_a_read_keeps_the_reason_with_its_plan(tmp_path: Path, night: str, why: str) -> None:
    sync = SYNC.replace("nightly:\n", f"nightly:\n  from: auto\n  {night}\n")
    plan = compile_plan(load_declarations(write_declarations(tmp_path, {"syncs/settlement.yaml": sync})), "settlement")
    assert plan.nightly is not None
    assert plan.nightly.made_from is (MadeFrom.READ if why else MadeFrom.AUTO)
    assert [one[: len(why)] for one in plan.nightly.not_by_log] == ([why] if why else [])
    assert ("  nights not log: " in explain(plan)) is bool(why)
    assert plan_from_json(plan_to_json(plan)) == plan
    read = sync.replace("from: auto", "from: read")
    declared = load_declarations(write_declarations(tmp_path, {"syncs/settlement.yaml": read}))
    chosen = compile_plan(declared, "settlement").nightly
    assert chosen is not None and chosen.not_by_log == (), "a person has chosen it"


@pytest.mark.parametrize("made_from", ["log", "auto"])
def test_the_log_makes_no_cut_of_a_table_by_date_that_has_a_transform(tmp_path: Path, made_from: str) -> None:
    file = "include/transforms/account.sql"
    dated = f"{{name: account, business_date: {{column: day, as: date}}, transform: {file}}}"
    sync = SYNC.replace("  - account\n", f"  - {dated}\n").replace("nightly:\n", f"nightly:\n  from: {made_from}\n")
    write_declarations(tmp_path, {"syncs/settlement.yaml": sync, "transforms/account.sql": "SELECT * FROM account"})
    if made_from == "auto":
        assert load_declarations(tmp_path).syncs
        return
    with pytest.raises(DeclarationsInvalid, match="cannot make the cuts of a table with `business_date` and a"):
        load_declarations(tmp_path)


def test_a_cut_that_differs_from_the_source_is_read_whole_and_the_differing_rows_are_counted() -> None:
    made = TakenOver("entry", "2026-11-24", 2, above=10, kept=3, read=2)
    breaks = tuple(Break("entry", kind, str(number), None, None) for number, kind in enumerate(_DIFFERING))
    table = TableVerdict("entry", Verdict.BREAK, breaks=breaks, breaks_total=len(breaks))
    world = Nights()
    found = replace(world.night(MadeFrom.READ), tables=(table,), evidence={TAKEN_OVER: [asdict(made)]})
    with pytest.raises(NotByLog, match="2 came late, 1 changed, 1 are gone"):
        require_equal([found])
    require_equal([replace(found, tables=(replace(table, verdict=Verdict.MATCH, breaks=()),))])
    require_equal([replace(found, evidence={})])
    # A comparison that was not made says nothing of the rows: it stays the result.
    for word in (Verdict.INCONCLUSIVE, Verdict.NOT_RUN):
        require_equal([replace(found, tables=(replace(table, verdict=word, breaks=(), reason="away"),))])
    by_time = replace(made, above="2026-11-24 10:00:00", column="at")
    assert [one.in_words.split(" were")[0] for one in (made, by_time)] == [
        "entry: 2 rows with a key above 10",
        "entry: 2 rows with at from 2026-11-24 10:00:00 on",
    ]


# ---- what it begins with ---------------------------------------------------------------------------------------------


@dataclass
class History:
    """One published cut of the day before."""

    plan: SyncPlan = field(default_factory=lambda: made_from(MadeFrom.LOG))
    verdict: Verdict = Verdict.MATCH
    evidence: dict[str, Any] = field(default_factory=lambda: {LOG_PLACE: place_to_json(PLACE)})
    taken_again: bool = False
    lacks: str = ""
    held: LogHeld = field(default_factory=lambda: LogHeld(TOPIC, TOPIC_ID, 100))
    day: date = DAY - timedelta(days=1)

    def cuts(self, sync: str) -> Sequence[Cut]:
        names = tuple(table.name for table in self.plan.of_cuts.tables)
        return [Cut(sync, "warehouse", self.day, 2, "r0", position(5), SOON, names, self.verdict)]

    def run(self, run_id: str) -> Run:
        digest = KeyedDigest("k", SegmentDigest(1, 1, 2, 3))
        tables = tuple(
            StagedTable(
                one.name, CutMode.WHOLE, "", 1, Verdict.MATCH, digest=None if one.name == self.lacks else digest
            )
            for one in self.plan.of_cuts.tables
        )
        at = position(6 if self.taken_again else 5)
        cut = StagedCut(run_id, "settlement", "warehouse", self.day, at, SOON, tables)
        result = {"cut": {"warehouse": cut_to_json(cut)}}
        return Run(run_id, "settlement", RunKind.NIGHTLY, self.day, self.plan, RunState.SUCCEEDED, result)

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None:
        return Reconciliation(
            run_id, "settlement", destination, Scope.CUT, self.day, position(5), SOON, "read", self.verdict, (), SOON,
            SOON, self.evidence,
        )  # fmt: skip

    def base(self, plan: SyncPlan | None = None) -> EarlierCut:
        wanted = (plan or made_from(MadeFrom.LOG)).of_cuts
        return find_base(wanted, "warehouse", DAY, history=self, held=self.held)


def test_a_cut_begins_with_the_newest_one_before_it() -> None:
    base = History().base()
    assert (base.version, base.run_id, base.position, base.place) == (2, "r0", position(5), PLACE)
    assert (base.read_date, base.steps, sorted(base.digests)) == ("2026-03-04", 0, ["account", "entry", AHEAD_ROWS])


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (History(verdict=Verdict.BREAK), "is BREAK"),
        (History(evidence={}), "without a place in the log"),
        (History(held=LogHeld(TOPIC, "another", 0)), "was created again"),
        (History(held=LogHeld(TOPIC, TOPIC_ID, 101)), "the log begins at offset 101, which is behind"),
        (History(taken_again=True), "was taken again since"),
        (History(lacks=AHEAD_ROWS), f"lacks {AHEAD_ROWS}"),
        (History(day=DAY + timedelta(days=1)), "no cut before 2026-03-05"),
    ],
)
def test_what_nothing_can_begin_with_is_named(history: History, why: str) -> None:
    with pytest.raises(NotByLog, match=why) as error:
        history.base()
    assert not error.value.is_first
    assert "write `auto`, run the date" in error.value.hint, "`log` reads nothing once a cut is there"


def test_a_date_before_the_first_cut_is_not_sent_to_the_date_that_has_just_ended() -> None:
    """Its cut is there, and a date before it cannot begin with it."""
    with pytest.raises(NotByLog) as error:
        History(day=DAY + timedelta(days=1)).base()
    with pytest.raises(Refused) as refused:
        Nights(why=error.value).night(MadeFrom.LOG)
    assert refused.value.hint.startswith("cuts of later dates are there already")


def test_the_only_date_may_be_made_again_as_the_first_one_was() -> None:
    with pytest.raises(NotByLog, match="no cut before 2026-03-05") as error:
        History(day=DAY).base()
    assert error.value.is_first


def test_a_table_that_has_changed_since_begins_nothing() -> None:
    plan = made_from(MadeFrom.LOG)
    wider = replace(ENTRY, columns=(*ENTRY.columns, replace(ENTRY.columns[1], name="valued")))
    tables = (plan.tables[0], replace(plan.tables[1], table=wider))
    with pytest.raises(NotByLog, match=f"entry, {AHEAD_ROWS} has another definition"):
        History().base(replace(plan, tables=tables))


def test_a_date_that_begins_before_the_rows_that_an_earlier_cut_kept_does_not_begin_with_it() -> None:
    """The cut before ended at midnight. With a cut-off of 17:00 the date has rows of the evening before, which are in
    no cut that could be carried on."""
    plan = made_from(MadeFrom.LOG)
    local = (plan.tables[0], replace(plan.tables[1], business_date=BusinessDate("day", "local")))
    then, nightly = replace(plan, tables=local), plan.nightly
    assert nightly is not None
    with pytest.raises(
        NotByLog, match="begins in entry at 2026-03-04 17:00:00, .* kept the rows from 2026-03-05 00:00:00"
    ):
        History(then).base(replace(then, nightly=replace(nightly, cut_off="17:00")))
    assert History(then).base(replace(then, nightly=replace(nightly, cut_off="02:00"))).version == 2


def test_a_table_that_keeps_no_rows_for_the_next_cut_is_named() -> None:
    plan = made_from(MadeFrom.LOG)
    with pytest.raises(NotByLog, match="of entry no rows of later dates are kept"):
        find_base(plan, "warehouse", DAY, history=History(), held=LogHeld(TOPIC, TOPIC_ID, 0))


@dataclass
class Dates(History):
    """The cuts of these dates, each of which goes on at ten times its day of the month."""

    days: tuple[date, ...] = ()
    held: LogHeld = field(default_factory=lambda: LogHeld(TOPIC, TOPIC_ID, 0))

    def cuts(self, sync: str) -> Sequence[Cut]:
        (made,) = super().cuts(sync)
        return [replace(made, business_date=day, run_id=str(day.day * 10)) for day in self.days]

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None:
        found = super().reconciliation(run_id, scope, destination)
        assert found is not None
        return replace(found, evidence={LOG_PLACE: place_to_json(replace(PLACE, offset=int(run_id)))})


@pytest.mark.parametrize(
    ("days", "offset"),
    [
        ((5, 4, 3), 50),
        ((5, 2, 1), 20),
        ((5, 4, 2, 1), 20),
        ((28, 27, 5), 50),
        ((28, 14, 5), 140),
        ((5,), 50),
        ((), None),
    ],
    ids=["none is missing", "two are", "one is", "all of late are", "missed long ago", "the first", "no cut"],
)
def test_the_log_is_kept_for_dates_of_late_that_were_missed(days: Sequence[int], offset: int | None) -> None:
    history = Dates(days=tuple(date(2026, 3, day) for day in days))
    plan = made_from(MadeFrom.LOG).of_cuts
    assert needed_from(plan, "warehouse", history=history, held=history.held) == offset
