"""Iceberg as a kind of destination: its declaration becomes a plan, and what it does not take is said by name."""

from pathlib import Path

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.staged_cut import CutSource
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import CutsLiveTables, ReadsBack, described
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.options import LakeOptions, options_of
from seamline.sinks.iceberg.preflight import OF_ICEBERG
from seamline.sinks.lake.grants import grant_script
from seamline.sinks.lake.warehouse import of_names
from seamline.spec.load import load_declarations
from tests.unit.declared import SYNC, write_declarations

LAKE = """\
destination: warehouse
kind: iceberg
connection: catalogue
namespace: settlement
catalog: lake
warehouse: /srv/warehouse
"""
REST = "catalog_type: rest\natomic: true\n"
SINGLE = "catalog_type: glue\n"
WITHOUT_CUTS = SYNC.partition("nightly:")[0]
WITH_PLAIN_CUTS = SYNC.replace("  expectations: settlement\n", "")
FILE = "destinations/warehouse.yaml"


def test_a_declaration_becomes_a_plan_that_says_where_files_and_pointers_lie(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {FILE: LAKE, "syncs/settlement.yaml": WITHOUT_CUTS})
    plan = compile_plan(load_declarations(folder), "settlement")
    (destination,) = plan.destinations
    assert (destination.kind, destination.connection, destination.namespace) == ("iceberg", "catalogue", "settlement")
    assert options_of(destination) == LakeOptions("lake", "/srv/warehouse", "native")
    assert plan_from_json(plan_to_json(plan)) == plan


def test_a_plan_carries_the_connection_of_a_store_by_its_id(tmp_path: Path) -> None:
    lake = LAKE.replace("warehouse: /srv/warehouse", "warehouse: s3://lake/tables/\nwarehouse_connection: objects")
    changed = {FILE: lake, "syncs/settlement.yaml": WITHOUT_CUTS}
    (destination,) = compile_plan(load_declarations(write_declarations(tmp_path, changed)), "settlement").destinations
    assert options_of(destination) == LakeOptions("lake", "s3://lake/tables", "native", warehouse_connection="objects")


def test_a_rest_catalogue_that_moves_all_tables_at_once_is_a_destination(tmp_path: Path) -> None:
    changed = {FILE: f"{LAKE}{REST}", "syncs/settlement.yaml": WITHOUT_CUTS}
    (destination,) = compile_plan(load_declarations(write_declarations(tmp_path, changed)), "settlement").destinations
    assert options_of(destination) == LakeOptions("lake", "/srv/warehouse", "native", catalog_type="rest")


def test_a_sync_with_cuts_into_a_rest_catalogue_has_neither_derived_tables_nor_checks_of_rows(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_declarations(write_declarations(tmp_path, {FILE: f"{LAKE}{REST}"}))
    said = str(refused.value)
    assert "`warehouse` has a REST catalogue, and derived tables there are not built" in said
    assert "Leave `reconcile.expectations` out" in said
    plain = WITH_PLAIN_CUTS.partition("derived:")[0]
    load_declarations(write_declarations(tmp_path / "plain", {FILE: f"{LAKE}{REST}", "syncs/settlement.yaml": plain}))


CLOSING = """\
  rules:
    - name: r
      table: {table}
      roll_forward: {{amount: balance, movements: {{table: ledger_entry, amount: amount}}}}
"""


@pytest.mark.parametrize(
    ("closing_of", "catalogue", "said"),
    [
        ("ledger_entry", "", "the cuts of destination `warehouse` hold all dates of `ledger_entry`"),
        ("account", REST, "Leave `reconcile.rules` out"),
    ],
)
def test_a_rule_that_cannot_be_checked_in_a_lake_is_refused(
    tmp_path: Path, closing_of: str, catalogue: str, said: str
) -> None:
    sync = WITH_PLAIN_CUTS.partition("derived:")[0].rstrip()
    ruled = f"{sync}\n{CLOSING.format(table=closing_of)}"
    with pytest.raises(ConfigError) as refused:
        load_declarations(write_declarations(tmp_path, {FILE: f"{LAKE}{catalogue}", "syncs/settlement.yaml": ruled}))
    assert said in str(refused.value)
    fine = f"{sync}\n{CLOSING.format(table='account')}"
    load_declarations(write_declarations(tmp_path / "fine", {FILE: LAKE, "syncs/settlement.yaml": fine}))


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("write: java", "got 'java'"),
        ("warehouse: gs://bucket/x", "absolute path of a folder .* or a bucket of S3"),
        ("warehouse_connection: objects", "the warehouse is a folder"),
        ("warehouse: hdfs://namenode:8020/x\nwrite: spark", "does not write to HDFS yet"),
        ("warehouse: there", "absolute path"),
        ("catalog_type: rest", "must move all tables of one `transactions/commit` at once.*`atomic: true`"),
        (f"{REST}write: spark", "does not write into a REST catalogue yet: `write: native`"),
        (f"{REST}writer_connection: writer", "leave `writer_connection` out"),
        ("warehouse: /srv/lake#1", "has '#' in its path"),
        ("warehouse: /srv/lake?", r"has '\?' in its path"),
        ("catalog_type: hive", "name as `catalog_connection` what leads to the metastore"),
        ("catalog_connection: metastore", "`connection` leads to this catalogue: leave `catalog_connection` out"),
        (f"{SINGLE}write: spark", "does not write beside such a catalogue yet: `write: native`"),
        (f"namespace: Bank\n{SINGLE}", "keeps names in lower case"),
        ("catalog_type: nessie", "must be one of jdbc, rest, hive, glue"),
    ],
)
def test_what_it_does_not_do_yet_is_refused_with_the_reason(tmp_path: Path, added: str, said: str) -> None:
    key = added.partition(":")[0]
    lines = [line for line in LAKE.splitlines() if not line.startswith(f"{key}:")]
    changed = {FILE: "\n".join([*lines, added, ""]), "syncs/settlement.yaml": WITHOUT_CUTS}
    with pytest.raises(ConfigError, match=said):
        load_declarations(write_declarations(tmp_path, changed))


