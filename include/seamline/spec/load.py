"""Read a folder of declarations: `sources/`, `destinations/`, `syncs/`, `expectations/`, `calendars/`, one YAML file
per name (a suite of expectations may also be the JSON that Great Expectations writes).

`load_declarations` wants everything right. `load_sync` and `load_each` ask only for what one sync needs, so that one
broken file does not take the other syncs away. `load_alone` and `load_suite` read nothing else either. Reading does
nothing but read these files.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from seamline.domain.break_work import WorkRules
from seamline.domain.business_dates import BusinessDates, Rule
from seamline.domain.errors import ConfigError
from seamline.domain.sign_off import ReasonRequired
from seamline.spec.calendar import CalendarSpec, check_calendar
from seamline.spec.checks import (
    check_connections,
    check_folders_of_destinations,
    check_names_of_cuts,
    check_one_writer_per_table,
    check_sync,
    check_tables_of_destinations,
    source_connections,
)
from seamline.spec.destination import Destination
from seamline.spec.document import Document, Path_, document_of, read_document
from seamline.spec.expectations import ExpectationsSpec, NativeSuite
from seamline.spec.faults import UNKNOWN_KEY, DeclarationsInvalid, Fault, guess, nearest, redacted
from seamline.spec.fields import NAME
from seamline.spec.kinds import (
    DESTINATIONS_PLANNED,
    SOURCES_PLANNED,
    destination_kind,
    destination_models,
    source_models,
    takes_streams,
)
from seamline.spec.reconcile_only import is_reconcile_only
from seamline.spec.source import DatabaseSource, DeclaredSource
from seamline.spec.sync import SyncSpec
from seamline.spec.transforms import check_transforms, texts_of
from seamline.spec.translate import add_empty_faults, add_faults, add_secret_faults, take_as_meant
from seamline.spec.work import Work

_SUITES = (".json", ".yaml")
# By folder, where a sync's file names the files that it needs there.
_NAMED = {
    "sources": "source",
    "destinations": "destinations[]",
    "expectations": "reconcile.expectations",
    "calendars": "nightly.calendars[]",
}
SpecT = TypeVar("SpecT", bound=BaseModel)


@dataclass(slots=True)
class OneFile(Generic[SpecT]):
    """One file. `spec` is None when the file is wrong; its faults then say why."""

    document: Document
    spec: SpecT | None = None

    @property
    def name(self) -> str:
        return self.document.file.stem


@dataclass(slots=True)
class Folder:
    """All files of a folder of declarations by their names, right or wrong."""

    sources: dict[str, OneFile[DeclaredSource]]
    destinations: dict[str, OneFile[Destination]]
    syncs: dict[str, OneFile[SyncSpec]]
    expectations: dict[str, OneFile[ExpectationsSpec]]
    strays: list[Fault]
    calendars: dict[str, OneFile[CalendarSpec]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declarations:
    """Declarations without a fault. `documents` says where each value of a sync stands in its file. `transforms`: the
    texts of the files that syncs name, by their paths as declared."""

    sources: Mapping[str, DeclaredSource]
    destinations: Mapping[str, Destination]
    syncs: Mapping[str, SyncSpec]
    expectations: Mapping[str, ExpectationsSpec]
    documents: Mapping[str, Document] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    destination_documents: Mapping[str, Document] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    suite_documents: Mapping[str, Document] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    source_documents: Mapping[str, Document] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    transforms: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    calendars: Mapping[str, CalendarSpec] = field(default_factory=lambda: MappingProxyType({}))

    def sync(self, name: str) -> SyncSpec:
        if name not in self.syncs:
            raise ConfigError(f"there is no sync `{name}`", hint=guess(name, list(self.syncs)))
        return self.syncs[name]

    def fault(self, sync: str, path: Path_, cause: str, cure: str = "") -> Fault:
        """A fault found later, as against the source's catalogue, at its place in the sync's file."""
        return _later(self.documents.get(sync), f"{sync}.yaml", path, cause, cure)

    def destination_fault(self, destination: str, path: Path_, cause: str, cure: str = "") -> Fault:
        """The same in a destination's file."""
        return _later(self.destination_documents.get(destination), f"{destination}.yaml", path, cause, cure)

    def source_fault(self, source: str, path: Path_, cause: str, cure: str = "") -> Fault:
        """The same in a source's file."""
        return _later(self.source_documents.get(source), f"{source}.yaml", path, cause, cure)

    def check_fault(self, suite: str, number: int, argument: str, cause: str, cure: str = "") -> Fault:
        """The same in a suite's file, at an argument of its check of this number, from 0."""
        known = self.suite_documents.get(suite)
        checks = "expectations" if known is not None and known.file.suffix == ".json" else "checks"
        return _later(known, f"{suite}.yaml", (checks, number, "kwargs", argument), cause, cure)


