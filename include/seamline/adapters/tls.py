"""How a connection is encrypted, in the words of each client that opens it."""

import ssl
from dataclasses import dataclass
from typing import Any

from seamline.adapters.connection_extra import TLS_NAMES, VERIFYING
from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Tls:
    """libpq's words. `mode` is "" where the connection says nothing; certificates are PEM files."""

    mode: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def is_encrypted(self) -> bool:
        """Whether a session in the clear is refused."""
        return self.mode in ("require", *VERIFYING)


def tls_of(connection: Connection) -> Tls:
    mode, ca, certificate, key = (str(connection.extra.get(name) or "") for name in TLS_NAMES)
    # As libpq: a CA that is named is never left unasked.
    return Tls("verify-ca" if mode == "require" and ca else mode, ca, certificate, key)


def libpq_tls(connection: Connection) -> dict[str, Any]:
    """For psycopg, psycopg2 and whoever passes libpq's words on. What is not said stays libpq's own default."""
    tls = tls_of(connection)
    said = zip(TLS_NAMES, (tls.mode, tls.ca, tls.certificate, tls.key), strict=True)
    return {name: value for name, value in said if value}


def pymysql_tls(connection: Connection) -> dict[str, Any]:
    """For PyMySQL, which encrypts by itself where the server offers it and nothing was said."""
    tls = tls_of(connection)
    if not tls.is_encrypted:
        return {"ssl_disabled": True} if tls.mode else {}
    return {"ssl": client_context(connection)}


def client_context(connection: Connection) -> ssl.SSLContext:
    """For clients that take Python's own context. Without a mode (HTTPS) everything is verified."""
    tls = tls_of(connection)
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
        # Certificates of a private CA often lack extensions that Python 3.13 asks for; libpq and Java do not.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        # A certificate in the file counts although its own issuer is not there: as Python 3.13 has it by itself.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = tls.mode in ("", "verify-full")
        if tls.mode == "require":
            context.verify_mode = ssl.CERT_NONE
        if tls.certificate:
            context.load_cert_chain(tls.certificate, tls.key)
    except (ssl.SSLError, OSError) as exc:
        raise ConfigError(
            f"Connection `{connection.connection_id}`: its certificates cannot be used: {exc}",
            hint="sslrootcert, sslcert and sslkey are PEM files; the key belongs to sslcert and has no password",
        ) from exc
    return context


# What a server or client says of certificates and encryption: libpq, PostgreSQL, OpenSSL by way of Python.
_REFUSALS = (
    "certificate",
    # libpq, of a handshake; a connection that breaks is an `SSL SYSCALL error`.
    "SSL error:",
    "SSL was required",
    "private key",
    "SSL is required but",
    "WRONG_VERSION_NUMBER",
    "insecure transport",
)
# Libpq's words where the peer was killed, or a proxy let go of the session.
_LOST = "SSL error: unexpected eof while reading"


def is_tls_refusal(text: str) -> bool:
    """Whether this is about certificates or encryption, which no repeat mends."""
    return any(sign in text.replace(_LOST, "") for sign in _REFUSALS)


# The other side is gone, and has said nothing of TLS.
LOST = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def has_tls_refusal(exc: BaseException) -> bool:
    """As `is_tls_refusal`, of Python's own TLS below any client: by the errors that this one was made of. Their texts
    may hold an address, in which any word may stand."""
    left, seen = [exc], set[int]()
    while left:
        one = left.pop()
        if isinstance(one, ssl.SSLError) and not isinstance(one, LOST):
            return True
        if id(one) not in seen:
            seen.add(id(one))
            inside = (*one.args, getattr(one, "reason", None), one.__cause__)
            left += [error for error in inside if isinstance(error, BaseException)]
    return False


def is_refused_in_the_clear(text: str) -> bool:
    """Whether PostgreSQL has no line for such a session without encryption; it may have one for an encrypted one."""
    return "no pg_hba.conf entry" in text and text.rstrip().endswith("no encryption")


def clear_cure(connection: Connection) -> str:
    return (
        f"set sslmode (and sslrootcert) of the connection `{connection.connection_id}` where the server takes encrypted"
        " sessions only; else its owner adds this login and database to pg_hba.conf"
    )


def tls_cure(connection: Connection) -> str:
    return (
        f"check sslmode, sslrootcert, sslcert and sslkey of the connection `{connection.connection_id}`: the CA that"
        " signed the server's certificate, the host name in it, and the client certificate if the server asks for one"
        " (docs/reference/connections.md)"
    )
