"""What the archive of a log costs: records written to Parquet and read back, as maintenance does before it prunes.

Transactions of four rows of postings, as our connectors write them; the log is in memory and the archive in a folder,
so the clock is that of decoding, Parquet and digests. Goal: the files take at most half of the messages' bytes, and
every message comes back as it was.

No server takes part: `.seamline/env/venv/bin/python -m bench.log_archive`; `--records 1000000` for more.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from seamline.archive.part_file import ArchivedMessage
from seamline.archive.stored import PartLimits
from tests.checkout import day_and_commit
from tests.unit.test_log_archive import NAME, Log, archive

SHARE_MAX = 0.5
_AT_ONCE = 10_000


class Batches(Log):
    """As Kafka's client hands messages over."""

    def read(self, begins: int, ends: int) -> Iterator[Sequence[ArchivedMessage]]:
        for first in range(0, len(self.messages), _AT_ONCE):
            yield [one for one in self.messages[first : first + _AT_ONCE] if begins <= one.at < ends]


def write(log: Log, number: int, dice: random.Random) -> None:
    gtid = f"0-7-{number}"
    log.write({"status": "BEGIN", "id": gtid, "ts_ms": 5, "seamline": "whole"}, key=b'{"id":"%s"}' % gtid.encode())
    source = {"name": NAME, "ts_ms": 1, "db": "bank", "table": "entry", "gtid": gtid, "file": "b.000001", "pos": number}
    for row in range(4):
        image = {
            "id": number * 10 + row,
            "account_id": dice.randrange(10**6),
            "amount": f"{dice.random() * 1e5:.2f}",
            "currency": dice.choice(("CNY", "USD", "EUR")),
            "memo": f"{dice.getrandbits(120):030x}",
        }
        key = json.dumps({"id": image["id"]}).encode()
        log.write({"before": None, "after": image, "source": source, "op": "c"}, key=key)
    counts = [{"data_collection": "bank.entry", "event_count": 4}]
    log.write({"status": "END", "id": gtid, "event_count": 4, "data_collections": counts, "ts_ms": number})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    records, log, dice = parser.parse_args().records, Batches(), random.Random(7)
    for number in range(records // 6):
        write(log, number, dice)
    size = sum(len(one.its_value or b"") + len(one.its_key or b"") for one in log.messages)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        found = archive(Path(folder), log, limits=PartLimits()).extend(0, log.at)
        took_s = time.monotonic() - began
        began = time.monotonic()
        held = [one for some in archive(Path(folder), log).messages(0) for one in some]
        read_s = time.monotonic() - began
    share, is_same = found.size_bytes / size, held == log.messages
    print(f"{day_and_commit()}: {len(log.messages):,} records, {size / 1e6:.1f} MB of messages")
    print(f"  archived and read back: {len(log.messages) / took_s:,.0f} records/s; read: {len(held) / read_s:,.0f}/s")
    print(f"  files: {share:.0%} of the messages (goal: at most {SHARE_MAX:.0%}); every message as it was: {is_same}")
    return 0 if is_same and share <= SHARE_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
