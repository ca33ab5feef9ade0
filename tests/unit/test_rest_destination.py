"""A declared destination in a REST catalogue: what a sync asks of it beside its stream."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate

from seamline.adapters.connections import Connection, parsed
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.cut_keep import CutKeep, expired
from seamline.domain.errors import CommitUnknown, ConfigError, GateFailed, NotCaughtUp, Refused, TransientError
from seamline.domain.log_floor import LedgerPlace
from seamline.domain.staged_cut import CutMode, StagedCut
from seamline.domain.verdict import Verdict
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import KeepsLiveTables
from seamline.plan.model import BusinessDate, TablePlan
from seamline.ports import Problem
from seamline.ports.maintenance import LetGo
from seamline.sinks.iceberg import rest_cuts, rest_maintenance
from seamline.sinks.iceberg.rest_client import NEEDED_CALLS, RestClient
from seamline.sinks.iceberg.rest_cut_rows import rows_to_text
from seamline.sinks.iceberg.rest_ledger import cuts_place_of, place_of
from seamline.sinks.iceberg.rest_opening import open_client, properties_of
from seamline.sinks.iceberg.tags import tag_updates
from seamline.sinks.lake.tagging import TableTags
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.joining_behaviours import LEG, carrying, passed
from tests.contract.rest_cutting import DAY, KIND, RUN, TAG, Cutting, a_cut_is_what_stood_when_it_was_compared
from tests.contract.rest_world import RestWorld
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TOPIC, TOPIC_ID, TRANSFER, delete, insert, position
from tests.opened_sink import decoder_of


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RestWorld]:
    with closing(RestWorld(TABLES, tmp_path)) as world:
        yield world


# ---- what leads there -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ("iceberg://catalog.example/api", {"uri": "https://catalog.example/api"}),
        (
            "iceberg://id:s%2Fcret@catalog.example:8181/api?warehouse=lake&scope=all",
            {
                "uri": "https://catalog.example:8181/api",
                "warehouse": "lake",
                "scope": "all",
                "credential": "id:s/cret",
                "oauth2-server-uri": "https://catalog.example:8181/api/v1/oauth/tokens",
            },
        ),
        (
            '{"conn_type": "iceberg", "host": "http://catalog.example/", "password": "t",'
            ' "extra": {"oauth2_server_uri": "https://tokens.example"}}',
            {"uri": "http://catalog.example", "token": "t", "oauth2-server-uri": "https://tokens.example"},
        ),
    ],
)
def test_a_connection_says_address_warehouse_and_login(connection: str, said: dict[str, str]) -> None:
    assert properties_of(parsed(connection)) == {**said, "ssl": {}}


def test_certificates_are_those_of_the_connection(tmp_path: Path) -> None:
    for name in ("ca.pem", "own.pem", "key.pem"):
        (tmp_path / name).touch(mode=0o600)
    of_client = f"sslcert={tmp_path}/own.pem&sslkey={tmp_path}/key.pem"
    found = parsed(f"iceberg://catalog.example/?sslrootcert={tmp_path}/ca.pem&{of_client}")
    client = {"cert": f"{tmp_path}/own.pem", "key": f"{tmp_path}/key.pem"}
    assert properties_of(found)["ssl"] == {"cabundle": f"{tmp_path}/ca.pem", "client": client}
    in_the_clear = Connection("c", "iceberg", "http://catalog.example", 0, extra=found.extra)
    with pytest.raises(ConfigError, match="names certificates, and http://catalog.example is in the clear"):
        properties_of(in_the_clear)


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ("iceberg://id@catalog.example/", "has a login and no password"),
        ("iceberg://catalog.example/?scheme=ftp", "scheme is 'ftp'"),
        ("iceberg://catalog.example/?scheme=http&sslrootcert=/ca.pem", "sslrootcert has no meaning without TLS"),
        ("iceberg://catalog.example/?warehuose=lake", "did you mean `warehouse`"),
    ],
)
def test_a_connection_that_contradicts_itself_is_refused(connection: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        properties_of(parsed(connection))
    assert said in str(refused.value)


def test_a_client_of_oauth2_is_let_in_by_its_secret_and_by_no_other(world: RestWorld) -> None:
    world.catalogue.client = ("seamline", "s%key")
    world.connect("seamline:s%25key")
    published(world).span(insert(ACCOUNT, **account(1)))
    assert world.rows(ACCOUNT) == texts(account(1))
    world.connect("seamline:other")
    (problem,) = problems(world)
    assert "another secret was expected" in problem.what


# ---- preflight ------------------------------------------------------------------------------------------------------


def problems(world: RestWorld) -> Sequence[Problem]:
    return KIND.problems(world.plan, world.destination)


def test_a_catalogue_with_nothing_in_it_and_one_with_the_sync_s_own_tables_are_right(world: RestWorld) -> None:
    assert problems(world) == ()
    published(world)
    world.catalogue.listed = NEEDED_CALLS
    assert problems(world) == ()


def test_a_server_that_lists_no_call_for_several_tables_is_refused(world: RestWorld) -> None:
    world.catalogue.listed = [call for call in NEEDED_CALLS if "transactions" not in call]
    (problem,) = problems(world)
    assert "its server has no call POST /v1/{prefix}/transactions/commit" in problem.what


def test_a_server_that_lists_nothing_and_has_no_such_call_is_refused(world: RestWorld) -> None:
    world.catalogue.lacks_commit = True
    (problem,) = problems(world)
    assert "its server has no call POST /v1/{prefix}/transactions/commit" in problem.what


def test_tables_of_somebody_else_are_refused(world: RestWorld) -> None:
    published(world)
    tables = world.catalogue.tables
    ledger = tables.pop(place_of(STREAM))
    assert "table settlement.account exists in the catalogue" in problems(world)[0].what
    theirs = tables["settlement", "account"]
    tables[place_of(STREAM)] = replace(theirs, metadata=theirs.metadata.model_copy(update={"properties": {}}))
    (problem,) = problems(world)
    assert "is not the ledger of settlement@warehouse" in problem.what
    tables[place_of(STREAM)] = ledger
    assert problems(world) == ()


def test_tables_that_would_not_take_a_load_are_all_named(world: RestWorld) -> None:
    published(world)
    kind = cast(KeepsLiveTables, KIND)
    assert kind.misfits(world.plan, world.destination) == ()
    wider = [replace(one, columns=(*one.columns, replace(AUDIT.columns[0], name="more"))) for one in TABLES]
    plan = replace(world.plan, tables=tuple(TablePlan(one.name, table=one) for one in wider))
    found = kind.misfits(plan, world.destination)
    assert [one.table for one in found] == [one.name for one in TABLES]
    assert all("column more" in one.what for one in found)


def test_a_connection_that_leads_elsewhere_is_refused(world: RestWorld) -> None:
    world.connect("u:p", kind="postgres")
    (problem,) = problems(world)
    assert "is of kind postgres, and a REST catalogue is reached by one of kind iceberg" in problem.what


def test_no_answer_is_no_problem_of_the_declaration(world: RestWorld) -> None:
    world.connect(address="127.0.0.1:1")
    with pytest.raises(TransientError):
        problems(world)


def test_its_rights_are_those_of_the_calls(world: RestWorld) -> None:
    said = KIND.grant_script(world.destination, "", logins=DestinationLogins())
    assert all(call in said for call in NEEDED_CALLS)


# ---- comparison and readers -----------------------------------------------------------------------------------------


def test_views_read_all_tables_at_the_ledger_s_position(world: RestWorld) -> None:
    commit = published(world).span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"))
    one, other = KIND.open_live(world.plan, world.destination, 2)
    assert one.position == commit.ledger.position
    assert other.whole_digest("account", run_key="k").rows == 1  # type: ignore[attr-defined]


def test_findings_are_reported_once_and_until_their_table_is_put_in_place_again(world: RestWorld) -> None:
    def found(after: FindingsReported) -> tuple[tuple[Finding, ...], FindingsReported]:
        return KIND.findings(world.destination, STREAM, after=after)

    nothing = FindingsReported()
    assert found(nothing) == ((), nothing)
    stream = published(world)
    expected = stream.span(delete(ACCOUNT, **account(7))).findings
    reported, through = found(nothing)
    assert reported == expected
    assert found(through) == ((), through)
    later = stream.span(delete(ACCOUNT, **account(8))).findings
    assert found(through)[0] == later
    carrying(world, ACCOUNT, run_id="run-2")
    assert found(nothing)[0] == ()


def test_live_tables_are_read_at_one_position_and_a_cut_that_is_not_there_is_refused(world: RestWorld) -> None:
    commit = published(world).span(insert(ACCOUNT, **account(1, "ü")))
    tables = KIND.open_tables(world.destination, STREAM, "live")
    assert tables.position == commit.ledger.position
    assert tables["account"].arrow().to_pylist() == [account(1, "ü")]
    with pytest.raises(Refused, match="has no cut proven"):
        KIND.open_tables(world.destination, STREAM, "proven")


# ---- maintenance ----------------------------------------------------------------------------------------------------


def let_go(world: RestWorld) -> LetGo:
    with closing(KIND.open_maintenance(world.destination)) as maintenance:
        return maintenance.let_go()


def places(world: RestWorld) -> Sequence[LedgerPlace]:
    with closing(KIND.open_maintenance(world.destination)) as maintenance:
        return maintenance.ledgers()


def test_the_log_is_needed_from_where_the_ledgers_stand(world: RestWorld) -> None:
    assert places(world) == []
    carrying(world, ACCOUNT)
    passed(world, TRANSFER, rows=[LEG], at=10)
    (mine, joining) = sorted(places(world), key=lambda one: one.next_offset)
    assert mine == LedgerPlace(str(STREAM), TOPIC, TOPIC_ID, mine.next_offset)
    assert joining.next_offset == 10


def test_an_incremental_snapshot_that_nobody_goes_on_with_ends_and_a_young_one_stays(
    world: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying(world, ACCOUNT)
    joining = passed(world, TRANSFER, rows=[LEG], at=10)
    assert let_go(world).incremental_snapshots == ()
    monkeypatch.setattr(rest_maintenance, "INCREMENTAL_KEPT_DAYS", -1)
    assert let_go(world).incremental_snapshots == (str(joining.incremental_stream),)
    assert {namespace for namespace, _ in world.catalogue.tables} == {"seamline", "settlement"}
    assert [one.stream for one in places(world)] == [str(STREAM)]
    with pytest.raises(NotCaughtUp):
        world.sink().join(STREAM, joining)
    assert world.rows(ACCOUNT) == texts(account(1))


def test_what_a_dead_join_has_decided_is_not_dropped_with_its_snapshot(
    world: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying(world, ACCOUNT)
    joining = passed(world, TRANSFER, rows=[LEG], at=0)
    points = ArmedFailpoints("pub.commit_acked=error@1")
    with pytest.raises(TransientError):
        world.sink(failpoints=points).join(STREAM, joining)
    monkeypatch.setattr(rest_maintenance, "INCREMENTAL_KEPT_DAYS", -1)
    assert let_go(world).incremental_snapshots == ()
    Applying(world)
    assert world.rows(TRANSFER) == texts(LEG)


def dead_files(world: RestWorld, warehouse: Path) -> set[Path]:
    """Those of a span that was never committed, as old as all others are made."""
    before = files_in(warehouse)
    stream = Applying(world, sink=world.sink(failpoints=ArmedFailpoints("lake.span_written=error")))
    with pytest.raises(TransientError):
        stream.span(insert(ACCOUNT, **account(7)))
    for path in files_in(warehouse):
        os.utime(path, (then := time.time() - 2 * 86_400, then))
    return {path for path in files_in(warehouse) - before if path.parent.parent.parent.name == "settlement"}


def files_in(warehouse: Path) -> set[Path]:
    return {path for path in warehouse.rglob("*") if path.is_file()}


def only_what_no_table_names_is_removed(world: RestWorld, warehouse: Path) -> None:
    published(world).span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"))
    dead = dead_files(world, warehouse)
    assert dead
    assert let_go(world).orphan_files == len(dead)
    assert not dead & files_in(warehouse)
    assert world.rows(ACCOUNT) == texts(account(1))
    assert world.rows(AUDIT) == texts({"actor": "x", "action": "y"})
    assert let_go(world).orphan_files == 0


def test_files_that_no_table_names_are_removed_and_no_other(world: RestWorld, tmp_path: Path) -> None:
    only_what_no_table_names_is_removed(world, tmp_path)


def test_while_a_table_of_the_catalogue_cannot_be_read_no_file_is_removed(world: RestWorld, tmp_path: Path) -> None:
    published(world).span(insert(ACCOUNT, **account(1)))
    dead = dead_files(world, tmp_path)
    known = world.catalogue
    known.make_namespace("theirs")
    known.tables["theirs", "secret"] = known.tables["settlement", "audit"]
    known.closed = {("theirs", "secret")}
    before = files_in(tmp_path)
    gone = let_go(world)
    assert (gone.orphan_files, files_in(tmp_path)) == (0, before)
    assert "the catalogue refused to show table theirs.secret" in gone.orphans_kept
    known.closed.clear()
    assert let_go(world) == LetGo(0, (), 0, orphan_files=len(dead))


def test_a_table_that_is_renamed_while_the_catalogue_is_read_is_found(
    world: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first it is in neither of the two namespaces."""
    published(world)
    known, read, moves = world.catalogue, RestClient.locations, iter([True])
    location = known.tables["settlement", "account"].location
    known.make_namespace("a_first")

    def locations(client: RestClient, namespace: tuple[str, ...]) -> dict[str, str]:
        found = read(client, namespace)
        if namespace == ("a_first",) and next(moves, False):
            known.rename(("settlement", "account"), ("a_first", "account"))
        return found

    monkeypatch.setattr(RestClient, "locations", locations)
    with closing(open_client(world.destination)) as client:
        assert location in rest_maintenance.all_pointers(client)
    assert ("a_first", "account") in known.tables


