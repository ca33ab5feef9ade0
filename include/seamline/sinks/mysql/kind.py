"""MySQL as a destination."""

from typing import TYPE_CHECKING, ClassVar

from seamline.kinds.sink import SinkKind
from seamline.sinks.mysql.dialect import MYSQL
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.kind import RelationalKind

if TYPE_CHECKING:
    from seamline.spec.destination import Destination


class MySql(RelationalKind):
    name: ClassVar[str] = "mysql"
    dialect: ClassVar[Dialect] = MYSQL

    def spec(self) -> "type[Destination]":
        from seamline.sinks.mysql.spec import MySqlDestination

        return MySqlDestination


KIND: SinkKind = MySql()
