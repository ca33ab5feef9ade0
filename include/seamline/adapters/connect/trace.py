"""A connector's Java trace, shortened, and what a person does about it."""

_LINES_MAX = 6
_BEGIN_AGAIN = "give the capture up (`seamline capture reset`) and onboard the syncs of this source again"
_ONBOARD_AGAIN = f"find out how the source's log was lost, then {_BEGIN_AGAIN}"
# The capture's place is no more in the source's log: purged, another server, a slot dropped or made again.
_PLACE_LOST = (
    "Could not find GTID state requested by slave",
    "which is not in the master's binlog",
    "is not in this server's binlog",
    "Could not find first log file",
    "no longer available on the server",
    "requested WAL segment",
    "can no longer get changes from replication slot",
    "can no longer access replication slot",
    "no longer in its topic",
    "no longer in their topic",
    "was made again: its id is",
    "a topic is not there any more",
    "keys may have moved",
)
# A reference that the worker could not resolve is sent as it stands; certificates are looked for beside the secrets.
_NOT_HANDED_OVER = (
    "${file:",
    "Failed to find trustStore",
    "Failed to find keyStore",
    "Could not open SSL root certificate",
)
_HAND_OVER = (
    "Connect's worker has not been given this login or these certificates. Where Seamline reaches its secrets file"
    " (connection `connect`, extra `secrets_file_here`), each start of the capture writes them: `./seamline capture"
    " start <source>`. Elsewhere the owner of that file adds the lines `<connection>.user=` and"
    " `<connection>.password=`, and the certificates beside it (docs/reference/connections.md); the task then starts by"
    " itself"
)
_TLS = (
    "check sslmode, sslrootcert, sslcert and sslkey of the capture's connection: the CA that signed the server's"
    " certificate, the host name in it, and the client certificate if the server asks for one"
    " (docs/reference/connections.md)"
)
_TLS_REFUSED = (
    "insecure transport",
    "no encryption",
    "PKIX path",
    "CertificateException",
    "SSLHandshakeException",
    "hostname verification failed",
    "could not be verified by hostnameverifier",
    "requires a valid client certificate",
)
# What a trace contains → what a person does about it. Texts of Debezium 3.5.0.Final (MariaDB 11.4.5), 3.6.1.Final
# (MySQL 9.7.4) and 3.7.0.Final (PostgreSQL 18.4).
_CURES = (
    (
        "does not hold marker",
        f"if the source was restored, or is another one, {_BEGIN_AGAIN}; if somebody only deleted that row of the"
        f" marker"
        " table, put the row back: its id as said, kind `heartbeat`, payload `{}`",
    ),
    (
        "does not show it yet",
        "once the standby confirms it the capture goes on by itself (PostgreSQL waits for `synchronous_standby_names`,"
        " MariaDB for semi-synchronous replicas with AFTER_SYNC); ten minutes after the marker the place counts as lost"
        f". If the source was restored, {_BEGIN_AGAIN}",
    ),
    ("refuses what the capture asks", "the capture's login needs SELECT on the marker table: docs/reference/grants.md"),
    *((text, _ONBOARD_AGAIN) for text in _PLACE_LOST),
    *((text, _HAND_OVER) for text in _NOT_HANDED_OVER),
    *((text, _TLS) for text in _TLS_REFUSED),
    ("Access denied", "check login, password and grants of the capture's connection"),
    ("Communications link failure", "the source's server is away; the capture goes on by itself when it is back"),
    ("Connection refused", "the source's server is away; the capture goes on by itself when it is back"),
    (
        "RecordTooLargeException",
        "a row is larger than a record of the log may be (32 MiB, as JSON), in values whose size the connector cannot"
        " know before, as arrays: let it become smaller at the source, or park its table. The row is in the"
        f" source's log already: {_BEGIN_AGAIN}",
    ),
    (
        "binlog_row_image was not FULL",
        "a session has set another binlog_row_image. At the place that is named `mariadb-binlog --start-position=…"
        " <file>` shows when it wrote and what: let that job or client leave the setting alone. What it wrote cannot be"
        f" recovered from the log: {_BEGIN_AGAIN}",
    ),
    (
        "binlog_row_metadata was NO_LOG",
        "what was written so is lost to the log: set binlog_row_metadata = FULL, also in the server's option file,"
        f" then {_BEGIN_AGAIN}",
    ),
    (
        "binlog_format was not ROW",
        "let every session write with binlog_format = ROW (a job or a client has set another one); what it may have"
        f" changed in captured tables cannot be recovered from the log: {_BEGIN_AGAIN}",
    ),
    (
        "An XA transaction has changed",
        "let that application commit without XA, or leave the table out of the sync. What is in the source's log"
        f" cannot be carried: {_BEGIN_AGAIN}",
    ),
    (
        "binlog_row_value_options was not empty",
        "a session has set it: let that job or client leave the setting alone. What it wrote cannot be recovered from"
        f" the log: {_BEGIN_AGAIN}",
    ),
    (
        "A statement was not understood",
        "nothing behind it is sent. If the table was altered with sql_log_bin = 0, no alteration may be; if not, send"
        f" us the statement that altered it last. Then {_BEGIN_AGAIN}",
    ),
    (
        "rolled back to a savepoint",
        "nothing behind it is sent. MariaDB writes rows that a savepoint takes back only where their transaction makes"
        " a temporary table or writes to a table without transactions: let that job do it in a smaller transaction, or"
        f" without the savepoint, and name savepoints in ASCII. Then {_BEGIN_AGAIN}",
    ),
    (
        "event of a kind that the connector does not know",
        f"is log_bin_compress on? Set it OFF, also in the server's option file; what was written so is lost to the log:"
        f" {_BEGIN_AGAIN}",
    ),
    ("db history topic or its content is fully or partially missing", f"the schema history was lost: {_BEGIN_AGAIN}"),
    ("publication", "the source's owner makes the publication: `seamline grants` prints the statement"),
    ("could not be converted", "a value does not fit its column's type; the trace names table and column"),
)


def short_trace(trace: str) -> str:
    """The lines of a Java trace that say what happened: first line and causes."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line for line in lines[1:] if line.startswith("Caused by:")]
    return " | ".join([*lines[:1], *causes][:_LINES_MAX]) or "no trace"


def has_lost_its_place(trace: str) -> bool:
    """Whether the source's log no longer goes on where the capture stands."""
    return any(text in trace for text in _PLACE_LOST)


def failed_as_it_ended(trace: str) -> bool:
    """Whether a task was ended while it still kept a table's structure (Debezium 3.5.0: its thread writes into the
    schema history after `stop` has closed it). Nothing is lost: it goes on from its place."""
    return "RejectedExecutionException" in trace and "KafkaSchemaHistory" in trace


def known_cure(text: str) -> str:
    """What a person does about it; "" where nothing is known."""
    return next((cure for sign, cure in _CURES if sign in text), "")


def cure_of(trace: str) -> str:
    return known_cure(trace) or "the whole trace is in Connect's log; the capture keeps its place"