def _later(known: Document | None, name: str, path: Path_, cause: str, cure: str) -> Fault:
    scratch = Document(Path(name))
    if known is not None:
        scratch.file, scratch.lines = known.file, known.lines
    scratch.fault(path, cause, cure)
    return scratch.faults[0]


def load_declarations(folder: Path, *, connections: Mapping[str, str] | None = None) -> Declarations:
    """Everything in `folder`. Raises DeclarationsInvalid with all faults of all files.

    `connections`: the ids that are known here, each with its type ("" where that is not known); where none are given,
    those of the declarations are not looked up.
    """
    read = read_folder(folder)
    if connections:
        only_read = _only_read(read) | {name for name, one in read.sources.items() if one.spec and not one.spec.has_log}
        for name, source in read.sources.items():
            wanted = source.spec.connection_type if source.spec else ""
            document = source.document
            used = document.texts("connection") if name in only_read else source_connections(document)
            check_connections(document, used, connections, wanted=wanted)
            of_archive = document.texts("log.archive.connection")
            check_connections(document, of_archive, connections, wanted="aws", by="an archive on S3")
        for destination in read.destinations.values():
            named = destination.document.texts("connection", "writer_connection")
            wanted = destination.spec.connection_type if destination.spec else ""
            check_connections(destination.document, named, connections, wanted=wanted)
            for key, of in destination.spec.other_connections.items() if destination.spec else ():
                check_connections(destination.document, destination.document.texts(key), connections, wanted=of)
    faults = [*read.strays, *(fault for document in _documents(read) for fault in document.faults)]
    if faults:
        raise DeclarationsInvalid(faults)
    return _declarations(
        read,
        syncs=list(read.syncs),
        sources=list(read.sources),
        destinations=list(read.destinations),
        suites=list(read.expectations),
        calendars=list(read.calendars),
    )


def _only_read(read: Folder) -> set[str]:
    """The sources that syncs compare and none captures."""
    users: dict[str, list[Document]] = {}
    for sync in read.syncs.values():
        for _, name in sync.document.texts("source"):
            users.setdefault(name, []).append(sync.document)
    return {name for name, syncs in users.items() if all(map(is_reconcile_only, syncs))}


def load_sync(file: Path) -> Declarations:
    """One sync with its source, destinations and expectations.

    Raises DeclarationsInvalid with the faults of these files only; those of other syncs do not matter.
    """
    file = file.resolve()
    read = read_folder(file.parent.parent)
    if file.stem not in read.syncs:
        raise ConfigError(f"there is no sync file {file}", hint=guess(file.stem, list(read.syncs)))
    return _one(read, file.stem)


def load_alone(file: Path) -> Declarations:
    """The same from the files that the sync names, whatever else is declared: no file of another sync is opened.

    What `load_sync` returns gives an equal plan. What is wrong only beside other syncs, as a table that two of them
    write, is not found here: this is for whoever comes behind a look at all of them (ADR 103).
    """
    folder = file.parent.parent
    if not file.is_file():
        raise ConfigError(
            f"there is no sync file {file}", hint=guess(file.stem, [one.stem for one in file.parent.glob("*.yaml")])
        )
    sync = _read(file, "sync", SyncSpec)
    named = {kind: {name for _, name in sync.document.texts(place)} for kind, place in _NAMED.items()}
    read = _with_named(folder, {sync.name: sync}, [], named)
    _check_syncs(read, folder)
    return _one(read, sync.name)


