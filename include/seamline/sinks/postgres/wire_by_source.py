"""The wire forms by the kind of the source."""

from collections.abc import Mapping

from seamline.sinks.postgres.wire import WireForms
from seamline.sinks.postgres.wire_mariadb import MARIADB
from seamline.sinks.postgres.wire_postgres import POSTGRES

# Of a binlog both connectors give the same forms.
WIRE_FORMS: Mapping[str, WireForms] = {"mariadb": MARIADB, "mysql": MARIADB, "postgres": POSTGRES}
