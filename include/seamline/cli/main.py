"""Dispatch of `seamline <command>`: a small table; each command's module is imported only when it is asked for."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from seamline import settings
from seamline.cli.answer import WITHOUT_JSON, CommandParser, add_json, answered
from seamline.domain.errors import ConfigError, SeamlineError

# One line per command. A command is the module `seamline.cli.<module>` with `add_arguments(parser)` and
# `run(args) -> int`; one whose module is not there is not listed.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "bring up everything, run one sync end to end, report"),
    "test": ("test", "run the tests"),
    "setup": ("setup", "make or mend the environment and the jars, start nothing"),
    "up": ("up", "start the local stack"),
    "down": ("down", "stop the local stack"),
    "status": ("status", "verdicts, positions and lag of every sync"),
    "tables": ("tables", "the tables of a sync with their newest verdicts, or those of a database"),
    "cuts": ("cuts", "the cuts of a sync: what they are, until when they stay; or the dates that have none"),
    "report": ("report", "the report of one business date, as text or as a file"),
    "cut": ("cut", "make the cut of one business date, and follow it"),
    "backfill": ("backfill", "make the cuts of a range of dates; follow, pause, continue or cancel it"),
    "reconcile": ("reconcile", "compare the live tables of a sync, and follow it"),
    "repair": ("repair", "plan, approve and apply a repair of live tables that differ"),
    "stream": ("stream", "pause, resume or restart the streams of a sync"),
    "capture": ("capture", "give up the capture of a source that cannot go on"),
    "audit": ("audit", "verify the log of acts, or export the evidence of a date"),
    "ps": ("ps", "the processes of the local stack"),
    "logs": ("logs", "the log of one process"),
    "doctor": ("doctor", "what is missing or of the wrong version here, and the cure"),
    "certify": ("certify", "prove that the snapshot path and the log path store the same values"),
    "init": ("init", "write a first declaration from a live database"),
    "onboard": ("onboard", "load the tables of a sync, start its streams, compare"),
    "connect": ("connect", "add, list, test and remove connections to servers"),
    "expectations": ("expectations", "propose a suite of checks from the catalogue and the data of a source"),
    "validate": ("validate", "check the declarations"),
    "explain": ("explain", "the stages that a sync will run"),
    "grants": ("grants", "the statements that the owner of a source's or destination's database runs once"),
    "schema": ("schema", "JSON Schema of the declarations, for editors"),
    "docs": ("docs", "make a site of the documents, to be read without a network"),
    "exec": ("exec", "run a program with the variables of the stack, for example `exec airflow dags list`"),
    "lock": ("lock", "refresh requirements.txt and jars/jars.lock"),
}
# What they start, stop, show or read are the servers of this machine.
OF_SERVERS_HERE = frozenset({"demo", "test", "up", "down", "ps", "logs", "exec"})


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_overview())
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in _available():
        sys.stderr.write(f"seamline: there is no command `{name}`\n\n{_overview()}")
        return 2
    module = module_of(name)
    try:
        given = parser_of(name).parse_args(rest)
        with answered(given):
            _require_servers_here(name)
            return int(module.run(given) or 0)
    except SeamlineError as error:
        if settings.load().is_debug:
            raise
        sys.stderr.write(f"seamline {name}: {error}\n")
        return error.exit_code
    except BrokenPipeError:
        # Who read the output has gone (`| head`): nothing is wrong, and Python must not complain at its own end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"seamline.cli.{COMMANDS[name][0]}")


def parser_of(name: str) -> CommandParser:
    """What reads the arguments of a command."""
    module = module_of(name)
    parser = CommandParser(prog=f"seamline {name}", description=module.__doc__)
    module.add_arguments(parser)
    if name not in WITHOUT_JSON:
        add_json(parser)
    return parser


def _require_servers_here(name: str) -> None:
    if name in OF_SERVERS_HERE and not settings.load().are_servers_here:
        raise ConfigError(
            f"`{name}` is about servers on this machine, and here they run in containers of their own",
            hint="on their host: docker compose up, down, ps, logs, exec (docs/how-to/run-in-containers.md)",
        )


def _available() -> dict[str, str]:
    return {
        name: summary
        for name, (module, summary) in COMMANDS.items()
        if importlib.util.find_spec(f"seamline.cli.{module}") is not None
    }


def _overview() -> str:
    lines = [f"  {name:<12} {summary}" for name, summary in _available().items()]
    table = "\n".join(lines)
    return f"usage: ./seamline <command> [options]\n\n{table}\n\n`./seamline <command> -h` says more.\n"


if __name__ == "__main__":
    sys.exit(main())