def test_a_sink_is_opened_by_the_plan_alone(world: RestWorld) -> None:
    commit = published(world).span(insert(ACCOUNT, **account(1)))
    with closing(KIND.open_sink(world.plan, world.destination, decoder=decoder_of(world.plan))) as sink:
        assert sink.read_ledger(STREAM) == commit.ledger


# ---- cuts -----------------------------------------------------------------------------------------------------------

KEEP = CutKeep(2, 0, 7)


@pytest.fixture
def cutting(world: RestWorld) -> Cutting:
    return Cutting(world)


def a_cut_is_one_call(cutting: Cutting) -> None:
    pinned = cutting.pin()
    cutting.world.catalogue.commits.clear()
    cutting.publish(pinned)
    assert cutting.world.catalogue.commits == [[cuts_place_of(STREAM)[1], "account", "audit", "transfer"]]


def test_a_cut_is_a_tag_on_every_table_as_it_was_compared(cutting: Cutting) -> None:
    a_cut_is_what_stood_when_it_was_compared(cutting)
    Applying(cutting.world).span(insert(ACCOUNT, **account(2)))
    assert cutting.world.findings() == [], "nobody takes a tag for somebody else's write"


def test_tags_and_rows_of_a_cut_are_one_call(cutting: Cutting) -> None:
    a_cut_is_one_call(cutting)


