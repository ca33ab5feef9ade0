"""The declaration of an HBase destination."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from seamline.sinks.hbase.options import NAMESPACE
from seamline.spec.destination import Destination

_NAMESPACE = re.compile(r"[A-Za-z0-9_]{1,63}")


def _namespace(value: str) -> str:
    if not _NAMESPACE.fullmatch(value) or value in ("hbase", "default"):
        raise ValueError("a namespace has letters a to z, digits and `_`, at most 63, and is neither hbase nor default")
    return value


class HBaseDestination(Destination):
    """Tables of HBase, a cell per column. Rows move one by one and the ledger behind them: exact at rest."""

    namespace_key: ClassVar[str] = NAMESPACE
    connection_type: ClassVar[str] = "hbase"

    kind: Literal["hbase"] = Field(description="What kind of system the destination is.")
    namespace_: Annotated[
        str, AfterValidator(_namespace), WithJsonSchema({"type": "string", "pattern": f"^{_NAMESPACE.pattern}$"})
    ] = Field(alias=NAMESPACE, description="The namespace of HBase in which the tables lie; it is made where it lacks.")

    @property
    def namespace(self) -> str:
        return self.namespace_

    @property
    def options(self) -> Mapping[str, str]:
        return {NAMESPACE: self.namespace_}
