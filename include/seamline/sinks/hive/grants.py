"""The statements that the owner of the database of the cuts' rows runs once."""

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.roles import made_login
from seamline.kinds.logins import DestinationLogins


def grant_script(database: str, *, logins: DestinationLogins) -> str:
    """The password is a placeholder: it never passes through Seamline."""
    login = logins.publisher
    lines = [
        f"-- Rows of the cuts of Hive tables, PostgreSQL database {database}, run in that database.",
        "-- A role is made by one with CREATEROLE; one that is there keeps its password. The rest takes the owner.",
        made_login(login),
        *(f"{statement};" for statement in grant_statements(database, login=login)),
        "-- It needs no right on the metastore's own tables: the service is asked for them. Seamline's processes write",
        "-- into the warehouse's folder, which the metastore must see under the same path.",
    ]
    return "\n".join([*lines, ""])


def grant_statements(database: str, *, login: str) -> list[str]:
    """Without the role; to be run in that database. A repeat changes nothing."""
    return [f"GRANT CONNECT, CREATE ON DATABASE {quoted(database)} TO {quoted(login)}"]
