"""One look at which syncs and destinations are declared, for who ends the streams of those that are not any more."""

import os
from functools import cache
from pathlib import Path

from seamline.domain.declared import DeclaredNow
from seamline.domain.errors import ConfigError
from seamline.domain.ledger import StreamId
from seamline.spec.load import load_alone
from seamline.spec.sync import SyncSpec

# An editor, or a checkout of another branch and back, takes a file away for moments.
SETTLED_S = 60.0
# Where not one file of a sync is left, a folder that is mounted there may be away.
ALL_GONE_S = 900.0


def declared_now(folder: Path) -> DeclaredNow:
    """A file counts whatever is in it, and under another ending (`settlement.yaml.off`, an editor's own): only one that
    is gone is deleted. Where nothing stands in the folder at all, nothing counts as deleted. What a file with a mistake
    names is not known."""

    @cache
    def declared(sync: str) -> SyncSpec | None:
        try:
            return load_alone(folder / "syncs" / f"{sync}.yaml").sync(sync)
        except (ConfigError, OSError):
            return None

    def source_of(stream: StreamId) -> str | None:
        sync = declared(stream.sync)
        return None if sync is None else sync.source if stream.destination in sync.destinations else ""

    try:
        files = _files(folder / "syncs")
        is_there = bool(files) or all(_files(folder / beside) for beside in ("sources", "destinations"))
    except OSError as exc:
        return DeclaredNow(frozenset(), source_of, None, f"{exc.filename} cannot be read: {exc.strerror}")
    if not is_there:
        why = f"no file of a sync stands in {folder / 'syncs'}, nor any beside it: the folder may be away"
        return DeclaredNow(frozenset(), source_of, None, why)
    syncs = frozenset(name.lstrip(".").partition(".")[0] for name in files)
    return DeclaredNow(syncs, source_of, SETTLED_S if files else ALL_GONE_S)


def _files(folder: Path) -> list[str]:
    """Links count, wherever they lead."""
    with os.scandir(folder) as entries:
        return [one.name for one in entries if not one.is_dir(follow_symlinks=False)]
