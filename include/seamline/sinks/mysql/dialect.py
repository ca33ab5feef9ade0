"""What of the shared code is MySQL's own (9.7.4)."""

from typing import TYPE_CHECKING, Any

from seamline.databases.mysql import canonical
from seamline.sinks.relational.dialect import Dialect

if TYPE_CHECKING:
    from seamline.databases.mysql.watched import WatchedSession


def _open_session(*arguments: Any, **options: Any) -> "WatchedSession":
    from seamline.databases.mysql.mysql_client import open_session

    return open_session(*arguments, **options)


MYSQL = Dialect(
    server="MySQL",
    texts=canonical.MYSQL,
    open_session=_open_session,
    # It has no type for it.
    uuid="binary(16)",
    settings=(
        # Sizes of tables are those of now. Of a transaction that stands still the server knows no time-out.
        "SET SESSION max_execution_time = 0, SESSION information_schema_stats_expiry = 0",
        # Copies of a row are counted by a recursion, which the server else ends after 1,000.
        "SET SESSION cte_max_recursion_depth = 4294967295",
    ),
    view_settings=("SET SESSION max_execution_time = 0",),
    decimal_scale_max=30,
)
