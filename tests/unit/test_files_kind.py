"""Files as a kind of destination: it has nights and nothing else, and what it cannot honour is refused by name."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import ConfigError, Refused
from seamline.files.dialect import Dialect
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import HoldsCuts, ReadsBack, described
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import SyncPlan, TablePlan
from seamline.plan.stages import all_stages, concerned
from seamline.sinks.files.options import Total, options_of
from seamline.sinks.files.preflight import problems, problems_of_changes
from seamline.sinks.files.spec import FilesDestination
from seamline.spec.load import load_declarations
from tests.unit.declared import SYNC, write_declarations

PARTNER = """\
destination: partner
kind: files
connection: partner_sftp
location: sftp:///incoming/settlement
staging: /srv/seamline/staging
csv: {delimiter: "|", encoding: gb18030, header: true, trailer: true}
control_totals:
  - {table: ledger_entry, sum: amount, by: [currency]}
"""
FILE, SYNC_FILE = "destinations/partner.yaml", "syncs/settlement.yaml"
BOTH = SYNC.partition("  expectations:")[0].replace("[warehouse]", "[warehouse, partner]")


def declared(folder: Path, partner: str = PARTNER, sync: str = BOTH) -> Path:
    return write_declarations(folder, {FILE: partner, SYNC_FILE: sync})


@pytest.fixture
def plan(tmp_path: Path) -> SyncPlan:
    return compile_plan(load_declarations(declared(tmp_path)), "settlement")


def test_a_declaration_becomes_a_plan_of_a_destination_that_takes_cuts_only(plan: SyncPlan) -> None:
    partner = plan.destination("partner")
    assert (partner.kind, partner.connection, partner.namespace) == (
        "files",
        "partner_sftp",
        "sftp:///incoming/settlement",
    )
    options = options_of(partner)
    assert options.dialect == Dialect("|", "gb18030", header=True, trailer=True)
    assert options.totals_of("ledger_entry") == (Total("ledger_entry", "amount", ("currency",)),)
    assert options.totals_of("account") == ()
    assert plan_from_json(plan_to_json(plan)) == plan
    assert plan.cuts_only == (partner,)


def test_nights_alone_are_about_it(plan: SyncPlan) -> None:
    about = {kind: concerned(plan, kind).destination_names for kind in all_stages(plan)}
    assert about.pop("nightly") == {"warehouse", "partner"}
    assert set(about.values()) == {frozenset({"warehouse"})}
    said = " ".join(explain(plan).split())
    assert "partner (files): publishes as partner_sftp; cuts in sftp:///incoming/settlement, no live tables" in said


def said_of_expectations(plan: SyncPlan) -> tuple[str, str]:
    (stage,) = (one for one in all_stages(plan)["nightly"] if one.id == "expectations")
    return stage.title, stage.does


def test_no_stage_says_that_rows_are_checked_where_nobody_looks_at_rows(tmp_path: Path, plan: SyncPlan) -> None:
    """Of files alone it read that keys of staged tables are unique, above `no checks by Great Expectations`."""
    alone = compile_plan(
        load_declarations(declared(tmp_path / "alone", sync=BOTH.replace("[warehouse, partner]", "[partner]"))),
        "settlement",
    )
    alone = replace(alone, reconcile=replace(alone.reconcile, rules=()))
    title, does = said_of_expectations(alone)
    assert title == "Great Expectations on what was found"
    assert "no rows of the cut are looked at" in does
    assert "keys" not in does
    assert "no checks of rows by Great Expectations" in described(sink_kind("files"))
    title, does = said_of_expectations(replace(plan, reconcile=replace(plan.reconcile, rules=())))
    assert title == "Great Expectations on the staged cut"
    assert "keys of staged tables in warehouse are unique" in does
    assert plan_from_json(plan_to_json(alone)) == alone


def test_a_folder_of_this_machine_has_no_connection_and_stages_beside_what_it_delivers(tmp_path: Path) -> None:
    partner = "destination: partner\nkind: files\nlocation: /srv/outgoing\n"
    plan = compile_plan(load_declarations(declared(tmp_path, partner), connections={}), "settlement")
    destination = plan.destination("partner")
    assert (destination.connection, options_of(destination).staging) == ("", "/srv/outgoing/.seamline/_staging")
    assert "partner (files): publishes as the account of its tasks" in " ".join(explain(plan).split())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("location: gs://there/x", "begins with s3://, sftp://, ftp://"),
        ("location: outgoing", "an absolute path"),
        ("location: sftp://partner.example/incoming", "the connection says the server"),
        ("location: s3:///incoming", "s3://bucket/folder"),
        ("location: /srv/outgoing", "leave `connection` out"),
        ("staging: sftp:///staging", "a folder that every machine"),
        ("staging:", "staging"),
        ("writer_connection: partner_writer", "one login writes here"),
        ("flag_file: a/b", "the name of a file"),
        ("flag_file: control.json", "are one name"),
        ("flag_file: _placed", "_prepared and _placed are names of our own"),
        ("control_file: _Prepared", "_prepared and _placed are names of our own"),
        ("format: parquet", "no header and no trailer"),
        ('csv: {delimiter: "-"}', "neither quotes nor stands in numbers"),
        ('csv: {delimiter: "||"}', "one sign"),
        ('csv: {delimiter: "\\0"}', "one sign"),
        ('csv: {delimiter: ";", null: "N;A"}', "`null` 'N;A' holds the delimiter ';'"),
        ("csv: {encoding: shift_jis, null: é}", "'é' of `null` is no letter of shift_jis"),
        ("csv: {encoding: shift_jis, null: ¥}", "'¥' of `null` is no letter of shift_jis"),
        ("csv: {'null': '\"'}", "holds neither quotes"),
        ("csv: {encoding: utf-16}", "utf-8"),
    ],
)
def test_a_key_that_it_cannot_honour_is_refused(tmp_path: Path, changed: str, said: str) -> None:
    key = changed.partition(":")[0]
    lines = [line for line in PARTNER.splitlines() if not line.startswith(f"{key}:")]
    with pytest.raises(ConfigError, match=said):
        load_declarations(declared(tmp_path, "\n".join([*lines, changed, ""])))


def test_a_place_on_a_server_needs_a_connection_and_a_staging(tmp_path: Path) -> None:
    for key, said in (("connection", "name its `connection`"), ("staging", "name a folder as `staging`")):
        lines = [line for line in PARTNER.splitlines() if not line.startswith(f"{key}:")]
        with pytest.raises(ConfigError, match=said):
            load_declarations(declared(tmp_path, "\n".join([*lines, ""])))


def test_a_sync_that_it_does_not_go_with_is_refused(tmp_path: Path) -> None:
    for sync, said in (
        (BOTH.partition("nightly:")[0], "takes cuts only, and this sync makes none"),
        (SYNC.replace("[warehouse]", "[warehouse, partner]"), "cannot have derived tables computed"),
        (SYNC.replace("[warehouse]", "[warehouse, partner]"), "cannot have its rows checked by Great Expectations"),
    ):
        with pytest.raises(ConfigError) as refused:
            load_declarations(declared(tmp_path, sync=sync))
        assert said in str(refused.value)


def test_two_destinations_with_one_place_are_refused(tmp_path: Path) -> None:
    other = PARTNER.replace("destination: partner", "destination: other").replace("settlement\n", "settlement/\n")
    sync = BOTH.replace("[warehouse, partner]", "[warehouse, partner, other]")
    files = {FILE: PARTNER, "destinations/other.yaml": other, SYNC_FILE: sync}
    with pytest.raises(ConfigError, match="has the folder sftp:///incoming/settlement of connection partner_sftp too"):
        load_declarations(write_declarations(tmp_path, files))


def test_change_files_and_a_delivery_in_one_place_are_refused(tmp_path: Path) -> None:
    """Of two syncs, and however the place is written: each would find the other's log of manifests."""
    partner = "destination: partner\nkind: files\nlocation: /srv/outgoing\n"
    changes = "destination: feed\nkind: files\nmode: changes\nlocation: /srv//outgoing/.\n"
    second = SYNC.partition("nightly:")[0].replace("sync: settlement", "sync: second").replace("[warehouse]", "[feed]")
    files = {FILE: partner, "destinations/feed.yaml": changes, SYNC_FILE: BOTH, "syncs/second.yaml": second}
    with pytest.raises(ConfigError, match="destination `partner` .* has the folder /srv/outgoing too"):
        load_declarations(write_declarations(tmp_path, files))


