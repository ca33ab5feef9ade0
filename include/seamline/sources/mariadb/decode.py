"""Records of Debezium's MariaDB connector → LogRecord."""

import re
from functools import lru_cache

from seamline.databases.mysql.binlog_decoder import BinlogDecoder
from seamline.domain.position import Position
from seamline.sources.mariadb.position import BinlogPosition

_GTID = re.compile(r"\d+-\d+-\d+")


# A transaction is named three times: by its BEGIN, its END, and the BEGIN that follows.
@lru_cache(maxsize=16)
def _position_of(transaction: str) -> BinlogPosition | None:
    return BinlogPosition(transaction) if _GTID.fullmatch(transaction) else None


class MariaDbDecoder(BinlogDecoder):
    """Records of Debezium's MariaDB connector 3.5.0.Final."""

    server = "MariaDB"

    @staticmethod
    def position_of(transaction: str) -> Position | None:
        return _position_of(transaction)

    @staticmethod
    def position_at(gtid: str, file: str, offset: int) -> Position:
        return BinlogPosition(gtid, file, offset)