def load_suite(folder: Path, name: str) -> OneFile[ExpectationsSpec] | None:
    """One suite of expectations, right or wrong; None where there is no file of it."""
    return next(iter(_suites(folder, [], {name}).values()), None)


def load_each(folder: Path, *, alone: str | None = None) -> dict[Path, Declarations | DeclarationsInvalid]:
    """What `load_sync` returns or raises, for every sync file of `folder`, in the order of names, in one pass; or what
    `load_alone` does, for the one sync that `alone` names."""
    outcome: dict[Path, Declarations | DeclarationsInvalid] = {}
    if alone is not None:
        file = folder / "syncs" / f"{alone}.yaml"
        try:
            outcome[file] = load_alone(file)
        except DeclarationsInvalid as error:
            outcome[file] = error
        return outcome
    read = read_folder(folder)
    for name, declared in read.syncs.items():
        try:
            outcome[declared.document.file] = _one(read, name)
        except DeclarationsInvalid as error:
            outcome[declared.document.file] = error
    return outcome


def declared_destinations(folder: Path, sync: str) -> tuple[str, ...]:
    """The names of a sync's destinations as they stand in its file, right or wrong; none where there is no file."""
    file = folder / "syncs" / f"{sync}.yaml"
    if not file.is_file():
        return ()
    return tuple(dict.fromkeys(name for _, name in document_of(file).texts("destinations[]")))


def only_compares(folder: Path, sync: str) -> bool:
    """Whether another tool carries the sync's tables, by its file, right or wrong."""
    file = folder / "syncs" / f"{sync}.yaml"
    return file.is_file() and is_reconcile_only(document_of(file))


def source_document(folder: Path, sync: str) -> Document:
    """The file of the sync's source, right or wrong; an empty one where there is none."""
    file = folder / "syncs" / f"{sync}.yaml"
    named = document_of(file).value(("source",)) if file.is_file() else None
    at = folder / "sources" / f"{named}.yaml"
    return document_of(at) if isinstance(named, str) and at.is_file() else Document(at)


def reads_a_log(folder: Path, sync: str) -> bool:
    """Whether the log of the sync's source is captured, by their files, right or wrong."""
    source = source_document(folder, sync)
    model = source_models().get(str(source.value(("kind",))), DatabaseSource)
    return model.reads_log(source.value(("log",)))


def onboarded_destinations(folder: Path, sync: str) -> tuple[str, ...]:
    """Those of them that an onboarding loads: not what takes cuts only, and none of a sync that only compares or whose
    source has no log."""
    if only_compares(folder, sync) or not reads_a_log(folder, sync):
        return ()
    kinds = declared_kinds(folder, sync)
    return tuple(
        name for name in declared_destinations(folder, sync) if name not in kinds or takes_streams(kinds[name])
    )


def declared_dates(folder: Path, sync: str) -> BusinessDates | None:
    """The business dates of a sync by its file and its calendars alone; None where these cannot say it."""
    file = folder / "syncs" / f"{sync}.yaml"
    document = document_of(file) if file.is_file() else Document(file)
    found = []
    for _, name in document.texts("nightly.calendars[]"):
        one = folder / "calendars" / f"{name}.yaml"
        try:
            found.append(CalendarSpec.model_validate(document_of(one).data if one.is_file() else None).calendar_of())
        except ValidationError:
            return None
    rule = document.value(("nightly", "business_date_if")) or Rule.ALL.value
    return BusinessDates(tuple(found), Rule(rule)) if rule in [*Rule] and document.data else None


