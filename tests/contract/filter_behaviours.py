"""What changes of rows do that a table does not hold, because a transform takes them out."""

from collections.abc import Sequence

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.values.changes import ChangeDecoder
from tests.contract.behaviours import Behaviour, account, published, texts
from tests.contract.worlds import World
from tests.log_topic import ACCOUNT, delete, insert, update

FILTER_BEHAVIOURS: list[Behaviour] = []


def behaviour(function: Behaviour) -> Behaviour:
    FILTER_BEHAVIOURS.append(function)
    return function


class _AllButOut:
    """`TakesRowsOut`: of the source's rows those that are not called `out`."""

    def __init__(self, decoder: ChangeDecoder) -> None:
        self.rows = decoder.rows

    def held(
        self,
        table: Table,
        images: Sequence[bytes],
        *,
        deleted: Sequence[bool],  # noqa: ARG002
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None, pa.BooleanArray | None]:
        rows, missing = self.rows(table, images)
        return rows, missing, pa.array([name != "out" for name in rows.column("name").to_pylist()])


@behaviour
def a_row_that_the_destination_does_not_hold_any_more_goes_and_is_no_finding(world: World) -> None:
    stream = published(world)
    stream.sink._decoder = _AllButOut(stream.sink._decoder)  # type: ignore[attr-defined]
    stream.span(*(insert(ACCOUNT, **account(number, name)) for number, name in ((1, "a"), (2, "out"), (3, "b"))))
    # Of a row that was never held nothing is there to be changed or to go.
    changes = (
        update(ACCOUNT, account(1, "a"), account(1, "out")),
        update(ACCOUNT, account(2, "out"), account(2, "in")),
        insert(ACCOUNT, **account(4, "out")),
        delete(ACCOUNT, **account(3, "b")),
        delete(ACCOUNT, **account(4, "out")),
        insert(ACCOUNT, **account(5, "out")),
    )
    stream.span(*changes)
    assert world.rows(ACCOUNT) == texts(account(2, "in"))
    stream.span(update(ACCOUNT, account(2, "in"), account(2, "out")), insert(ACCOUNT, **account(6, "f")), chunks=2)
    assert world.rows(ACCOUNT) == texts(account(6, "f"))
    assert world.findings() == []
