"""HBase's client, for those who write there: its jars, and the class by which the kind calls it.

There is no client for Python. It is asked for by name, because it is 70 MB that few need: `./seamline setup --with
hbase`.
"""

import hashlib
import json
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from seamline import settings
from seamline.domain.errors import TerminalError
from seamline.stack import jars, java, shared_files
from seamline.stack.folder_lock import lock_after_waiting
from seamline.stack.jars import LockedFile
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress

# Where the kind looks for it.
FOLDER = "hbase"
LAUNCH = "launch.json"
_SOURCE = Path("include", "seamline", "sinks", "hbase", "Store.java")
# Its log goes where that of Spark's classes goes.
_OF_PYSPARK = ("slf4j-api-*.jar", "jcl-over-slf4j-*.jar", "log4j-*.jar")


def prepare(layout: Layout, progress: Progress) -> Path:
    """Make or mend it; the folder. A repeat changes nothing."""
    folder = layout.settings.env / FOLDER
    with lock_after_waiting(
        layout.settings.env, "prepare", on_wait=lambda: progress.say("waiting for another setup of this folder")
    ):
        files = tuple(one for one in _locked(layout) if one.configuration == jars.HBASE)
        ensure_jars(layout, files, folder / "jars")
        class_path = [*(folder / "jars" / one.path for one in files), *_beside(layout, *_OF_PYSPARK)]
        source = (layout.settings.root / _SOURCE).read_bytes()
        state = hashlib.sha256(b"".join([source, *(one.sha256.encode() for one in files)])).hexdigest()
        jars.make_once(folder / "classes", state, partial(_compile, layout, class_path))
        _write_launch(layout, folder, [folder / "classes", *class_path])
    return folder


def ensure_jars(layout: Layout, files: Sequence[LockedFile], into: Path) -> None:
    cache = settings.user_cache()
    store = shared_files.SharedFiles(cache and cache / "seamline" / "files")
    fetch = jars.ivy(layout, settings.process_environment())
    jars.ensure(files, into, fetch=shared_files.fetch_once(store, tuple(files), fetch))


def _locked(layout: Layout) -> tuple[LockedFile, ...]:
    return jars.read_lock(layout.settings.root / "jars" / "jars.lock")


def _compile(layout: Layout, class_path: Sequence[Path], target: Path) -> None:
    (compiler,) = (layout.jars / "compiler").glob("ecj-*.jar")
    found = java.find(layout, settings.process_environment())
    command = [
        str(found.binary), "-jar", str(compiler), "-17", "-proc:none", "-cp", ":".join(map(str, class_path)),
        "-d", str(target), str(layout.settings.root / _SOURCE),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if answer.returncode != 0:
        raise TerminalError(f"{_SOURCE} does not compile:\n{answer.stdout}{answer.stderr}")


def _write_launch(layout: Layout, folder: Path, class_path: Sequence[Path]) -> None:
    (py4j,) = _beside(layout, "py4j-*.jar")
    found = java.find(layout, settings.process_environment())
    said = {"java": str(found.binary), "py4j": str(py4j), "class_path": [str(path) for path in class_path]}
    fresh = folder / f"{LAUNCH}.new"
    fresh.write_text(json.dumps(said, indent=0), encoding="utf-8")
    fresh.replace(folder / LAUNCH)


def _beside(layout: Layout, *patterns: str) -> list[Path]:
    folder = next((layout.settings.env / "venv" / "lib").glob("python3.*/site-packages/pyspark/jars"))
    return [path for one in patterns for path in sorted(folder.glob(one))]
