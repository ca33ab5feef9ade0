"""A session of a JDBC source, whose process may end at any byte: rows are all there, or the read fails."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import InvariantViolated, TransientError
from seamline.sources.jdbc import session
from seamline.sources.jdbc.session import JdbcSession

# A job that answers as the one with a JVM, with three batches of two rows; what comes behind them says the query.
JOB = """
    import json, pathlib, sys

    def say(**said):
        sys.stdout.buffer.write(json.dumps(said).encode() + b"\\n")

    for line in sys.stdin:
        ((what, about),) = json.loads(line).items()
        if what == "open":
            say(ok={"product": "Db 1", "is_serializable": True, "quote": '"'})
        else:
            say(ok=None)
            stream = pathlib.Path(__file__).with_name("stream").read_bytes()
            sys.stdout.buffer.write(stream[:-8] if about == "cut" else stream)
            if about == "cut":
                break
            say(**({"error": "no more"} if about == "error" else {"ok": 8 if about == "few" else 6}))
        sys.stdout.buffer.flush()
"""


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JdbcSession]:
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    batch = pa.record_batch({"a": [1, 2]})
    with pa.ipc.new_stream(tmp_path / "stream", batch.schema) as stream:
        for _ in range(3):
            stream.write_batch(batch)
    monkeypatch.setattr(session, "_JOB", str(tmp_path / "job.py"))
    monkeypatch.setattr(session, "_ENDS_WITHIN_S", 1)
    made = JdbcSession(Connection("bank", "jdbc", "jdbc:a", 0, extra={"driver_class": "a.Driver"}))
    yield made
    made.close()


def test_a_read_gives_all_its_rows_and_so_does_the_next_one_behind_a_read_that_was_given_up(
    opened: JdbcSession,
) -> None:
    assert next(opened.batches("all")).num_rows == 2
    assert sum(batch.num_rows for batch in opened.batches("all")) == 6


@pytest.mark.parametrize(("query", "said"), [("cut", "has ended"), ("error", "no more"), ("few", "has ended")])
def test_a_read_that_is_not_whole_fails_also_where_it_was_cut_off_between_two_batches(
    query: str, said: str, opened: JdbcSession
) -> None:
    with pytest.raises(TransientError, match=said):
        list(opened.batches(query))


def test_a_read_that_was_given_up_for_another_one_does_not_end_as_if_it_were_whole(opened: JdbcSession) -> None:
    first = opened.batches("all")
    next(first)
    assert len(list(opened.batches("all"))) == 3
    with pytest.raises(InvariantViolated, match="given up for another one"):
        next(first)
