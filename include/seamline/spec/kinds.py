"""The models of declarations by kind, as the installed kinds bring them."""

from collections.abc import Mapping
from typing import Protocol, cast

from seamline.domain import installed
from seamline.domain.names import NameLimit
from seamline.domain.staged_cut import CutSource
from seamline.spec.destination import Destination
from seamline.spec.source import DeclaredSource

# Named in messages: what people ask for and nobody can have yet.
SOURCES_PLANNED: tuple[str, ...] = ()
DESTINATIONS_PLANNED: tuple[str, ...] = ()

# The method by which a kind of destination can be read without a ledger.
_ALONE = "separate_side"
# The method by which a kind of source is read so.
_SEPARATELY = "open_separately"
_REPEATS = "may_repeat"

# Powers that stages need: the keys that ask for the stage together (none: any sync), the method by which a kind has the
# power, and what a kind without it cannot do.
_CUTS = "open_cuts"
_NEEDED = (
    ((), "open_live", "be read back, and nothing can be proven of it"),
    (("nightly", "reconcile.expectations"), "rows_url", "have its rows checked by Great Expectations"),
    (("nightly", "reconcile.rules"), "rows_url", "have its rows checked by rules"),
    (("nightly",), _CUTS, "hold cuts"),
    (("derived",), "staged_parts", "have derived tables computed"),
)


class _Source(Protocol):
    def spec(self) -> type[DeclaredSource]: ...


class _Powers(Protocol):
    @property
    def keyless(self) -> bool: ...

    @property
    def names(self) -> NameLimit: ...

    @property
    def streams(self) -> bool: ...

    @property
    def keeps_versions(self) -> bool: ...

    def level_under(self, guarantee: str) -> str: ...

    def level_over_repeats(self, guarantee: str) -> str: ...

    @property
    def level_of_cuts(self) -> str: ...


class _Sink(Protocol):
    @property
    def powers(self) -> _Powers: ...

    def spec(self) -> type[Destination]: ...


def source_models() -> Mapping[str, type[DeclaredSource]]:
    """By kind, in the order of names."""
    names = installed.names(installed.SOURCES)
    return {name: cast(_Source, installed.load(installed.SOURCES, name)).spec() for name in names}


def destination_models() -> Mapping[str, type[Destination]]:
    """By kind, in the order of names."""
    names = installed.names(installed.SINKS)
    return {name: cast(_Sink, installed.load(installed.SINKS, name)).spec() for name in names}


def destination_kind(said: object) -> str:
    """The kind of a destination of these keys, right or wrong; "" where they say none that is known here."""
    if not isinstance(said, Mapping):
        return ""
    kind, models = said.get("kind"), destination_models()
    if not isinstance(kind, str) or kind not in models:
        return ""
    return models[kind].kind_of(said) or kind


def namespace_key(kind: str) -> str:
    """The key of a destination of this kind that says where in its connection the tables lie; "" if there is none."""
    return destination_models()[kind].namespace_key


def source_namespace_key(kind: str) -> str:
    """The same of a source: the key that says where in its database the tables lie."""
    return source_models()[kind].namespace_key


def powers_lacking(kind: str) -> Mapping[tuple[str, ...], str]:
    """What a kind of destination cannot do, by the keys of a sync that would need it if it has all of them."""
    found = installed.load(installed.SINKS, kind)
    return {keys: cannot for keys, method, cannot in _NEEDED if not hasattr(found, method)}


def kinds_with_all_powers() -> tuple[str, ...]:
    return tuple(name for name in installed.names(installed.SINKS) if not powers_lacking(name))


def kinds_read_alone() -> tuple[str, ...]:
    """Those of destinations whose tables can be compared without a ledger of ours: databases that are sources too, and
    what is read by its own catalogue."""
    found = installed.names(installed.SINKS)
    return tuple(
        name for name in found if is_read_alone(name) or hasattr(installed.load(installed.SINKS, name), _ALONE)
    )


def is_read_alone(name: str) -> bool:
    """Whether there is a kind of source of this name whose tables can be read by a login that may only SELECT."""
    names = installed.names(installed.SOURCES)
    return name in names and hasattr(installed.load(installed.SOURCES, name), _SEPARATELY)


def carries_cuts_on(kind: str) -> bool:
    """Whether a kind of destination makes cuts of rows, each from the one before it where the log says what came."""
    return cut_source(kind) is CutSource.ROWS and hasattr(installed.load(installed.SINKS, kind), "carry_on")


def cut_source(kind: str) -> CutSource:
    """What a kind of destination makes its cuts of."""
    return destination_models()[kind].cut_source


def takes_streams(kind: str) -> bool:
    """Whether a kind of destination has live tables; one without takes cuts only."""
    return cast(_Sink, installed.load(installed.SINKS, kind)).powers.streams


def holds_cuts(kind: str) -> bool:
    """Whether a kind of destination holds cuts; nights leave out one that does not."""
    return hasattr(installed.load(installed.SINKS, kind), _CUTS)


def rows_apart(kind: str) -> bool:
    """Whether a kind of destination stages rows for its cuts where no SQL reaches them."""
    found = installed.load(installed.SINKS, kind)
    shows = hasattr(found, "rows_url") and not hasattr(found, "copied")
    return holds_cuts(kind) and cut_source(kind) is CutSource.ROWS and not shows


def keeps_versions(kind: str) -> bool:
    """Whether a kind of destination can store the cuts of a table as versions."""
    return cast(_Sink, installed.load(installed.SINKS, kind)).powers.keeps_versions


def keeps_keyless(kind: str) -> bool:
    """Whether a kind of destination keeps a table without a key as a multiset."""
    return cast(_Sink, installed.load(installed.SINKS, kind)).powers.keyless


def level_of(kind: str, guarantee: str, *, source: str) -> str:
    """What readers of a kind of destination may rely on: of its commits; of one without live tables, of its cuts.
    `source`: the kind that its changes come from."""
    powers = cast(_Sink, installed.load(installed.SINKS, kind)).powers
    return powers.level_over_repeats(guarantee) if may_repeat(source) else powers.level_under(guarantee)


def may_repeat(kind: str) -> str:
    """Who may say a change of a kind of source twice, for people; "" where nobody does."""
    return str(getattr(installed.load(installed.SOURCES, kind), _REPEATS, ""))


def level_of_cuts(kind: str) -> str:
    return cast(_Sink, installed.load(installed.SINKS, kind)).powers.level_of_cuts


def name_limit(kind: str) -> NameLimit:
    """How long the name of a table may be at a kind of destination."""
    return cast(_Sink, installed.load(installed.SINKS, kind)).powers.names