def declared_approvers(folder: Path, sync: str) -> tuple[str, ...]:
    """Who may sign for a sync, by its file; nobody is named where that is left to Airflow.

    ConfigError where the file cannot say it: whoever asks must not take that for "anybody".
    """
    file = folder / "syncs" / f"{sync}.yaml"
    if not file.is_file():
        raise ConfigError(f"there is no sync file {file}")
    document = document_of(file)
    named = document.value(("reconcile", "approvers")) or []
    if document.faults or not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise ConfigError(
            f"{file} does not say who signs for {sync}", hint="`./seamline validate` says what is wrong in it"
        )
    return tuple(named)


def declared_work(folder: Path, sync: str) -> WorkRules:
    """How people work on a sync's breaks, by its file alone; the defaults where there is no file any more.

    ConfigError where the file cannot say it.
    """
    file = folder / "syncs" / f"{sync}.yaml"
    if not file.is_file():
        return WorkRules()
    document = document_of(file)
    said = document.value(("reconcile", "work"))
    try:
        return Work.model_validate({} if said is None else said).rules()
    except ValidationError as error:
        raise ConfigError(
            f"{file} does not say how breaks of {sync} are worked on",
            hint="`./seamline validate` says what is wrong in it",
        ) from error


def shown_work(folder: Path, sync: str) -> WorkRules:
    """The same for what only shows breaks: a file that is wrong takes no report away, it has the defaults."""
    try:
        return declared_work(folder, sync)
    except ConfigError:
        return WorkRules()


def declared_reason_required(folder: Path, sync: str) -> ReasonRequired:
    """When a signature for this sync needs a reason, by its file; always where the file cannot say it."""
    file = folder / "syncs" / f"{sync}.yaml"
    said = document_of(file).value(("reconcile", "sign", "reason_required")) if file.is_file() else None
    return ReasonRequired.BREAKS if said in (None, ReasonRequired.BREAKS) else ReasonRequired.ALWAYS


def declared_kinds(folder: Path, sync: str) -> dict[str, str]:
    """The kind of each of them whose file says one that is known here."""
    files = {name: folder / "destinations" / f"{name}.yaml" for name in declared_destinations(folder, sync)}
    found = {name: destination_kind(document_of(file).data) for name, file in files.items() if file.is_file()}
    return {name: kind for name, kind in found.items() if kind}


def read_folder(folder: Path) -> Folder:
    """Read every file and check each alone and all together; faults lie with the file they are in."""
    strays: list[Fault] = []
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}", hint="declarations lie in include/ of the checkout")
    syncs = {file.stem: _read(file, "sync", SyncSpec) for file in _files(folder, "syncs", strays)}
    read = _with_named(folder, syncs, strays)
    _check_syncs(read, folder)
    # Last: a sync whose source or destination is wrong has its own faults by now.
    check_tables_of_destinations(_readable(read), _documents_of(read.destinations))
    return read