def test_a_tag_on_another_snapshot_than_the_compared_one_is_caught(
    cutting: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: a publish tags the heads of its own time."""

    def of_the_head(metadata: TableMetadata, tags: TableTags, table: str) -> list[TableUpdate]:
        put = [replace(tag, snapshot_id=metadata.current_snapshot_id) for tag in tags.put]
        return tag_updates(metadata, replace(tags, put=put), table)

    monkeypatch.setattr(rest_cuts, "tag_updates", of_the_head)
    with pytest.raises(AssertionError):
        a_cut_is_what_stood_when_it_was_compared(cutting)


def test_rows_of_a_cut_that_follow_its_tags_in_a_call_of_their_own_are_caught(
    cutting: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug."""
    right = RestClient.commit

    def commit(client: RestClient, changes: Sequence[CommitTableRequest]) -> None:
        for part in (changes[1:], changes[:1]):
            if part:
                right(client, part)

    monkeypatch.setattr(RestClient, "commit", commit)
    with pytest.raises(AssertionError):
        a_cut_is_one_call(cutting)


def test_a_publish_that_is_repeated_finds_its_cut_and_another_run_s_is_the_next_version(cutting: Cutting) -> None:
    pinned = cutting.pin()
    assert [cutting.publish(pinned).is_new for _ in range(2)] == [True, False]
    assert cutting.publish(cutting.pin("again"), run="again").version == 2
    assert cutting.tags().keys() == {TAG, "cut_2026_11_27_v2"}


def test_a_lost_answer_is_answered_by_the_repeat(cutting: Cutting) -> None:
    pinned = cutting.pin()
    cutting.world.catalogue.refuse = 503
    with pytest.raises(CommitUnknown):
        cutting.publish(pinned)
    assert cutting.publish(pinned).is_new


def test_another_cut_that_comes_in_between_loses_nothing(cutting: Cutting) -> None:
    pinned = cutting.pin()
    cutting.world.catalogue.before_commit = lambda: cutting.pin("other")
    assert cutting.publish(pinned).is_new
    assert cutting.publish(cutting.pin("other"), run="other").version == 2


def test_what_was_not_compared_is_not_published(cutting: Cutting) -> None:
    pinned = cutting.pin()
    cutting.changed()
    cutting.pin()
    with pytest.raises(GateFailed):
        cutting.publish(pinned)
    with pytest.raises(Refused, match="holds no tables for run other"):
        cutting.publish(pinned, run="other")


def test_a_cut_with_a_break_is_proven_once_somebody_signs(cutting: Cutting) -> None:
    pinned = cutting.pin()
    cutting.publish(pinned, verdict=Verdict.BREAK)
    with pytest.raises(Refused, match="has no cut proven"):
        cutting.rows("proven")
    assert cutting.publish(pinned, signed_by="ana", verdict=Verdict.BREAK).signed_by == "ana"
    assert cutting.rows("proven") == [account(1, "at the cut")]


def test_a_night_without_a_suite_needs_no_postgresql_beside_the_catalogue(cutting: Cutting) -> None:
    at = cutting.pin().views[0].position
    cut = StagedCut(RUN, STREAM.sync, STREAM.destination, DAY, at, datetime.now(UTC), ())
    with KIND.copied(cutting.plan, cutting.world.destination, cut, ()) as copies:
        assert copies.tables == ()


def test_a_cut_whose_rows_no_call_can_carry_is_refused_before_it_is_compared(
    cutting: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutting.publish(cutting.pin())
    with closing(rest_cuts.open_rest_cuts(cutting.world.destination)) as cuts:
        size = len(rows_to_text(cuts.rows(STREAM)))
    monkeypatch.setattr(rest_cuts, "ROWS_BYTES_MAX", size + 100)
    with pytest.raises(Refused, match="the rows of all 2 cuts of settlement@warehouse are .* bytes") as refused:
        cutting.pin("another")
    assert "keep fewer cuts" in refused.value.hint
    assert {*cutting.tags()} == {TAG}, "nothing is held"
    monkeypatch.setattr(rest_cuts, "ROWS_BYTES_MAX", 2 * size + 1_000)
    cutting.pin("another")


def test_the_date_before_is_read_by_its_tag(cutting: Cutting) -> None:
    cutting.publish(cutting.pin(), mode=CutMode.DATE)
    cutting.changed()
    with closing(KIND.open_cuts(cutting.world.destination)) as cuts:
        found = cuts.date_before(STREAM.sync, DAY + timedelta(days=1))
        assert cuts.date_before(STREAM.sync, DAY) == []
    assert {(one.table, one.name) for one in found} == {(table.name, TAG) for table in TABLES}
    dated = replace(cutting.plan.table("account"), business_date=BusinessDate("name", "date"))
    plan = replace(cutting.plan, tables=(dated,))
    (of_account,) = [one for one in found if one.table == "account"]
    view = KIND.open_published(plan, cutting.world.destination, [of_account], position=position(1))
    assert view.position == position(1)
    gone = replace(of_account, name="cut_1999_01_01_v1")
    with pytest.raises(Refused, match="has no tag cut_1999_01_01_v1"):
        KIND.open_published(plan, cutting.world.destination, [gone], position=position(1))


def test_a_cut_expires_with_its_tags_and_a_repeat_finds_it_gone(cutting: Cutting) -> None:
    for number in range(4):
        day = DAY - timedelta(days=3 - number)
        cutting.publish(cutting.pin(f"run-{number}"), day, f"run-{number}")
    with closing(KIND.open_cut_expiry(cutting.world.destination)) as store:
        kept, now = store.kept_cuts(STREAM.sync)
        gone = expired(kept, KEEP, now=now + timedelta(days=30))
        days = {one.business_date for one in gone}
        assert days == {DAY - timedelta(days=3), DAY - timedelta(days=2)}
        for _ in range(2):
            for day in days:
                store.expire(STREAM.sync, day, [one for one in gone if one.business_date == day])
        assert {day for day, _ in store.expired(STREAM.sync)} == days
        assert {one.business_date for one in store.kept_cuts(STREAM.sync)[0]} == {DAY, DAY - timedelta(days=1)}
    assert cutting.tags().keys() == {TAG, "cut_2026_11_26_v1"}


def test_what_no_run_publishes_any_more_is_given_up(cutting: Cutting, monkeypatch: pytest.MonkeyPatch) -> None:
    cutting.pin()
    assert let_go(cutting.world).staged == 0
    assert len(cutting.tags()) == 1
    monkeypatch.setattr(rest_cuts, "PINNED_FOR", timedelta(days=-1))
    assert let_go(cutting.world).staged == 1
    assert cutting.tags() == {}
