"""An error says what, where and how to mend it, and crosses process borders whole."""

import pickle

import pytest

from seamline.domain import errors
from seamline.domain.errors import ConfigError, Fenced, PositionLost, SeamlineError, TerminalError, TransientError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SeamlineError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_with_all_it_says(kind: type[SeamlineError]) -> None:
    error = kind("the log is gone", hint="onboard again", sync="settlement", table="account", position="0-7-12")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert again.args == error.args


def test_an_error_reads_as_what_where_and_cure() -> None:
    error = PositionLost("binlog mdb-bin.000003 was purged", hint="onboard again", sync="settlement", position="0-7-12")
    assert str(error) == "binlog mdb-bin.000003 was purged (sync settlement, position 0-7-12)\n  → onboard again"


def test_an_error_without_place_and_cure_is_its_message() -> None:
    assert str(TransientError("PostgreSQL is away")) == "PostgreSQL is away"


def test_what_a_person_must_edit_has_its_own_exit_code() -> None:
    assert {kind.__name__ for kind in KINDS if kind.exit_code == 2} == {"ConfigError"}
    assert ConfigError("x").exit_code == 2


def test_fenced_is_final() -> None:
    assert issubclass(Fenced, TerminalError)
    assert not issubclass(Fenced, TransientError)
