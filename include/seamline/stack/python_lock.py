"""requirements.txt, the exported lock of requirements.in: written by uv, checked by a test."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from seamline import settings
from seamline.domain.errors import ConfigError, TransientError
from seamline.stack.layout import Layout

OLDEST_PYTHON = "3.11"
_HASH = "# requirements.in sha256: "
_HEADER = f"""# The exported lock of `requirements.in`, for Python 3.11 to 3.13 on every platform. Not edited by hand.
# Refresh it with `./seamline lock`, then run `./seamline test`. It is installed whole: `uv pip sync requirements.txt`.
{_HASH}"""
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==(?P<version>[^ ;]+)")


def wish_hash(root: Path) -> str:
    """What identifies requirements.in."""
    return hashlib.sha256((root / "requirements.in").read_bytes()).hexdigest()


def locked_hash(root: Path) -> str:
    """Which requirements.in the lock was made from."""
    for line in (root / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(_HASH):
            return line.removeprefix(_HASH)
    return ""


def pins(root: Path) -> dict[str, set[str]]:
    """Normalised name → its versions in the lock; more than one where Python's version decides."""
    found: dict[str, set[str]] = {}
    for _, match in _pinned_lines(root):
        found.setdefault(normalised(match["name"]), set()).add(match["version"])
    return found


def wanted_here(root: Path) -> set[str]:
    """The normalised names that the lock wants on this platform, by this Python."""
    # Known here only once the environment is made; the lock is read before that, too.
    from packaging.requirements import Requirement

    wishes = (Requirement(line.partition(" #")[0]) for line, _ in _pinned_lines(root))
    return {normalised(wish.name) for wish in wishes if wish.marker is None or wish.marker.evaluate()}


def _pinned_lines(root: Path) -> Iterator[tuple[str, "re.Match[str]"]]:
    for line in (root / "requirements.txt").read_text(encoding="utf-8").splitlines():
        match = _PIN.match(line)
        if match:
            yield line, match


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def refresh(layout: Layout) -> int:
    """Resolve requirements.in again and write the lock; return the number of packages."""
    root = layout.settings.root
    uv = _uv(layout)
    variables = {"UV_SYSTEM_CERTS": "1", **settings.process_environment()}
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON, "--upgrade"]
    result = subprocess.run(
        [*command, "--no-header", "requirements.in"],
        cwd=root,
        env=variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if result.returncode != 0:
        raise TransientError(f"uv could not resolve requirements.in:\n{result.stderr.strip()}")
    fresh = root / f".requirements.txt.{os.getpid()}"
    fresh.write_text(f"{_HEADER}{wish_hash(root)}\n{result.stdout}", encoding="utf-8")
    fresh.replace(root / "requirements.txt")
    return len(pins(root))


def _uv(layout: Layout) -> str:
    own = layout.settings.env / "uv" / "bin" / "uv"
    found = shutil.which("uv", path=settings.search_path()) or (str(own) if own.exists() else None)
    if found is None:
        raise ConfigError("uv was not found", hint="./seamline setup fetches it")
    return found
