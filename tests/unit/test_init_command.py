"""Where `./seamline init` puts the tables of a new sync; databases are asked in integration."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pytest

from seamline.adapters.connections import put
from seamline.cli import init
from seamline.cli.init_offer import offer
from seamline.domain.errors import ConfigError
from seamline.domain.server_found import CAPTURES, MAKES, ServerFound, Use
from tests.unit.declared import DESTINATION, SOURCE, write_declarations


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


WRONG = "destination: warehouse\nkind: postgres\nconnection: warehouse\nschemaa: settlement\n"


@pytest.mark.parametrize("name", ["warehouse", "dwh"])
def test_a_declared_destination_with_a_mistake_in_it_is_refused_by_name(folder: Path, name: str) -> None:
    """It was taken for one that is not there, and written over."""
    file = write_declarations(
        folder, {"destinations/warehouse.yaml": WRONG.replace(" warehouse\nschema", f" {name}\nschema")}
    )
    for to in {"warehouse", name}:
        with pytest.raises(ConfigError, match="destination `warehouse` is declared with a mistake") as refused:
            place(folder, asked(to=to), "card")
        assert "./seamline validate" in refused.value.hint
    assert "schemaa" in (file / "destinations/warehouse.yaml").read_text()


def source_of(folder: Path, name: str, *, nights_only: bool = False) -> init._Part | None:  # noqa: SLF001
    args = argparse.Namespace(source=name, tables="*", nights_only=nights_only)
    return init._declared(folder, args)  # noqa: SLF001 (what comes around it asks databases)


def test_a_declared_source_with_a_mistake_in_it_is_refused_by_name(folder: Path) -> None:
    write_declarations(
        folder, {"sources/core_bank.yaml": "source: core_bank\nkind: mariadb\nconnection: core\n  bank: [\n"}
    )
    with pytest.raises(ConfigError, match="source `core_bank` is declared with a mistake in it, in .*core_bank.yaml"):
        source_of(folder, "core_bank")


def test_no_file_is_written_over(tmp_path: Path) -> None:
    made, there = tmp_path / "made.yaml", tmp_path / "include" / "there.yaml"
    made.write_text("new")
    there.parent.mkdir()
    there.write_text("a person's")
    with pytest.raises(ConfigError, match="there.yaml is there already"):
        init._place([made, made], [there.with_name("first.yaml"), there])  # noqa: SLF001
    assert there.read_text() == "a person's" and not there.with_name("first.yaml").exists()
    init._place([made], [there.with_name("first.yaml")])  # noqa: SLF001
    assert there.with_name("first.yaml").read_text() == "new"


def test_a_name_goes_before_a_connection_and_several_of_one_connection_are_listed(folder: Path) -> None:
    """The first file by the order of names was taken, whether its name or its connection was meant."""
    for kind, text in (("sources", SOURCE), ("destinations", DESTINATION)):
        word = kind.removesuffix("s")
        known = "core_bank" if word == "source" else "warehouse"
        another = text.replace(f"{word}: {known}", f"{word}: a_first").replace("schema: settlement", "schema: other")
        third = another.replace("a_first", "b_second").replace(f"connection: {known}", "connection: shared")
        fourth = third.replace("b_second", "c_third")
        write_declarations(
            folder, {f"{kind}/a_first.yaml": another, f"{kind}/b_second.yaml": third, f"{kind}/c_third.yaml": fourth}
        )
    assert place(folder, asked(), "card") == ("warehouse", "")
    chosen = source_of(folder, "core_bank")
    assert chosen is not None and chosen.name == "core_bank"
    with pytest.raises(ConfigError, match="several destinations have the connection `shared`: b_second, c_third"):
        place(folder, asked(to="shared"), "card")
    with pytest.raises(ConfigError, match="several sources have the connection `shared`: b_second, c_third"):
        source_of(folder, "shared")


@pytest.mark.parametrize(("log", "said"), [("log: none\n", "each night makes a cut"), ("", "load, stream, compare")])
def test_the_last_step_of_a_declared_source_is_that_of_its_log(folder: Path, log: str, said: str) -> None:
    write_declarations(folder, {"sources/core_bank.yaml": SOURCE + log})
    source = source_of(folder, "core_bank")
    assert source is not None
    (*_, (_, why)) = init._next("cards", source, init._Part("warehouse"))  # noqa: SLF001
    assert said in why


@pytest.mark.parametrize(("answer", "then"), [("y", [["onboard", "cards", "--wait", "30"]]), ("", []), ("n", [])])
def test_at_a_terminal_the_scripts_are_printed_and_the_onboarding_is_offered(
    answer: str, then: list[list[str]]
) -> None:
    ran: list[list[str]] = []

    def run(command: Sequence[str]) -> int:
        ran.append(list(command))
        return 3 if command[0] == "onboard" else 0

    code = offer("cards", ("cards_db", "dwh"), ask=lambda _: answer, run=run)
    assert ran == [["grants", "cards_db"], ["grants", "dwh"], *then]
    assert code == (3 if then else 0), "the verdict of the onboarding is that of the command"
