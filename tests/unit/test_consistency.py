"""The matrix of what can be had is what `validate` says, case by case, and what the kinds say of themselves."""

from dataclasses import replace
from pathlib import Path

import pytest

from seamline.domain import installed
from seamline.domain.errors import ConfigError
from seamline.domain.level import is_achieved, level_evidence, level_of
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind, source_kind
from seamline.kinds.sink import HoldsCuts
from seamline.kinds.source import MayRepeat
from seamline.plan.compile import compile_plan
from seamline.ports import Survey
from seamline.sources.kafka.position import KafkaPosition
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mysql.position import MySqlPosition
from seamline.sources.postgres.position import PostgresPosition
from seamline.spec import consistency
from seamline.spec.consistency import Case, Refusal, cases, matrix_lines, matrix_page, matrix_text, outcome, refusal
from seamline.spec.kinds import may_repeat, source_models
from seamline.spec.levels import declared_levels
from seamline.spec.load import load_declarations
from tests.capture import test_topics_as_a_source
from tests.contract import test_source_behaviour
from tests.contract.lake_worlds import LAKES, SINGLE
from tests.contract.relational_worlds import RELATIONAL
from tests.contract.worlds import APPENDED
from tests.log_topic import ACCOUNT, AUDIT
from tests.unit.declared import write_declarations
from tests.unit.reported import MATCH, reconciliation

LAKE = "connection: ledger\nwarehouse: /srv/lake\nnamespace: settlement\n"
DATABASE = "connection: warehouse\ndatabase: settlement\n"
DESTINATIONS = {
    "change_files": "location: /srv/changes\nmode: changes\n",
    "delta": LAKE,
    "files": "location: /srv/files\n",
    "hbase": "connection: cells\nnamespace: settlement\n",
    "hive": "connection: rows\nmetastore: metastore\ndatabase: settlement\nwarehouse: /srv/hive\n",
    "hudi": LAKE,
    "iceberg": f"{LAKE}catalog: lake\natomic: true\n",
    "iceberg_single": f"{LAKE}catalog: lake\ncatalog_type: glue\n",
    "kafka": "connection: queue\nprefix: settlement\n",
    "mariadb": DATABASE,
    "mysql": DATABASE,
    "postgres": "connection: warehouse\nschema: settlement\n",
    "redis": "connection: cache\nprefix: settlement\n",
}
BANK = "connection: core_bank\ndatabase: bank\n"
SOURCES = {
    "files": "location: /srv/delivered\ndelivery: '{date}'\n",
    "jdbc": f"{BANK}schema: BANK\n",
    "kafka": "connection: queue\ntables: [{table: account, topic: account, format: json, key: [id],"
    " columns: [{name: id, type: bigint}]}]\n",
    "mariadb": BANK,
    "mysql": BANK,
    "postgres": BANK,
}
NIGHTLY = "nightly: {timezone: Asia/Shanghai}\n"
# What readers of cuts may rely on: which test holds a publish to it, stopped amid its steps or under readers.
BY_READERS = "test_readers_see_all_of_a_cut_or_nothing_of_it"
BY_KILLS = "test_a_publish_that_is_killed_before_any_step_is_completed_by_its_repeat"
LEVELS_OF_CUTS = {
    "files": ("tests/contract/test_files_cuts.py", BY_KILLS),
    "hive": ("tests/contract/test_hive_cuts.py", BY_KILLS),
    "mariadb": ("tests/integration/test_relational_cut_storage.py", BY_READERS),
    "mysql": ("tests/integration/test_relational_cut_storage.py", BY_READERS),
    "postgres": ("tests/integration/test_cut_storage.py", BY_READERS),
}


