"""A task that puts tables in place in several destinations: one that fails keeps no other from what follows."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from seamline.domain.runs import NOT_PUBLISHED
from seamline_airflow import parts

log = logging.getLogger(__name__)


@contextmanager
def others_go_on(run_id: str, context: Any) -> Iterator[None]:
    """Airflow tries again first, where that may help. Behind the last try the task ends well if any destination has its
    tables: the run's last task is red then, and says what the others lack."""
    try:
        yield
    except AirflowException as exc:
        with parts.platform() as store:
            run = store.run(run_id)
        # What ended all, as a bug of ours does, names no destination.
        if not (ends_task(exc, context) and run.published_into and run.result.get(NOT_PUBLISHED)):
            raise
        log.error("%s go on without the others: %s", ", ".join(run.published_into), exc)


def ends_task(exc: AirflowException, context: Any) -> bool:
    """Whether Airflow does not try the task again behind this error."""
    return isinstance(exc, AirflowFailException) or is_last_try(context)


def is_last_try(context: Any) -> bool:
    ti = context["ti"]
    return bool(ti.try_number > ti.max_tries)
