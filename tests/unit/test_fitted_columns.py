"""A column whose name is too long for a destination has the sync's name for it in every row of the log."""

import json
from dataclasses import replace

from seamline.adapters.debezium.envelope import Message
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.log import LogRecord
from seamline.domain.names import NameLimit, NameUnit, fitted_name
from seamline.domain.table_places import TablePlaces
from seamline.sources.mariadb.decode import MariaDbDecoder
from tests.log_topic import sync_plan
from tests.unit.test_decode import RECORDS, altered
from tests.unit.test_rows_of_one_event import inserted

LIMIT = NameLimit(63, NameUnit.BYTES)
LONG, OTHER = "列" * 30, "列" * 29 + "二"
SHORT = fitted_name(LONG, [LIMIT])
# Text that holds what is looked for: as it stands there its quotes have a backslash before them.
TEXT = json.dumps({LONG: 1}, ensure_ascii=False)


class Sent:
    def __init__(self, value: bytes, key: bytes = b"") -> None:
        self._value, self._key = value, key

    def offset(self) -> int:
        return 1

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def headers(self) -> None:
        return None


def row(*names: str, table: str = "account") -> bytes:
    image = json.dumps({"memo": TEXT} | dict.fromkeys(names, 1), ensure_ascii=False, separators=(",", ":"))
    return inserted(1, table=table).replace(b'{"id":1}', image.encode())


def names_of(records: list[LogRecord]) -> list[list[str]]:
    return [list(json.loads(one.after or b"{}")) for record in records for one in record.rows]


def decoded(decoder: MariaDbDecoder, *messages: Message) -> list[LogRecord]:
    found: list[LogRecord] = []
    decoder.decode(messages, found)
    return found


def test_rows_and_keys_have_the_fitted_name_and_texts_stay_as_they_are() -> None:
    decoder = MariaDbDecoder("seamline-core_bank", TablePlaces("bank"), [LIMIT])
    sent = Sent(row("id", LONG), json.dumps({LONG: 1}, ensure_ascii=False, separators=(",", ":")).encode())
    for _ in range(2):
        records = decoded(decoder, sent, Sent(row("id", table="entry")), sent)
        assert names_of(records) == [["memo", "id", SHORT], ["memo", "id"], ["memo", "id", SHORT]]
        (first, *_) = (one for record in records for one in record.rows)
        assert json.loads(first.key or b"") == {SHORT: 1}
        assert json.loads(first.after or b"")["memo"] == TEXT


def test_after_a_statement_the_columns_are_read_again() -> None:
    decoder = MariaDbDecoder("seamline-core_bank", TablePlaces("bank"), [LIMIT])
    statement = Sent(altered("alter"))
    assert RECORDS["alter"], "a statement of the log"
    records = decoded(decoder, Sent(row("id")), statement, Sent(row("id", LONG)))
    assert names_of(records) == [["memo", "id"], ["memo", "id", SHORT]]
    records = decoded(decoder, Sent(row(LONG)), statement, Sent(row(OTHER)))
    assert names_of(records) == [["memo", SHORT], ["memo", fitted_name(OTHER, [LIMIT])]]


def test_where_every_destination_takes_the_name_it_stays() -> None:
    decoder = MariaDbDecoder("seamline-core_bank", TablePlaces("bank"), [NameLimit(64, NameUnit.CHARACTERS)])
    assert names_of(decoded(decoder, Sent(row(LONG)))) == [["memo", LONG]]


def test_the_plan_of_a_stream_gives_columns_the_names_that_their_load_gave_them() -> None:
    column = Column(SHORT, Kind.INTEGER, "int", length=32, source_name=LONG)
    plan = sync_plan([Table("account", (column,), ())])
    # One that was declared since takes less than the names that the tables have.
    limits = ((63, "bytes"), (64, "characters"), (30, "bytes"))
    of_stream = replace(plan, source=replace(plan.source, name_limits=limits)).of_stream("warehouse")
    decoder = MariaDbDecoder("seamline-core_bank", TablePlaces("bank"), of_stream.source.limits)
    assert names_of(decoded(decoder, Sent(row(LONG)))) == [["memo", SHORT]]
    assert of_stream.of_stream("warehouse") == of_stream
