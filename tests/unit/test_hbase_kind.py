"""HBase as a kind of destination: its declaration, its keys, its numbers, and what it refuses by name."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from seamline.adapters.connections import parsed
from seamline.domain.errors import ConfigError, Refused, SchemaConflict, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import HoldsCuts, ReadsBack, described
from seamline.plan.compile import compile_plan
from seamline.plan.explain import explain
from seamline.plan.model import SyncPlan
from seamline.plan.stages import all_stages
from seamline.ports import Survey
from seamline.sinks.hbase.gateway import _error, open_store
from seamline.sinks.hbase.grants import grant_script
from seamline.sinks.hbase.ledger import State, now_ms, state_of, text_of
from seamline.sinks.hbase.places import Places, keys_of
from seamline.sinks.hbase.rows import How, page_of, rows_of, texts_of_rows
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from seamline.values.build import batch_of
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TRANSFER, position
from tests.unit.declared import SYNC, write_declarations

CELLS = "destination: cells\nkind: hbase\nconnection: cells\nnamespace: settlement\n"
LIVE = SYNC.partition("  - {name: ledger_entry")[0].replace("[warehouse]", "[cells]")
STATE = State(LedgerRow(STREAM, "t", "id", 0, position(0), 1, 0, 0), number=0)


def declared(folder: Path, sync: str = LIVE, cells: str = CELLS) -> Path:
    return write_declarations(folder, {"destinations/cells.yaml": cells, "syncs/settlement.yaml": sync})


@pytest.fixture
def plan(tmp_path: Path) -> SyncPlan:
    return compile_plan(load_declarations(declared(tmp_path)), "settlement")


def test_a_declaration_becomes_a_plan_without_nights(plan: SyncPlan) -> None:
    cells = plan.destination("cells")
    assert (cells.kind, cells.connection, cells.namespace) == ("hbase", "cells", "settlement")
    assert set(all_stages(plan)) >= {"onboard", "reconcile"}
    assert "nightly" not in all_stages(plan)
    assert "streams as cells; live tables in settlement, no cuts" in " ".join(explain(plan).split())


def test_tables_of_an_incremental_snapshot_lie_where_no_reader_looks(plan: SyncPlan) -> None:
    passed = plan.incremental_plan([plan.tables[0].name], "7").destinations[0]
    places = Places.of(passed)
    assert places == Places.of(plan.destinations[0])
    assert places.live(passed.namespace, "account").table == "settlement:seamline.rows"
    assert places.live(passed.namespace, "account").prefix == b"settlement_incremental_7/account/"
    assert (places.live("settlement", "account").table, places.live("settlement", "account").prefix) == (
        "settlement:account",
        b"",
    )


def test_parts_of_a_key_are_kept_apart() -> None:
    rows = batch_of(replace(ACCOUNT, key=("name",)), [(1, "a:b"), (2, "a%3Ab"), (3, ":")])
    assert keys_of(replace(ACCOUNT, key=("name",)), rows) == [b"a%3Ab", b"a%253Ab", b"%3A"]
    assert keys_of(TRANSFER, batch_of(TRANSFER, [(7, 1, None)])) == [b"7:1"]


@pytest.mark.parametrize(("name", "said"), [("x" * 32_001, "of 32001 bytes"), ("", "without a byte")])
def test_a_row_key_that_hbase_does_not_take_is_refused_by_its_table(name: str, said: str) -> None:
    named = replace(ACCOUNT, key=("name",))
    with pytest.raises(SchemaConflict, match=f"a key of account \\(name\\) makes a row key {said}"):
        keys_of(named, batch_of(named, [(1, "a"), (2, name)]))


def test_a_value_that_hbase_does_not_take_is_refused_by_its_column() -> None:
    assert texts_of_rows(ACCOUNT, batch_of(ACCOUNT, [(1, "x" * 1_000), (2, None)]))
    with pytest.raises(SchemaConflict, match="column name of account has a value of 20000000 bytes"):
        texts_of_rows(ACCOUNT, batch_of(ACCOUNT, [(1, "ü" * 10_000_000)]))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("java.lang.IllegalArgumentException: KeyValue size too large", Refused),
        ("RetriesExhausted: org.apache.hadoop.hbase.DoNotRetryIOException: Cell is too large", Refused),
        ("java.net.SocketTimeoutException: 20000 ms", TransientError),
    ],
)
def test_what_hbase_refuses_for_good_is_not_tried_again(said: str, kind: type[SeamlineError]) -> None:
    thrown = SimpleNamespace(java_exception=SimpleNamespace(toString=lambda: said))
    assert type(_error(cast(Any, thrown), "answer")) is kind


def test_a_table_of_any_name_has_one_that_hbase_takes_and_no_other_has() -> None:
    places = Places("s")
    names = ["account", "no%table", "б", "xб", "_б", "a.b", ".2E", "-a", "_.-2E", "seamline.state", "seamline.rows"]
    found = [places.live("s", name).table for name in names]
    assert found[:3] == ["s:account", "s:no.25table", "s:_.-.D0.B1"]
    assert len({*found, places.own, places.beside}) == len(names) + 2
    assert all(re.fullmatch(r"s:[A-Za-z0-9_][A-Za-z0-9_.-]*", name) for name in found)


def test_nights_and_tables_without_a_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`cells` \\(hbase\\) cannot hold cuts"):
        load_declarations(declared(tmp_path, SYNC.replace("[warehouse]", "[cells]")))
    declarations = load_declarations(declared(tmp_path))
    said = "table account: destination `cells` .hbase. keeps no table without a primary key"
    with pytest.raises(DeclarationsInvalid, match=said):
        compile_plan(declarations, "settlement", Survey((replace(AUDIT, name="account"),)))


@pytest.mark.parametrize("namespace", ["a:b", "hbase", "default", "", "a-b"])
def test_a_namespace_that_hbase_does_not_have_or_needs_itself_is_refused(tmp_path: Path, namespace: str) -> None:
    with pytest.raises(ConfigError, match="a namespace has letters"):
        load_declarations(declared(tmp_path, cells=CELLS.replace("settlement", f'"{namespace}"')))


def test_it_says_what_it_can_do_and_at_which_level() -> None:
    kind = sink_kind("hbase")
    assert isinstance(kind, ReadsBack)
    assert not isinstance(kind, HoldsCuts)
    said = described(kind)
    assert said[0] == "writes become visible one by one; exact once the stream stands still"
    assert "a table without a key is refused" in said


def test_numbers_never_fall_also_when_the_clock_does(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = replace(STATE, number=now_ms() + 1_000_000)
    assert ahead.reserving(1).number == ahead.number + 2
    assert STATE.reserving(1).number >= now_ms()
    assert ahead.reserving(3).first_number(3) > ahead.number + 1, "the marker below it is above what was before"


def test_the_ledger_comes_back_from_its_text() -> None:
    state = replace(STATE, runs=("a", "b"), generations=(("account", 2),), ahead=20, before="7.a", placing="b")
    state = state.with_findings(3)
    assert replace(state_of(STREAM, text_of(state)), updated_ms=0) == state


def test_a_finding_counts_by_the_owner_that_the_ledger_names_for_its_number() -> None:
    found = STATE.with_findings(2).with_findings(1)
    after = replace(found, row=replace(found.row, epoch=7)).with_findings(2)
    assert [after.finder(number) for number in range(1, 7)] == [1, 1, 1, 7, 7, None]
    assert (after.findings, after.finders) == (5, ((3, 1), (5, 7)))


def test_a_page_holds_rows_and_a_read_one_gives_them_back() -> None:
    page = page_of([column.name for column in ACCOUNT.columns], [(How.OVER, b"1", ("1", None)), (How.GOES, b"2", ())])
    assert page.endswith(b"\x01\x00\x00\x00\x011\x00\x00\x00\x011\xff\xff\xff\xff\x02\x00\x00\x00\x012")
    read = b"\x00\x00\x00\x011\x00\x00\x00\x01\x00\x00\x00\x02id\x00\x00\x00\x011"
    assert list(rows_of(read * 2, "account")) == [(b"1", {"id": "1"})] * 2


def test_a_client_that_was_never_fetched_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEAMLINE_HOME", str(tmp_path))
    monkeypatch.setattr("seamline.sinks.hbase.gateway._jvm", None)
    with pytest.raises(ConfigError, match="HBase's client is not here") as refused:
        open_store(parsed("hbase://writer@zookeeper.example:2181?znode=/hbase"))
    assert refused.value.hint == "./seamline setup --with hbase"


def test_the_page_of_grants_shows_what_the_script_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    assert f"```\n{grant_script('settlement', logins=DestinationLogins())}```" in page
