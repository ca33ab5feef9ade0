"""The decoder of each kind of source."""

from seamline.adapters.debezium.envelope import Decoder
from seamline.domain.errors import InvariantViolated
from seamline.sources.mariadb.decode import BinlogDecoder
from seamline.sources.postgres.decode import WalDecoder


def decoder_for(kind: str, *, source_name: str, database: str, schema: str = "") -> Decoder:
    """The decoder of a source kind. `source_name` is the capture's topic prefix, which every record carries."""
    if kind == "mariadb":
        return BinlogDecoder(source_name, database)
    if kind == "postgres":
        return WalDecoder(source_name, database, schema)
    raise InvariantViolated(f"no decoder for a source of kind {kind!r}")
