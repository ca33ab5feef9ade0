"""Each expectation that a suite may name, with arguments that the rows below meet and some that they do not.

Some are not evaluated on a database by Great Expectations: what it says of these is compared, too.
"""

from collections.abc import Iterator
from datetime import date
from typing import Any

from seamline_airflow.expectations import Expectation

COLUMNS = (
    "id int PRIMARY KEY, word text, n numeric(20, 4), twin numeric(20, 4), m int, day date, stamp text, doc text,"
    " same text"
)
ROWS = """
    (1, 'a', 1, 1, 0, '2026-11-01', '2026-11-01', '{"a": 1}', 'x'),
    (2, 'b', 2, 2, 1, '2026-11-02', '2026-11-02', '{"a": 2}', 'x'),
    (3, 'a', 3, 3, 1, '2026-11-03', '2026-11-03', '{"a": 3}', 'x'),
    (4, 'b', 4, 4, 1, '2026-11-04', '2026-11-04', '{"a": 4}', 'x'),
    (5, NULL, 5, 5, 6, '2026-11-05', '2026-11-05', NULL, 'x'),
    (6, 'O''Hara <b> %s {x}', -60, -61, -70, NULL, 'never', '{', NULL)
"""
# Of a pair of arguments the first is met and the second is not, where a database evaluates it at all.
_OF_WORD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "expect_column_distinct_values_to_be_in_set": (
        {"value_set": ["a", "b", "O'Hara <b> %s {x}"]},
        {"value_set": ["a", "O'Hara"]},
    ),
    "expect_column_distinct_values_to_contain_set": ({"value_set": ["a"]}, {"value_set": ["z'"]}),
    "expect_column_distinct_values_to_equal_set": (
        {"value_set": ["O'Hara <b> %s {x}", "b", "a"]},
        {"value_set": ["a", "b"]},
    ),
    "expect_column_kl_divergence_to_be_less_than": (
        {
            "partition_object": {"values": ["a", "b", "O'Hara <b> %s {x}"], "weights": [0.4, 0.4, 0.2]},
            "threshold": 0.1,
        },
        {"partition_object": {"values": ["a", "b"], "weights": [0.9, 0.1]}, "threshold": 0.1},
    ),
    "expect_column_most_common_value_to_be_in_set": (
        {"value_set": ["a", "b"], "ties_okay": True},
        {"value_set": ["z"]},
    ),
    "expect_column_proportion_of_non_null_values_to_be_between": ({"min_value": 0.5}, {"min_value": 0.9}),
    "expect_column_proportion_of_unique_values_to_be_between": ({"max_value": 0.6}, {"min_value": 0.9}),
    "expect_column_to_exist": ({}, {"column": "nowhere"}),
    "expect_column_type_to_be": ({"type_": "TEXT"}, {"type_": "INTEGER"}),
    "expect_column_unique_value_count_to_be_between": ({"min_value": 3, "max_value": 3}, {"max_value": 2}),
    "expect_column_value_lengths_to_be_between": ({"min_value": 1, "max_value": 40}, {"max_value": 1}),
    "expect_column_value_lengths_to_equal": ({"value": 1, "mostly": 0.8}, {"value": 1}),
    "expect_column_values_to_be_in_set": (
        {"value_set": ["a", "b"], "mostly": 0.8},
        {"value_set": ["a", "b"], "mostly": 0.81},
    ),
    "expect_column_values_to_be_in_type_list": ({"type_list": ["TEXT"]}, {"type_list": ["INTEGER"]}),
    "expect_column_values_to_be_of_type": ({"type_": "TEXT"}, {"type_": "INTEGER"}),
    "expect_column_values_to_match_like_pattern": ({"like_pattern": "%", "mostly": 1}, {"like_pattern": "a%"}),
    "expect_column_values_to_match_like_pattern_list": (
        {"like_pattern_list": ["a", "b", "O'%"], "match_on": "any"},
        {"like_pattern_list": ["a"], "match_on": "any"},
    ),
    "expect_column_values_to_match_regex": ({"regex": "^[ab]$", "mostly": 0.8}, {"regex": "^[ab]$"}),
    "expect_column_values_to_match_regex_list": (
        {"regex_list": ["^[ab]$", "%s"], "match_on": "any"},
        {"regex_list": ["^a", "b"], "match_on": "all"},
    ),
    "expect_column_values_to_not_be_in_set": ({"value_set": ["z"]}, {"value_set": ["a"]}),
    "expect_column_values_to_not_be_null": ({"mostly": 0.8}, {}),
    "expect_column_values_to_not_match_like_pattern": ({"like_pattern": "z%"}, {"like_pattern": "a%"}),
    "expect_column_values_to_not_match_like_pattern_list": (
        {"like_pattern_list": ["z%"]},
        {"like_pattern_list": ["a%"]},
    ),
    "expect_column_values_to_not_match_regex": ({"regex": "z"}, {"regex": "a"}),
    "expect_column_values_to_not_match_regex_list": ({"regex_list": ["z"]}, {"regex_list": ["a"]}),
}
_OF_NUMBERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "expect_column_max_to_be_between": ({"min_value": 5, "max_value": 5}, {"max_value": 4.9999}),
    "expect_column_mean_to_be_between": ({"min_value": -8, "max_value": -7}, {"min_value": 0}),
    "expect_column_median_to_be_between": ({"min_value": 2, "max_value": 3}, {"min_value": 4}),
    "expect_column_min_to_be_between": ({"min_value": -60}, {"min_value": -59.9999}),
    "expect_column_quantile_values_to_be_between": (
        {"quantile_ranges": {"quantiles": [0.5], "value_ranges": [[1, 3]]}},
        {"quantile_ranges": {"quantiles": [0.5], "value_ranges": [[4, 5]]}},
    ),
    "expect_column_stdev_to_be_between": ({"min_value": 1, "max_value": 100}, {"max_value": 1}),
    "expect_column_sum_to_be_between": ({"min_value": -45, "max_value": -45}, {"min_value": 0}),
    "expect_column_value_z_scores_to_be_less_than": (
        {"threshold": 4, "double_sided": True},
        {"threshold": 0.1, "double_sided": True},
    ),
    "expect_column_values_to_be_between": ({"min_value": -60, "max_value": 5}, {"min_value": 0, "strict_min": True}),
    "expect_column_values_to_be_decreasing": ({}, {"strictly": True}),
    "expect_column_values_to_be_increasing": ({}, {"strictly": True}),
    "expect_column_values_to_not_be_outliers": ({"method": "iqr", "multiplier": 99}, {"method": "iqr"}),
}
_OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "expect_column_pair_values_a_to_be_greater_than_b": (
        {"column_A": "n", "column_B": "twin", "or_equal": True},
        {"column_A": "n", "column_B": "m"},
    ),
    "expect_column_pair_values_to_be_equal": (
        {"column_A": "n", "column_B": "twin", "mostly": 0.8},
        {"column_A": "n", "column_B": "twin"},
    ),
    "expect_column_pair_values_to_be_in_set": (
        {"column_A": "word", "column_B": "same", "value_pairs_set": [["a", "x"], ["b", "x"]], "mostly": 0.5},
        {"column_A": "word", "column_B": "same", "value_pairs_set": [["a", "x"]]},
    ),
    "expect_column_values_to_be_dateutil_parseable": ({"column": "stamp", "mostly": 0.8}, {"column": "stamp"}),
    "expect_column_values_to_be_json_parseable": ({"column": "doc", "mostly": 0.8}, {"column": "doc"}),
    "expect_column_values_to_be_null": ({"column": "word", "mostly": 0.1}, {"column": "word"}),
    "expect_column_values_to_be_unique": ({"column": "id"}, {"column": "word"}),
    "expect_column_values_to_match_json_schema": (
        {"column": "doc", "json_schema": {"type": "object"}, "mostly": 0.8},
        {"column": "doc", "json_schema": {"type": "object"}},
    ),
    "expect_column_values_to_match_strftime_format": (
        {"column": "stamp", "strftime_format": "%Y-%m-%d", "mostly": 0.8},
        {"column": "stamp", "strftime_format": "%Y-%m-%d"},
    ),
    "expect_compound_columns_to_be_unique": ({"column_list": ["id", "word"]}, {"column_list": ["same", "m"]}),
    "expect_multicolumn_sum_to_equal": (
        {"column_list": ["n", "twin"], "sum_total": 2, "mostly": 0.1},
        {"column_list": ["n", "twin"], "sum_total": 2},
    ),
    "expect_multicolumn_values_to_be_equal": ({"column_list": ["n", "n"]}, {"column_list": ["n", "twin"]}),
    "expect_select_column_values_to_be_unique_within_record": (
        {"column_list": ["n", "m"]},
        {"column_list": ["n", "twin"]},
    ),
    "expect_table_column_count_to_be_between": ({"min_value": 1, "max_value": 9}, {"max_value": 8}),
    "expect_table_column_count_to_equal": ({"value": 9}, {"value": 8}),
    "expect_table_columns_to_match_ordered_list": (
        {"column_list": ["id", "word", "n", "twin", "m", "day", "stamp", "doc", "same"]},
        {"column_list": ["word", "id", "n", "twin", "m", "day", "stamp", "doc", "same"]},
    ),
    "expect_table_columns_to_match_set": (
        {"column_set": ["word", "id"], "exact_match": False},
        {"column_set": ["word", "id"], "exact_match": True},
    ),
    "expect_table_row_count_to_be_between": ({"min_value": 6, "max_value": 6}, {"min_value": 7}),
    "expect_table_row_count_to_equal": ({"value": 6}, {"value": 5}),
    "expect_table_row_count_to_equal_other_table": (
        {"other_table_name": "s_every"},
        {"other_table_name": "s_account"},
    ),
    "unexpected_rows_expectation": (
        {"unexpected_rows_query": "SELECT id FROM {batch} WHERE n > 5"},
        {"unexpected_rows_query": "SELECT id FROM {batch} WHERE n > 4 OR word LIKE 'O%'"},
    ),
}


