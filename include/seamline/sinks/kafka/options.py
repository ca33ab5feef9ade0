"""What a declaration says of a Kafka destination beyond its connection and prefix, as its plan carries it."""

import re
from dataclasses import dataclass

from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan

JSON, DEBEZIUM = "json", "debezium"
CONTROL = "control"
_OTHER = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """`prefix`: of the names of all topics. `format`: `JSON` or `DEBEZIUM`. `replication`: copies of each topic; -1: as
    many as the broker's default says."""

    prefix: str
    format: str
    partitions: int
    replication: int
    transaction_timeout_s: int

    @property
    def control_topic(self) -> str:
        return f"{self.prefix}.{CONTROL}"

    def transactional_id(self, stream: StreamId) -> str:
        """A new owner of the stream has the same one, and so fences the old one."""
        return f"{self.prefix}.{stream}"


def topic_of(namespace: str, table: str) -> str:
    """The topic of a table. `namespace`: the prefix, or that of staged tables or of an incremental snapshot.

    Of other signs than letters of ASCII, digits and `_` a topic's name has the bytes: `-` and two hex digits each.
    """
    return f"{namespace}.{_OTHER.sub(_as_bytes, table)}"


def _as_bytes(found: "re.Match[str]") -> str:
    return "".join(f"-{one:02x}" for one in found[0].encode())


def options_of(destination: DestinationPlan) -> KafkaOptions:
    found = dict(destination.options)
    try:
        return KafkaOptions(
            found["prefix"],
            found["format"],
            int(found["partitions"]),
            int(found["replication_factor"]),
            int(found["transaction_timeout_s"]),
        )
    except KeyError as exc:
        raise Refused(
            f"the plan of destination {destination.name} does not say its {exc.args[0]}",
            hint="it was made by an earlier version: run the onboarding again",
        ) from exc
