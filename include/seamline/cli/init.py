"""Write a first sync from a live database: its source, its destination, the sync itself and a suite of checks.

Both servers are asked, and nothing is changed there. What was found stands in the files as comments; files that are
there stay as they are. Where this is a terminal and --yes is not given, what cannot be found out is asked; at the end
the scripts of both owners are printed, and the onboarding is offered.
"""

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from seamline import settings
from seamline.adapters.connection_extra import TLS_NAMES
from seamline.adapters.connections import known_ids, resolve
from seamline.cli.answer import give
from seamline.cli.connect import examined
from seamline.cli.expectations import suite_text
from seamline.cli.init_found import examined_tables, listed_tables, matching, troubles
from seamline.cli.init_offer import offer
from seamline.cli.init_text import FoundTable, destination_text, source_text, sync_text
from seamline.domain.calendar import zone
from seamline.domain.errors import ConfigError
from seamline.domain.server_found import CAPTURES, MAKES, ListedTable, ServerFound
from seamline.kinds.found import drafting_kind
from seamline.kinds.logins import logins_of
from seamline.kinds.source import Drafts
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.spec.destination import Destination
from seamline.spec.faults import guess
from seamline.spec.fields import NAME
from seamline.spec.kinds import namespace_key, source_namespace_key
from seamline.spec.load import Declarations, OneFile, load_sync, read_folder
from seamline.spec.source import DeclaredSource
from seamline.sync.suite_proposal import ProposedTable, proposed

