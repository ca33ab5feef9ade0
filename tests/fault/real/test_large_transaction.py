"""A million rows in one transaction: in bounded memory, killed half-way, visible all at once.

`./seamline test fault --pytest="-k large"`.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from seamline import settings
from seamline.plan.document import plan_to_json
from seamline.ports import Orders
from tests.conftest import RunningStack
from tests.fault.real.report import Tally
from tests.fault.real.worker import write_whole
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.streamed import DESTINATION, Streamed, streamed
from tests.waiting import wait_until

ROWS = 500_000
# What is read ahead and one chunk, whatever the transaction: more rows need no more (tried with three million).
MEMORY_MAX_MIB = 850
WITHIN_S = 240.0
# Half of the rows have a key; of those without one each is there fifty thousand times.
ACCOUNTS = "INSERT INTO account SELECT {n}, {n} % 7, concat('row ', {n}, ' ', repeat('x', 60)) FROM {numbers}"
AUDITS = "INSERT INTO audit SELECT {n} % 10, repeat('alike ', 12) FROM {numbers}"
NUMBERS = {"mariadb": ("seq", f"seq_1_to_{ROWS}"), "postgres": ("n", f"generate_series(1, {ROWS}) AS n")}
KINDS: dict[str, Callable[[str], AbstractContextManager[Captured]]] = {
    "mariadb": captured,
    "postgres": captured_postgres,
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_million_rows_in_one_transaction_need_little_memory_and_appear_at_once(
    kind: str, stack: RunningStack, tally: Tally, tmp_path: Path
) -> None:
    with (
        KINDS[kind](f"large_{kind}") as one,
        postgres_database(f"large_{kind}_warehouse") as database,
        destination_known_by_id(database, DESTINATION.connection),
        streamed(one, database, "account", "audit") as stream,
    ):
        write_whole(tmp_path / "plan.json", plan_to_json(stream.plan))
        write_whole(tmp_path / "run_id", "large")
        write_whole(tmp_path / "orders.json", json.dumps(asdict(Orders())))
        fill(kind, one)
        with worker(tmp_path) as first:
            wait_until(lambda: chunks(stream), timeout_s=WITHIN_S, what="a part of it to be spilled")
            first.kill()
        assert visible(stream) == 0
        with worker(tmp_path) as second:
            seen: set[int] = set()

            def is_applied() -> bool:
                assert second.poll() is None, (tmp_path / "stream.log").read_text(encoding="utf-8")[-1500:]
                seen.add(visible(stream))
                return max(seen) > 0

            wait_until(is_applied, timeout_s=WITHIN_S, what="its rows")
            assert seen == {0, ROWS}
            memory = peak_mib(second.pid)
        assert stream.differences("account", "audit") == {}
        assert stream.findings() == 0
        assert chunks(stream) == []
        assert memory < MEMORY_MAX_MIB
        tally.proven[
            f"{kind}: {2 * ROWS:,} rows of one transaction, the worker killed half-way, committed once, in {memory} MiB"
            f" (of {MEMORY_MAX_MIB} that it may need)"
        ] += 1


def fill(kind: str, one: Captured) -> None:
    name, numbers = NUMBERS[kind]
    opened = mariadb(one.root) if kind == "mariadb" else postgres(one.root)
    with closing(opened) as session, session.cursor() as cursor:
        cursor.execute("BEGIN")
        for statement in (ACCOUNTS, AUDITS):
            cursor.execute(statement.format(n=name, numbers=numbers))
        cursor.execute("COMMIT")


@contextmanager
def worker(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with (folder / "stream.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.real.worker", "stream", str(folder)],
            cwd=Path(__file__).parents[3],
            env=settings.process_environment(),
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def visible(stream: Streamed) -> int:
    [(count,)] = stream.query("SELECT count(*) FROM live.account")
    return int(count)


def chunks(stream: Streamed) -> list[str]:
    rows = stream.query("SELECT relname FROM pg_class WHERE relkind = 'r' AND starts_with(relname, 'seamline_chunks_')")
    return [name for (name,) in rows]


def peak_mib(pid: int) -> int:
    """The most memory that the process ever had at once (proc(5): VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024
