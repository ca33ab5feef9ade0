"""Files of changes as a kind of destination: a stream and no cuts, by one key of a destination of files."""

from dataclasses import replace
from pathlib import Path

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import ConfigError, Refused
from seamline.files.dialect import Dialect
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import HoldsCuts, ReadsBack
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import SyncPlan
from seamline.plan.stages import all_stages, concerned
from seamline.registry import with_level
from seamline.sinks.files import state as of_cuts
from seamline.sinks.files.changes import state as of_changes
from seamline.sinks.files.changes.options import ChangesOptions, changes_options
from seamline.sinks.files.changes.state import ChangeFile, ChangesState, HeldTable
from seamline.sinks.files.preflight import problems_of_changes
from seamline.spec.load import declared_kinds, load_declarations
from tests.log_topic import ACCOUNT, sync_plan
from tests.unit.declared import SYNC, write_declarations
from tests.unit.reported import MATCH, reconciliation

FEED = """\
destination: feed
kind: files
mode: changes
location: /srv/changes
format: parquet
changes: {keep_days: 90, compact_below_mb: 32}
"""
FILE, SYNC_FILE = "destinations/feed.yaml", "syncs/settlement.yaml"
BESIDE = SYNC.replace("[warehouse]", "[warehouse, feed]")


def declared(folder: Path, feed: str = FEED, sync: str = BESIDE) -> Path:
    return write_declarations(folder, {FILE: feed, SYNC_FILE: sync})


@pytest.fixture
def plan(tmp_path: Path) -> SyncPlan:
    return compile_plan(load_declarations(declared(tmp_path)), "settlement")


def test_mode_changes_makes_a_destination_of_files_one_of_streams_without_cuts(plan: SyncPlan, tmp_path: Path) -> None:
    feed = plan.destination("feed")
    assert (feed.kind, feed.namespace, feed.cuts_only, feed.no_cuts) == ("change_files", "/srv/changes", False, True)
    assert feed.commit_every_ms == 10_000
    assert changes_options(feed) == ChangesOptions("/srv/changes", 32 * 2**20, 8, 90, before_image=False)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert declared_kinds(tmp_path, "settlement")["feed"] == "change_files"
    kind = sink_kind("change_files")
    assert isinstance(kind, ReadsBack)
    assert not isinstance(kind, HoldsCuts)
    assert "no database to grant in" in kind.grant_script(feed, "", logins=DestinationLogins("feeder"))


def test_nights_leave_it_out_and_say_so(plan: SyncPlan) -> None:
    about = {kind: concerned(plan, kind).destination_names for kind in all_stages(plan)}
    assert about.pop("nightly") == {"warehouse"}
    assert set(about.values()) == {frozenset({"warehouse", "feed"})}
    said = " ".join(explain(plan).split())
    assert "live tables in /srv/changes, no cuts: nights leave it out" in said
    assert "publishes and streams as the account of its tasks" in said


def test_a_sync_whose_only_destination_is_of_changes_has_no_nights(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"destination `feed` \(change_files\) cannot hold cuts"):
        load_declarations(declared(tmp_path, sync=SYNC.replace("[warehouse]", "[feed]")))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("mode: both", "mode"),
        ("mode: cuts", "`changes` is of change files"),
        ("control_file: ctl.json", "change files are no deliveries: leave `control_file` out"),
        ("csv: {trailer: true}", "no header and no trailer"),
        ("changes: {keep_days: 0}", "keep_days"),
        ("location: sftp:///changes\nconnection: partner", "name a folder as `staging`"),
    ],
)
def test_a_key_that_it_cannot_honour_is_refused(tmp_path: Path, changed: str, said: str) -> None:
    key = changed.partition(":")[0]
    lines = [line for line in FEED.splitlines() if not line.startswith(f"{key}:")]
    if key == "csv":
        lines = [line for line in lines if not line.startswith("format:")]
    with pytest.raises(ConfigError, match=said):
        load_declarations(declared(tmp_path, "\n".join([*lines, changed, ""])))


def test_a_run_keeps_the_level_that_its_guarantee_gives(plan: SyncPlan) -> None:
    found = replace(reconciliation(MATCH), destination="feed")
    levels = {
        guarantee: with_level(replace(plan, guarantee=guarantee), found).evidence["level"]["level"]
        for guarantee in ("exactly_once", "at_least_once")
    }
    assert levels["exactly_once"] == "one commit moves all tables of the sync and the ledger"
    assert "files are not read back before they count" in levels["at_least_once"]
    of_topics = with_level(replace(plan, source=replace(plan.source, kind="kafka")), found)
    assert "a change that the source's writer repeats is there again" in of_topics.evidence["level"]["level"]


def test_preflight_names_columns_and_folders_that_have_one_name(plan: SyncPlan, tmp_path: Path) -> None:
    odd = Table("Account", (*ACCOUNT.columns, Column("_OP", Kind.STRING, "text")), ("id",))
    place = replace(plan.destination("feed"), namespace=str(tmp_path), options=plan.destination("feed").options)
    said = [one.what for one in problems_of_changes(sync_plan((ACCOUNT, odd)), place)]
    assert any("column _OP of Account has a name of change files' own" in one for one in said)
    assert any("the folder of table Account and that of table account have one name" in one for one in said)


def test_files_are_swapped_where_they_still_follow_each_other() -> None:
    a, b, c, d = (ChangeFile(name, 1, 1, "", (1, 1), 0) for name in "abcd")
    held = HeldTable(ACCOUNT, "parquet", Dialect(), (a, b, c))
    assert held.swapped((b, c), (d,)) == replace(held, files=(a, d))
    assert held.swapped((a, c), (d,)) is None
    assert held.swapped((d,), ()) is None


def test_a_place_of_cuts_takes_no_change_files_and_one_of_change_files_no_cuts() -> None:
    with pytest.raises(Refused, match="cuts were delivered to this place") as changes:
        of_changes.state_from_json(of_cuts.state_to_json(of_cuts.LogState()))
    with pytest.raises(Refused, match="change files lie at this place") as cuts:
        of_cuts.state_from_json(of_changes.state_to_json(ChangesState()))
    assert all("`mode` was changed" in one.value.hint for one in (changes, cuts))
