"""What of the shared code is MariaDB's own (11.4.5)."""

from typing import TYPE_CHECKING, Any

from seamline.databases.mysql import canonical
from seamline.sinks.relational.dialect import Dialect

if TYPE_CHECKING:
    from seamline.databases.mysql.watched import WatchedSession


def _open_session(*arguments: Any, **options: Any) -> "WatchedSession":
    from seamline.databases.mysql.client import open_session

    return open_session(*arguments, **options)


MARIADB = Dialect(
    server="MariaDB",
    texts=canonical.MARIADB,
    open_session=_open_session,
    uuid="uuid",
    settings=(
        # A worker that stands still inside a transaction must not hold its locks for longer.
        "SET SESSION idle_transaction_timeout = 15, SESSION max_statement_time = 0",
        # Copies of a row are counted by a recursion, which the server else ends after 1,000.
        "SET SESSION max_recursive_iterations = 4294967295",
    ),
    view_settings=("SET SESSION max_statement_time = 0",),
    decimal_scale_max=38,
)
