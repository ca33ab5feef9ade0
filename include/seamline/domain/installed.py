"""The kinds of sources and sinks that are installed, found by their entry points: ours, and those of other packages.

An entry point names an object in a module that imports no client: whoever asks for a name loads that module only.
"""

import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from seamline.domain.errors import ConfigError

SOURCES, SINKS, POSITIONS = "seamline.sources", "seamline.sinks", "seamline.positions"
CLIENTS = "seamline.clients"
_WORDS = {SOURCES: "source", SINKS: "destination", POSITIONS: "position", CLIENTS: "client"}
GROUPS = frozenset(_WORDS)


def names(group: str) -> tuple[str, ...]:
    """The names of all kinds of this group, sorted."""
    return tuple(_found(group))


def load(group: str, name: str) -> object:
    """What the entry point of this name says, also of a package that came after this process had begun. ConfigError:
    there is none, or its package is broken."""
    found, word = _found(group), _WORDS[group]
    if name not in found:
        importlib.invalidate_caches()
        _found.cache_clear()
        found = _found(group)
    if name not in found:
        raise ConfigError(f"there is no {word} of kind {name!r}", hint=f"known kinds: {', '.join(found)}")
    try:
        return found[name].load()
    except (ImportError, AttributeError) as exc:
        package = found[name].dist
        raise ConfigError(
            f"the {word} kind {name!r} cannot be loaded: {exc}",
            hint=f"mend or remove the package {package.name if package else found[name].value}",
        ) from exc


@cache
def _found(group: str) -> Mapping[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for one in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        other = found.setdefault(one.name, one)
        if other.value != one.value:
            raise ConfigError(
                f"two packages bring a {_WORDS[group]} kind {one.name!r}: {other.value} and {one.value}",
                hint="remove one of them",
            )
    return found
