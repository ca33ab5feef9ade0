"""What every sink says of a destination that does not hold what it had confirmed: it was restored, or failed over."""

from dataclasses import replace

import pytest

from seamline.domain.errors import WentBack
from seamline.domain.ledger import LedgerRow
from tests.contract.behaviours import Applying, Behaviour, account, published
from tests.contract.worlds import World
from tests.log_topic import ACCOUNT, STREAM, insert


def a_destination_that_was_put_back_to_an_older_epoch_is_not_taken_for_another_owner(world: World) -> None:
    stream = published(world)
    backup = replace(stream.lease.ledger, epoch=stream.lease.epoch - 1)
    stream.span(insert(ACCOUNT, **account(1)))
    _goes_back(world, stream, backup)


def a_destination_that_failed_over_to_a_replica_that_was_behind_is_not_taken_for_our_own_bug(world: World) -> None:
    stream = published(world)
    behind = stream.span(insert(ACCOUNT, **account(1))).ledger
    stream.span(insert(ACCOUNT, **account(2)))
    _goes_back(world, stream, behind)


def _goes_back(world: World, stream: Applying, ledger: LedgerRow) -> None:
    """Who had its commits confirmed gets an error and writes nothing; who comes next goes on from the ledger."""
    world.put_back(ledger)
    before = world.rows(ACCOUNT)
    with pytest.raises(WentBack, match=f"stands at offset {ledger.next_offset} under epoch {ledger.epoch}") as raised:
        stream.span(insert(ACCOUNT, **account(9)))
    assert "seamline stream restart settlement warehouse" in raised.value.hint
    with pytest.raises(WentBack):
        stream.sink.acquire(STREAM, after_epoch=stream.lease.epoch)
    assert world.rows(ACCOUNT) == before
    again = Applying(world)
    assert (again.lease.epoch, again.next_offset) == (ledger.epoch + 1, ledger.next_offset)
    again.span(insert(ACCOUNT, **account(3)))
    assert len(world.rows(ACCOUNT)) == len(before) + 1


GOING_BACK_BEHAVIOURS: list[Behaviour] = [
    a_destination_that_was_put_back_to_an_older_epoch_is_not_taken_for_another_owner,
    a_destination_that_failed_over_to_a_replica_that_was_behind_is_not_taken_for_our_own_bug,
]
