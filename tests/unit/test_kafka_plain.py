"""Messages that are rows: what they say, also those that Debezium has flattened, and by which keys they are known."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest

from seamline.domain.errors import LogCorrupted
from tests.unit.test_kafka_source import NOTE, RATE, declared, image, said


def test_a_plain_row_stands_and_goes_by_the_key_of_its_message() -> None:
    (one,) = said(RATE, '{"currency":"EUR","rate":7.123456789012}', key="EUR")
    assert (one.op, image(one.after)) == ("u", {"currency": "EUR", "rate": "7.123456789012"})
    for key, value in product(("EUR", '"EUR"', '{"currency":"EUR"}'), (None, "null")):
        (gone,) = said(RATE, value, key=key)
        assert (gone.op, gone.key) == ("d", one.key)
    assert said(RATE, '{"rate":7.123456789012}', key="EUR") == [one]


def test_of_a_table_without_a_key_each_plain_message_adds_a_row() -> None:
    (one,) = said(NOTE, '{"number":1,"text":"余额"}')
    assert (one.op, one.key, image(one.after)) == ("c", None, {"number": "1", "text": "余额"})
    (gone,) = said(NOTE, '{"number":1,"text":"余额"}', headers={"op": "d"})
    assert (gone.op, gone.before) == ("d", one.after)
    with pytest.raises(LogCorrupted, match="it has no key"):
        said(NOTE, None)


@pytest.mark.parametrize("yes, no", [("true", "false"), (True, False)])
def test_a_flattened_row_of_debeziums_goes_where_its_field_says_so(yes: object, no: object) -> None:
    """It was passed over, with the row as its last value: the topic's fold agreed, and the comparison too."""
    (stands,) = said(RATE, {"currency": "EUR", "rate": 7, "__deleted": no})
    assert (stands.op, image(stands.after)) == ("u", {"currency": "EUR", "rate": "7.000000000000"})
    for table in (RATE, {**RATE, "ignored": ["__deleted"]}):
        (goes,) = said(table, {"currency": "EUR", "rate": None, "__deleted": yes})
        assert (goes.op, goes.key) == ("d", stands.key)
    (added,) = said(NOTE, {"number": 1, "text": "x", "__deleted": no})
    (gone,) = said(NOTE, {"number": 1, "text": "x", "__deleted": yes})
    assert (gone.op, gone.before) == ("d", added.after)
    with pytest.raises(LogCorrupted, match="__deleted is 'perhaps', which is neither true nor false"):
        said(RATE, {"currency": "EUR", "rate": 7, "__deleted": "perhaps"})
    own = {**NOTE, "columns": [*NOTE["columns"], {"name": "__deleted", "type": "text"}]}
    (kept,) = said(own, {"number": 1, "text": "x", "__deleted": "true"})
    assert (kept.op, image(kept.after)["__deleted"]) == ("c", "true")


def test_a_flattened_row_whose_value_debezium_left_out_is_refused() -> None:
    """The stand-in was taken for the value."""
    row = {"number": 1, "text": "__debezium_unavailable_value", "__deleted": "false"}
    without_it = {**NOTE, "columns": [one for one in NOTE["columns"] if one["name"] != "text"], "ignored": ["text"]}
    (taken,) = said(without_it, row)
    assert "text" not in image(taken.after)
    with pytest.raises(LogCorrupted, match="its writer left the value of text out"):
        said(NOTE, row)
    with pytest.raises(
        LogCorrupted, match=r"it holds its schema: let its writer's converter say `schemas\.enable: false`"
    ):
        said(NOTE, {"schema": {"type": "struct"}, "payload": row})


PAIR = {
    "table": "pair",
    "topic": "pair",
    "format": "json",
    "key": ["a", "b"],
    "columns": [{"name": "a", "type": "bigint"}, {"name": "b", "type": "uuid"}],
}
CODE = "12345678123456781234567812345678"


@pytest.mark.parametrize(
    ("table", "value", "keys"),
    [
        (
            RATE,
            {"currency": "EUR", "rate": 1},
            ("EUR", '"EUR"', '{"currency":"EUR"}', '{"currency":"EUR","at":1}', None),
        ),
        ({**RATE, "key": ["rate"]}, {"currency": "EUR", "rate": 1}, ("1", "1.00", '{"rate":"1.0"}')),
        (PAIR, {"a": 1, "b": CODE}, (f'{{"a":1,"b":"{CODE}"}}', f'{{"b":"{CODE}","a":"1"}}', None)),
        (PAIR, {"a": 1, "b": CODE}, (json.dumps({"schema": {}, "payload": {"a": 1, "b": CODE}}), None)),
        ({**PAIR, "key": ["b"]}, {"a": 1, "b": CODE}, (CODE, f'"{CODE}"')),
        (NOTE, {"number": 1, "text": "x"}, ("2", '{"number":2}', None)),
    ],
)
def test_a_plain_message_has_its_rows_key_however_it_is_written_or_none(
    table: Mapping[str, Any], value: object, keys: Sequence[str | None]
) -> None:
    assert {key: len(said(table, value, key=key)) for key in keys} == dict.fromkeys(keys, 1)


@pytest.mark.parametrize(
    ("table", "value", "key", "why"),
    [
        (
            RATE,
            {"currency": "EUR", "rate": 1},
            "USD",
            'its key {"currency": "••••"} is not the key {"currency": "••••"}',
        ),
        (RATE, {"currency": "EUR", "rate": 1}, '{"id":4711}', 'its key {"id": "••••"} is not the key'),
        (RATE, {"currency": "EUR", "rate": 1, "__deleted": "true"}, "USD", 'its key {"currency": "••••"} is not'),
        (PAIR, {"a": 1, "b": CODE}, "1", 'its key •••• is not the key {"a": "••••", "b": "••••"} of its row'),
    ],
)
def test_a_plain_message_with_another_key_than_its_row_stops_unless_that_is_declared(
    table: Mapping[str, Any], value: object, key: str, why: str
) -> None:
    """Nobody looked: rows of one key could lie in two partitions, and a message without a value took another row."""
    with pytest.raises(LogCorrupted, match="partition 0, offset 7") as stopped:
        said(table, value, key=key)
    assert why in stopped.value.message
    assert not [one for one in ("USD", "EUR", "4711", CODE) if one in stopped.value.message]
    assert "`message_key`" in stopped.value.hint
    others = {**table, "message_key": "other"}
    assert said(others, value, key=key) == said(table, value)
    with pytest.raises(
        LogCorrupted, match="it has no value, and by `message_key: other` its key is not that of the row"
    ):
        said(others, None, key=key)


def test_a_plan_of_an_earlier_version_is_the_same_where_nothing_is_said_of_the_messages_keys() -> None:
    (plain,), (other,) = (declared({**RATE, **more}).options for more in ({}, {"message_key": "other"}))
    assert "message_key" not in plain[1] and "message_key" in other[1]


def test_fields_are_left_out_or_passed_over_only_where_that_is_declared() -> None:
    lenient = {**NOTE, "absent": "null", "ignored": ["by"]}
    (one,) = said(lenient, '{"number":1,"by":"me"}')
    assert image(one.after) == {"number": "1", "text": None}
