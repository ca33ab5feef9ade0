"""A disk is full for a while: the broker's, the source's, the destination's. All that has to go on then goes on.

`./seamline test fault --pytest="-k disk"`. A full server may end; who makes room starts it again, and nothing else.
"""

import time
from pathlib import Path

import pytest

from seamline.ports import Orders
from seamline.stack.layout import Layout
from tests.conftest import RunningStack
from tests.fault.real.bank_under_fire import COMMITS_MIN, RECOVERY_MAX_S, BankUnderFire, bank_under_fire
from tests.fault.real.report import Tally, Trouble
from tests.fault.real.small_volume import SmallVolume, on_a_small_volume
from tests.fault.real.watched import watched
from tests.waiting import wait_until

FULL_S = 20.0
BACK_MAX_S = max(RECOVERY_MAX_S, 5 * FULL_S)
FREE_MIB = 256
# With a PostgreSQL source one server holds source and destination, and its WAL.
PLACES = (("mariadb", "kafka"), ("mariadb", "mariadb"), ("mariadb", "postgres"), ("postgres", "kafka"),
          ("postgres", "postgres"))  # fmt: skip
SAID = ("No space left on device", "Disk full", "Errcode: 28")


@pytest.mark.parametrize(("kind", "server"), PLACES)
def test_when_a_full_disk_has_room_again_the_stream_goes_on_and_nothing_is_lost_or_doubled(
    kind: str, server: str, stack: RunningStack, tally: Tally, tmp_path: Path
) -> None:
    layout = Layout(stack.settings)
    with (
        on_a_small_volume(layout, server, free_mib=FREE_MIB) as volume,
        bank_under_fire(kind, folder=tmp_path, seed=tally.seed) as bank,
        watched(bank),
    ):
        bank.order(Orders())
        bank.start("stream")
        bank.recovered(time.monotonic())
        before = bank.warehouse.commits_seen()
        said_before = layout.log_of(server).stat().st_size
        filled(volume, bank)
        recovery_s = bank.recovered(time.monotonic(), within_s=BACK_MAX_S / 2)
        assert any(text in said_since(layout, server, said_before) for text in SAID), "the server never met a full disk"
        wait_until(
            lambda: bank.keep_streaming() and bank.warehouse.commits_seen() >= before + COMMITS_MIN,
            timeout_s=RECOVERY_MAX_S,
            what=f"{COMMITS_MIN} commits of the stream",
        )
        bank.stop_stream()
        commits, violations = bank.new_commits()
        violations += bank.at_the_end()
        if recovery_s > BACK_MAX_S:
            violations.append(f"{kind}, disk of {server}: back after {recovery_s:.1f} s, {BACK_MAX_S:g} are allowed")
        tally.troubles.append(Trouble(kind, f"disk of {server} full", recovery_s, len(commits), tuple(violations)))
        assert violations == []


def filled(volume: SmallVolume, bank: BankUnderFire) -> None:
    """Full to the last byte for a while, and the stream is looked after as its host would; then there is room again."""
    until = time.monotonic() + FULL_S

    def is_over() -> bool:
        volume.fill()
        return bank.keep_streaming() and time.monotonic() > until

    try:
        wait_until(is_over, timeout_s=FULL_S + 60, what="the disk to have been full long enough")
    finally:
        volume.empty()
        volume.start_server()


def said_since(layout: Layout, server: str, offset: int) -> str:
    with layout.log_of(server).open("rb") as log:
        log.seek(offset)
        return log.read().decode(errors="replace")
