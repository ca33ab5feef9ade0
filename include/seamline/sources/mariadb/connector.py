"""Debezium's MariaDB connector 3.5.0.Final, in our own class."""

from collections.abc import Mapping, Sequence
from typing import Any

from seamline.adapters.connect.endpoint import CaptureEndpoint, Start
from seamline.databases.mysql.connector_settings import binlog_settings
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import Position
from seamline.plan.model import SourcePlan
from seamline.sources.mariadb.position import BinlogPosition

_TLS_MODES = {"": "disable", "disable": "disable", "require": "trust"}


class MariaDbConnector:
    """`kinds.source.ConnectorKind`."""

    plugin = "seamline.connect.MariaDbConnector"
    # Older ones lose rows.
    tested_versions = ("3.5.0.Final-seamline-15",)
    keeps_schema_history = True

    def settings(
        self, source: SourcePlan, tables: Sequence[str], endpoint: CaptureEndpoint, start: Start
    ) -> Mapping[str, str]:
        return binlog_settings(source, tables, endpoint, start, tls_modes=_TLS_MODES)

    def first_offset(self, position: Position) -> Mapping[str, Any]:
        if not isinstance(position, BinlogPosition):
            raise InvariantViolated(f"no capture of a binlog begins at {position}")
        return {"file": position.file, "pos": position.offset, "gtids": position.gtid}


CONNECTOR = MariaDbConnector()
