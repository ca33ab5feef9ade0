"""What an alarm is called on the page: its kind in words, for its message is stored as it was written."""

from collections.abc import Mapping
from typing import Any

from seamline.domain.alarms import AlarmKind
from seamline.domain.phrase import phrase

TITLES: Mapping[str, str] = {
    AlarmKind.STREAM_SILENT: phrase("stream not heard"),
    AlarmKind.STREAM_ENDED: phrase("stream has ended"),
    AlarmKind.STREAM_LATE: phrase("stream is late"),
    AlarmKind.STREAM_STILL: phrase("stream does not come further"),
    AlarmKind.STREAM_PAUSED: phrase("stream is paused and holds back too much"),
    AlarmKind.STREAM_FAILED: phrase("stream has failed"),
    AlarmKind.NO_SLOT: phrase("all slots of the stream host are taken"),
    AlarmKind.HOST_GONE: phrase("stream host is gone"),
    AlarmKind.SOURCE_UNREACHABLE: phrase("source cannot be reached"),
    AlarmKind.CAPTURE_FAILED: phrase("capture has failed"),
    AlarmKind.CAPTURE_STOPPED: phrase("capture is stopped"),
    AlarmKind.CAPTURE_UNREACHABLE: phrase("Connect does not answer"),
    AlarmKind.CAPTURE_SLOWED: phrase("capture is slowed down"),
    AlarmKind.CAPTURE_PAUSED: phrase("capture pauses"),
    AlarmKind.SOURCE_BACKLOG: phrase("the source keeps much of its own log"),
    AlarmKind.CATCH_UP: phrase("a stream does not catch up in time, or loading it again is faster"),
    AlarmKind.STREAM_CUT_OFF: phrase("stream is cut off"),
    AlarmKind.LOG_SIZE: phrase("the log is nearly full"),
    AlarmKind.LOG_NOT_PRUNED: phrase("nothing of the log is deleted"),
    AlarmKind.VERDICT_LATE: phrase("verdict is late"),
    AlarmKind.STAGE_LATE: phrase("stage of a night is late"),
    AlarmKind.ONBOARD_LATE: phrase("stage of an onboarding is late"),
    AlarmKind.CUT_NOT_CLEAN: phrase("cut is not clean"),
    AlarmKind.RECORD_ALTERED: phrase("a record is ALTERED, or could not be verified"),
    AlarmKind.LATE_INPUT: phrase("the source has not closed its day"),
    AlarmKind.CALENDAR_ENDS: phrase("a calendar ends"),
    AlarmKind.CODE_DIFFERS: phrase("streams run by other code than is installed"),
}


def alarm_in_words(alarm: Any) -> str:
    """`alarm`: as the platform database has it. A kind that has no words here is said by its message alone."""
    title = TITLES.get(alarm.kind)
    if title is None:
        return str(alarm.message)
    return phrase("%(title)s (%(about)s): %(message)s", title=title, about=alarm.about, message=alarm.message)
