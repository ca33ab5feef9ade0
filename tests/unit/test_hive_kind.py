"""Hive as a kind of destination: it has nights and nothing else, and what that does not go with is refused by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from seamline.domain.errors import ConfigError
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import HoldsCuts, ReadsBack, described
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.plan.stages import all_stages, concerned
from seamline.sinks.hive.grants import grant_script
from seamline.sinks.hive.options import HiveOptions, options_of
from seamline.spec.load import load_declarations, onboarded_destinations
from seamline.sync.log_pruning import log_users
from tests.unit.declared import SYNC, write_declarations

ARCHIVE = """\
destination: archive
kind: hive
connection: archive_rows
metastore: archive_metastore
database: settlement
warehouse: /srv/hive
"""
FILE, SYNC_FILE = "destinations/archive.yaml", "syncs/settlement.yaml"
BOTH = SYNC.partition("  expectations:")[0].replace("[warehouse]", "[warehouse, archive]")


def declared(folder: Path, sync: str = BOTH, archive: str = ARCHIVE) -> Path:
    return write_declarations(folder, {FILE: archive, SYNC_FILE: sync})


@pytest.fixture
def plan(tmp_path: Path) -> SyncPlan:
    return compile_plan(load_declarations(declared(tmp_path)), "settlement")


def test_a_declaration_becomes_a_plan_of_a_destination_that_takes_cuts_only(plan: SyncPlan) -> None:
    archive = plan.destination("archive")
    assert (archive.kind, archive.connection, archive.namespace) == ("hive", "archive_rows", "settlement")
    assert options_of(archive) == HiveOptions("archive_metastore", "/srv/hive")
    assert plan_from_json(plan_to_json(plan)) == plan
    assert plan.cuts_only == (archive,)
    assert plan.streamed.destination_names == {"warehouse"}


def test_nights_alone_are_about_it(plan: SyncPlan) -> None:
    about = {kind: concerned(plan, kind).destination_names for kind in all_stages(plan)}
    assert about.pop("nightly") == {"warehouse", "archive"}
    assert set(about.values()) == {frozenset({"warehouse"})}
    assert all_stages(plan)["onboard"] == all_stages(plan.streamed)["onboard"]
    said = " ".join(explain(plan).split())
    assert "archive (hive): publishes as archive_rows; cuts in settlement, no live tables and no stream" in said
    assert "publish_rest" in said


def test_a_sync_without_live_tables_has_an_onboarding_of_two_steps_and_nights(tmp_path: Path) -> None:
    folder = declared(tmp_path, BOTH.replace("[warehouse, archive]", "[archive]"))
    plan = compile_plan(load_declarations(folder), "settlement")
    stages = all_stages(plan)
    assert set(stages) == {"onboard", "nightly"}
    assert [stage.id for stage in stages["onboard"]] == ["preflight", "enable"]
    assert [stage.id for stage in stages["nightly"]][-1] == "publish"
    assert not {"live;", "connector"} & set(explain(plan).partition("settlement__onboard")[0].split())


def test_the_log_waits_for_no_ledger_of_it(plan: SyncPlan) -> None:
    (users,) = log_users([plan], {}, ())
    assert [one.name for one in users.destinations] == ["warehouse"]


def test_it_is_not_said_to_wait_for_its_first_load(tmp_path: Path) -> None:
    assert onboarded_destinations(declared(tmp_path), "settlement") == ("warehouse",)


def test_a_kind_that_is_not_known_counts_as_one_to_be_onboarded(tmp_path: Path) -> None:
    folder = declared(tmp_path, archive=ARCHIVE.replace("kind: hive", "kind: hvie"))
    assert onboarded_destinations(folder, "settlement") == ("warehouse", "archive")


@pytest.mark.parametrize(
    ("sync", "said"),
    [
        (BOTH.partition("nightly:")[0], "destination `archive` (hive) takes cuts only, and this sync makes none"),
        (SYNC.replace("[warehouse]", "[warehouse, archive]"), "cannot have derived tables computed"),
    ],
)
def test_a_sync_that_it_does_not_go_with_is_refused(tmp_path: Path, sync: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_declarations(declared(tmp_path, sync))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("database: Bank", "lower case"),
        ("warehouse: hdfs://there", "S3 and HDFS are not built yet"),
        ("writer_connection: archive_writer", "no stream writes here"),
    ],
)
def test_a_key_that_it_cannot_honour_is_refused(tmp_path: Path, changed: str, said: str) -> None:
    key = changed.partition(":")[0]
    lines = [line for line in ARCHIVE.splitlines() if not line.startswith(f"{key}:")]
    with pytest.raises(ConfigError, match=said):
        load_declarations(declared(tmp_path, archive="\n".join([*lines, changed, ""])))


def test_the_metastore_s_connection_is_looked_up_too(tmp_path: Path) -> None:
    known = {"core_bank": "mysql", "core_bank_capture": "mysql", "warehouse": "postgres", "archive_rows": "postgres"}
    folder = declared(tmp_path)
    with pytest.raises(ConfigError, match="there is no connection `archive_metastore` here"):
        load_declarations(folder, connections=known)
    with pytest.raises(ConfigError, match="kind hive needs type hive_metastore"):
        load_declarations(folder, connections={**known, "archive_metastore": "postgres"})
    load_declarations(folder, connections={**known, "archive_metastore": "hive_metastore"})


def test_it_says_what_it_can_do_and_at_which_level() -> None:
    kind = sink_kind("hive")
    assert isinstance(kind, ReadsBack)
    assert isinstance(kind, HoldsCuts)
    assert described(kind)[:2] == (
        "no live tables and no stream: cuts only",
        "a publish shows each table at once; all tables of a date stand at one position by the cut's rows",
    )


def test_the_page_of_grants_shows_what_the_script_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    script = grant_script("archive", logins=DestinationLogins())
    assert f"```sql\n{script}```" in page
    plan = DestinationPlan("archive", "hive", "archive_rows", "settlement")
    assert sink_kind("hive").grant_script(plan, "archive", logins=DestinationLogins()) == script


def test_a_plan_from_before_there_were_such_destinations_has_live_tables(plan: SyncPlan) -> None:
    text = plan_to_json(replace(plan, destinations=plan.streamed.destinations))
    assert plan_from_json(text.replace('"cuts_only":false,', "").replace(',"cuts_only":false', "")) == plan.streamed
