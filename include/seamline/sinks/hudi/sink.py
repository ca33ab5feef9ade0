"""HudiSink: Hudi tables as the destination of one stream, written without a JVM."""

from seamline import settings
from seamline.adapters import failpoints as armed_failpoints
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Failpoints
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.options import options_of
from seamline.sinks.hudi.tables import HudiTables
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from seamline.sinks.lake.sink import LakeSink
from seamline.sinks.lake.store import LakeStore
from seamline.values.changes import ChangeDecoder


def open_sink(plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder) -> "HudiSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = armed_failpoints.from_environment(settings.process_environment())
    store = PostgresLakeStore(destination, HudiCatalogue(options_of(destination).warehouse), failpoints=armed)
    return HudiSink(plan, destination, decoder=decoder, store=store, failpoints=armed)


class HudiSink(LakeSink):
    """`LakeSink` over Hudi tables."""

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        store: LakeStore,
        failpoints: Failpoints | None = None,
    ) -> None:
        definitions = [entry.definition for entry in plan.tables if entry.table is not None]
        warehouse = options_of(destination).warehouse
        tables = HudiTables(definitions, warehouse, destination.namespace, failpoints=failpoints)
        super().__init__(plan, destination, decoder=decoder, store=store, tables=tables, failpoints=failpoints)
