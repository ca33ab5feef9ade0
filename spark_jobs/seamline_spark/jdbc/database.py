"""One session of a database by its JDBC driver, in a JVM of its own, read by Spark's JDBC reader.

Spark's own source of DataFrames opens a session for each partition, and these stand in transactions of their own. Here
its conversion of rows is given the one session that holds the snapshot; no Spark application is started.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

_LOGIN_TIMEOUT_S = 30
# java.sql.Connection.TRANSACTION_SERIALIZABLE
_SERIALIZABLE = 8
_ROWS_PER_BATCH = 20_000
_FETCHED_AT_ONCE = 5_000
# Of Spark's own methods.
_NULLABLE_AS_SAID, _WITHOUT_ZONE, _NAMES_ONCE, _LARGE = False, True, True, False
_SQL = "org.apache.spark.sql.execution"


class Database:
    def __init__(self, url: str, *, driver: str, login: str, password: str, jars: Sequence[Path]) -> None:
        conf = SparkConf(loadDefaults=False).setMaster("local[1]").set("spark.driver.memory", "512m")
        conf.set("spark.driver.extraClassPath", ":".join(map(str, jars)))
        # Else a moment without a zone is read as one of this machine's zone, and its clock has hours that are missing.
        conf.set("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        self._gateway = launch_gateway(conf)
        self._jvm: Any = self._gateway.jvm
        self._jvm.java.lang.Class.forName(driver)
        said = self._jvm.java.util.Properties()
        said.setProperty("user", login)
        said.setProperty("password", password)
        self._jvm.java.sql.DriverManager.setLoginTimeout(_LOGIN_TIMEOUT_S)
        self._url = url
        self._session = self._jvm.java.sql.DriverManager.getConnection(url, said)

    def facts(self) -> Mapping[str, Any]:
        about = self._session.getMetaData()
        return {
            "product": f"{about.getDatabaseProductName()} {about.getDatabaseProductVersion()}",
            "is_serializable": bool(about.supportsTransactionIsolationLevel(_SERIALIZABLE)),
            "quote": str(about.getIdentifierQuoteString()).strip(),
        }

    def tables(self, schema: str) -> list[str]:
        """Those of a schema, by the driver's metadata, views left out."""
        wanted = self._gateway.new_array(self._jvm.java.lang.String, 2)
        wanted[0], wanted[1] = "TABLE", "BASE TABLE"
        found = self._session.getMetaData().getTables(None, _pattern(self._session, schema), "%", wanted)
        return [row["TABLE_NAME"] for row in _rows(found, texts=["TABLE_NAME"])]

    def columns(self, schema: str, table: str) -> list[Mapping[str, Any]]:
        where = (None, _pattern(self._session, schema), _pattern(self._session, table), "%")
        found = self._session.getMetaData().getColumns(*where)
        numbers = ["DATA_TYPE", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "ORDINAL_POSITION"]
        return _rows(found, texts=["COLUMN_NAME", "TYPE_NAME"], numbers=numbers)

    def key(self, schema: str, table: str) -> list[str]:
        found = _rows(
            self._session.getMetaData().getPrimaryKeys(None, schema, table), texts=["COLUMN_NAME"], numbers=["KEY_SEQ"]
        )
        return [row["COLUMN_NAME"] for row in sorted(found, key=lambda row: row["KEY_SEQ"])]

    def begin(self, first: str) -> None:
        """One serializable transaction that writes nothing; its snapshot stands once the query `first` was answered."""
        self._session.setReadOnly(True)
        self._session.setAutoCommit(False)
        self._session.setTransactionIsolation(_SERIALIZABLE)
        if self._session.getTransactionIsolation() != _SERIALIZABLE:
            raise ValueError("the driver does not keep a session serializable")
        self._session.createStatement().executeQuery(first).close()

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """The rows of a query as Spark converts them; at least one batch, which may be empty."""
        statement = self._session.createStatement()
        try:
            statement.setFetchSize(_FETCHED_AT_ONCE)
            found = statement.executeQuery(query)
            dialect = self._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self._url)
            reader, arrow = (
                self._module(f"{_SQL}.datasources.jdbc.JdbcUtils"),
                self._module(f"{_SQL}.arrow.ArrowConverters"),
            )
            schema = self._jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils.getSchema(
                self._session, found, dialect, _NULLABLE_AS_SAID, _WITHOUT_ZONE
            )
            counted = self._jvm.org.apache.spark.executor.InputMetrics()
            rows = reader.resultSetToSparkInternalRows(found, dialect, schema, counted, self._jvm.scala.Option.empty())
            yield from pa.ipc.open_stream(bytes(arrow.createEmptyArrowBatch(schema, "UTC", _NAMES_ONCE, _LARGE)))
            made = arrow.toBatchWithSchemaIterator(rows, schema, _ROWS_PER_BATCH, -1, "UTC", _NAMES_ONCE, _LARGE)
            while made.hasNext():
                yield from pa.ipc.open_stream(bytes(made.next()))
        finally:
            statement.close()

    def close(self) -> None:
        self._session.rollback()
        self._session.close()
        self._gateway.shutdown()

    def _module(self, name: str) -> Any:
        """A singleton of Scala."""
        return self._jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)


def _pattern(session: Any, name: str) -> str:
    """A name as a pattern of the driver's metadata, in which `_` and `%` are wild."""
    escape = str(session.getMetaData().getSearchStringEscape())
    return "".join(f"{escape}{letter}" if letter in "_%" else letter for letter in name)


def _rows(found: Any, *, texts: Sequence[str], numbers: Sequence[str] = ()) -> list[Mapping[str, Any]]:
    rows = []
    while found.next():
        row: dict[str, Any] = {name: found.getString(name) for name in texts}
        for name in numbers:
            value = found.getInt(name)
            row[name] = None if found.wasNull() else int(value)
        rows.append(row)
    found.close()
    return rows
