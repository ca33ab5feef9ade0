"""Kafka clients from a connection, and librdkafka's errors as Seamline's."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from seamline.adapters.connection_extra import KAFKA_OWN
from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, SeamlineError, TransientError

ResultT = TypeVar("ResultT")

REQUEST_TIMEOUT_S = 15.0

# librdkafka 2.16 sends what its administration asks of a partition to the leader and epoch it has cached, and an answer
# that these are old does not make it look again (seen: refused for 100 s and on; by default an entry lives 15 minutes).
_LEADER_KNOWN_FOR_MS = 1000

_ADMINS: dict[tuple[Any, ...], AdminClient] = {}
# Why the broker's certificate or our login was refused last, by the client's key: its answers only say "timed out".
_REFUSALS: dict[tuple[Any, ...], KafkaError] = {}

CURE_OF_SETTINGS = (
    "check login, password, security.protocol, certificates and ACLs of its connection (of the log: connection"
    " `kafka`): the CA that signed the broker's certificate, and the host name in it (docs/reference/connections.md)"
)
_WRONG_SETTING = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001 (the client names its local errors so)
    KafkaError._SSL,  # noqa: SLF001
    KafkaError._INVALID_ARG,  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


def client_settings(connection: Connection) -> dict[str, Any]:
    """librdkafka settings: what the connection's `extra` says (security and several brokers too), with its host and
    port as the default."""
    settings: dict[str, Any] = {
        "bootstrap.servers": f"{connection.host}:{connection.port}",
        "reconnect.backoff.max.ms": 1000,
        # librdkafka's own lines go to stderr: a broker that is away would write one a second.
        "log_level": 2,
    }
    settings.update({name: str(value) for name, value in connection.extra.items() if name not in KAFKA_OWN})
    if connection.login:
        settings.setdefault("sasl.username", connection.login)
        settings.setdefault("sasl.password", connection.password)
    return settings


def admin_client(settings: Mapping[str, Any]) -> AdminClient:
    """This process's one client for these settings; it is kept as long as the process lives.

    A client answers from a thread of its own, and the last to hold a failed answer may be that thread. The answer holds
    the error, the error the frames it went through, and they the client: librdkafka ends the whole process when a
    client is given up on its own thread (`rd_kafka_destroy_app` in rdkafka.c 2.16; confluent-kafka-python, pull request
    2131). So none is ever given up, also not one whose password was changed since.
    """
    key = _key(settings)
    if key not in _ADMINS:
        own: dict[str, Any] = {"metadata.max.age.ms": _LEADER_KNOWN_FOR_MS, "error_cb": partial(_hear, key)}
        try:
            made = AdminClient({**own, **settings})
        except KafkaException as exc:
            raise translated(exc, doing="set up the Kafka client", settings=settings) from exc
        # Of two threads the second drops its own here, which nobody has asked anything yet.
        _ADMINS.setdefault(key, made)
    return _ADMINS[key]


def _key(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    # A client does not live through a fork: the child makes its own.
    return (os.getpid(), *sorted(settings.items()))


def _hear(key: tuple[Any, ...], error: KafkaError) -> None:
    if error.code() in (KafkaError._SSL, KafkaError._AUTHENTICATION):  # noqa: SLF001
        _REFUSALS[key] = error


def _refusal(settings: Mapping[str, Any]) -> KafkaError | None:
    """What the client of these settings has heard since it was asked last; it hears when it is polled."""
    key = _key(settings)
    if key in _ADMINS:
        _ADMINS[key].poll(0)
    return _REFUSALS.pop(key, None)


def asked(call: Callable[[], ResultT], *, doing: str, settings: Mapping[str, Any]) -> ResultT:
    """The answer of one Kafka request; its errors as Seamline's."""
    try:
        return call()
    except KafkaException as exc:
        if (refusal := _refusal(settings)) is not None:
            raise translated(KafkaException(refusal), doing=doing, settings=settings) from exc
        raise translated(exc, doing=doing, settings=settings) from exc


def translated(exc: KafkaException, *, doing: str, settings: Mapping[str, Any]) -> SeamlineError:
    error = exc.args[0] if exc.args else None
    code = error.code() if isinstance(error, KafkaError) else None
    text = error.str() if isinstance(error, KafkaError) else str(exc)
    servers = settings.get("bootstrap.servers", "?")
    if code in _WRONG_SETTING:
        return ConfigError(f"Kafka at {servers} refused to {doing}: {text}", hint=CURE_OF_SETTINGS)
    return TransientError(
        f"Kafka at {servers} could not {doing}: {text}",
        hint="is the broker up (`seamline status` shows the log's), and security.protocol of its connection that of"
        " its listener? The call is repeated by its owner",
    )
