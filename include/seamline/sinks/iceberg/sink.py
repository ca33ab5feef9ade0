"""IcebergSink: a catalogue of Iceberg tables as the destination of one stream, written in its process or by Spark."""

from seamline import settings
from seamline.adapters import failpoints as armed_failpoints
from seamline.kinds.frames import Frames
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Failpoints
from seamline.sinks.iceberg.options import SPARK, options_of
from seamline.sinks.iceberg.rest_opening import open_store
from seamline.sinks.iceberg.single.opening import following
from seamline.sinks.iceberg.single.store import SingleLakeStore
from seamline.sinks.iceberg.spark_tables import SparkTables
from seamline.sinks.iceberg.tables import IcebergTables
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from seamline.sinks.lake.sink import LakeSink
from seamline.sinks.lake.store import LakeStore
from seamline.values.changes import ChangeDecoder


def open_sink(
    plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder, frames: Frames | None = None
) -> "IcebergSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = armed_failpoints.from_environment(settings.process_environment())
    options = options_of(destination)
    store: LakeStore
    if options.is_rest:
        store = open_store(destination, failpoints=armed)
    elif options.is_single:
        store = SingleLakeStore(destination, following(destination), failpoints=armed)
    else:
        store = PostgresLakeStore(destination, Catalogue(options.catalog), failpoints=armed)
    return IcebergSink(plan, destination, decoder=decoder, store=store, frames=frames, failpoints=armed)


class IcebergSink(LakeSink):
    """`LakeSink` over Iceberg tables."""

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        store: LakeStore,
        frames: Frames | None = None,
        failpoints: Failpoints | None = None,
    ) -> None:
        definitions = [entry.definition for entry in plan.tables if entry.table is not None]
        options = options_of(destination)
        tables = (
            SparkTables(definitions, options, frames) if options.write == SPARK else IcebergTables(definitions, options)
        )
        super().__init__(plan, destination, decoder=decoder, store=store, tables=tables, failpoints=failpoints)
