"""What commands share that start work in Airflow and follow it: the login, who and why, and the exit code."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

from seamline import settings
from seamline.adapters import connections
from seamline.adapters.airflow_rest import AirflowRest, TaskState
from seamline.cli.answer import error_document, give, say
from seamline.cli.person import person
from seamline.domain.backfill import Exit
from seamline.domain.errors import ConfigError, Refused, SeamlineError
from seamline.domain.person import one_line
from seamline.domain.runs import NightlyMode
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.spec.load import load_alone
from seamline.stack import credentials
from seamline.stack.layout import Layout
from seamline.sync.dates_asked import DatesAsked

CONNECTION = "airflow"
EXIT_CODES = (
    "Exit code: 0 all proven, 1 a break, 2 a mistake in what was asked (nothing was started), 3 not proven: not ended,"
    " failed, cancelled, inconclusive."
)


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why; kept with the run and on its page in Airflow"
    )
    parser.add_argument("--detach", action="store_true", help="start it and do not follow it")
    parser.epilog = EXIT_CODES


def add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--compare-only", action="store_true", help="end after the verdicts: readers get nothing new")
    parser.add_argument("--tables", default="", metavar="A,B", help="only these; needs --compare-only")


def asked_of(args: argparse.Namespace, first: date, last: date, **how: Any) -> DatesAsked:
    mode = NightlyMode.COMPARE_ONLY if args.compare_only else NightlyMode.PUBLISH
    tables = tuple(name.strip() for name in args.tables.split(",") if name.strip())
    return DatesAsked(first, last, mode, tables, args.reason, **how)


def plan_of(sync: str) -> SyncPlan:
    """By the files of this sync: those of others, right or wrong, keep no date of it."""
    return compile_plan(load_alone(settings.load().declarations / "syncs" / f"{sync}.yaml"), sync)


def day_of(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as exc:
        raise ConfigError(f"not a business date: {text!r}", hint="write it as YYYY-MM-DD") from exc


def note_of(reason: str, what: str = "") -> str:
    """Who and why, as the page of a run in Airflow shows it."""
    return f"{what or 'Started'} by {person()}: {one_line(reason) or 'no reason given'}"


@contextmanager
def airflow() -> Iterator[AirflowRest]:
    """Signed in by the connection `airflow`; where there is none, as the operator of the stack of this machine."""
    known = settings.load()
    if CONNECTION in connections.known_ids(within=known):
        at = connections.resolve(CONNECTION, within=known)
        scheme = "https" if at.kind == "https" else "http"
        url, user, password = f"{scheme}://{at.host}:{at.port}", at.login, at.password
    elif known.are_servers_here:
        url, user = f"http://127.0.0.1:{known.ports.airflow}", "operator"
        password = credentials.load_or_make(Layout(known))[f"airflow_user_{user}"]
    else:
        raise ConfigError(
            "it is not known where Airflow answers",
            hint=f"set SEAMLINE_CONNECTION_{CONNECTION.upper()}=http://user:password@host:port",
        )
    with AirflowRest(url, user, password) as opened:
        yield opened


def require_unpaused(api: AirflowRest, dag_id: str) -> None:
    if api.is_paused(dag_id):
        raise ConfigError(f"the DAG {dag_id} is paused: nothing of it would start", hint="unpause it in Airflow")


def with_exit_code(args: argparse.Namespace, work: Callable[[argparse.Namespace], Exit]) -> int:
    """What was refused before it started is a mistake; an error afterwards proves nothing, and is no break."""
    try:
        return int(work(args))
    except Refused as error:
        raise ConfigError(error.message, hint=error.hint, sync=error.sync) from error
    except ConfigError:
        raise
    except SeamlineError as error:
        sys.stderr.write(f"{error}\n")
        give(args, error_document(error))
        return int(Exit.NOT_PROVEN)


def say_task(args: argparse.Namespace, task: TaskState) -> None:
    """What a person follows of a task."""
    if task.state in ("running", "success", "failed"):
        say(args, f"  {task.task_id}: {task.state}")
