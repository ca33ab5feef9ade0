"""What nobody needs any more goes, a page at a time: no other client waits for long."""

from collections.abc import Callable, Mapping
from typing import Any

from seamline.domain.ledger import StreamId
from seamline.sinks.redis.keys import Keyspace, TableKeys
from seamline.sinks.redis.scripts import DROP_ROWS
from seamline.sinks.redis.session import Session, translated

_PAGE = 5_000


def forgotten(keys: Keyspace, stream: StreamId | str) -> Mapping[str, Any]:
    """Everything that a stream has recorded of itself, as a script forgets it."""
    kept = [keys.of_stream(name, stream) for name in ("ledger", "runs", "findings")]
    return {"stream": str(stream), "keys": kept, "chunks": keys.of_stream("chunks", stream)}


def drop_rows(session: Session, table: TableKeys) -> None:
    """All rows of a table, and their index."""
    with translated("remove rows"):
        while session.run(DROP_ROWS, [table.index], table.rows, _PAGE):
            pass


def drop_staged(session: Session, keys: Keyspace, name: str) -> None:
    drop_rows(session, keys.staged(name))
    with translated("remove a staged table"):
        session.client.hdel(keys.own("staged"), name)
        session.client.hdel(keys.own("written"), name)


def forget_tables(session: Session, keys: Keyspace, is_over: Callable[[str], bool]) -> int:
    """The tables whose owner `is_over`; how many. Whoever comes next goes on where this ends."""
    with translated("look for tables"):
        found = session.fields(keys.own("tables"))
    names = [name for name, owner in found.items() if is_over(owner)]
    for name in names:
        drop_rows(session, keys.named(name))
        with translated("remove a table"):
            session.client.hdel(keys.own("tables"), name)
    return len(names)
