"""How SQLAlchemy, and with it Great Expectations, finds the rows of a database."""

from sqlalchemy import URL

from seamline.adapters.connections import Connection, resolve
from seamline.adapters.tls import tls_of
from seamline.plan.model import DestinationPlan


def rows_url(destination: DestinationPlan, database: str) -> str:
    return url_of(resolve(destination.connection), database)


def url_of(connection: Connection, database: str) -> str:
    url = URL.create(
        "mysql+pymysql",
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host,
        port=connection.port,
        database=database,
        query={"charset": "utf8mb4", **_tls(connection)},
    )
    return url.render_as_string(hide_password=False)


def _tls(connection: Connection) -> dict[str, str]:
    """In SQLAlchemy's words for PyMySQL, which encrypts by itself where the server offers it and nothing was said."""
    tls = tls_of(connection)
    if not tls.is_encrypted:
        return {"ssl_disabled": "true"} if tls.mode else {}
    named = {"ssl_ca": tls.ca, "ssl_cert": tls.certificate, "ssl_key": tls.key}
    checks_name = "true" if tls.mode == "verify-full" else "false"
    return {"ssl_check_hostname": checks_name, **{name: file for name, file in named.items() if file}}
