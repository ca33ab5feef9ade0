"""A session with an FTP server: in the clear, or by explicit TLS (`AUTH TLS`), as its connection says."""

import ftplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from seamline.adapters.connections import Connection
from seamline.adapters.tls import LOST, client_context, tls_cure, tls_of
from seamline.domain.errors import ConfigError

_ANSWER_S = 60
_IMPLICIT_TLS_PORT = 990


class _Encrypted(ftplib.FTP_TLS):
    """Each data connection resumes the TLS session of the control connection. `FTP_TLS` begins new ones, which many
    servers refuse: vsftpd's `require_ssl_reuse` and the like prove by it that both are of one client."""

    def ntransfercmd(self, cmd: str, rest: int | str | None = None) -> tuple[socket.socket, int | None]:
        data, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        session = self.sock.session if isinstance(self.sock, ssl.SSLSocket) else None
        return self.context.wrap_socket(data, server_hostname=self.host, session=session), size


def opened(connection: Connection) -> ftplib.FTP:
    """Logged in, for files byte by byte. ConfigError: login, TLS or certificate, which no repeat mends; ftplib's own
    errors where a repeat may help."""
    session = _new(connection)
    try:
        session.connect(connection.host, connection.port)
        with _refusals(connection):
            if isinstance(session, _Encrypted):
                _secure(session, connection)
            _log_in(session, connection)
            if isinstance(session, _Encrypted):
                _secure_files(session, connection)
        session.voidcmd("TYPE I")
    except BaseException:
        session.close()
        raise
    return session


def _new(connection: Connection) -> ftplib.FTP:
    if not tls_of(connection).is_encrypted:
        return ftplib.FTP(timeout=_ANSWER_S, encoding="utf-8")
    return _Encrypted(context=client_context(connection), timeout=_ANSWER_S, encoding="utf-8")


def _secure(session: ftplib.FTP_TLS, connection: Connection) -> None:
    """Before the login, which is never sent in the clear."""
    try:
        session.auth()
    except ftplib.error_perm as exc:
        raise ConfigError(
            f"the FTP server of connection `{connection.connection_id}` has no TLS: {exc}",
            hint="its owner turns on explicit TLS (AUTH TLS); with `sslmode: disable` anybody on the way reads password"
            " and files",
        ) from exc


def _log_in(session: ftplib.FTP, connection: Connection) -> None:
    try:
        session.login(connection.login, connection.password)
    except ftplib.error_perm as exc:
        raise ConfigError(
            f"the FTP server of connection `{connection.connection_id}` refuses its login: {exc}",
            hint="correct login and password; where it takes encrypted sessions only, say `sslmode: verify-full`",
        ) from exc


def _secure_files(session: ftplib.FTP_TLS, connection: Connection) -> None:
    try:
        session.prot_p()
    except ftplib.error_perm as exc:
        raise ConfigError(
            f"the FTP server of connection `{connection.connection_id}` encrypts no files, its commands alone: {exc}",
            hint="its owner allows PROT P",
        ) from exc


def tls_trouble(connection: Connection, failed: BaseException) -> str:
    """What to do where it may be TLS that ended a session or a transfer; "" where it is not."""
    if connection.port == _IMPLICIT_TLS_PORT:
        return "port 990 is mostly that of implicit TLS, which is not spoken: take that of explicit TLS, mostly 21"
    if isinstance(failed, LOST):
        return (
            "it is tried again; if it stays: the server ends transfers without the end that TLS demands (close_notify),"
            " so nobody can say that all has come. Its owner mends that"
        )
    if isinstance(failed, ssl.SSLError):
        # Of a data connection, which has a handshake of its own.
        return tls_cure(connection)
    if str(failed).startswith("522"):
        return "the server refuses the encrypted connection of a transfer: its owner looks at its settings of TLS"
    return ""


@contextmanager
def _refusals(connection: Connection) -> Iterator[None]:
    """With TLS 1.3 a server says what is wrong with the client's certificate behind the handshake."""
    try:
        yield
    except LOST:
        raise
    except ssl.SSLError as exc:
        raise ConfigError(
            f"the FTP server of connection `{connection.connection_id}` and this machine do not agree on TLS: {exc}",
            hint=tls_cure(connection),
        ) from exc