@pytest.mark.parametrize("more", ["catalog_type: hive\ncatalog_connection: metastore\n", "catalog_type: glue\n"])
def test_a_catalogue_that_commits_single_tables_makes_a_kind_whose_level_says_so(tmp_path: Path, more: str) -> None:
    plan = compile_plan(load_declarations(write_declarations(tmp_path, {FILE: f"{LAKE}{more}"})), "settlement")
    (lake,) = (one for one in plan.destinations if one.name == "warehouse")
    assert lake.kind == "iceberg_single"
    assert options_of(lake).is_single
    kind = sink_kind(lake.kind)
    assert kind.powers.level == "each table exactly once; all tables at one position by the ledger's versions"
    said = kind.grant_script(lake, "lake", logins=DestinationLogins())
    assert ("glue:UpdateTable" in said) == ("glue" in more)
    assert "public.iceberg_tables" not in said


def test_a_sync_with_all_stages_of_a_night_goes_there(tmp_path: Path) -> None:
    plan = compile_plan(load_declarations(write_declarations(tmp_path, {FILE: LAKE})), "settlement")
    assert plan.nightly and plan.derived and plan.reconcile.expectations


def test_explain_says_what_its_cuts_are(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {FILE: LAKE, "syncs/settlement.yaml": WITH_PLAIN_CUTS})
    plan = compile_plan(load_declarations(folder), "settlement")
    said = " ".join(explain(plan).split())
    assert "live tables in settlement, cuts hold these very tables, whole, as they stand at one position" in said
    assert "for warehouse: holds the stream at an END, keeps hold of the live tables at that P" in said
    assert "settlement_cut" not in said
    assert "stages, digests" not in said


def test_it_says_what_it_can_do() -> None:
    kind = sink_kind("iceberg")
    assert isinstance(kind, ReadsBack)
    assert isinstance(kind, CutsLiveTables)
    assert kind.spec().cut_source is CutSource.LIVE
    assert "one commit moves all tables of the sync and the ledger" in described(kind)


def test_the_grants_of_the_catalogue_are_two_roles_or_one() -> None:
    destination = DestinationPlan("warehouse", "iceberg", "catalogue", "settlement")
    script = sink_kind("iceberg").grant_script(destination, "lake", logins=DestinationLogins("p", "w"))
    assert 'GRANT USAGE, CREATE ON SCHEMA public TO "p";' in script
    assert 'ALTER DEFAULT PRIVILEGES FOR ROLE "p" GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO "w";' in script
    alone = sink_kind("iceberg").grant_script(destination, "lake", logins=DestinationLogins("p", "p"))
    assert alone.count("CREATE ROLE") == 1
    assert "DEFAULT PRIVILEGES" not in alone


def test_the_page_of_grants_shows_what_the_script_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    assert f"```sql\n{grant_script('lake', logins=DestinationLogins())}```" in page


def test_a_plan_without_its_options_is_of_an_earlier_version() -> None:
    with pytest.raises(Refused, match="does not say its catalog"):
        options_of(DestinationPlan("warehouse", "iceberg", "catalogue", "settlement"))


def test_names_that_are_one_to_an_engine_are_found_before_anything_is_written() -> None:
    columns = [Column(name, Kind.STRING, "text") for name in ("a", "A", "seamline_row_hash", "_file", "b")]
    assert [what for what, _ in of_names(Table("t", tuple(columns)), reserved=OF_ICEBERG)] == [
        "columns a and A of table t are one to Spark",
        "column seamline_row_hash of table t has the name of the hash of rows without a key",
        "column _file of table t has a name that clients keep for themselves",
    ]
