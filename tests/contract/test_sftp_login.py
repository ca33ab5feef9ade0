"""`./seamline connect add` with a real sshd: what it refuses is not stored."""

import io
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import paramiko
import pytest

from seamline import settings
from seamline.adapters.connections import known_ids
from seamline.cli.main import main
from tests import ssh_server
from tests.documented import block
from tests.ssh_server import SshServer

PAGE = "docs/reference/connections.md"


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    with ssh_server.running(settings.load()) as found:
        yield found


def test_a_server_or_a_login_that_is_refused_is_not_stored(
    server: SshServer,
    tmp_path: Path,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    known = server.connection
    own = {name: str(value) for name, value in known.extra.items()}

    def added(password: str = "", **extra: str) -> tuple[int, str]:
        said = "&".join(f"{name}={quote(value, safe='')}" for name, value in extra.items())
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        code = main(["connect", "add", "partner", f"sftp://{known.login}@{known.host}:{known.port}?{said}"])
        return code, "".join(capsys.readouterr())

    other = paramiko.RSAKey.generate(2048)
    other.write_private_key_file(str(tmp_path / "other"))
    shutil.copy(own["key_file"], tmp_path / "open")
    (tmp_path / "open").chmod(0o644)
    elsewhere = f"{own['host_key'].split(' ')[0]} {paramiko.PKey.from_path(own['key_file']).get_base64()}"
    refused = {
        "Bad host key": added(**own | {"host_key": elsewhere}),
        "by which key its server is known": added(key_file=own["key_file"]),
        "has neither a key_file nor a password": added(host_key=own["host_key"]),
        "refuses: ": added("wrong", host_key=own["host_key"]),
        "Authentication failed": added(**own | {"key_file": str(tmp_path / "other")}),
        "can be read by others": added(**own | {"key_file": str(tmp_path / "open")}),
    }
    for why, (code, said) in refused.items():
        assert (code, why in said) == (2, True), said
    assert known_ids() == frozenset()
    shown = block(checkout, PAGE, "./seamline connect add partner_sftp").replace("\\\n", "")
    shown = shown.replace("ssh-ed25519%20AAAA…", scanned(checkout, server))
    shown = shown.replace("/etc/seamline/partner_ed25519", own["key_file"])
    shown = shown.replace("bank@sftp.partner.example", f"{known.login}@{known.host}:{known.port}")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert (main(shlex.split(shown)[1:]), known_ids()) == (0, {"partner_sftp"})
    said = capsys.readouterr().out
    assert "partner_sftp: SFTP of OpenSSH_" in said
    assert ", encrypted (" in said


def scanned(checkout: Path, server: SshServer) -> str:
    """What the page's command prints of the server."""
    shown = block(checkout, PAGE, "ssh-keyscan").replace(
        "sftp.partner.example", f"-p {server.connection.port} {server.connection.host}"
    )
    return subprocess.run(["bash", "-c", shown], check=True, capture_output=True, text=True).stdout.strip()
