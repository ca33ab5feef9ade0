"""MySQL as a kind of source: its declaration becomes a plan, its connector's settings are its own."""

from dataclasses import replace

import pytest

from seamline.adapters.connect.connector_config import connector_config, literal_secrets, untested_version
from seamline.adapters.connect.endpoint import CaptureEndpoint, Start
from seamline.adapters.tls import Tls
from seamline.domain.errors import InvariantViolated
from seamline.kinds.found import logged_kind
from seamline.plan.model import SourcePlan
from seamline.sources.mysql.gtid_set import GtidSet
from seamline.sources.mysql.position import MySqlPosition
from seamline.sources.postgres.position import PostgresPosition

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
PLAN = SourcePlan(
    name="core",
    kind="mysql",
    database="core_bank",
    reader="core",
    capture="core_capture",
    marker="core",
    log_topic="seamline.core.log",
    connector="seamline-core",
)
ENDPOINT = CaptureEndpoint(
    host="db", port=3306, connection_id="core_capture", secrets_file="/secrets", kafka_servers="kafka:9092"
)


def test_the_connector_is_ours_and_begins_at_a_set_of_gtids() -> None:
    connector = logged_kind("mysql").connector()
    config = connector_config(PLAN, ["account"], endpoint=ENDPOINT, start=Start.FIRST)
    assert config["connector.class"] == connector.plugin == "seamline.connect.MySqlConnector"
    assert config["table.include.list"] == "core_bank\\.account"
    assert literal_secrets(config) == ()
    position = MySqlPosition(GtidSet.parse(f"{UUID}:1-9:batch:1-3"), "binlog.000002", 157)
    offset = {"file": "binlog.000002", "pos": 157, "gtids": f"{UUID}:1-9:batch:1-3"}
    assert connector.first_offset(position) == offset
    with pytest.raises(InvariantViolated, match="no capture of a MySQL begins at"):
        connector.first_offset(PostgresPosition(lsn=1))


@pytest.mark.parametrize(
    ("mode", "called"),
    [("", "disabled"), ("require", "required"), ("verify-ca", "verify_ca"), ("verify-full", "verify_identity")],
)
def test_a_mode_of_encryption_has_the_connectors_own_name(mode: str, called: str) -> None:
    config = connector_config(PLAN, [], endpoint=replace(ENDPOINT, tls=Tls(mode)), start=Start.AGAIN)
    assert config["database.ssl.mode"] == called
    # The password is never sent to who only says that he is the server, where encryption can prove it.
    assert ("driver.allowPublicKeyRetrieval" in config) == (not mode)


def test_a_connect_worker_without_the_connector_is_refused_by_its_name() -> None:
    assert untested_version("mysql", {}) == "Connect has no plugin seamline.connect.MySqlConnector"
