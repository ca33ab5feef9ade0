"""Files for partners, on each of the places that they may lie at: what a partner sees, whatever was killed between."""

import io
import itertools
import json
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from seamline.domain.cut_keep import CutKeep, expired
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError, GateFailed, Refused, TransientError
from seamline.domain.staged_cut import CutMode, Lateness, StagedCut
from seamline.files.stores import opening
from seamline.files.stores.s3 import S3Store
from seamline.sinks.files import two_phase
from seamline.sinks.files.maintenance import FilesMaintenance
from seamline.sinks.files.two_phase import ManifestLog
from seamline.values.build import batch_of
from seamline.values.digest import segment_digest
from tests.contract.file_places import Reached, said
from tests.contract.files_worker import killed_at
from tests.contract.files_world import (
    ACCOUNT,
    AUDIT,
    DAY,
    EMPTY,
    NOON,
    Killed,
    Night,
    steps_of,
)
from tests.log_topic import position
from tests.once_more import ONCE_MORE

STORES = ("local", "s3", "sftp", "ftp", "ftps")


@pytest.fixture(params=STORES)
def night(request: pytest.FixtureRequest, reached: Reached, tmp_path: Path) -> Night:
    return Night(reached(request.param), tmp_path)


@pytest.fixture
def local(reached: Reached, tmp_path: Path) -> Night:
    return Night(reached("local"), tmp_path)


def actors(found: dict[str, bytes] | None) -> set[str]:
    return set() if found is None else set(found["audit.csv"].decode().splitlines()[1:])


def test_a_cut_is_a_folder_of_files_that_a_control_file_describes_and_a_flag_ends(night: Night) -> None:
    assert night.publish(night.cut("first")) == 1
    found = night.fetched()
    assert found is not None
    assert set(found) == {"account.csv", "audit.csv", "nothing.csv", "control.json", "_SUCCESS"}
    assert found["account.csv"].decode() == (
        "id,Name,currency,balance,at\n1,first,CNY,10.00,2026-11-27 12:00:00.000000\n2,,USD,-0.50,\n"
    )
    assert found["nothing.csv"] == b"id\n"
    control = json.loads(found["control.json"])
    assert {table["table"]: table["rows"] for table in control["tables"]} == {"account": 2, "audit": 2, "nothing": 0}
    assert (control["verdict"], control["version"], control["business_date"]) == ("MATCH", 1, "2026-11-27")
    assert len(night.own()) == 1, "the log alone"


def test_a_repeat_finds_the_cut_and_another_run_s_is_the_next_version(night: Night) -> None:
    first = night.cut("first")
    assert [night.publish(first) for _ in range(2)] == [1, 1]
    with pytest.raises(Refused, match="not at"):
        night.publish(replace(first, position=position(2)))
    assert night.publish(night.cut("second", run="again")) == 2
    assert night.publish(first, signed_by="Li") == 1, "a repeat signs"
    assert [actors(night.fetched(version)) for version in (1, 2)] == [{"first"}, {"second"}]
    with closing(night.opened()) as cuts:
        assert [cut.signed_by for cut in cuts.state(night.sync).cuts] == ["Li", ""]


