"""One MariaDB session inside a consistent snapshot, as a ReadView."""

from seamline.databases.mysql.canonical import MARIADB
from seamline.databases.mysql.read import BinlogReadView


class MariaDbReadView(BinlogReadView):
    dialect = MARIADB
