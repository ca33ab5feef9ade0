"""What a certificate says of a lake: which stored values are unlike the snapshot's, and what is not sent there."""

import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import ConfigError, Refused, SchemaConflict
from seamline.domain.probe import KEY, Probe, StoredUnlike, probe_of
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import CertifiesArrivals
from seamline.plan.model import DestinationPlan
from seamline.sinks.lake import files
from seamline.sinks.lake.columns import refuse_special
from seamline.sinks.lake.probed import LakeProbed, unlike_in
from seamline.values.build import array_of_canonical
from tests.log_topic import sync_plan

RATE = Column("rate", Kind.DOUBLE, "double precision")
NOTE = Column("note", Kind.STRING, "text")
PROBE = probe_of(Table("price", (RATE, NOTE)), "probe", {"rate": ["0", "NULL"], "note": ["'a'", "NULL"]})
DATE, MOMENT = Column("day", Kind.DATE, "date"), Column("at", Kind.INSTANT, "timestamptz", precision=6)
AMOUNT = Column("amount", Kind.DECIMAL, "numeric(9,2)", precision=9, scale=2)
FREE = Column("free", Kind.DECIMAL, "numeric")


def opened(kind_name: str, **options: str) -> LakeProbed:
    destination = DestinationPlan("lake", kind_name, "ledger", "settlement", options=tuple(options.items()))
    kind = sink_kind(kind_name)
    assert isinstance(kind, CertifiesArrivals)
    found = kind.open_probed(replace(sync_plan([]), destinations=(destination,)), destination)
    assert isinstance(found, LakeProbed)
    return found


def stored(probe: Probe, **changed: object) -> pa.Table:
    """The probe's rows as each path has to store them, but for the first row that the log has brought."""
    block: list[dict[str, object]] = [{"rate": 0.0, "note": "a"}, {"rate": None, "note": None}]
    rows = [{KEY: key, **block[(key - 1) % probe.rows]} for key in probe.keys]
    rows[probe.rows] |= changed
    types = {KEY: pa.int32(), "rate": pa.float64(), "note": pa.large_utf8()}
    return pa.Table.from_pylist(rows, schema=pa.schema(types.items()))


def test_what_both_paths_have_stored_alike_is_the_same() -> None:
    assert list(unlike_in(PROBE, stored(PROBE))) == []


def test_a_zero_of_the_other_sign_and_a_null_for_a_value_are_unlike() -> None:
    (rate,) = unlike_in(PROBE, stored(PROBE, rate=-0.0))
    assert (rate.column, rate.key) == ("rate", PROBE.rows + 1)
    assert list(unlike_in(PROBE, stored(PROBE, note=None))) == [StoredUnlike("note", PROBE.rows + 1, "a", None)]
    assert [one.column for one in unlike_in(PROBE, stored(PROBE, rate=math.nan))] == ["rate"]


@pytest.mark.parametrize("key", [1, 4])
def test_a_row_that_a_path_has_lost_is_unlike_in_every_column(key: int) -> None:
    rows = stored(PROBE)
    lost = list(unlike_in(PROBE, rows.filter(pc.not_equal(rows.column(KEY), key))))
    assert {(one.column, one.key) for one in lost} >= {("rate", key), ("note", key)}


@pytest.mark.parametrize("key", [1, PROBE.rows + 1])
def test_a_row_that_a_stream_has_doubled_is_unlike_in_every_column(key: int) -> None:
    rows = stored(PROBE)
    doubled = pa.concat_tables([rows, rows.filter(pc.equal(rows.column(KEY), key))])
    found = list(unlike_in(PROBE, doubled))
    assert {(one.column, one.key) for one in found} == {("rate", key), ("note", key)}
    assert all(one.stored is not None and one.stored.startswith("2 rows") for one in found)


def test_a_row_that_nobody_has_sent_lets_no_row_pass() -> None:
    rows = stored(PROBE)
    strange = rows.slice(0, 1).set_column(0, KEY, pa.array([10_000], pa.int32()))
    found = list(unlike_in(PROBE, pa.concat_tables([rows, strange])))
    assert {one.key for one in found} == set(PROBE.keys)


MARK = ".seamline-certificate"


def test_a_removal_that_is_killed_leaves_the_mark_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that could not remove all of it."""
    for name in ("a/data", "z/data"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "1.parquet").touch()
    (tmp_path / MARK).touch()
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    assert not files.remove_marked(tmp_path, MARK)
    assert (tmp_path / MARK).exists()
    monkeypatch.undo()
    assert files.remove_marked(tmp_path, MARK)
    assert not tmp_path.exists()
    assert files.remove_marked(tmp_path, MARK)


def test_a_certificate_that_was_killed_while_it_wrote_its_mark_is_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed = opened("delta", warehouse=str(tmp_path))
    monkeypatch.setattr(LakeProbed, "_session", lambda _: nullcontext())
    monkeypatch.setattr(LakeProbed, "_mark", lambda *_: "mine")
    monkeypatch.setattr("seamline.sinks.lake.probed.create_tables", lambda *_: None)
    monkeypatch.setattr(type(probed._lake.catalogue), "pointers", lambda *_: {})  # noqa: SLF001 (no server is there)
    draft = tmp_path / "settlement" / f".{MARK}"
    draft.parent.mkdir()
    draft.touch()
    probed.prepare()
    assert [path.name for path in draft.parent.iterdir()] == [MARK]
    (draft.parent / "1.parquet").touch()
    with pytest.raises(Refused, match="was not made by"):
        probed.prepare()


@pytest.mark.parametrize(
    ("column", "sent", "left_out"),
    [
        (DATE, ["'5874897-12-31'", "'0001-12-31 BC'", "NULL"], ["'infinity'", "'-infinity'"]),
        (
            MOMENT,
            ["'294247-01-10 04:00:54.775806+00'", "'12026-01-01 00:00:00.000000+00'", "'4713-01-01 00:00:00+00 BC'"],
            ["'infinity'", "'294247-01-10 04:00:54.775807+00'", "'294276-12-31 23:59:59.999999+00'"],
        ),
        (AMOUNT, ["9999999.99"], ["'NaN'"]),
        (FREE, ["'NaN'", "'Infinity'"], []),
        (NOTE, ["'infinity'"], []),
    ],
)
def test_what_a_load_would_stop_at_is_not_sent(column: Column, sent: list[str], left_out: list[str]) -> None:
    probed = opened("delta", warehouse="/srv/lake")
    assert list(probed.without_place(column, [*sent, *left_out])) == left_out


def test_the_words_of_a_source_are_those_that_a_load_refuses() -> None:
    """Held against what refuses the values themselves."""
    table = Table("probe", (DATE,))
    for text in ("infinity", "-infinity"):
        with pytest.raises(SchemaConflict, match="infinite or no numbers"):
            refuse_special(table, DATE, array_of_canonical(DATE, [text]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"catalog_type": "rest"}, "a catalogue of type rest"),
        ({"write": "spark"}, "is written by Spark"),
    ],
)
def test_an_iceberg_destination_without_a_certificate_says_why(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        opened("iceberg", catalog="lake", warehouse="/srv/lake", **options)


def test_tables_of_a_catalogue_that_commits_single_ones_have_no_certificate() -> None:
    assert not isinstance(sink_kind("iceberg_single"), CertifiesArrivals)
