"""The store of a destination, by its declaration's place and connection."""

from pathlib import Path
from urllib.parse import urlsplit

from seamline.adapters.connections import Connection, resolve
from seamline.domain.errors import ConfigError
from seamline.files.stores.local import LocalStore
from seamline.files.stores.store import Store

_TYPES = {"s3": "aws", "sftp": "sftp", "ftp": "ftp", "hdfs": "webhdfs"}


def open_store(location: str, connection_id: str) -> Store:
    """Errors as of `opened`, and ConfigError: there is no such connection."""
    return opened(location, resolve(connection_id) if connection_id else None)


def opened(location: str, connection: Connection | None) -> Store:
    """ConfigError: the connection is of another type, or its server another one than it says. TransientError: it does
    not answer."""
    parts = urlsplit(location)
    if not parts.scheme:
        return LocalStore(Path(location))
    if connection is not None and connection.kind != _TYPES[parts.scheme]:
        raise ConfigError(
            f"Connection `{connection.connection_id}` is of type {connection.kind}",
            hint=f"what leads to {location} has type {_TYPES[parts.scheme]}",
        )
    return _on_server(parts.scheme, parts.netloc, parts.path, connection)


def _on_server(scheme: str, bucket: str, path: str, connection: Connection | None) -> Store:
    """Its client is loaded by whoever needs it."""
    if scheme == "s3":
        from seamline.files.stores import s3

        return s3.opened(bucket, path.strip("/"), connection)
    if connection is None:
        raise ConfigError(f"{scheme}://{path} is on a server that no connection says", hint="declare `connection`")
    if scheme == "sftp":
        from seamline.files.stores import sftp

        return sftp.opened(path, connection)
    if scheme == "hdfs":
        from seamline.files.stores import hdfs

        return hdfs.opened(path, connection)
    from seamline.files.stores.ftp import FtpStore

    return FtpStore(connection, path)
