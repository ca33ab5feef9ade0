"""The project's code, and that of every kind somebody else has installed, as one file for the workers of a cluster.

Spark unpacks it in an executor's own folder. So a worker needs the packages of `requirements.txt` and no checkout, and
all executors of an application run the code of its driver, whatever is installed where they are.
"""

import hashlib
import importlib.util
import re
import secrets
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from seamline.domain import installed
from seamline.domain.errors import ConfigError
from seamline.domain.runs import CODE, Reconciliation

_PROJECT = "seamline"
# It has no entry point: nothing but Spark's own programs import it.
_BESIDE = {_PROJECT: ("seamline_spark",)}
# The oldest time that a zip can say: the archive of the same code is the same file.
_TIME = (1980, 1, 1, 0, 0, 0)


def code_archive(folder: Path) -> Path:
    """The archive of the code as it is now, `<folder>/seamline-<version>-<hash of what is in it>.zip`.

    Made where it is missing; repeat-safe, also for several processes. Nothing deletes it: a driver hands it out for as
    long as it runs. ConfigError: it cannot be written there, or a package cannot travel.
    """
    files = dict(_files())
    path = folder / f"{_PROJECT}-{_version()}-{_hash_of(files)}.zip"
    if not path.exists():
        try:
            _write(path, files)
        except OSError as exc:
            raise ConfigError(
                f"the code for a cluster's workers cannot be packed into {path}: {exc.strerror}",
                hint="SEAMLINE_HOME must be a folder that the driver's account may write to",
            ) from exc
    return path


class InstalledCode:
    """Which code is installed, as a hash of the sources of this project and of every package that brings a kind, and of
    the names and versions of all packages. `look` reads sources only when a file has another time or size than at the
    look before, and looks for packages only when a folder has changed that they are installed into."""

    def __init__(self) -> None:
        self._places: object = None
        self._packages: list[str] = []
        self._folders: list[Path] = []
        self._known: tuple[object, str] = (None, "")

    def look(self) -> str:
        """OSError: a file has gone while it was read, as in the middle of a deployment."""
        places = [(one, one.stat().st_mtime_ns) for one in map(Path, sys.path) if one.is_dir()]
        if self._places != places:
            importlib.invalidate_caches()
            self._packages = sorted(one.name for place, _ in places for one in place.glob("*.dist-info"))
            self._folders = list(_watched_folders())
            self._places = places
        paths = [path for folder in self._folders for path in _sources_in(folder)]
        found = self._packages, [(path, path.stat().st_mtime_ns, path.stat().st_size) for path in paths]
        if self._known[0] != found:
            names = "\n".join(self._packages).encode()
            self._known = (found, _hash_of({"": names} | {str(path): path.read_bytes() for path in paths}))
        return self._known[1]


@cache
def code_in_use() -> str:
    """The hash of the code of this process, as its archive has it in its name: the same on every machine that has the
    same code. As it is installed at the first call, so ask early. "" where it cannot be read."""
    try:
        return _hash_of(dict(_files()))
    except (ConfigError, OSError):
        return ""


def with_code(found: Reconciliation) -> Reconciliation:
    """The comparison as it is kept: with the code that made it."""
    return replace(found, evidence={**found.evidence, CODE: code_in_use()}) if code_in_use() else found


def _watched_folders() -> Iterator[Path]:
    for package, module in _installed_modules():
        try:
            yield from _folders(module, package)
        except ConfigError:
            # It cannot travel to a cluster, and runs here all the same.
            continue


def _installed_modules() -> Iterator[tuple[str, str]]:
    """Each package that brings a kind, with each of its outermost modules."""
    for name, package in sorted(_distributions().items()):
        yield from ((name, module) for module in sorted({*_modules(package), *_BESIDE.get(name, ())}))


def _files() -> Iterator[tuple[str, bytes]]:
    for name, package in sorted(_distributions().items()):
        folder = f"{re.sub(r'[-.]+', '_', name)}-{package.version}.dist-info"
        for what in ("METADATA", "entry_points.txt"):
            yield f"{folder}/{what}", (package.read_text(what) or "").encode()
    for name, module in _installed_modules():
        yield from _sources(module, package=name)


def _distributions() -> dict[str, Distribution]:
    """Those that bring a kind, by their names. The one that Python finds first counts, as it does for an import."""
    found: dict[str, Distribution] = {}
    for package in distributions():
        if _modules(package):
            found.setdefault(package.name.lower(), package)
    return found


def _modules(package: Distribution) -> set[str]:
    """The outermost modules of its kinds."""
    return {one.module.partition(".")[0] for one in package.entry_points if one.group in installed.GROUPS}


def _sources(module: str, *, package: str) -> Iterator[tuple[str, bytes]]:
    for folder in _folders(module, package):
        for path in _sources_in(folder):
            yield f"{module}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _sources_in(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)


def _folders(module: str, package: str) -> list[Path]:
    """The one folder that it is."""
    spec = importlib.util.find_spec(module)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    if len(folders) != 1:
        raise ConfigError(
            f"{module} of the package {package} is not one folder, so it cannot travel to a cluster's workers",
            hint="make it a package with an __init__.py, or remove the package",
        )
    return [Path(folders[0])]


def _version() -> str:
    return _distributions()[_PROJECT].version


def _hash_of(files: Mapping[str, bytes]) -> str:
    """Of what is in the archive, not of its bytes: those depend on the compressor."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _write(path: Path, files: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{secrets.token_hex(4)}.new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)
    new.rename(path)
