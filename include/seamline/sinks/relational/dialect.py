"""In what the SQL and the types of MariaDB and MySQL differ for a destination."""

from dataclasses import dataclass

OWN_PREFIX = "seamline."


@dataclass(frozen=True, slots=True)
class Dialect:
    """`server`: as people call it. `collation` keeps apart all texts that differ in a byte, trailing spaces too.

    `uuid`: the type of a UUID; its 16 bytes are what is written. `settings`: what a session of this server is set to
    beside what both have, a statement each. `decimal_digits_max`, `decimal_scale_max`: of its DECIMAL.
    """

    server: str
    collation: str
    uuid: str
    settings: tuple[str, ...]
    decimal_scale_max: int
    decimal_digits_max: int = 65
