"""A table copied from MariaDB to PostgreSQL: the ways beside Seamline's own."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace

from bench.copied_table import (
    NAME,
    TABLE,
    Bench,
    Case,
    JdbcTable,
    by_seamline,
    copy_by_spark_jdbc,
    of_rows,
    source_plan,
    spark_session,
)
from seamline import settings
from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import quoted
from seamline.kinds.bulk import StagedPlace
from seamline.plan.model import DestinationPlan, SyncPlan, TablePlan
from seamline.sinks.postgres.staging import build_index
from seamline.sources.mariadb.catalogue import read_catalogue
from seamline.sources.mariadb.sessions import open_session as open_source_session
from seamline.stack.layout import Layout
from seamline.stack.postgres import binaries
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import known_by_id

SOURCE = replace(source_plan("mariadb"), snapshot_lock="brief")
DESTINATION = DestinationPlan("warehouse", "postgres", f"{NAME}_warehouse", "bench")
GOALS = {"text pipe": 1.2, "spark jdbc, tuned": 3.0}
DDL = """
CREATE TABLE entry (
  id BIGINT NOT NULL PRIMARY KEY, account_id INT NOT NULL, status_code SMALLINT NOT NULL, currency CHAR(3) NOT NULL,
  amount DECIMAL(18,4) NOT NULL, fee DECIMAL(12,4) NULL, merchant VARCHAR(60) NULL, rate DOUBLE NULL,
  booked_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), value_date DATE NULL, reference VARCHAR(40) NULL,
  note TEXT NULL, flag TINYINT NOT NULL, updated_at DATETIME(6) NULL)
"""
FILL = """
INSERT INTO entry SELECT seq, seq * 7919 % 100003, seq % 40, ELT(1 + seq % 3, 'EUR', 'USD', 'CNY'),
  (seq * 104729 % 100000000) / 10000 - 5000, IF(seq % 5, (seq % 997) / 100, NULL),
  IF(seq % 7, CONCAT('Händler ', seq % 5000), NULL), IF(seq % 11, seq / 7e0, NULL),
  '2026-01-01' + INTERVAL seq * 13 SECOND + INTERVAL seq % 1000000 MICROSECOND,
  '2020-01-01' + INTERVAL seq % 2000 DAY, CONCAT('R', LPAD(seq, 12, '0')),
  IF(seq % 3, CONCAT('memo, "quoted" ', seq % 100, ' 工资'), NULL), seq % 2,
  '2026-01-01' + INTERVAL seq * 17 SECOND + INTERVAL seq % 999983 MICROSECOND FROM seq_1_to_{rows}
"""


@contextmanager
def opened(rows: int) -> Iterator[Bench]:
    with (
        mariadb_database(NAME) as source,
        postgres_database(NAME) as destination,
        known_by_id(source, SOURCE.reader, "mysql"),
        known_by_id(destination, DESTINATION.connection, "postgres"),
    ):
        with closing(mariadb(source)) as session, session.cursor() as cursor:
            cursor.execute(DDL)
            cursor.execute(FILL.format(rows=rows))
            cursor.execute("ANALYZE TABLE entry")
        with closing(open_source_session(source)) as session:
            (table,) = read_catalogue(session, source.database, [TABLE])

        def settle() -> None:
            with postgres(resolve("postgres_root")) as session:
                session.execute("CHECKPOINT")

        def drop(place: StagedPlace) -> None:
            with postgres(destination) as session:
                session.execute(f"DROP TABLE {quoted(place.schema)}.{quoted(place.name)}".encode())

        plan = SyncPlan(NAME, SOURCE, (DESTINATION,), (TablePlan(TABLE, table=table),))
        spark = spark_session()
        try:
            yield Bench(spark, plan, source, destination, rows, CASES, GOALS, settle, drop)
        finally:
            spark.stop()


def by_text_pipe(bench: Bench) -> StagedPlace:
    place = bench.empty_place()
    layout = Layout(settings.load())
    names = ", ".join(column.name for column in bench.table.columns)
    source, destination = bench.source, bench.destination
    reader = subprocess.Popen(
        [
            str(layout.mariadb_server / "bin" / "mariadb"), "--no-defaults", f"-h{source.host}", f"-P{source.port}",
            f"-u{source.login}", "--default-character-set=utf8mb4", "--quick", "-BN", source.database,
            "-e", f"SET time_zone = '+00:00'; SELECT {names} FROM entry",
        ],
        stdout=subprocess.PIPE,
        env={**settings.process_environment(), "MYSQL_PWD": source.password},
    )  # fmt: skip
    subprocess.run(
        [
            str(binaries() / "psql"), "-q", "-h", destination.host, "-p", str(destination.port), "-U",
            destination.login, "-d", destination.database, "-v", "ON_ERROR_STOP=1", "-c",
            f"COPY {quoted(place.schema)}.{quoted(place.name)} ({names}) FROM STDIN (NULL 'NULL')",
        ],
        stdin=reader.stdout,
        env={**settings.process_environment(), "PGPASSWORD": destination.password, "PGTZ": "UTC"},
        check=True,
    )  # fmt: skip
    if reader.wait() != 0:
        raise RuntimeError("the mariadb client failed")
    build_index(bench.destination, place)
    return place


def by_spark_jdbc(bench: Bench) -> StagedPlace:
    return _by_spark_jdbc(bench, reading={}, writing={}, rewrite="false")


def by_tuned_spark_jdbc(bench: Bench) -> StagedPlace:
    return _by_spark_jdbc(bench, reading=of_rows(bench), writing={"batchsize": "10000"}, rewrite="true")


def _by_spark_jdbc(
    bench: Bench, *, reading: Mapping[str, str], writing: Mapping[str, str], rewrite: str
) -> StagedPlace:
    place = bench.empty_place()
    source, destination = bench.source, bench.destination
    # `jdbc:mysql` is what Spark's dialect knows; the driver takes it with a setting.
    url = (
        f"jdbc:mysql://{source.host}:{source.port}/{source.database}?permitMysqlScheme&tinyInt1isBit=false&timezone=UTC"
    )
    into = (
        f"jdbc:postgresql://{destination.host}:{destination.port}/{destination.database}"
        f"?reWriteBatchedInserts={rewrite}"
    )
    copy_by_spark_jdbc(
        bench.spark,
        JdbcTable(source, "org.mariadb.jdbc.Driver", url, TABLE, reading),
        JdbcTable(destination, "org.postgresql.Driver", into, f"{place.schema}.{quoted(place.name)}", writing),
    )
    build_index(bench.destination, place)
    return place


CASES: Mapping[str, Case] = {
    "seamline": by_seamline,
    "text pipe": by_text_pipe,
    "spark jdbc, tuned": by_tuned_spark_jdbc,
    "spark jdbc": by_spark_jdbc,
}
