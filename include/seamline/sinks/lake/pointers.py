"""Where the rows of a lake's tables are found: a pointer per table, in the database that holds the ledger."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from seamline.databases.postgres.client import Session
from seamline.sinks.lake.store import CatalogueChanges, PointerMove


class Pointers(Protocol):
    """The pointers of one catalogue. All but `claim`, `require_own`, `pointers` and `views` inside the caller's
    transaction. `names`: of its own tables, with their schema."""

    @property
    def names(self) -> Sequence[str]: ...

    def create_tables(self, session: Session) -> None:
        """Where they are missing."""

    def claim(self, session: Session, namespace: str) -> None:
        """Where the tables of a namespace can have one ledger only: write down that it is this one. A repeat changes
        nothing. Refused: it is another one."""

    def require_own(self, session: Session, namespace: str, pointers: Collection[str]) -> None:
        """What `claim` would refuse, and nothing is written. `pointers`: where those of the namespace lead."""

    def pointers(self, session: Session, namespace: str) -> dict[str, str]:
        """Table → where its pointer leads. By one statement: hence as one commit has left them."""

    def views(self, session: Session, namespace: str) -> dict[str, str]:
        """View → its metadata file, by one statement. A table cannot have the name of one."""

    def held(self, session: Session, namespace: str, tables: Collection[str]) -> dict[str, str]:
        """The same of these tables, those that are there: nobody else moves them until the transaction ends. They are
        locked in the order of names, as `move` does."""

    def move(
        self,
        session: Session,
        namespace: str,
        moves: Sequence[PointerMove],
        *,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """In the order of names, so that two who move the same tables wait for each other and never cross. `between` is
        called once, after the first. PointerMoved."""

    def apply(self, session: Session, namespace: str, changes: CatalogueChanges) -> None:
        """What leaves first: others may need its names. PointerMoved."""

    def drop_namespace(self, session: Session, namespace: str) -> None:
        """The pointers alone: files of them may be those of live tables."""
