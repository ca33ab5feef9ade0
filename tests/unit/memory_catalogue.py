"""A catalogue that commits single tables, and the ledger's rows, in memory: what comes in between is a test's own."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from seamline.sinks.iceberg.single.catalogue import Entry
from seamline.sinks.lake.store import PointerMove, PointerMoved


class MemoryCatalogue:
    """`SingleCatalogue`. `before_move` is called once, before the next move."""

    def __init__(self) -> None:
        self.pointers: dict[str, str] = {}
        self.before_move: Callable[[], None] | None = None
        self.namespaces: list[str] = []

    def entries(self) -> Mapping[str, Entry]:
        return {name: Entry(pointer) for name, pointer in self.pointers.items()}

    def make_namespace(self, folder: str) -> None:
        self.namespaces.append(folder)

    def add(self, name: str, pointer: str, metadata: TableMetadata) -> bool:  # noqa: ARG002
        return self.pointers.setdefault(name, pointer) == pointer

    def move(self, name: str, old: str, new: str, metadata: TableMetadata) -> bool:  # noqa: ARG002
        before, self.before_move = self.before_move, None
        if before is not None:
            before()
        if not self.compares(name, old):
            return False
        self.pointers[name] = new
        return True

    def compares(self, name: str, old: str) -> bool:
        return self.pointers.get(name) == old

    def drop(self, name: str) -> None:
        self.pointers.pop(name, None)

    def close(self) -> None:
        return


class NeverCompares(MemoryCatalogue):
    """A planted bug: the entry leads wherever the last one has it."""

    def compares(self, name: str, old: str) -> bool:  # noqa: ARG002
        return True


class MemoryPointers:
    """Of `lake.pointers.Pointers` what following a ledger needs."""

    def __init__(self) -> None:
        self.led: dict[str, str] = {}

    def pointers(self, session: Any, namespace: str) -> dict[str, str]:  # noqa: ARG002
        return dict(self.led)

    def move(self, session: Any, namespace: str, moves: Sequence[PointerMove], **_: Any) -> None:  # noqa: ARG002
        for one in moves:
            if self.led.get(one.table) != one.old:
                raise PointerMoved(one.table)
            self.led[one.table] = one.new

    def rename(self, old: str, new: str) -> None:
        self.led[new] = self.led.pop(old)

    def names(self) -> Collection[str]:
        return self.led.keys()
