"""In which language the page speaks, and its texts in that language.

English texts stand in the templates, and in `phrase(…)` where Python makes them; they are the keys of the catalogues in
`languages/`, one JSON file per language. What a catalogue does not hold is said in English.
"""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse
from jinja2 import Environment
from markupsafe import Markup

from seamline.domain.phrase import Phrase
from seamline_airflow.page.charts import Picture

COOKIE = "seamline_language"
_YEAR_S = 365 * 24 * 3600
# A page of ours by its name, with its query: nothing that leads anywhere else.
_HERE = r"^[a-z_]{1,40}(\?[!-~]*)?$"


class Language(StrEnum):
    """By the tag that a browser has for it."""

    ENGLISH = "en"
    CHINESE = "zh-CN"


# How each calls itself, in the link by which a person chooses it.
NAMES = {Language.ENGLISH: "English", Language.CHINESE: "中文"}

choice = APIRouter()


@choice.get("/language", response_model=None)
def choose(
    request: Request, to: Language, here: Annotated[str, Query(pattern=_HERE, max_length=8_000)] = "page"
) -> RedirectResponse:
    """Keep what a person chose in a cookie, and lead back to the page that they came from."""
    answer = RedirectResponse(here, status_code=303)
    answer.set_cookie(
        COOKIE,
        to.value,
        max_age=_YEAR_S,
        path=str(request.scope["root_path"]) or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
    return answer


def language_of(request: Request) -> Language:
    """What the person chose, else what the browser asks for first of the languages that there are, else English."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in set(Language):
        return Language(chosen)
    asked = sorted(map(_weighed, request.headers.get("accept-language", "").split(",")), key=lambda one: -one[1])
    return next((found for tag, weight in asked if weight > 0 and (found := _known(tag))), Language.ENGLISH)


def here_of(request: Request) -> str:
    """The page that is shown, as a link beside it says it; the overview for the answer to an act."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{request.url.path.rpartition('/')[2]}{query}" if request.method == "GET" else "page"


def here_before(request: Request) -> str:
    """The page of ours from which a form or a link came, as a link beside it says it; the overview where none did."""
    try:
        before = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return "page"
    query = f"?{before.query}" if before.query else ""
    here = f"{before.path.rpartition('/')[2]}{query}"
    is_ours = before.netloc == request.headers.get("host") and re.match(_HERE, here)
    return here if is_ours else "page"


def _weighed(asked: str) -> tuple[str, float]:
    tag, _, weight = asked.partition(";")
    try:
        return tag.strip().lower(), float(weight.strip().removeprefix("q=")) if weight else 1.0
    except ValueError:
        return "", 0.0


def _known(tag: str) -> Language | None:
    """Chinese of any kind is nearer to somebody who asks for it than English."""
    return {"en": Language.ENGLISH, "zh": Language.CHINESE}.get(tag.partition("-")[0])


@cache
def catalogue(language: Language) -> Mapping[str, str]:
    """By its English text each text that is known in the language; nothing for English itself."""
    if language is Language.ENGLISH:
        return {}
    file = resources.files("seamline_airflow.page") / "languages" / f"{language.value}.json"
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


class Speaker:
    """What templates say in one language. `seen`: how a value is made fit to be seen; values are escaped besides."""

    def __init__(self, language: Language, seen: Callable[[Any], Any]) -> None:
        self._language, self._texts, self._seen = language, catalogue(language), seen

    def install(self, made: Environment) -> None:
        """`_`, `{% trans %}` and the filter `term`. Texts of a catalogue are markup, as those of a template are."""
        made.add_extension("jinja2.ext.i18n")
        made.policies["ext.i18n.trimmed"] = True
        # Jinja's own functions for new style calls would put values in without looking at them.
        made.install_gettext_callables(self.text, self.number, newstyle=False)  # type: ignore[attr-defined]
        made.newstyle_gettext = True  # type: ignore[attr-defined]
        made.filters["term"] = self.term
        made.globals.update(language=self._language.value, languages=NAMES)

    def text(self, pattern: str, /, **values: object) -> Markup:
        return Markup(self._texts.get(pattern, pattern)) % {name: self.said(one) for name, one in values.items()}

    def number(self, one: str, several: str, count: int, /, **values: object) -> Markup:
        """English knows two forms. Chinese has one, which stands at that for several."""
        is_one = count == 1 and self._language is Language.ENGLISH
        return self.text(one if is_one else several, **{"num": count, **values})

    def term(self, word: str) -> str:
        """One of the words that are shown of a value, as a state; a word that the catalogue has not, as it is."""
        known = self._texts.get(str(word))
        return str(word) if known is None else Markup(known)

    def said(self, value: Any) -> Any:
        """A phrase, a word of an enumeration or the title of a picture in this language, any other value made fit to be
        seen."""
        if isinstance(value, StrEnum):
            return self.term(value.value)
        if isinstance(value, Picture):
            return value.titled(self.said(value.title))
        if not isinstance(value, Phrase):
            return self._seen(value)
        known = Markup.escape(self._texts.get(value.pattern, value.pattern))
        return known % {name: self.said(one) for name, one in value.values.items()}