def declarations_of(case: Case) -> dict[str, str]:
    """Of a sync of one table, with what it needs of nights."""
    kind = sink_kind(case.destination)
    nightly = "" if case.has_log and kind.powers.streams else NIGHTLY
    return {
        "sources/core_bank.yaml": f"source: core_bank\nkind: {case.source}\n{SOURCES[case.source]}"
        + ("" if case.has_log or not source_models()[case.source].reads_log(None) else "log: none\n"),
        "destinations/warehouse.yaml": f"destination: warehouse\nkind: {case.destination}\n"
        + DESTINATIONS[case.destination],
        "syncs/settlement.yaml": "sync: settlement\nsource: core_bank\ndestinations: [warehouse]\ntables: [account]\n"
        + f"guarantee: {case.guarantee}\n{nightly}",
    }


def is_refused(case: Case, folder: Path) -> str:
    """What `validate` says of it; "" where it takes it."""
    files = declarations_of(case)
    table = ACCOUNT if case.is_keyed else replace(AUDIT, name="account")
    try:
        compile_plan(load_declarations(write_declarations(folder, files)), "settlement", Survey((table,)))
    except ConfigError as exc:
        return str(exc)
    return ""


def test_each_cell_is_what_validate_says(tmp_path: Path) -> None:
    assert set(DESTINATIONS) >= {case.destination for case in cases()}, "a kind that this test does not declare"
    assert set(SOURCES) >= {case.source for case in cases()}, "a kind that this test does not declare"
    found = {case: is_refused(case, tmp_path / str(number)) for number, case in enumerate(cases())}
    assert {case for case, said in found.items() if said} == {case for case in found if refusal(case)}
    assert any(found.values())


def test_a_rule_that_validate_does_not_know_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "keyless_refusal", lambda destination: Refusal("keeps none", "none"))
    case = Case("mariadb", True, "postgres", False, "exactly_once")
    assert refusal(case) is not None
    assert is_refused(case, tmp_path) == ""


def test_the_level_of_a_cell_is_the_one_that_its_kind_says(tmp_path: Path) -> None:
    for case in cases():
        powers = sink_kind(case.destination).powers
        level = powers.level_over_repeats if isinstance(source_kind(case.source), MayRepeat) else powers.level_under
        if refusal(case) is None:
            assert outcome(case) == (level(case.guarantee) if case.has_log else powers.level_of_cuts)
        else:
            assert outcome(case).startswith("refused: ")


def test_page_and_reports_say_of_what_is_declared_what_its_cell_says(tmp_path: Path) -> None:
    """They said the level of `exactly_once` from a database, whatever the sync said and read."""
    for number, case in enumerate(case for case in cases() if refusal(case) is None):
        folder = write_declarations(tmp_path / str(number), declarations_of(case))
        assert declared_levels(folder, "settlement") == {"warehouse": outcome(case)}, case
    unknown = {"sources/core_bank.yaml": "source: core_bank\nkind: punched_cards\n"}
    assert declared_levels(write_declarations(tmp_path / "unknown", unknown), "settlement") == {}
    assert declared_levels(tmp_path / "unknown", "nobody") == {}


def test_each_kind_with_live_tables_runs_the_suite_that_its_cells_promise() -> None:
    """Of all tables, or of those with a key alone (`tests/contract`)."""
    kinds = {name: sink_kind(name).powers for name in installed.names(installed.SINKS)}
    promised = {name: powers.keyless for name, powers in kinds.items() if powers.streams}
    of_all = (*APPENDED, "postgres", *RELATIONAL, *LAKES, SINGLE.name)
    assert promised == {**dict.fromkeys(of_all, True), "hbase": False, "redis": False}


def test_each_kind_of_source_runs_the_suite_of_sources() -> None:
    tried = {one.kind for one in test_source_behaviour.OFFERED.values()} | {test_topics_as_a_source.KIND}
    assert tried == {*installed.names(installed.SOURCES), "memory"}


def test_each_kind_that_takes_cuts_without_a_log_has_a_test_of_the_level_that_its_cells_promise(checkout: Path) -> None:
    promised = {case.destination for case in cases() if not case.has_log and refusal(case) is None}
    promised |= {name for name in installed.names(installed.SINKS) if not sink_kind(name).powers.streams}
    assert promised == set(LEVELS_OF_CUTS)
    for page, test in LEVELS_OF_CUTS.values():
        assert f"\ndef {test}(" in (checkout / page).read_text(encoding="utf-8")


