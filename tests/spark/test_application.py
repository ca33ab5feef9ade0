"""A driver knows its master without a JVM, and opens a session by itself only on a cluster."""

import pytest

from seamline_spark import session
from seamline_spark.session import Application


@pytest.mark.parametrize(
    ("arguments", "is_opened"),
    [
        ("", False),
        ("--master local[3] --name 'seamline nightly_cut' pyspark-shell", False),
        ("--conf spark.ui.enabled=false --conf spark.master=local[*] pyspark-shell", False),
        ("--master spark://spark-master:7077 --conf spark.master=local[2] pyspark-shell", True),
        ("--conf spark.master=yarn pyspark-shell", True),
    ],
)
def test_a_session_is_opened_at_once_where_the_submitted_master_is_a_cluster(
    arguments: str, is_opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    monkeypatch.setattr(session, "open_session", lambda name: f"the session of {name}")
    assert Application("nightly_cut").is_open is is_opened
