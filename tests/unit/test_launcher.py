"""The launcher makes the environment out of what the machine has. A program stands for uv, which would fetch 1.8 GB."""

import filecmp
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from seamline import settings

# It says what it was asked and with which cache, and makes what a venv has.
STAND_FOR_UV = """#!/bin/sh
echo "$1 $2" >> {log}
echo "${{UV_CACHE_DIR:-shared}} $UV_LINK_MODE" > {log}.cache
for last; do :; done
if [ "$1" = venv ]; then mkdir -p "$last/bin"; ln -s "$(command -v python3)" "$last/bin/python"; fi
"""


@dataclass
class Launcher:
    root: Path
    log: Path
    variables: dict[str, str]

    def launch(self, *words: str, **variables: str) -> list[str]:
        """What uv was asked."""
        self.log.write_text("")
        environment = {**self.variables, **variables}
        subprocess.run([self.root / "seamline", *words], env=environment, capture_output=True, check=False, timeout=60)
        return self.log.read_text().splitlines()

    def cache(self) -> str:
        return self.log.with_name(f"{self.log.name}.cache").read_text().strip()


@pytest.fixture
def launcher(checkout: Path, tmp_path: Path) -> Launcher:
    root, log, tools = (tmp_path / name for name in ("checkout", "said", "bin"))
    root.mkdir()
    for name in ("seamline", "requirements.txt", "pyproject.toml"):
        shutil.copy(checkout / name, root / name)
    tools.mkdir()
    (tools / "uv").write_text(STAND_FOR_UV.format(log=log))
    (tools / "uv").chmod(0o755)
    return Launcher(root, log, {"PATH": f"{tools}:{settings.search_path()}", "SEAMLINE_PYTHON": sys.executable})


def test_the_packages_alone_are_made_without_the_code(launcher: Launcher) -> None:
    """The word for a layer of an image. An edit of the code makes neither half of the environment again."""
    assert launcher.launch("packages") == ["venv -q", "pip sync"]
    assert launcher.launch("packages") == []
    assert launcher.launch("doctor") == ["pip install"], "the code came, the packages were there"
    (launcher.root / "include").mkdir()
    assert launcher.launch("doctor") == []
    with (launcher.root / "requirements.txt").open("a") as lock:
        lock.write("# another lock\n")
    assert launcher.launch("doctor") == ["pip sync", "pip install"]


def test_kinds_of_somebody_else_are_installed_with_the_code_and_again_when_their_list_changes(
    launcher: Launcher,
) -> None:
    launcher.launch("doctor")
    (launcher.root / "kinds.txt").write_text("./their-kind\n")
    assert launcher.launch("doctor") == ["pip install", "pip install"], "the code, then the kinds"
    assert launcher.launch("doctor") == []


@pytest.mark.parametrize("home", ["home", "file/home", ""])
def test_packages_are_shared_through_the_cache_of_the_user_or_lie_with_the_environment(
    launcher: Launcher, tmp_path: Path, home: str
) -> None:
    (tmp_path / "file").touch()
    launcher.launch("packages", **({"HOME": str(tmp_path / home)} if home else {}))
    own = f"{launcher.root}/.seamline/env/uv-cache"
    assert launcher.cache() == f"{'shared' if home == 'home' else own} clone"


def test_a_second_checkout_fetches_nothing_and_has_the_same_files(launcher: Launcher, tmp_path: Path) -> None:
    """By the real uv, without a network: what the first checkout has fetched is found by the hashes of the lock."""
    uv = shutil.which("uv") or shutil.which(settings.load().env / "uv" / "bin" / "uv")
    assert uv, "this checkout was installed by uv"
    lock = (launcher.root / "requirements.txt").read_text()
    (package,) = re.findall(r"^sqlparse==.*(?:\n    .*)+", lock, re.MULTILINE)
    mine = settings.process_environment()
    variables = {name: mine[name] for name in ("HOME", "XDG_CACHE_HOME", "UV_CACHE_DIR") if name in mine}
    variables |= {"PATH": f"{Path(uv).parent}:{settings.search_path()}", "UV_OFFLINE": "1"}
    found = []
    for name in ("one", "two"):
        root = tmp_path / name
        root.mkdir()
        shutil.copy(launcher.root / "seamline", root)
        (root / "requirements.txt").write_text(f"{package}\n")
        made = subprocess.run(
            [root / "seamline", "packages"], env=variables, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr
        found += (root / ".seamline" / "env" / "venv").rglob("sqlparse/sql.py")
    first, second = found
    assert filecmp.cmp(first, second, shallow=False)


def test_a_home_that_another_checkout_uses_is_refused_until_that_is_gone(launcher: Launcher, tmp_path: Path) -> None:
    other, shared = tmp_path / "other", str(tmp_path / "shared")
    shutil.copytree(launcher.root, other)
    launcher.launch("doctor", SEAMLINE_HOME=shared)
    variables = {**launcher.variables, "SEAMLINE_HOME": shared}
    mine = subprocess.run([other / "seamline", "doctor"], env=variables, capture_output=True, text=True, check=False)
    assert mine.returncode == 1
    assert f"is the environment of the checkout {launcher.root}. Let SEAMLINE_HOME name another folder" in mine.stderr
    (launcher.root / "seamline").rename(tmp_path / "moved")
    launcher.root = other
    assert launcher.launch("doctor", SEAMLINE_HOME=shared) == ["pip install"]


def test_who_names_a_cache_or_a_way_to_link_has_it(launcher: Launcher, tmp_path: Path) -> None:
    launcher.launch("packages", UV_CACHE_DIR=str(tmp_path / "mine"), UV_LINK_MODE="copy")
    assert launcher.cache() == f"{tmp_path / 'mine'} copy"
