"""What of a destination is opened where its catalogue commits single tables."""

from collections.abc import Callable
from contextlib import closing
from functools import cache, partial

from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres.client import open_session
from seamline.domain.errors import ConfigError
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.options import GLUE, options_of
from seamline.sinks.iceberg.single.catalogue import SingleCatalogue
from seamline.sinks.iceberg.single.following import Following
from seamline.sinks.iceberg.single.glue import open_glue
from seamline.sinks.iceberg.single.hive import open_hive
from seamline.sinks.lake.thrift_metastore import CONNECTION_TYPE


def opener(destination: DestinationPlan) -> Callable[[], SingleCatalogue]:
    """Opens the catalogue of the destination. ConfigError: its connection is of another type."""
    options = options_of(destination)
    known = resolve(options.catalog_connection) if options.catalog_connection else None
    if options.catalog_type == GLUE:
        _require_type(known, "aws")
        return cache(partial(open_glue, known, destination.namespace))
    _require_type(known, CONNECTION_TYPE)
    assert known is not None, "the declaration has named one"
    return partial(open_hive, known, destination.namespace)


def following(destination: DestinationPlan) -> Following:
    return Following(destination, opener(destination))


def require_settled(destination: DestinationPlan) -> None:
    """The catalogue shows what the ledger names, in a session of the publisher. Diverged."""
    connection = resolve(destination.connection)
    with closing(open_session(connection, application_name="seamline looks at the catalogue")) as session:
        following(destination).require_settled(session)


def pointers_there(destination: DestinationPlan) -> dict[str, str]:
    """Name → metadata file, as the catalogue has them."""
    with closing(opener(destination)()) as catalogue:
        return {name: entry.pointer for name, entry in catalogue.entries().items() if entry.pointer}


def _require_type(connection: Connection | None, wanted: str) -> None:
    if connection is not None and connection.kind != wanted:
        raise ConfigError(
            f"connection {connection.connection_id} is of type {connection.kind}, and the catalogue needs {wanted}",
            hint=f"name a connection of conn_type {wanted} as `catalog_connection`",
        )
