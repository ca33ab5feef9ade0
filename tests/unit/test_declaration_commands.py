"""validate, explain and schema as a person calls them."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from jsonschema import Draft202012Validator

from seamline.cli.main import main
from seamline.cli.schema import texts
from seamline.domain.errors import Refused
from seamline.spec.schema import made_texts, schemas, stale_files, write_files
from seamline.sync.source_watch import SOURCE_ALARMS
from tests.unit.declared import DESTINATION, FILES, SYNC, write_declarations

FOLDERS = {"sources": "source", "destinations": "destination", "syncs": "sync", "expectations": "expectations"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    return write_declarations(tmp_path)


def test_validate_counts_what_is_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate"]) == 0
    assert "settlement: 2 tables, core_bank → warehouse, exactly_once" in capsys.readouterr().out


def test_validate_prints_every_mistake_and_exits_with_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_declarations(folder, {"syncs/settlement.yaml": SYNC.replace("as:", "az:").replace("[currency]", "7")})
    assert main(["validate"]) == 2
    said = capsys.readouterr().err
    assert "2 mistakes in the declarations" in said
    assert "settlement.yaml:6  tables[1].business_date.az: unknown key. Did you mean `as`?" in said
    assert "settlement.yaml:11  reconcile.control_totals[0].by: must be a list, got 7" in said


def test_validate_refuses_a_folder_in_which_nothing_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    assert main(["validate"]) == 2
    said = capsys.readouterr().err
    assert f"no sync is declared in {tmp_path / 'syncs'}" in said
    assert "SEAMLINE_DECLARATIONS" in said


def test_a_destination_that_no_sync_names_yet_is_declared_and_has_its_grants(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = DESTINATION.replace("destination: warehouse", "destination: mirror")
    write_declarations(folder, {"destinations/mirror.yaml": mirror})
    assert main(["validate"]) == 0
    assert "destinations 2" in capsys.readouterr().out
    assert main(["grants", "mirror"]) == 0
    assert "CREATE ROLE" in capsys.readouterr().out


def test_validate_names_a_connection_that_is_not_known_here(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "connections.json"
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(file))
    assert main(["validate"]) == 0
    assert "connections were not looked up" in capsys.readouterr().out
    file.write_text('{"core_bank": {}, "warehouse": {}}')
    assert main(["validate"]) == 2
    said = capsys.readouterr().err
    assert "1 mistake" in said
    assert (
        "core_bank.yaml:3  connection: there is no connection `core_bank_capture` here. `./seamline connect add" in said
    )
    assert "SEAMLINE_CONNECTION_CORE_BANK_CAPTURE" in said
    assert "Did you mean" not in said, "another login of the same server is no slip of the pen"
    file.write_text('{"core_bank": {}, "core_bank_capture": {}, "warehouse": {}}')
    assert main(["validate"]) == 0
    write_declarations(folder, {"destinations/warehouse.yaml": f"{DESTINATION}writer_connection: warehose\n"})
    assert main(["validate"]) == 2
    said = capsys.readouterr().err
    assert "warehouse.yaml:5  writer_connection: there is no connection `warehose` here" in said
    assert "Did you mean `warehouse`?" in said


def test_validate_names_a_connection_of_another_type_than_the_kind_connects_by(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    bank = "mariadb://me:secret@bank:3306/core_bank"
    for name, uri in {"core_bank": bank, "core_bank_capture": bank, "warehouse": bank}.items():
        monkeypatch.setenv(f"SEAMLINE_CONNECTION_{name.upper()}", uri)
    assert main(["validate"]) == 2
    said = capsys.readouterr().err
    assert "1 mistake" in said
    cause = "connection `warehouse` is of type mysql; kind postgres needs type postgres"
    assert f"warehouse.yaml:3  connection: {cause}" in said
    monkeypatch.setenv("SEAMLINE_CONNECTION_WAREHOUSE", "postgresql://me:secret@warehouse:5432/warehouse")
    assert main(["validate"]) == 0


def test_explain_shows_stages_and_every_setting_with_its_origin(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "settlement"]) == 0
    said = capsys.readouterr().out
    assert "  from core_bank (mariadb, database bank): reads as core_bank" in said
    assert "settlement__nightly  (every day at 00:30 Asia/Shanghai" in said
    assert "  * nightly.as_of_max: 2h" in said
    assert "    nightly.timezone: Asia/Shanghai" in said
    assert "  * snapshot.lock: none" in said
    assert "settings of destination warehouse" in said


def test_explain_of_one_sync_does_not_care_for_another_s_mistakes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_declarations(folder, {"syncs/broken.yaml": "sync: 7\n"})
    assert main(["explain", "settlement"]) == 0
    assert main(["explain"]) == 2
    assert "broken.yaml:1" in capsys.readouterr().err


def test_explain_guesses_a_misspelt_sync(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "setlement"]) == 2
    assert "Did you mean `settlement`?" in capsys.readouterr().err


def test_explain_as_json_is_the_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "settlement", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sync"] == "settlement"


def test_the_committed_schemas_are_current(checkout: Path) -> None:
    assert stale_files(checkout, texts(checkout)) == [], "run `./seamline schema`"


def test_a_schema_that_is_not_current_is_named_and_written(tmp_path: Path) -> None:
    made = made_texts()
    write_files(tmp_path, made)
    (tmp_path / "schemas/sync.schema.json").write_text("{}\n")
    assert stale_files(tmp_path, made) == ["schemas/sync.schema.json"]
    assert write_files(tmp_path, made) == ["schemas/sync.schema.json"]
    assert stale_files(tmp_path, made) == []


def test_the_page_of_all_keys_has_each_key_of_each_file(checkout: Path) -> None:
    page = (checkout / "docs/reference/declarations.md").read_text(encoding="utf-8")
    for key in ("`nightly.keep.month_ends`", "`tables[].business_date.as`", "`log.max_gb`", "`checks[].kwargs`"):
        assert f"| {key} |" in page
    assert page.count("| `connection` |") == 19, "six kinds of source, thirteen of destination"
    assert "| `nightly.verdict_by` | text |  | Local time by which the verdict must be there. Without it: 6" in page


@pytest.mark.parametrize("folder_name", FOLDERS)
def test_every_declaration_s_first_line_leads_its_editor_to_the_schema(checkout: Path, folder_name: str) -> None:
    files = sorted((checkout / "include" / folder_name).glob("*.yaml"))
    assert files
    for file in files:
        first = file.read_text(encoding="utf-8").splitlines()[0]
        marked = first.removeprefix("# yaml-language-server: $schema=")
        assert (file.parent / marked).resolve() == checkout / "schemas" / f"{FOLDERS[folder_name]}.schema.json"


def test_what_the_models_take_the_schemas_take_too(checkout: Path) -> None:
    validators = {name: Draft202012Validator(schema) for name, schema in schemas().items()}
    for path, text in FILES.items():
        validators[FOLDERS[path.split("/")[0]]].validate(yaml.safe_load(text))
    for name, word in FOLDERS.items():
        for file in (checkout / "include" / name).glob("*.yaml"):
            validators[word].validate(yaml.safe_load(file.read_text(encoding="utf-8")))


def test_what_the_models_refuse_the_sync_schema_refuses_too() -> None:
    validator = Draft202012Validator(schemas()["sync"])
    wrong = [
        SYNC.replace("nightly:", "nigthly:"),
        SYNC.replace("as: instant", "as: instnt"),
        SYNC.replace("- account", "- 7"),
    ]
    for text in wrong:
        assert not validator.is_valid(yaml.safe_load(text))


def test_a_capture_that_is_not_there_is_not_started(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline.cli.capture.open_capture", lambda source: SimpleNamespace(status=lambda: None))
    assert main(["capture", "start", "core_bank"]) == Refused.exit_code
    said = capsys.readouterr().err
    assert "no capture of core_bank: none was made yet" in said and "onboard a sync of it: settlement" in said


def test_the_alarms_about_a_capture_end_when_it_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stayed open, with the "since" of the failure for which it was given up."""
    ended: list[tuple[str, str]] = []
    given_up: list[str] = []
    store = SimpleNamespace(end_alarm=lambda kind, subject: ended.append((kind, subject)), close=lambda: None)
    for name in ("platform", "capture_registry", "source"):
        monkeypatch.setattr(f"seamline.registry.{name}", lambda *_: store)
    for name in ("open_capture", "open_topics"):
        monkeypatch.setattr(f"seamline.cli.capture.{name}", lambda source: None)
    monkeypatch.setattr("seamline.cli.capture.reset_capture", lambda plan, **_: given_up.append(plan.name))
    assert main(["capture", "reset", "core_bank", "--yes"]) == 0
    assert given_up == ["core_bank"]
    assert set(ended) == {(kind, "core_bank") for kind in SOURCE_ALARMS}


def test_a_capture_is_given_up_only_by_a_second_word(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "reset", "core_bank"]) == Refused.exit_code
    said = capsys.readouterr().err
    assert "deletes connector seamline-core_bank with its place and log topic seamline.core_bank.log" in said
    assert "onboarded again: settlement" in said
    assert "nothing was done; add --yes" in said
    assert main(["capture", "reset", "core_bnak", "--yes"]) == 2
    assert "Did you mean `core_bank`?" in capsys.readouterr().err