@pytest.mark.parametrize("total", [{"sum": "rows"}, {"sum": "a", "by": ["rows"]}, {"sum": "a", "by": ["a"]}])
def test_a_control_total_with_two_things_under_one_name_is_refused(total: dict[str, object]) -> None:
    given = {"destination": "p", "kind": "files", "location": "/srv/out", "control_totals": [{"table": "t", **total}]}
    with pytest.raises(ValidationError, match="the control file would have two things under the name"):
        FilesDestination.model_validate(given)


def test_a_control_total_that_the_source_has_no_column_for_is_a_misfit() -> None:
    totals = [{"table": "entry", "sum": "amount", "by": ["ccy"]}, {"table": "entry", "sum": "text"}]
    given = {"destination": "p", "kind": "files", "location": "/srv/out", "control_totals": totals}
    spec = FilesDestination.model_validate(given)
    columns = (
        Column("amount", Kind.DECIMAL, "decimal(9,2)", precision=9, scale=2),
        Column("text", Kind.STRING, "text"),
    )
    found = list(spec.misfits({"entry": Table("entry", columns)}))
    assert [(place, what) for place, what, _ in found] == [
        (("control_totals", 0, "by"), "table entry has no column ccy"),
        (("control_totals", 1, "sum"), "entry.text is text"),
    ]


