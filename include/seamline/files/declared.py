"""What declarations of sources and destinations of files have in common."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from seamline.spec.fields import Declared

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


def _delimiter(value: str) -> str:
    if len(value) != 1 or not value.isascii() or value.isalnum() or value in '"\r\n.-+:':
        raise ValueError("one sign of ASCII that neither quotes nor stands in numbers and times")
    return value


def _null(value: str) -> str:
    if any(sign in value for sign in '"\r\n'):
        raise ValueError("a mark of NULL holds neither quotes nor ends of lines")
    return value


Place = Annotated[str, AfterValidator(checked_place)]


class CsvRows(Declared):
    """How the rows of a CSV file stand in it."""

    delimiter: Annotated[str, AfterValidator(_delimiter)] = Field(",", description="What stands between two values.")
    encoding: Literal["utf-8", "gb18030", "gbk", "big5", "shift_jis", "latin-1"] = Field(
        "utf-8", description="How letters become bytes."
    )
    null: Annotated[str, AfterValidator(_null)] = Field(
        "", description="What stands for NULL, without quotes. A text that looks like it stands in quotes."
    )
    column_names: bool = Field(
        default=True, description="Whether a line with the names of the columns comes before the rows."
    )


def location_faults(location: str, connection: str) -> list[str]:
    """What place and connection say against each other."""
    scheme = urlsplit(location).scheme
    if scheme in OF_SERVERS and not connection:
        return [f"`location` is on a server: name its `connection`, of type {OF_SERVERS[scheme]}"]
    return ["`location` is a folder: leave `connection` out"] if not scheme and connection else []
