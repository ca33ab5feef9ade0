"""Delta as a kind of destination: its declaration becomes a plan, and what it does not take is said by name."""

from pathlib import Path

import pytest

from seamline.domain.errors import ConfigError, Refused
from seamline.domain.staged_cut import CutSource
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import CutsLiveTables, ReadsAtOnePosition, ReadsBack, described
from seamline.plan.compile import compile_plan
from seamline.plan.explain import explain
from seamline.plan.model import DestinationPlan, plan_from_json, plan_to_json
from seamline.sinks.delta.options import DeltaOptions, options_of
from seamline.sinks.lake.warehouse import of_namespace
from seamline.spec.load import load_declarations
from tests.unit.declared import SYNC, write_declarations

LAKE = """\
destination: warehouse
kind: delta
connection: ledger
namespace: settlement
warehouse: /srv/warehouse
"""
WITHOUT_CUTS = SYNC.partition("nightly:")[0]
WITH_PLAIN_CUTS = SYNC.partition("  expectations:")[0]
FILE = "destinations/warehouse.yaml"


def test_a_declaration_becomes_a_plan_that_says_where_tables_and_ledger_lie(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {FILE: LAKE, "syncs/settlement.yaml": WITHOUT_CUTS})
    plan = compile_plan(load_declarations(folder), "settlement")
    (destination,) = plan.destinations
    assert (destination.kind, destination.connection, destination.namespace) == ("delta", "ledger", "settlement")
    assert options_of(destination) == DeltaOptions("/srv/warehouse")
    assert plan_from_json(plan_to_json(plan)) == plan


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("warehouse: s3://bucket/x", "of the lakes Iceberg alone has one on S3 or HDFS"),
        ("warehouse: there", "absolute path"),
    ],
)
def test_what_it_does_not_do_yet_is_refused_with_the_reason(tmp_path: Path, added: str, said: str) -> None:
    lines = [line for line in LAKE.splitlines() if not line.startswith("warehouse:")]
    changed = {FILE: "\n".join([*lines, added, ""]), "syncs/settlement.yaml": WITHOUT_CUTS}
    with pytest.raises(ConfigError, match=said):
        load_declarations(write_declarations(tmp_path, changed))


def test_explain_says_what_its_cuts_are(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {FILE: LAKE, "syncs/settlement.yaml": WITH_PLAIN_CUTS})
    said = " ".join(explain(compile_plan(load_declarations(folder), "settlement")).split())
    assert "live tables in settlement, cuts hold these very tables, whole, as they stand at one position" in said


def test_it_says_what_it_can_do() -> None:
    kind = sink_kind("delta")
    assert isinstance(kind, ReadsBack)
    assert isinstance(kind, CutsLiveTables)
    assert isinstance(kind, ReadsAtOnePosition)
    assert kind.spec().cut_source is CutSource.LIVE
    promised = "one commit moves one table; all stand at one position in the versions that the ledger names"
    assert promised in described(kind)
    assert "cuts without a second copy" in described(kind)


def test_a_folder_with_tables_of_another_format_is_found_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "settlement" / "account" / "_delta_log").mkdir(parents=True)
    assert list(of_namespace(str(tmp_path), "settlement", others="metadata")) == []
    ((said, _),) = of_namespace(str(tmp_path), "settlement", others="_delta_log")
    assert said == f"{tmp_path}/settlement/account is a table of another format"


def test_the_grants_of_the_ledger_are_those_of_a_lake() -> None:
    destination = DestinationPlan("warehouse", "delta", "ledger", "settlement")
    script = sink_kind("delta").grant_script(destination, "lake", logins=DestinationLogins("p", "w"))
    assert 'ALTER DEFAULT PRIVILEGES FOR ROLE "p" GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO "w";' in script
    assert "public" not in script, "Delta has no catalogue of its own there"


def test_a_plan_without_its_options_is_of_an_earlier_version() -> None:
    with pytest.raises(Refused, match="does not say its warehouse"):
        options_of(DestinationPlan("warehouse", "delta", "ledger", "settlement"))
