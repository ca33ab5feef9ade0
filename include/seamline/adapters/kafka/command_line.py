"""What the command line asks a cluster of Kafka: the metadata that its login gets."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from seamline.adapters.connection_extra import SERVERS
from seamline.adapters.connections import Connection
from seamline.adapters.reachable import require_answer
from seamline.domain.errors import TransientError
from seamline.domain.server_found import ServerFound

# What librdkafka hears of a refused login only shows between two questions.
_PATIENCES_S = (1.0, 2.0, 4.0, 8.0)


class Kafka:
    """`kinds.command_line.ServerClient`."""

    def examined(self, known: Connection) -> ServerFound:
        from seamline.adapters.kafka.client import admin_client, asked, client_settings

        # Of several brokers one that answers is enough.
        if SERVERS not in known.extra:
            require_answer(known)
        settings = client_settings(known)
        ask, doing = admin_client(settings).list_topics, f"show its topics to connection `{known.connection_id}`"
        for patience in _PATIENCES_S[:-1]:
            with suppress(TransientError):
                said = asked(partial(ask, timeout=patience), doing=doing, settings=settings)
                break
        else:
            said = asked(partial(ask, timeout=_PATIENCES_S[-1]), doing=doing, settings=settings)
        brokers, topics = len(said.brokers), len(said.topics)
        product = f"Kafka, cluster {said.cluster_id}, brokers: {brokers}, topics that this login sees: {topics}"
        return ServerFound(product, f"{_session(settings)}; rights: `validate --online` asks for them")


def _session(settings: Mapping[str, Any]) -> str:
    protocol = str(settings.get("security.protocol", "plaintext")).lower()
    session = "encrypted" if protocol.endswith("ssl") else "in the clear"
    if not protocol.startswith("sasl"):
        return session
    return f"{session}, logged in by {settings.get('sasl.mechanism') or settings.get('sasl.mechanisms') or 'GSSAPI'}"


CLIENT = Kafka()
