"""A transaction larger than what a stream keeps in memory, of a writer of its own: its rows come, and the next one of
them takes them away again."""

from collections import Counter
from contextlib import closing

from seamline.sync.pace import Pace
from tests.fault.real.bank_plus import ATTEMPTS_PER_WRITER
from tests.fault.real.bank_under_fire import BankUnderFire
from tests.fault.real.history import Attempt, Outcome
from tests.fault.real.kinds import SESSIONS

_WRITER = 100
_ACTOR = "crowd"
# Wide ones: few records are soon captured and read.
_WIDE = "wide ü" * 600
_KINDS_OF_ROWS = 10
_COPIES = Pace().chunk_bytes_max * 5 // 4 // len(_WIDE) // _KINDS_OF_ROWS
_ROWS = _COPIES * _KINDS_OF_ROWS
_NUMBERS = {"mariadb": f"seq_1_to_{_ROWS}", "postgres": f"generate_series(1, {_ROWS}) AS seq"}


def commit_large_transaction(bank: BankUnderFire) -> None:
    with closing(SESSIONS[bank.kind](bank.source.root)) as session, session.cursor() as cursor:
        cursor.execute("SELECT coalesce(max(n), 0) + 1 FROM seq WHERE writer = %s", (_WRITER,))
        (number,) = cursor.fetchone()
        attempt_id = _WRITER * ATTEMPTS_PER_WRITER + number
        is_there = number % 2 == 0
        if is_there:
            cursor.execute("DELETE FROM audit WHERE actor = %s", (_ACTOR,))
        else:
            row = f"%s, concat(mod(seq, {_KINDS_OF_ROWS}), '{_WIDE}')"
            cursor.execute(f"INSERT INTO audit SELECT {row} FROM {_NUMBERS[bank.kind]}", (_ACTOR,))
        cursor.execute("INSERT INTO seq (writer, n, attempt) VALUES (%s, %s, %s)", (_WRITER, number, attempt_id))
        session.commit()
    copies = -_COPIES if is_there else _COPIES
    audit = Counter({(_ACTOR, f"{kind}{_WIDE}"): copies for kind in range(_KINDS_OF_ROWS)})
    bank.writers.history.append(Attempt(attempt_id, _WRITER, "large", Outcome.OK, number, audit=audit))
