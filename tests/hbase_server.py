"""An HBase of a module of tests: master, region server and ZooKeeper in one process, of HBase's own jar for that."""

import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.domain.errors import SeamlineError
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.settings import Settings
from seamline.sinks.hbase import gateway
from seamline.sinks.hbase.gateway import Store, open_store
from seamline.sinks.hbase.places import NAMESPACE as KEY_OF_NAMESPACE
from seamline.stack import hbase_client, jars, java
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress
from tests.daemon import free_port
from tests.waiting import wait_until

NAMESPACE = "settlement"
_MAIN = "org.apache.hadoop.hbase.master.HMaster"
# What the server's jar lacks too.
_OF_CLIENT = ("opentelemetry-*.jar", "audience-annotations-*.jar")
_OF_PYSPARK = ("slf4j-*.jar", "jcl-over-slf4j-*.jar", "log4j-*.jar")


@dataclass(frozen=True)
class HBaseServer:
    port: int

    @property
    def connection(self) -> Connection:
        return Connection("warehouse", "hbase", "127.0.0.1", self.port, "seamline")

    def resolve(self, connection_id: str) -> Connection:
        return replace(self.connection, connection_id=connection_id)


def destination_of(plan: SyncPlan) -> DestinationPlan:
    """The plan's destination as one of this kind."""
    options = ((KEY_OF_NAMESPACE, NAMESPACE),)
    return replace(plan.destinations[0], kind="hbase", options=options)


@contextmanager
def running(known: Settings) -> Iterator[HBaseServer]:
    layout = Layout(known)
    hbase_client.prepare(layout, Progress())
    locked = [
        one for one in jars.read_lock(known.root / "jars" / "jars.lock") if one.configuration == jars.HBASE_SERVER
    ]
    files = known.env / "hbase_server"
    hbase_client.ensure_jars(layout, locked, files)
    beside = Path(pyspark.__file__).parent / "jars"
    paths = [files / one.path for one in locked]
    paths += [path for one in _OF_CLIENT for path in (known.env / "hbase" / "jars" / "hbase").glob(one)]
    paths += [path for one in _OF_PYSPARK for path in beside.glob(one)]
    with tempfile.TemporaryDirectory(prefix="seamline-hbase-") as name:
        folder = Path(name)
        port = free_port()
        (folder / "hbase-site.xml").write_text(_site(folder, port), encoding="utf-8")
        command = [str(java.find(layout, settings.process_environment()).binary), "-Xmx512m"]
        command += ["-cp", ":".join(map(str, [folder, *paths])), _MAIN, "start"]
        with (
            (folder / "log").open("w", encoding="utf-8") as log,
            subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as service,
        ):
            try:
                server = HBaseServer(port)
                wait_until(lambda: _takes_tables(server, service, folder), timeout_s=180, what="HBase")
                yield server
            finally:
                service.kill()


def compacted(server: HBaseServer, table: str) -> None:
    """What is hidden in the table goes, and what hides it goes where HBase may let it go."""
    client = gateway._running().gateway.jvm.org.apache.hadoop.hbase  # noqa: SLF001 (the JVM of this process)
    asked = client.HBaseConfiguration.create()
    asked.set("hbase.zookeeper.quorum", "127.0.0.1")
    asked.set("hbase.zookeeper.property.clientPort", str(server.port))
    connection = client.client.ConnectionFactory.createConnection(asked)
    try:
        admin, name = connection.getAdmin(), client.TableName.valueOf(table)
        admin.flush(name)
        (region,) = admin.getRegions(name)

        def last() -> int:
            return int(admin.getLastMajorCompactionTimestampForRegion(region.getRegionName()))

        before = last()
        admin.majorCompact(name)
        wait_until(lambda: last() > before, timeout_s=120, what="a compaction")
    finally:
        connection.close()


def _site(folder: Path, port: int) -> str:
    said: Mapping[str, str] = {
        "hbase.rootdir": f"file://{folder}/data",
        "hbase.tmp.dir": f"{folder}/tmp",
        # By it the age of the newest compaction is known.
        "hbase.regionserver.msginterval": "200",
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.zookeeper.property.clientPort": str(port),
        "hbase.zookeeper.property.dataDir": f"{folder}/zookeeper",
        **{f"hbase.{one}.port": "0" for one in ("master", "regionserver")},
        **{f"hbase.{one}.info.port": "-1" for one in ("master", "regionserver")},
        **{f"hbase.{one}.hostname": "localhost" for one in ("master", "regionserver")},
    }
    rows = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in said.items()
    )
    return f"<configuration>\n{rows}</configuration>\n"


def _takes_tables(server: HBaseServer, service: "subprocess.Popen[bytes]", folder: Path) -> bool:
    if service.poll() is not None:
        raise AssertionError((folder / "log").read_text(encoding="utf-8")[-2000:])
    with socket.socket() as asked:
        if asked.connect_ex(("127.0.0.1", server.port)):
            return False
    with suppress(SeamlineError):
        store: Store = open_store(server.connection)
        store.make(f"{NAMESPACE}:begun")
        store.close()
        return True
    return False
