"""The code that travels to a cluster's workers: all of it, the same file for the same code, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from seamline import settings
from seamline.cluster.code_archive import code_archive, code_in_use, with_code
from seamline.domain.errors import ConfigError
from seamline.domain.runs import CODE
from tests.installed import EXAMPLE, install
from tests.unit.reported import MATCH, reconciliation

_NAMES_ITS_KINDS = """
import sys
from seamline.domain import installed
assert sys.path[1] in sys.modules["seamline"].__file__
kind = installed.load(installed.SOURCES, sys.argv[1])
print(kind.name, sys.modules[type(kind).__module__].__file__)
"""


def test_the_archive_of_the_same_code_is_the_same_file_and_is_made_once(tmp_path: Path) -> None:
    first = code_archive(tmp_path / "a")
    made = first.stat().st_mtime_ns
    assert code_archive(tmp_path / "a") == first
    assert first.stat().st_mtime_ns == made
    other = code_archive(tmp_path / "b")
    assert (other.name, other.read_bytes()) == (first.name, first.read_bytes())
    assert sorted(tmp_path.glob("*/*")) == [first, other]


def test_it_holds_sources_and_names_of_kinds_and_nothing_that_was_compiled_or_is_secret(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_archive(tmp_path)) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {"seamline", "seamline_spark"} <= tops
    assert "seamline_airflow" not in tops, "no worker has Airflow"
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
    assert not [name for name in names if name.endswith((".pyc", ".json")) or ".seamline" in name]


def test_a_look_at_the_installed_code_says_when_it_has_changed(tmp_path: Path) -> None:
    packages = _with_the_example(tmp_path)
    script = "\n".join([
        "import sys; from pathlib import Path; from seamline.cluster.code_archive import InstalledCode",
        "code = InstalledCode(); first = code.look(); assert code.look() == first",
        "Path(sys.argv[1]).write_text('# edited'); assert code.look() != first",
    ])  # fmt: skip
    edited = packages / "seamline_memory" / "log.py"
    subprocess.run(
        [sys.executable, "-c", script, str(edited)],
        check=True,
        env={**settings.process_environment(), "PYTHONPATH": str(packages)},
    )


@pytest.mark.parametrize("what", ["a kind", "no kind"])
def test_a_look_at_the_installed_code_finds_a_package_that_came_later(tmp_path: Path, what: str) -> None:
    """The kind is found by its name from then on, also by a process that had looked for others before."""
    packages, late = tmp_path / "packages", tmp_path / "late"
    packages.mkdir()
    install(EXAMPLE, late)
    if what == "no kind":
        (later,) = late.glob("*.dist-info")
        (later / "entry_points.txt").unlink()
    script = "\n".join([
        "import shutil, sys; from seamline.cluster.code_archive import InstalledCode",
        "from seamline.domain import installed; installed.names(installed.SINKS)",
        "code = InstalledCode(); first = code.look(); assert code.look() == first",
        "shutil.copytree(sys.argv[1], sys.argv[2], dirs_exist_ok=True); assert code.look() != first",
        "assert sys.argv[3] == 'no kind' or installed.load(installed.SINKS, 'memory').name == 'memory'",
    ])  # fmt: skip
    subprocess.run(
        [sys.executable, "-c", script, str(late), str(packages), what],
        check=True,
        env={**settings.process_environment(), "PYTHONPATH": str(packages)},
    )


def test_code_that_changed_is_another_archive(tmp_path: Path) -> None:
    packages = _with_the_example(tmp_path)
    before = _archive_of(packages, tmp_path)
    (packages / "seamline_memory" / "log.py").write_text("# edited\n")
    assert _archive_of(packages, tmp_path) != before


@pytest.mark.parametrize("kind", ["mariadb", "memory"])
def test_a_process_that_has_only_the_archive_finds_every_kind_in_it(tmp_path: Path, kind: str) -> None:
    """Also one of somebody else's package."""
    archive = _archive_of(_with_the_example(tmp_path), tmp_path)
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(unpacked)
    site = next(one for one in sys.path if one.endswith("site-packages"))
    # -S: the checkout is known by a file of the environment, which Python then does not read.
    said = subprocess.run(
        [sys.executable, "-S", "-c", _NAMES_ITS_KINDS, kind],
        env={"PYTHONPATH": f"{unpacked}:{site}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    name, where = said.stdout.split()
    assert name == kind
    assert where.startswith(str(unpacked))


def test_a_kind_that_is_a_single_file_is_refused_by_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "single-1.0.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: single\nVersion: 1.0\n")
    (known / "entry_points.txt").write_text("[seamline.sources]\nsingle = single_file:KIND\n")
    (tmp_path / "single_file.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="single_file of the package single"):
        code_archive(tmp_path / "code")


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "code").write_text("no folder")
    with pytest.raises(ConfigError, match="cannot be packed into .*/code/seamline-.*: ") as caught:
        code_archive(tmp_path / "code")
    assert "SEAMLINE_HOME" in caught.value.hint


def _with_the_example(tmp_path: Path) -> Path:
    packages = tmp_path / "packages"
    install(EXAMPLE, packages)
    return packages


def _archive_of(packages: Path, tmp_path: Path) -> Path:
    """As a process makes it that has these packages beside the project."""
    script = "import sys, pathlib; from seamline.cluster.code_archive import code_archive as c; "
    script += "print(c(pathlib.Path(sys.argv[1])))"
    said = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "code")],
        env={**settings.process_environment(), "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return Path(said.stdout.strip())


def test_a_comparison_is_kept_with_the_code_that_made_it_and_the_same_code_is_the_same_elsewhere(
    tmp_path: Path,
) -> None:
    found = with_code(reconciliation(MATCH))
    assert found.evidence[CODE] == code_in_use() == code_archive(tmp_path).stem.rpartition("-")[2]
