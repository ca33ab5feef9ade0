"""The declaration of a source of topics that others write."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from seamline.domain.catalogue import Kind
from seamline.domain.column_types import column_of
from seamline.sources.kafka.layout import CANAL, DEBEZIUM, LAYOUT, MAXWELL, PLAIN
from seamline.sources.kafka.texts import FORMS
from seamline.spec.fields import ConnectionId, Declared, SqlName
from seamline.spec.source import DeclaredSource, Log

_SHARED = (MAXWELL, CANAL)
# Of more topics their number is said, and not their names.
_NAMED_MAX = 3


def _type(value: str) -> str:
    column_of("", value)
    return value


class TopicColumn(Declared):
    """A column of a table, by the name of its field in the messages."""

    name: SqlName = Field(description="Name of the column.")
    type: Annotated[str, AfterValidator(_type)] = Field(
        description="smallint, integer, bigint, unsigned, decimal(18,2), float, double, boolean, char(3), varchar(40),"
        " text, bytes, date, datetime, instant, time or uuid."
    )
    nullable: bool = Field(default=True, description="Whether it may hold NULL. A column of the key never may.")
    form: str = Field(
        "",
        description="How its values stand in JSON, where not as a number or a text of ISO 8601. Date: `days` or `ms`"
        " since 1970. Datetime and instant: `s`, `ms`, `us` or `ns` since 1970; an instant also `utc`, a text without a"
        " zone. Time: `ms`, `us` or `ns` since midnight. Decimal: `base64`, the unscaled number; `text`. Bytes:"
        " `base64` (left out), `hex` or `latin-1`. Where a message holds Debezium's schema, that says it;"
        " a `form` beside it may say nothing else. Bytes that are a string there need their `form`.",
    )

    @model_validator(mode="after")
    def _has_a_form_of_its_type(self) -> Self:
        kind = column_of(self.name, self.type).kind
        known = FORMS.get(kind, ())
        if self.form and self.form not in known:
            raise ValueError(f"a {self.type} has no form `{self.form}`: there are {', '.join(known) or 'none'}")
        return self


class TopicTable(Declared):
    """A table, and the topic that says what its rows are."""

    table: SqlName = Field(description="Name of the table; a sync names it so.")
    topic: str = Field(description="Name of the topic.", min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$")
    format: Literal["debezium", "maxwell", "canal", "json"] = Field(
        description="Of the messages: the envelope of Debezium, a row of Maxwell's, a flat message of Canal's; json:"
        " the row itself, and a message without a value where the row of its key goes."
    )
    named: str = Field(
        "",
        description="The table as messages of Maxwell and Canal name it, `database.table`. Tables may share a topic.",
        pattern=r"^$|^[^.]+\.[^.]+$",
    )
    schemas: bool = Field(
        default=True,
        description="Whether each message of Debezium's holds its schema (`schemas.enable` of its JsonConverter).",
    )
    columns: tuple[TopicColumn, ...] = Field(description="Its columns.", min_length=1, strict=False)
    key: tuple[SqlName, ...] = Field(
        (),
        description="Columns that together are unique. Without them rows are kept as a multiset: of `json` each message"
        " adds one.",
        strict=False,
    )
    message_key: Literal["row", "other"] = Field(
        "row",
        description="What the key of a message of `json` is, where it has one: that of its row, or another, which is"
        " not looked at.",
    )
    absent: Literal["refused", "null"] = Field(
        "refused", description="What a field is that a message leaves out: nothing that is taken, or NULL."
    )
    ignored: tuple[str, ...] = Field((), description="Fields that are read and not kept.", strict=False)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        names = [column.name for column in self.columns]
        if len(names) != len(set(names)):
            yield "a column stands twice"
        if missing := [name for name in self.key if name not in names]:
            yield f"`key` names columns that are not there: {', '.join(missing)}"
        if twice := [name for name in self.ignored if name in names]:
            yield f"`ignored` names columns that are kept: {', '.join(twice)}"
        if self.format in _SHARED and not self.named:
            yield f"messages of {self.format} name their table: write `named: database.table`"
        if self.format not in _SHARED and self.named:
            yield f"a topic of {self.format} holds one table: leave `named` out"
        if self.message_key != "row" and (self.format != PLAIN or not self.key):
            yield "`message_key` is for tables of json with a `key`: leave it out"
        if self.format == DEBEZIUM and not self.schemas:
            yield from self._unsaid_forms()

    def _unsaid_forms(self) -> Iterator[str]:
        """A decimal in Base64 may look like a number."""
        for column in self.columns:
            if column_of(column.name, column.type).kind is Kind.DECIMAL and not column.form:
                yield (
                    f"no schema says how {column.name} is written: declare its `form`, base64 (Debezium's"
                    " decimal.handling.mode precise) or text (string)"
                )


def _dumped(table: TopicTable) -> Mapping[str, Any]:
    """Without what earlier versions did not know, where it is left out: a plan of theirs is no other one."""
    return table.model_dump(mode="json", exclude={"message_key"} if table.message_key == "row" else None)


class KafkaSource(DeclaredSource):
    """Topics that somebody else writes. What they say of rows is taken in the order of each partition."""

    connection_type: ClassVar[str] = "kafka"
    # A message has the time at which it was sent, and no transaction.
    commit_times: ClassVar[bool] = False

    kind: Literal["kafka"] = Field(description="What kind of system the source is.")
    connection: ConnectionId = Field(description="Connection id of the login that reads the topics.")
    tables: tuple[TopicTable, ...] = Field(description="The tables.", min_length=1, strict=False)
    left_out: tuple[str, ...] = Field(
        (),
        description="Tables of topics of Maxwell and Canal that are read and not kept, as `database.table`. A message"
        " of any other table stops the stream.",
        strict=False,
    )
    log: Log = Field(default_factory=Log, description="How long the log topic is kept.")

    @classmethod
    def reads_log(cls, said: object) -> bool:  # noqa: ARG003 (a topic is a log)
        return True

    @property
    def kept_log(self) -> Log:
        return self.log

    @property
    def logins_of_log(self) -> tuple[str, str]:
        """Markers go into a topic of our own."""
        return self.connection, self.connection

    @property
    def namespace(self) -> str:
        return self.source

    @property
    def place_in_words(self) -> str:
        topics = list(dict.fromkeys(table.topic for table in self.tables))
        if len(topics) > _NAMED_MAX:
            return f"{len(topics)} topics"
        return f"topic{'' if len(topics) == 1 else 's'} {', '.join(topics)}"

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        if self.log.archive is not None:
            yield "`log.archive` is for logs of databases: topics are kept for long where they are written"
        tables, topics = set[str](), dict[str, TopicTable]()
        for table in self.tables:
            if table.table in tables:
                yield f"table {table.table} stands twice"
            tables.add(table.table)
            if table.named in self.left_out:
                yield f"{table.named} is left out, and table {table.table} is read from it"
            other = topics.setdefault(table.topic, table)
            if other is not table and (other.format != table.format or table.format not in _SHARED):
                what = f"{other.table} and {table.table} share topic {table.topic}"
                yield f"{what}: only messages of Maxwell and Canal name their table"
            if other is not table and table.format in _SHARED and table.named == other.named:
                yield f"{other.table} and {table.table} are one table of topic {table.topic}"

    def plan_fields(self) -> Mapping[str, Any]:
        said = {
            "tables": [_dumped(table) for table in self.tables],
            "left_out": list(self.left_out),
        }
        return {"options": ((LAYOUT, json.dumps(said)),)}
