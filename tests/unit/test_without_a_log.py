"""A source without a log: what is declared, planned and said of it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from seamline.domain import installed
from seamline.domain.errors import ConfigError, InvariantViolated
from seamline.domain.position import is_same_place, position_from_json, position_to_json
from seamline.domain.unlogged import UnloggedPosition
from seamline.kinds.found import source_kind
from seamline.kinds.logins import logins_of
from seamline.kinds.source import LoggedKind
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import SyncPlan
from seamline.plan.stages import all_stages
from seamline.registry import logged_source
from seamline.spec.checks import source_connections
from seamline.spec.document import document_of
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations, onboarded_destinations, reads_a_log
from seamline.spec.source import OF_LOG
from seamline.sync.log_pruning import log_users
from tests.unit.declared import DESTINATION, SOURCE, SYNC, write_declarations

UNLOGGED = f"{SOURCE}log: none\n"
BY_JDBC = "source: core_bank\nkind: jdbc\nconnection: core_bank\ndatabase: bank\nschema: PUBLIC\n"
LAKE = "destination: lake\nkind: iceberg\nconnection: lake\nwarehouse: /tmp/lake\nnamespace: settlement\n"
AT = datetime(2026, 11, 29, 0, 31, 5, 250_000, tzinfo=UTC)
READ = UnloggedPosition("settlement/nightly/2026-11-28/1~ab", AT, "snapshot 770:770:")


def planned(folder: Path, **changed: str) -> SyncPlan:
    files = {"sources/core_bank.yaml": UNLOGGED, **{f"syncs/{name}.yaml": text for name, text in changed.items()}}
    return compile_plan(load_declarations(write_declarations(folder, files)), "settlement")


def faults(folder: Path, files: dict[str, str]) -> list[str]:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(folder, {"sources/core_bank.yaml": UNLOGGED, **files}))
    return [str(fault).rpartition("/")[2] for fault in caught.value.faults]


def test_a_plan_names_no_capture_and_its_dags_have_the_stages_that_exist(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    source = plan.source
    assert (source.has_log, source.capture, source.marker, source.log_topic, source.connector) == (False, *[""] * 4)
    assert (plan.streamed.destinations, plan.cuts_only) == ((), plan.destinations)
    assert {kind: [stage.id for stage in stages] for kind, stages in all_stages(plan).items()} == {
        "onboard": ["preflight", "enable"],
        "nightly": ["open", "cut", "verdicts", "expectations", "gate", "approve", "publish"],
    }
    assert plan_from_json(plan_to_json(plan)) == plan


def test_nothing_that_is_explained_of_it_speaks_of_a_stream_that_does_not_exist(tmp_path: Path) -> None:
    text = explain(planned(tmp_path)).partition("seamline__maintenance")[0]
    assert "reads as core_bank; no log, so no stream: each night is one read, proven for that read" in text
    assert "cuts in settlement_cut, staging in settlement_stage, no live tables and no stream" in text
    for word in ("connector", "lag", "marker", "cutover", "capture", "reconcile DAG", "log."):
        assert word not in text, word


def test_neither_maintenance_nor_whoever_reads_a_log_looks_for_one(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert log_users([plan], {}, [plan]) == []
    with pytest.raises(ConfigError, match="source core_bank has no log"):
        logged_source(plan)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("capture_connection: other\n", "`log: none` leaves nothing to capture. Take out capture_connection"),
        ("snapshot: {lock: brief}\n", "`log: none` is read by one session"),
    ],
)
def test_a_source_without_a_log_declares_nothing_that_only_a_log_needs(
    tmp_path: Path, said: str, expected: str
) -> None:
    (found,) = faults(tmp_path, {"sources/core_bank.yaml": UNLOGGED + said})
    assert expected in found


def test_a_kind_that_can_have_no_log_has_no_key_of_one_and_asks_for_one_login(tmp_path: Path) -> None:
    kinds = [source_kind(name) for name in installed.names(installed.SOURCES)]
    unlogged = [kind for kind in kinds if not isinstance(kind, LoggedKind)]
    assert {kind.name for kind in unlogged} >= {"files", "jdbc"}
    assert [kind.name for kind in unlogged if {*OF_LOG} & {*kind.spec().model_fields}] == []
    (found,) = faults(tmp_path, {"sources/core_bank.yaml": f"{BY_JDBC}capture_connection: other\n"})
    assert "capture_connection: unknown key" in found
    write_declarations(tmp_path, {"sources/core_bank.yaml": BY_JDBC})
    asked = source_connections(document_of(tmp_path / "sources" / "core_bank.yaml"))
    assert [connection for _, connection in asked] == ["core_bank"]


def test_a_word_that_is_neither_none_nor_the_settings_of_a_log_is_refused(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, {"sources/core_bank.yaml": f"{SOURCE}log: off_\n"})
    assert found.startswith("core_bank.yaml:5  log: must be `none` or a mapping of keys, got 'off_'")
    (found,) = faults(tmp_path, {"sources/core_bank.yaml": f"{SOURCE}log: {{max_gb: 0}}\n"})
    assert found.startswith("core_bank.yaml:5  log.max_gb: must be more than 0")


def test_a_sync_of_it_has_nights_and_nothing_of_streams(tmp_path: Path) -> None:
    head, _, rest = SYNC.partition("nightly:\n  timezone: Asia/Shanghai\n")
    with_streams = f"{head}nightly: {{timezone: UTC, from: auto}}\nstream: {{lag_max_s: 5}}\n{rest}  mode: log\n"
    found = faults(
        tmp_path,
        {
            "syncs/settlement.yaml": with_streams.replace("  mode: log", "").replace(
                "reconcile:\n", "reconcile:\n  mode: log\n"
            )
        },
    )
    assert [one.split("  ", 1)[1] for one in found] == [
        "nightly.from: source `core_bank` has no log that a cut could be made from. Write `read`, or leave it out",
        "stream: source `core_bank` has no log, so there is no stream. Leave it out",
        "reconcile.mode: source `core_bank` has no log, so there is no stream. Leave it out",
    ]


def test_without_nights_such_a_sync_would_do_nothing(tmp_path: Path) -> None:
    sync = "sync: settlement\nsource: core_bank\ndestinations: [warehouse]\ntables: [account]\n"
    (found,) = faults(tmp_path, {"syncs/settlement.yaml": sync})
    assert "source `core_bank` has no log: the sync would have neither streams nor nights. Declare `nightly`" in found


def test_a_destination_whose_cuts_are_its_live_tables_is_refused_with_the_kinds_that_can(tmp_path: Path) -> None:
    sync = SYNC.replace("[warehouse]", "[warehouse, lake]")
    found = faults(tmp_path, {"destinations/lake.yaml": LAKE, "syncs/settlement.yaml": sync})
    assert [one for one in found if "makes its cuts of live tables" in one and "postgres" in one], found


@pytest.mark.parametrize("kind", ["mariadb", "mysql", "postgres"])
def test_its_script_grants_one_login_the_right_to_select(tmp_path: Path, kind: str) -> None:
    source = UNLOGGED.replace("mariadb", kind)
    files = {"sources/core_bank.yaml": source, "destinations/warehouse.yaml": DESTINATION}
    plan = compile_plan(load_declarations(write_declarations(tmp_path, files)), "settlement")
    script = source_kind(kind).grant_script(plan.source, ["account"], logins=logins_of("core_bank"))
    statements = [line.split(" ON ")[0] for line in script.splitlines() if line.startswith("GRANT")]
    assert set(statements) <= {"GRANT SELECT", "GRANT USAGE", "GRANT CONNECT"}
    assert ("REPLICATION" in script, "marker" in script, script.count("PASSWORD") + script.count("IDENTIFIED")) == (
        False,
        False,
        1,
    )


def test_its_position_is_that_of_one_read_and_covers_nothing_else() -> None:
    again = position_from_json(position_to_json(READ))
    assert again == READ
    assert is_same_place(again, READ)
    later = UnloggedPosition("settlement/nightly/2026-11-29/1~cd", AT, READ.snapshot)
    assert not later.covers(READ)
    assert not READ.covers(later)
    assert str(READ) == "this read alone (2026-11-29 00:31:05.250+00:00, snapshot 770:770:)"
    with pytest.raises(InvariantViolated, match="no place among transactions"):
        READ.sees(later)


def test_what_shows_a_sync_by_its_files_knows_that_there_is_no_stream_to_wait_for(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path)
    assert onboarded_destinations(folder, "settlement") == ("warehouse",)
    assert reads_a_log(folder, "settlement")
    write_declarations(tmp_path, {"sources/core_bank.yaml": UNLOGGED})
    assert onboarded_destinations(folder, "settlement") == ()
    write_declarations(tmp_path, {"sources/core_bank.yaml": BY_JDBC})
    assert not reads_a_log(folder, "settlement")
