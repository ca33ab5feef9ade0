"""What every sink must do for a repair of its live tables (ADR 61)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from seamline.domain.errors import Fenced
from seamline.domain.log import Span
from seamline.ports import Progress
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.worlds import World
from tests.log_topic import ACCOUNT, STREAM, delete, insert, update


def rows_are_put_right_under_an_epoch_of_its_own_where_the_ledger_stands(world: World) -> None:
    stream = published(world)
    before = stream.span(insert(ACCOUNT, **account(1)), insert(ACCOUNT, **account(2)), marker="m-7").ledger
    repair = Applying(world)
    changes = update(ACCOUNT, account(1), account(1, "b")), delete(ACCOUNT, **account(2)), insert(ACCOUNT, **account(3))
    staged = [repair.sink.stage(repair.lease, batch) for batch in repair.batches(*changes)]
    span = Span(before.next_offset, before.next_offset, 0, before.position, before.committed_ms)
    commit = repair.sink.commit(repair.lease, staged, progress=Progress(span))
    assert commit.ledger == world.sink().read_ledger(STREAM) == replace(before, epoch=before.epoch + 1)
    assert not commit.findings
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(3))
    with pytest.raises(Fenced):
        stream.span(insert(ACCOUNT, **account(4)))
    Applying(world).span(insert(ACCOUNT, **account(4)))
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(3), account(4))


REPAIR_BEHAVIOURS: list[Callable[[World], None]] = [
    rows_are_put_right_under_an_epoch_of_its_own_where_the_ledger_stands
]
