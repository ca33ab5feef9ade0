"""What the declarations of lakes have in common."""

from typing import Annotated

from pydantic import AfterValidator


def _warehouse(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(
            "the warehouse is an absolute path of a folder that every worker has under this name; S3 and HDFS are not"
            " built yet"
        )
    return value.rstrip("/") or value


Warehouse = Annotated[str, AfterValidator(_warehouse)]
