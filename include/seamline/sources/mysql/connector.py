"""Debezium's MySQL connector 3.6.1.Final, in our own class."""

from collections.abc import Mapping, Sequence
from typing import Any

from seamline.adapters.connect.endpoint import CaptureEndpoint, Start
from seamline.databases.mysql.connector_settings import binlog_settings
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import Position
from seamline.plan.model import SourcePlan
from seamline.sources.mysql.position import MySqlPosition

_TLS_MODES = {
    "": "disabled",
    "disable": "disabled",
    "require": "required",
    "verify-ca": "verify_ca",
    "verify-full": "verify_identity",
}


class MySqlConnector:
    """`kinds.source.ConnectorKind`."""

    plugin = "seamline.connect.MySqlConnector"
    tested_versions = ("3.6.1.Final-seamline-15",)
    keeps_schema_history = True

    def settings(
        self, source: SourcePlan, tables: Sequence[str], endpoint: CaptureEndpoint, start: Start
    ) -> Mapping[str, str]:
        settings = binlog_settings(source, tables, endpoint, start, tls_modes=_TLS_MODES)
        if not endpoint.tls.is_encrypted:
            # Else `caching_sha2_password`, the server's own way to log in, needs encryption at the first login.
            settings["driver.allowPublicKeyRetrieval"] = "true"
        return settings

    def first_offset(self, position: Position) -> Mapping[str, Any]:
        if not isinstance(position, MySqlPosition):
            raise InvariantViolated(f"no capture of a MySQL begins at {position}")
        return {"file": position.file, "pos": position.offset, "gtids": str(position.gtids)}


CONNECTOR = MySqlConnector()
