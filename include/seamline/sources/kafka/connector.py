"""The connector that reads topics of others into the log topic, our own class (connect/kafka)."""

from collections.abc import Mapping, Sequence
from typing import Any

from seamline.adapters.connect.endpoint import CaptureEndpoint, Start
from seamline.domain.errors import InvariantViolated, Refused
from seamline.domain.position import Position
from seamline.plan.model import SourcePlan
from seamline.sources.kafka.layout import layout_of
from seamline.sources.kafka.position import KafkaPosition

# Messages of one read, and so of one transaction of the log.
_RECORDS_MAX = 5_000


class TopicsConnector:
    """`kinds.source.ConnectorKind`."""

    plugin = "seamline.connect.TopicsConnector"
    tested_versions = ("seamline-2",)
    keeps_schema_history = False

    def settings(
        self,
        source: SourcePlan,
        tables: Sequence[str],
        endpoint: CaptureEndpoint,
        start: Start,  # noqa: ARG002 (messages hold their own structure)
    ) -> Mapping[str, str]:
        layout = layout_of(source)
        unknown = [name for name in tables if name != layout.marker_table and layout.of(name) is None]
        if unknown:
            raise Refused(
                f"the capture of source {source.name} carries {', '.join(unknown)}, and this plan does not know from"
                " which topic",
                hint=f"declare it in `tables` of sources/{source.name}.yaml and onboard the sync again: a table that a"
                " capture carries stays declared",
                table=unknown[0],
            )
        ours = {"bootstrap.servers": endpoint.kafka_servers, **endpoint.kafka_security}
        return {
            "seamline.topics": ",".join(sorted(layout.topics(tables))),
            "seamline.markers": layout.markers,
            "seamline.records.max": str(_RECORDS_MAX),
            **{f"seamline.theirs.{name}": value for name, value in endpoint.source_client.items()},
            **{f"seamline.ours.{name}": value for name, value in ours.items()},
        }

    def first_offset(self, position: Position) -> Mapping[str, Any]:
        if not isinstance(position, KafkaPosition):
            raise InvariantViolated(f"no capture of topics begins at {position}")
        return position.texts()


CONNECTOR = TopicsConnector()
