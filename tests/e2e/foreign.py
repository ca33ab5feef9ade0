"""A database of somebody else's, made for nothing of ours: fifty tables, of which two have neither a key nor a date."""

import psycopg

from seamline import settings
from seamline.adapters import connections

DATABASE, LOGIN = "shop", "shop_reader"
WAREHOUSE, KEEPER = "shop_warehouse", "shop_keeper"
KEYED, KEYLESS = 48, 2
ROWS = 200
_KEYED = """CREATE TABLE part_{n} (id bigint PRIMARY KEY, customer_id bigint NOT NULL, amount numeric(18, 4) NOT NULL,
  currency char(3) NOT NULL, state text, booked_at timestamptz NOT NULL, document jsonb, note varchar(80));
INSERT INTO part_{n} SELECT i, i % 97, i / 7.0, (array['EUR', 'USD', 'CNY'])[i % 3 + 1], 'open',
  now() - i % 10 * interval '1 day', jsonb_build_object('i', i), md5(i::text) FROM generate_series(1, {rows}) i;"""
_KEYLESS = """CREATE TABLE look_{n} (who text, what text);
INSERT INTO look_{n} SELECT 'u' || i % 5, 'look' FROM generate_series(1, {rows}) i;"""


def url(login: str, database: str) -> str:
    return f"postgres://{login}@127.0.0.1:{settings.load().ports.postgres}/{database}"


def make() -> None:
    """By the owners of both databases, who are no concern of Seamline's."""
    run("postgres", f"CREATE ROLE {LOGIN} LOGIN REPLICATION PASSWORD 'pw-{LOGIN}'")
    run("postgres", f"CREATE ROLE {KEEPER} LOGIN PASSWORD 'pw-{KEEPER}'")
    for database in (DATABASE, WAREHOUSE):
        run("postgres", f"CREATE DATABASE {database}")
    run(DATABASE, *(_KEYED.format(n=n, rows=ROWS) for n in range(KEYED)))
    run(DATABASE, *(_KEYLESS.format(n=n, rows=ROWS) for n in range(KEYLESS)))


def run(database: str, *scripts: str) -> None:
    at = connections.resolve("postgres_root")
    with psycopg.connect(
        host=at.host, port=at.port, user=at.login, password=at.password, dbname=database, autocommit=True
    ) as session:
        for script in scripts:
            session.execute(script.encode())
