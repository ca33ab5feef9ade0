"""One MySQL session inside a consistent snapshot, as a ReadView."""

from seamline.databases.mysql.canonical import MYSQL
from seamline.databases.mysql.read import BinlogReadView


class MySqlReadView(BinlogReadView):
    dialect = MYSQL
