"""A marker is found wherever its row stands in a transaction."""

import pytest

from seamline.domain.errors import TransientError
from seamline.sync.markers import read_until_marker
from tests.log_topic import ACCOUNT, MARKERS, Change, LogTopic, TopicReader, insert


def log_with(marker_id: str) -> LogTopic:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="before"))
    marker = Change(MARKERS, after={"id": marker_id, "kind": "low", "payload": "{}", "at": 0})
    log.transaction(insert(ACCOUNT, id=2, name="beside"), marker, insert(ACCOUNT, id=3, name="behind"))
    log.transaction()
    return log


def test_a_marker_amid_rows_is_found_and_its_transaction_s_end() -> None:
    log = log_with("m1")
    reader = TopicReader(log)
    reader.assign(0)
    found = read_until_marker(reader, marker_table=MARKERS, marker_id="m1", timeout_s=5)
    marker = next(row for record in log.records for row in record.rows if row.table == MARKERS)
    end = next(record for record in log.records if record.offset > marker.offset and record.counts)
    assert (found.offset, found.next_offset, found.position) == (marker.offset, end.offset + 1, end.position)


def test_another_marker_is_not_the_one_that_is_looked_for() -> None:
    reader = TopicReader(log_with("m2"))
    reader.assign(0)
    with pytest.raises(TransientError, match="marker m1 was committed in the source but not read"):
        read_until_marker(reader, marker_table=MARKERS, marker_id="m1", timeout_s=0.05)
