"""A session with an SFTP server whose key is known, by a password or a key of the login's own."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paramiko

from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, TransientError

# Of a connection that is gone, or of which nobody knows what comes next on it.
BROKEN = (ConnectionError, TimeoutError, EOFError, paramiko.SSHException)
# `Transport.connect` of paramiko 4 says so by its words alone.
_OTHER_KEY = "Bad host key"
_ANSWER_S = 60
# A server that takes longer for nothing is opened anew, which costs less than to wait for it.
_PROBE_S = 10
_KEEP_ALIVE_S = 30
# A key of RSA signs under other names than its own.
_OF_KEY = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


class Session:
    """Logged in, with a client of SFTP."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self.transport = transport
        self.sftp: Any = paramiko.SFTPClient.from_transport(transport)
        self.sftp.get_channel().settimeout(_ANSWER_S)

    @property
    def is_open(self) -> bool:
        """As far as this side has heard."""
        return self.transport.is_active() and not self.sftp.get_channel().closed

    def answers(self) -> bool:
        """Asked by a question that changes nothing there."""
        channel = self.sftp.get_channel()
        channel.settimeout(_PROBE_S)
        try:
            self.sftp.normalize(".")
        except (OSError, *BROKEN):
            return False
        channel.settimeout(_ANSWER_S)
        return True

    def close(self) -> None:
        self.transport.close()


def opened(connection: Connection) -> Session:
    """ConfigError: the server is another one than the connection says, or does not take the login. TransientError: it
    does not answer."""
    where = f"the SFTP server of connection `{connection.connection_id}`"
    expected, key = _host_key(connection), _login_key(connection)
    if key is None and not connection.password:
        raise ConfigError(
            f"Connection `{connection.connection_id}` has neither a key_file nor a password",
            hint="name the file of the login's private key as key_file, or give the password",
        )
    with _refusals(where):
        transport = paramiko.Transport((connection.host, connection.port))
        try:
            transport.banner_timeout = transport.auth_timeout = _ANSWER_S
            transport.set_keepalive(_KEEP_ALIVE_S)
            # Of several keys that a server has, the one that is known is asked for.
            transport.get_security_options().key_types = _OF_KEY.get(expected.get_name(), (expected.get_name(),))
            transport.connect(expected, connection.login, connection.password or None, key)
            return _with_sftp(transport, where)
        except BaseException:
            # Its thread would go on.
            transport.close()
            raise


def _with_sftp(transport: paramiko.Transport, where: str) -> Session:
    try:
        return Session(transport)
    except paramiko.SSHException as exc:
        if not transport.is_active():
            raise
        raise ConfigError(
            f"{where} takes the login, and gives it no SFTP: {exc}", hint="its owner lets this login use SFTP"
        ) from exc


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    try:
        yield
    except (paramiko.BadHostKeyException, paramiko.AuthenticationException) as exc:
        raise ConfigError(f"{where} is refused or refuses: {exc}", hint="check host_key, login and key_file") from exc
    except (OSError, EOFError, paramiko.SSHException) as exc:
        if _OTHER_KEY in str(exc):
            raise ConfigError(f"{where} is refused: {exc}", hint="check host and host_key") from exc
        raise TransientError(f"{where} does not answer: {exc or type(exc).__name__}", hint="it is tried again") from exc


def _host_key(connection: Connection) -> paramiko.PKey:
    """Without it anybody could be the server."""
    kind, _, content = str(connection.extra.get("host_key", "")).partition(" ")
    try:
        return paramiko.PKey.from_type_string(kind, base64.b64decode(content.split(" ")[0]))
    except (ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as exc:
        raise ConfigError(
            f"Connection `{connection.connection_id}` does not say by which key its server is known",
            hint="add host_key to its extra, as `ssh-keyscan` prints it: `ssh-ed25519 AAAA…`. In a URL write %20 for"
            " the blank, and %2B for +",
        ) from exc


def _login_key(connection: Connection) -> paramiko.PKey | None:
    key_file = connection.extra.get("key_file")
    if not key_file:
        return None
    try:
        return paramiko.PKey.from_path(key_file)
    except (OSError, ValueError, TypeError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as exc:
        raise ConfigError(
            f"Connection `{connection.connection_id}`: key_file {key_file} is no private key that can be read here:"
            f" {exc or type(exc).__name__}",
            hint="name a file of a private key of RSA, ECDSA or Ed25519 without a passphrase",
        ) from exc
