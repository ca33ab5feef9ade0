"""Every mistake in a declaration is reported with its file, line, path, cause and cure, and all of them at once."""

import pickle
from pathlib import Path

import pytest

from seamline.domain.errors import ConfigError
from seamline.spec.document import document_of, read_document
from seamline.spec.faults import DeclarationsInvalid, Fault
from seamline.spec.load import load_declarations, load_each, load_sync
from tests.unit.declared import DESTINATION, KNOWN, SOURCE, SUITE, SYNC, write_declarations
from tests.unit.mistakes import MISTAKES, SYNC_FILE, TEXTS


def faults_of(folder: Path, changed: dict[str, str]) -> tuple[Fault, ...]:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(folder, changed))
    return caught.value.faults


def the_fault(folder: Path, changed: dict[str, str]) -> Fault:
    faults = faults_of(folder, changed)
    assert len(faults) == 1, "\n".join(map(str, faults))
    return faults[0]


def test_right_declarations_are_read_whole(tmp_path: Path) -> None:
    declarations = load_declarations(write_declarations(tmp_path))
    sync = declarations.sync("settlement")
    assert [table.name for table in sync.tables] == ["account", "ledger_entry"]
    assert sync.nightly is not None
    assert sync.nightly.as_of_max.total_seconds() == 7200
    assert declarations.sources["core_bank"].snapshot.lock == "none"


def test_the_demo_s_declarations_are_right(checkout: Path) -> None:
    # A demo of this checkout may have put more beside it.
    assert "settlement" in load_declarations(checkout / "include").syncs


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_line_path_cause_and_cure(tmp_path: Path, mistake: str) -> None:
    file, before, after, line, path, cause, cure = MISTAKES[mistake]
    assert before in TEXTS[file], "the test must change something"
    fault = the_fault(tmp_path, {file: TEXTS[file].replace(before, after, 1)})
    assert (fault.line, fault.path) == (line, path), str(fault)
    assert cause in fault.cause
    assert fault.cure and cure in fault.cure
    assert "hunter2" not in str(fault)


def test_all_mistakes_of_all_files_come_at_once(tmp_path: Path) -> None:
    faults = faults_of(
        tmp_path,
        {
            SYNC_FILE: SYNC.replace("timezone: Asia/Shanghai", 'timezone: Mars\n  cut_off: "1:00"\n  runat: "x"'),
            "sources/core_bank.yaml": SOURCE.replace("mariadb", "oracle"),
            "destinations/warehouse.yaml": DESTINATION + "colour: red\n",
        },
    )
    assert [(fault.file.name, fault.path) for fault in faults] == [
        ("warehouse.yaml", "colour"),
        ("core_bank.yaml", "kind"),
        ("settlement.yaml", "nightly.timezone"),
        ("settlement.yaml", "nightly.cut_off"),
        ("settlement.yaml", "nightly.runat"),
        ("settlement.yaml", "nightly.runat"),
    ]


def test_a_wrong_key_does_not_hide_what_is_wrong_beside_other_files(tmp_path: Path) -> None:
    """A newcomer mended six mistakes and then learned of three more."""
    total = "{table: ledger_entry, sum: amount, by: [currency]}"
    folder = write_declarations(
        tmp_path,
        {
            SYNC_FILE: SYNC.replace("  timezone:", "  timezon:").replace(total, "{table: ledger, sum: amount}"),
            "sources/core_bank.yaml": SOURCE.replace("connection: core_bank", "connection: core_bnk") + "colour: red\n",
            "expectations/settlement.yaml": SUITE.replace("table: ledger_entry", "table: acount") + "colour: red\n",
        },
    )
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(folder, connections=KNOWN)
    found = {(fault.file.name, fault.path) for fault in caught.value.faults}
    assert found >= {
        ("core_bank.yaml", "colour"),
        ("core_bank.yaml", "connection"),
        ("settlement.yaml", "nightly.timezon"),
        ("settlement.yaml", "reconcile.control_totals[0].table"),
        ("settlement.yaml", "reconcile.expectations"),
        ("settlement.yaml", "colour"),
    }


