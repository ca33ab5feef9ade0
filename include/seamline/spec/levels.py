"""What readers of a sync's destinations may rely on, by its files as they are, right or wrong."""

from pathlib import Path

from seamline.spec.consistency import GUARANTEES
from seamline.spec.document import document_of
from seamline.spec.kinds import level_of, level_of_cuts, source_models
from seamline.spec.load import declared_kinds, only_compares, reads_a_log, source_document


def declared_levels(folder: Path, sync: str) -> dict[str, str]:
    """By destination, under the guarantee that the sync declares; nothing where another tool writes, and of kinds that
    are not known here."""
    source = str(source_document(folder, sync).value(("kind",)))
    if only_compares(folder, sync) or source not in source_models():
        return {}
    said = document_of(folder / "syncs" / f"{sync}.yaml").value(("guarantee",))
    guarantee = said if said in GUARANTEES else GUARANTEES[0]
    has_log = reads_a_log(folder, sync)
    return {
        name: level_of(kind, guarantee, source=source) if has_log else level_of_cuts(kind)
        for name, kind in declared_kinds(folder, sync).items()
    }
