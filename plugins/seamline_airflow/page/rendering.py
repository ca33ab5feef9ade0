"""How a page becomes HTML: the templates, what they may call, and who looks from where."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal
from importlib import resources
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from seamline.domain.attachment import BYTES_MAX
from seamline.domain.baseline import repeated_in_words
from seamline.domain.break_age import band_in_words
from seamline.domain.break_work import ALL_SETTLED
from seamline.domain.calendar import moment_in_words
from seamline.domain.cut_state import check_in_words, of_live
from seamline.domain.date_before import late_in_words
from seamline.domain.differences import of_sums
from seamline.domain.doubted import altered_in_words
from seamline.domain.duration import duration
from seamline.domain.errors import SeamlineError
from seamline.domain.late_input import VERDICT_AFTER
from seamline.domain.log_patch import log_between_in_words
from seamline.domain.person import is_same_person
from seamline.domain.phrase import phrase
from seamline.domain.row_transform import transforms_in_words
from seamline.domain.self_test import self_test_in_words
from seamline.domain.separate import separate_in_words
from seamline.domain.sign_off import urgent_first
from seamline.domain.verdict import Break, nothing_compared, shared_reasons
from seamline.domain.witness import third_witness_in_words
from seamline.platform.breaks import CHANGES_NAMED
from seamline.platform.work import WAITING_FOR_MAILS_MAX, WAITING_MAX
from seamline.report.words import visible
from seamline.sync.shown_order import by_run
from seamline_airflow.page import access, acting, reports
from seamline_airflow.page.differing import Pair, pairs
from seamline_airflow.page.language import Language, Speaker, here_of, language_of
from seamline_airflow.page.mount import URL_PREFIX
from seamline_airflow.page.over_ages import drawn_by_age

# Of the breaks that wait for a person the overview shows so many.
WAITING_SHOWN = 20

_MODES = {
    "read": phrase("read: the destination holds what was read of the source at that position"),
    "day_slice": phrase(
        "day_slice: the rows of the date alone were read of the source at that position, and take the place of those"
        " that the date had"
    ),
    "unlogged": phrase("one read: the source has no log, so this holds for this read and covers nothing else"),
    "delivered": phrase("one delivery: this holds for its files and covers nothing else"),
    "separate": phrase("separate: each side at a position of its own, for another tool carries the tables"),
    "barrier": phrase("barrier: the stream was held while both sides stood at that position"),
    "versioned": phrase(
        "versioned: the version of the tables was read that stood at that position while the stream was held there"
    ),
    "log": phrase("log-patched: the log between both positions was applied to what the destination was read with"),
}

# As `moment_in_words` writes them, and dates alone.
_MOMENTS = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d [+-]\d\d:\d\d(?::\d\d)?)?")
# Ends of lines are blanks in a page, and words of some scripts are joined by signs that cannot be seen.
_KEPT = "\n\t\u200c\u200d"


def _written_out(value: Any) -> Any:
    """Nothing that cannot be seen stands in a page: no value turns the text around it, or hides in it."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(one if one in _KEPT else visible(one) for one in value)


def _grouped(value: int | Decimal | None) -> str:
    # A Decimal may else be written with an exponent.
    return "–" if value is None else f"{value:,f}" if isinstance(value, Decimal) else f"{value:,}"


def _moment(value: datetime | None, zone: tzinfo) -> str:
    return _unbroken(moment_in_words(value, zone)) if value else "–"


def _unbroken(text: str) -> Markup:
    """Its moments and dates each on one line, however narrow the place; a browser breaks a line at their hyphens."""
    # Parts of a `Markup` would be escaped once more where they are joined.
    return Markup(_MOMENTS.sub(r'<span class="at">\g<0></span>', str(Markup.escape(text))))


def _signed(value: int | Decimal | None) -> str:
    """A difference; – where there is no number."""
    if not value:
        return "–" if value is None else "0"
    return f"{'+' if value > 0 else ''}{_grouped(value)}"


def _group(values: Sequence[str]) -> str:
    return " / ".join(values) or phrase("all")


