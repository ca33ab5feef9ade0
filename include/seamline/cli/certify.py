"""Write the parity certificate of a sync: probe rows of its own tables go through the snapshot path and the log path.

Both must store every edge value alike. The probe tables are made in the source by the owner of its tables, and
everything is removed at the end; the sync itself, its capture and its tables are not touched.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from seamline import registry, settings
from seamline.adapters.connect.debezium_capture import CONNECT_CONNECTION, open_capture, open_topics
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import resolve
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.cli.answer import give, say
from seamline.domain.certificate import Certificate, Parity, markdown
from seamline.domain.errors import ConfigError
from seamline.kinds.found import logged_kind
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.spec.faults import guess
from seamline.spec.load import load_declarations
from seamline.sync.certify import certify, own_plan
from seamline.sync.probe_run import CertifyTools, ProbedSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", help="name of the sync")
    parser.add_argument(
        "--owner", required=True, metavar="CONNECTION", help="connection id of the owner of the source's tables"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: certificate-<sync>.md")
    parser.epilog = "Ends with 0 only if every column is SAME. Rights: docs/reference/certificate.md"


def run(args: argparse.Namespace) -> int:
    plan = _plan(args.sync, args.owner)
    own = own_plan(plan, args.owner)
    with _tools(own, lambda text: say(args, text)) as tools:
        certificate = certify(plan, own, tools)
    out = args.out or Path(f"certificate-{args.sync}.md")
    out.write_text(markdown(certificate), encoding="utf-8")
    sys.stdout.write(f"{certificate.verdict}  {out}\n")
    give(args, {"file": str(out), "verdict": certificate.verdict, "destinations": _documents(certificate)})
    return 0 if certificate.verdict is Parity.SAME else 1


def _plan(name: str, owner: str) -> SyncPlan:
    """With the definitions of the tables as the source's catalogue has them, into the destinations with live tables."""
    declarations = load_declarations(settings.load().declarations)
    if name not in declarations.syncs:
        raise ConfigError(f"there is no sync `{name}`", hint=guess(name, sorted(declarations.syncs)))
    resolve(owner)
    plan = compile_plan(declarations, name)
    if not plan.streamed.destinations:
        raise ConfigError(f"sync `{name}` takes cuts only", hint="a certificate is about what streams and loads store")
    survey = registry.source(plan).survey([table.name for table in plan.tables])
    return compile_plan(declarations, name, survey).streamed


@contextmanager
def _tools(own: SyncPlan, on_progress: Callable[[str], None]) -> Iterator[CertifyTools]:
    connector = logged_kind(own.source.kind).connector().plugin
    with closing(registry.probes(own.source)) as probes:
        yield CertifyTools(
            probes=probes,
            source=cast("ProbedSource", registry.source(own)),
            connect=open_capture(own.source),
            topics=open_topics(own.source),
            open_log=registry.log_reader,
            open_read=lambda run: (
                RunReader(run, tasks=lambda _: 1, copying_of=lambda groups, _: CopyingHere(groups)).open_read
            ),
            open_sink=registry.sink,
            open_schema_guard=registry.schema_guard,
            open_view=lambda plan, name: registry.destination_views(plan, name, 1)[0],
            open_destination=registry.probed,
            versions=(("connector", _connector(connector)), ("Seamline", version("seamline"))),
            say=on_progress,
        )


def _documents(certificate: Certificate) -> list[dict[str, Any]]:
    """Of each destination its columns, each with its verdict."""
    return [
        {
            **asdict(one),
            "verdict": one.verdict,
            "columns": [{**asdict(column), "verdict": column.verdict} for column in one.columns],
        }
        for one in certificate.destinations
    ]


def _connector(name: str) -> str:
    versions: Sequence[str] = ConnectClient(resolve(CONNECT_CONNECTION)).plugin_versions().get(name, ())
    return f"{name} {', '.join(versions)}".strip()
