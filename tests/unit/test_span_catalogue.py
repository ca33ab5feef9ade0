"""The catalogue that Spark stages a commit through: it answers whoever has its token, and moves no pointer."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import StaticTable
from pyiceberg.table.update import AssertRefSnapshotId

from seamline.domain.catalogue import Column, Kind, Table
from seamline.sinks.iceberg.manifests import Head, read_metadata
from seamline.sinks.iceberg.snapshot import FileChanges, new_head, staged_head
from seamline.sinks.iceberg.span_catalogue import NAMESPACE, SpanCatalogue, SpanTable
from seamline.sinks.lake.files import NewFiles, path_of

TABLE = Table("a table", (Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),), ("id",))
Answer = tuple[int, dict[str, Any]]


@pytest.fixture
def head(tmp_path: Path) -> Head:
    (tmp_path / "t").mkdir()
    base = new_head(TABLE, tmp_path / "t")
    return staged_head(base, FileChanges(), NewFiles(base.metadata.location, "s-e1"))


@pytest.fixture
def catalogue() -> Iterator[SpanCatalogue]:
    with closing(SpanCatalogue()) as catalogue:
        yield catalogue


def asked(
    catalogue: SpanCatalogue, method: str, table: str, body: object = None, *, token: str | None = None
) -> Answer:
    said, prefix = catalogue.settings(), f"spark.sql.catalog.{catalogue.name}"
    address = said[f"{prefix}.uri"].removeprefix("http://")
    headers = {"Authorization": f"Bearer {said[f'{prefix}.token'] if token is None else token}"}
    with closing(http.client.HTTPConnection(address, timeout=5)) as session:
        content = None if body is None else json.dumps(body)
        session.request(method, f"/v1/namespaces/{NAMESPACE}/tables/{table}", content, headers)
        answer = session.getresponse()
        return answer.status, json.loads(answer.read())


def appended(head: Head, *, number: int) -> dict[str, Any]:
    """As Spark commits a snapshot without rows on top of a state of the table."""
    parent = head.metadata.snapshots[-1]
    snapshot = {
        "snapshot-id": number,
        "parent-snapshot-id": parent.snapshot_id,
        "sequence-number": parent.sequence_number + 1,
        "timestamp-ms": parent.timestamp_ms + 1,
        "manifest-list": parent.manifest_list,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent.snapshot_id}],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
        ],
    }


def test_a_table_is_served_as_its_pointer_has_it_and_then_as_the_commit_has_left_it(
    catalogue: SpanCatalogue, head: Head
) -> None:
    span = SpanTable(head.location, "s-e1")
    catalogue.serve("a table", span)
    status, found = asked(catalogue, "GET", "a%20table")
    assert (status, found["metadata-location"]) == (HTTPStatus.OK, head.location)
    status, changed = asked(catalogue, "POST", "a+table", appended(head, number=7))
    assert (status, changed["metadata"]["current-snapshot-id"]) == (HTTPStatus.OK, 7)
    assert changed["metadata-location"] != head.location, "a client takes the same file for the same state"
    assert asked(catalogue, "GET", "a%20table") == (HTTPStatus.OK, changed)
    assert read_metadata(head.location).current_snapshot_id == head.snapshot_id
    assert StaticTable.from_metadata(span.location).metadata.current_snapshot_id == 7


def test_a_commit_on_top_of_another_state_is_refused_and_changes_nothing(catalogue: SpanCatalogue, head: Head) -> None:
    span = SpanTable(head.location, "s-e1")
    catalogue.serve("t", span)
    twice = appended(head, number=7)
    assert asked(catalogue, "POST", "t", twice)[0] == HTTPStatus.OK
    status, said = asked(catalogue, "POST", "t", twice)
    assert (status, said["error"]["type"]) == (HTTPStatus.CONFLICT, "CommitFailedException")
    assert [snapshot.snapshot_id for snapshot in span.added] == [7]


def test_states_between_are_in_the_history_and_in_no_log(head: Head) -> None:
    span = SpanTable(head.location, "s-e1")
    with closing(SpanCatalogue()) as catalogue:
        catalogue.serve("t", span)
        for number in (7, 8):
            state = Head(span.location, span.now, (), (), ())  # type: ignore[arg-type]
            assert asked(catalogue, "POST", "t", appended(state, number=number))[0] == HTTPStatus.OK
    span.keep_last()
    after = read_metadata(span.location)
    assert [snapshot.snapshot_id for snapshot in after.snapshots][1:] == [7, 8]
    assert [entry.snapshot_id for entry in after.snapshot_log] == [head.snapshot_id, 8]
    assert [entry.metadata_file for entry in after.metadata_log] == [head.location]
    files = {path.name for path in path_of(span.location).parent.glob("*.metadata.json")}
    assert files == {path_of(head.location).name, path_of(span.location).name}


@pytest.mark.parametrize("token", ["", "another"])
def test_who_has_not_the_token_learns_nothing(catalogue: SpanCatalogue, head: Head, token: str) -> None:
    catalogue.serve("t", SpanTable(head.location, "s-e1"))
    status, said = asked(catalogue, "GET", "t", token=token)
    assert (status, said["error"]["type"]) == (HTTPStatus.UNAUTHORIZED, "NotAuthorizedException")
    assert "metadata" not in said


def test_a_table_of_no_commit_is_not_there_and_a_statement_that_was_given_up_commits_nothing(
    catalogue: SpanCatalogue, head: Head
) -> None:
    span = SpanTable(head.location, "s-e1")
    assert asked(catalogue, "GET", "t")[0] == HTTPStatus.NOT_FOUND
    catalogue.serve("t", span)
    catalogue.forget("t")
    assert asked(catalogue, "POST", "t", appended(head, number=7))[0] == HTTPStatus.NOT_FOUND
    assert span.added == []


@pytest.mark.parametrize("body", [{}, {"requirements": [], "updates": [{"action": "dance"}]}])
def test_what_is_no_commit_is_said_to_be_none(catalogue: SpanCatalogue, head: Head, body: object) -> None:
    catalogue.serve("t", SpanTable(head.location, "s-e1"))
    status, said = asked(catalogue, "POST", "t", body)
    assert (status, said["error"]["type"]) == (HTTPStatus.BAD_REQUEST, "BadRequestException")


def test_a_requirement_that_does_not_hold_is_an_error_before_anything_is_written(head: Head) -> None:
    span = SpanTable(head.location, "s-e1")
    before = set(path_of(head.location).parent.iterdir())
    with pytest.raises(CommitFailedException):
        span.commit((AssertRefSnapshotId(ref="main", snapshot_id=1),), ())
    assert set(path_of(head.location).parent.iterdir()) == before
