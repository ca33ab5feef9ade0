"""What was done to a table of a PostgreSQL source that its schema does not show."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from seamline.domain.catalogue import Column, Kind, Table, table_from_json, table_to_json
from seamline.plan.list_change import ListChange, with_origins_of
from seamline.sources.postgres.origin import (
    ColumnOrigin,
    Origin,
    is_partitioned,
    is_watched,
    table_fingerprint,
    undone_alterations,
)
from seamline.sources.postgres.partitions import Partition
from tests.log_topic import sync_plan

TABLE = Table("t", (Column("id", Kind.INTEGER, "bigint"), Column("felt", Kind.ENUM, "mood")), ("id",))
ID = ColumnOrigin(1, "700", label_versions={})
FELT = ColumnOrigin(2, "700", {"9": "glad"}, label_versions={"9": "699"})
PLACES = ("700", "16450 710", "16451 711", False)
LOADED = Origin(16_400, 500, "d", {"id": ID, "felt": FELT}, *PLACES)


def table(origin: Origin) -> Table:
    return replace(TABLE, origin=msgspec.json.encode(origin).decode())


def with_column(name: str, **changed: Any) -> Origin:
    return msgspec.structs.replace(
        LOADED, columns={**LOADED.columns, name: msgspec.structs.replace(LOADED.columns[name], **changed)}
    )


HARMLESS = {
    "nothing": LOADED,
    "rewritten by VACUUM FULL or emptied": msgspec.structs.replace(LOADED, file=501),
    "another default or statistics": with_column("id", version="800"),
    "one label more": with_column("felt", labels={"9": "glad", "10": "calm"}, label_versions={"9": "699", "10": "800"}),
    "all columns as identity": msgspec.structs.replace(LOADED, identity="f"),
}
# A column that was added with a default, as it is until the table is rewritten.
ADDED = with_column("id", has_missing=True, default=90)
REWRITTEN = msgspec.structs.replace(with_column("id", version="800", default=90), file=501)


@pytest.mark.parametrize("name", HARMLESS)
def test_maintenance_and_what_changes_no_value_is_no_alteration(name: str) -> None:
    assert undone_alterations(table(LOADED), table(HARMLESS[name])) == []


def test_a_rewrite_that_takes_a_default_of_older_rows_out_of_the_catalogue_is_maintenance() -> None:
    assert undone_alterations(table(ADDED), table(REWRITTEN)) == []
    of_before = with_column("id", has_missing=True)
    assert undone_alterations(table(of_before), table(REWRITTEN)) == []
    both = msgspec.structs.replace(with_column("felt", version="800"), file=501)
    assert undone_alterations(table(ADDED), table(both)) == [
        "t.felt was altered and its table rewritten: its values may be others"
    ]


@pytest.mark.parametrize(("default", "later"), [(90, 91), (90, 0), (0, 91), (0, 0)])
def test_a_rewrite_under_another_default_than_that_of_the_plan_or_without_one_is_an_alteration(
    default: int, later: int
) -> None:
    """ALTER … TYPE makes the default of the column again; without a default it leaves what VACUUM FULL leaves."""
    added = with_column("id", has_missing=True, default=default)
    rewritten = msgspec.structs.replace(with_column("id", version="800", default=later), file=501)
    assert undone_alterations(table(added), table(rewritten)) == [
        "t.id was altered and its table rewritten: its values may be others"
    ]


def test_another_default_or_none_alone_is_no_alteration() -> None:
    for later in (91, 0):
        now = with_column("id", version="800", has_missing=True, default=later)
        assert undone_alterations(table(ADDED), table(now)) == []


UNDONE = {
    "t is another table now: it was replaced": msgspec.structs.replace(LOADED, table=16_500),
    "t.id was dropped and added again": with_column("id", number=3),
    "t.id was altered and its table rewritten: its values may be others": msgspec.structs.replace(
        with_column("id", version="800"), file=501
    ),
    "label 'glad' of t.felt is now 'merry'": with_column("felt", labels={"9": "merry"}),
    "label 'glad' of t.felt is now None": with_column("felt", labels={}),
    "label 'glad' of t.felt was renamed for a while: rows written then may hold another one": with_column(
        "felt", label_versions={"9": "800"}
    ),
    "t was renamed or moved to another schema and back (or was given another owner, which looks alike): changes that"
    " were made under the other name may be missing": msgspec.structs.replace(LOADED, row_type="800"),
    "the publication of t was altered (what it publishes, its name or its owner) or made again: changes may be"
    " missing": msgspec.structs.replace(LOADED, publication="16450 800"),
    "t was not, or not as a whole, in its publication: changes may be missing": msgspec.structs.replace(
        LOADED, published=""
    ),
    "t became a partition: the log may hold its changes as those of the partitioned table": msgspec.structs.replace(
        LOADED, may_be_published_as_root=True
    ),
    "a composite type in t.felt was altered: stored values changed without the log": with_column(
        "felt", fields={"9 1": "800"}
    ),
    "the replica identity of t is not its primary key any more": msgspec.structs.replace(LOADED, identity="i"),
}


@pytest.mark.parametrize("said", UNDONE)
def test_what_changes_values_or_who_writes_them_is_named(said: str) -> None:
    assert undone_alterations(table(LOADED), table(UNDONE[said])) == [said]


def test_a_plan_of_before_origins_were_kept_is_not_held_against_anything() -> None:
    assert undone_alterations(TABLE, table(LOADED)) == []


def test_what_an_earlier_version_did_not_keep_is_not_compared_and_what_it_kept_is() -> None:
    columns = {name: msgspec.structs.replace(one, label_versions=None) for name, one in LOADED.columns.items()}
    of_before = Origin(LOADED.table, LOADED.file, LOADED.identity, columns)
    assert [is_watched(table(one)) for one in (LOADED, of_before)] == [True, False]
    assert undone_alterations(table(of_before), table(LOADED)) == []
    for said, later in UNDONE.items():
        is_found = later.row_type == "700" and later.publication == PLACES[1] and later.published == PLACES[2]
        is_found = is_found and "for a while" not in said and not later.may_be_published_as_root
        assert undone_alterations(table(of_before), table(later)) == ([said] if is_found else [])


def test_a_publication_that_was_made_again_is_reported_once() -> None:
    again = msgspec.structs.replace(LOADED, publication="16460 800", published="16461 800")
    (said,) = undone_alterations(table(LOADED), table(again))
    assert "or made again" in said


def test_a_table_is_watched_where_its_origin_was_kept_with_the_default_of_each_column_that_was_added_with_one() -> None:
    of_before = with_column("id", has_missing=True)
    assert [is_watched(one) for one in (table(LOADED), table(ADDED), table(of_before), TABLE)] == [
        True,
        True,
        False,
        False,
    ]


def test_the_plan_keeps_the_origin_and_does_not_compare_it_as_part_of_the_schema() -> None:
    kept = table_from_json(table_to_json(table(LOADED)))
    assert (kept.origin, kept) == (table(LOADED).origin, TABLE)


def test_a_run_that_changes_the_list_takes_over_the_origin_of_what_it_does_not_load() -> None:
    later = table(msgspec.structs.replace(LOADED, file=501))
    other = replace(TABLE, name="other", origin="x")
    known, now = sync_plan((table(LOADED),)), sync_plan((later, other))
    plan = with_origins_of({"warehouse": known}, now, ListChange(added=("other",)))
    assert [one.definition.origin for one in plan.tables] == [table(LOADED).origin, "x"]
    plan = with_origins_of({"warehouse": known}, now, ListChange(added=("other",), again=("t",)))
    assert [one.definition.origin for one in plan.tables] == [later.origin, "x"]


def test_a_mark_is_another_one_after_whatever_was_done_and_the_same_in_any_order_of_columns() -> None:
    planned = table(LOADED)
    in_another_order = msgspec.structs.replace(LOADED, columns=dict(reversed(LOADED.columns.items())))
    assert (
        table_fingerprint(table(in_another_order))
        == table_fingerprint(replace(planned, rows_estimate=9))
        == table_fingerprint(planned)
    )
    others = [table(HARMLESS[name]) for name in HARMLESS if name != "nothing"]
    others += [replace(planned, key=()), replace(planned, columns=planned.columns[:1])]
    assert len({table_fingerprint(one) for one in (planned, *others)}) == len(others) + 1
    assert table_fingerprint(TABLE) == ""


# ---- partitions -----------------------------------------------------------------------------------------------------

MAY = Partition("public.t_may", "720", 600)
PARTITIONED = msgspec.structs.replace(LOADED, file=0, partitions={"600": MAY})


def with_partitions(**partitions: Partition) -> Origin:
    return msgspec.structs.replace(PARTITIONED, partitions={oid.strip("_"): one for oid, one in partitions.items()})


def may(**changed: Any) -> Origin:
    return with_partitions(_600=msgspec.structs.replace(MAY, **changed))


def test_a_partition_that_comes_without_rows_of_its_own_is_no_alteration() -> None:
    june = Partition("public.t_june", "800", 601)
    assert undone_alterations(table(PARTITIONED), table(with_partitions(_600=MAY, _601=june))) == []
    assert undone_alterations(table(PARTITIONED), table(may(name="public.t_5"))) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (with_partitions(), "partition public.t_may of t was detached or dropped"),
        (may(attached="800"), "partition public.t_may of t was detached and attached again"),
        (may(file=700), "partition public.t_may of t was emptied or rewritten"),
        (may(identity="n"), "the replica identity of partition public.t_may is not its primary key"),
        (may(is_logged=False), "partition public.t_may is unlogged or a foreign table"),
        (
            with_partitions(_600=MAY, _601=Partition("public.t_june", "800", 601, is_whole=False)),
            "partition public.t_june of t was attached with rows",
        ),
    ],
)
def test_rows_that_came_or_went_without_the_log_are_named_by_their_partition(now: Origin, said: str) -> None:
    (found,) = undone_alterations(table(PARTITIONED), table(now))
    assert said in found


def test_whether_a_partition_was_empty_when_it_came_counts_only_once() -> None:
    later = may(is_whole=False)
    assert undone_alterations(table(PARTITIONED), table(later)) == []
    assert table_fingerprint(table(later)) == table_fingerprint(table(PARTITIONED)) != table_fingerprint(table(LOADED))
    assert [is_partitioned(table(one)) for one in (later, with_partitions(), LOADED)] == [True, True, False]
    assert "partitions" not in table(LOADED).origin
