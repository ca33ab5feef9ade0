"""What PostgreSQL says, in Seamline's words: whether it is worth trying again is the one thing that must be right."""

import psycopg
import pytest
from psycopg import errors

from seamline.adapters.postgres.client import seamline_error
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
