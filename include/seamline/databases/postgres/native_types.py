"""Types that only PostgreSQL has (`Kind.NATIVE`), as its log gives them."""

from seamline.domain.catalogue import Column

# `Column.native` of a composite type, whatever its name.
COMPOSITE = "composite"


def comes_as_bytes(column: Column) -> bool:
    """Whether the log has the bytes of the value's text: the capture knows the column's type by its name only."""
    return column.native == COMPOSITE or column.native.endswith("multirange")
