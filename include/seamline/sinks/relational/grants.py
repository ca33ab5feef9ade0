"""The statements that the owner of a server runs once for a destination: a login that publishes and one that writes,
with the least that each needs."""

from collections.abc import Iterator

from seamline.databases.mysql.canonical import quoted
from seamline.kinds.logins import DestinationLogins

ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
STAGES = "CREATE TEMPORARY TABLES"
# Cuts: readers have views of them; before one is dropped it is asked whether somebody reads it.
_CUTS = ("CREATE VIEW", "SHOW VIEW", "LOCK TABLES")
# As `sync.certify` calls its databases.
_CERTIFICATE = "seamline_certify"
PUBLISHES = (*ROWS, "CREATE", "DROP", "ALTER", "INDEX", STAGES, *_CUTS)


def grant_script(database: str, *, logins: DestinationLogins, server: str) -> str:
    """The whole script; one login may hold both roles. Passwords are placeholders: they never pass through Seamline."""
    lines = [
        f"-- {server} destination, database {database}. Replace each password; a login that is there keeps its own.",
        *(
            f"CREATE USER IF NOT EXISTS {_account(login)} IDENTIFIED BY '<password of {login}>';"
            for login in dict.fromkeys((logins.publisher, logins.writer))
        ),
    ]
    for why, statements in _parts(database, logins.publisher, logins.writer):
        lines += ["", *(f"-- {line}" for line in why), *(f"{statement};" for statement in statements)]
    return "\n".join([*lines, ""])


def grant_statements(database: str, *, publisher: str, writer: str) -> list[str]:
    """Without the logins. A repeat changes nothing."""
    return [statement for _, statements in _parts(database, publisher, writer) for statement in statements]


def _parts(database: str, publisher: str, writer: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What each part of the script is for, and its statements."""
    rights = ", ".join(PUBLISHES)
    yield (
        (
            f"publisher: it makes {database} and the databases beside it, which all begin with {database}_, and the",
            "tables and views in them; for a certificate, databases that begin with seamline_certify_. It can touch no",
            "other.",
        ),
        (
            f"GRANT {rights} ON {_pattern(database)}.* TO {_account(publisher)}",
            f"GRANT {rights} ON {_pattern(database, any_behind='_')}.* TO {_account(publisher)}",
            f"GRANT {rights} ON {_pattern(_CERTIFICATE, any_behind='_')}.* TO {_account(publisher)}",
        ),
    )
    if publisher == writer:
        return
    rows, login = ", ".join(ROWS), _account(writer)
    yield (
        ("writer: rows of live tables, of the ledger, and of tables on their way into a stream; it makes no table but",
         "temporary ones, in which a span is staged."),
        (
            f"GRANT {rows} ON {_pattern(database)}.* TO {login}",
            f"GRANT {rows} ON {_pattern(database, any_behind='_incremental_')}.* TO {login}",
            f"GRANT {rows}, {STAGES} ON {_pattern(f'{database}_seamline')}.* TO {login}",
            f"GRANT {rows}, {STAGES} ON {_pattern(_CERTIFICATE, any_behind='_')}.* TO {login}",
        ),
    )  # fmt: skip


def _pattern(database: str, *, any_behind: str = "") -> str:
    """In a grant on a database `_` and `%` are wild unless escaped. `any_behind`: whatever begins so."""
    name = f"{database}{any_behind}".replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")
    return quoted(f"{name}%" if any_behind else name)


def _account(login: str) -> str:
    return "'" + login.replace("\\", "\\\\").replace("'", "''") + "'@'%'"
