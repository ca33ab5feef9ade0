"""PlatformDriverRuns: one row per driver of a task, by which every machine finds, follows and ends it.

The clock is the database's. The driver's side (`begin`, `beat`, `finish`) changes a row only while it holds it.
"""

from collections.abc import Sequence
from dataclasses import replace

from psycopg.rows import TupleRow

from seamline.domain.driver_run import Claim, ClaimResult, DriverId, DriverRun, DriverState, Order
from seamline.domain.errors import InvariantViolated
from seamline.platform.database import Database, Session
from seamline.platform.host_lease import Holder, holder_of, is_known_dead

_ROW = """
select attempt, state, holder, extract(epoch from clock_timestamp() - heartbeat_at), log, end_ordered_by, exit_code,
    last_lines
from driver_run where name = %s
"""
_MINE = "where name = %(name)s and attempt = %(attempt)s and holder = %(holder)s and state = 'running'"
_LIVES = "where name = %(name)s and attempt = %(attempt)s and state in ('starting', 'running')"
# As a shell reports a process that SIGTERM ended.
TERMINATED = 143


def begin(session: Session, driver: DriverId, *, holder: Holder, log: str) -> Order:
    """Take the row over from its claimer, before the driver starts. A repeat by the same holder is a heartbeat."""
    session.execute(
        "update driver_run set state = 'running', holder = %(holder)s, log = %(log)s, started_at = clock_timestamp()"
        " where name = %(name)s and attempt = %(attempt)s and state = 'starting'",
        {**_of(driver), "holder": str(holder), "log": log},
    )
    return beat(session, driver, holder=holder)


def beat(session: Session, driver: DriverId, *, holder: Holder) -> Order:
    """Confirm that the driver lives, and hear what is asked of it."""
    row = session.execute(
        f"update driver_run set heartbeat_at = clock_timestamp() {_MINE} returning end_ordered_by".encode(),
        {**_of(driver), "holder": str(holder)},
    ).fetchone()
    if row is None:
        return Order.FENCED
    return Order.END if row[0] else Order.GO_ON


def finish(session: Session, driver: DriverId, *, holder: Holder, exit_code: int, last_lines: Sequence[str]) -> None:
    """Without effect on a row that was fenced."""
    session.execute(
        "update driver_run set state = 'ended', ended_at = clock_timestamp(), heartbeat_at = clock_timestamp(),"
        f" exit_code = %(exit_code)s, last_lines = %(last_lines)s {_MINE}".encode(),
        {**_of(driver), "holder": str(holder), "exit_code": exit_code, "last_lines": list(last_lines)},
    )


def _of(driver: DriverId) -> dict[str, object]:
    return {"name": driver.name, "attempt": driver.attempt}


class PlatformDriverRuns:
    """What tasks ask, on whatever machine. `holder` is the asking process."""

    def __init__(self, database: Database, *, holder: Holder) -> None:
        self._database = database
        self._holder = holder

    def close(self) -> None:
        self._database.close()

    def claim(self, name: str, *, above: int = 0) -> Claim:
        """The right to start the next driver of this name, its attempt greater than `above`; or the one that may live.

        A row whose driver cannot be alive is fenced in the same transaction: should it be, it finds out and ends.
        """

        def work(session: Session) -> Claim:
            # The name may have no row yet that could be locked.
            session.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"driver of {name}",))
            newest = _newest(session, name)
            if newest is not None and newest.may_live and not is_known_dead(holder_of(newest.holder)):
                result = ClaimResult.ENDING if newest.end_ordered_by else ClaimResult.LIVING
                return Claim(newest.driver, result)
            if newest is not None:
                _fence(session, newest.driver)
            attempt = max(newest.driver.attempt if newest is not None else 0, above) + 1
            session.execute(
                "insert into driver_run (name, attempt, state, holder) values (%s, %s, 'starting', %s)",
                (name, attempt, str(self._holder)),
            )
            return Claim(DriverId(name, attempt), ClaimResult.NEW)

        return self._database.transact(work)

    def read(self, driver: DriverId) -> DriverRun:
        """`LOST` also where this process sees that the holder is gone, and where there is no row any more."""
        found = self._read(driver)
        if not found.may_live or not is_known_dead(holder_of(found.holder)):
            return found
        # It may have written its end just before it went.
        found = self._read(driver)
        return replace(found, state=DriverState.LOST) if found.may_live else found

    def _read(self, driver: DriverId) -> DriverRun:
        def work(session: Session) -> DriverRun | None:
            row = session.execute(f"{_ROW} and attempt = %s".encode(), (driver.name, driver.attempt)).fetchone()
            return _run_of(driver.name, row) if row else None

        return self._database.transact(work) or DriverRun(driver, DriverState.LOST, "", 0.0)

    def order_end(self, driver: DriverId, *, by: str) -> None:
        """The driver's side obeys within seconds. One that has not begun never will. A repeat changes nothing."""
        if not by:
            raise InvariantViolated("an order needs somebody who gave it")
        self._database.transact(
            lambda session: session.execute(
                "update driver_run set end_ordered_by = %(by)s, end_ordered_at = clock_timestamp(),"
                f" exit_code = case when state = 'starting' then {TERMINATED} end,"
                " ended_at = case when state = 'starting' then clock_timestamp() end,"
                f" state = case when state = 'starting' then 'ended' else state end {_LIVES}"
                " and end_ordered_by = ''".encode(),
                {**_of(driver), "by": by},
            )
        )

    def fence(self, driver: DriverId) -> None:
        """For who has seen to it that nothing of the driver lives."""
        self._database.transact(lambda session: _fence(session, driver))


def _fence(session: Session, driver: DriverId) -> None:
    session.execute(
        f"update driver_run set state = 'lost', ended_at = clock_timestamp() {_LIVES}".encode(), _of(driver)
    )


def _newest(session: Session, name: str) -> DriverRun | None:
    row = session.execute(f"{_ROW} order by attempt desc limit 1".encode(), (name,)).fetchone()
    return _run_of(name, row) if row else None


def _run_of(name: str, row: TupleRow) -> DriverRun:
    attempt, state, holder, silent_s, log, ordered_by, exit_code, last_lines = row
    return DriverRun(
        driver=DriverId(name, attempt),
        state=DriverState(state),
        holder=holder,
        silent_s=float(silent_s),
        log=log,
        end_ordered_by=ordered_by,
        exit_code=exit_code,
        last_lines=tuple(last_lines),
    )
