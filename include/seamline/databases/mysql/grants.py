"""Names in the statements that the owner of a database runs, and these statements one by one."""

from seamline.databases.mysql.canonical import quoted


def account(login: str) -> str:
    """A login from anywhere, as a statement names it."""
    return "'" + login.replace("\\", "\\\\").replace("'", "''") + "'@'%'"


def database_pattern(database: str) -> str:
    """In a grant on a database `_` and `%` are wild unless escaped."""
    return quoted(database.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%"))


def statements_of(script: str) -> list[str]:
    """What a client executes one after the other; comments stand in lines of their own."""
    lines = (line for line in f"{script}\n".splitlines(keepends=True) if not line.startswith("--"))
    return [statement for part in "".join(lines).split(";\n") if (statement := part.strip())]
