"""`status --watch`: one look after the other, until a person ends it with ctrl-C.

On a terminal each look takes the place of the one before; elsewhere it follows it, as plain text.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta

from seamline import registry
from seamline.adapters.airflow_rest import AirflowRest, DagRun
from seamline.cli import in_airflow, seen
from seamline.cli.watch_text import Watched, clipped, lines
from seamline.domain.errors import ConfigError, SeamlineError
from seamline.domain.work_under_way import WorkUnderWay
from seamline.stack.layout import Layout

# A file that is written into grows by each look.
EVERY_S, EVERY_S_ELSEWHERE = 2.0, 10.0
_MINUTES, _STEP_S = 30, 60
# They watch, and run all day.
_ENDLESS = ("__stream", "__streams")
_HOME, _END_OF_LINE, _REST = "\x1b[H", "\x1b[K\n", "\x1b[J"
_BEGIN, _FINISH = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def run(args: argparse.Namespace, layout: Layout, names: Sequence[str]) -> int:
    """The exit code of `status` at the last look."""
    if args.json:
        raise ConfigError("--watch draws for people", hint="ask `./seamline status --json` as often as you like")
    code, every_s = 0, EVERY_S if sys.stdout.isatty() else EVERY_S_ELSEWHERE
    with _screen(), ExitStack() as ends:
        api = _opened(ends)
        try:
            while True:
                found, code = _look(layout, names, api)
                _draw(found)
                time.sleep(every_s)
        except KeyboardInterrupt:
            return code


def _look(layout: Layout, names: Sequence[str], api: AirflowRest | str) -> tuple[list[str], int]:
    """Lines, and the exit code. What cannot be asked now may answer at the next look."""
    at, processes = datetime.now(UTC).astimezone(), seen.processes(layout)
    try:
        found = seen.look(layout, names)
        with closing(registry.director()) as director, closing(registry.work()) as work:
            lags, breaks = director.lags(steps=_MINUTES, step_s=_STEP_S), work.waiting(names)
    except SeamlineError as error:
        return [f"{at:%Y-%m-%d %H:%M:%S}  {processes}", "", *str(error).splitlines()], error.exit_code
    under_way, why = _under_way(api, names)
    return lines(Watched(at, processes, found, lags, under_way, why, breaks)), int(found.is_red)


def _opened(ends: ExitStack) -> AirflowRest | str:
    """Why there is none, where it is not known where it answers."""
    try:
        return ends.enter_context(in_airflow.airflow())
    except ConfigError as error:
        return error.message


def _under_way(api: AirflowRest | str, names: Sequence[str]) -> tuple[list[WorkUnderWay] | None, str]:
    if isinstance(api, str):
        return None, api
    try:
        runs = [one for one in api.runs_under_way() if _is_work(one, names)]
        lengths = {dag_id: api.lengths(dag_id) for dag_id in {one.dag_id for one in runs if one.started_at}}
        return [_work(api, one, lengths.get(one.dag_id, [])) for one in runs], ""
    except SeamlineError as error:
        return None, error.message


def _is_work(run: DagRun, names: Sequence[str]) -> bool:
    return run.dag_id.partition("__")[0] in (*names, "seamline") and not run.dag_id.endswith(_ENDLESS)


def _work(api: AirflowRest, run: DagRun, lengths: Sequence[timedelta]) -> WorkUnderWay:
    about = run.partition_key or ""
    if not run.started_at:
        return WorkUnderWay(run.dag_id, run.run_id, about)
    tasks = [one.state for one in api.tasks(run.dag_id, run.run_id)]
    return WorkUnderWay(run.dag_id, run.run_id, about, datetime.fromisoformat(run.started_at), tasks, lengths)


@contextmanager
def _screen() -> Iterator[None]:
    """One of its own; what stood on the terminal before stands there afterwards."""
    if not sys.stdout.isatty():
        yield
        return
    sys.stdout.write(_BEGIN)
    try:
        yield
    finally:
        sys.stdout.write(_FINISH)
        sys.stdout.flush()


def _draw(found: Sequence[str]) -> None:
    if not sys.stdout.isatty():
        sys.stdout.write("".join(f"{line}\n" for line in [*found, ""]))
    else:
        size = shutil.get_terminal_size()
        shown = [clipped(line, size.columns) for line in found[: size.lines - 1]]
        sys.stdout.write(_HOME + "".join(line + _END_OF_LINE for line in shown) + _REST)
    sys.stdout.flush()
