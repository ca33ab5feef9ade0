"""A Spark session as a stream host has it, with Iceberg's jar: one of the whole test session."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from seamline_spark.frames import SparkFrames
from seamline_spark.stream_host.main import end_spark, start_spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    context = start_spark("contract", slots=2)
    try:
        yield SparkSession(context)
    finally:
        end_spark(context)


@pytest.fixture
def frames(spark: SparkSession) -> SparkFrames:
    """As each stream has them: a session of its own."""
    return SparkFrames(spark)
