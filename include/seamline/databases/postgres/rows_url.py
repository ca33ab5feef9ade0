"""How SQLAlchemy, and with it Great Expectations, finds the rows of a schema."""

from sqlalchemy import URL

from seamline.adapters.connections import Connection, resolve
from seamline.adapters.tls import libpq_tls
from seamline.plan.model import DestinationPlan


def rows_url(destination: DestinationPlan, schema: str) -> str:
    return url_of(resolve(destination.connection), schema)


def url_of(connection: Connection, schema: str) -> str:
    url = URL.create(
        "postgresql+psycopg2",
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host,
        port=connection.port,
        database=connection.database,
        query={"options": f"-csearch_path={schema}", **libpq_tls(connection)},
    )
    return url.render_as_string(hide_password=False)
