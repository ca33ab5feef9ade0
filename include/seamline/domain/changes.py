"""What one span does to one table, after compaction. Rows stay raw JSON; adapters give them types."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class KeyedChange:
    """The newest change of one key. `row` is the after image, or for a delete the before image.

    `taken_from`: the key of the stored row that has the values which `row` lacks, where that is not its own key.
    `replaced`: for a delete, the newest image of the row in this span before it, if there was one.
    `met_row` says what the first change of the key in this span expects to find: True for an update or delete, False
    for an insert. Meeting the opposite is a finding. None: the log does not say.
    """

    key: bytes
    is_delete: bool
    met_row: bool | None
    row: bytes
    offset: int
    taken_from: bytes | None = None
    replaced: bytes | None = None


@dataclass(slots=True)
class TableChanges:
    """Keyed tables fill `keyed`; keyless tables fill `net` (raw row → copies to add, or to remove when negative).

    `chunk` 1, 2, …: a part of a transaction that is larger than memory. The sink spills it to where readers see
    nothing and joins the chunks, in this order, in the one commit of the transaction. 0: a whole batch, or the rest
    behind all chunks. `truncate_first`: the table was emptied before these changes; that also undoes earlier chunks.
    """

    table: str
    keyed: list[KeyedChange] = field(default_factory=list)
    net: dict[bytes, int] = field(default_factory=dict)
    truncate_first: bool = False
    changes_in: int = 0
    chunk: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.keyed and not self.net and not self.truncate_first


@dataclass(frozen=True, slots=True)
class Finding:
    """A change that met something else than the log promises; applied, counted, kept, and the next verdict is BREAK."""

    table: str
    kind: str
    key: str
    offset: int


@dataclass(frozen=True, slots=True)
class FindingsReported:
    """How far a destination's findings are reported: their newest number, and when the newest was kept there.

    Numbers alone do not say it: a destination that was put back from a backup counts from there again. `kept_at` is by
    the destination's clock, in ISO 8601; "" where it is not known.
    """

    number: int = 0
    kept_at: str = ""
