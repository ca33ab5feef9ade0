"""What the declarations of lakes have in common."""

import os.path
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

_HDFS = re.compile(r"hdfs://[A-Za-z0-9.-]+(:\d+)?(/[^?#]+)")
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^?#]+)?")


def _folder(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(
            "the warehouse is an absolute path of a folder that every worker has under this name; of the lakes Iceberg"
            " alone has one on S3 or HDFS"
        )
    return value.rstrip("/") or value


def _warehouse(value: str) -> str:
    if value.startswith("/"):
        # Metadata names files by URLs, in which pyiceberg ends the path there.
        if found := [letter for letter in "#?" if letter in value]:
            raise ValueError(f"the warehouse has {found[0]!r} in its path, and clients of Iceberg find no file there")
        return _folder(value)
    known = value.rstrip("/")
    if not (_BUCKET.fullmatch(known) or _HDFS.fullmatch(known)):
        raise ValueError(
            "the warehouse is an absolute path of a folder that every worker has under this name, or a bucket of S3"
            " with or without a prefix, as `s3://bucket/prefix`, or a folder of HDFS, as `hdfs://namenode:8020/folder`"
        )
    return known


def folder_of(said: Mapping[str, Any]) -> str:
    """`Destination.folder` of a lake."""
    warehouse, namespace = said.get("warehouse"), said.get("namespace")
    if not isinstance(warehouse, str) or not isinstance(namespace, str):
        return ""
    root = os.path.normpath(warehouse) if warehouse.startswith("/") else warehouse.rstrip("/")
    return f"{root}/{namespace}"


# A folder of every machine of the sync.
FolderWarehouse = Annotated[str, AfterValidator(_folder)]
# That, or a store.
Warehouse = Annotated[str, AfterValidator(_warehouse)]
