"""The statements that the owner of a catalogue's database runs once: a login that publishes and one that writes."""

from collections.abc import Iterator

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.roles import made_login
from seamline.kinds.logins import DestinationLogins

# Where Iceberg's clients look for their catalogue.
ICEBERG_SCHEMA = "public"
_OF_ICEBERG = (
    "-- The publisher makes schema `seamline` and the catalogue's tables, `public.iceberg_tables` and",
    "-- `public.iceberg_namespace_properties`. Where another client has made these, their owner grants on them",
    "-- SELECT, INSERT, UPDATE and DELETE to both logins. Both also need the warehouse's folder for writing.",
)
_OF_OTHERS = ("-- The publisher makes schema `seamline`. Both logins also need the warehouse's folder for writing.",)


def grant_script(database: str, *, logins: DestinationLogins, schema: str = ICEBERG_SCHEMA) -> str:
    """The whole script; one login may hold both roles. Passwords are placeholders: they never pass through Seamline.

    `schema`: where the format's catalogue lies; "" of one that has its tables in `seamline`.
    """
    both = tuple(dict.fromkeys((logins.publisher, logins.writer)))
    lines = [
        f"-- Catalogue of a lake, PostgreSQL database {database}, run in that database. Replace each password.",
        "-- A role is made by one with CREATEROLE; one that is there keeps its password. The rest takes the owner.",
        *map(made_login, both),
        "",
        *(_OF_ICEBERG if schema else _OF_OTHERS),
        *(f"{one};" for one in grant_statements(database, publisher=both[0], writer=both[-1], schema=schema)),
    ]
    return "\n".join([*lines, ""])


def grant_statements(database: str, *, publisher: str, writer: str, schema: str = ICEBERG_SCHEMA) -> list[str]:
    """Without the roles; to be run in that database. A repeat changes nothing."""
    return list(_statements(database, publisher, writer, schema))


def _statements(database: str, publisher: str, writer: str, schema: str) -> Iterator[str]:
    yield f"GRANT CONNECT, CREATE ON DATABASE {quoted(database)} TO {quoted(publisher)}"
    if schema:
        yield f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {quoted(publisher)}"
    if writer == publisher:
        return
    yield f"GRANT CONNECT ON DATABASE {quoted(database)} TO {quoted(writer)}"
    if schema:
        yield f"GRANT USAGE ON SCHEMA {schema} TO {quoted(writer)}"
    from_now_on = f"ALTER DEFAULT PRIVILEGES FOR ROLE {quoted(publisher)}"
    yield f"{from_now_on} GRANT USAGE ON SCHEMAS TO {quoted(writer)}"
    yield f"{from_now_on} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {quoted(writer)}"
