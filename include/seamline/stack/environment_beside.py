"""An environment beside Seamline's own, of packages that cannot be in one with it or that few need: made from its own
lock, whose hashes are required."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from seamline import settings
from seamline.domain.errors import TransientError
from seamline.stack import python_lock
from seamline.stack.layout import Layout

_INSTALL_TIMEOUT_S = 1800
# What the packages were installed from.
_STAMP = "packages"


def python_of(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def is_made(layout: Layout, folder: Path, name: str) -> bool:
    """Whether it is there, from the lock `name` as that is now."""
    stamp = folder / _STAMP
    is_current = stamp.is_file() and stamp.read_text(encoding="utf-8") == _wanted(layout, name)
    return is_current and python_of(folder).exists()


def make(layout: Layout, folder: Path, name: str) -> None:
    """TransientError where it could not be installed; a repeat begins anew."""
    venv, uv = folder / "venv", python_lock.uv_of(layout)
    (folder / _STAMP).unlink(missing_ok=True)
    shutil.rmtree(venv, ignore_errors=True)
    _run([uv, "venv", "-q", "--no-project", "--python", str(layout.python), str(venv)], folder)
    lock = layout.settings.root / f"{name}.txt"
    _run([uv, "pip", "sync", "-q", "--require-hashes", "--python", str(python_of(folder)), str(lock)], folder)
    (folder / _STAMP).write_text(_wanted(layout, name), encoding="utf-8")


def _run(command: list[str], folder: Path) -> None:
    # As the launcher sets them for the environment itself: checkouts of one user share the files of uv's cache.
    variables = {"UV_SYSTEM_CERTS": "1", "UV_LINK_MODE": "clone", **settings.process_environment()}
    try:
        answer = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise TransientError(f"installing {folder} took more than half an hour", hint="try again") from exc
    if answer.returncode != 0:
        said = answer.stderr.strip()
        raise TransientError(f"{folder} could not be installed: {said}", hint="is the registry reachable?")


def _wanted(layout: Layout, name: str) -> str:
    lock = (layout.settings.root / f"{name}.txt").read_bytes()
    return hashlib.sha256(lock).hexdigest()
