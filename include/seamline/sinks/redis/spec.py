"""The declaration of a Redis destination."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from seamline.sinks.redis.keys import PREFIX
from seamline.sinks.redis.options import ROWS_MAX, ROWS_MAX_DEFAULT
from seamline.spec.destination import Destination

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def _prefix(value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise ValueError("a prefix has letters a to z, digits, `_`, `.` and `-`, at most 63, and begins with no sign")
    return value


class RedisDestination(Destination):
    """A Redis server: a hash per row. One script moves the rows of all tables and the ledger."""

    namespace_key: ClassVar[str] = PREFIX
    connection_type: ClassVar[str] = "redis"

    kind: Literal["redis"] = Field(description="What kind of system the destination is.")
    prefix: Annotated[
        str, AfterValidator(_prefix), WithJsonSchema({"type": "string", "pattern": f"^{_PREFIX.pattern}$"})
    ] = Field(description="What all keys begin with, as their hash tag: `{<prefix>}:<table>:<key>`.")
    rows_max: int = Field(
        ROWS_MAX_DEFAULT,
        ge=1,
        description="The most rows that one script may write: of a transaction, of a TRUNCATE, of a publish with what"
        " it replaces. Nobody else is served meanwhile, about a second per 100,000 rows; more is refused.",
    )

    @property
    def namespace(self) -> str:
        return self.prefix

    @property
    def options(self) -> Mapping[str, str]:
        return {PREFIX: self.prefix, ROWS_MAX: str(self.rows_max)}
