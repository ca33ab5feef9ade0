"""What of a delivery goes, and in which order: whoever sees a flag or a control file finds all that it names."""

import json
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import pytest

from seamline.domain.cut_keep import KeptCut
from seamline.files.stores.drafts import draft_of
from seamline.files.stores.local import LocalStore
from seamline.sinks.files.cuts import FilesCuts, new_attempt
from seamline.sinks.files.maintenance import FilesMaintenance
from seamline.sinks.files.two_phase import ManifestLog
from tests.contract.file_places import folder_place
from tests.contract.files_world import ACCOUNT, AUDIT, DAY, NOON, Killed, Night, steps_of

ACCOUNTS = [(1, "x", "CNY", Decimal("10.00"), NOON)]
LATER = DAY + timedelta(days=1)


@pytest.fixture
def night(tmp_path: Path) -> Night:
    (tmp_path / "out").mkdir()
    return Night(folder_place(str(tmp_path / "out"), "", tmp_path / "out"), tmp_path, (ACCOUNT, AUDIT))


def parked(night: Night) -> None:
    """A date with both tables, and the date after it without audit."""
    night.publish(night.cut_of({ACCOUNT: ACCOUNTS, AUDIT: [("x",)]}))
    night.publish(night.cut_of({ACCOUNT: ACCOUNTS}, run="later", day=LATER))


def kept(cuts: FilesCuts, night: Night, **wanted: object) -> list[KeptCut]:
    return [one for one in cuts.kept_cuts(night.sync)[0] if all(getattr(one, key) == wanted[key] for key in wanted)]


def seen(night: Night, version: int = 1) -> set[str]:
    """Names of a delivery. What its control file names is there, as it says, and so is all of it behind a flag."""
    folder = f"{night.sync}/{DAY}/v{version}/"
    found = {path.removeprefix(folder): content for path, content in night.place.seen(folder).items()}
    named = set()
    if "control.json" in found:
        files = [file for table in json.loads(found["control.json"])["tables"] for file in table["files"]]
        named = {file["name"] for file in files}
        assert {file["name"]: file["bytes"] for file in files} == {one: len(found.get(one, "")) for one in named}
    assert "_SUCCESS" not in found or {"account.csv", "audit.csv"} <= named
    return set(found)


def test_a_delivery_stays_whole_while_a_table_of_it_stays(night: Night) -> None:
    for run in ("first", "second"):
        night.publish(night.cut_of({ACCOUNT: ACCOUNTS, AUDIT: [(run,)]}, run=run))
    with closing(night.opened()) as cuts:
        assert cuts.expire(night.sync, DAY, kept(cuts, night, table="account", version=1)).partitions == 0
        assert seen(night) == {"account.csv", "audit.csv", "control.json", "_SUCCESS"}
        assert cuts.expire(night.sync, DAY, kept(cuts, night, version=1)).partitions == 2
    assert seen(night) == set()
    assert "_SUCCESS" in seen(night, 2)


def test_of_a_parked_table_s_newest_proven_cut_the_control_file_names_what_is_left(night: Night) -> None:
    parked(night)
    with closing(night.opened()) as cuts:
        assert cuts.expire(night.sync, DAY, kept(cuts, night, table="account", business_date=DAY)).partitions == 1
        assert seen(night) == {"audit.csv", "control.json"}
        control = json.loads(night.place.seen(f"{night.sync}/{DAY}/")[f"{night.sync}/{DAY}/v1/control.json"])
        assert ([one["table"] for one in control["tables"]], control["expired"]) == (["audit"], ["account"])
        # It is read back as before, and goes once it is not the newest.
        cut = cuts.state(night.sync).current("audit", DAY)
        assert cut is not None
        assert [rows.to_pylist() for rows in cuts.rows_of(night.sync, cut, cut.tables["audit"])] == [[{"actor": "x"}]]
        assert cuts.expire(night.sync, DAY, kept(cuts, night, table="audit")).partitions == 1
        assert cuts.expired(night.sync) == [(DAY, 1)]
    assert seen(night) == set()


@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("second", range(5))
def test_a_kill_before_any_step_leaves_no_control_file_that_names_what_is_gone(
    night: Night, first: int, second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest, the flag, the old control file, the new one, the file; then maintenance, at one of them."""
    parked(night)
    with monkeypatch.context() as patch, closing(night.opened()) as cuts:
        going = kept(cuts, night, table="account", business_date=DAY)
        steps_of(cuts.store, patch, dies_before=first)
        with pytest.raises(Killed):
            cuts.expire(night.sync, DAY, going)
    seen(night)
    with monkeypatch.context() as patch, closing(night.opened()) as cuts:
        steps_of(cuts.store, patch, dies_before=second)
        with suppress(Killed):
            FilesMaintenance(night.destination, cuts).let_go()
    seen(night)
    with closing(night.opened()) as cuts:
        FilesMaintenance(night.destination, cuts).let_go()
        assert not cuts.state(night.sync).leaving
    whole = {"account.csv", "audit.csv", "control.json", "_SUCCESS"}
    assert seen(night) == (whole if first == 0 else {"audit.csv", "control.json"})


def test_a_sync_whose_log_cannot_be_read_fails_by_name_and_the_others_are_maintained(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline.sinks.files.maintenance._ATTEMPT", timedelta(0))
    with closing(night.opened()) as cuts:
        # Maintenance comes to the broken one first.
        cuts.store.write(".seamline/a-broken/log/00000001.json", BytesIO(b"{"))
        left = f".seamline/{night.sync}/prepared/{new_attempt()}"
        cuts.store.write(f"{left}/account.csv", BytesIO(b"of a dead writer"))
        let_go = FilesMaintenance(night.destination, cuts).let_go()
        assert cuts.store.size(f"{left}/account.csv") is None
    (failed,) = let_go.failed
    assert (let_go.orphan_files, failed.sync) == (1, "a-broken")
    assert "manifest 1 in .seamline/a-broken/log cannot be read" in str(failed)


def test_maintenance_removes_drafts_of_killed_puts_that_no_number_is_for_any_more(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    log = ManifestLog(store, "s")
    for number in range(1, 4):
        log.decide(log.newest(), f"attempt {number}", {})
    drafts = [draft_of(f"{number:08d}.json") for number in (1, 2, 3, 4)]
    for draft in drafts:
        store.write(f"s/log/{draft}", BytesIO(b"{"))
    assert log.compact(keep=1) == 2
    assert [name for name in drafts if name in store.names("s/log")] == drafts[2:], "one may still be put"
    assert log.newest().number == 3
    assert store.drop_unfinished("s", datetime.now(UTC)) == 0


def test_a_manifest_whose_predecessor_maintenance_removes_before_the_look_counts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    log, others = ManifestLog(store, "s"), ManifestLog(LocalStore(tmp_path), "s")
    first = log.decide(log.newest(), "first", {})
    assert first is not None
    put = store.put_if_absent

    def put_and_sleep(path: str, content: bytes) -> bool:
        is_put = put(path, content)
        others.decide(others.newest(), "theirs", {})
        others.compact(keep=2)
        return is_put

    monkeypatch.setattr(store, "put_if_absent", put_and_sleep)
    second = log.decide_by_answer(first, "second", {})
    assert second is not None
    assert [name for name in store.names("s/log") if name.endswith(".json")] == ["00000002.json", "00000003.json"]
