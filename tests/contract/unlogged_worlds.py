"""Sources without a log that the source suite runs over: files that somebody delivers, and databases by a driver."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from seamline import settings
from seamline.domain.catalogue import Column, Kind, Table
from seamline.kinds.found import source_kind
from seamline.plan.model import SourcePlan
from seamline.sources.files.spec import FilesSource
from seamline.values.build import batch_of
from seamline.values.special import special_mask
from tests import jdbc_server
from tests.contract.every_kind import VALUES
from tests.contract.file_places import folder_place
from tests.contract.files_world import Night
from tests.contract.source_worlds import KEY, SourceWorld, rows_of_edges

_NUMBER = {name: Column(name, Kind.INTEGER, "int", length=32) for name in ("account", "amount", "balance")}
_ACCOUNT = Table("account", (KEY, _NUMBER["balance"]), ("id",))
_AUDIT = Table("audit", (_NUMBER["account"], _NUMBER["amount"]))
_FIRST_DAY = date(2026, 1, 1)


class FilesSourceWorld:
    """Each transfer is delivered with all that was before it, as the files of the next date."""

    def __init__(self, folder: Path, form: str) -> None:
        self.kind = source_kind("files")
        place = folder_place(str(folder / "outgoing"), "", folder / "outgoing")
        plain = {column: [one for one in values if _is_plain(column, one)] for column, values in VALUES.items()}
        self._kinds = Table("kinds", (KEY, *plain), ("id",))
        self._values = rows_of_edges(list(plain.values()))
        self._night = Night(place, folder / "staging", (_ACCOUNT, _AUDIT, self._kinds), format=form)
        declared = FilesSource.model_validate(
            {
                "source": "incoming",
                "kind": "files",
                "location": place.location,
                "delivery": f"{self._night.sync}/{{date}}/v{{version}}",
                "format": form,
            }
        )
        self.plan = SourcePlan("incoming", "files", declared.namespace, "", "", "", "", "", **declared.plan_fields())
        self._amounts: list[int] = []
        self._deliver(_FIRST_DAY)

    def transfer(self, amount: int) -> None:
        self._amounts.append(amount)
        self._deliver(self.business_date + timedelta(1))

    def _deliver(self, day: date) -> None:
        rows = {
            _ACCOUNT: [(1, sum(self._amounts))],
            _AUDIT: [(1, amount) for amount in self._amounts],
            self._kinds: self._values,
        }
        self._night.publish(self._night.cut_of(rows, day=day, run=f"night/{day}"))
        self.business_date = day

    def task_pool(self) -> Executor:
        return ThreadPoolExecutor(1)

    def values(self) -> Sequence[tuple[Any, ...]]:
        return self._values


def _is_plain(column: Column, value: Any) -> bool:
    """Infinities and years that no file has are refused by name, which is tested elsewhere."""
    return not special_mask(column, batch_of(Table("t", (column,)), [(value,)]).column(0)).true_count


@contextmanager
def _files_world(form: str) -> Iterator[SourceWorld]:
    with TemporaryDirectory() as folder:
        for place in ("outgoing", "staging"):
            (Path(folder) / place).mkdir()
        yield FilesSourceWorld(Path(folder), form)


def parquet_world(name: str) -> AbstractContextManager[SourceWorld]:  # noqa: ARG001
    return _files_world("parquet")


def csv_world(name: str) -> AbstractContextManager[SourceWorld]:  # noqa: ARG001
    return _files_world("csv")


_MOMENT = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
# Type of a column, and pairs: how a value is written in SQL, and what it is.
_JDBC: dict[str, list[tuple[str, Any]]] = {
    "SMALLINT": [("-32768", -(2**15)), ("32767", 2**15 - 1)],
    "INT": [("-2147483648", -(2**31)), ("0", 0)],
    "BIGINT": [("9223372036854775807", 2**63 - 1)],
    "DECIMAL(38,6)": [("12345678901234567890123456789012.123456",) * 2, ("-0.000001",) * 2],
    "DECIMAL(18,0)": [("-999999999999999999",) * 2, ("0", "0")],
    "DOUBLE PRECISION": [("1.5", 1.5), ("0.1E0", 0.1), ("-1.7976931348623157E308", -1.7976931348623157e308)],
    "BOOLEAN": [("TRUE", True), ("FALSE", False)],
    "CHAR(5)": [("'ab'", "ab"), ("'a b c'", "a b c")],
    "VARCHAR(200)": [("''", ""), ("'it''s \\N , \"|'", "it's \\N , \"|"), ("'余额😀'", "余额😀"), ("' a '", " a ")],
    "VARBINARY(20)": [("X'00FF'", b"\0\xff"), ("X''", b"")],
    "DATE": [("DATE '0001-01-01'", date(1, 1, 1)), ("DATE '1582-10-15'", date(1582, 10, 15))],
    "TIMESTAMP(6)": [
        ("TIMESTAMP '9999-12-31 23:59:59.999999'", _MOMENT.replace(tzinfo=None)),
        ("TIMESTAMP '1969-12-31 23:59:59.999999'", datetime(1969, 12, 31, 23, 59, 59, 999_999)),  # noqa: DTZ001
    ],
    "TIMESTAMP(6) WITH TIME ZONE": [
        ("TIMESTAMP '9999-12-31 23:59:59.999999+0:00'", _MOMENT),
        ("TIMESTAMP '2026-01-01 00:00:00.000001+8:00'", datetime(2025, 12, 31, 16, 0, 0, 1, tzinfo=UTC)),
    ],
}


class JdbcSourceWorld:
    business_date = None

    def __init__(self, server: jdbc_server.JdbcServer, connection: str) -> None:
        self.kind = source_kind("jdbc")
        self.plan = SourcePlan(connection, "jdbc", "bank", connection, "", "", "", "", schema="PUBLIC")
        self._server = server
        columns = ", ".join(f'"c{number}" {of}' for number, of in enumerate(_JDBC))
        self._literals = rows_of_edges([[literal for literal, _ in edges] for edges in _JDBC.values()])
        for statement in (
            'CREATE TABLE "account" ("id" INT PRIMARY KEY, "balance" INT)',
            'CREATE TABLE "audit" ("account" INT, "amount" INT)',
            f'CREATE TABLE "kinds" ("id" INT PRIMARY KEY, {columns})',
            'INSERT INTO "account" VALUES (1, 0)',
            *(f'INSERT INTO "kinds" VALUES ({", ".join(map(_literal, row))})' for row in self._literals),
            f"CREATE USER reader PASSWORD '{jdbc_server.PASSWORD}'",
            *(f'GRANT SELECT ON "{table}" TO reader' for table in ("account", "audit", "kinds")),
            "SET AUTOCOMMIT FALSE",
        ):
            server.execute(statement)

    def transfer(self, amount: int) -> None:
        for statement in (
            f'UPDATE "account" SET "balance" = "balance" + {amount}',
            f'INSERT INTO "audit" VALUES (1, {amount})',
            "COMMIT",
        ):
            self._server.execute(statement)

    def task_pool(self) -> Executor:
        """Nothing runs in it: the one session reads."""
        return ThreadPoolExecutor(1)

    def values(self) -> Sequence[tuple[Any, ...]]:
        kinds = {"CHAR(5)": lambda text: text.ljust(5), "DECIMAL(38,6)": Decimal, "DECIMAL(18,0)": Decimal}
        return rows_of_edges([[kinds.get(of, _same)(value) for _, value in edges] for of, edges in _JDBC.items()])


def _same(value: Any) -> Any:
    return value


def _literal(value: Any) -> str:
    return "NULL" if value is None else str(value)


@contextmanager
def _jdbc_world(server_kind: str, name: str) -> Iterator[SourceWorld]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory()))
        server = opened.enter_context(jdbc_server.running(settings.load(), server_kind, folder, login="READER"))
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        patch.setenv(f"SEAMLINE_CONNECTION_{name.upper()}", server.connection)
        yield JdbcSourceWorld(server, name)


def h2_world(name: str) -> AbstractContextManager[SourceWorld]:
    return _jdbc_world("h2", name)


def hsqldb_world(name: str) -> AbstractContextManager[SourceWorld]:
    return _jdbc_world("hsqldb", name)
