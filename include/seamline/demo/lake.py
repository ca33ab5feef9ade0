"""The bank's tables in Iceberg as well: one more destination of the demo's sync."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.domain.errors import ConfigError
from seamline.plan.model import SyncPlan
from seamline.spec.load import load_declarations
from seamline.stack.layout import Layout

DESTINATION = "lake"
_WAREHOUSE = "<warehouse>"
_DESTINATIONS = re.compile(r"^(destinations: *\[[^]\n]+)\]", re.MULTILINE)


def declare(layout: Layout, sync: str) -> None:
    """Put the destination beside the others and its name into the sync; the declarations must be right. ConfigError:
    the sync's destinations are not written as `destinations: [...]`."""
    shipped, declarations = layout.settings.root / "include" / "with" / "lake.yaml", layout.settings.declarations
    text = shipped.read_text(encoding="utf-8")
    # JSON's texts are YAML's too, whatever the path holds.
    text = text.replace(_WAREHOUSE, json.dumps(str(layout.lake), ensure_ascii=False))
    (declarations / "destinations" / f"{DESTINATION}.yaml").write_text(text, encoding="utf-8")
    if DESTINATION in load_declarations(declarations).sync(sync).destinations:
        return
    file = declarations / "syncs" / f"{sync}.yaml"
    written, replaced = _DESTINATIONS.subn(rf"\1, {DESTINATION}]", file.read_text(encoding="utf-8"))
    if not replaced:
        raise ConfigError(
            f"{file} does not have its destinations in one line, as `destinations: [warehouse, archive]`",
            hint=f"add `{DESTINATION}` to them, and run the demo again",
        )
    file.write_text(written, encoding="utf-8")


def describe(plan: SyncPlan) -> Iterator[str]:
    """Where the tables lie, and of each its newest snapshot and its tags, as any client of the catalogue sees them."""
    # Only here: pyiceberg takes a while to load, and a demo without a lake does without it.
    from seamline.databases.postgres.client import open_session
    from seamline.sinks.iceberg.options import options_of
    from seamline.sinks.lake.catalogue import Catalogue

    destination = plan.destination(DESTINATION)
    options = options_of(destination)
    with closing(open_session(resolve(destination.connection), application_name="seamline demo")) as session:
        heads = Catalogue(options.catalog).pointers(session, destination.namespace)
    yield f"Iceberg tables in {options.warehouse}, catalogue `{options.catalog}` (./seamline exec --as lake psql)"
    names = {*(table.name for table in plan.tables), *(table.name for table in plan.derived)}
    yield from snapshots_in_words({name: head for name, head in heads.items() if name in names})


def snapshots_in_words(heads: Mapping[str, str]) -> Iterator[str]:
    """`heads`: of each table its metadata file."""
    from pyiceberg.table import StaticTable
    from pyiceberg.table.refs import SnapshotRefType

    width = max(map(len, heads), default=0)
    for name, location in sorted(heads.items()):
        metadata = StaticTable.from_metadata(location).metadata
        tags = sorted(tag for tag, ref in metadata.refs.items() if ref.snapshot_ref_type is SnapshotRefType.TAG)
        yield f"  {name:<{width}}  snapshot {metadata.current_snapshot_id}, {_tags_in_words(tags)}"


def _tags_in_words(tags: list[str]) -> str:
    return f"tags {', '.join(tags)}" if tags else "no tags"
