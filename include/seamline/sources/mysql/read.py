"""One MySQL session inside a consistent snapshot, as a ReadView."""

from seamline.databases.mysql.read import BinlogReadView
from seamline.sources.mysql.canonical import MYSQL


class MySqlReadView(BinlogReadView):
    dialect = MYSQL
