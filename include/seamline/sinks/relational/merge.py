"""What differs of a staged table, merged into the live one inside a transaction: rows of both stay where they are."""

import pymysql

from seamline.databases.mysql.canonical import quoted
from seamline.domain.catalogue import Table
from seamline.sinks.relational.delete_insert import deletable, is_of
from seamline.sinks.relational.session import Session, execute, said
from seamline.sinks.relational.statements import COPY, HASH

_SAVEPOINT = "seamline_merge"


def merge_into_live(session: Session, table: Table, *, database: str, staged: str) -> None:
    live = f"{quoted(database)}.{quoted(table.name)}"
    if not table.is_keyed:
        # Copies are numbered: the third copy here is the third one there. What somebody has changed in a row, its hash
        # does not say.
        keys = [HASH, COPY]
        execute(session, f"{_delete(keys, live, staged)} OR NOT ({_alike(table, live)})")
        execute(session, _insert(table, keys, live, staged))
        return
    keys = [quoted(name) for name in table.key]
    execute(session, f"SAVEPOINT {_SAVEPOINT}")
    try:
        _merge(session, table, keys, live, staged)
    except pymysql.err.IntegrityError as refusal:
        if not is_of(session, refusal, database, table):
            raise
        execute(session, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
        why = f"cannot publish {table.name}: {said(refusal)}"
        _delete_and_insert(session, table, keys, live, staged, database=database, why=why)


def _merge(session: Session, table: Table, keys: list[str], live: str, staged: str) -> None:
    columns = [quoted(column.name) for column in table.columns]
    execute(session, _delete(keys, live, staged))
    rest = [column for column in columns if column not in keys]
    if rest:
        # The server writes a row only where its bytes differ.
        execute(
            session,
            f"UPDATE {live} AS l JOIN {staged} AS s ON {_same(keys)} SET"
            f" {', '.join(f'l.{column} = s.{column}' for column in rest)}",
        )
    execute(session, _insert(table, keys, live, staged))


def _delete_and_insert(
    session: Session, table: Table, keys: list[str], live: str, staged: str, *, database: str, why: str
) -> None:
    """As `_merge`, where values change places under a unique index: all rows that differ go before any comes."""
    with deletable(session, table, database, said=why):
        execute(session, f"{_delete(keys, live, staged)} OR NOT ({_alike(table, live)})")
    execute(session, _insert(table, keys, live, staged))


def _delete(keys: list[str], live: str, staged: str) -> str:
    # Under another name than its own, the table would be looked for in the session's database, which has none.
    return f"DELETE {live} FROM {live} LEFT JOIN {staged} AS s ON {_same(keys, live)} WHERE s.{keys[0]} IS NULL"


def _insert(table: Table, keys: list[str], live: str, staged: str) -> str:
    columns = [quoted(column.name) for column in table.columns]
    stored = columns if table.is_keyed else [*columns, *keys]
    return (
        f"INSERT INTO {live} ({', '.join(stored)}) SELECT {', '.join(f's.{column}' for column in stored)}"
        f" FROM {staged} AS s LEFT JOIN {live} AS l ON {_same(keys)} WHERE l.{keys[0]} IS NULL"
    )


def _alike(table: Table, live: str) -> str:
    return " AND ".join(f"{live}.{quoted(column.name)} <=> s.{quoted(column.name)}" for column in table.columns)


def _same(keys: list[str], live: str = "l") -> str:
    return " AND ".join(f"{live}.{key} = s.{key}" for key in keys)
