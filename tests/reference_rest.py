"""A REST catalogue of a module of tests: the adapter that Iceberg tests its clients with, over its JDBC catalogue.

It answers as the specification's authors read it, and takes the tables of one call one by one.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.settings import Settings
from seamline.stack import jars, java
from seamline.stack.layout import Layout

_SOURCE = Path(__file__).parent / "java" / "ReferenceCatalog.java"
_MAIN = "org.apache.iceberg.rest.ReferenceCatalog"
_OF_PYSPARK = (
    *("jackson-annotations-*.jar", "jackson-core-2*.jar", "jackson-databind-*.jar", "avro-1*.jar"),
    *("slf4j-api-*.jar", "log4j-*.jar", "RoaringBitmap-*.jar", "commons-codec-*.jar"),
)


@contextmanager
def running(known: Settings, database: Connection, folder: Path) -> Iterator[str]:
    """Host and port; each first part of a path there is a catalogue of its own."""
    layout, environment = Layout(known), settings.process_environment()
    locked = [one for one in jars.read_lock(known.root / "jars" / "jars.lock") if one.configuration == jars.REST]
    files = known.env / "rest"
    jars.ensure(locked, files, fetch=jars.ivy(layout, environment))
    beside = Path(pyspark.__file__).parent / "jars"
    driver = (layout.jars / "jdbc").glob("postgresql-*.jar")
    paths = [
        *(files / one.path for one in locked),
        *driver,
        *(path for one in _OF_PYSPARK for path in beside.glob(one)),
    ]
    class_path, classes = ":".join(map(str, paths)), folder / "classes"
    binary = str(java.find(layout, environment).binary)
    (compiler,) = (layout.jars / "compiler").glob("ecj-*.jar")
    how = ["-17", "-proc:none", "-nowarn", "-cp", class_path, "-d", str(classes), str(_SOURCE)]
    subprocess.run([binary, "-jar", str(compiler), *how], check=True, timeout=300)
    url = f"jdbc:postgresql://{database.host}:{database.port}/{database.database}"
    command = [binary, "-Xmx256m", "-cp", f"{classes}:{class_path}", _MAIN, url, database.login]
    with (
        (folder / "rest.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env={**environment, "PGPASSWORD": database.password}
        ) as service,
    ):
        try:
            assert service.stdout is not None
            port = service.stdout.readline().strip()
            assert port, (folder / "rest.log").read_text(encoding="utf-8")[-2000:]
            yield f"127.0.0.1:{port}"
        finally:
            service.terminate()
