"""Places of files in declarations: folders, and folders on servers."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

SCHEMES = ("s3", "sftp", "ftp", "hdfs")
# The connection says the server of these.
OF_SERVERS = {"sftp": "sftp", "ftp": "ftp", "hdfs": "webhdfs"}


def checked_place(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme and parts.scheme not in SCHEMES:
        raise ValueError(f"a place is a folder, or begins with {', '.join(f'{one}://' for one in SCHEMES)}")
    if not parts.scheme and not value.startswith("/"):
        raise ValueError("a folder is an absolute path, the same on every machine of the sync")
    if parts.scheme == "s3" and not parts.netloc:
        raise ValueError("a place on S3 is written s3://bucket/folder")
    if parts.scheme in OF_SERVERS and parts.netloc:
        raise ValueError(f"the connection says the server: write {parts.scheme}:///folder")
    return value.rstrip("/") or value


Place = Annotated[str, AfterValidator(checked_place)]


def location_faults(location: str, connection: str) -> list[str]:
    """What place and connection say against each other."""
    scheme = urlsplit(location).scheme
    if scheme in OF_SERVERS and not connection:
        return [f"`location` is on a server: name its `connection`, of type {OF_SERVERS[scheme]}"]
    return ["`location` is a folder: leave `connection` out"] if not scheme and connection else []