def test_each_kind_that_does_less_at_least_once_says_so_in_its_cell_and_is_tried_so() -> None:
    """Topics by the suite of all sinks, change files by tests of their own (`tests/contract`)."""
    less = {name for name in installed.names(installed.SINKS) if sink_kind(name).powers.at_least_once}
    assert less == set(APPENDED)
    for name in less:
        exactly, least = (
            outcome(Case("postgres", True, name, True, guarantee)) for guarantee in consistency.GUARANTEES
        )
        assert (exactly, least.partition(":")[0]) == (
            "one commit moves all tables of the sync and the ledger",
            "each change at least once",
        )


def test_a_kind_that_keeps_each_change_says_that_it_keeps_repeats_of_topics_of_others_too() -> None:
    kept = {name for name in installed.names(installed.SINKS) if sink_kind(name).powers.over_repeats}
    assert kept == set(APPENDED)
    for name in kept:
        of_topics, of_database = (outcome(Case(one, True, name, True, "exactly_once")) for one in ("kafka", "postgres"))
        assert of_topics == f"{of_database}; a change that the source's writer repeats is there again"
        at_least = [outcome(Case(one, True, name, True, "at_least_once")) for one in ("kafka", "postgres")]
        assert at_least[0] == at_least[1], "which says so already"


def test_a_source_that_may_say_a_change_twice_is_one_whose_log_makes_no_findings() -> None:
    """What its stream meets may be a repeat, and is not reported as what the log did not promise."""
    logs = {
        "kafka": KafkaPosition.LOG,
        "mariadb": BinlogPosition.LOG,
        "mysql": MySqlPosition.LOG,
        "postgres": PostgresPosition.LOG,
    }
    assert set(logs) == {case.source for case in cases() if case.has_log}
    assert {name: bool(may_repeat(name)) for name in logs} == {name: log.is_of_rows_alone for name, log in logs.items()}


def test_a_kind_without_cuts_needs_a_log() -> None:
    for name in installed.names(installed.SINKS):
        case = Case("postgres", False, name, True, "exactly_once")
        assert (refusal(case) is None) <= isinstance(sink_kind(name), HoldsCuts)


def test_a_run_keeps_the_level_of_its_destination_and_whether_it_shows_it() -> None:
    """An older run kept nothing: then it is what its kind says now."""
    for verdict in (Verdict.MATCH, Verdict.BREAK, Verdict.INCONCLUSIVE, Verdict.NOT_RUN):
        found = reconciliation(replace(MATCH, verdict=verdict))
        assert (level_of(found, "declared"), is_achieved(found)) == ("declared", None)
        found = replace(found, evidence=level_evidence(found, "all at once", guarantee="exactly_once"))
        assert (level_of(found, "declared"), is_achieved(found)) == ("all at once", verdict is Verdict.MATCH)
    left_out = replace(MATCH, table="audit", verdict=Verdict.NOT_RUN)
    partial = replace(reconciliation(MATCH, left_out), verdict=Verdict.MATCH)
    assert level_evidence(partial, "all at once", guarantee="exactly_once")["level"]["achieved"]
    nowhere = replace(reconciliation(MATCH), position=None)
    assert not level_evidence(nowhere, "all at once", guarantee="exactly_once")["level"]["achieved"]


def test_the_matrix_has_every_case_once_and_is_printed_and_written_alike() -> None:
    lines = matrix_lines()
    tables = {"all": 2, "with a key": 1, "without a key": 1}
    count = sum(len(line[0].split(", ")) * len(line[2].split(", ")) * tables[line[3]] for line in lines)
    assert count == len(list(cases()))
    assert len(matrix_text().splitlines()) == len(lines) + 1
    for line in lines:
        assert f"| {' | '.join(line)} |" in matrix_page()
