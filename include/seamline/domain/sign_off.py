"""The sign-off of a published cut: the system prepares it, a person signs it, another one may re-open it.

It stands beside the decision of the gate, which is about publishing what is not clean. A signature is about one take:
it names the version and the hash of the verdict that the person has seen. Another verdict of the take makes it void; a
newer version of the date waits for a signature of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from enum import StrEnum

from seamline.domain.audit import FROM_PAGE, Kind
from seamline.domain.calendar import moment_in_words
from seamline.domain.date_before import SinceCut, change_in_words
from seamline.domain.errors import Refused
from seamline.domain.late_posting import StreamWatch
from seamline.domain.made_from import LateTransaction, LeftOut
from seamline.domain.person import is_same_person
from seamline.domain.phrase import joined, phrase
from seamline.domain.runs import RunState
from seamline.domain.verdict import Verdict

REASON_MAX = 2_000


# Of a later run that has published no version: else this one would be restated.
_LATER = {
    RunState.RUNNING: phrase("; a later run of the date goes on, and has published nothing yet"),
    RunState.SUCCEEDED: phrase("; a later run of the date has ended, and has published nothing"),
    RunState.FAILED: phrase("; a later run of the date has failed, and has published nothing"),
}


class SignAct(StrEnum):
    SIGNED = "signed"
    REOPENED = "reopened"


class SignState(StrEnum):
    PREPARED = "prepared"  # published, and nobody has signed
    SIGNED = "signed"
    REOPENED = "re-opened"
    VOID = "void"  # signed, and the verdict of this take is another one since
    RESTATED = "restated"  # a newer version of the date is in force


KIND_OF = {SignAct.SIGNED: Kind.SIGNED, SignAct.REOPENED: Kind.REOPENED}


class ReasonRequired(StrEnum):
    """When a signature needs a reason. A re-opening needs one always."""

    ALWAYS = "always"
    BREAKS = "breaks"  # where the take is not clean


@dataclass(frozen=True, slots=True)
class Signature:
    """One act of a person on one version. `number` counts from 1 in a take; `verdict_hash`: of what was signed, or of
    what stood there when it was re-opened; `verdict`: the same in a word, as it was published."""

    act: SignAct
    number: int
    version: int
    who: str
    reason: str
    verdict: Verdict
    verdict_hash: str
    at: datetime

    def in_words(self, zone: tzinfo = UTC) -> str:
        at, reason = moment_in_words(self.at, zone), f": {self.reason}" if self.reason else ""
        if self.act is SignAct.REOPENED:
            return phrase("re-opened by %(who)s at %(at)s%(reason)s", who=self.who, at=at, reason=reason)
        return phrase("signed by %(who)s at %(at)s%(reason)s", who=self.who, at=at, reason=reason)


@dataclass(frozen=True, slots=True)
class SignOrder:
    """A signature that a person wants to give. `verdict_hash`: of the verdict that the person has seen."""

    who: str
    reason: str
    verdict_hash: str
    reason_required: ReasonRequired = ReasonRequired.BREAKS
    origin: str = FROM_PAGE


@dataclass(frozen=True, slots=True)
class SignOff:
    """Of one version of a business date in one destination.

    `in_force`: the version that readers see. `verdict_hash`: of the verdict as the log of acts has it now. `preparer`:
    who asked for the run, or the scheduler; `prepared_reason`: why, "" where nobody has said it. `acts`: on this
    version, the oldest first. `earlier`: the newest signature of an earlier version that nobody has re-opened.
    `is_kept`: the cut has not expired. `late`: tables of which the source holds other rows since this version, as a
    later night has found. `later`: how the newest run stands that began after that of this version and is about the
    date too; None where there is none.
    `checks`: the verdict of its expectations as the log of acts has it now; "" where it has none.
    `watch`: what the stream has applied against it since it was signed; None where no stream is watched for it.
    `left_out`: transactions of the date, by their own word, that a cut from the log does not hold.
    """

    sync: str
    destination: str
    business_date: date
    version: int
    in_force: int
    run_id: str
    verdict: Verdict
    partial: bool
    verdict_hash: str
    preparer: str
    prepared_at: datetime
    acts: tuple[Signature, ...] = ()
    earlier: Signature | None = None
    is_kept: bool = True
    late: tuple[SinceCut, ...] = ()
    later: RunState | None = None
    watch: StreamWatch | None = None
    checks: str = ""
    left_out: LeftOut | None = None
    prepared_reason: str = ""

    @property
    def state(self) -> SignState:
        if self.version < self.in_force:
            return SignState.RESTATED
        if not self.acts:
            return SignState.PREPARED
        newest = self.acts[-1]
        if newest.act is SignAct.REOPENED:
            return SignState.REOPENED
        return SignState.SIGNED if newest.verdict_hash == self.verdict_hash else SignState.VOID

    @property
    def signature(self) -> Signature | None:
        """The one that stands for this take as it is, also where a newer version has restated it."""
        newest = self.acts[-1] if self.acts else None
        is_standing = newest and newest.act is SignAct.SIGNED and newest.verdict_hash == self.verdict_hash
        return newest if is_standing else None

    @property
    def waits(self) -> bool:
        """Whether a person has to sign."""
        return self.is_kept and self.state in (SignState.PREPARED, SignState.REOPENED, SignState.VOID)

    @property
    def is_clean(self) -> bool:
        """The worst of all that was found is MATCH: checks count in the verdict of a cut, and none has said otherwise
        since; no table and no transaction is left out, and nothing came late."""
        return self._is_clean_but_for_the_log and self.left_out is None

    @property
    def _is_clean_but_for_the_log(self) -> bool:
        is_match = self.verdict is Verdict.MATCH and self.checks in ("", Verdict.MATCH)
        return is_match and not self.partial and not self.late_in_words

    @property
    def _worst(self) -> str:
        return f"expectations {self.checks}" if self.verdict is Verdict.MATCH and self.checks else self.verdict

    @property
    def is_overtaken(self) -> bool:
        """Whether rows came late for what is signed: the date is to be cut again."""
        return self.state is SignState.SIGNED and bool(self.late_in_words)

    @property
    def late_in_words(self) -> list[str]:
        """What came late, as the stream has applied it and as a later night has found it."""
        by_stream = [self.watch.in_words] if self.watch and self.watch.in_words else []
        return by_stream + [joined(": ", [one.table, change_in_words(one)]) for one in self.late]

    @property
    def left_out_in_words(self) -> str:
        return self.left_out.in_words if self.left_out is not None else ""

    @property
    def may_be_restated(self) -> bool:
        """Whether its date can be asked for again as a restatement: a person has signed what readers see."""
        return self.state is SignState.SIGNED and self.is_kept

    def needs_reason(self, required: ReasonRequired) -> bool:
        return not self.is_clean or required is ReasonRequired.ALWAYS

    @property
    def goes_by_bulk(self) -> bool:
        """A date that somebody has re-opened, that was signed as something else, or of which there is a later run, is
        looked at by itself."""
        return self.is_clean and self._has_no_history

    @property
    def goes_by_one_reason(self) -> bool:
        """A date that is clean but for transactions that its cut from the log leaves out: several such are signed
        together, with one reason, by a person who sees each of these transactions. So all of them must be named."""
        is_named = self.left_out is not None and self.left_out.is_all
        return is_named and self._is_clean_but_for_the_log and self._has_no_history

    @property
    def left_out_transactions(self) -> tuple[LateTransaction, ...]:
        """As far as they are named."""
        return self.left_out.named if self.left_out is not None else ()

    @property
    def _has_no_history(self) -> bool:
        return self.later is None and self.state is SignState.PREPARED and self.earlier is None

    def in_words(self, zone: tzinfo = UTC) -> str:
        at = moment_in_words(self.prepared_at, zone)
        prepared = phrase("prepared by %(who)s at %(at)s", who=self.preparer, at=at)
        match self.state:
            case SignState.PREPARED if self.earlier is not None:
                return phrase(
                    "version %(earlier)s %(signed)s; restated by version %(version)s, %(prepared)s, which waits for a"
                    " signature",
                    earlier=self.earlier.version,
                    signed=self.earlier.in_words(zone),
                    version=self.version,
                    prepared=prepared,
                )
            case SignState.PREPARED:
                later = _LATER[self.later] if self.later else ""
                return phrase("%(prepared)s, waits for a signature%(later)s", prepared=prepared, later=later)
            case SignState.SIGNED:
                return self.acts[-1].in_words(zone)
            case SignState.REOPENED:
                return phrase("%(act)s; waits for a signature", act=self.acts[-1].in_words(zone))
            case SignState.VOID:
                return phrase(
                    "%(act)s; its verdict is another one since, so it waits for a signature",
                    act=self.acts[-1].in_words(zone),
                )
            case SignState.RESTATED:
                standing = self.signature.in_words(zone) if self.signature else phrase("not signed")
                return phrase("%(standing)s; restated by version %(version)s", standing=standing, version=self.in_force)

    # ---- what is not possible ----------------------------------------------------------------------------------------

    def check_signing(self, order: SignOrder) -> None:
        """Refused, with what to do: it is no longer what the person has seen, or this person may not, or a reason is
        missing."""
        if not self.is_kept:
            raise Refused(f"the cut of {self.business_date} has expired", hint="nothing is left there to sign for")
        if self.state is SignState.RESTATED:
            raise Refused(
                f"version {self.version} is restated by version {self.in_force}", hint="look at the newest version"
            )
        if self.state is SignState.SIGNED:
            raise Refused(f"version {self.version} is {self.acts[-1].in_words()}", hint="re-open it first")
        if order.verdict_hash != self.verdict_hash:
            raise Refused(
                "the verdict is another one than the one that you have seen", hint="load the report again and read it"
            )
        if is_same_person(order.who, self.preparer):
            raise Refused(f"{order.who} asked for this run", hint="another person signs")
        if self.state is SignState.REOPENED and is_same_person(self.acts[-1].who, order.who):
            raise Refused(f"{order.who} has re-opened it", hint="another person signs it again")
        if self.needs_reason(order.reason_required) and not order.reason:
            why = "it is not clean" if not self.is_clean else "the sync's `reconcile.sign` says so"
            raise Refused(f"a signature for {self.business_date} needs a reason: {why}", hint="write it into the form")

    def check_bulk(self) -> None:
        """Refused: it is not clean, or it has a history that a person has to look at."""
        if not self.goes_by_bulk:
            hint = "sign it with the others that the log has left something out of" if self.goes_by_one_reason else ""
            raise self._by_itself(hint or "sign it by itself, in its report")

    def check_one_reason(self) -> None:
        """Refused: more is to be said of it than that the log has left named transactions out of it."""
        if not self.goes_by_one_reason:
            hint = "sign it with the other clean dates" if self.goes_by_bulk else ""
            raise self._by_itself(hint or "sign it by itself, in its report")

    def _by_itself(self, hint: str) -> Refused:
        found = "; ".join(filter(None, [*self.late_in_words, self.left_out_in_words])) or self._worst
        what = f"is not clean ({found})" if not self.is_clean else self.in_words()
        return Refused(f"{self.business_date} in {self.destination} {what}", hint=hint)

    def check_reopening(self, *, who: str, reason: str) -> None:
        """Refused: nothing to re-open, or the same person, or no reason."""
        if self.state is not SignState.SIGNED:
            raise Refused(f"{self.business_date} is not signed: {self.in_words()}", hint="there is nothing to re-open")
        if is_same_person(self.acts[-1].who, who):
            raise Refused(f"{who} has signed it", hint="another person re-opens it")
        if not reason:
            raise Refused("a re-opening needs a reason", hint="write it into the form")


def urgent_first(found: Iterable[SignOff]) -> list[SignOff]:
    """What is not clean before what is, and of both the newest date first."""
    return sorted(found, key=lambda one: (one.is_clean, -one.business_date.toordinal(), one.destination))


def by_take(found: Sequence[SignOff]) -> dict[tuple[str, str], SignOff]:
    """By run and destination."""
    return {(one.run_id, one.destination): one for one in found}
