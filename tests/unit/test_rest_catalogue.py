"""The suite of every sink over Iceberg tables in a REST catalogue: real files, and a server of the tests' own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.update import TableUpdate
from urllib3.util.retry import Retry

from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.errors import CommitUnknown, Diverged, Fenced, Refused, SeamlineError, TransientError
from seamline.sinks.iceberg import rest_ledger
from seamline.sinks.iceberg.manifests import read_head
from seamline.sinks.iceberg.rest_client import Loaded, RestClient
from seamline.sinks.iceberg.rest_ledger import place_of
from seamline.sinks.iceberg.rest_store import updates_between
from tests.contract.behaviours import BEHAVIOURS, Applying, Behaviour, account, published, texts
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.going_back_behaviours import GOING_BACK_BEHAVIOURS
from tests.contract.joining_behaviours import (
    JOINING_BEHAVIOURS,
    a_table_that_joins_while_the_files_of_a_publish_are_written_leaves_by_it,
)
from tests.contract.lake_worlds import compacted
from tests.contract.rest_world import RestWorld
from tests.contract.truncate_behaviours import TRUNCATE_BEHAVIOURS
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, delete, insert, publication, update
from tests.rest_catalogue import Catalogue, serving

COMMIT = "/transactions/commit"
OVER_ALL_TABLES = [*BEHAVIOURS, *FILTER_BEHAVIOURS, *TRUNCATE_BEHAVIOURS, *JOINING_BEHAVIOURS, *GOING_BACK_BEHAVIOURS]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RestWorld]:
    with closing(RestWorld(TABLES, tmp_path)) as world:
        yield world


@pytest.mark.parametrize("behaviour", OVER_ALL_TABLES, ids=lambda behaviour: behaviour.__name__)
def test_a_sink_over_a_rest_catalogue_keeps_the_contract(behaviour: Behaviour, world: RestWorld) -> None:
    behaviour(world)


def test_a_table_that_joins_while_the_files_of_a_publish_are_written_leaves_by_it(
    world: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_table_that_joins_while_the_files_of_a_publish_are_written_leaves_by_it(world, monkeypatch)


# ---- one call -------------------------------------------------------------------------------------------------------


def tables_and_ledger_move_by_one_call(world: RestWorld) -> None:
    stream = published(world)
    world.catalogue.commits.clear()
    commit = stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"))
    (moved,) = world.catalogue.commits
    ledger = place_of(STREAM)[1]
    assert moved == [ledger, ACCOUNT.name, AUDIT.name]
    assert world.seen().ledger == commit.ledger
    heads = {table: world.catalogue.tables["settlement", table].metadata for table in (ACCOUNT.name, AUDIT.name)}
    assert {table: metadata.current_snapshot_id for table, metadata in heads.items()} == {
        table: world.seen().snapshots[table] for table in heads
    }


def an_owner_whose_epoch_is_taken_while_its_commit_is_under_way_moves_nothing(world: RestWorld) -> None:
    zombie = published(world)
    zombie.span(insert(ACCOUNT, **account(1)))
    owners: list[Applying] = []
    world.catalogue.before_commit = lambda: owners.append(Applying(world))
    with pytest.raises(Fenced):
        zombie.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1))
    (owner,) = owners
    owner.span(insert(ACCOUNT, **account(3)))
    assert world.rows(ACCOUNT) == texts(account(1), account(3))


def a_compaction_that_comes_between_is_gone_on_from(world: RestWorld) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    world.catalogue.before_commit = lambda: compact(world, ACCOUNT.name)
    stream.span(update(ACCOUNT, account(1), account(1, "later")))
    assert world.rows(ACCOUNT) == texts(account(1, "later"))


def a_commit_that_was_sent_twice_and_refused_the_second_time_is_there(world: RestWorld) -> None:
    stream = published(world)
    world.catalogue.twice = True
    stream.span(insert(ACCOUNT, **account(1)))
    assert not world.catalogue.twice
    assert world.rows(ACCOUNT) == texts(account(1))
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


def compact(world: RestWorld, name: str) -> None:
    found = world.catalogue.tables["settlement", name]
    table = Loaded(("settlement", name), found.location, found.metadata)
    staged = compacted(read_head(table.location))
    world.catalogue.commit([table.changed(list(updates_between(table.metadata, staged.metadata)))])


def _without_the_ledger(patch: pytest.MonkeyPatch) -> None:
    """The ledger follows in a call of its own."""
    right = RestClient.commit

    def commit(self: RestClient, changes: Sequence[CommitTableRequest]) -> None:
        for part in (changes[1:], changes[:1]):
            if part:
                right(self, part)

    patch.setattr(RestClient, "commit", commit)


def _without_comparison(patch: pytest.MonkeyPatch) -> None:
    """A commit does not ask where the tables stand."""
    right = Loaded.changed

    def changed(self: Loaded, updates: Sequence[TableUpdate]) -> CommitTableRequest:
        request = right(self, updates)
        return request.model_copy(update={"requirements": request.requirements[:1]})

    patch.setattr(Loaded, "changed", changed)


CHECKS = [
    tables_and_ledger_move_by_one_call,
    an_owner_whose_epoch_is_taken_while_its_commit_is_under_way_moves_nothing,
    a_compaction_that_comes_between_is_gone_on_from,
    a_commit_that_was_sent_twice_and_refused_the_second_time_is_there,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_commit_is_one_call_that_compares(check: Callable[[RestWorld], None], world: RestWorld) -> None:
    check(world)


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (_without_the_ledger, tables_and_ledger_move_by_one_call),
        (_without_the_ledger, an_owner_whose_epoch_is_taken_while_its_commit_is_under_way_moves_nothing),
        (_without_comparison, an_owner_whose_epoch_is_taken_while_its_commit_is_under_way_moves_nothing),
    ],
)
def test_a_planted_bug_of_a_commit_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None],
    check: Callable[[RestWorld], None],
    world: RestWorld,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, SeamlineError, ValueError, pytest.fail.Exception)):
        check(world)


def test_a_server_that_takes_tables_one_by_one_breaks_the_promise(world: RestWorld) -> None:
    """Hence `atomic: true`: the ledger, the first of the call, says then what the tables do not hold."""
    world.catalogue.one_by_one = True
    with pytest.raises((AssertionError, SeamlineError)):
        a_compaction_that_comes_between_is_gone_on_from(world)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, Refused),
        (403, Refused),
        (401, TransientError),
        (408, CommitUnknown),
        (500, CommitUnknown),
        (503, CommitUnknown),
        (504, CommitUnknown),
    ],
)
def test_what_the_server_answers_decides_who_acts(world: RestWorld, code: int, error: type[SeamlineError]) -> None:
    stream = published(world)
    world.catalogue.refuse = code
    with pytest.raises(error):
        stream.span(insert(ACCOUNT, **account(1)))
    assert world.rows(ACCOUNT) == []
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(2))


@pytest.mark.parametrize("code", [404, 405, 501])
def test_a_server_without_the_call_is_refused_at_the_first_commit(world: RestWorld, code: int) -> None:
    stream = published(world)
    world.catalogue.answers[COMMIT] = [(code, {})]
    with pytest.raises(Refused, match=f"has no call POST transactions/commit: it answered {code}"):
        stream.span(insert(ACCOUNT, **account(1)))
    assert world.catalogue.answers == {COMMIT: []}, "it was asked once"
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(2))


def test_a_commit_whose_table_is_gone_is_not_taken_for_a_call_that_is_missing(world: RestWorld) -> None:
    stream = published(world)
    tables = world.catalogue.tables
    world.catalogue.before_commit = lambda: tables.pop(("settlement", ACCOUNT.name)) and None
    with pytest.raises(Diverged, match="it is gone from the catalogue"):
        stream.span(insert(ACCOUNT, **account(1)))


def test_a_busy_server_is_asked_again_after_the_time_that_it_says(world: RestWorld) -> None:
    stream = published(world)
    world.catalogue.answers = {COMMIT: [(429, {"Retry-After": "1"})], "/tables": [(503, {"Retry-After": "0"})]}
    world.catalogue.seen.clear()
    stream.span(insert(ACCOUNT, **account(1)))
    assert world.rows(ACCOUNT) == texts(account(1))
    assert world.catalogue.answers == {COMMIT: [], "/tables": []}
    first, second = (at for at, path, _ in world.catalogue.seen if path.endswith(COMMIT))
    assert second - first >= 1


def test_a_server_that_stays_busy_lets_the_stream_try_later(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its pauses grow to seconds: the test before has one.
    monkeypatch.setattr(Retry, "sleep", lambda *_: None)
    stream = published(world)
    world.catalogue.answers[COMMIT] = [(429, {"Retry-After": "0"})] * 5
    with pytest.raises(TransientError, match="answered a commit with 429"):
        stream.span(insert(ACCOUNT, **account(1)))
    assert world.catalogue.answers == {COMMIT: []}


@pytest.mark.parametrize("code", [302, 307])
def test_no_secret_and_no_commit_follows_a_redirect_to_another_origin(
    world: RestWorld, tmp_path: Path, code: int
) -> None:
    world.catalogue.client = ("seamline", "secret")
    world.connect("seamline:secret")
    published(world).span(insert(ACCOUNT, **account(1)))
    stranger = Catalogue()
    with serving(stranger) as elsewhere:
        for path, begin in (
            ("/oauth/tokens", lambda: Applying(world)),
            ("/config", lambda: Applying(world)),
            (COMMIT, lambda: Applying(world).span(insert(ACCOUNT, **account(2)))),
        ):
            world.catalogue.answers[path] = [(code, {"Location": f"{elsewhere}/v1{path}"})]
            with pytest.raises(Refused, match="would get the client's token") as refused:
                begin()
            assert "secret" not in str(refused.value)
    assert stranger.seen == []


def test_a_commit_that_is_sent_to_a_page_for_logging_in_is_no_commit(world: RestWorld) -> None:
    stream = published(world)
    world.catalogue.answers[COMMIT] = [(302, {"Location": "/v1/config"})]
    with pytest.raises(Refused, match=r"redirects POST .*/transactions/commit to /v1/config"):
        stream.span(insert(ACCOUNT, **account(1)))
    assert world.rows(ACCOUNT) == []


# ---- names ----------------------------------------------------------------------------------------------------------


def test_a_new_name_that_a_dead_publish_has_decided_is_given_by_the_next_owner(world: RestWorld) -> None:
    published(world)
    loads = [world.load(ACCOUNT, [account(1)])]
    points = ArmedFailpoints("pub.commit_acked=error@1")
    with pytest.raises(TransientError):
        world.sink(failpoints=points).publish(STREAM, loads, publication=publication([ACCOUNT], run_id="run-2"))
    assert world.catalogue.tables.keys() >= {("settlement", AUDIT.name)}, "decided, and not done"
    Applying(world).span(insert(ACCOUNT, **account(2)))
    names = {name for namespace, name in world.catalogue.tables if namespace == "settlement"}
    assert AUDIT.name not in names
    assert any(name.startswith(AUDIT.name) for name in names), "its rows are kept under another name"


def test_an_empty_table_that_a_dead_publish_has_made_is_made_again(world: RestWorld) -> None:
    world.catalogue.refuse = 503
    with pytest.raises(CommitUnknown):
        published(world)
    assert ("settlement", ACCOUNT.name) in world.catalogue.tables
    published(world).span(insert(ACCOUNT, **account(1)))
    assert world.rows(ACCOUNT) == texts(account(1))


def test_a_ledger_keeps_what_was_found_and_lets_go_of_old_snapshots(
    world: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_ledger, "_KEPT", 3)
    monkeypatch.setattr(rest_ledger, "_LET_GO_AT_ONCE", 1)
    stream = published(world)
    found = stream.span(delete(ACCOUNT, **account(7))).findings
    assert found
    for _ in range(12):
        stream.span()
    assert tuple(world.findings()) == found
    metadata = world.catalogue.tables[place_of(STREAM)].metadata
    assert len(metadata.snapshots) <= 8
    lists = {path.name for path in Path(metadata.location.removeprefix("file://")).rglob("*.avro")}
    assert lists == {snapshot.manifest_list.rpartition("/")[2] for snapshot in metadata.snapshots}
