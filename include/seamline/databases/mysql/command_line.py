"""`mariadb` or `mysql` for a connection of kind `mysql`, by which of the two servers it leads to."""

import socket
from pathlib import Path

from seamline.adapters.connections import Connection
from seamline.adapters.tls import Tls, tls_of
from seamline.domain.errors import ConfigError, TransientError
from seamline.domain.server_found import ServerFound

_GREETING_S = 10.0


class MySqlOrMariaDb:
    """A connection says `mysql` of MariaDB too; a server names its version before anybody has logged in."""

    def program(self, known: Connection) -> str:
        try:
            with (
                socket.create_connection((known.host, known.port), _GREETING_S) as session,
                session.makefile("rb") as sent,
            ):
                length = int.from_bytes(sent.read(4)[:3], "little")
                greeting = sent.read(length)
        except OSError as exc:
            raise TransientError(f"the server of connection {known.connection_id} does not answer: {exc}") from exc
        return "mariadb" if b"mariadb" in greeting.lower() else "mysql"

    def opening(self, program: str, known: Connection) -> tuple[dict[str, str], list[str]]:
        place = [f"--host={known.host}", f"--port={known.port}", f"--user={known.login}"]
        tls = _mysql_tls(known) if program == "mysql" else _mariadb_tls(known)
        return {"MYSQL_PWD": known.password}, [*place, f"--database={known.database}", *tls]

    def require(self, program: str, binary: str | None) -> None:
        """What many systems call `mysql` is MariaDB's."""
        if program == "mysql" and (binary is None or "mariadb" in Path(binary).resolve().name):
            raise ConfigError(
                "MySQL's own client `mysql` is not on PATH",
                hint="install it (`default-mysql-client` of Debian is MariaDB's; MySQL's is `mysql-community-client` of"
                " its own repository, or `mysql-client` of Ubuntu). MariaDB's client cannot log in with"
                " caching_sha2_password",
            )

    def examined(self, known: Connection) -> ServerFound:
        from seamline.databases.mysql.examined import examined

        return examined(known)


CLIENT = MySqlOrMariaDb()


def _mysql_tls(known: Connection) -> list[str]:
    tls = tls_of(known)
    modes = {"disable": "DISABLED", "require": "REQUIRED", "verify-ca": "VERIFY_CA", "verify-full": "VERIFY_IDENTITY"}
    mode = [f"--ssl-mode={modes[tls.mode]}"] if tls.mode in modes else []
    # Else a first login by caching_sha2_password takes an encrypted session.
    in_the_clear = [] if tls.is_encrypted else ["--get-server-public-key"]
    return [*mode, *in_the_clear, *_files(tls)]


def _mariadb_tls(known: Connection) -> list[str]:
    """By itself the client of 11.4 encrypts where it can. It would warn that it verifies nothing, for it does not see a
    password that comes by the environment."""
    tls = tls_of(known)
    if not tls.is_encrypted:
        return ["--skip-ssl" if tls.mode else "--skip-ssl-verify-server-cert"]
    if tls.mode == "verify-ca":
        raise ConfigError(
            f"the mariadb client verifies host name and CA or neither, and connection {known.connection_id} asks for"
            " verify-ca",
            hint="make a connection of its own for it, with sslmode verify-full",
        )
    verify = "--ssl-verify-server-cert" if tls.mode == "verify-full" else "--skip-ssl-verify-server-cert"
    return ["--ssl", verify, *_files(tls)]


def _files(tls: Tls) -> list[str]:
    named = {"--ssl-ca": tls.ca, "--ssl-cert": tls.certificate, "--ssl-key": tls.key}
    return [f"{option}={place}" for option, place in named.items() if place]
