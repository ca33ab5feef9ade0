"""What an alarm is called on the page: its kind in words, for its message is stored as it was written."""

from typing import Any

from seamline.domain.phrase import phrase

_TITLES = {
    "stream_silent": phrase("stream not heard"),
    "stream_ended": phrase("stream has ended"),
    "stream_no_slot": phrase("stream without a slot"),
    "stream_late": phrase("stream is late"),
    "stream_still": phrase("stream does not come further"),
    "stream_paused": phrase("stream is paused and holds back too much"),
    "stream_failed": phrase("stream has failed"),
    "no_slot": phrase("all slots of the stream host are taken"),
    "host_gone": phrase("stream host is gone"),
    "source_unreachable": phrase("source cannot be reached"),
    "capture_failed": phrase("capture has failed"),
    "capture_stopped": phrase("capture is stopped"),
    "capture_unreachable": phrase("Connect does not answer"),
    "capture_slowed": phrase("capture is slowed down"),
    "capture_paused": phrase("capture pauses"),
    "source_backlog": phrase("the source keeps much of its own log"),
    "catch_up": phrase("a stream does not catch up in time, or loading it again is faster"),
    "stream_cut_off": phrase("stream is cut off"),
    "log_size": phrase("the log is nearly full"),
    "log_not_pruned": phrase("nothing of the log is deleted"),
    "verdict_late": phrase("verdict is late"),
    "stage_late": phrase("stage of a night is late"),
    "onboard_late": phrase("stage of an onboarding is late"),
    "cut_not_clean": phrase("cut is not clean"),
}


def alarm_in_words(alarm: Any) -> str:
    """`alarm`: as the platform database has it. A kind that has no words here is said by its message alone."""
    title = _TITLES.get(alarm.kind)
    if title is None:
        return str(alarm.message)
    return phrase("%(title)s (%(about)s): %(message)s", title=title, about=alarm.about, message=alarm.message)
