"""Delta and Hudi as kinds of destination: a declaration becomes a plan, and what is not taken is said by name."""

from pathlib import Path

import pytest

from seamline.domain.errors import ConfigError, Refused
from seamline.domain.staged_cut import CutSource
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import CutsLiveTables, ReadsAtOnePosition, ReadsBack, described
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import DestinationPlan
from seamline.sinks.delta.options import options_of as delta_options
from seamline.sinks.hudi.options import options_of as hudi_options
from seamline.sinks.lake.warehouse import of_namespace
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import declared_kinds, load_declarations
from tests.unit.declared import SYNC, write_declarations

LAKE = """\
destination: warehouse
kind: {kind}
connection: ledger
namespace: settlement
warehouse: /srv/warehouse
"""
WITHOUT_CUTS = SYNC.partition("nightly:")[0]
WITH_PLAIN_CUTS = SYNC.partition("  expectations:")[0]
FILE = "destinations/warehouse.yaml"
OPTIONS = {"delta": delta_options, "hudi": hudi_options}


@pytest.fixture(params=OPTIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def declared(kind: str) -> str:
    return LAKE.replace("{kind}", kind)


def test_a_declaration_becomes_a_plan_that_says_where_tables_and_ledger_lie(kind: str, tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {FILE: declared(kind), "syncs/settlement.yaml": WITHOUT_CUTS})
    assert declared_kinds(folder, "settlement") == {"warehouse": kind}
    plan = compile_plan(load_declarations(folder), "settlement")
    (destination,) = plan.destinations
    assert (destination.kind, destination.connection, destination.namespace) == (kind, "ledger", "settlement")
    assert OPTIONS[kind](destination).warehouse == "/srv/warehouse"
    assert plan_from_json(plan_to_json(plan)) == plan


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("warehouse: s3://bucket/x", "of the lakes Iceberg alone has one on S3 or HDFS"),
        ("warehouse: there", "absolute path"),
    ],
)
def test_what_it_does_not_do_yet_is_refused_with_the_reason(kind: str, tmp_path: Path, added: str, said: str) -> None:
    lines = [line for line in declared(kind).splitlines() if not line.startswith("warehouse:")]
    changed = {FILE: "\n".join([*lines, added, ""]), "syncs/settlement.yaml": WITHOUT_CUTS}
    with pytest.raises(ConfigError, match=said):
        load_declarations(write_declarations(tmp_path, changed))


@pytest.mark.parametrize(
    ("connection", "namespace", "warehouse", "said"),
    [
        ("ledger", "Settlement", "/srv/other", "has settlement of connection `ledger` too"),
        ("another", "settlement", "/srv//warehouse/", "has the folder /srv/warehouse/settlement too"),
        ("another", "settlement", "/srv/another", ""),
        ("ledger", "elsewhere", "/srv/warehouse", ""),
    ],
)
def test_two_syncs_do_not_bring_tables_to_one_place_by_two_destinations(
    kind: str, tmp_path: Path, connection: str, namespace: str, warehouse: str, said: str
) -> None:
    other = declared(kind).replace("destination: warehouse", "destination: lake").replace("ledger", connection)
    other = other.replace("settlement", namespace).replace("/srv/warehouse", warehouse)
    second = "sync: audit\nsource: core_bank\ndestinations: [lake]\ntables: [audit_log]\n"
    changed = {FILE: declared(kind), "destinations/lake.yaml": other, "syncs/settlement.yaml": WITHOUT_CUTS}
    load_declarations(write_declarations(tmp_path, changed))
    files = {**changed, "syncs/audit.yaml": second}
    if not said:
        load_declarations(write_declarations(tmp_path, files))
        return
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, files))
    here, there = caught.value.faults
    assert (here.file.name, here.line, there.file.name, there.line) == ("lake.yaml", 4, "warehouse.yaml", 4)
    assert here.cause.startswith(f"destination `warehouse` ({tmp_path}/{FILE}:4) has ")
    assert said in there.cause


def test_two_destinations_of_one_sync_with_one_folder_are_refused(tmp_path: Path) -> None:
    lake = declared("hudi").replace("destination: warehouse", "destination: lake").replace("ledger", "another")
    both = WITHOUT_CUTS.replace("[warehouse]", "[warehouse, lake]")
    files = {FILE: declared("delta"), "destinations/lake.yaml": lake, "syncs/settlement.yaml": both}
    with pytest.raises(
        DeclarationsInvalid, match=r"lake\.yaml:4  namespace: .* has the folder /srv/warehouse/settlement"
    ):
        load_declarations(write_declarations(tmp_path, files))


def test_explain_says_what_its_cuts_are(kind: str, tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {FILE: declared(kind), "syncs/settlement.yaml": WITH_PLAIN_CUTS})
    said = " ".join(explain(compile_plan(load_declarations(folder), "settlement")).split())
    assert "live tables in settlement, cuts hold these very tables, whole, as they stand at one position" in said


def test_it_says_what_it_can_do(kind: str) -> None:
    found = sink_kind(kind)
    assert isinstance(found, ReadsBack)
    assert isinstance(found, CutsLiveTables)
    assert isinstance(found, ReadsAtOnePosition)
    assert found.spec().cut_source is CutSource.LIVE
    promised = "each table exactly once; all tables at one position by the ledger's versions"
    assert promised in described(found)
    assert found.powers.level == promised, "reports say it of the destination"
    assert "cuts without a second copy" in described(found)


def test_a_folder_with_tables_of_another_format_is_found_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "settlement" / "account" / "_delta_log").mkdir(parents=True)
    assert list(of_namespace(str(tmp_path), "settlement", others="metadata")) == []
    ((said, _),) = of_namespace(str(tmp_path), "settlement", others="_delta_log")
    assert said == f"{tmp_path}/settlement/account is a table of another format"


def test_the_grants_of_the_ledger_are_those_of_a_lake(kind: str) -> None:
    destination = DestinationPlan("warehouse", kind, "ledger", "settlement")
    script = sink_kind(kind).grant_script(destination, "lake", logins=DestinationLogins("p", "w"))
    assert 'ALTER DEFAULT PRIVILEGES FOR ROLE "p" GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO "w";' in script
    assert "public" not in script, "the format has no catalogue of its own there"


def test_a_plan_without_its_options_is_of_an_earlier_version(kind: str) -> None:
    with pytest.raises(Refused, match="does not say its warehouse"):
        OPTIONS[kind](DestinationPlan("warehouse", kind, "ledger", "settlement"))
