"""The environment of Hudi's own Spark, beside Seamline's.

There is no Hudi for Spark 4, and two Sparks cannot be in one environment. Whoever writes Hudi tables, or reads them by
Seamline, needs neither. Packages are those of requirements-hudi.txt, the jar is that of jars/jars.lock.
"""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from seamline import settings
from seamline.domain.errors import TransientError
from seamline.stack import jars, python_lock, shared_files
from seamline.stack.folder_lock import lock_after_waiting
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress

_INSTALL_TIMEOUT_S = 1800
# What the packages were installed from.
_STAMP = "packages"


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
        if not _has_packages(layout):
            progress.say("installing the environment of requirements-hudi.txt (about a minute the first time)")
            _install(layout)
        _put_jar(layout)
    return _places(layout)


def _install(layout: Layout) -> None:
    venv, uv = layout.hudi / "venv", python_lock.uv_of(layout)
    (layout.hudi / _STAMP).unlink(missing_ok=True)
    shutil.rmtree(venv, ignore_errors=True)
    _run([uv, "venv", "-q", "--no-project", "--python", str(layout.python), str(venv)])
    lock = layout.settings.root / f"{python_lock.HUDI}.txt"
    _run([uv, "pip", "sync", "-q", "--require-hashes", "--python", str(venv / "bin" / "python"), str(lock)])
    (layout.hudi / _STAMP).write_text(_wanted(layout), encoding="utf-8")


def _run(command: list[str]) -> None:
    # As the launcher sets them for the environment itself: checkouts of one user share the files of uv's cache.
    variables = {"UV_SYSTEM_CERTS": "1", "UV_LINK_MODE": "clone", **settings.process_environment()}
    try:
        answer = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise TransientError("installing Hudi's environment took more than half an hour", hint="try again") from exc
    if answer.returncode != 0:
        said = answer.stderr.strip()
        raise TransientError(f"Hudi's environment could not be installed: {said}", hint="is the registry reachable?")


def _put_jar(layout: Layout) -> None:
    files = (_bundle(layout),)
    cache = settings.user_cache()
    store = shared_files.SharedFiles(cache and cache / "seamline" / "files")
    fetch = jars.ivy(layout, settings.process_environment())
    jars.ensure(files, _jars(layout), fetch=shared_files.fetch_once(store, files, fetch))


def _places(layout: Layout) -> HudiEnvironment:
    return HudiEnvironment(layout.hudi / "venv" / "bin" / "python", _jars(layout) / _bundle(layout).path)


def _jars(layout: Layout) -> Path:
    return layout.hudi / "jars"


def _bundle(layout: Layout) -> jars.LockedFile:
    locked = jars.read_lock(layout.settings.root / "jars" / "jars.lock")
    return next(file for file in locked if file.configuration == jars.HUDI)


def _wanted(layout: Layout) -> str:
    return hashlib.sha256((layout.settings.root / f"{python_lock.HUDI}.txt").read_bytes()).hexdigest()


def _has_packages(layout: Layout) -> bool:
    stamp = layout.hudi / _STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _wanted(layout) and _places(layout).python.exists()
