"""`./seamline connect` asks servers of files: what they refuse is not stored, and what they show of declared places."""

import io
import shlex
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import moto.settings
import pytest
from werkzeug.serving import make_server
from werkzeug.wrappers import Response

from seamline.adapters.connections import known_ids, parsed
from seamline.cli.main import main
from tests import ftp_server, s3_server
from tests.certificates import Authority
from tests.documented import block

Asked = Callable[..., tuple[int, str]]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asked:
    """What a command answers, and all that it prints, with connections and declarations of the test's own."""
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))

    def connect(*arguments: str, password: str = "") -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        code = main(["connect", *arguments])
        return code, "".join(capsys.readouterr())

    return connect


def declare(folder: Path, location: str) -> None:
    (folder / "destinations").mkdir()
    said = f"destination: bank_files\nkind: files\nconnection: partner\nlocation: {location}\nstaging: /srv/staging\n"
    (folder / "destinations" / "bank_files.yaml").write_text(said, encoding="utf-8")


def test_an_ftp_login_that_its_server_refuses_is_not_stored(asked: Asked, tmp_path: Path) -> None:
    with ftp_server.running(tmp_path, auth_failed_timeout=0) as server:
        url = f"ftp://partner@127.0.0.1:{server.connection.port}"
        code, said = asked("add", "partner", url, password="wrong")  # noqa: S106
        assert (code, known_ids()) == (2, frozenset())
        assert "refuses its login" in said
        assert "nothing was stored" in said
        code, said = asked("add", "partner", url, password=server.connection.password)
        assert (code, known_ids()) == (0, {"partner"})
        assert "partner: an FTP server, in the clear\n" in said
        code, said = asked("add", "safe", f"{url}?sslmode=verify-full", password=server.connection.password)
        assert (code, known_ids()) == (2, {"partner"})
        assert "has no TLS" in said
    code, said = asked("test", "partner")
    assert code == 1
    assert "cannot open a session on the FTP server of connection `partner`" in said


def test_the_command_of_the_page_stores_a_server_of_ftps(asked: Asked, tmp_path: Path, checkout: Path) -> None:
    authority = Authority(tmp_path / "authority")
    with ftp_server.running(tmp_path, encrypted_by=authority.server("127.0.0.1")) as server:
        known = server.connection
        shown = block(checkout, "docs/reference/connections.md", "./seamline connect add partner_ftps").replace(
            "\\\n", ""
        )
        shown = shown.replace("/etc/seamline/partner-ca.pem", str(authority.ca))
        shown = shown.replace("bank@ftp.partner.example", f"{known.login}@127.0.0.1:{known.port}")
        code, said = asked(*shlex.split(shown)[2:], password=known.password)
    assert (code, known_ids()) == (0, {"partner_ftps"})
    assert "partner_ftps: an FTP server, encrypted (TLSv1." in said


def test_an_ftps_server_of_an_authority_that_nobody_knows_is_not_stored_and_not_taken_later(
    asked: Asked, tmp_path: Path
) -> None:
    known, other = Authority(tmp_path / "known"), Authority(tmp_path / "other", name="another CA")
    (tmp_path / "out").mkdir()
    with ftp_server.running(tmp_path, encrypted_by=known.server("127.0.0.1")) as server:
        url = f"ftp://partner@127.0.0.1:{server.connection.port}/?sslmode=verify-full"
        password = server.connection.password
        for refused in (f"{url}&sslrootcert={other.ca}", url):
            code, said = asked("add", "partner", refused, password=password)
            assert (code, known_ids()) == (2, frozenset())
            assert "connection `partner` and this machine do not agree on TLS" in said
            assert "check sslmode, sslrootcert" in said
            assert "nothing was stored" in said
        declare(tmp_path, "ftp:///out")
        code, said = asked("add", "partner", f"{url}&sslrootcert={known.ca}", password=password)
        assert (code, known_ids()) == (0, {"partner"})
        assert "  can list ftp:///out\n" in said
        # Its authority is another one now.
        known.ca.write_bytes(other.ca.read_bytes())
        code, said = asked("test", "partner")
        assert code != 0
        assert "CERTIFICATE_VERIFY_FAILED" in said


def test_a_declared_place_that_its_server_does_not_show_is_named(asked: Asked, tmp_path: Path) -> None:
    declare(tmp_path, "ftp:///out")
    served = tmp_path / "served"
    served.mkdir()
    with ftp_server.running(served) as server:
        url = f"ftp://partner@127.0.0.1:{server.connection.port}"
        code, said = asked("add", "partner", url, password=server.connection.password)
        assert code == 0
        assert "  cannot list ftp:///out: cannot list the folder on the FTP server" in said
        code, said = asked("test", "partner")
        assert code == 1
        assert "destination bank_files needs it to list ftp:///out: `./seamline grants bank_files`" in said
        (served / "out").mkdir()
        code, said = asked("test", "partner")
        assert code == 0
        assert "  can list ftp:///out\n" in said


def test_an_s3_login_that_its_server_does_not_know_is_not_stored(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server.running() as store:
        declare(tmp_path, f"s3://{store.bucket}/out")
        known = parsed(store.connection)
        settings = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in known.extra.items())
        url = f"aws://{known.login}@?{settings}"
        code, said = asked("add", "partner", url, password=known.password)
        assert (code, known_ids()) == (0, {"partner"})
        assert f"S3 at {known.extra['endpoint_url']}, in the clear\n  can list s3://{store.bucket}/out\n" in said
        with monkeypatch.context() as patch:
            # Of moto, which believes everybody else.
            patch.setattr(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
            code, said = asked("add", "stranger", url.replace(known.login, "STRANGER"), password="wrong")  # noqa: S106
        assert (code, known_ids()) == (2, {"partner"})
        assert "refuses the login" in said


def test_what_is_no_hdfs_is_not_taken_for_one(asked: Asked) -> None:
    server = make_server("127.0.0.1", 0, Response('{"status": "ok"}', mimetype="application/json"))
    serving = Thread(target=server.serve_forever)
    serving.start()
    code, said = asked("add", "hadoop", f"webhdfs://lake@127.0.0.1:{server.server_port}")
    server.shutdown()
    serving.join()
    server.server_close()
    assert (code, known_ids()) == (1, frozenset())
    assert "cannot look for" in said
