"""Records of Debezium's MySQL connector → LogRecord. They are those of MariaDB's, but for how transactions are named.

A TRUNCATE and a statement stand alone, outside of BEGIN and END; so does a row of a prepared XA transaction.
"""

from functools import lru_cache

from seamline.databases.mysql.binlog_decoder import BinlogDecoder
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import Position
from seamline.sources.mysql.gtid_set import GtidSet
from seamline.sources.mysql.position import MySqlPosition


# A transaction is named by its BEGIN, its END, the BEGIN that follows and each of its rows.
@lru_cache(maxsize=16)
def _gtid(text: str) -> GtidSet:
    found = GtidSet.parse(text)
    if found.count != 1:
        raise InvariantViolated(f"not the GTID of one transaction: {text!r}")
    return found


class MySqlDecoder(BinlogDecoder):
    """Records of Debezium's MySQL connector 3.6.1.Final."""

    server = "MySQL"

    @staticmethod
    def position_of(transaction: str) -> Position | None:
        try:
            return MySqlPosition(_gtid(transaction))
        except InvariantViolated:
            return None

    @staticmethod
    def position_at(gtid: str, file: str, offset: int) -> Position:
        return MySqlPosition(_gtid(gtid), file, offset)
