"""What PostgreSQL says, in Seamline's words: whether it is worth trying again is the one thing that must be right."""

import psycopg
import pytest
from psycopg import errors

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import cannot_connect, seamline_error
from seamline.domain.errors import InvariantViolated, Refused, SchemaConflict, SeamlineError, TransientError


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (errors.AdminShutdown, TransientError),
        (errors.DiskFull, TransientError),
        (errors.LockNotAvailable, TransientError),
        (errors.SerializationFailure, TransientError),
        # The address leads to a standby after a failover.
        (errors.ReadOnlySqlTransaction, TransientError),
        (errors.IdleInTransactionSessionTimeout, TransientError),
        (errors.TransactionTimeout, TransientError),
        (errors.QueryCanceled, TransientError),
        (errors.IoError, TransientError),
        (errors.ObjectInUse, TransientError),
        # The client calls these operational too.
        (errors.ProgramLimitExceeded, SchemaConflict),
        (errors.StatementTooComplex, SchemaConflict),
        (errors.ObjectNotInPrerequisiteState, SchemaConflict),
        (errors.TriggeredDataChangeViolation, SchemaConflict),
        (errors.FdwError, SchemaConflict),
        (errors.RaiseException, SchemaConflict),
        (psycopg.OperationalError, TransientError),
        (errors.InsufficientPrivilege, Refused),
        (errors.UndefinedTable, SchemaConflict),
        # Somebody has given a column another type.
        (errors.UndefinedFunction, SchemaConflict),
        (errors.NumericValueOutOfRange, SchemaConflict),
        (errors.NotNullViolation, SchemaConflict),
        (errors.SyntaxError, InvariantViolated),
    ],
)
def test_an_error_of_the_destination_is_final_only_where_no_repeat_helps(
    said: type[psycopg.Error], meant: type[SeamlineError]
) -> None:
    error = seamline_error(said("words"), "apply a span", table="account")
    assert type(error) is meant
    assert error.table == "account"
    assert "apply a span: words" in error.message
    assert error.hint or meant is InvariantViolated


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("index row size 3088 exceeds btree version 4 maximum 2704 for index", "Where somebody made the index there"),
        ("index row requires 8296 bytes, maximum size is 8191", "Where somebody made the index there"),
        ("row is too big: size 8168, maximum size 8160", "divide it at the source"),
        ("target lists can have at most 1664 entries", "a limit of the destination's server"),
    ],
)
def test_each_limit_of_the_server_has_its_own_cure(said: str, cure: str) -> None:
    hint = seamline_error(errors.ProgramLimitExceeded(said), "apply a span", table="account").hint
    assert cure in hint and "parked: <why>" in hint
    assert ("index" in hint) == said.startswith("index")


def test_a_login_that_its_owner_has_closed_is_called_refused_and_is_tried_again() -> None:
    """Found by a newcomer: the cure spoke of a server that cannot be reached."""
    connection = Connection("warehouse", "postgres", "127.0.0.1", 5432)
    error = cannot_connect(connection, psycopg.OperationalError('FATAL:  role "writer" is not permitted to log in'))
    assert type(error) is TransientError
    assert "refuses the session" in error.message
    assert "its owner allows it" in error.hint and "./seamline grants" in error.hint
    away = cannot_connect(connection, psycopg.OperationalError("Connection refused"))
    assert "cannot be reached" in away.message
