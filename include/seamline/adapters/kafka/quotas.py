"""How many bytes a second a producer may write: Kafka's AlterClientQuotas request, version 0, which no client of
Python's offers. Any broker takes it and hands it on to the controller."""

import struct
from collections.abc import Mapping
from typing import Any

from seamline.adapters.kafka.one_request import Answer, ask_broker, text
from seamline.domain.errors import ConfigError, TransientError

_ALTER_CLIENT_QUOTAS, _VERSION = 49, 0
_RATE = "producer_byte_rate"
_CLUSTER_AUTHORIZATION_FAILED = 31


def set_producer_quota(
    place: tuple[str, int], client_id: str, bytes_per_s: int | None, *, settings: Mapping[str, Any]
) -> None:
    """Let the producer of this client id write so many bytes a second to each broker; None: as many as it can.

    `place`: host and port of any broker. Repeat-safe. ConfigError: the login may not set quotas.
    """
    entity = struct.pack(">i", 1) + text("client-id") + text(client_id)
    # A rate that is taken away has no value.
    change = struct.pack(">i", 1) + text(_RATE) + struct.pack(">db", bytes_per_s or 0.0, bytes_per_s is None)
    body = struct.pack(">i", 1) + entity + change + struct.pack(">b", 0)
    doing = f"set the quota of producer {client_id}"
    answer = Answer(ask_broker(place, (_ALTER_CLIENT_QUOTAS, _VERSION, body), settings=settings, doing=doing))
    answer.take(">i")  # throttle time
    for _ in range(answer.take(">i")):
        error, why = answer.take(">h"), answer.text()
        if error == _CLUSTER_AUTHORIZATION_FAILED:
            raise ConfigError(
                f"the login of the connection `kafka` may not {doing}: {why}",
                hint="grant it ALTER_CONFIGS on the cluster: kafka-acls --add --allow-principal User:<login>"
                " --operation AlterConfigs --cluster",
            )
        if error:
            raise TransientError(f"Kafka did not {doing}: error {error} {why}", hint="is every broker up?")
        for _ in range(answer.take(">i")):
            answer.text()
            answer.text()
