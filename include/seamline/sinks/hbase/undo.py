"""Rows as they were before a commit, which are put back where it does not end: an undo log.

Each attempt writes a log of its own before the ledger names it, so what is named is whole. The next attempt at a
commit, and a joining, put the rows back before they look at anything: what a repeat meets, and takes for values that
its log leaves out, is what the ledger's position has.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from seamline.sinks.hbase.applying import TableSpan
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.ledger import Known, Ledgers
from seamline.sinks.hbase.places import Place, Places
from seamline.sinks.hbase.rows import Cells, How, page_of, scanned

_ROWS, _CHARACTERS = 2_000, 4 << 20
_CELL = "s"
# A key that is none of ours may be any bytes.
_ANY = {"encoding": "utf-8", "errors": "surrogateescape"}
Before = tuple[bytes, Cells | None]


def keep_rows(store: Store, places: Places, known: Known, spans: Sequence[TableSpan]) -> str:
    """Keep what these spans write over; the name that the ledger is to have of it, "" where it is nothing."""
    number = known.state.number
    name = f"{number:020d}.{secrets.token_hex(4)}"
    where = _named(places, known, name)
    page = 0
    for span in spans:
        for rows in _by_pages(span.before(store)):
            text = json.dumps([span.place.table, [(key.decode(**_ANY), cells) for key, cells in rows]])
            parts = [text[first : first + _CHARACTERS] for first in range(0, len(text), _CHARACTERS)]
            for place, part in enumerate(parts):
                key = where.prefix + f"{page:08d}/{place:04d}".encode()
                store.write(where.table, number, page_of([_CELL], [(How.FRESH, key, [part])]))
            page += 1
    return name if page else ""


def put_back(store: Store, ledgers: Ledgers, places: Places, known: Known) -> Known | None:
    """The ledger once rows that an interrupted commit has left ahead of it are as before; None where it has moved.
    A repeat, also by another owner, does it again with a higher number."""
    named = known.state.before
    if not named:
        return known
    begun = ledgers.changed(known, lambda state: state.reserving(1))
    if begun is None:
        return None
    number = begun.state.first_number(1)
    for table, rows in _kept(store, _named(places, known, named)):
        # One that has left meanwhile has its rows elsewhere.
        if store.exists(table):
            store.write(table, number, _page_before(rows))
    done = ledgers.changed(begun, lambda state: replace(state.reserving(1), before="", ahead=0))
    if done is not None:
        forget_rows(store, places, done, named)
    return done


def forget_rows(store: Store, places: Places, known: Known, name: str) -> None:
    """Those that the ledger has named so, and does not name any more."""
    if name:
        where = _named(places, known, name)
        store.sweep(where.table, where.prefix, where.end, known.state.number + 1)


def forget_unnamed(store: Store, places: Places, known: Known) -> None:
    """What attempts have left that ended before the ledger named it, or before they let it go. Of the number that the
    ledger has now an owner may be about to name some."""
    every, number = _of_stream(places, known), known.state.number
    if not known.state.before:
        store.sweep(every.table, every.prefix, every.end, number)
        return
    named = _named(places, known, known.state.before)
    store.sweep(every.table, every.prefix, named.prefix, number)
    store.sweep(every.table, named.end, every.end, number)


def forget_all(store: Store, places: Places, known: Known) -> None:
    """Once the stream has no ledger."""
    every = _of_stream(places, known)
    store.sweep(every.table, every.prefix, every.end, known.state.number + 1)


def _page_before(rows: Sequence[Before]) -> bytes:
    names = sorted({name for _, cells in rows for name in cells or ()})
    return page_of(
        names,
        [
            (How.GOES, key, ()) if cells is None else (How.OVER, key, [cells.get(name) for name in names])
            for key, cells in rows
        ],
    )


def _by_pages(rows: Iterable[Before]) -> Iterator[list[Before]]:
    page, size = list[Before](), 0
    for row in rows:
        page.append(row)
        size += sum(map(len, (row[1] or {}).values()))
        if len(page) == _ROWS or size > _CHARACTERS:
            yield page
            page, size = [], 0
    if page:
        yield page


def _kept(store: Store, where: Place) -> Iterator[tuple[str, list[Before]]]:
    for _, parts in groupby(scanned(store, where), key=lambda row: row[0].rpartition(b"/")[0]):
        table, rows = json.loads("".join(cells[_CELL] for _, cells in parts))
        yield table, [(key.encode(**_ANY), cells) for key, cells in rows]


def _of_stream(places: Places, known: Known) -> Place:
    return Place(places.beside, f"undo/{known.state.row.stream}/".encode())


def _named(places: Places, known: Known, name: str) -> Place:
    return Place(places.beside, _of_stream(places, known).prefix + f"{name}/".encode())
