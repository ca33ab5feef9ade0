"""A declaration is changed by one line and keeps every other letter."""

from pathlib import Path

import pytest
import yaml

from seamline.domain.declared_change import Change
from seamline.domain.errors import ConfigError, Refused
from seamline.spec.changed import changed, checked, difference, put
from tests.unit.declared import SYNC, write_declarations

SHIPPED = (Path(__file__).parents[2] / "include/syncs/settlement.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "change", "value", "lines"),
    [
        (SYNC, Change.TABLE, "payment_order", ["+  - payment_order"]),
        (SHIPPED, Change.TABLE, "new one", ['+  - "new one"']),
        (SHIPPED, Change.TABLE, "null", ['+  - "null"']),
        ("tables: [account, entry]  # two\n", Change.TABLE, "third",
         ["-tables: [account, entry]  # two", "+tables: [account, entry, third]  # two"]),
        ("tables:\n- account  # one\n# of others\n\nsync: s", Change.TABLE, "t", ["+- t"]),
        ("tables:\n  - {name: account,\n     parked: no}", Change.TABLE, "t", ["+  - t"]),
        ("tables:\n  - name: a\n    business_date:\n      as: date\n# end\nsync: s\n", Change.TABLE, "t", ["+  - t"]),
        (SHIPPED, Change.RUN_AT, "01:15", ['-  run_at: "00:30"', '+  run_at: "01:15"']),
        (SHIPPED, Change.VERDICT_BY, "06:45", ['-  verdict_by: "07:00"', '+  verdict_by: "06:45"']),
        (SYNC, Change.VERDICT_BY, "06:45", ['+  verdict_by: "06:45"']),
        ("nightly: {timezone: UTC}\n", Change.RUN_AT, "06:45",
         ["-nightly: {timezone: UTC}", '+nightly: {timezone: UTC, run_at: "06:45"}']),
    ],
)  # fmt: skip
def test_one_change_is_one_line(text: str, change: Change, value: str, lines: list[str]) -> None:
    made = changed(text, change, value)
    found = [line for line in difference(text, made, "s.yaml").splitlines()[2:] if line[0] in "+-"]
    assert [line for line in found if line[1:] not in ("sync: s", "     parked: no}")] == lines
    said = yaml.safe_load(made)
    assert (said["tables"][-1] if change is Change.TABLE else said["nightly"][change.value]) == value


def test_ends_of_lines_stay_as_they_are() -> None:
    assert changed("sync: s\r\ntables:\r\n  - a\r\n", Change.TABLE, "b") == "sync: s\r\ntables:\r\n  - a\r\n  - b\r\n"


@pytest.mark.parametrize(
    ("text", "change", "value", "said"),
    [
        (SHIPPED, Change.RUN_AT, "25:00", "no time of day"),
        (SHIPPED, Change.RUN_AT, '00:40"\nsync: other', "no time of day"),
        (SHIPPED, Change.RUN_AT, "00:30", "says so already"),
        ("tables: []\n", Change.TABLE, "t", "lists no tables"),
        ("sync: s\n", Change.TABLE, "t", "lists no tables"),
        ("sync: s\n", Change.RUN_AT, "00:40", "declares no nights"),
        ("- a\n", Change.TABLE, "t", "not a mapping"),
        ("a: [\n", Change.TABLE, "t", "not YAML"),
        ("tables:\n  - &a account\n  - *a\n", Change.TABLE, "t", "has a form"),
    ],
)
def test_what_cannot_be_changed_is_refused(text: str, change: Change, value: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        changed(text, change, value)


@pytest.mark.parametrize("hostile", ["t]\nsync: other", "{a: b}", "- x", "t # x", "'", '"', "\u2028", "*a", "!!python"])
def test_a_hostile_name_stays_one_name(hostile: str) -> None:
    for text in (SYNC, "tables: [account]\n"):
        assert yaml.safe_load(changed(text, Change.TABLE, hostile))["tables"][-1] == hostile


def test_the_changed_text_is_checked_as_the_folder_would_be_and_the_folder_is_left_alone(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path)
    made = changed(SYNC, Change.TABLE, "payment_order")
    assert [one.name for one in checked(folder, "settlement", made).sync("settlement").tables][-1] == "payment_order"
    with pytest.raises(ConfigError, match="account"):
        checked(folder, "settlement", changed(SYNC, Change.TABLE, "account"))
    assert (folder / "syncs/settlement.yaml").read_text(encoding="utf-8") == SYNC


def test_a_sync_with_calendars_may_be_changed(tmp_path: Path) -> None:
    text = SYNC.replace("nightly:\n", "nightly:\n  calendars: [bank]\n")
    calendar = "calendar: bank\nfrom: 2026-01-01\nuntil: 2026-12-31\n"
    folder = write_declarations(tmp_path, {"syncs/settlement.yaml": text, "calendars/bank.yaml": calendar})
    assert checked(folder, "settlement", changed(text, Change.TABLE, "payment_order")).calendars["bank"]


def test_a_folder_that_may_not_be_written_says_what_to_do(tmp_path: Path) -> None:
    file = write_declarations(tmp_path) / "syncs" / "settlement.yaml"
    put(file, "sync: other\n")
    assert file.read_text(encoding="utf-8") == "sync: other\n"
    assert [one.name for one in file.parent.iterdir()] == ["settlement.yaml"]
    with pytest.raises(ConfigError, match="may not write settlement.yaml"):
        put(tmp_path / "nowhere" / "settlement.yaml", "x")
