"""The images of rows in a source's log, read as a comparison reads rows."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from seamline.domain.catalogue import Table

Texts = Mapping[str, str | None]


class LogImages(Protocol):
    """The images of a log as canonical texts, of rows as one destination holds them. LogCorrupted: an image is no JSON
    object. SchemaConflict: other columns or types than planned."""

    def keys(self, table: Table, keys: Sequence[bytes]) -> Sequence[str]:
        """The text of each key, in order."""

    def rows(self, table: Table, images: Sequence[bytes]) -> Sequence[Texts | None]:
        """The row of each image without the values that it lacks; None where the table does not hold it."""
