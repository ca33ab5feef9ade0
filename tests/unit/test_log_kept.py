"""A stream that stands says what the log keeps for it, and until when that may go on."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from seamline.domain.catch_up import LastLoad
from seamline.domain.log_fill import GIB
from seamline.domain.log_kept import LogKept, log_kept_from_json
from seamline.sync.stream_state import Word, log_kept_document
from tests.unit.test_stream_state import judged, report, wanted

AT = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
KEPT = LogKept(3 * GIB, 512 * 1024, 7200.0, has_source_limit=True, source_in_s=9000.0)


def test_a_paused_stream_says_what_the_log_keeps_for_it_and_when_the_log_and_the_source_end() -> None:
    state = judged(report(state="paused", next_offset=6, kept=KEPT, kept_at=AT), wanted(paused=True))
    assert state.kept_in_words(ZoneInfo("Europe/Berlin")) == (
        "the log keeps 3.00 GiB for it and grows by 0.5 MiB a second now; at this rate it is full (log.max_gb) at"
        " 2026-11-19 15:00:00 +01:00, and then the capture stands still; the source deletes what was not read at"
        " 2026-11-19 15:30:00 +01:00"
    )
    assert state.in_words().endswith(state.kept_in_words())
    assert log_kept_document(state) == {
        "size_bytes": 3 * GIB,
        "measured_at": AT,
        "grows_bytes_per_s": 512 * 1024,
        "full_at": AT + timedelta(hours=2),
        "cut_off_at": None,
        "source_deletes_at": AT + timedelta(hours=2.5),
        "given_up_at": None,
        "faster_load_s": None,
    }


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (replace(KEPT, has_source_limit=False, source_in_s=None), "no limit is declared there"),
        (replace(KEPT, has_source_limit=None, source_in_s=None), "how long the source keeps its own log is not known"),
        (replace(KEPT, source_in_s=9e9), "the source keeps what comes then for more than 30 days"),
        (replace(KEPT, full_in_s=0.0), "the log is full, and the capture stands still; the source deletes"),
        (replace(KEPT, full_in_s=None), "at this rate it is not full (log.max_gb) within 30 days"),
        (replace(KEPT, full_in_s=9e12), "at this rate it is not full (log.max_gb) within 30 days"),
        (replace(KEPT, grows_per_s=None, full_in_s=None), "until when is not known yet"),
        (replace(KEPT, cut_off_in_s=60.0), "it is cut off at 2026-11-19 12:01:00 +00:00 (stream.cut_off_behind_gb)"),
        (
            replace(KEPT, given_up_in_s=8100.0),
            "stands still; the capture is given up (log.source_backlog_max_gb) at 2026-11-19 14:15:00 +00:00",
        ),
        (replace(KEPT, given_up_in_s=9060.0), "stands still; the source deletes what was not read at"),
        (
            replace(KEPT, has_source_limit=False, source_in_s=None, given_up_in_s=9060.0),
            "the capture is given up (log.source_backlog_max_gb) at 2026-11-19 14:31:00 +00:00",
        ),
        (
            replace(KEPT, has_source_limit=False, source_in_s=None, given_up_in_s=9e9),
            "the source keeps what comes then: no limit is declared there",
        ),
        (replace(KEPT, is_disk=True), "it is full (the broker's disk) at 2026-11-19 14:00:00 +00:00"),
    ],
)
def test_each_end_of_a_log_has_its_words_and_none_is_made_up(kept: LogKept, said: str) -> None:
    text = kept.in_words(AT, UTC)
    assert said in text
    assert log_kept_from_json({**asdict(kept), "at": 7.0, "of_a_newer_host": 1}) == kept


def test_a_stream_that_goes_on_says_nothing_of_the_log_and_one_nobody_has_measured_neither() -> None:
    assert judged(report(kept=KEPT, kept_at=AT)).kept_in_words() == ""
    paused = wanted(paused=True)
    assert judged(report(state="paused"), paused).kept_in_words() == ""
    assert judged(report(state="paused", kept=LogKept(0), kept_at=AT), paused).kept_in_words() == ""
    for state in ("held", "backing_off", "failed", "no_slot"):
        assert judged(report(state=state, kept=KEPT, kept_at=AT)).kept_in_words().startswith("the log keeps 3.00 GiB")


def test_a_faster_load_is_offered_for_a_stream_that_catches_up_and_not_for_one_that_somebody_paused() -> None:
    kept = replace(KEPT, load=LastLoad(9_000_000, 900.0))
    late = judged(report(lag_s=300.0, kept=kept, kept_at=AT))
    assert late.word is Word.LATE
    assert late.faster_load is not None and late.faster_load.length == "15 min"
    assert judged(report(state="paused", kept=kept, kept_at=AT), wanted(paused=True)).faster_load is None
    assert judged(report(lag_s=300.0, kept=KEPT, kept_at=AT)).faster_load is None
    assert log_kept_from_json(asdict(kept)).load == kept.load
