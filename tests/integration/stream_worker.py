"""A stream's worker as a process of its own, over a log that every process of a test builds alike.

It is forked by one that has imported all that it needs, as a stream's is by Spark's daemon. Ends with 0 when all is
applied, 3 when it was fenced, 4 when the world went away.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess

from seamline import settings
from seamline.adapters import failpoints
from seamline.domain.errors import Fenced, TransientError
from seamline.plan.model import StreamPlan
from seamline.sinks.postgres.sink import open_sink
from seamline.sync.span_loop import run_stream
from tests.bank_history import text_of
from tests.log_topic import ACCOUNT, AUDIT, LogTopic, ScriptedControl, TopicReader, insert, sync_plan, update
from tests.opened_sink import decoder_of

TRANSACTIONS = 60
FENCED, AWAY = 3, 4
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])


def started(environment: Mapping[str, str]) -> ForkServerProcess:
    """The sink's connection and failpoints come from this environment, which is all that it has."""
    worker = FORKED.Process(target=_work, args=(dict(environment),))
    worker.start()
    return worker


def bank_log() -> tuple[LogTopic, list[dict[str, list[str]]]]:
    """The log, and the account and audit rows after each of its transactions."""
    log, accounts, audit = LogTopic(), {}, []
    states: list[dict[str, list[str]]] = [{"account": [], "audit": []}]
    for n in range(TRANSACTIONS):
        changes = []
        for number in (n % 7, 10 + n % 3):
            row = {"id": number, "name": f"v{n}"}
            known = accounts.get(number)
            changes.append(insert(ACCOUNT, **row) if known is None else update(ACCOUNT, known, row))
            accounts[number] = row
        entry = {"actor": "x", "action": str(n % 3)}
        audit.append(entry)
        log.transaction(*changes, insert(AUDIT, **entry))
        states.append({"account": sorted(map(text_of, accounts.values())), "audit": sorted(map(text_of, audit))})
    return log, states


def _work(environment: Mapping[str, str]) -> None:
    # A fork has the environment of whoever forked it, which is the first one's.
    os.environ.clear()  # noqa: TID251 (a process of its own is given its own)
    os.environ.update(environment)  # noqa: TID251
    sys.exit(_stream())


def _stream() -> int:
    log, _ = bank_log()
    plan = sync_plan(stream=StreamPlan(span_changes_max=6))
    reader = TopicReader(log, at_most=10)
    try:
        run_stream(
            plan,
            "warehouse",
            reader=reader,
            sink=open_sink(plan, plan.destinations[0], decoder=decoder_of(plan)),
            control=ScriptedControl(reader),
            failpoints=failpoints.from_environment(settings.process_environment()),
        )
    except Fenced as exc:
        sys.stderr.write(f"{exc}\n")
        return FENCED
    except TransientError as exc:
        sys.stderr.write(f"{exc}\n")
        return AWAY
    return 0
