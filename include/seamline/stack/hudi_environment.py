"""The environment of Hudi's own Spark, beside Seamline's.

There is no Hudi for Spark 4, and two Sparks cannot be in one environment. Whoever writes Hudi tables, or reads them by
Seamline, needs neither. Packages are those of requirements-hudi.txt, the jar is that of jars/jars.lock.
"""

from dataclasses import dataclass
from pathlib import Path

from seamline import settings
from seamline.stack import environment_beside, jars, python_lock, shared_files
from seamline.stack.folder_lock import lock_after_waiting
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress


@dataclass(frozen=True, slots=True)
class HudiEnvironment:
    """`python` has PySpark 3.5; `jar` is Hudi's bundle for it."""

    python: Path
    jar: Path


def prepare(layout: Layout, progress: Progress) -> HudiEnvironment:
    """Make or mend it. A repeat changes nothing."""
    with lock_after_waiting(
        layout.settings.env, "prepare", on_wait=lambda: progress.say("waiting for another setup of this folder")
    ):
        if not environment_beside.is_made(layout, layout.hudi, python_lock.HUDI):
            progress.say("installing the environment of requirements-hudi.txt (about a minute the first time)")
            environment_beside.make(layout, layout.hudi, python_lock.HUDI)
        _put_jar(layout)
    return _places(layout)


def _put_jar(layout: Layout) -> None:
    files = (_bundle(layout),)
    cache = settings.user_cache()
    store = shared_files.SharedFiles(cache and cache / "seamline" / "files")
    fetch = jars.ivy(layout, settings.process_environment())
    jars.ensure(files, _jars(layout), fetch=shared_files.fetch_once(store, files, fetch))


def _places(layout: Layout) -> HudiEnvironment:
    return HudiEnvironment(environment_beside.python_of(layout.hudi), _jars(layout) / _bundle(layout).path)


def _jars(layout: Layout) -> Path:
    return layout.hudi / "jars"


def _bundle(layout: Layout) -> jars.LockedFile:
    locked = jars.read_lock(layout.settings.root / "jars" / "jars.lock")
    return next(file for file in locked if file.configuration == jars.HUDI)
