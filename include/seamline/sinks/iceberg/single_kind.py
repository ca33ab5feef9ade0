"""Iceberg tables in a catalogue that commits them one by one: what `catalog_type` hive or glue makes of any."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import Atomic, SinkKind, SinkPowers
from seamline.plan.model import INCREMENTAL, DestinationPlan, SyncPlan
from seamline.ports import ReadView
from seamline.sinks.iceberg.kind import Iceberg

if TYPE_CHECKING:
    from seamline.sinks.lake.lake import Lake
    from seamline.spec.destination import Destination


class SingleIceberg(Iceberg):
    name: ClassVar[str] = "iceberg_single"
    powers: ClassVar[SinkPowers] = replace(Iceberg.powers, atomic=Atomic.TABLE)
    catalogue_schema: ClassVar[str] = ""

    def spec(self) -> "type[Destination]":
        from seamline.sinks.iceberg.spec import SingleIcebergDestination

        return SingleIcebergDestination

    def lake(self, destination: DestinationPlan) -> "Lake":
        from seamline.sinks.iceberg.single.lake import single_lake_of

        return single_lake_of(destination)

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        """Once the catalogue shows what the ledger names: a comparison says nothing of a table that others see."""
        from seamline.sinks.iceberg.single.opening import require_settled

        # Tables of an incremental snapshot are in no catalogue.
        if INCREMENTAL not in plan.sync:
            require_settled(destination)
        return super().open_live(plan, destination, count)

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:
        from seamline.sinks.iceberg.single.grants import rights

        return f"{super().grant_script(destination, database, logins=logins)}{rights(destination)}"


KIND: SinkKind = SingleIceberg()