def test_a_key_that_is_missing_or_an_item_that_is_wrong_hides_nothing_either(tmp_path: Path) -> None:
    folder = write_declarations(
        tmp_path,
        {
            SYNC_FILE: SYNC.replace("source: core_bank\n", "")
            .replace("  - account\n", "  - acc/ount\n  - 7\n")
            .replace("{table: ledger_entry, sum: amount, by: [currency]}", "{table: ledger, sum: amount}")
            .replace("[warehouse]", "[warehose, 3]"),
            "sources/core_bank.yaml": "kind: mariadbb\nconnection: core_bnk\n",
            "destinations/warehouse.yaml": DESTINATION.replace("schema: settlement\n", "").replace(
                "connection: warehouse", "connection: warehose"
            ),
            "expectations/settlement.yaml": SUITE.replace("table: ledger_entry", "table: ledger_enty")
            + "  - {table: ledger_entry}\n",
        },
    )
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(folder, connections=KNOWN)
    found = [(f"{fault.file.parent.name}/{fault.file.stem}", fault.path) for fault in caught.value.faults]
    assert sorted(found) == [
        ("destinations/warehouse", "connection"),
        ("destinations/warehouse", "schema"),
        ("expectations/settlement", "checks[1].type"),
        ("sources/core_bank", "connection"),
        ("sources/core_bank", "database"),
        ("sources/core_bank", "kind"),
        ("sources/core_bank", "source"),
        ("syncs/settlement", "destinations[0]"),
        ("syncs/settlement", "destinations[1]"),
        ("syncs/settlement", "reconcile.control_totals[0].table"),
        ("syncs/settlement", "reconcile.expectations"),
        ("syncs/settlement", "source"),
        ("syncs/settlement", "tables[0].name"),
        ("syncs/settlement", "tables[1]"),
    ]


def test_what_stands_below_a_misspelt_key_is_read_as_it_was_meant(tmp_path: Path) -> None:
    total = "control_totals:\n    - {table: ledger_entry,"
    text = SYNC.replace("reconcile:", "reconsile:").replace(total, "control_total:\n    - {table: ledger,")
    faults = faults_of(tmp_path, {SYNC_FILE: text})
    assert [(fault.line, fault.path) for fault in faults] == [
        (9, "reconsile"),
        (10, "reconsile.control_total"),
        (11, "reconsile.control_total[0].table"),
    ]
    assert [fault.cause for fault in faults][:2] == ["unknown key"] * 2


@pytest.mark.parametrize(
    ("before", "after", "causes"),
    [
        ("guarantee: at_least_once", "guarantees:", ["unknown key", "has no value"]),
        (
            "reconcile:",
            "reconsile:\n  on_break: ask\n  on_break: ask",
            ["unknown key", "this key is already on line 11"],
        ),
        ("reconcile:", "reconsile:\n  password: hunter2", ["unknown key", "secrets do not belong in a declaration"]),
    ],
)
def test_a_misspelt_key_is_reported_whatever_is_wrong_below_it(
    tmp_path: Path, before: str, after: str, causes: list[str]
) -> None:
    text = SYNC.replace("nightly:", "guarantee: at_least_once\nnightly:").replace(before, after)
    faults = faults_of(tmp_path, {SYNC_FILE: text})
    assert sorted(fault.cause for fault in faults) == sorted(causes)


def test_what_cannot_be_read_is_not_what_is_missing(tmp_path: Path) -> None:
    """The table is there, under a key that nobody can guess."""
    faults = faults_of(tmp_path, {SYNC_FILE: SYNC.replace("{name: ledger_entry", "{title: ledger_entry")})
    assert {fault.path for fault in faults} == {"tables[1].title", "tables[1].name"}


@pytest.mark.parametrize("name", ["票据", "trade date", "Account", "Übertrag-2", "e\u0301tat", "2026 $", "ब्याज"])
def test_a_table_is_declared_by_the_name_that_its_source_gives_it(tmp_path: Path, name: str) -> None:
    """Of any script, with blanks, and beside one whose name differs by case alone."""
    text = SYNC.replace("  - account\n", f'  - account\n  - "{name}"\n')
    folder = write_declarations(tmp_path, {SYNC_FILE: text})
    (sync,) = load_declarations(folder, connections=KNOWN).syncs.values()
    assert [table.name for table in sync.tables] == ["account", name, "ledger_entry"]


