"""Every command answers a program as it answers a person: one document, the same facts, the same exit code."""

import ast
import importlib
import inspect
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seamline.cli.answer import WITHOUT_JSON, CommandParser, answered, give, jsonable
from seamline.cli.main import COMMANDS, main, parser_of
from seamline.domain.errors import InvariantViolated
from tests.unit.declared import write_declarations


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    return write_declarations(tmp_path)


def options(parser: CommandParser) -> Iterator[set[str]]:
    for leaf in parser.leaves():
        yield set(leaf.format_help().split())


def without_json(commands: dict[str, CommandParser]) -> set[str]:
    return {name for name, parser in commands.items() if any("--json" not in said for said in options(parser))}


def test_every_command_has_json_but_those_that_become_another_program() -> None:
    assert without_json({name: parser_of(name) for name in COMMANDS}) == set(WITHOUT_JSON)
    assert all(WITHOUT_JSON.values()), "each says why"


def test_a_command_below_a_command_without_json_is_found() -> None:
    """A planted one."""
    parser = CommandParser()
    orders = parser.add_subparsers()
    orders.add_parser("add").add_argument("--json")
    orders.add_parser("list")
    assert without_json({"planted": parser}) == {"planted"}


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - set(WITHOUT_JSON)))
def test_every_command_gives_a_document(name: str) -> None:
    """What runs without one ends as a bug, and so is found where the command is tested; here is the cheap half."""
    module = importlib.import_module(f"seamline.cli.{COMMANDS[name][0]}")
    calls = [node.func for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call)]
    assert any(isinstance(one, ast.Name) and one.id == "give" for one in calls)


def test_a_command_that_gives_nothing_is_a_bug_and_what_it_gives_is_all_that_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args = parser_of("doctor").parse_args(["--json"])
    with pytest.raises(InvariantViolated), answered(args):
        print("for people")
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "InvariantViolated"
    with answered(args):
        print("for people")
        give(args, {"at": datetime(2026, 11, 29, tzinfo=UTC), "left": timedelta(seconds=1)})
    assert json.loads(capsys.readouterr().out) == {"at": "2026-11-29T00:00:00+00:00", "left": "0:00:01"}
    assert jsonable([("a", {1: frozenset({2})})]) == [["a", {"1": [2]}]]


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (("validate",), {"folder", "online", "notes", "syncs"}),
        (("validate", "--online"), {"error"}),
        (("explain", "settlement"), {"sync", "plan", "stages", "settings", "powers", "levels"}),
        (("explain", "settlement", "--date", "2026-11-20"), None),
        (("explain", "setlement"), {"error"}),
        (("grants", "core_bank"), {"name", "script"}),
        (("grants", "nobody"), {"error"}),
        (("connect", "remove", "nobody"), {"error"}),
        (("schema", "--check"), {"not_current"}),
        (("tables", "nobody"), {"error"}),
        (("status", "--watch"), {"error"}),
        (("ps",), {"data", "running", "programs", "detached"}),
    ],
)
def test_as_json_a_command_ends_as_it_does_for_people(
    given: tuple[str, ...], keys: set[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path / "data"))
    code = main(list(given)) if "--watch" not in given else 2
    said = capsys.readouterr()
    assert main([*given, "--json"]) == code
    answer = capsys.readouterr()
    document = json.loads(answer.out)
    assert keys is None or set(document) == keys
    if "--watch" not in given:
        progress = [line for line in said.err.splitlines() if line.startswith("[") and " asks " in line]
        assert len(progress) == (2 if "--online" in given else 0)
        assert answer.err.splitlines() == said.err.splitlines()[len(progress) :], "an error is a text, too"


def test_settings_that_are_numbers_are_no_texts(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them were texts."""
    assert main(["explain", "settlement", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["settings"]
    of_source = {one["path"]: one["value"] for one in found["source core_bank"]}
    of_sync = {one["path"]: one["value"] for one in found["settlement"]}
    assert (of_source["log.max_gb"], of_sync["reconcile.repair.rows_max_share"]) == (50, 0.001)
    assert (of_sync["nightly.run_at"], of_sync["nightly.as_of_max"]) == ("00:30", "2h")


def test_a_mistake_in_the_declarations_is_given_with_file_line_and_cure(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_declarations(folder, {"syncs/broken.yaml": "sync: broken\nsource: core_bnk\n"})
    assert main(["validate", "--json"]) == 2
    (first, *_) = json.loads(capsys.readouterr().out)["error"]["faults"]
    assert (Path(first["file"]).name, first["line"]) == ("broken.yaml", 1)
    assert {"path", "cause", "cure"} < set(first)


def test_the_list_of_connections_has_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTION_WAREHOUSE", "postgresql://me:secret@warehouse:5432/dwh")
    assert main(["connect", "list", "--json"]) == 0
    said = capsys.readouterr().out
    assert [one["id"] for one in json.loads(said)] == ["warehouse"] and "secret" not in said
