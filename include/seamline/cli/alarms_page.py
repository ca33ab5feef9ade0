"""Every kind of alarm as a page for people, made from `seamline.domain.alarms`."""

from seamline.domain.alarms import MEANINGS

PAGE = "docs/reference/alarms.md"
_HEAD = """\
# Alarms

Made from the code by `./seamline schema`; a test holds it current.

An alarm is a state that a person must know of. It stands in the platform database (`seamline.alarm`), on the page and
in `./seamline status`. There is at most one open alarm for a kind and subject; it keeps the time since when it is
open. Whoever raises an alarm ends it when its cause has ended. A watch that starts ends the alarms of an earlier watch
whose cause is gone.

| alarm | subject | raised when | ended when | what to do |
|---|---|---|---|---|
"""
_TAIL = """
Each alarm about a stream is about one destination: `<sync>@<destination>`. One that is away is *trying again*; after
two minutes that is `stream_still`. The streams of the others raise nothing. A stream that has failed is one alarm,
`stream_failed`, whoever notices it first; its message names the cure of that kind of failure.

A stream host raises the alarms about the streams of its pool once their cause has lasted for 30 s, also while Airflow
is away, and ends those of any pool within seconds. `seamline__streams` does both every two minutes, and alone raises
`host_gone`. The stream host raises `no_slot`, `stream_failed`, `code_differs` and the alarms about sources, except
`log_not_pruned`, at once. From a fault to its alarm it takes three minutes at most. The host raises an alarm about a
source again at each check while the cause lasts: one that somebody ended by mistake, or that `capture reset` ended, is
open again within seconds, with a new start time.

`reconcile.notify.alarms` of a sync sends that an alarm about its streams, their source or its log, or their stream
host has opened, and that it is over; `late` and `signature` send those about nights
([send mails](../how-to/send-mails.md)).

While its source is away, a stream from PostgreSQL applies what the log proves and then *waits for its source*. The
line in `status` and on the page says since when, how many records cannot be verified, behind which position, and the
source's last error. Do nothing at the stream; act on the alarm `source_unreachable`.

The task `nights` of `seamline__streams` raises and ends `verdict_late`, `stage_late`, `onboard_late` and
`calendar_ends`, every two minutes. Airflow's own deadline of a run raises `verdict_late`, too, and the comparison of
the date ends it at once.

A paused stream is never green, with or without an alarm; without one, the task of `seamline__streams` fails with the
reason. `seamline.sync.stream_state` says for page, `status`, alarms and sensors alike what a stream does.
"""


def page() -> str:
    rows = [f"| `{kind}` | {one.about} | {one.raised} | {one.ended} | {one.cure} |\n" for kind, one in MEANINGS.items()]
    return _HEAD + "".join(rows) + _TAIL
