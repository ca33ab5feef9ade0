"""The parent of all stream workers of a machine: Spark's own daemon, with what every stream needs already loaded.

Spark starts it as `python -m <this> pyspark.worker` (`spark.python.daemon.module`). A worker is a fork of it, so the
clients are loaded once, lie in shared memory, and a stream that is started again is there in a fraction of a second.
"""

import gc
import importlib

import pyarrow as pa
from pyspark import daemon

# Clients that the adapters import when they are asked for.
_LOADED_ONCE = (
    "seamline_spark.stream_host.task",
    "seamline.adapters.kafka.log_reader",
    "seamline.sinks.postgres.sink",
)


def main() -> None:
    for module in _LOADED_ONCE:
        importlib.import_module(module)
    # pyarrow imports pandas at the first value that it is given by Python: 60 MB, which lie here once.
    pa.scalar(0)
    # What is here now stays for good: not to be looked at again means that its pages stay shared.
    gc.collect()
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