# The one table of the draft by which a source is asked for its tables.
_ANY = "seamline_any"
SpecT = TypeVar("SpecT", DeclaredSource, Destination)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", help="name of the new sync")
    parser.add_argument(
        "--from", dest="source", required=True, metavar="ID", help="connection to a database, or a source"
    )
    parser.add_argument("--to", required=True, metavar="ID", help="connection to a database, or a destination")
    parser.add_argument("--tables", default="*", metavar="PATTERN", help="as 'pay*,account'; all where left out")
    parser.add_argument(
        "--schema", default="", help="of the tables, in PostgreSQL; of topics what stands before their last dot"
    )
    parser.add_argument("--into", default="", metavar="NAME", help="schema or database of the copies; the sync's name")
    parser.add_argument("--timezone", default="", metavar="ZONE", help="of the business dates, as Asia/Shanghai")
    parser.add_argument(
        "--nights-only", action="store_true", help="without the source's log: no stream, and a login that may SELECT"
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing, take every default")


@dataclass(frozen=True, slots=True)
class _Part:
    """A source or destination. `text`: of its new file, by the schema of the tables; None where it is declared already.
    `time_zone`: of its server. `capture`: of a new file, the connection that reads the log, "" where no log is read.
    `has_log`: whether one is. `tables`: which of its tables, as patterns."""

    name: str
    text: Callable[[str], str] | None = None
    time_zone: str = ""
    capture: str = ""
    has_log: bool = True
    tables: str = "*"


def run(args: argparse.Namespace) -> int:
    folder = settings.load().declarations
    _require_new(folder, args.sync)
    source, destination = _source(folder, args), _destination(folder, args)
    with tempfile.TemporaryDirectory(prefix="seamline-init-") as place:
        draft = _Draft(Path(place), args.sync, source, destination)
        draft.begin(folder)
        default = draft.plan([_ANY], args.schema).source
        listed = listed_tables(default)
        schema = args.schema or _most_likely(listed, default.namespace)
        namespace = draft.plan([_ANY], schema).source.namespace
        tables = matching(listed, namespace, source.tables, _note)
        draft = replace(draft, destination=_free(folder, destination, args, [one.name for one in tables]))
        found, survey = examined_tables(draft.plan([one.name for one in tables], schema), tables, _note)
        files = draft.write(found, _time_zone(args, source))
        # What is written here is read back first, against the source's own catalogue.
        compile_plan(draft.load(), args.sync, survey)
        written = [folder / file.relative_to(draft.folder) for file in files]
        _place(files, written)
    steps = list(_next(args.sync, source, draft.destination))
    wide = max(len(command) for command, _ in steps)
    said = (*troubles(found), *_summary(found), "next:", *(f"  {one:<{wide}}    {why}" for one, why in steps))
    sys.stdout.write("".join(f"{line}\n" for line in said))
    commands = [command for command, _ in steps]
    give(args, {"files": list(map(str, written)), "tables": list(map(_document, found)), "next": commands})
    # A login that has to be added first is added by a command of its own.
    if _is_asked(args) and source.capture in ("", source.name):
        return offer(args.sync, (source.name, draft.destination.name))
    return 0


def _is_asked(args: argparse.Namespace) -> bool:
    return not args.yes and not args.json and sys.stdin.isatty()


def _place(files: Sequence[Path], targets: Sequence[Path]) -> None:
    """ConfigError, before any is written: one of the targets is there."""
    for target in targets:
        if target.exists():
            raise _there_already(target)
    for file, target in zip(files, targets, strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        # Also one that came in between stays as it is.
        with target.open("xb") as made:
            made.write(file.read_bytes())
        sys.stdout.write(f"wrote {target}\n")


def _there_already(file: Path) -> ConfigError:
    return ConfigError(
        f"{file} is there already",
        hint="nothing is written over: choose another name, or delete that file, and those that its init named",
    )


@dataclass(frozen=True, slots=True)
class _Draft:
    """The declarations as they would be, in a folder of their own until they are known to be right."""

    folder: Path
    sync: str
    source: _Part
    destination: _Part

    def begin(self, declared: Path) -> None:
        for kind in ("sources", "destinations", "expectations"):
            (self.folder / kind).mkdir()
            if (declared / kind).is_dir():
                shutil.copytree(declared / kind, self.folder / kind, dirs_exist_ok=True)
        (self.folder / "syncs").mkdir()

    def plan(self, tables: Sequence[str], schema: str) -> SyncPlan:
        """Of a sync of these tables and nothing else."""
        self._write_parts(schema)
        listed = "".join(f"  - {{name: {_quoted(table)}}}\n" for table in tables)
        head = f"sync: {self.sync}\nsource: {self.source.name}\ndestinations: [{self.destination.name}]\n"
        # Without a log there is nothing but nights.
        head += "" if self.source.has_log else "nightly: {timezone: UTC}\n"
        self._file("syncs", self.sync).write_text(f"{head}tables:\n{listed}", encoding="utf-8")
        return compile_plan(self.load(), self.sync)

    def write(self, found: Sequence[FoundTable], time_zone: str) -> list[Path]:
        """The final files; returns those that are new."""
        new = [self._file("sources", self.source.name)] if self.source.text else []
        new += [self._file("destinations", self.destination.name)] if self.destination.text else []
        suite = self._file("expectations", self.sync)
        has_suite = not suite.exists()
        if has_suite:
            suite.write_text(suite_text(self.sync, self.sync, list(_checks(found))), encoding="utf-8")
            new.append(suite)
        sync = self._file("syncs", self.sync)
        text = sync_text(
            self.sync,
            self.source.name,
            self.destination.name,
            found,
            time_zone=time_zone,
            suite=self.sync if has_suite else "",
        )
        sync.write_text(text, encoding="utf-8")
        return [*new, sync]

    def load(self) -> Declarations:
        return load_sync(self._file("syncs", self.sync))

    def _write_parts(self, schema: str) -> None:
        for kind, part in (("sources", self.source), ("destinations", self.destination)):
            if part.text is not None:
                self._file(kind, part.name).write_text(part.text(schema), encoding="utf-8")

    def _file(self, kind: str, name: str) -> Path:
        return self.folder / kind / f"{name}.yaml"


def _checks(found: Sequence[FoundTable]) -> Iterator[ProposedTable]:
    for one in found:
        if one.table is not None and one.entry is not None:
            date = one.entry.date.column if one.entry.date else ""
            yield proposed(one.table, one.observed, business_date=date)


def _require_new(folder: Path, sync: str) -> None:
    if NAME.fullmatch(sync) is None:
        raise ConfigError(f"`{sync}` is no name", hint="small letters, digits and _ between them, as card_payments")
    if (file := folder / "syncs" / f"{sync}.yaml").exists():
        raise _there_already(file)


def _source(folder: Path, args: argparse.Namespace) -> _Part:
    """The source of this name, or the one that has this connection, or a new one."""
    name: str = args.source
    if (declared := _declared(folder, args)) is not None:
        return declared
    _require_connection(name, "source")
    connection = resolve(name)
    if (drafting := drafting_kind(connection.kind)) is not None:
        return _drafted(drafting, args)
    server = examined(connection)
    if not server.kind:
        raise ConfigError(f"connection `{name}` leads to no database that init can ask")
    if not connection.database:
        raise ConfigError(
            f"connection `{name}` names no database", hint="add it to its URL: kind://login@host/database"
        )
    key = source_namespace_key(server.kind)
    capture = "" if args.nights_only else _capture(name, server)

    def text(schema: str) -> str:
        return source_text(
            name,
            server.kind,
            connection=name,
            capture=capture,
            database=connection.database,
            namespace=(key, schema) if key and schema else None,
        )

    return _Part(name, text, server.time_zone, capture, has_log=bool(capture), tables=args.tables)


def _declared(folder: Path, args: argparse.Namespace) -> _Part | None:
    chosen = _chosen(read_folder(folder).sources, args.source, "source", "--from")
    if chosen is None:
        return None
    name, spec = chosen
    if args.nights_only and spec.has_log:
        raise ConfigError(f"source `{name}` is declared with a log", hint="leave out --nights-only")
    return _Part(name, has_log=spec.has_log, tables=args.tables)


def _chosen(files: Mapping[str, OneFile[SpecT]], wanted: str, word: str, option: str) -> tuple[str, SpecT] | None:
    """The file of this name, else the one that has this connection. ConfigError: that file has a mistake, or several
    have this connection."""
    found = [wanted] if wanted in files else [name for name, one in files.items() if _leads_to(one, wanted)]
    if len(found) > 1:
        raise ConfigError(
            f"several {word}s have the connection `{wanted}`: {', '.join(found)}", hint=f"name one of them by {option}"
        )
    for name in found:
        spec = files[name].spec
        if spec is None or files[name].document.faults:
            raise ConfigError(
                f"{word} `{name}` is declared with a mistake in it, in {files[name].document.file}",
                hint="mend it: `./seamline validate` says what is wrong. Nothing is written over",
            )
        return name, spec
    return None


def _leads_to(file: OneFile[SpecT], connection: str) -> bool:
    """By what it says, right or wrong."""
    said = file.document.value(("connection",)) if file.spec is None else file.spec.connection
    return bool(said == connection)


def _drafted(drafting: Drafts, args: argparse.Namespace) -> _Part:
    """A source that lists its tables itself: the chosen ones and no others."""
    name: str = args.source
    if args.nights_only:
        raise ConfigError(f"connection `{name}` leads to a log and nothing else", hint="leave out --nights-only")
    drafted = drafting.drafted(name, name, patterns=args.tables, namespace=args.schema, note=_note)
    return _Part(name, lambda _: drafted, capture=name)


def _capture(name: str, server: ServerFound) -> str:
    """The connection that reads the log: this one where its login can."""
    lacking = [use.why_not for use in server.uses if use.role == CAPTURES and not use.is_possible]
    if not lacking:
        return name
    _note(
        f"connection `{name}` cannot read the log: {'; '.join(lacking)}. The next steps mend that. Where "
        "it is not to be had, `--nights-only` makes a sync without the log"
    )
    return f"{name}_capture"


def _destination(folder: Path, args: argparse.Namespace) -> _Part:
    name = str(args.to)
    declared = read_folder(folder).destinations
    if name not in declared and name == args.source:
        raise ConfigError(
            f"`{name}` is both --from and --to",
            hint="add another connection for the destination, with a login that may make tables there:"
            " `./seamline connect add <id> kind://login@host/database`",
        )
    if (chosen := _chosen(declared, name, "destination", "--to")) is not None:
        one, spec = chosen
        is_elsewhere = args.into and args.into != spec.namespace
        return _beside(one, spec, args) if is_elsewhere else _Part(one)
    _require_connection(name, "destination")
    return _new_destination(name, name, args.into or args.sync)


def _new_destination(name: str, connection: str, namespace: str) -> _Part:
    server = examined(resolve(connection))
    if not server.kind:
        raise ConfigError(
            f"connection `{connection}` leads to no database", hint="declare the destination, then name it here"
        )
    for use in server.uses:
        if use.role == MAKES and not use.is_possible:
            _note(f"connection `{connection}` cannot {use.role} yet: {use.why_not}")
    key = namespace_key(server.kind)
    made = destination_text(name, server.kind, connection=connection, namespace_key=key, namespace=namespace)
    return _Part(name, lambda _: made)


def _free(folder: Path, destination: _Part, args: argparse.Namespace, tables: Sequence[str]) -> _Part:
    """A declared destination as it is, unless another sync writes a table of one of these names there: then one of the
    same connection with a namespace of its own."""
    spec = read_folder(folder).destinations[destination.name].spec if destination.text is None else None
    taken = _taken(folder, destination.name, tables) if spec is not None else ("", [])
    if spec is None or not taken[1]:
        return destination
    made = _beside(destination.name, spec, args)
    more = f" and {len(taken[1]) - 1} more" if len(taken[1]) > 1 else ""
    _note(f"sync {taken[0]} writes {taken[1][0]}{more} into {destination.name}, so this one gets {made.name}")
    return made


def _taken(folder: Path, destination: str, tables: Sequence[str]) -> tuple[str, list[str]]:
    """The first sync that writes some of these tables into the destination, and which."""
    for sync, file in read_folder(folder).syncs.items():
        if file.spec is not None and destination in file.spec.destinations:
            there = {(one.as_ or one.name.rpartition(".")[2]).lower() for one in file.spec.tables}
            if both := [name for name in tables if name.lower() in there]:
                return sync, both
    return "", []


def _beside(name: str, spec: Destination, args: argparse.Namespace) -> _Part:
    """A new destination of the connection of a declared one. ConfigError: only a person can write it."""
    made, fresh = f"{name}_{args.sync}", examined(resolve(spec.connection)).kind
    if fresh != spec.kind or not namespace_key(fresh) or made in read_folder(settings.load().declarations).destinations:
        raise ConfigError(
            f"destination `{name}` cannot take these tables as it is",
            hint=f"declare another of kind {spec.kind}, with a place of its own, and name it by --to",
        )
    return _new_destination(made, spec.connection, args.into or args.sync)


def _require_connection(name: str, word: str) -> None:
    if name not in known_ids():
        raise ConfigError(
            f"there is no {word} `{name}` and no connection of this id",
            hint=f"`./seamline connect add {name} kind://login@host/database`. {guess(name, sorted(known_ids()))}",
        )


def _most_likely(listed: Sequence[ListedTable], default: str) -> str:
    """The namespace with the most tables, the kind's own default where it has any."""
    names = [one.namespace for one in listed]
    return default if default in names or not names else max(sorted(set(names)), key=names.count)


def _time_zone(args: argparse.Namespace, source: _Part) -> str:
    """As given, or as answered; the server's own where that is a zone and no offset, else UTC."""
    if args.timezone:
        return str(zone(args.timezone).key)
    known = source.time_zone if _is_zone(source.time_zone) else "UTC"
    if not _is_asked(args):
        return known
    answer = input(f"Time zone of the business dates [{known}]: ").strip()
    return str(zone(answer).key) if answer else known


def _is_zone(name: str) -> bool:
    try:
        return "/" in zone(name).key
    except ConfigError:
        return False


def _summary(found: Sequence[FoundTable]) -> Iterator[str]:
    carried = [one for one in found if one.table is not None and one.entry is not None]
    keyless = [one.written for one in carried if one.table and not one.table.key]
    whole = [one.written for one in carried if one.entry and one.entry.date is None]
    count = "1 table is carried" if len(carried) == 1 else f"{len(carried)} tables are carried"
    yield f"{count}, {len(found) - len(carried)} parked"
    if keyless:
        yield f"without a key, kept exact as a multiset: {', '.join(keyless)}"
    if whole:
        yield f"without a business date, each cut holds them whole: {', '.join(whole)}"


def _document(found: FoundTable) -> dict[str, Any]:
    """As `_summary` and the comments of the sync's file say it."""
    is_carried = found.table is not None and found.entry is not None
    date = found.entry.date if found.entry else None
    return {
        "table": found.written,
        "rows": found.listed.rows,
        "size": found.listed.size,
        "carried": is_carried,
        "key": found.table.key if found.table else None,
        "business_date": date.column if date else None,
        "trouble": found.trouble,
    }


def _next(sync: str, source: _Part, destination: _Part) -> Iterator[tuple[str, str]]:
    """Commands, each with what it is for."""
    yield f"./seamline grants {source.name}", "what the owner of the source runs once"
    yield f"./seamline grants {destination.name}", "what the owner of the destination runs once"
    if source.capture not in ("", source.name):
        url = shlex.quote(_url_of_capture(source.name))
        yield f"./seamline connect add {source.capture} {url}", "the login of the script that reads the log"
    yield "./seamline validate --online", "until it says ok"
    follows = "load, stream, compare" if source.has_log else "from then on each night makes a cut"
    yield f"./seamline onboard {sync}", follows


def _url_of_capture(source: str) -> str:
    """Where the source's connection leads, with the login that its script makes."""
    reader = resolve(source)
    tls = urlencode({name: value for name in TLS_NAMES if (value := str(reader.extra.get(name) or ""))}, safe="/")
    where = f"{reader.kind}://{logins_of(source).capture}@{reader.host}:{reader.port}/{quote(reader.database)}"
    return f"{where}?{tls}" if tls else where


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _note(said: str) -> None:
    sys.stderr.write(f"note: {said}\n")
