"""Files as a source, on each of the places that they may lie at: what is read is what was promised, or nothing is."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import GateFailed, Refused, SchemaConflict
from seamline.kinds.bulk import ArrowRows, BulkRead, OpenedSource, Wanted
from seamline.kinds.found import source_kind
from seamline.plan.model import SourcePlan
from seamline.sources.files.position import FilesPosition
from seamline.sources.files.source import FilesSource as OpenedFiles
from seamline.sources.files.spec import FilesSource
from seamline.values.build import batch_of, rows_of
from seamline.values.digest import segment_digest
from tests.contract.file_places import Place, Reached, said
from tests.contract.files_world import ACCOUNT, AUDIT, DAY, EMPTY, NOON, TABLES, Night

STORES = ("local", "s3", "sftp", "ftp")
CSV = {"delimiter": "|", "encoding": "gb18030"}
AS_READ = {**CSV, "header": ["H", "*", "{table}", "{date}", "*"], "trailer": ["T", "{rows}"]}


@dataclass
class Tasks:
    """`CopyTasks` in this process: what they read, once they are asked for it. `before`: what happens meanwhile."""

    source: SourcePlan
    tables: Sequence[Table]
    before: Callable[[], None] = lambda: None
    barrier: str = ""
    proofs: list[str] = field(default_factory=list)

    def start(self, barrier: str) -> None:
        self.barrier = barrier

    def is_running(self) -> bool:
        return False

    def result(self) -> Mapping[str, list[tuple[Any, ...]]]:
        self.before()
        reads = [BulkRead(table, Segment(table.name), number) for number, table in enumerate(self.tables)]
        readers = source_kind("files").open_readers(self.source, reads, barrier=self.barrier, participant=0)
        with closing(readers):
            readers.open_at_barrier()
            return {
                read.table.name: self._rows(readers.rows(read.session, proven=self.proofs.append), read)
                for read in reads
            }

    def _rows(self, found: Any, read: BulkRead) -> list[tuple[Any, ...]]:
        assert isinstance(found, ArrowRows)
        return [row for batch in found.batches for row in rows_of(read.table, batch)]


def plan_of(place: Place, **declared: Any) -> SourcePlan:
    spec = FilesSource.model_validate(
        {
            "source": "incoming",
            "kind": "files",
            "location": place.location,
            **({"connection": place.connection} if place.connection else {}),
            **declared,
        }
    )
    return SourcePlan("incoming", "files", spec.namespace, spec.connection, "", "", "", "", **spec.plan_fields())


@contextmanager
def opened(
    source: SourcePlan, tables: Sequence[Table], *, day: date = DAY, before: Callable[[], None] = lambda: None
) -> Iterator[tuple[OpenedSource, Tasks]]:
    tasks = Tasks(source, tables, before)
    wanted = Wanted("attempt", 2, tuple(tables), 1, day)
    with source_kind("files").open_for_tasks(source, wanted, tasks) as found:
        yield found, tasks


def as_it_says(night: Night, **declared: Any) -> SourcePlan:
    """What the destination delivers, as a source that knows no more than where it lies."""
    return plan_of(night.place, delivery=f"{night.sync}/{{date}}/v{{version}}", **declared)


ROWS = {
    ACCOUNT: [(1, "张三|\n", "CNY", "10.00", NOON), (2, "", "USD", "-0.50", None), (3, None, "CNY", "7.25", None)],
    AUDIT: [("x",), ("x",), (None,)],
    EMPTY: [],
}
TOTALS = [{"table": "account", "sum": "balance", "by": ["currency"]}]


@pytest.fixture(params=[("local", "parquet"), *((store, "csv") for store in (*STORES, "ftps"))], ids="-".join)
def delivered(request: pytest.FixtureRequest, reached: Reached, tmp_path: Path) -> tuple[Night, SourcePlan]:
    store, form = request.param
    around = {"csv": {**CSV, "header": True, "trailer": True}} if form == "csv" else {}
    night = Night(reached(store), tmp_path, format=form, control_totals=TOTALS, **around)
    night.publish(night.cut_of(ROWS))
    return night, as_it_says(night, format=form, csv=AS_READ if form == "csv" else {})


def test_what_the_destination_delivers_is_read_to_the_row(delivered: tuple[Night, SourcePlan]) -> None:
    night, source = delivered
    tables = source_kind("files").open_source(source).catalogue([table.name for table in TABLES])
    assert tables == TABLES
    with opened(source, tables) as (found, tasks):
        assert found.position == FilesPosition(DAY.isoformat(), 1, control_of(night))
        for table, rows in ROWS.items():
            expected = batch_of(table, rows)
            digest = segment_digest(table, expected, run_key="k")
            views = [view.digests(Segment(table.name), run_key="k") for view in found.views]
            assert [sum(one.values(), digest - digest) for one in views] == [digest, digest]
            assert tasks.result()[table.name] == rows_of(table, expected)
        assert set(tasks.proofs) == {found.proof}


def control_of(night: Night, version: int = 1) -> str:
    fetched = night.fetched(version)
    assert fetched
    return hashlib.sha256(fetched["control.json"]).hexdigest()


@pytest.fixture
def local(reached: Reached, tmp_path: Path) -> Night:
    trailer = {"csv": {**CSV, "header": True, "trailer": True}}
    night = Night(reached("local"), tmp_path, control_totals=TOTALS, **trailer)
    night.publish(night.cut_of(ROWS))
    return night


def read(night: Night, **declared: Any) -> FilesPosition:
    source = as_it_says(night, csv=AS_READ, **declared)
    with opened(source, TABLES) as (found, tasks):
        tasks.result()
        return cast(FilesPosition, found.position)


def look(night: Night, day: date = DAY) -> tuple[bool, str]:
    found = OpenedFiles(as_it_says(night)).look(day, ["account"])
    return found.is_closed, found.seen


def test_a_date_is_closed_once_its_flag_is_there(local: Night) -> None:
    assert look(local) == (True, "")
    later = date(2026, 11, 30)
    assert look(local, later) == (False, f"{local.sync}/2026-11-30/v1/_SUCCESS is not there")
    with (
        pytest.raises(Refused, match="no delivery of 2026-11-30 is there"),
        opened(as_it_says(local), TABLES, day=later),
    ):
        pass


def test_a_correction_is_the_delivery_with_the_greatest_number_that_has_its_flag(local: Night) -> None:
    before = read(local)
    local.publish(local.cut("corrected", run="again"))
    after = read(local)
    assert (before.version, after.version) == (1, 2)
    assert before.checksum != after.checksum
    local.place.put(f"{local.sync}/{DAY}/v2/_SUCCESS", None)
    assert read(local) == before


def changed(night: Night, name: str, change: Callable[[bytes], bytes | None]) -> None:
    path = f"{night.sync}/{DAY}/v1/{name}"
    night.place.put(path, change(night.place.seen(f"{night.sync}/{DAY}/v1")[path]))


def promised(night: Night, name: str) -> None:
    """The control file says what a file is now."""
    content = night.place.seen(f"{night.sync}/{DAY}/v1")[f"{night.sync}/{DAY}/v1/{name}"]

    def corrected(control: bytes) -> bytes:
        document = json.loads(control)
        for file in (file for table in document["tables"] for file in table["files"] if file["name"] == name):
            file |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        return json.dumps(document).encode()

    changed(night, "control.json", corrected)


def said_otherwise(night: Night, change: Callable[[dict[str, Any]], Any]) -> None:
    def otherwise(control: bytes) -> bytes:
        document = json.loads(control)
        change(document)
        return json.dumps(document).encode()

    changed(night, "control.json", otherwise)


def test_a_flag_before_its_data_is_named(local: Night) -> None:
    changed(local, "account.csv", lambda _: None)
    with pytest.raises(GateFailed, match="account.csv is not there: the flag came before the file"):
        read(local)


def test_a_flag_before_its_control_file_is_named(local: Night) -> None:
    changed(local, "control.json", lambda _: None)
    with pytest.raises(GateFailed, match="has its flag and no control file"):
        read(local)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda content: content[:-20], r"account.csv has \d+ bytes, and \d+ are promised"),
        (lambda content: content.replace(b"CNY", b"EUR"), "account.csv has the sha256 .*, and .* is promised"),
    ],
    ids=["cut off", "changed"],
)
def test_another_file_than_was_promised_is_named(local: Night, change: Any, why: str) -> None:
    changed(local, "account.csv", change)
    with pytest.raises(GateFailed, match=why) as refused:
        read(local)
    assert "nothing was loaded" in refused.value.hint


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda content: content.replace(b"T|3\n", b"T|4\n"),
            "a trailer that says in field 2 .4.: the file has 3",
        ),
        (lambda content: content.replace(b"T|3\n", b"X|3\n"), "a trailer that says in field 1 'X': 'T' is expected"),
        (lambda content: content.replace(b"2026-11-27|1", b"2026-11-26|1"), "a header that says in field 4"),
        (lambda content: content[:-1], "account.csv ends in the middle of a line"),
        (lambda content: content.replace(b"-0.50", b"-0.51"), "currency USD, adds up balance to -0.51 in 1 rows"),
        (lambda content: content.replace(b'2|""', b'x|""'), "in row 2 the id 'x', which is no bigint"),
        (lambda content: content.replace(b'2|""', b'3|""'), "account has 1 keys more than once, as 3 in 2 rows"),
    ],
    ids=["trailer count", "trailer mark", "header date", "half a line", "sum", "value", "key"],
)
def test_a_control_file_that_was_made_of_a_wrong_file_hides_nothing(local: Night, change: Any, why: str) -> None:
    """Bytes and checksum are those of the file: records, rows and sums are not."""
    changed(local, "account.csv", change)
    promised(local, "account.csv")
    with pytest.raises(GateFailed, match=why):
        read(local)


def test_a_control_file_that_says_other_rows_or_another_date_is_named(local: Night) -> None:
    def more(document: dict[str, Any]) -> None:
        document["tables"][0]["rows"] += 1

    said_otherwise(local, more)
    with pytest.raises(GateFailed, match="table account has 3 rows, and its control file says 4"):
        read(local)
    said_otherwise(local, lambda document: document.update(business_date="2026-11-26"))
    with pytest.raises(GateFailed, match="is of 2026-11-26, not of 2026-11-27"):
        read(local)


def test_a_table_with_other_columns_than_were_planned_is_named(local: Night) -> None:
    said_otherwise(
        local,
        lambda document: document["tables"][1]["columns"].append(
            {"name": "new", "kind": "integer", "source_type": "bigint", "nullable": True, "length": 64}
        ),
    )
    with pytest.raises(SchemaConflict, match="audit.new bigint is new"):
        read(local)


def test_a_file_that_is_rewritten_after_it_was_checked_is_not_loaded(local: Night) -> None:
    source = as_it_says(local, csv=AS_READ)
    rewrite = lambda: changed(local, "account.csv", lambda content: content.replace(b"10.00", b"99.00"))  # noqa: E731
    with opened(source, TABLES, before=rewrite) as (found, tasks):
        with pytest.raises(GateFailed, match="account.csv was rewritten: .* after it was checked"):
            tasks.result()
        # What is compared is what was checked.
        (digest,) = found.views[0].digests(Segment("account"), run_key="k").values()
        assert digest == segment_digest(ACCOUNT, batch_of(ACCOUNT, ROWS[ACCOUNT]), run_key="k")


def test_an_unknown_table_is_named_with_those_that_are_there(local: Night) -> None:
    with pytest.raises(SchemaConflict, match="no file of table acount") as refused:
        source_kind("files").open_source(as_it_says(local)).catalogue(["acount"])
    assert "Did you mean `account`?" in refused.value.hint


def test_before_the_first_delivery_only_declared_tables_are_known(reached: Reached) -> None:
    source = plan_of(reached("local"), delivery="never/{date}")
    with pytest.raises(SchemaConflict, match="no control file below .* describes account"):
        source_kind("files").open_source(source).catalogue(["account"])


# ---- files of somebody else's ---------------------------------------------------------------------------------------

FOREIGN = {
    "flag_file": "{table}.{date:%Y%m%d}.flg",
    "control_file": "",
    "csv": {"delimiter": "~", "encoding": "gbk", "null": "NULL", "column_names": False},
    "tables": [
        {
            "table": "entry",
            "file": "{table}.{date:%Y%m%d}.txt",
            "key": ["no"],
            "columns": [
                {"name": "no", "type": "bigint"},
                {"name": "booked", "type": "date", "form": "%Y%m%d"},
                {"name": "amount", "type": "decimal(18,2)"},
                {"name": "text", "type": "varchar(20)"},
            ],
            "header": ["{table}", "{date:%Y%m%d}"],
            "trailer": ["END", "{rows}", "{sum:amount}"],
        }
    ],
}
CONTENT = "entry~20261127\r\n1~20261127~10.00~转账\r\n2~20261126~-3.5~NULL\r\nEND~2~6.50\r\n"


@pytest.fixture
def foreign(reached: Reached, request: pytest.FixtureRequest) -> Iterator[tuple[Place, SourcePlan]]:
    place = reached("local")
    folder = f"foreign_{request.node.name[:40]}"
    yield place, plan_of(place, delivery=folder, **FOREIGN)


def deliver(place: Place, source: SourcePlan, name: str, content: str) -> None:
    folder = json.loads(dict(source.options)["layout"])["delivery"]
    place.put(f"{folder}/{name}", content.encode("gbk"))


def test_files_without_a_control_file_are_held_against_their_records(foreign: tuple[Place, SourcePlan]) -> None:
    place, source = foreign
    (table,) = source_kind("files").open_source(source).catalogue(["entry"])
    deliver(place, source, "entry.20261127.txt", CONTENT)
    assert not OpenedFiles(source).look(DAY, ["entry"]).is_closed
    deliver(place, source, "entry.20261127.flg", "")
    with opened(source, [table]) as (found, tasks):
        (one, two) = tasks.result()["entry"]
        position = found.position
    assert (one[3], two[3], str(two[2])) == ("转账", None, "-3.50")
    assert str(position).startswith("delivery of 2026-11-27, sha256 ")
    # A correction comes in its place: it is another delivery.
    deliver(place, source, "entry.20261127.txt", CONTENT.replace("-3.5", "-3.4").replace("6.50", "6.60"))
    with opened(source, [table]) as (found, _):
        assert not position.covers(found.position)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("END~2", "END~3", "a trailer that says in field 2 '3': the file has 2 rows"),
        ("6.50", "6.51", "a trailer that says in field 3 '6.51': the amount of all rows is 6.50"),
        ("entry~20261127\r", "entry~20261126\r", "a header that says in field 2 '20261126'"),
        ("END~2~6.50\r\n", "", "a trailer that has 4 fields, not 3"),
    ],
)
def test_wrong_records_of_files_without_a_control_file_are_named(
    foreign: tuple[Place, SourcePlan], before: str, after: str, why: str
) -> None:
    place, source = foreign
    deliver(place, source, "entry.20261127.txt", CONTENT.replace(before, after))
    deliver(place, source, "entry.20261127.flg", "")
    (table,) = source_kind("files").open_source(source).catalogue(["entry"])
    with pytest.raises(GateFailed, match=why), opened(source, [table]):
        pass


def test_a_server_with_another_key_is_a_problem_before_a_run(reached: Reached, monkeypatch: pytest.MonkeyPatch) -> None:
    from seamline.adapters.connections import resolve

    place = reached("sftp")
    source = source_kind("files").open_source(plan_of(place, delivery="{date}"))
    assert source.preflight([]) == ()
    real = resolve("ssh")
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPZvbm1fYW5vdGhlcl9zZXJ2ZXJfdGhhbl90aGlz"
    monkeypatch.setenv("SEAMLINE_CONNECTION_SSH", said(real, extra={**real.extra, "host_key": other}))
    (problem,) = source.preflight([])
    assert problem.is_fatal
    assert "host_key" in problem.cure
