"""What another process asks of a database that has a JDBC driver: one JSON object a line by standard input.

| asked | answered |
|---|---|
| `{"open": {"url", "driver", "login", "password"}}` | `{"ok": {"product", "is_serializable", "quote"}}` |
| `{"tables": <schema>}` | `{"ok": [<name>]}` |
| `{"columns": [<schema>, <table>]}` | `{"ok": {"columns": [...], "key": [...]}}` |
| `{"begin": <query>}` | `{"ok": null}`: the snapshot stands |
| `{"read": <query>}` | `{"ok": null}`, a stream of Arrow with the rows, `{"ok": <their number>}` |

`{"error": <text>, "state": <SQLSTATE or null>}` where it failed; also behind a stream, which ends early then. A stream
of Arrow that is cut off between two batches is as good as a whole one, so the number behind it says that it is whole.
Values of the connection come by that input alone; none of them is printed.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import IO, Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

from seamline import settings
from seamline.domain.errors import SeamlineError
from seamline_spark.jdbc.database import Database


def main() -> int:
    # Java prints where it likes: only what is answered goes to whoever asks.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        database: Database | None = None
        try:
            for line in sys.stdin:
                database = _answer(json.loads(line), database, answers)
                answers.flush()
        finally:
            if database is not None:
                database.close()
    return 0


def _answer(asked: Mapping[str, Any], database: Database | None, answers: IO[bytes]) -> Database | None:
    ((what, about),) = asked.items()
    try:
        if what == "open":
            database = _opened(about)
            _say(answers, ok=database.facts())
        elif database is None:
            _say(answers, error="no database is open")
        elif what == "read":
            _stream(database, about, answers)
        else:
            _say(answers, ok=_QUESTIONS[what](database, about))
    except (Py4JError, SeamlineError, ValueError) as exc:
        _say(answers, error=_in_words(exc), state=_state(exc))
    return database


_QUESTIONS: Mapping[str, Callable[[Database, Any], Any]] = {
    "tables": lambda database, schema: database.tables(schema),
    "columns": lambda database, at: {"columns": database.columns(*at), "key": database.key(*at)},
    "begin": lambda database, query: database.begin(query),
}


def _opened(known: Mapping[str, str]) -> Database:
    return Database(
        known["url"],
        driver=known["driver"],
        login=known["login"],
        password=known["password"],
        jars=sorted(settings.load().jdbc_drivers.glob("*.jar")),
    )


def _stream(database: Database, query: str, answers: IO[bytes]) -> None:
    batches = database.batches(query)
    first = next(batches)
    _say(answers, ok=None)
    rows = first.num_rows
    with pa.ipc.new_stream(answers, first.schema) as stream:
        stream.write_batch(first)
        for batch in batches:
            stream.write_batch(batch)
            rows += batch.num_rows
    _say(answers, ok=rows)


def _say(answers: IO[bytes], **said: Any) -> None:
    answers.write(json.dumps(said).encode() + b"\n")


def _state(exc: Exception) -> str | None:
    """Of an error of a driver its SQLSTATE."""
    if not isinstance(exc, Py4JJavaError):
        return None
    try:
        return str(exc.java_exception.getSQLState())
    except Py4JError:
        return None


def _in_words(exc: Exception) -> str:
    """Of an error of Java its own words, without the frames."""
    if isinstance(exc, Py4JJavaError):
        cause = exc.java_exception
        return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    return str(exc)
