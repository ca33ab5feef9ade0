"""A round of `seamline__maintenance` over the log of acts: what it looks at, and that no error passes for a proof."""

from dataclasses import dataclass, field

from seamline.domain.errors import SeamlineError, TransientError
from seamline.sync.audit_round import Outcome, Round, verify_round

WELL, CHANGED = Outcome(), Outcome(5, ("one", "two", "three"))
AWAY = TransientError("the platform database does not answer")


@dataclass
class World:
    """Each look takes a minute."""

    of_chain: Outcome | SeamlineError = WELL
    stored_of: dict[str, Outcome | SeamlineError] = field(default_factory=lambda: dict.fromkeys("abc", WELL))
    now: float = 0.0

    def syncs(self) -> list[str]:
        return list(self.stored_of)

    def chain(self) -> Outcome:
        return _said(self.of_chain)

    def stored(self, sync: str) -> Outcome:
        self.now += 60
        return _said(self.stored_of[sync])

    def round(self, turn: int = 0, budget_s: float = 1e6) -> Round:
        return verify_round(self, ["a"], turn=turn, budget_s=budget_s, clock=lambda: self.now)


def _said(found: Outcome | SeamlineError) -> Outcome:
    if isinstance(found, SeamlineError):
        raise found
    return found


def test_what_is_wrong_is_said_of_its_sync_with_the_command_that_shows_all() -> None:
    found = World(stored_of={"a": WELL, "b": CHANGED}).round()
    assert found.altered == {"b": "one; two; three; and 2 more. `./seamline audit verify --sync b` says all"}
    assert (found.verified, found.left, found.errors) == (("a",), (), ())


def test_what_is_wrong_with_the_chain_is_wrong_for_every_sync_also_for_one_without_a_turn() -> None:
    found = World(of_chain=Outcome(1, ("entry 7 is missing",))).round(budget_s=0)
    assert list(found.altered) == ["a", "b", "c"] and found.verified == ()
    assert all("entry 7 is missing" in text for text in found.altered.values())


def test_a_round_ends_in_time_and_every_sync_comes_first_once() -> None:
    rounds = [World().round(turn, budget_s=60) for turn in range(3)]
    assert [one.verified for one in rounds] == [("a",), ("b",), ("c",)]
    assert [one.left for one in rounds] == [("b", "c"), ("c", "a"), ("a", "b")]
    assert World().round(budget_s=61).verified == ("a", "b")


def test_what_could_not_be_verified_is_never_as_it_was_entered() -> None:
    found = World(stored_of={"a": AWAY, "b": WELL, "c": CHANGED}).round()
    assert (found.verified, found.errors) == (("b",), (AWAY,))
    assert list(found.altered) == ["c"] and "does not answer" in found.unknown["a"]
    found = World(of_chain=AWAY, stored_of={"a": WELL, "b": CHANGED}).round()
    assert (found.verified, list(found.altered), list(found.unknown)) == ((), ["b"], ["a"])
    assert "does not answer" not in found.altered["b"], "what is known to be wrong is said first"


def test_where_nobody_knows_which_syncs_there_are_the_declared_ones_are_looked_at_and_the_round_is_no_success() -> None:
    world = World()
    world.syncs = lambda: _said(AWAY)  # type: ignore[method-assign, assignment, return-value]
    found = world.round()
    assert (found.verified, found.errors) == (("a",), (AWAY,))
