"""Drivers of a test that are no fakes."""

import pytest

from seamline.stack.layout import Layout
from seamline.stack.programs import environment
from tests.conftest import RunningStack


def find_spark(stack: RunningStack, patch: pytest.MonkeyPatch) -> None:
    """As Airflow's processes find Spark and what it needs, and the connections of the stack: this layer has data of its
    own, without them."""
    patch.setenv("SEAMLINE_CONNECTIONS", str(stack.settings.connections))
    of_stack = environment(Layout(stack.settings))
    for name in ("PATH", "JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        patch.setenv(name, of_stack[name])