@pytest.mark.parametrize(
    "name", ["a.b.c", "a,b", " lead", "tail ", "a\\tb", "a`b", "zero\u200bwidth", "\u202eltr", "票" * 65]
)
def test_a_name_that_cannot_be_carried_is_refused_with_its_cure(tmp_path: Path, name: str) -> None:
    faults = faults_of(tmp_path, {SYNC_FILE: SYNC.replace("  - account\n", f'  - account\n  - "{name}"\n')})
    assert {fault.path for fault in faults} == {"tables[1].name"}
    assert "Rename it at the source; for a table, leave a view under the old name" in str(faults[0])


def test_a_table_that_stands_twice_is_reported_the_second_time_also_below_a_misspelt_key(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, {SYNC_FILE: SYNC.replace("tables:\n", "TABLES:\n  - {name: account}\n")})
    assert [(fault.line, fault.cause) for fault in faults] == [
        (4, "unknown key"),
        (6, "table `account` is already on line 5"),
    ]


def test_a_wrong_destination_hides_no_second_writer_and_a_wrong_sync_no_wrong_destination(tmp_path: Path) -> None:
    other = SYNC.replace("sync: settlement", "sync: treasury").replace("daily_balance", "other_balance")
    other = other.replace("- {name: ledger_entry", "- {name: position").replace(
        "table: ledger_entry", "table: position"
    )
    folder = write_declarations(
        tmp_path,
        {
            "syncs/treasury.yaml": other.replace("  expectations: settlement\n", ""),
            "destinations/warehouse.yaml": DESTINATION + "colour: red\n",
        },
    )
    with pytest.raises(DeclarationsInvalid) as caught:
        load_sync(folder / "syncs/treasury.yaml")
    assert [(fault.file.name, fault.path) for fault in caught.value.faults] == [
        ("warehouse.yaml", "colour"),
        ("treasury.yaml", "tables[0]"),
    ]


def test_a_misspelt_kind_hides_nothing_of_its_file(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, {"sources/core_bank.yaml": SOURCE.replace("kind:", "knid:") + "colour: red\n"})
    assert [(fault.line, fault.path) for fault in faults] == [(2, "knid"), (5, "colour")]


def test_a_sync_of_a_broken_source_does_not_take_a_right_one_away(tmp_path: Path) -> None:
    other = SYNC.replace("sync: settlement\nsource: core_bank", "sync: treasury\nsource: other_bank")
    folder = write_declarations(
        tmp_path,
        {
            "syncs/treasury.yaml": other.replace("daily_balance", "other_balance"),
            "sources/other_bank.yaml": SOURCE.replace("source: core_bank", "source: other_bank") + "colour: red\n",
        },
    )
    right, broken = load_each(folder).values()
    assert not isinstance(right, DeclarationsInvalid)
    assert isinstance(broken, DeclarationsInvalid)


@pytest.mark.parametrize(
    "written",
    [
        "database: !!int", "database: !!bool hunter2", "database: !!timestamp hunter2", "database: !hunter2",
        "database: !!float hunter2", "database: =", "database: 0x" + 5000 * "f", "database: 2024-99-99",
        'database: "\\UFFFFFFFF"', "database: *hunter2", "log: {password: hunter2, max_gb: =}", "kind: u:hunter2@h",
        "? [a]\n: hunter2", "mysql://u:hunter2@h: bank", "database: 1" + 400 * ":00" + ".5",
        "database: u:hunter2@tcp(h)/b",
        "database: host=h password=hunter2", "database: [mysql://u:hunter2@h]", "database_pw: hunter2",
    ],
)  # fmt: skip
def test_whatever_is_written_ends_in_faults_of_one_line_that_repeat_no_secret(tmp_path: Path, written: str) -> None:
    lines = [line for line in SOURCE.splitlines() if not line.startswith((written.split(":")[0], "database"))]
    faults = faults_of(tmp_path, {"sources/core_bank.yaml": "\n".join([*lines, written, ""])})
    assert {fault.file.name for fault in faults} == {"core_bank.yaml"}
    assert all("hunter2" not in str(fault) and "\n" not in str(fault) for fault in faults)


