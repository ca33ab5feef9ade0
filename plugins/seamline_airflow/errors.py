"""Where Seamline's errors become Airflow's: the class of the error decides whether Airflow tries again.

Airflow is the one retry owner of a task (`retries` of the DAG). What cannot get better by itself fails at once.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from seamline.domain.errors import (
    CommitUnknown,
    ConfigError,
    InvariantViolated,
    SeamlineError,
    TerminalError,
    TransientError,
)
from seamline_airflow.logins import take_from_airflow

log = logging.getLogger(__name__)

# Exit codes by which a Spark driver says which of the three it was (`SeamlineError.exit_code`; 2 is a wrong setting).
EXIT_CODES_FINAL = frozenset({ConfigError.exit_code, TerminalError.exit_code, InvariantViolated.exit_code})


@contextmanager
def task_errors() -> Iterator[None]:
    """The edge of a task: final errors fail the task at once, the others leave it to Airflow's retries.

    A lost answer of a commit is retried: every step is safe to repeat and finds out first what was done. The message
    is also a line of the log of its own, because Airflow folds an exception into the details of another line. Before
    anything is done the connections file is brought up to what Airflow knows now, where that is asked for.
    """
    try:
        take_from_airflow()
        yield
    except (ConfigError, TerminalError, InvariantViolated) as exc:
        raise AirflowFailException(_described(exc)) from exc
    except (TransientError, CommitUnknown) as exc:
        raise AirflowException(_described(exc)) from exc


def _described(error: SeamlineError) -> str:
    text = f"{type(error).__name__}: {error}"
    log.error("%s", text)
    return text