def every_expectation() -> Iterator[Expectation]:
    """Those that are met and those that are not by turns, and among them some that no database evaluates."""
    for number, (type_, pair) in enumerate((_of("word", _OF_WORD) | _of("n", _OF_NUMBERS) | _OTHERS).items()):
        for kwargs in pair:
            yield Expectation(type_, kwargs, f"{type_} {kwargs}")
        if number % 12 == 0:
            wrong = {"column": f"gone_{number}"}
            yield Expectation("expect_column_values_to_not_be_null", wrong, f"a column that is gone, {number}")
            query = {"unexpected_rows_query": f"SELECT {number} / 0 FROM {{batch}}"}
            yield Expectation("unexpected_rows_expectation", query, f"a query that fails, {number}")
    yield Expectation("expect_column_values_to_be_unique", {"column": "id"}, "asked before")
    # Alike as JSON: the first is met, and for the second the database has no comparison of a text and a date.
    for other in ("2027-01-01", date(2027, 1, 1)):
        kwargs = {"column": "stamp", "value_set": [other]}
        yield Expectation("expect_column_values_to_not_be_in_set", kwargs, f"{other!r} is not there")


def _of(column: str, pairs: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    return {type_: tuple({"column": column, **kwargs} for kwargs in pair) for type_, pair in pairs.items()}