@pytest.mark.parametrize(
    "broken",
    ["sync: treasury\ncolour: red", "sync: settlement", "sync: treasury\nguarantee: x", "sync: treasury\nsync: x"],
)
def test_a_broken_sync_that_writes_a_table_of_a_right_one_is_reported_alone(tmp_path: Path, broken: str) -> None:
    """The right one goes on running, also beside a copy of its file."""
    other = SYNC.replace("sync: settlement", broken).replace("daily_balance", "other_balance")
    other = other.replace("- {name: ledger_entry", "- {name: position").replace(
        "table: ledger_entry", "table: position"
    )
    faults = faults_of(tmp_path, {"syncs/treasury.yaml": other.replace("  expectations: settlement\n", "")})
    assert {fault.file.name for fault in faults} == {"treasury.yaml"}
    assert [fault.path for fault in faults if "also written by" in fault.cause] == ["tables[0]"]
    assert len(faults) == 2


def test_a_default_in_the_place_of_a_wrong_value_is_reported_as_nothing(tmp_path: Path) -> None:
    """`run_at` would be late for this `as_of_max`, were it not the default of one that is misspelt."""
    text = SYNC.replace("nightly:\n", 'nightly:\n  as_of_max: 20min\n  run_att: "00:10"\n')
    assert the_fault(tmp_path, {SYNC_FILE: text}).path == "nightly.run_att"


def test_a_fault_is_one_line_that_editors_can_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fault = the_fault(tmp_path, {SYNC_FILE: SYNC.replace("  timezone:", "  timezon:")})
    assert str(fault) == "syncs/settlement.yaml:8  nightly.timezon: unknown key. Did you mean `timezone`?"


def test_two_syncs_that_write_one_table_are_refused_on_both_sides(tmp_path: Path) -> None:
    other = SYNC.replace("sync: settlement", "sync: treasury").replace("daily_balance", "other_balance")
    other = other.replace("  expectations: settlement\n", "")
    # The same schema under another name is still the same table.
    other = other.replace("[warehouse]", "[mirror]").replace("- {name: ledger_entry", "- {name: position")
    other = other.replace("table: ledger_entry", "table: position")
    mirror = DESTINATION.replace("destination: warehouse", "destination: mirror")
    faults = faults_of(tmp_path, {"syncs/treasury.yaml": other, "destinations/mirror.yaml": mirror})
    assert [(fault.file.name, fault.line) for fault in faults] == [("settlement.yaml", 5), ("treasury.yaml", 5)]
    assert "also written by sync `treasury`" in faults[0].cause
    assert "also written by sync `settlement`" in faults[1].cause


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("account_proven", "the view of the newest proven one"),
        ("account_current", "the view of those that count"),
        ("account_20261126_v1", "one of them"),
        ("daily_balance_current", "the view of those that count"),
        ("daily_balance_proven", "the view of the newest proven one"),
    ],
)
def test_a_table_with_a_name_that_cuts_take_for_themselves_is_refused(tmp_path: Path, name: str, what: str) -> None:
    text = SYNC.replace("  - account\n", f"  - account\n  - {name}\n")
    fault = the_fault(tmp_path, {SYNC_FILE: text})
    assert (fault.line, fault.path) == (6, "tables[1]")
    assert what in fault.cause and f"`{name}`" in fault.cause
    assert "another schema" in fault.cure and "drop" not in fault.cure


@pytest.mark.parametrize("name", ["Account_proven", "account_current_proven", "account_proven_too", "account_2026_v1"])
def test_a_name_that_no_cut_takes_is_right(tmp_path: Path, name: str) -> None:
    write_declarations(tmp_path, {SYNC_FILE: SYNC.replace("  - account\n", f"  - account\n  - {name}\n")})
    assert load_declarations(tmp_path)


