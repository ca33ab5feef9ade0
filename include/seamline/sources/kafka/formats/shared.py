"""Topics that several tables share: each message names its table."""

from collections.abc import Sequence
from dataclasses import dataclass

from seamline.sources.kafka.layout import TopicTable
from seamline.sources.kafka.rows import Fields, required


@dataclass(frozen=True, slots=True)
class SharedTopic:
    """`left_out`: those whose messages are not kept, as `database.table`."""

    tables: Sequence[TopicTable]
    left_out: frozenset[str]

    def of(self, message: Fields) -> TopicTable | None:
        """None of one that is left out. ValueError: it is not declared."""
        named = named_in(message)
        if named in self.left_out:
            return None
        found = self.named(named)
        if found is None:
            raise ValueError(f"it is about {named}, which is neither among the tables of this topic nor in `left_out`")
        return found

    def named(self, name: str) -> TopicTable | None:
        return next((one for one in self.tables if one.named == name), None)

    def of_database(self, database: str) -> Sequence[TopicTable]:
        return [one for one in self.tables if one.named.startswith(f"{database}.")]


def named_in(message: Fields) -> str:
    return f"{required(message, 'database', str)}.{required(message, 'table', str)}"
