"""What a server's settings mean for a destination of MariaDB or MySQL, where no test may set them."""

from dataclasses import replace

import pytest

from seamline.plan.model import TablePlan
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.relational.preflight import of_names, of_settings
from tests.log_topic import ACCOUNT, sync_plan

FINE = {
    "read_only": "OFF",
    "innodb_page_size": "16384",
    "local_infile": "ON",
    "binlog_format": "MIXED",
    "log_bin": "ON",
    "lower_case_table_names": "0",
    "max_allowed_packet": "16777216",
    "wsrep_on": "OFF",
}


def test_a_server_as_it_is_installed_is_a_destination() -> None:
    assert list(of_settings(FINE, MARIADB)) == []


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("read_only", "ON", "read only"),
        ("innodb_page_size", "8192", "its pages have 8192 bytes"),
        ("local_infile", "OFF", "takes no rows from a client"),
        ("binlog_format", "STATEMENT", "writes statements into its binlog"),
        ("max_allowed_packet", "1048576", "max_allowed_packet is 1048576"),
        ("wsrep_on", "ON", "a Galera cluster"),
        ("group_replication_single_primary_mode", "OFF", "every member takes writes"),
    ],
)
def test_a_setting_that_keeps_rows_out_or_streams_apart_is_refused(name: str, value: str, what: str) -> None:
    ((found, _),) = of_settings({**FINE, name: value}, MARIADB)
    assert what in found


def test_names_that_the_server_would_write_in_lower_case_are_refused_before_anything_is_copied() -> None:
    plan = sync_plan([ACCOUNT])
    (destination,) = plan.destinations
    mixed = replace(plan, tables=(*plan.tables, TablePlan("Transfer")))
    lowering = {**FINE, "lower_case_table_names": "1"}
    assert list(of_names(FINE, mixed, destination)) == []
    assert list(of_names(lowering, plan, destination)) == []
    ((what, cure),) = of_names(lowering, mixed, destination)
    assert "Transfer" in what and "`as: transfer`" in cure
    ((what, _),) = of_names(lowering, plan, replace(destination, namespace="Bank"))
    assert "database Bank" in what
