"""MariaDB as a destination."""

from typing import TYPE_CHECKING, ClassVar

from seamline.kinds.sink import SinkKind
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.kind import RelationalKind

if TYPE_CHECKING:
    from seamline.spec.destination import Destination


class MariaDb(RelationalKind):
    name: ClassVar[str] = "mariadb"
    dialect: ClassVar[Dialect] = MARIADB

    def spec(self) -> "type[Destination]":
        from seamline.sinks.mariadb.spec import MariaDbDestination

        return MariaDbDestination


KIND: SinkKind = MariaDb()
