"""Where `./seamline init` puts the tables of a new sync; databases are asked in integration."""

import argparse
from pathlib import Path

import pytest

from seamline.adapters.connections import put
from seamline.cli import init
from seamline.domain.errors import ConfigError
from seamline.domain.server_found import CAPTURES, MAKES, ServerFound, Use
from tests.unit.declared import write_declarations


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A destination `warehouse` with the tables `account` and `ledger_entry` of sync `settlement`."""
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    answer(monkeypatch, "postgres")
    put({"warehouse": {"conn_type": "postgres", "host": "db", "port": 5432, "login": "me"}})
    return write_declarations(tmp_path)


def answer(monkeypatch: pytest.MonkeyPatch, kind: str, *uses: Use) -> None:
    monkeypatch.setattr(init, "examined", lambda _: ServerFound("PostgreSQL", kind=kind, uses=uses))


def asked(*, to: str = "warehouse", into: str = "") -> argparse.Namespace:
    return argparse.Namespace(sync="cards", source="cards_db", to=to, into=into)


def place(folder: Path, args: argparse.Namespace, *tables: str) -> tuple[str, str]:
    """Name and text of the destination that a new sync of these tables gets."""
    # What comes around it asks databases.
    free = init._free(folder, init._destination(folder, args), args, tables)  # noqa: SLF001
    return free.name, free.text("") if free.text else ""


def test_a_declared_destination_is_taken_as_it_is(folder: Path) -> None:
    assert place(folder, asked(), "card") == ("warehouse", "")


def test_tables_that_another_sync_writes_there_get_a_destination_of_their_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both syncs wrote into one table then: every command of either refused its declarations."""
    name, text = place(folder, asked(), "Account", "card", "ledger_entry")
    assert name == "warehouse_cards" and "connection: warehouse " in text and "schema: cards " in text
    said = "sync settlement writes Account and 1 more into warehouse, so this one gets warehouse_cards"
    assert said in capsys.readouterr().err


def test_another_place_of_a_declared_destination_is_a_destination_of_its_own(folder: Path) -> None:
    """`--into` was passed over without a word."""
    name, text = place(folder, asked(into="plastic"), "card")
    assert name == "warehouse_cards" and "schema: plastic " in text
    assert place(folder, asked(into="settlement"), "card") == ("warehouse", "")


def test_a_destination_that_only_a_person_can_write_is_left_to_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "mariadb")
    with pytest.raises(ConfigError, match="destination `warehouse` cannot take these tables as it is"):
        place(folder, asked(), "account")


def test_one_connection_is_not_both_source_and_destination(folder: Path) -> None:
    with pytest.raises(ConfigError, match="`cards_db` is both --from and --to"):
        place(folder, asked(to="cards_db"), "card")


def test_a_destination_that_cannot_be_written_yet_is_written_down_with_a_note(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put({"dwh": {"conn_type": "postgres", "host": "db", "port": 5432, "login": "me"}})
    answer(monkeypatch, "postgres", Use(MAKES, unfit=("it needs PostgreSQL 17 or newer",)))
    assert place(folder, asked(to="dwh"), "card")[0] == "dwh"
    assert "connection `dwh` cannot make and write tables yet: it needs PostgreSQL 17" in capsys.readouterr().err


def test_a_server_without_a_log_needs_another_login_for_it_though_no_right_is_lacking(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = ServerFound("MariaDB", kind="mariadb", uses=(Use(CAPTURES, unfit=("log_bin is OFF, wanted ON",)),))
    assert init._capture("core", server) == "core_capture"  # noqa: SLF001 (what comes around it asks databases)
    assert "cannot read the log: log_bin is OFF, wanted ON. The next" in capsys.readouterr().err


def test_the_login_that_reads_the_log_is_named_with_its_whole_url(folder: Path) -> None:
    known = {"conn_type": "postgres", "host": "db", "port": 5432, "login": "me", "schema": "bank"}
    ca = folder / "ca.pem"
    ca.write_text("")
    put({"core": known | {"extra": {"sslmode": "verify-full", "sslrootcert": str(ca)}}})
    steps = init._next("cards", init._Part("core", str, capture="core_capture"), init._Part("warehouse"))  # noqa: SLF001
    (command,) = (command for command, _ in steps if "connect add" in command)
    assert command == (
        "./seamline connect add core_capture"
        f" 'postgres://seamline_core_capture@db:5432/bank?sslmode=verify-full&sslrootcert={ca}'"
    )
