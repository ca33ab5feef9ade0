"""What `seamline demo --with lake` adds: a destination of its sync, and what is said of the tables in the report."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from seamline import settings
from seamline.adapters.connections import resolve
from seamline.cli.demo import SYNC
from seamline.cli.main import main
from seamline.demo import lake
from seamline.demo.extras import EXTRAS
from seamline.domain.errors import ConfigError
from seamline.plan.compile import compile_plan
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.lake.files import path_of
from seamline.spec.load import Declarations, load_declarations
from seamline.stack import credentials
from seamline.stack.lake import PUBLISHER, WRITER
from seamline.stack.layout import Layout
from tests.contract.behaviours import published
from tests.contract.lake_worlds import MemoryCatalogueWorld
from tests.log_topic import TABLES


@pytest.fixture
def layout(checkout: Path, tmp_path: Path) -> Layout:
    """With a folder of declarations that holds the demo's own."""
    declared = tmp_path / "declared"
    files = ("sources/core_bank.yaml", "syncs/settlement.yaml", "expectations/settlement.yaml")
    for file in (*files, "transforms/daily_balance.sql"):
        (declared / file).parent.mkdir(parents=True)
        (declared / file).write_bytes((checkout / "include" / file).read_bytes())
    (declared / "destinations").mkdir()
    for name in ("archive", "warehouse"):
        file = f"destinations/{name}.yaml"
        (declared / file).write_bytes((checkout / "include" / file).read_bytes())
    given = {"SEAMLINE_DATA": str(tmp_path / "data: of [1]"), "SEAMLINE_DECLARATIONS": str(declared)}
    return Layout(settings.load(given))


def declared(layout: Layout) -> Declarations:
    return load_declarations(layout.settings.declarations)


def sync_file(layout: Layout) -> Path:
    return layout.settings.declarations / "syncs" / f"{SYNC}.yaml"


def test_a_name_that_the_demo_does_not_know_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--with", "lake,laek"]) == ConfigError.exit_code
    said = capsys.readouterr()
    assert "nothing called `laek`" in said.err and f"known are {', '.join(EXTRAS)}" in said.err
    assert said.out == "", "before anything is started"


def test_the_lake_becomes_one_more_destination_of_the_demo_s_sync_and_nothing_else_changes(layout: Layout) -> None:
    before, text = compile_plan(declared(layout), SYNC), sync_file(layout).read_text(encoding="utf-8")
    for _ in range(2):
        lake.declare(layout, SYNC)
    plan = compile_plan(declared(layout), SYNC)
    assert [one.name for one in plan.destinations] == ["warehouse", "archive", "lake"]
    assert replace(plan.source, name_limits=before.source.name_limits) == before.source, "one capture, one log"
    assert (plan.tables, plan.derived, plan.reconcile) == (before.tables, before.derived, before.reconcile)
    assert options_of(plan.destination("lake")).warehouse == str(layout.lake)
    assert sync_file(layout).read_text(encoding="utf-8").replace(", lake]", "]") == text, "comments too"


def test_a_second_demo_takes_the_stack_s_warehouse_and_leaves_what_a_person_wrote(
    layout: Layout, tmp_path: Path
) -> None:
    lake.declare(layout, SYNC)
    edited = sync_file(layout).read_text(encoding="utf-8").replace("lag_max_s: 60", "lag_max_s: 61")
    sync_file(layout).write_text(edited, encoding="utf-8")
    given = {"SEAMLINE_DATA": str(tmp_path / "other"), "SEAMLINE_DECLARATIONS": str(layout.settings.declarations)}
    lake.declare(Layout(settings.load(given)), SYNC)
    plan = compile_plan(declared(layout), SYNC)
    assert plan.stream.lag_max_s == 61
    assert options_of(plan.destination("lake")).warehouse == str(tmp_path / "other" / "lake")


def test_a_list_of_destinations_in_another_form_is_left_to_the_person_who_wrote_it(layout: Layout) -> None:
    text = sync_file(layout).read_text(encoding="utf-8")
    listed = text.replace("destinations: [warehouse, archive]", "destinations:\n  - warehouse\n  - archive\n")
    sync_file(layout).write_text(listed, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"add `lake` to them"):
        lake.declare(layout, SYNC)
    assert sync_file(layout).read_text(encoding="utf-8") == listed


def test_the_lake_s_logins_keep_their_passwords_and_nobody_else_loses_one(layout: Layout) -> None:
    made = credentials.load_or_make(layout)
    credentials.write_files(layout, made)
    for _ in range(2):
        for connection_id in (PUBLISHER, WRITER):
            credentials.add_postgres_login(layout, connection_id, login=connection_id, database="lake")
        # As the next `up` does.
        known = credentials.load_or_make(layout)
        credentials.write_files(layout, known)
    assert known.items() >= made.items()
    found = {connection_id: resolve(connection_id, within=layout.settings) for connection_id in (PUBLISHER, WRITER)}
    assert {one.password for one in found.values()} == {known[PUBLISHER], known[WRITER]}
    assert found[PUBLISHER].password != found[WRITER].password
    assert resolve("warehouse", within=layout.settings).password == made["warehouse"]


def test_the_report_names_each_table_s_snapshot_and_its_tags(tmp_path: Path) -> None:
    world = MemoryCatalogueWorld(TABLES, tmp_path)
    published(world)
    heads = dict(world.seen().heads)
    tagged = path_of(heads["account"])
    metadata = json.loads(tagged.read_bytes())
    newest = metadata["current-snapshot-id"]
    for tag in ("cut_b", "cut_a"):
        metadata.setdefault("refs", {})[tag] = {"snapshot-id": newest, "type": "tag"}
    tagged.write_text(json.dumps(metadata), encoding="utf-8")
    lines = list(lake.snapshots_in_words(heads))
    assert [line.split()[0] for line in lines] == sorted(heads)
    (account,) = [line for line in lines if line.split()[0] == "account"]
    assert account.endswith(f"snapshot {newest}, tags cut_a, cut_b")
    assert all(line.endswith("no tags") for line in lines if line != account)