def test_without_nightly_cuts_no_name_is_taken(tmp_path: Path) -> None:
    text = SYNC.replace("nightly:\n  timezone: Asia/Shanghai\n", "").replace(
        "  - account\n", "  - account\n  - account_proven\n"
    )
    write_declarations(tmp_path, {SYNC_FILE: text[: text.index("derived:")]})
    assert load_declarations(tmp_path)


def test_a_name_that_the_cuts_of_another_sync_take_is_refused_on_both_sides(tmp_path: Path) -> None:
    """That one makes no cuts; its live table stands where the view of the other's would."""
    other = "sync: treasury\nsource: core_bank\ndestinations: [warehouse]\ntables:\n  - account_proven\n"
    faults = faults_of(tmp_path, {"syncs/treasury.yaml": other})
    assert [(fault.file.name, fault.line) for fault in faults] == [("settlement.yaml", 5), ("treasury.yaml", 5)]
    assert all("`account_proven`" in fault.cause for fault in faults)
    broken = faults_of(tmp_path, {"syncs/treasury.yaml": other + "nonsense: 1\n"})
    assert {fault.file.name for fault in broken} == {"treasury.yaml"}, "a right sync does not suffer for it"


def test_a_misspelt_table_is_reported_where_it_is_first_named(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, {SYNC_FILE: SYNC.replace("name: ledger_entry", "name: ledger_enty")})
    assert {fault.path for fault in faults} == {
        "reconcile.control_totals[0].table",
        "reconcile.expectations",
        "derived[0].table",
    }
    assert {fault.cure for fault in faults} == {"Did you mean `ledger_enty`, or is that one misspelt, on line 6?"}


def test_a_table_that_a_suite_checks_twice_is_missed_once(tmp_path: Path) -> None:
    suite = SUITE + SUITE.splitlines()[-1] + "\n"
    fault = the_fault(tmp_path, {"expectations/settlement.yaml": suite.replace("ledger_entry", "position")})
    assert "checks table `position`" in fault.cause


def test_a_guarantee_that_the_destination_cannot_give_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline.sinks.postgres.spec.PostgresDestination.guarantees", frozenset({"at_least_once"}))
    fault = the_fault(tmp_path, {SYNC_FILE: SYNC.replace("tables:", "guarantee: exactly_once\ntables:", 1)})
    assert (fault.line, fault.path) == (4, "guarantee")
    assert "cannot give exactly_once" in fault.cause
    assert "at_least_once" in fault.cure


def test_a_file_with_another_ending_is_not_silently_skipped(tmp_path: Path) -> None:
    assert "not read" in the_fault(tmp_path, {"syncs/other.yml": SYNC}).cause


NATIVE = """{
  "name": "native",
  "id": "0e8a",
  "expectations": [
    {
      "type": "expect_column_values_to_be_unique",
      "kwargs": {"column": "id"},
      "meta": {"table": "ledger_entry", "why": "an entry has one number"}
    }
  ],
  "meta": {"great_expectations_version": "1.24.1"}
}
"""
OF_NATIVE = {SYNC_FILE: SYNC.replace("expectations: settlement", "expectations: native")}


def test_a_suite_that_great_expectations_wrote_is_read_as_a_declared_one(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {**OF_NATIVE, "expectations/native.json": NATIVE})
    (check,) = load_sync(folder / SYNC_FILE).expectations["native"].checks
    assert (check.table, check.type, check.kwargs, check.why) == (
        "ledger_entry",
        "expect_column_values_to_be_unique",
        {"column": "id"},
        "an entry has one number",
    )


@pytest.mark.parametrize(
    ("before", "after", "file", "line", "path", "cause"),
    [
        ("to_be_unique", "to_be_uniqe", "native.json", 6, "expectations[0].type", "is not an expectation"),
        ('"table": "ledger_entry", ', "", "native.json", 8, "expectations[0].meta.table", "is missing"),
        ("ledger_entry", "ledger", "settlement.yaml", 12, "reconcile.expectations", "checks table `ledger`"),
        ('"name": "native"', '"name": "other"', "native.json", 2, "name", "declares 'other'"),
        ('"name": "native",', "", "native.json", 1, "name", "is missing"),
    ],
)
def test_what_is_wrong_of_a_suite_that_great_expectations_wrote_is_reported_with_its_line(
    tmp_path: Path, before: str, after: str, file: str, line: int, path: str, cause: str
) -> None:
    fault = the_fault(tmp_path, {**OF_NATIVE, "expectations/native.json": NATIVE.replace(before, after)})
    assert (fault.file.name, fault.line, fault.path) == (file, line, path), str(fault)
    assert cause in fault.cause


