"""The kinds by their names, and the powers that a kind may lack."""

from typing import TypeVar, cast

from seamline.domain import installed
from seamline.domain.errors import ConfigError
from seamline.kinds.command_line import CommandLineClient, ServerClient
from seamline.kinds.sink import SinkKind
from seamline.kinds.source import Drafts, LoggedKind, SourceKind
from seamline.plan.model import SyncPlan

PowerT = TypeVar("PowerT")


def source_kind(name: str) -> SourceKind:
    """ConfigError: no kind of this name is installed."""
    return cast(SourceKind, installed.load(installed.SOURCES, name))


def logged_kind(name: str) -> LoggedKind:
    """ConfigError: no kind of this name is installed, or it has no log."""
    return power(source_kind(name), LoggedKind, to="be captured: it has no log")


def drafting_kind(connection_kind: str) -> Drafts | None:
    """Of the source that a connection of this `conn_type` leads to. None: it is no kind that drafts its declaration."""
    kinds = (source_kind(name) for name in installed.names(installed.SOURCES))
    return next((one for one in kinds if isinstance(one, Drafts) and _type_of(one) == connection_kind), None)


def _type_of(kind: SourceKind) -> str:
    return kind.spec().connection_type


def sink_kind(name: str) -> SinkKind:
    """ConfigError: no kind of this name is installed."""
    return cast(SinkKind, installed.load(installed.SINKS, name))


def require_kinds(plan: SyncPlan, destination_name: str) -> None:
    """ConfigError: the stream into this destination cannot run here, for a kind of its plan is not installed."""
    logged_kind(plan.source.kind)
    sink_kind(plan.destination(destination_name).kind)


def server_client(connection_kind: str) -> ServerClient | None:
    """None: nothing asks the servers of connections of this kind."""
    if connection_kind not in installed.names(installed.CLIENTS):
        return None
    return cast(ServerClient, installed.load(installed.CLIENTS, connection_kind))


def command_line_client(connection_kind: str) -> CommandLineClient | None:
    """None: nothing opens connections of this kind on the command line."""
    client = server_client(connection_kind)
    return client if isinstance(client, CommandLineClient) else None


def power(kind: SourceKind | SinkKind, wanted: type[PowerT], *, to: str) -> PowerT:
    """The kind as one that has this power. ConfigError says what it cannot do: `to` ends the sentence "it cannot …"."""
    if not isinstance(kind, wanted):
        raise ConfigError(f"kind {kind.name!r} cannot {to}", hint="leave that out of the sync, or use another kind")
    return kind
