"""The statements that the owner of a PostgreSQL destination runs once: a role that writes, with the least it needs."""

from seamline.adapters.postgres.canonical import quoted, text_literal

WRITER = "seamline_writer"


def grant_script(database: str, *, login: str = WRITER) -> str:
    """The whole script. The password is a placeholder: it never passes through Seamline."""
    return "\n".join(
        [
            f"-- PostgreSQL destination, database {database}, run in that database. Replace the password.",
            "-- A role is made by one with CREATEROLE; the rest takes the owner of the database.",
            f"CREATE ROLE {quoted(login)} LOGIN PASSWORD {text_literal(f'<password of {login}>')};",
            "",
            "-- writer: it makes the schemas of its destination and `seamline`, owns what is in them, and can touch",
            "-- nothing that others own. A span is staged in temporary tables.",
            *(f"{statement};" for statement in grant_statements(database, login)),
            "",
        ]
    )


def grant_statements(database: str, login: str) -> list[str]:
    return [f"GRANT CONNECT, TEMPORARY, CREATE ON DATABASE {quoted(database)} TO {quoted(login)}"]
