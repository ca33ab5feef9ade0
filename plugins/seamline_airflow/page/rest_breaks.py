"""Rows that differ, as REST answers them."""

from typing import Any

from fastapi import HTTPException

from seamline.platform.attachments import Holder
from seamline.platform.breaks import StoredBreak
from seamline_airflow import parts
from seamline_airflow.page import break_pages, reading, selection
from seamline_airflow.page import rest_answers as answers

BREAKS_MAX = 500


def breaks(asked: selection.Asked, limit: int, opened: selection.Opened = reading.breaks) -> answers.Breaks:
    """404 where nothing was compared. `opened`: by what their values are read."""
    shown = selection.required(asked)
    listed, is_more = selection.some(shown, asked.wanted, limit, opened)
    found = shown.found
    return answers.Breaks(
        sync=asked.sync,
        run=found.run_id,
        destination=found.destination,
        scope=found.scope,
        business_date=found.business_date,
        verdict=shown.headline,
        ended_at=found.ended_at,
        breaks_total=sum(table.breaks_total for table in found.tables),
        counts=[answers.Count.model_validate(one) for one in selection.counts(shown)],
        breaks=[_break(one) for one in listed],
        next_after=str(listed[-1].place) if is_more else None,
    )


def history(sync: str, break_id: str, opened: selection.Opened = reading.breaks) -> answers.History:
    """404 where no comparison of the sync has found it. `opened`: by what its values are read."""
    seen = break_pages.history(sync, break_id, opened)
    if seen is None:
        raise HTTPException(status_code=404, detail=f"no comparison of {sync} has found break {break_id}")
    sightings = [
        answers.Sighting(
            run=one.run_id,
            destination=one.destination,
            scope=one.scope,
            business_date=one.business_date,
            at=one.at,
            found=_of_break(break_id, one.found),
        )
        for one in seen.sightings
    ]
    with parts.attachments() as attached:
        files = [answers.Attachment.model_validate(one) for one in attached.files(Holder(sync, break_id=break_id))]
    standing = {"first": None, "last": None, "dates": 0, "gone_by": None} | dict(seen.standing)
    standing.pop("days", None)
    return answers.History(id=break_id, sightings=sightings, files=files, **standing)


def _break(one: StoredBreak) -> answers.Break:
    made = _of_break(one.break_id, one.found)
    return made.model_copy(update={"first_date": one.first_date, "first_at": one.first_at})


def _of_break(break_id: str, found: Any) -> answers.Break:
    return answers.Break(
        id=break_id,
        table=found.table,
        type=found.type,
        key=found.key,
        source=found.source,
        destination=found.destination,
        beside=found.beside,
    )
