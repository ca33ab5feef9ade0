"""A transaction with more rows than a stream keeps in memory, of a writer of its own: they come, and the next one takes
them away again."""

from collections import Counter
from contextlib import closing

from seamline.sync.span_loop import Pace
from tests.fault.real.bank_plus import ATTEMPTS_PER_WRITER
from tests.fault.real.bank_under_fire import BankUnderFire
from tests.fault.real.history import Attempt, Outcome
from tests.fault.real.kinds import SESSIONS

ROWS = Pace().piece_rows_max * 11 // 10
_WRITER = 100
_ACTOR = "crowd"
_KINDS_OF_ROWS = 1_000
_NUMBERS = {"mariadb": f"seq_1_to_{ROWS}", "postgres": f"generate_series(1, {ROWS}) AS seq"}


def commit_large_transaction(bank: BankUnderFire) -> None:
    with closing(SESSIONS[bank.kind](bank.source.root)) as session, session.cursor() as cursor:
        cursor.execute("SELECT coalesce(max(n), 0) + 1 FROM seq WHERE writer = %s", (_WRITER,))
        (number,) = cursor.fetchone()
        attempt_id = _WRITER * ATTEMPTS_PER_WRITER + number
        is_there = number % 2 == 0
        if is_there:
            cursor.execute("DELETE FROM audit WHERE actor = %s", (_ACTOR,))
        else:
            row = f"%s, concat('row ', mod(seq, {_KINDS_OF_ROWS}))"
            cursor.execute(f"INSERT INTO audit SELECT {row} FROM {_NUMBERS[bank.kind]}", (_ACTOR,))
        cursor.execute("INSERT INTO seq (writer, n, attempt) VALUES (%s, %s, %s)", (_WRITER, number, attempt_id))
        session.commit()
    copies = ROWS // _KINDS_OF_ROWS
    audit = Counter({(_ACTOR, f"row {n}"): -copies if is_there else copies for n in range(_KINDS_OF_ROWS)})
    bank.writers.history.append(Attempt(attempt_id, _WRITER, "large", Outcome.OK, number, audit=audit))
