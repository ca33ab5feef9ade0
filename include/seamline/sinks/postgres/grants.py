"""The statements that the owner of a PostgreSQL destination runs once: a login that publishes and one that writes, with
the least that each needs."""

from collections.abc import Iterator

from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.databases.postgres.roles import made_login
from seamline.kinds.logins import DestinationLogins

ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def grant_script(database: str, *, logins: DestinationLogins) -> str:
    """The whole script; one login may hold both roles. Passwords are placeholders: they never pass through Seamline."""
    lines = [
        f"-- PostgreSQL destination, database {database}, run in that database. Replace each password.",
        "-- A role is made by one with CREATEROLE; one that is there keeps its password. The rest takes the owner.",
    ]
    lines += map(made_login, dict.fromkeys((logins.publisher, logins.writer)))
    for why, statements in _parts(database, logins.publisher, logins.writer):
        lines += ["", *(f"-- {line}" for line in why), *(f"{statement};" for statement in statements)]
    return "\n".join([*lines, ""])


def grant_statements(database: str, *, publisher: str, writer: str) -> list[str]:
    """Without the roles; to be run in that database. A repeat changes nothing."""
    return [statement for _, statements in _parts(database, publisher, writer) for statement in statements]


def _parts(database: str, publisher: str, writer: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What each part of the script is for, and its statements."""
    place = f"DATABASE {quoted(database)}"
    makes = "it makes the schemas of its destination and `seamline`, owns what is in them, and can touch"
    if publisher == writer:
        yield (
            (f"publisher and writer: {makes}", "nothing that others own. A span is staged in temporary tables."),
            (f"GRANT CONNECT, TEMPORARY, CREATE ON {place} TO {quoted(publisher)}",),
        )
        return
    yield (
        (f"publisher: {makes}", "nothing that others own."),
        (f"GRANT CONNECT, CREATE ON {place} TO {quoted(publisher)}",),
    )
    yield (
        ("writer: it makes no table but temporary ones, in which a span is staged.",),
        (f"GRANT CONNECT, TEMPORARY ON {place} TO {quoted(writer)}",),
    )
    from_now_on = f"ALTER DEFAULT PRIVILEGES FOR ROLE {quoted(publisher)}"
    yield (
        (
            "The rows of what the publisher makes from now on, and of what it has made already, are the writer's too.",
            f"This takes a superuser, or a member of the publisher: GRANT {quoted(publisher)} TO CURRENT_USER;",
        ),
        (
            f"{from_now_on}\n  GRANT USAGE ON SCHEMAS TO {quoted(writer)}",
            f"{from_now_on}\n  GRANT {', '.join(ROWS)} ON TABLES TO {quoted(writer)}",
            _on_what_is_there(publisher, writer),
        ),
    )


def _on_what_is_there(publisher: str, writer: str) -> str:
    owner = f"{text_literal(quoted(publisher))}::regrole"
    return f"""DO $$
DECLARE given text;
BEGIN
  FOR given IN
    SELECT format('USAGE ON SCHEMA %I', nspname) FROM pg_namespace WHERE nspowner = {owner}
    UNION ALL
    SELECT format('{", ".join(ROWS)} ON %s', oid::regclass) FROM pg_class
      WHERE relowner = {owner} AND relkind IN ('r', 'p', 'v') AND relpersistence <> 't'
  LOOP
    EXECUTE format('GRANT %s TO %I', given, {text_literal(writer)});
  END LOOP;
END $$"""
