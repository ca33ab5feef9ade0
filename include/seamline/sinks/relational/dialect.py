"""In what the SQL, the types and the sessions of MariaDB and MySQL differ for a destination."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamline.databases.mysql.canonical import Dialect as Texts

if TYPE_CHECKING:
    from seamline.databases.mysql.watched import WatchedSession

OWN_PREFIX = "seamline."


@dataclass(frozen=True, slots=True)
class Dialect:
    """`server`: as people call it. `texts`: how it writes canonical texts; their collation keeps apart all texts that
    differ in a byte, trailing spaces too.

    `open_session`: of `databases.mysql.client`, or one like it. `uuid`: the type of a UUID; its 16 bytes are what is
    written. `settings`: what a session of this server is set to beside what both have, a statement each;
    `view_settings`: that of a read view. `decimal_digits_max`, `decimal_scale_max`: of its DECIMAL.
    """

    server: str
    texts: Texts
    open_session: "Callable[..., WatchedSession]"
    uuid: str
    settings: tuple[str, ...]
    view_settings: tuple[str, ...]
    decimal_scale_max: int
    decimal_digits_max: int = 65

    @property
    def collation(self) -> str:
        return self.texts.collation
