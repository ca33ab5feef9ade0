"""What the log of acts has of a take of a cut, or of a comparison of live tables, beside what is stored of it. Pure.

A report shows what is stored. Where that is not what was recorded, nobody knows what is true of it: `cut_state` lets
nothing of it be shown as a MATCH then.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from seamline.domain.phrase import Phrase, phrase

NOT_AS_RECORDED = phrase("the stored verdict is not the one that was recorded: do not rely on it")


@dataclass(frozen=True, slots=True)
class Recorded:
    """`verdict_hash`: of the verdict, as its newest entry has it; "" where no entry names it. `faults`: what of
    it is stored otherwise than it was entered, or is missing, each as `./seamline audit verify` says it."""

    verdict_hash: str = ""
    faults: tuple[str, ...] = ()

    def lines(self, cure: str) -> Iterator[str]:
        """What a report says before all else; nothing where all is as it was recorded."""
        if not self.faults:
            return
        yield NOT_AS_RECORDED
        yield from self.faults
        yield cure


def cure_of_take(sync: str) -> Phrase:
    return phrase(
        "`./seamline audit verify --sync %(sync)s` looks at the whole log; nobody can sign this take: take the date"
        " again",
        sync=sync,
    )


def cure_of_live(sync: str) -> Phrase:
    return phrase(
        "`./seamline audit verify --sync %(sync)s` looks at the whole log; compare the live tables again",
        sync=sync,
    )
