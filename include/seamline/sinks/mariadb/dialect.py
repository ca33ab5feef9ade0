"""What of the shared code is MariaDB's own (11.4.5)."""

from seamline.sinks.relational.dialect import Dialect

MARIADB = Dialect(
    server="MariaDB",
    collation="utf8mb4_nopad_bin",
    uuid="uuid",
    settings=(
        # A worker that stands still inside a transaction must not hold its locks for longer.
        "SET SESSION idle_transaction_timeout = 15, SESSION max_statement_time = 0",
        # Copies of a row are counted by a recursion, which the server else ends after 1,000.
        "SET SESSION max_recursive_iterations = 4294967295",
    ),
    decimal_scale_max=38,
)
