"""A Hive metastore of a session of tests: the service in the jars of PySpark's wheel, its database in PostgreSQL."""

import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.settings import Settings
from seamline.stack import java
from seamline.stack.layout import Layout
from tests.waiting import wait_until

# Of the first port of the session, as those in `settings.Ports`.
PORT_DISTANCE = 8
_MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
# The service's own settings ask for asynchronous logging, whose jar the wheel does not have.
_SYNCHRONOUS = "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector"
_LOGGING = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


def _site(database: Connection, warehouse: Path) -> Mapping[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{database.host}:{database.port}/{database.database}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": database.login,
        "javax.jdo.option.ConnectionPassword": database.password,
        # The scripts that make the tables are in no jar.
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "datanucleus.connectionPoolingType": "dbcp",
        "hive.metastore.warehouse.dir": f"file://{warehouse}",
    }


@contextmanager
def running(known: Settings, database: Connection, folder: Path) -> Iterator[Connection]:
    """Started at a port beside the stack's; ends with the block."""
    layout = Layout(known)
    reached = Connection("hive_metastore", "hive_metastore", "127.0.0.1", known.ports.base + PORT_DISTANCE)
    configured, warehouse = folder / "conf", folder / "default"
    configured.mkdir(parents=True)
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in _site(database, warehouse).items()
    )
    site = configured / "hive-site.xml"
    site.write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")
    site.chmod(0o600)
    (configured / "hive-log4j2.properties").write_text(_LOGGING, encoding="utf-8")
    jars = [configured, Path(pyspark.__file__).parent / "jars" / "*", *(layout.jars / "jdbc").glob("postgresql-*.jar")]
    command = [
        str(java.find(layout, settings.process_environment()).binary),
        "-Xmx256m",
        _SYNCHRONOUS,
        "-cp",
        ":".join(map(str, jars)),
        _MAIN,
    ]
    with (
        (folder / "metastore.log").open("w", encoding="utf-8") as log,
        subprocess.Popen([*command, "-p", str(reached.port)], stdout=log, stderr=log) as service,
    ):
        try:
            wait_until(lambda: _answers(reached, service, folder), timeout_s=90, what="the Hive metastore")
            yield reached
        finally:
            service.terminate()


def _answers(reached: Connection, service: subprocess.Popen[bytes], folder: Path) -> bool:
    log = (folder / "metastore.log").read_text(encoding="utf-8", errors="replace")
    assert service.poll() is None, f"the Hive metastore ended:\n{log[-2000:]}"
    with closing(socket.socket()) as asked:
        return asked.connect_ex((reached.host, reached.port)) == 0