def test_the_preflight_names_folders_that_are_not_there_and_files_of_one_name(plan: SyncPlan, tmp_path: Path) -> None:
    options = dict(plan.destination("partner").options)
    partner = replace(
        plan.destination("partner"),
        namespace=str(tmp_path / "out"),
        connection="",
        options=tuple({**options, "staging": str(tmp_path / "stage")}.items()),
    )
    tables = tuple(TablePlan(name, None, Table(name, ())) for name in ("a", "A"))
    found = [one.what for one in problems(replace(plan, tables=tables), partner)]
    assert found == [
        f"destination partner: the location {tmp_path}/out is no folder here",
        f"destination partner: the staging {tmp_path}/stage is no folder here",
        "destination partner: the file of table A and that of table a have one name",
    ]
    for name in ("out", "stage"):
        (tmp_path / name).mkdir()
    assert not problems(replace(plan, tables=tables[:1]), partner)


def test_the_preflight_names_a_folder_without_hard_links(
    plan: SyncPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refused)
    options = {**dict(plan.destination("partner").options), "staging": str(tmp_path)}
    partner = replace(
        plan.destination("partner"), namespace=str(tmp_path), connection="", options=tuple(options.items())
    )
    for found in (problems(plan, partner), problems_of_changes(plan, partner)):
        assert [one.what for one in found] == [
            f"destination partner: no hard link can be made in {tmp_path}: Operation not supported"
        ]


def test_it_says_what_it_can_do_and_at_which_level(plan: SyncPlan) -> None:
    kind = sink_kind("files")
    assert isinstance(kind, ReadsBack)
    assert isinstance(kind, HoldsCuts)
    assert described(kind)[0] == "no live tables and no stream: cuts only"
    assert described(kind)[1].startswith("a publish shows files one by one, and its flag once")
    partner = plan.destination("partner")
    assert "no database to grant in" in kind.grant_script(partner, "", logins=DestinationLogins())
    with pytest.raises(Refused, match="takes cuts by business date only"):
        kind.open_live(plan, partner, 1)
