"""A connector's Java trace, shortened, and what a person does about it."""

_LINES_MAX = 6
# What a trace contains → what a person does about it. Texts of Debezium 3.5.0.Final, MariaDB 11.4.5.
_CURES = (
    ("Access denied", "check login, password and grants of the capture's connection"),
    ("Communications link failure", "the source's server is away; the capture goes on by itself when it is back"),
    ("Connection refused", "the source's server is away; the capture goes on by itself when it is back"),
    ("Could not find first log file", "the binlog was purged past the capture: onboard the syncs of this source again"),
    ("no longer available on the server", "the binlog was purged past the capture: onboard the syncs again"),
    ("row size", "a session wrote with binlog_row_image other than FULL, or the table is system-versioned"),
    ("byColumn", "a table with a compressed column is written on this server: remove COMPRESSED"),
    ("ColumnType.byCode", "a table with a compressed column is written on this server: remove COMPRESSED"),
    ("ParsingException", "a DDL statement of the captured database cannot be parsed; the trace shows it"),
    ("db history topic or its content is fully or partially missing", "the schema history was lost: onboard again"),
    ("could not be converted", "a value does not fit its column's type; the trace names table and column"),
)


def short_trace(trace: str) -> str:
    """The lines of a Java trace that say what happened: first line and causes."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line for line in lines[1:] if line.startswith("Caused by:")]
    return " | ".join([*lines[:1], *causes][:_LINES_MAX]) or "no trace"


def cure_of(trace: str) -> str:
    for text, cure in _CURES:
        if text in trace:
            return cure
    return "the whole trace is in Connect's log; the capture keeps its place"
