"""`seamline certify` into lakes: every type of a PostgreSQL source, a planted fault, and nothing left behind."""

from contextlib import closing
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Kind
from seamline.sources.postgres import row_decoder as postgres_rows
from tests.integration.captured_postgres import PostgresCaptured
from tests.integration.databases import postgres
from tests.integration.postgres_kinds import CASES as TYPE_CASES
from tests.integration.test_certify import certified, folder, ledger, left_behind, planted, verdicts, warehouse
from tests.wrong_values import cut_off

__all__ = ["folder", "ledger", "warehouse"]

LAKE = """\
destination: {name}
kind: {kind}
connection: certified
writer_connection: certified_writer
namespace: live_{kind}
warehouse: {files}/{kind}
"""
# A destination that has no certificate keeps no other from it.
BY_SPARK = "catalog: other\nwrite: spark\n"


def declared(kind: str, files: Path, *, name: str = "", more: str = "") -> str:
    (files / kind).mkdir(exist_ok=True)
    return LAKE.format(name=name or kind, kind=kind, files=files) + more


def left_in(files: Path, database: Connection) -> list[object]:
    """What there is of a certificate in a lake."""
    found: list[object] = [path for path in files.rglob("*") if path.is_file()]
    with closing(postgres(database)) as session:
        for table in ("public.iceberg_tables", "seamline.delta_table", "seamline.hudi_table", "seamline.lake_state"):
            found += session.execute(f"SELECT * FROM {table}").fetchall()
    return found


def test_every_type_is_the_same_on_both_paths_into_each_kind_of_lake_and_one_that_the_log_cuts_is_caught(
    ledger: PostgresCaptured, warehouse: Connection, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "lakes"
    files.mkdir()
    iceberg = declared("iceberg", files, name="certified", more="catalog: lake\n")
    others = {kind: declared(kind, files) for kind in ("delta", "hudi")}
    ended, document = certified(ledger, folder, "kinds", destination=iceberg, **others)
    parts = document.split("## Destination ")[1:]
    assert [part.partition(":")[0] for part in parts] == ["certified", *others]
    for part in parts:
        assert set(verdicts(part, "kinds").values()) == {"SAME"}, part
        assert len(verdicts(part, "kinds")) == len(TYPE_CASES) + 1
        assert "| kinds | booked | 'infinity' | delta | a load or a stream that meets it stops by name |" in part
    assert ended == 0
    assert [*left_behind(ledger, warehouse), *left_in(files, warehouse)] == []
    planted(monkeypatch, postgres_rows, Kind.DECIMAL, lambda column, found: cut_off(column, found, places=17))
    spark = declared("iceberg", files, name="spark", more=BY_SPARK).replace("live_iceberg", "live_spark")
    ended, document = certified(ledger, folder, "kinds", destination=iceberg, spark=spark)
    wrong = {name for name, verdict in verdicts(document, "kinds").items() if verdict != "SAME"}
    assert wrong == {"exact", "wide", "free"}, document
    assert "Nothing was compared: destination spark is written by Spark" in document
    assert ended == 1
    assert [*left_behind(ledger, warehouse), *left_in(files, warehouse)] == []


def test_tables_of_somebody_else_under_the_certificate_s_name_are_left_alone(
    ledger: PostgresCaptured, warehouse: Connection, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = tmp_path / "delta" / "seamline_certify_parity_pg_sync" / "theirs" / "file"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    assert certified(ledger, folder, "kinds", destination=declared("delta", tmp_path, name="certified"))[0] == 3
    assert "was not made by `seamline certify`" in capsys.readouterr().err
    assert theirs.exists()
