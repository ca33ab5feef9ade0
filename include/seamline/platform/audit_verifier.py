"""PlatformAuditVerifier: `seamline audit verify` for maintenance, the chain and each sync by itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

import psycopg

from seamline.domain.errors import ConfigError, TerminalError
from seamline.platform.audit import UNREADABLE
from seamline.platform.audit_anchor import Anchors
from seamline.platform.audit_check import Checked, chain_faults, one_view, stored_faults
from seamline.platform.database import OpenSession, Session, translated
from seamline.sync.audit_round import LINES_MAX, Outcome

AnswerT = TypeVar("AnswerT")


class PlatformAuditVerifier:
    """Each method is one session of its own, in bounded memory. TransientError: the platform database, or a topic of
    anchors, does not answer in time. ConfigError, TerminalError: something of it cannot be read at all."""

    def __init__(self, open_one: OpenSession, find_anchors: Callable[[], Sequence[Anchors]]) -> None:
        self._open = open_one
        self._find_anchors = find_anchors

    def syncs(self) -> list[str]:
        """Every sync that the log of acts names, by name."""
        return self._asked(
            lambda session: [
                str(name)
                for (name,) in session.execute("select distinct sync from audit_entry where sync <> '' order by sync")
            ]
        )

    def chain(self) -> Outcome:
        """The chain, which is one for all syncs, from its first entry to its last, and its anchors."""
        # Before the view of the database begins: an anchor is younger than the entry that it names.
        anchors = self._find_anchors()
        return self._asked(lambda session: _outcome(chain_faults(session, Checked(), anchors)))

    def stored(self, sync: str) -> Outcome:
        """What is stored of a sync, beside its entries."""
        return self._asked(lambda session: _outcome(stored_faults(session, Checked(), sync)))

    def _asked(self, ask: Callable[[Session], AnswerT]) -> AnswerT:
        try:
            with closing(self._open()) as session, one_view(session):
                return ask(session)
        except psycopg.Error as exc:
            raise translated(exc) from exc
        except OSError as exc:
            raise ConfigError(
                f"the anchors of the log of acts cannot be read: {exc}",
                hint="let this process read the folder that SEAMLINE_AUDIT_ANCHORS names",
            ) from exc
        except UNREADABLE as exc:
            raise TerminalError(f"what the log of acts is held against cannot be read: {exc!r}") from exc


def _outcome(faults: Iterator[str]) -> Outcome:
    number, lines = 0, list[str]()
    for number, line in enumerate(faults, 1):
        if number <= LINES_MAX:
            lines.append(line)
    return Outcome(number, tuple(lines))
