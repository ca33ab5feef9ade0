"""`include/destinations/<destination>.yaml`: where tables land. Each kind adds its own keys."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from seamline.domain.catalogue import Table
from seamline.domain.staged_cut import CutSource
from seamline.spec.document import Path_
from seamline.spec.fields import ConnectionId, Declared, Name

Misfit = tuple[Path_, str, str]
"""Place in the file, cause and cure."""


class Destination(Declared):
    """What every destination has in common."""

    guarantees: ClassVar[frozenset[str]] = frozenset({"exactly_once", "at_least_once"})
    # The key that says where in the connection its tables lie; "" for a kind that has one place.
    namespace_key: ClassVar[str] = ""
    # Airflow's `conn_type` of its connections; "" for a kind that takes any.
    connection_type: ClassVar[str] = ""
    # What other keys name connections, and of what type.
    other_connections: ClassVar[Mapping[str, str]] = {}
    cut_source: ClassVar[CutSource] = CutSource.ROWS

    destination: Name = Field(description="Name of the destination; the file has the same name.")
    kind: str = Field(description="What kind of system the destination is.")
    connection: ConnectionId = Field(description="Connection id of the account that makes tables and owns them.")
    writer_connection: ConnectionId | None = Field(
        None, description="Connection id of the account that streams write rows with; `connection` where left out."
    )

    @property
    def namespace(self) -> str:
        """Where its tables lie, in the kind's own word for that."""
        raise NotImplementedError

    @property
    def options(self) -> Mapping[str, str]:
        """What the kind needs of its own keys when it opens the destination, as its plan carries it."""
        return {}

    @property
    def places(self) -> Mapping[str, str]:
        """Places for files on servers that its keys name, each with the id of the connection that leads there."""
        return {}

    @classmethod
    def lacks(cls, said: Mapping[str, Any]) -> Mapping[str, str]:  # noqa: ARG003 (a kind's own keys may decide it)
        """What a destination of these keys cannot take although its kind can: key of a sync → why, behind its name.

        `said`: the keys as they stand in the file, right or wrong.
        """
        return {}

    @classmethod
    def kind_of(cls, said: Mapping[str, Any]) -> str:  # noqa: ARG003 (a kind's own keys may decide it)
        """Another kind that a destination of these keys is of, as where they say what it holds; "" where it is of this
        one. `said`: as of `lacks`.
        """
        return ""

    @classmethod
    def folder(cls, said: Mapping[str, Any]) -> str:  # noqa: ARG003 (only a lake has one)
        """The folder of a destination of these keys, if its tables, cuts and maintenance need a place of their own; ""
        for a kind that shares its places, or where the keys do not say it.

        `said`: as of `lacks`.
        """
        return ""

    def misfits(self, tables: Mapping[str, Table]) -> Iterator[Misfit]:  # noqa: ARG002 (a kind's own keys may name them)
        """What its own keys say of tables of a sync, by their names there, and the source denies."""
        return iter(())

    @property
    def commit_interval_ms(self) -> int:
        """The least time between two commits of a stream; 0 where a commit costs no more than its rows."""
        return 0