# Its steps are the same over every store; what a store does in one of them has tests of its own.
@pytest.mark.parametrize(
    "night", ["local", "sftp", *(pytest.param(one, marks=ONCE_MORE) for one in ("s3", "ftp"))], indirect=True
)
def test_a_publish_that_is_killed_before_any_step_is_completed_by_its_repeat(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is killed, a partner sees nothing or all of it; and what was decided is shown by whoever comes next."""
    steps, number = list[str](), 0
    while True:
        each = Night(night.place, tmp_path)
        cut, dying = each.cut("first"), each.opened()
        with monkeypatch.context() as patch, closing(dying):
            steps = steps_of(dying.store, patch, dies_before=number)
            try:
                each.publish(cut, by=dying)
            except Killed:
                pass
            else:
                break
        assert actors(each.fetched()) in (set(), {"first"})
        with closing(each.opened()) as cuts:
            is_decided = bool(cuts.state(each.sync).cuts)
        assert is_decided == ("put_if_absent" in steps)
        assert actors(each.fetched()) == ({"first"} if is_decided else set()), "who looks shows what was decided"
        assert each.publish(cut) == 1
        assert actors(each.fetched()) == {"first"}
        number += 1
    writes = ["write"] * 6  # three tables, control file, flag, and the note
    shown = [*["place"] * 4, "write", "place", "remove", "remove_folder"]
    assert steps == [*writes, "put_if_absent", *shown]
    assert number == len(steps)


def test_of_two_writers_one_wins_the_number_and_the_other_goes_on_behind_it(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = night.cut("first"), night.cut("second", run="second")
    real, overtaken = ManifestLog.decide, list[int]()

    def decide(self: ManifestLog, *args: Any, **more: Any) -> Any:
        if not overtaken:
            overtaken.append(0)
            overtaken[0] = night.publish(second)
        return real(self, *args, **more)

    monkeypatch.setattr(ManifestLog, "decide", decide)
    assert night.publish(first) == 2
    assert overtaken == [1]
    assert [actors(night.fetched(version)) for version in (1, 2)] == [{"second"}, {"first"}]
    header = json.loads((night.fetched(2) or {})["control.json"])
    assert header["version"] == 2, "what was prepared as version 1 is made again"


def overtaken(place: Callable[[str, str], bool], sleeps: int, night: Night, cut: StagedCut) -> Callable[..., bool]:
    """Before the call of this number, the cut is published by somebody else."""
    placed = itertools.count()

    def overtaking(source: str, target: str) -> bool:
        if next(placed) == sleeps:
            assert night.publish(cut) == 1
        return place(source, target)

    return overtaking


def test_a_run_that_was_taken_for_dead_delivers_nothing_twice(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps before each of the steps that show files, and meanwhile its repeat has done all of it."""
    for sleeps in range(7):
        each = Night(night.place, Path(dict(night.destination.options)["staging"]))
        cut = each.cut("first")
        zombie = each.opened()
        with monkeypatch.context() as patch:
            patch.setattr(zombie.store, "place", overtaken(zombie.store.place, sleeps, each, cut))
            assert each.publish(cut, by=zombie) == 1
        assert actors(each.fetched()) == {"first"}
        assert len(each.own()) == 1, "nothing lies prepared"


def test_delivered_rows_are_read_back_for_comparison(night: Night) -> None:
    rows = [(1, 'a,"b"\n', "CNY", Decimal("1.00"), NOON), (2, "", "USD", None, None), (3, None, "€é", None, None)]
    cut = night.cut_of({ACCOUNT: rows})
    dated = replace(cut, tables=(replace(cut.tables[0], mode=CutMode.DATE),))
    night.publish(dated)
    with closing(night.opened()) as cuts:
        assert cuts.date_before(night.sync, DAY) == []
        (published,) = cuts.date_before(night.sync, DAY + timedelta(days=1))
    assert (published.table, published.business_date, published.version) == ("account", DAY, 1)
    view = night.reads.open_published(night.plan, night.destination, [published], position=position(1))
    expected = segment_digest(ACCOUNT, batch_of(ACCOUNT, rows), run_key="k")
    assert (
        sum(
            view.digests(Segment("account"), run_key="k").values(),
            segment_digest(ACCOUNT, batch_of(ACCOUNT, []), run_key="k"),
        )
        == expected
    )
    path = f"{night.sync}/{DAY}/v1/account.csv"
    night.place.put(path, night.place.seen("")[path].replace(b"1.00", b"2.00"))
    with pytest.raises(GateFailed, match="were written"):
        view.digests(Segment("account"), run_key="k")


def test_late_rows_are_counted_against_the_files_of_the_version_that_counts(local: Night) -> None:
    local.publish(local.cut_of({AUDIT: [("a",), ("b",), ("b",)]}))
    again = local.staged(AUDIT, [("b",), ("c",), ("c",)])
    with closing(local.opened()) as cuts:
        assert cuts.lateness(local.sync, "audit", DAY, staged_as=again.staged_as) == Lateness(2, 2)
        assert cuts.lateness(local.sync, "audit", DAY + timedelta(days=1), staged_as=again.staged_as) is None


def test_what_expires_goes_flag_first_and_its_version_is_never_given_again(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [DAY + timedelta(days=number) for number in range(3)]
    for day in days:
        night.publish(night.cut(day.isoformat(), run=f"run {day}", day=day))
    with closing(night.opened()) as cuts:
        kept, now = cuts.kept_cuts(night.sync)
        gone = expired(kept, CutKeep(2, 0, 7), now=now + timedelta(days=9))
        assert {(cut.business_date, cut.table) for cut in gone} == {
            (DAY, table.name) for table in (ACCOUNT, AUDIT, EMPTY)
        }
        with monkeypatch.context() as patch:
            removed = list[str]()
            real = cuts.store.remove
            patch.setattr(cuts.store, "remove", lambda path: removed.append(path) or real(path))
            dropped = cuts.expire(night.sync, DAY, gone)
        assert (dropped.partitions, dropped.size_bytes > 0) == (3, True)
        assert removed[0].endswith("_SUCCESS")
        assert cuts.expire(night.sync, DAY, gone).partitions == 0, "a repeat finds nothing"
        assert cuts.expired(night.sync) == [(DAY, 1)]
    assert [night.fetched(day=day) is None for day in days] == [True, False, False]
    with pytest.raises(Refused, match="has expired"):
        night.publish(replace(night.cut("x"), run_id=f"run {DAY}"))
    assert night.publish(night.cut("again", run="again")) == 2


def test_maintenance_removes_what_dead_attempts_and_zombies_have_left(
    local: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.publish(local.cut("first"))
    second = local.cut("second", run="second")
    with monkeypatch.context() as patch, closing(local.opened()) as dying:
        steps_of(dying.store, patch, dies_before=4)
        with pytest.raises(Killed):
            local.publish(second, by=dying)
    assert any("prepared/" in path for path in local.own())
    with closing(FilesMaintenance(local.destination, local.opened())) as maintenance:
        assert maintenance.let_go().orphan_files == 0, "it may still be at work"
        monkeypatch.setattr("seamline.sinks.files.maintenance._ATTEMPT", timedelta(0))
        assert maintenance.let_go().orphan_files >= 1, "those of other syncs in this place go too"
    assert not any("prepared/" in path for path in local.own())
    assert local.publish(second) == 2


def test_parts_of_an_upload_that_was_killed_are_removed_from_s3(reached: Reached, tmp_path: Path) -> None:
    night = Night(reached("s3"), tmp_path)
    with closing(night.store()) as store:
        assert isinstance(store, S3Store)
        for folder in ("sync", "sync2"):
            store.client.create_multipart_upload(Bucket=store.bucket, Key=f"outgoing/{folder}/x/large.csv")
        # moto says of each that it began in 2010.
        assert store.drop_unfinished("sync", datetime(2001, 1, 1, tzinfo=UTC)) == 0, "it may still be at work"
        later = datetime.now(UTC) + timedelta(hours=1)
        assert [store.drop_unfinished("sync", later) for _ in range(2)] == [1, 0]
        assert store.drop_unfinished("sync2", later) == 1, "that of another folder has stayed"


# ---- what a bug would do -------------------------------------------------------------------------------------------


def test_a_file_that_is_written_wrong_is_never_decided(local: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that loses a byte; and planted: a publish that decides without reading back."""
    real = two_phase.ManifestLog.write

    def torn(self: ManifestLog, attempt: str, name: str, content: Any) -> Any:
        made = real(self, attempt, name, content)
        return replace(made, sha256="0" * 64) if name == "account.csv" else made

    cut = local.cut("first")
    with monkeypatch.context() as patch:
        patch.setattr(ManifestLog, "write", torn)
        with pytest.raises(GateFailed, match="were written"):
            local.publish(cut)
        assert not local.own(), "what was prepared is taken back"
        assert local.fetched() is None
        patch.setattr(
            ManifestLog,
            "prepare",
            lambda self, delivery, check: self._store.write(self._of(delivery.attempt, "_prepared"), io.BytesIO()),
        )
        local.publish(cut)
        with pytest.raises(AssertionError):
            local.fetched()


def test_what_failed_first_is_what_is_reported_where_its_files_cannot_be_removed_either(
    local: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: Any, **__: Any) -> None:
        raise GateFailed("it is another file")

    def away(*_: Any) -> None:
        raise TransientError("the store is away")

    cut = local.cut("first")
    with monkeypatch.context() as patch:
        patch.setattr(ManifestLog, "prepare", other)
        patch.setattr(ManifestLog, "abort", away)
        with pytest.raises(GateFailed, match="it is another file") as failed:
            local.publish(cut)
    assert "the store is away" in "".join(failed.value.__notes__)


def test_a_file_of_somebody_else_s_is_never_overwritten(night: Night) -> None:
    theirs = f"{night.sync}/{DAY}/v1/account.csv"
    night.place.put(theirs, b"theirs")
    with pytest.raises(Refused, match="is there already"):
        night.publish(cut := night.cut("first"))
    assert night.place.seen("")[theirs] == b"theirs"
    assert night.fetched() is None, "without a flag"
    night.place.put(theirs, None)
    assert night.publish(cut) == 1
    assert actors(night.fetched()) == {"first"}


def test_a_store_that_lies_about_a_rename_gets_no_flag(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = night.cut("first")
    with monkeypatch.context() as patch, closing(night.opened()) as cuts:
        real = cuts.store.place
        patch.setattr(cuts.store, "place", lambda one, other: other.endswith("audit.csv") or real(one, other))
        with pytest.raises(GateFailed, match="is not there after it was placed"):
            night.publish(cut, by=cuts)
    assert night.fetched() is None
    assert night.publish(cut) == 1
    assert actors(night.fetched()) == {"first"}


def test_a_partner_who_takes_the_files_away_disturbs_no_later_delivery(local: Night) -> None:
    local.publish(local.cut("first"))
    for path in list(local.place.seen(local.sync)):
        local.place.put(path, None)
    assert local.publish(local.cut("second", run="second")) == 2
    assert local.fetched(1) is None


def test_a_place_that_is_away_is_tried_again(local: Night, tmp_path: Path) -> None:
    gone = replace(local.place, location=str(tmp_path / "nowhere"))
    with pytest.raises(TransientError, match="is no folder here"):
        Night(gone, tmp_path).publish(local.cut("first"))


def test_a_server_with_another_key_is_refused(
    reached: Reached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Night(reached("sftp"), tmp_path)
    real = opening.resolve("ssh")
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBHXwN4ZQLB6dQTGTcRlzyz1nKLy6jMrxPMRYaGHJ0/l"
    for extra, why in (({**real.extra, "host_key": other}, "refused"), ({}, "by which key its server is known")):
        monkeypatch.setenv("SEAMLINE_CONNECTION_SSH", said(real, extra=extra))
        with pytest.raises(ConfigError, match=why):
            night.opened()


@pytest.mark.parametrize("store", ["local", "sftp"])
def test_a_process_that_is_killed_amid_its_work_leaves_nothing_to_be_seen(
    store: str, reached: Reached, tmp_path: Path
) -> None:
    """By SIGKILL, within a file on its way, and between two files that are shown."""
    for step in ("write", "place"):
        night = Night(reached(store), tmp_path)
        cut = night.cut("first")
        definitions = {table.name: table for table in night.tables}
        assert killed_at(step, night.destination, cut, definitions) == -signal.SIGKILL
        assert night.fetched() is None
        assert any(path.startswith("prepared/") for path in night.own())
        assert night.publish(cut) == 1
        assert actors(night.fetched()) == {"first"}


def test_parquet_files_are_those_that_were_compared(local: Night, tmp_path: Path) -> None:
    by_parquet = Night(local.place, tmp_path, format="parquet")
    by_parquet.publish(by_parquet.cut("first"))
    found = by_parquet.fetched()
    assert found is not None
    assert set(found) == {"account.parquet", "audit.parquet", "nothing.parquet", "control.json", "_SUCCESS"}
    (tmp_path / "x.parquet").write_bytes(found["account.parquet"])
    assert pq.read_table(tmp_path / "x.parquet").column("balance").to_pylist() == [Decimal("10.00"), Decimal("-0.50")]
    (tmp_path / "x.parquet").write_bytes(found["nothing.parquet"])
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 0


def test_a_bank_s_dialect_has_records_around_the_rows_and_totals(local: Night, tmp_path: Path) -> None:
    dialect = {
        "delimiter": "|",
        "encoding": "gb18030",
        "line_end": "crlf",
        "null": "\\N",
        "header": True,
        "trailer": True,
    }
    totals = [{"table": "account", "sum": "balance"}, {"table": "account", "sum": "balance", "by": ["currency"]}]
    night = Night(local.place, tmp_path, csv=dialect, control_totals=totals, flag_file="done.ok")
    night.publish(
        night.cut_of({ACCOUNT: [(1, "张三|李", "CNY", Decimal("10.00"), NOON), (2, "\\N", "USD", None, None)]})
    )
    folder = f"{night.sync}/{DAY}/v1"
    seen = night.place.seen("")
    assert seen[f"{folder}/account.csv"].decode("gb18030") == (
        f"H|{night.sync}|account|2026-11-27|1\r\nid|Name|currency|balance|at\r\n"
        '1|"张三|李"|CNY|10.00|2026-11-27 12:00:00.000000\r\n2|"\\N"|USD|\\N|\\N\r\nT|2|10.00\r\n'
    )
    (table,) = json.loads(seen[f"{folder}/control.json"])["tables"]
    assert table["totals"] == [
        {"sum": "balance", "by": [], "groups": [{"rows": 2, "balance": "10.00"}]},
        {
            "sum": "balance",
            "by": ["currency"],
            "groups": [
                {"currency": "CNY", "rows": 1, "balance": "10.00"},
                {"currency": "USD", "rows": 1, "balance": ""},
            ],
        },
    ]
    assert f"{folder}/done.ok" in seen