def test_two_suites_of_one_name_are_a_mistake(tmp_path: Path) -> None:
    twice = {"expectations/settlement.json": NATIVE.replace('"native"', '"settlement"')}
    fault = the_fault(tmp_path, twice)
    assert fault.file.name == "settlement.yaml"
    assert "settlement.json has the same name" in fault.cause


def test_a_broken_sync_does_not_take_the_others_away(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {"syncs/broken.yaml": "sync: broken\nsource: nowhere\n"})
    outcomes = load_each(folder)
    assert [path.name for path in outcomes] == ["broken.yaml", "settlement.yaml"]
    broken, right = outcomes.values()
    assert isinstance(broken, DeclarationsInvalid)
    assert {fault.file.name for fault in broken.faults} == {"broken.yaml"}
    assert not isinstance(right, DeclarationsInvalid)
    assert list(load_sync(folder / SYNC_FILE).syncs) == ["settlement"]


def test_a_sync_with_a_broken_source_names_the_source_s_file(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {"sources/core_bank.yaml": SOURCE + "colour: red\n"})
    with pytest.raises(DeclarationsInvalid) as caught:
        load_sync(folder / SYNC_FILE)
    assert [fault.file.name for fault in caught.value.faults] == ["core_bank.yaml"]


def test_an_unknown_sync_is_answered_with_the_nearest(tmp_path: Path) -> None:
    declarations = load_declarations(write_declarations(tmp_path))
    with pytest.raises(ConfigError, match="Did you mean `settlement`"):
        declarations.sync("setlement")


def test_the_faults_survive_pickling(tmp_path: Path) -> None:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, {SYNC_FILE: ""}))
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.faults == caught.value.faults
    assert str(again) == str(caught.value)


def test_two_destinations_of_one_sync_at_one_place_are_refused(tmp_path: Path) -> None:
    mirror = DESTINATION.replace("destination: warehouse", "destination: mirror")
    both = SYNC.replace("[warehouse]", "[warehouse, mirror]")
    fault = the_fault(tmp_path, {SYNC_FILE: both, "destinations/mirror.yaml": mirror})
    assert fault.path == "destinations[1]"
    assert "`warehouse` and `mirror` are one place" in fault.cause
    apart = mirror.replace("schema: settlement", "schema: elsewhere")
    declared = load_declarations(write_declarations(tmp_path, {SYNC_FILE: both, "destinations/mirror.yaml": apart}))
    assert declared.sync("settlement").destinations == ("warehouse", "mirror")


def test_two_syncs_that_write_one_table_of_a_mariadb_are_refused(tmp_path: Path) -> None:
    other = SYNC.replace("sync: settlement", "sync: treasury").replace("daily_balance", "other_balance")
    other = other.replace("  expectations: settlement\n", "")
    into = DESTINATION.replace("kind: postgres", "kind: mariadb").replace("schema:", "database:")
    faults = faults_of(tmp_path, {"syncs/treasury.yaml": other, "destinations/warehouse.yaml": into})
    assert {fault.file.name for fault in faults} == {"settlement.yaml", "treasury.yaml"}
    assert all("also written by sync" in fault.cause for fault in faults)


def test_a_file_that_is_looked_at_is_parsed_once_for_each_text_and_never_shown_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    assert document_of(file).faults
    file.write_text("a: 1\n")
    first = document_of(file)
    assert first is document_of(file) and first.data == {"a": 1}
    file.write_text("a: 2\n")  # as long as before, and written in the same moment
    assert document_of(file).data == {"a": 2} == read_document(file).data
    assert read_document(file) is not read_document(file)
    file.write_bytes(b"a: \xff")
    assert document_of(file).faults == read_document(file).faults != []
