"""Sessions of MySQL from a connection, and its errors as Seamline's."""

from seamline.databases.mysql import canonical
from seamline.databases.mysql.client import LOGIN, LOST, RETRY, Server
from seamline.databases.mysql.watched import WatchedSession

# PyMySQL has no names for these: max_execution_time is over; the server has ended an idle session (wait_timeout).
_QUERY_TIMEOUT, _IDLE_TIMEOUT = 3024, 4031
# An account that is locked, and one whose password has to be changed before anything else.
_ACCOUNT = {3118, 1820, 1862}


class MySqlSession(WatchedSession):
    server = "MySQL"
    doing = "SELECT command, state FROM performance_schema.processlist WHERE id = %s"


MYSQL = Server(
    MySqlSession,
    canonical.MYSQL,
    # As for MariaDB; and information_schema shows a primary key that the server has made by itself.
    settings="SET time_zone = '+00:00', sql_quote_show_create = 1,"
    " show_gipk_in_create_table_and_information_schema = 1,"
    " sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
    # As for MariaDB; sizes of tables are those of now, not of yesterday.
    reading=(
        "SET SESSION transaction_isolation = 'REPEATABLE-READ', SESSION optimizer_switch = 'derived_merge=off',"
        " SESSION wait_timeout = 28800, SESSION net_write_timeout = 3600, SESSION max_execution_time = 0,"
        " SESSION lock_wait_timeout = 30, SESSION information_schema_stats_expiry = 0,"
        " SESSION tmp_table_size = 134217728, SESSION max_heap_table_size = 134217728",
    ),
    lost=LOST | {_IDLE_TIMEOUT},
    retry=RETRY | {_QUERY_TIMEOUT},
    login=LOGIN | _ACCOUNT,
    login_cure="; of an account that is locked or expired its owner's settings",
)
open_session, translated = MYSQL.open_session, MYSQL.translated
