"""How keys are called. All keys of a destination begin with one hash tag, so a cluster would keep them in one slot,
where a script may touch them together.

| key | type | what it holds |
|---|---|---|
| `{<prefix>}:<table>:<key parts>` | hash | a row: column → canonical text; NULL is a field that is not there |
| `{<prefix>}@keys:<table>` | sorted set | the key parts of all rows of the table, in the order of their bytes |
| `{<prefix>}@tables` | hash | table → the stream that has made it |
| `{<prefix>}@ledger:<stream>` | hash | how far the stream has come |
| `{<prefix>}@runs:<stream>` | set | the runs that have published or joined |
| `{<prefix>}@findings:<stream>` | list | what the stream met that its log did not promise |
| `{<prefix>}@chunks:<stream>` | set | keys of parts of a large transaction that wait for its commit |
| `{<prefix>}@streams` | set | the streams that have a ledger |
| `{<prefix>}@staged`, `{<prefix>}@written` | hash | staged table → whose it is; how many bytes have come |
| `{<prefix>}@staged:<name>:<key parts>`, `{<prefix>}@staged_keys:<name>` | as above | a staged table |

Tables of an incremental snapshot have `_incremental_<mark>` behind the tag. In a name and in a key part `%` and `:` are
written `%25` and `%3A`; key parts stand in the order of the table's key, with `:` in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan

PREFIX = "prefix"


def escaped(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A") if "%" in part or ":" in part else part


@dataclass(frozen=True, slots=True)
class TableKeys:
    """Where the rows of one table lie: each under `rows` and its key parts, which stand in `index`. `name`: of the
    table in the hash of all tables."""

    rows: str
    index: str
    name: str


@dataclass(frozen=True, slots=True)
class Keyspace:
    """The keys of one destination."""

    prefix: str

    @staticmethod
    def of(destination: DestinationPlan) -> "Keyspace":
        return Keyspace(dict(destination.options)[PREFIX])

    def own(self, what: str) -> str:
        return f"{{{self.prefix}}}@{what}"

    def of_stream(self, what: str, stream: StreamId | str) -> str:
        return self.own(f"{what}:{stream}")

    def live(self, namespace: str, table: str) -> TableKeys:
        """`namespace`: the destination's own, or that of an incremental snapshot."""
        beside = namespace.removeprefix(self.prefix)
        name = f"{beside}:{escaped(table)}"
        return TableKeys(f"{{{self.prefix}}}{name}:", self.own(f"keys{name}"), name)

    def named(self, name: str) -> TableKeys:
        """By its name in the hash of all tables."""
        return TableKeys(f"{{{self.prefix}}}{name}:", self.own(f"keys{name}"), name)

    def staged(self, name: str) -> TableKeys:
        return TableKeys(self.own(f"staged:{escaped(name)}:"), self.own(f"staged_keys:{escaped(name)}"), name)


def key_parts(texts: Sequence[str]) -> str:
    """As they stand behind the table in a row's key."""
    return ":".join(map(escaped, texts))
