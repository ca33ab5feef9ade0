"""A stream host started from here: the last resort, when its own supervisor did not bring it back."""

import sys

from seamline import settings
from seamline_airflow.launcher import DetachedLauncher, DriverHandle, DriverJob, driver_environment, require_private

_SCRIPT = "spark_jobs/stream_host.py"


def start_host(pool: str) -> DriverHandle:
    """Start a detached host of this pool, or return the one that was started here and still lives.

    A host that is alive elsewhere holds the pool's lease; then this one names it and ends.
    """
    known = settings.load()
    require_private(known.connections)
    # Not by spark-submit: that puts the JVM above the driver, and a stop signal would end it before the streams.
    argv = [sys.executable, str(known.root / _SCRIPT), "--pool", pool]
    environment = {
        **driver_environment(settings.process_environment()),
        **settings.as_environment(known),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return DetachedLauncher(known.data / "drivers").submit(DriverJob(f"stream-host/{pool}", argv, environment))
