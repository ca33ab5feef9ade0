"""The client with which a person opens a connection on the command line."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from seamline.adapters.connections import Connection


class CommandLineClient(Protocol):
    """Of one `conn_type`; found by an entry point of that name in `seamline.clients`."""

    def program(self, known: "Connection") -> str:
        """The client that the connection's server came with. TransientError where the server has to be asked and does
        not answer."""

    def opening(self, program: str, known: "Connection") -> tuple[Mapping[str, str], Sequence[str]]:
        """Variables and options by which that client opens the connection; the password is in no argument."""

    def require(self, program: str, binary: str | None) -> None:
        """ConfigError with the cure where `binary`, None if there is none, is not that client."""
