"""What a program can measure: each figure of `./seamline status --json` and of a stream's report, with its unit.

docs/reference/metrics.md is made from it. A key of the document that is no figure stands in `NAMES`; a test holds that
the document has no other. Texts are Markdown, with links as they are from that page.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from seamline.domain.alarms import AlarmKind

PAGE = "docs/reference/metrics.md"


@dataclass(frozen=True, slots=True)
class Figure:
    """`at`: where it stands in the document; what lies below such a place belongs to it. `cure`: what a person does
    about a bad one; of a figure with alarms their page says it."""

    means: str
    unit: str
    at: tuple[str, ...]
    alarms: tuple[AlarmKind, ...] = ()
    cure: str = ""


_STREAM = "syncs[].streams[]"
FIGURES = (
    Figure(
        "how long after the source's commit a stream's newest commit became visible in its destination",
        "seconds; null where nobody knows it",
        (f"{_STREAM}.lag_s",),
        (AlarmKind.STREAM_LATE, AlarmKind.STREAM_PAUSED),
    ),
    Figure(
        "what a stream has not applied yet",
        "records of the log; null where nobody knows it",
        (f"{_STREAM}.records_behind",),
        (AlarmKind.STREAM_CUT_OFF, AlarmKind.CATCH_UP),
    ),
    Figure(
        "what the log keeps for a stream, how fast it grows, and when it is full, the stream is cut off, the source"
        " deletes what was not read",
        "bytes; bytes a second; moments; null where nobody has measured it within two minutes",
        (f"{_STREAM}.log_kept",),
        (AlarmKind.CATCH_UP, AlarmKind.STREAM_PAUSED),
    ),
    Figure(
        "what a stream does, whether that is well, why, since when, and whether it has ended and a restart can help",
        "a word; true or false; a text; a moment; true or false",
        (f"{_STREAM}.word", f"{_STREAM}.is_green", f"{_STREAM}.why", f"{_STREAM}.since", f"{_STREAM}.may_restart"),
        (AlarmKind.STREAM_SILENT, AlarmKind.STREAM_STILL, AlarmKind.STREAM_ENDED, AlarmKind.STREAM_FAILED),
    ),
    Figure(
        "rows of the log that did not fit the destination, since the stream began",
        "rows",
        (f"{_STREAM}.findings",),
        cure="`./seamline reconcile <sync>`, then [repair](../how-to/repair.md)",
    ),
    Figure(
        "the word for a sync, as on the page, and whether anything of it is red",
        "a word; true or false",
        ("syncs[].word", "syncs[].is_wrong"),
        cure="`./seamline status <sync>` says what is red",
    ),
    Figure(
        "verdicts of the newest dates and of the live tables, as [reports](reports.md) have them: of each table rows on"
        " both sides, control totals and breaks",
        "numbers; sums are texts with all their digits",
        ("syncs[].verdicts[]",),
        (AlarmKind.CUT_NOT_CLEAN,),
    ),
    Figure(
        "business dates without a published cut, why, and the next step",
        "one entry each",
        ("syncs[].missing[]",),
        (AlarmKind.VERDICT_LATE, AlarmKind.LATE_INPUT, AlarmKind.STAGE_LATE),
    ),
    Figure(
        "cuts that wait for a signature",
        "one entry each",
        ("syncs[].unsigned[]",),
        cure="[sign them](../how-to/read-the-page.md)",
    ),
    Figure(
        "mistakes in a sync's declarations",
        "one entry each",
        ("syncs[].mistakes[]",),
        cure="each has its `cure`",
    ),
    Figure("work that is under way or has failed", "texts", ("syncs[].notes[]",), cure="open its run in Airflow"),
    Figure(
        "open alarms, with the moment since when; `is_over`: its cause has ended",
        "one entry each",
        ("alarms[]",),
        cure="[all alarms](alarms.md)",
    ),
    Figure(
        "streams that are declared no more: since when, and whether it `has_ended`",
        "one entry each",
        ("undeclared[]",),
        cure="[take a sync away](../how-to/take-a-sync-away.md)",
    ),
    Figure(
        "how many programs of the local stack run, and the names of those that do not",
        "a text",
        ("processes",),
        cure="`./seamline logs <program>`",
    ),
)
# What names a thing, and measures nothing.
NAMES = frozenset({"syncs[].sync", "syncs[].state", f"{_STREAM}.destination"})

# By the field of `StreamReport`: its unit, and what it is.
OF_A_REPORT: Mapping[str, tuple[str, str]] = {
    "lag_s": ("seconds", "how long after the source's commit the newest one became visible"),
    "silent_s": ("seconds", "for so long nothing has come through the log, not even a heartbeat; 0 while they come"),
    "still_s": ("seconds", "for so long it has not come further, although nobody held or paused it"),
    "age_s": ("seconds", "since when this report is written, by the platform database's clock"),
    "records_per_s": ("records a second", "what it applies while it has something to do; 0 where not measured yet"),
    "transactions": ("transactions", "applied since the stream's process began"),
    "changes": ("rows", "written since then, of each key the newest change of a span"),
    "findings": ("rows", "of the log that did not fit the destination, since then"),
    "next_offset": ("offset", "of the log: the first record that is not applied"),
    "log_end_offset": ("offset", "the end of the log when it reported; the difference is what is before it"),
    "reports_dropped": ("reports", "that the platform database did not get while it was away"),
    "kept": (
        "bytes, seconds",
        "what the log keeps for it and in how long that ends, as the watch of its source has said within two minutes",
    ),
    "epoch": ("number", "of the writer that holds the ledger: each start takes the next one"),
}
# What names a thing or says it in words.
OF_A_REPORT_NAMES = frozenset(
    {"stream", "state", "position", "hold_id", "error", "host", "since", "is_idle", "topic_id", "kept_at"}
)
_HEAD = """\
# Metrics

Made from the code by `./seamline schema`; a test holds it current.

Seamline has no endpoint of its own for metrics. Its figures stand in the platform database; `./seamline status
--json`, REST and the page read them there. An agent that runs the command each minute gets all of these.

| figure | unit | in `./seamline status --json` | alarm, or what to do |
|---|---|---|---|
"""
_BETWEEN = """
The exit code is 0 only if nothing is red. `./seamline ps --json` has memory and state of each program of a local stack,
`./seamline cuts <sync> --json` the rows of each cut, and the platform database keeps the lags of two days.

## What a stream reports

At once when its state changes, else every few seconds: the newest report of each stream stands in
`seamline.stream_report` of the platform database (`document`; `age_s` and `still_s` are made when it is read).

| field | unit | what it is |
|---|---|---|
"""
_TAIL = """
Of the servers: [Airflow, Connect, PostgreSQL, MariaDB and Kafka](../how-to/run-in-containers.md#metrics) have
exporters of their own.
"""


def page() -> str:
    figures = [
        f"| {one.means} | {one.unit} | {_code(one.at)} | {_code(one.alarms) if one.alarms else one.cure} |\n"
        for one in FIGURES
    ]
    reported = [f"| `{name}` | {unit} | {means} |\n" for name, (unit, means) in OF_A_REPORT.items()]
    return _HEAD + "".join(figures) + _BETWEEN + "".join(reported) + _TAIL


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
