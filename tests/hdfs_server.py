"""An HDFS of a module of tests: a name node and a data node in one process, of Hadoop's own jar for that."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark
from fsspec.implementations.webhdfs import WebHDFS

from seamline import settings
from seamline.settings import Settings
from seamline.stack import jars, java
from seamline.stack.layout import Layout
from tests.daemon import Daemon

# Of the first port of the session, as those in `settings.Ports`.
_HTTP, _RPC = 11, 12
# A third less work for each start: it lives for a minute.
_STARTS_SOON = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
_OF_PYSPARK = ("hadoop-client-*.jar", "slf4j-*.jar", "jcl-over-slf4j-*.jar", "log4j-*.jar")


@dataclass(frozen=True)
class Hdfs:
    """`connection`: as an environment variable says it. `url`: of its root, without `/` at the end."""

    connection: str
    url: str
    client: WebHDFS
    daemon: Daemon


@contextmanager
def running(known: Settings, folder: Path) -> Iterator[Hdfs]:
    layout, environment = Layout(known), settings.process_environment()
    locked = [one for one in jars.read_lock(known.root / "jars" / "jars.lock") if one.configuration == jars.HDFS]
    files = known.env / "hdfs"
    jars.ensure(locked, files, fetch=jars.ivy(layout, environment))
    beside = Path(pyspark.__file__).parent / "jars"
    paths = [*(files / one.path for one in locked), *(path for one in _OF_PYSPARK for path in beside.glob(one))]
    http, rpc = known.ports.base + _HTTP, known.ports.base + _RPC
    # `-D` of what may be written by anybody: who asks is who he says he is.
    said = ["-D", "dfs.permissions.enabled=false", "-D", f"hdfs.minidfs.basedir={folder}"]
    command = [
        str(java.find(layout, environment).binary),
        "-Xmx256m",
        *_STARTS_SOON,
        "-cp",
        ":".join(map(str, paths)),
        _MAIN,
    ]
    asked = ["-nomr", "-nnport", str(rpc), "-nnhttpport", str(http), *said]

    def begun() -> list[str]:
        return [*command, *asked, *([] if (folder / "hdfs.begun").exists() else ["-format"])]

    client = WebHDFS("127.0.0.1", http, user="lake", skip_instance_cache=True)
    daemon = Daemon(begun, folder / "hdfs.log", answers=lambda: _takes_files(client), within_s=90, cwd=folder)
    try:
        daemon.start()
        (folder / "hdfs.begun").touch()
        yield Hdfs(f"webhdfs://lake@127.0.0.1:{http}", f"hdfs://127.0.0.1:{rpc}", client, daemon)
    finally:
        daemon.kill()


def _takes_files(client: WebHDFS) -> bool:
    # The name node answers before it knows its data node, and says so by an error of the client's own.
    with suppress(OSError, RuntimeError):
        client.pipe_file("/begun", b"x")
        return bool(client.cat_file("/begun") == b"x")
    return False
