"""Every kind of alarm: what it is about, when it is raised and ended, and what a person does then.

Whoever raises an alarm names its kind by `AlarmKind`, so that there is none without an entry here.
docs/reference/alarms.md is made from it. Texts are Markdown, with links as they are from that page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AlarmKind(StrEnum):
    STREAM_SILENT = "stream_silent"
    STREAM_ENDED = "stream_ended"
    STREAM_LATE = "stream_late"
    STREAM_STILL = "stream_still"
    STREAM_PAUSED = "stream_paused"
    HOST_GONE = "host_gone"
    NO_SLOT = "no_slot"
    STREAM_FAILED = "stream_failed"
    SOURCE_UNREACHABLE = "source_unreachable"
    CAPTURE_FAILED = "capture_failed"
    CAPTURE_STOPPED = "capture_stopped"
    CAPTURE_UNREACHABLE = "capture_unreachable"
    LOG_SIZE = "log_size"
    CAPTURE_SLOWED = "capture_slowed"
    CAPTURE_PAUSED = "capture_paused"
    STREAM_CUT_OFF = "stream_cut_off"
    SOURCE_BACKLOG = "source_backlog"
    CATCH_UP = "catch_up"
    LOG_NOT_PRUNED = "log_not_pruned"
    VERDICT_LATE = "verdict_late"
    LATE_INPUT = "late_input"
    STAGE_LATE = "stage_late"
    ONBOARD_LATE = "onboard_late"
    CODE_DIFFERS = "code_differs"
    CALENDAR_ENDS = "calendar_ends"
    CUT_NOT_CLEAN = "cut_not_clean"
    RECORD_ALTERED = "record_altered"


@dataclass(frozen=True, slots=True)
class Meaning:
    """`about`: what its subject names. `cure`: the next step of a person."""

    about: str
    raised: str
    ended: str
    cure: str


_NOT_WANTED = "no stream of the source is wanted; `capture reset`"

MEANINGS: Mapping[AlarmKind, Meaning] = {
    AlarmKind.STREAM_SILENT: Meaning(
        "stream",
        "it has never reported, or not for 60 s; where the host of its pool is gone for 40 s, `host_gone` says so"
        " instead",
        "it is heard again, nobody wants it, or its host is found to be gone",
        "`./seamline ps`: does its stream host run, and is the platform database up?",
    ),
    AlarmKind.STREAM_ENDED: Meaning(
        "stream",
        "it is wanted, and its last word is that it stopped",
        "it runs again, or nobody wants it",
        "`./seamline stream restart <sync> <destination>`, or Restart on the page of the sync",
    ),
    AlarmKind.STREAM_LATE: Meaning(
        "stream",
        "its lag is over `stream.lag_max_s`, also while it waits for its source; or for as long nothing came through"
        " its log, not even a heartbeat, or its capture is down",
        "the lag ends, as a worker reports it: one that is not known has not ended; it is paused; it ended; nobody"
        " wants it",
        "`./seamline status --watch`: does the lag fall? Where it grows, see what the line of the stream says",
    ),
    AlarmKind.STREAM_STILL: Meaning(
        "stream",
        "it is heard and has not come further for two minutes",
        "it comes further, is paused, or nobody wants it",
        "see what the line of the stream says: what it tries again, or waits for",
    ),
    AlarmKind.STREAM_PAUSED: Meaning(
        "stream",
        "it is paused, and what it holds back is older than `stream.lag_max_s`",
        "it goes on (then it may be late), or nobody wants it",
        "`./seamline stream resume <sync>` once its reason is gone",
    ),
    AlarmKind.HOST_GONE: Meaning(
        "pool",
        "the stream host of a pool with wanted streams is gone for 40 s; it names the streams that are silent with it",
        "a host has the pool, or it has no streams",
        "nothing at first: `seamline__streams` starts another. If it comes again, `./seamline logs stream_host`",
    ),
    AlarmKind.NO_SLOT: Meaning(
        "stream",
        "all slots of the host are taken",
        "it gets a slot; it is not wanted; another host takes the pool",
        "give the host more slots, or name another [pool](../how-to/scale-out.md)",
    ),
    AlarmKind.STREAM_FAILED: Meaning(
        "stream",
        "it ended for good: another attempt cannot help. One that was taken over (`Fenced`), as by a run of its sync"
        " that publishes, only if nobody has started it again 60 s later",
        "it is wanted again, or not any more; another host takes the pool",
        "what the alarm says: it names the cure of that kind of failure. After most, once they are mended,"
        " `./seamline stream restart <sync> <destination>`, or Restart on the page of the sync; where the log has lost"
        " what the stream needs, a new load ([more](../how-to/several-destinations.md#when-one-stream-has-ended))",
    ),
    AlarmKind.SOURCE_UNREACHABLE: Meaning(
        "source",
        "no heartbeat could be committed for 30 s",
        f"one was; {_NOT_WANTED}",
        "bring the source's server back, or mend what its connection lacks: `./seamline connect test <connection>`",
    ),
    AlarmKind.CAPTURE_FAILED: Meaning(
        "source",
        "its connector has failed, or Connect does not know it",
        "it runs, or was stopped; no stream of the source is wanted; `capture start`, `capture reset`",
        "mend what the alarm says, then `./seamline capture start <source>`",
    ),
    AlarmKind.CAPTURE_STOPPED: Meaning(
        "source",
        "its connector is stopped for a minute",
        "it is not stopped any more; no stream of the source is wanted; `capture start`, `capture reset`",
        "`./seamline capture start <source>`, unless somebody keeps it stopped",
    ),
    AlarmKind.CAPTURE_UNREACHABLE: Meaning(
        "source",
        "Connect does not answer for 30 s",
        f"it answers; {_NOT_WANTED}",
        "start Connect's worker again; captures go on where they stood",
    ),
    AlarmKind.LOG_SIZE: Meaning(
        "source",
        "the log topic is over 50 % of `log.max_gb`, over 80 %, or at its limit",
        f"it is below 50 %; {_NOT_WANTED}",
        "let the slowest stream go on, or raise `log.max_gb` as far as the broker's disk allows"
        " ([more](../how-to/keep-the-log-bounded.md))",
    ),
    AlarmKind.CAPTURE_SLOWED: Meaning(
        "source",
        "its capture is held to a rate: its slowest stream has too much of the log before it, or the log is over 90"
        " % of `log.max_gb`, or of what its broker's disk has room for"
        " ([flow control](../how-to/keep-the-log-bounded.md))",
        f"that is less; {_NOT_WANTED}",
        "nothing at the capture: find out why the slowest stream is slow",
    ),
    AlarmKind.CAPTURE_PAUSED: Meaning(
        "source",
        "its capture pauses: the log is over 97 % of `log.max_gb`, or of what its broker's disk has room for",
        f"it is below 93 %; {_NOT_WANTED}",
        "as for `log_size`; the capture goes on by itself",
    ),
    AlarmKind.STREAM_CUT_OFF: Meaning(
        "stream",
        "it had more of the log before it than `stream.cut_off_behind_gb` lets its destination have, and was ended",
        "it is wanted again: by `<sync>__onboard`, or `./seamline stream restart`",
        "[load that destination again](../how-to/add-a-destination-later.md#load-one-destination-again)",
    ),
    AlarmKind.SOURCE_BACKLOG: Meaning(
        "source",
        "its server keeps over half of `log.source_backlog_max_gb`, or of what its own limit (`max_slot_wal_keep_size`)"
        " lets a slot keep, for the capture; or comes to that limit within the hour as it grows now; or deletes the"
        " oldest of it (`binlog_expire_logs_seconds`) within the hour; or at the limit the capture was given up; or"
        " the server keeps it no more",
        f"none of that is so; {_NOT_WANTED}",
        "[mend the capture in time](../how-to/keep-the-log-bounded.md#the-sources-own-log)",
    ),
    AlarmKind.CATCH_UP: Meaning(
        "source",
        "its slowest stream will not be through before the log is full, as it applies and as it grows now (one that has"
        " ended has its own alarm); or an onboarding that runs will not, by the length of the one before it or its own"
        " pace; or loading a stream's tables again takes less than half as long as catching up",
        f"neither is so; {_NOT_WANTED}",
        "[choose between waiting and loading again](../how-to/keep-the-log-bounded.md#will-it-make-it)",
    ),
    AlarmKind.LOG_NOT_PRUNED: Meaning(
        "source",
        "the hourly maintenance does not know what still needs the source's log, and so deletes nothing of it; or its"
        " records cannot be [archived](../how-to/archive-the-log.md#when-it-stops), and so stay",
        "all that needs it is known at the next hour, and all that may go is archived; its topic is gone; no sync"
        " has the source any more",
        "mend what the alarm says: [maintenance](maintenance.md)",
    ),
    AlarmKind.VERDICT_LATE: Meaning(
        "sync and date",
        "the hour of `nightly.verdict_by` has passed without a verdict, or, where none is declared, 6 hours since"
        " `run_at`; INCONCLUSIVE is none, unless a person is asked about it; also where no run has begun ([who is"
        " called when](../how-to/be-called-in-time.md))",
        "the verdict is there; or nobody expects it any more: the sync is not declared or has no nights, or the date"
        " is no business date",
        "`./seamline status --missing` says why, and the next step",
    ),
    AlarmKind.LATE_INPUT: Meaning(
        "sync and date",
        "the source has not closed the date by the hour of the verdict (`ready_when`, `cut_off`); its night has failed",
        "the task `ready`, cleared, finds it closed",
        "ask whoever closes the source's day, then clear the task `ready` of its run",
    ),
    AlarmKind.STAGE_LATE: Meaning(
        "sync and date",
        "the hour of a stage of the night has passed without it, as `nightly.stages_by` or a default has it; of"
        " several the first",
        "the stage is through, or the next date has ended",
        "open the run of the date in Airflow: the log of the task that runs says how far it is",
    ),
    AlarmKind.ONBOARD_LATE: Meaning(
        "sync and kind of run",
        "a stage of an onboarding, or of a change of its tables, takes longer than `onboard.stages_within` or a default"
        " lets it",
        "the stage is through, or the run has ended",
        "the log of the task that runs says how far it is; an [interrupted load goes"
        " on](../how-to/resume-an-interrupted-load.md)",
    ),
    AlarmKind.CODE_DIFFERS: Meaning(
        "pool",
        "streams run by other code than is installed: which one is restarted, or why the sequence stopped"
        " ([how](../how-to/be-called-in-time.md#new-code-for-streams-that-run))",
        "all run by the installed code; another host takes the pool",
        "nothing while the sequence goes on; where it stopped, mend what the alarm says",
    ),
    AlarmKind.CALENDAR_ENDS: Meaning(
        "sync and calendar",
        "a calendar of the sync ends within its `alarm_before`, or has ended",
        "the calendar goes on; the sync does not name it any more",
        "[write the next year into its file](../how-to/schedule-on-a-calendar.md)",
    ),
    AlarmKind.CUT_NOT_CLEAN: Meaning(
        "sync and date",
        "the gate found the newest take of the cut not clean, or a destination has no cut of the date that could be"
        " judged, as where its comparison was INCONCLUSIVE or the night failed before its gate; it names these"
        " destinations, and no other",
        "it is published there, or a take is clean everywhere",
        "[work on its breaks](../how-to/work-on-breaks.md), then decide; of a cut that is INCONCLUSIVE or missing mend"
        " what the alarm says, then take the date again",
    ),
    AlarmKind.RECORD_ALTERED: Meaning(
        "sync",
        "the hourly maintenance finds that something is stored of the sync that is not what the log of acts has"
        " (ALTERED): a verdict, decision, cut, signature, file or break; or that the chain of the log or an anchor of"
        " it is wrong, which is an alarm of every sync; or it could not verify that. The message has the first lines",
        "the maintenance has looked at all of the sync, the chain and the anchors, and all is as it was entered: what"
        " was changed stays so, however often the date is taken again, until it is as it was",
        "`./seamline audit verify --sync <sync>` names each record; find out who writes into the platform database, and"
        " restore what was changed from a backup ([what is held](audit.md))",
    ),
}
