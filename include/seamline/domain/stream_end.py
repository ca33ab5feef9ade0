"""Why a stream has ended for good, as people read it: what happened, and what they do about it, a sentence each. Pure.

The end of a worker is kept as one text: the error's class, its message with its place, and its cure in a line of its
own. The page, `status`, alarms and the reason of a comparison all show what is read from that text here.
"""

import re
from dataclasses import dataclass

from seamline.domain.errors import HINT, Diverged, Fenced, InvariantViolated, LogCorrupted, PositionLost, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.phrase import joined, phrase

_KIND = re.compile(r"([A-Z][A-Za-z]+): ")
# Behind a message: where it happened, as an error's own text says it.
_PLACE = re.compile(r" \((?:sync|table|position) [^\n]*\)$")
# Whatever a person mends, the stream cannot go on from where it stands.
_LOADED_AGAIN = (PositionLost.__name__, LogCorrupted.__name__)
# A hint with it needs no other act.
_NAMES_RESTART = "stream restart"
# Nothing outside of the stream is wrong.
_AT_ONCE = (Fenced.__name__, InvariantViolated.__name__)


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """`kind`: the class of the error, "" where the text has none. `what` has no line break. `may_restart`: whether
    another attempt can help, at once or once a person has mended what `cure` says."""

    what: str
    cure: str
    kind: str = ""
    may_restart: bool = True

    def in_words(self) -> str:
        """In one line: what happened, and how to mend it."""
        return phrase("%(what)s. To mend it: %(cure)s", what=self.what, cure=self.cure)


def stream_end(stream: StreamId, error: str) -> StreamEnd:
    """`error`: as its host keeps it."""
    kind, what, hint = _parts(error)
    hint = hint.replace("<sync>", stream.sync)
    cure, may_restart = _cure(stream, kind, hint), kind not in _LOADED_AGAIN or _NAMES_RESTART in hint
    return StreamEnd(what or phrase("no error was reported"), cure, kind, may_restart=may_restart)


def restart_command(stream: StreamId) -> str:
    """What starts a stream again on the command line."""
    return f"./seamline stream restart {stream.sync} {stream.destination}"


def in_one_line(error: str) -> str:
    """The text of an error that may pass by itself: that it may is said beside it."""
    kind, what, hint = _parts(error)
    said = f"{kind}: {what}" if kind and kind != TransientError.__name__ else what
    return f"{said}; {hint}" if hint else said


def _parts(error: str) -> tuple[str, str, str]:
    """The error's class, what happened in one line, and its hint; each "" where there is none."""
    text, _, hint = error.partition(f"\n{HINT}")
    known = _KIND.match(text)
    kind = known[1] if known else ""
    text = " ".join(text.removeprefix(f"{kind}: ").split())
    what = _PLACE.sub("", text)
    lacking = [name for name in _tables(text) if not re.search(rf"\b{re.escape(name)}\b", what)]
    return kind, f"{what}; tables: {', '.join(lacking)}" if lacking else what, " ".join(hint.split())


def _tables(text: str) -> list[str]:
    place = _PLACE.search(text)
    found = re.search(r"[( ]table ([^ )]+(?:, [^ )]+)*?)(?=\)$|, position )", place[0]) if place else None
    return [one.strip() for one in found[1].split(",")] if found else []


def _cure(stream: StreamId, kind: str, hint: str) -> str:
    first = "" if kind in _AT_ONCE else hint
    restart = (
        phrase("then start the stream again: `%(command)s`", command=restart_command(stream))
        if first
        else phrase("start the stream again: `%(command)s`", command=restart_command(stream))
    )
    load = phrase(
        "load the destination again: run `%(sync)s__onboard` and name %(destination)s under Destinations to load",
        sync=stream.sync,
        destination=stream.destination,
    )
    if _NAMES_RESTART in first:
        acts: list[str] = []
    elif kind in _LOADED_AGAIN:
        acts = [load]
    elif kind == Diverged.__name__:
        acts = [restart, phrase("or %(act)s", act=load)]
    else:
        acts = [restart]
    return joined("; ", [*([first] if first else []), *acts])
