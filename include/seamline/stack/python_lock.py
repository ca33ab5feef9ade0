"""requirements.txt, the exported lock of requirements.in, and those of environments beside: written by uv, checked by a
test."""

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
# Of the lists and their locks: Seamline's own, and that of Hudi's Spark.
MAIN, HUDI, DOCS = "requirements", "requirements-hudi", "requirements-docs"
_HEADER = """# The exported lock of `{name}.in`, for Python 3.11 to 3.13 on every platform. Not edited by hand.
# Refresh it with `./seamline lock`, then run `./seamline test`. It is installed whole: `uv pip sync {name}.txt`.
"""
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==(?P<version>[^ ;]+)")


def wish_hash(root: Path, name: str = MAIN) -> str:
    """What identifies the list."""
    return hashlib.sha256((root / f"{name}.in").read_bytes()).hexdigest()


def locked_hash(root: Path, name: str = MAIN) -> str:
    """Which list the lock was made from."""
    hash_line = _hash_line(name)
    for line in (root / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(hash_line):
            return line.removeprefix(hash_line)
    return ""


def pins(root: Path, name: str = MAIN) -> dict[str, set[str]]:
    """Normalised name → its versions in the lock; more than one where Python's version decides."""
    found: dict[str, set[str]] = {}
    for _, match in _pinned_lines(root, name):
        found.setdefault(normalised(match["name"]), set()).add(match["version"])
    return found


def wanted_here(root: Path) -> set[str]:
    """The normalised names that the lock wants on this platform, by this Python."""
    # Known here only once the environment is made; the lock is read before that, too.
    from packaging.requirements import Requirement

    wishes = (Requirement(line.partition(" #")[0]) for line, _ in _pinned_lines(root, MAIN))
    return {normalised(wish.name) for wish in wishes if wish.marker is None or wish.marker.evaluate()}


def _hash_line(name: str) -> str:
    return f"# {name}.in sha256: "


def _pinned_lines(root: Path, name: str) -> Iterator[tuple[str, "re.Match[str]"]]:
    for line in (root / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        match = _PIN.match(line)
        if match:
            yield line, match


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def refresh(layout: Layout, name: str = MAIN) -> int:
    """Resolve a list again and write its lock; return the number of packages. What stands beside the main one has the
    hashes of its files too: they were chosen for one version of one program."""
    root = layout.settings.root
    uv = uv_of(layout)
    hashes = [] if name == MAIN else ["--generate-hashes"]
    variables = {"UV_SYSTEM_CERTS": "1", **settings.process_environment()}
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON, "--upgrade"]
    result = subprocess.run(
        [*command, *hashes, "--no-header", f"{name}.in"],
        cwd=root,
        env=variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if result.returncode != 0:
        raise TransientError(f"uv could not resolve {name}.in:\n{result.stderr.strip()}")
    fresh = root / f".{name}.txt.{os.getpid()}"
    header = _HEADER.format(name=name) + _hash_line(name) + wish_hash(root, name)
    fresh.write_text(f"{header}\n{result.stdout}", encoding="utf-8")
    fresh.replace(root / f"{name}.txt")
    return len(pins(root, name))


def uv_of(layout: Layout) -> str:
    """Its path. ConfigError where it is missing."""
    own = layout.settings.env / "uv" / "bin" / "uv"
    found = shutil.which("uv", path=settings.search_path()) or (str(own) if own.exists() else None)
    if found is None:
        raise ConfigError("uv was not found", hint="./seamline setup fetches it")
    return found
