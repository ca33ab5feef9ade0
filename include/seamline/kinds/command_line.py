"""What a person does with a connection on the command line: open it, and ask what is behind it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from seamline.adapters.connections import Connection
    from seamline.domain.server_found import ServerFound, Use


class ServerClient(Protocol):
    """Of one `conn_type`; found by an entry point of that name in `seamline.clients`."""

    def examined(self, known: "Connection") -> "ServerFound":
        """What its server says of itself and of its login; nothing is changed there. ConfigError: the server refuses
        the session; TransientError: it cannot be reached."""


@runtime_checkable
class CommandLineClient(ServerClient, Protocol):
    """One whose server a program of its own opens."""

    def program(self, known: "Connection") -> str:
        """The client that the connection's server came with. TransientError where the server has to be asked and does
        not answer."""

    def opening(self, program: str, known: "Connection") -> tuple[Mapping[str, str], Sequence[str]]:
        """Variables and options by which that client opens the connection; the password is in no argument."""

    def require(self, program: str, binary: str | None) -> None:
        """ConfigError with the cure where `binary`, None if there is none, is not that client."""


@runtime_checkable
class StartsFirst(ServerClient, Protocol):
    """One that starts a program before it can ask, which takes seconds. `starting`: that program, for people."""

    starting: str


@runtime_checkable
class KeepsNamespaces(ServerClient, Protocol):
    """One whose server gives rights by the names of what is kept there, so its login is asked for those of a
    destination."""

    def namespace(self, known: "Connection", namespace: str) -> "Use":
        """Whether the login may keep rows there, as `domain.server_found.keeps` calls that. Raises nothing."""


@runtime_checkable
class ReachesPlaces(ServerClient, Protocol):
    """One whose server has places for files, which declarations name."""

    def place(self, known: "Connection", location: str) -> "Use":
        """Whether the login lists such a place, as `domain.server_found.lists` calls that. Raises nothing."""
