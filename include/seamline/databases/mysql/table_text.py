"""What only SHOW CREATE TABLE shows to a login that has SELECT alone: JSON columns and actions of foreign keys.

information_schema hides check constraints and referential constraints from such a login (seen on MariaDB 11.4.5).
"""

import re
from typing import Any

from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Session, query

# A quote inside of a name begins no text.
_NAME_OR_TEXT = re.compile(r"(`(?:[^`]|``)*`)|'(?:[^'\\]|\\.|'')*'", re.DOTALL)
_NAME = r"`((?:[^`]|``)+)`"
_JSON_COLUMN = re.compile(rf"^\s+{_NAME} longtext\b.* CHECK \(json_valid\({_NAME}\)\),?$", re.MULTILINE)
_FOREIGN_KEY = re.compile(
    rf"^\s+CONSTRAINT {_NAME} FOREIGN KEY .*?REFERENCES .*?\)((?: ON (?:DELETE|UPDATE) [A-Z ]+?)*),?$", re.MULTILINE
)
_ACTION = re.compile(r"ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT|RESTRICT|NO ACTION)")


def show_create(session: "Session[Any]", table: str) -> str:
    return str(query(session, f"SHOW CREATE TABLE {quoted(table)}")[0][1])


def json_columns(text: str) -> frozenset[str]:
    """MariaDB's JSON is longtext with the column's own check `json_valid(…)`."""
    return frozenset(_plain(first) for first, second in _JSON_COLUMN.findall(_without_texts(text)) if first == second)


def foreign_key_actions(text: str) -> tuple[tuple[str, str, str], ...]:
    """(name, ON DELETE, ON UPDATE) of each foreign key; RESTRICT where nothing is said."""
    found = []
    for name, actions in _FOREIGN_KEY.findall(_without_texts(text)):
        said = dict(_ACTION.findall(actions))
        found.append((_plain(name), said.get("DELETE", "RESTRICT"), said.get("UPDATE", "RESTRICT")))
    return tuple(found)


def _without_texts(text: str) -> str:
    """Comments and defaults could hold anything, also what is looked for."""
    return _NAME_OR_TEXT.sub(lambda found: found[1] or "''", text)


def _plain(name: str) -> str:
    return name.replace("``", "`")
