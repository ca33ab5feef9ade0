"""A session of a database by JDBC, held by a process of its own with a JVM (`spark_jobs/jdbc_reader.py`)."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

import pyarrow as pa

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, InvariantViolated, Refused, TransientError

_JOB = "spark_jobs/jdbc_reader.py"
_ENDS_WITHIN_S = 20
_SHOWN_LINES = 5
# The class of SQLSTATE that the standard has for a login that is refused.
_NOT_LET_IN = "28"
# By these a Python process finds the JVM of the application that has started it; this one has its own.
_OF_ANOTHER_JVM = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYSPARK_SUBMIT_ARGS", "SPARK_ENV_LOADED")


def no_serializable(product: str) -> str:
    """Why such a database cannot be read, for people."""
    return f"{product} has no serializable transactions by its driver: no read would be one moment"


class JdbcSession:
    """`product`: the database and its version, by its driver."""

    def __init__(self, connection: Connection) -> None:
        """ConfigError where the connection or its driver is not usable; TransientError where it does not answer."""
        if not connection.extra.get("driver_class"):
            raise ConfigError(
                f"connection `{connection.connection_id}` names no driver",
                hint='add "driver_class" to its extra, and put the driver\'s jar into SEAMLINE_JDBC_DRIVERS',
            )
        known = settings.load()
        environment = settings.process_environment()
        for name in _OF_ANOTHER_JVM:
            environment.pop(name, None)
        self._connection = connection
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the session
        self._process = subprocess.Popen(
            [sys.executable, str(known.root / _JOB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=environment,
        )
        self._unread: Iterator[pa.RecordBatch] | None = None
        try:
            # By its pipe alone: the connection may not be stored anywhere yet.
            facts = self.ask(
                "open",
                {
                    "url": connection.host,
                    "driver": connection.extra["driver_class"],
                    "login": connection.login,
                    "password": connection.password,
                },
            )
        except BaseException:
            self.close()
            raise
        self.product, self.quote = str(facts["product"]), str(facts["quote"] or '"')
        self.is_serializable = bool(facts["is_serializable"])

    def ask(self, what: str, about: Any) -> Any:
        """TransientError with the driver's words; ConfigError where these are that no such login is let in."""
        unread, self._unread = self._unread, None
        for _ in unread or ():
            pass
        asking, answers = self._pipes()
        with suppress(OSError):
            asking.write(json.dumps({what: about}).encode() + b"\n")
            asking.flush()
        return self._answer(answers)

    def _answer(self, answers: IO[bytes]) -> Any:
        try:
            line = answers.readline()
        except OSError:
            line = b""
        if not line:
            raise self._lost()
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise self._refused(str(answer["error"]), str(answer.get("state") or ""))
        return answer["ok"]

    def begin(self, first: str) -> None:
        """One transaction for all that is read from now on."""
        if not self.is_serializable:
            raise Refused(
                no_serializable(self.product),
                hint="use another driver, or read a copy of the database that nobody writes to",
            )
        self.ask("begin", first)

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """The rows as Spark converts them. What was left of another query is passed over: InvariantViolated where
        somebody still wants it."""
        self.ask("read", query)
        _, answers = self._pipes()
        self._unread = mine = self._stream(answers)
        # By hand: who ends this early must not end the stream, whose rest is still to be read.
        while True:
            if self._unread is not mine:
                raise InvariantViolated(f"a read of {self.product} was given up for another one, and is read on")
            batch = next(mine, None)
            if batch is None:
                return
            yield batch

    def _stream(self, answers: IO[bytes]) -> Iterator[pa.RecordBatch]:
        """TransientError: it is not whole. By Arrow's own rules one that is cut off between two batches is."""
        rows = 0
        try:
            with pa.ipc.open_stream(answers) as stream:
                for batch in stream:
                    rows += batch.num_rows
                    yield batch
        except (OSError, pa.ArrowInvalid) as exc:
            raise self._lost() from exc
        if self._answer(answers) != rows:
            raise self._lost()

    def close(self) -> None:
        """Ends the transaction, and the process."""
        with suppress(OSError):
            self._pipes()[0].close()
        # What nobody reads any more would keep it writing.
        with suppress(OSError):
            self._pipes()[1].close()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def _refused(self, said: str, state: str) -> Exception:
        name = self._connection.connection_id
        if self._connection.password:
            # A driver may quote the URL.
            said = said.replace(self._connection.password, "…")
        if "ClassNotFoundException" in said:
            where = settings.load().jdbc_drivers
            driver = self._connection.extra["driver_class"]
            return ConfigError(
                f"connection `{name}`: no jar in {where} has {driver}", hint="put the driver's jar there"
            )
        if state.startswith(_NOT_LET_IN):
            return ConfigError(
                f"connection `{name}`: the database refuses its login: {said}", hint="check login and password"
            )
        return TransientError(
            f"connection `{name}`: {said}", hint="is the server up, and may this login read the tables?"
        )

    def _lost(self) -> TransientError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)
        self._said.seek(0)
        last = self._said.read().decode(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
        return TransientError(
            f"the JVM that reads connection `{self._connection.connection_id}` has ended: {'; '.join(last)}",
            hint="is a Java there for Spark? The next attempt reads again",
        )