def _pairs(found: Break) -> list[Pair]:
    """With what both sides have alike beside an amount, behind what differs."""
    beside = found.beside or {}
    return pairs(*(None if side is None else {**side, **beside} for side in (found.source, found.destination)))


def _mode(mode: str) -> str:
    """How both sides came to stand at one position."""
    return _MODES.get(mode, mode)


def _weekday(day: date) -> str:
    return f"{day:%a}"


_FILTERS: dict[str, Any] = dict(
    grouped=_grouped,
    moment=_moment,
    weekday=_weekday,
    of_live=of_live,
    altered=altered_in_words,
    hollow=nothing_compared,
    in_order=reports.tables_in_order,
    shared_reasons=shared_reasons,
    breaks=reports.breaks_in_words,
    by_run=by_run,
    late=late_in_words,
    transformed=transforms_in_words,
    self_test=self_test_in_words,
    third_witness=third_witness_in_words,
    repeated=repeated_in_words,
    separate=separate_in_words,
    log_between=log_between_in_words,
    check=check_in_words,
    airflow=reports.airflow_path,
    comparing=reports.comparing_task,
    pairs=_pairs,
    difference=of_sums,
    signed=_signed,
    of_group=_group,
    mode=_mode,
    as_json=json.dumps,
    band=band_in_words,
    drawn_by_age=drawn_by_age,
    duration=duration,
    urgent_first=urgent_first,
)


def _environment(language: Language) -> Environment:
    speaker = Speaker(language, _written_out)
    made = Environment(
        loader=PackageLoader("seamline_airflow.page"),
        autoescape=True,
        finalize=speaker.said,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    speaker.install(made)
    made.filters.update(_FILTERS, unbroken=lambda text: _unbroken(speaker.said(text)))
    made.tests.update(person=is_same_person)
    made.globals.update(
        changes_max=CHANGES_NAMED,
        all_settled=ALL_SETTLED,
        waiting_shown=WAITING_SHOWN,
        waiting_judged=WAITING_MAX,
        waiting_mailed=WAITING_FOR_MAILS_MAX,
        attached_bytes_max=BYTES_MAX,
        verdict_after=f"{VERDICT_AFTER.total_seconds() / 3600:g}",
    )
    return made


# One for each language: what a template says is settled where it is compiled, and no request can change it.
PAGES = {language: _environment(language) for language in Language}


@dataclass(frozen=True, slots=True)
class Visit:
    """Who looks, from where, and in which language. `framed_by`: the address of Airflow, in whose frame no link leads
    out; "" outside. `here`: the page itself, for links that lead back to it."""

    user: Any
    framed_by: str = ""
    language: Language = Language.ENGLISH
    here: str = "page"


def visit_of(request: Request, user: access.User, dag_id: str = "") -> Visit:
    # Browsers say it to https and to their own machine only. Without a word the page of a run is taken to be framed.
    where = request.headers.get("sec-fetch-dest", "iframe" if dag_id else "")
    is_framed = where in ("iframe", "frame")
    framed_by = f"{request.url.scheme}://{request.url.netloc}{airflow_of(request)}" if is_framed else ""
    return Visit(user, framed_by, language_of(request), here_of(request))


def airflow_of(request: Request) -> str:
    """The path of Airflow itself, without a slash behind it."""
    return str(request.scope["root_path"]).removesuffix(URL_PREFIX)


def render(template: str, visit: Visit, **values: Any) -> str:
    """For somebody who has signed in."""
    return page_of(
        template,
        user=visit.user.get_name(),
        token=acting.token_of(visit.user),
        framed_by=visit.framed_by,
        language=visit.language,
        address=visit.here,
        **values,
    )


def refused(visit: Visit, error: SeamlineError, here: str) -> HTMLResponse:
    """What is not possible, and the way back; nothing has changed."""
    return HTMLResponse(render("refused.html", visit, said=error.message, hint=error.hint, here=here), 409)


def page_of(template: str, *, language: Language = Language.ENGLISH, address: str = "page", **values: Any) -> str:
    return PAGES[language].get_template(template).render(address=address, **values)


def text_of(name: str) -> str:
    """A file beside the templates, as it is."""
    return (resources.files("seamline_airflow.page") / "templates" / name).read_text(encoding="utf-8")
