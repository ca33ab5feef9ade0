"""The work on breaks beside the log of acts: each break is in the state that its newest entry says, and each entry
leads to the breaks that it was about."""

from collections.abc import Iterator

from psycopg.rows import dict_row

from seamline.platform.database import Session

_ROWS_AT_ONCE = 500
# A break that no entry has moved is open. Whoever changes a document is found by the chain.
_STATES = """
with said as (
    select distinct on (a.break_id) a.break_id, a.number,
        case when e.document is json then e.document::json->>'state' end as state
    from break_act a join audit_entry e using (number)
    where case when e.document is json then e.document::json->>'state' end is not null
    order by a.break_id, a.number desc
)
select w.break_id, w.sync, w.destination, w.state, said.number, coalesce(said.state, 'open') as said
from break_work w left join said using (break_id)
where w.state <> coalesce(said.state, 'open') and %(sync)s in ('', w.sync) order by w.break_id
"""
# As `breaks_document` makes the hash: the canonical JSON of the sorted identities, which have no letter to be escaped.
_ENTRIES = """
with listed as (
    select number, count(*) as breaks, encode(sha256(convert_to(
        '[' || string_agg('"' || break_id || '"', ',' order by break_id collate "C") || ']', 'UTF8')), 'hex') as hash
    from break_act group by number
),
said as (
    select number, kind, sync, case when document is json then document::json->>'breaks_hash' end as hash
    from audit_entry where %(sync)s in ('', sync)
)
select said.number, said.kind, coalesce(listed.breaks, 0) as breaks from said left join listed using (number)
where said.hash is not null and said.hash is distinct from listed.hash order by number
"""


def faults(session: Session, sync: str) -> Iterator[str]:
    """One line for each. `sync` "": of all syncs."""
    with session.cursor(name="states_of_breaks", row_factory=dict_row) as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        cursor.execute(_STATES, {"sync": sync})
        for row in cursor:
            after = f"entry {row['number']}" if row["number"] else "it was found"
            place = f"{row['sync']} → {row['destination']}, break {row['break_id']}"
            yield f"{place}: its state was changed to {row['state']} after {after}, which left it {row['said']}"
    with session.cursor(name="breaks_of_entries", row_factory=dict_row) as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        cursor.execute(_ENTRIES, {"sync": sync})
        for row in cursor:
            yield f"entry {row['number']} ({row['kind']}): it leads to other breaks than it was about"