def _with_named(
    folder: Path,
    syncs: dict[str, OneFile[SyncSpec]],
    strays: list[Fault],
    named: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Folder:
    """These syncs with the files beside theirs: those that are named, or every one of a folder for which nothing is."""
    return Folder(
        {
            file.stem: _read_kind(file, "source", source_models(), SOURCES_PLANNED)
            for file in _files(folder, "sources", strays, named=named.get("sources"))
        },
        {
            file.stem: _read_kind(file, "destination", destination_models(), DESTINATIONS_PLANNED)
            for file in _files(folder, "destinations", strays, named=named.get("destinations"))
        },
        syncs,
        _suites(folder, strays, named.get("expectations")),
        strays,
        {file.stem: _read_calendar(file) for file in _files(folder, "calendars", strays, named=named.get("calendars"))},
    )


def _suites(folder: Path, strays: list[Fault], named: Collection[str] | None) -> dict[str, OneFile[ExpectationsSpec]]:
    return {file.stem: _read_suite(file) for file in _files(folder, "expectations", strays, _SUITES, named=named)}


def _check_syncs(read: Folder, folder: Path) -> None:
    """Each beside the files that it names, and all that were read beside each other."""
    syncs, destinations = _readable(read), _documents_of(read.destinations)
    suites = _documents_of(read.expectations)
    sources = {name: declared.spec for name, declared in read.sources.items()}
    for document in syncs:
        check_sync(
            document, sources=sources, destinations=destinations, expectations=suites, calendars=list(read.calendars)
        )
        check_transforms(document, folder)
    broken = {name for name, declared in read.syncs.items() if _faults_of(read, declared.document)}
    writing = [document for document in syncs if not is_reconcile_only(document)]
    check_one_writer_per_table(writing, destinations, broken=broken)
    check_names_of_cuts(writing, destinations, broken=broken)
    check_folders_of_destinations(writing, destinations, broken=broken)


def _readable(read: Folder) -> list[Document]:
    return [declared.document for declared in read.syncs.values() if declared.document.data is not None]


def _documents_of(group: Mapping[str, OneFile[Any]]) -> dict[str, Document]:
    return {name: declared.document for name, declared in group.items()}


def _files(
    folder: Path,
    kind: str,
    strays: list[Fault],
    suffixes: Sequence[str] = (".yaml",),
    *,
    named: Collection[str] | None = None,
) -> list[Path]:
    """Those of these names, or all where none are given."""
    read: dict[str, Path] = {}
    found = (
        path for path in (folder / kind).glob("*") if path.name[0] != "." and (named is None or path.stem in named)
    )
    for path in sorted(path for path in found if path.is_file()):
        if path.suffix not in suffixes:
            forms = " or ".join(f"`<name>{suffix}`" for suffix in suffixes)
            cause = f"this file is not read: only files named {forms} are"
            strays.append(Fault(path, 1, "", cause, "Rename it or move it away"))
        elif path.stem in read:
            cause = f"this file is not read: {read[path.stem].name} has the same name"
            strays.append(Fault(path, 1, "", cause, "Keep one of them"))
        else:
            read[path.stem] = path
    return list(read.values())


def _read_kind(file: Path, word: str, kinds: Mapping[str, type[SpecT]], planned: Sequence[str]) -> OneFile[SpecT]:
    """Read a file whose model depends on its `kind`."""
    document = read_document(file)
    if document.data is None:
        return OneFile(document)
    add_secret_faults(document)
    if "kind" not in document.data and (misspelt := nearest("kind", list(document.data))):
        document.fault((misspelt,), UNKNOWN_KEY, "Did you mean `kind`?")
        document.rename((misspelt,), "kind")
    _take_kind_of_keys(document, word)
    kind = document.value(("kind",))
    if isinstance(kind, str) and kind in kinds:
        return _validated(document, word, kinds[kind])
    if kind is None:
        cause = "has no value" if "kind" in document.data else "is missing"
        if not document.causes(("kind",)):
            document.fault(("kind",), cause, f"Known: {', '.join(kinds)}")
    elif kind in planned:
        document.fault(("kind",), f"`{kind}` is not supported yet", f"Kinds of {word} so far: {', '.join(kinds)}")
    else:
        document.fault(("kind",), f"{redacted(kind)} is not a kind of {word}", guess(str(kind), [*kinds]))
    if meant := nearest(str(kind), [*kinds]):
        document.data["kind"] = meant
        _validated(document, word, kinds[meant])
    else:
        _check_file_name(document, word)
    return OneFile(document)


def _take_kind_of_keys(document: Document, word: str) -> None:
    """Other keys of a destination may decide which kind it is of."""
    if word == "destination" and (kind := destination_kind(document.data)):
        document.data["kind"] = kind


def _read(file: Path, word: str, model: type[SpecT]) -> OneFile[SpecT]:
    document = read_document(file)
    add_secret_faults(document)
    return OneFile(document) if document.data is None else _validated(document, word, model)


def _read_calendar(file: Path) -> OneFile[CalendarSpec]:
    one = _read(file, "calendar", CalendarSpec)
    if one.spec is not None:
        check_calendar(one.document, one.spec)
    return one


def _read_suite(file: Path) -> OneFile[ExpectationsSpec]:
    if file.suffix == ".yaml":
        return _read(file, "expectations", ExpectationsSpec)
    native = _read(file, "name", NativeSuite)
    return OneFile(native.document, native.spec.as_declared() if native.spec else None)


def _validated(document: Document, word: str, model: type[SpecT]) -> OneFile[SpecT]:
    """Secrets are taken out of the document already."""
    if model not in (ExpectationsSpec, NativeSuite):
        add_empty_faults(document)
    one: OneFile[SpecT] = OneFile(document)
    try:
        one.spec = model.model_validate(document.data)
    except ValidationError as error:
        _add_all_faults(document, error, model)
    _check_file_name(document, word)
    return one


def _check_file_name(document: Document, word: str) -> None:
    name = document.value((word,))
    if isinstance(name, str) and name != document.file.stem and document.is_right((word,)):
        cure = f"Rename one: {name}{document.file.suffix}" if NAME.fullmatch(name) else ""
        document.fault((word,), f"the file is named {document.file.name} but declares {redacted(name)}", cure)


def _add_all_faults(document: Document, error: ValidationError, model: type[BaseModel]) -> None:
    """Those of `error`, and those that only show once misspelt keys are taken as they were meant."""
    add_faults(document, error, model)
    if take_as_meant(document, error, model):
        try:
            model.model_validate(document.data)
        except ValidationError as hidden:
            _add_all_faults(document, hidden, model)


def _documents(read: Folder) -> list[Document]:
    groups = (read.sources, read.destinations, read.syncs, read.expectations, read.calendars)
    return [declared.document for group in groups for declared in group.values()]


def _one(read: Folder, name: str) -> Declarations:
    faults = _faults_of(read, read.syncs[name].document)
    if faults:
        raise DeclarationsInvalid(faults)
    spec = read.syncs[name].spec
    assert spec is not None, "a file without faults has its model"
    return _declarations(
        read,
        syncs=[name],
        sources=[spec.source],
        destinations=spec.destinations,
        suites=[spec.reconcile.expectations] if spec.reconcile.expectations else [],
        calendars=spec.nightly.calendars if spec.nightly else (),
    )


def _faults_of(read: Folder, sync: Document) -> list[Fault]:
    """Of a sync's document and of those that it names."""
    faults = list(sync.faults)
    groups: Mapping[str, Mapping[str, OneFile[Any]]] = {
        "sources": read.sources,
        "destinations": read.destinations,
        "expectations": read.expectations,
        "calendars": read.calendars,
    }
    for kind, place in _NAMED.items():
        group = groups[kind]
        for part in dict.fromkeys(part for _, part in sync.texts(place)):
            faults += group[part].document.faults if part in group else ()
    return faults


def _declarations(
    read: Folder,
    *,
    syncs: Sequence[str],
    sources: Sequence[str],
    destinations: Sequence[str],
    suites: Sequence[str],
    calendars: Sequence[str],
) -> Declarations:
    return Declarations(
        sources=_frozen(read.sources, sources),
        destinations=_frozen(read.destinations, destinations),
        syncs=_frozen(read.syncs, syncs),
        expectations=_frozen(read.expectations, suites),
        documents=MappingProxyType({name: read.syncs[name].document for name in syncs}),
        destination_documents=MappingProxyType({name: read.destinations[name].document for name in destinations}),
        source_documents=MappingProxyType({name: read.sources[name].document for name in sources}),
        suite_documents=MappingProxyType({name: read.expectations[name].document for name in suites}),
        transforms=MappingProxyType(_transforms(read, syncs)),
        calendars=_frozen(read.calendars, calendars),
    )


def _transforms(read: Folder, syncs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in syncs:
        if (spec := read.syncs[name].spec) is not None:
            found |= texts_of([spec], read.syncs[name].document.file.parents[1])
    return found


def _frozen(group: Mapping[str, OneFile[SpecT]], names: Collection[str]) -> Mapping[str, SpecT]:
    return MappingProxyType({name: d.spec for name, d in group.items() if d.spec is not None and name in names})
