"""Which ledger the tables of a folder belong to. Two on one folder would delete each other's tables: what no row of a
ledger leads to is dropped once it is old."""

import os
import secrets
from collections.abc import Collection, Iterable
from pathlib import Path

from seamline.databases.postgres.client import Session
from seamline.domain.errors import InvariantViolated, Refused
from seamline.sinks.lake.files import sync

OWNER = ".seamline-ledger"


def ledger_of(session: Session) -> str:
    """The database of a session: another one on any other server, and another one once it was made again."""
    row = session.execute(
        "SELECT format('PostgreSQL %s, database %s', (SELECT system_identifier FROM pg_control_system()), oid)"
        " FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    if row is None:
        raise InvariantViolated("a session has no database")
    return str(row[0])


def claim(folder: Path, ledger: str, *, tables: Collection[Path], known: Iterable[Path]) -> None:
    """Write down in the folder of a namespace that its tables are this ledger's. A repeat changes nothing.

    Arguments and errors as of `require_own`.
    """
    require_own(folder, ledger, tables=tables, known=known)
    path = folder / OWNER
    if not path.exists():
        folder.mkdir(exist_ok=True)
        draft = path.with_name(f"{OWNER}-{secrets.token_hex(8)}")
        draft.write_text(ledger, encoding="utf-8")
        sync(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            # The other one was faster, and says below who it is.
            pass
        finally:
            draft.unlink()
        sync(folder)
    _require_owner(path, ledger)


def require_own(folder: Path, ledger: str, *, tables: Collection[Path], known: Iterable[Path]) -> None:
    """Refused: another ledger has claimed the folder, or nobody has and its tables are not this ledger's.

    `tables`: folders of tables that lie in it; `known`: folders that rows of this ledger lead to.
    """
    path = folder / OWNER
    if path.exists():
        _require_owner(path, ledger)
    elif tables and not set(tables) & set(known):
        raise Refused(
            f"{folder} has tables, as {min(tables)}, and {OWNER} is missing there; no row of this ledger ({ledger})"
            " leads to one of them",
            hint="choose another namespace or another warehouse; if the tables are nobody's any more, move them away",
        )


def _require_owner(path: Path, ledger: str) -> None:
    owner = path.read_text(encoding="utf-8").strip()
    if owner != ledger:
        raise Refused(
            f"the tables in {path.parent} belong to another ledger ({owner}; here it is {ledger})",
            hint="choose another namespace or another warehouse. If the ledger's database was dumped and restored"
            f" elsewhere, as on another server, and nobody uses the old one any more, delete {path}: the ledger whose"
            " rows lead to these tables writes it again",
        )
