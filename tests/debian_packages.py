"""Debian packages that only tests use, fetched by apt's own client and unpacked in a folder: nothing is installed.

`python -m tests.debian_packages` writes the locks again, from what Debian's newest suite has now.
"""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamline import settings
from seamline.domain.errors import ConfigError, TerminalError, TransientError
from seamline.stack import jars
from seamline.stack.folder_lock import lock_after_waiting
from seamline.stack.shared_files import SharedFiles

LOCK = Path(__file__).with_name("debian_packages.lock")
REDIS_LOCK = Path(__file__).with_name("redis_packages.lock")
# The newest MySQL is in no released suite of Debian.
SUITE = "sid"
FETCH_TIMEOUT_S = 900
_HEADER = "# sha256, bytes, package and version of each. The first is the server: that one and no other. " + (
    "Of a library that Debian has replaced the newer version is taken, which apt has checked too."
)

Fetch = Callable[[Sequence[str], Path], None]
"""Have the packages of these names, as `<anything>.deb`, in a folder."""


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    sha256: str
    size_bytes: int


def read_lock(lock: Path) -> tuple[Package, ...]:
    lines = [line.split(" ") for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(Package(name, version, sha256, int(size)) for sha256, size, name, version in lines)


def unpacked(target: Path, *, packages: Sequence[Package], store: SharedFiles, fetch: Fetch) -> tuple[Package, ...]:
    """Have the packages unpacked in `target`; returns those that differ from the lock.

    The first package is the one that tests are about: TerminalError where Debian has another version of it.
    """
    made_of = hashlib.sha256("".join(one.sha256 for one in packages).encode()).hexdigest()
    replaced: list[Package] = []

    def make(fresh: Path) -> None:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            archives = _archives(packages, Path(folder), store, fetch)
            replaced.extend(one for one in packages if jars.sha256_of(archives[one.name]) != one.sha256)
            if packages[0] in replaced:
                raise TerminalError(
                    f"Debian has no longer {packages[0].name} {packages[0].version}",
                    hint="python -m tests.debian_packages writes the lock again; see whether the tests still pass",
                )
            for archive in archives.values():
                _run(["dpkg-deb", "--extract", str(archive), str(fresh)])
        for path in [path for path in fresh.rglob("*") if path.is_file() and not path.is_symlink()]:
            store.share(path)

    with lock_after_waiting(target.parent, target.name, on_wait=lambda: None):
        jars.make_once(target, made_of, make)
    return tuple(replaced)


def _archives(packages: Sequence[Package], into: Path, store: SharedFiles, fetch: Fetch) -> Mapping[str, Path]:
    found = {one.name: into / f"{one.sha256}.deb" for one in packages}
    has_server, *has_libraries = [store.take(one.sha256, found[one.name]) for one in packages]
    # Libraries of different days may not fit each other: all of them from the store, or none.
    wanted = [one.name for one in packages[has_server:]] if not (has_server and all(has_libraries)) else []
    if wanted:
        fetched = into / "fetched"
        fetched.mkdir()
        fetch(wanted, fetched)
        came = {_field(path, "Package"): path for path in fetched.glob("*.deb")}
        if missing := sorted(set(wanted) - set(came)):
            raise TransientError(f"apt brought no package {', '.join(missing)}")
        for name in wanted:
            store.share(came[name])
            found[name] = came[name]
    return found


def suite_of_this_machine() -> str:
    """As `bookworm`."""
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    found = re.search(r"^VERSION_CODENAME=(\w+)$", release, re.MULTILINE)
    if found is None:
        raise ConfigError("this machine does not say which Debian it has", hint="install openssh-server")
    return found[1]


def by_apt(names: Sequence[str], into: Path, *, suite: str = SUITE) -> None:
    """The packages as the suite has them now. apt checks Debian's signature; it is asked with a state of its own, so
    the machine's lists stay what they are."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        options = _options(state, suite)
        _run(["apt-get", "--quiet", *options, "update"])
        # Into the working folder.
        _run(["apt-get", "--quiet", *options, "download", *names], cwd=into)


def _options(state: Path, suite: str) -> list[str]:
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True)
    (state / "sources.list").write_text(f"deb {_mirror(state)} {suite} main\n", encoding="utf-8")
    (state / "status").touch()
    given = {
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Retries": "3",
        # The folders are ours alone: apt's own account could not write there.
        "APT::Sandbox::User": "",
    }
    return [part for name, value in given.items() for part in ("-o", f"{name}={value}")]


def _mirror(state: Path) -> str:
    """Where this machine has its Debian from, whether it has asked there before or not."""
    lists = state / "lists-of-nothing"
    (lists / "partial").mkdir(parents=True)
    for line in _run(["apt-get", "-o", f"Dir::State::Lists={lists}", "--print-uris", "update"]).splitlines():
        # Not the archives of security fixes and of updates, nor those of others.
        if found := re.match(r"'(\S+/debian/?)/dists/[a-z]+/InRelease'", line):
            return found[1]
    raise ConfigError("apt on this machine knows no mirror of Debian", hint="are its sources those of a Debian?")


def _field(archive: Path, name: str) -> str:
    return _run(["dpkg-deb", "--field", str(archive), name]).strip()


def _run(command: Sequence[str], *, cwd: Path | None = None) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False, cwd=cwd)
    except FileNotFoundError as exc:
        raise ConfigError(
            f"there is no {command[0]} here", hint="these tests need a Debian, or one of its kin"
        ) from exc
    except subprocess.TimeoutExpired as exc:
        raise TransientError(f"{command[0]} took more than {FETCH_TIMEOUT_S // 60} minutes") from exc
    if answer.returncode != 0:
        said = "\n    ".join((answer.stdout + answer.stderr).strip().splitlines()[-8:])
        raise TransientError(f"{command[0]} {command[-1]}:\n    {said}", hint="is Debian's mirror reachable?")
    return answer.stdout


def shared_store() -> SharedFiles:
    cache = settings.user_cache()
    return SharedFiles(cache and cache / "seamline" / "files")


def write_lock(lock: Path, names: Iterable[str], *, fetch: Fetch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fetch(list(names), Path(folder))
        found = {_field(path, "Package"): path for path in Path(folder).glob("*.deb")}
        lines = [
            f"{jars.sha256_of(found[name])} {found[name].stat().st_size} {name} {_field(found[name], 'Version')}"
            for name in names
        ]
    lock.write_text("\n".join([_HEADER, *lines]) + "\n", encoding="utf-8")


def main() -> None:
    for lock in (LOCK, REDIS_LOCK):
        write_lock(lock, [one.name for one in read_lock(lock)], fetch=by_apt)


if __name__ == "__main__":
    main()
