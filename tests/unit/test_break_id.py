from dataclasses import replace

import pytest

from seamline.domain.break_id import break_id, keyed_id, plain_id
from seamline.domain.verdict import Break, BreakType

FOUND = Break("payment", BreakType.VALUE, '{"id": 7}', {"amount": "1.00"}, {"amount": "2.00"})


def test_the_identity_of_a_break_is_the_one_that_its_definition_gives() -> None:
    """`printf '["bank","bank","payment","value","{\\"id\\": 7}"]' | sha256sum | cut -c1-16`"""
    assert break_id("bank", "bank", FOUND) == "c4ca91e1d9ee46da"


def test_who_has_an_identity_by_a_secret_and_tries_keys_of_rows_finds_none() -> None:
    """`printf '["bank","bank","payment","value","{\\"id\\": 7}"]' | openssl dgst -sha256 -hmac 5555 | cut -c1-16`"""
    seen = keyed_id("5555", "bank", "bank", FOUND)
    assert seen == "e2d7cc8e080b8bf4"
    tried = [plain_id("bank", "bank", replace(FOUND, key=f'{{"id": {number}}}')) for number in range(10)]
    assert plain_id("bank", "bank", FOUND) in tried and seen not in tried
    assert keyed_id("5556", "bank", "bank", FOUND) != seen


def test_other_values_of_the_same_row_are_the_same_break() -> None:
    assert break_id("bank", "bank", replace(FOUND, source=None)) == break_id("bank", "bank", FOUND)


@pytest.mark.parametrize(
    "other",
    [replace(FOUND, table="ledger"), replace(FOUND, type=BreakType.MISSING), replace(FOUND, key='{"id": 8}')],
)
def test_another_table_type_or_key_is_another_break(other: Break) -> None:
    assert break_id("bank", "bank", other) != break_id("bank", "bank", FOUND)


def test_the_same_row_in_another_sync_or_destination_is_another_break() -> None:
    assert len({break_id("a", "b", FOUND), break_id("a", "c", FOUND), break_id("ab", "b", FOUND)}) == 3


def test_keys_of_any_script_and_of_no_script_have_an_identity() -> None:
    for key in ('{"id": "付款"}', '{"id": "\udc80"}', ""):
        assert len(break_id("bank", "bank", replace(FOUND, key=key))) == 16
