"""The declarations of the kinds in memory."""

from typing import Literal

from pydantic import Field

from seamline.spec.destination import Destination
from seamline.spec.source import DatabaseSource


class MemorySource(DatabaseSource):
    """A bank in the memory of this process; `database` is its name."""

    kind: Literal["memory"] = Field(description="What kind of system the source is.")


class MemoryDestination(Destination):
    """Tables in the memory of this process; `connection` is the name of the store."""

    kind: Literal["memory"] = Field(description="What kind of system the destination is.")

    @property
    def namespace(self) -> str:
        return "memory"
