"""Spark's expressions → those of `seamline.transform`: the closed list, by the names of Spark's classes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.row_transform import Expression
from seamline.transform import evaluate

_KNOWN = (
    "columns, literals, CAST between exact types, + - *, concat and ||, substring, left, right, length, trim, coalesce,"
    " ifnull, nullif, sha2, year, month, day,"
    " comparisons, AND, OR, NOT, IS NULL, IN, BETWEEN and CASE"
)
# Their `replacement` is what Spark puts in their place.
_REPLACED = frozenset({"Between", "Left", "NullIf", "Nvl", "Right"})
# An end of a window, which has nothing of the time in it.
_BOUND = "CurrentRow$"
_NOW = ("Current", "Now", "LocalTimestamp", "CurDate", "SessionUser", "Version")


class Unsupported(Exception):
    """An expression that no transform takes."""

    def __init__(self, node: Any, what: str, cure: str = "") -> None:
        super().__init__(what)
        self.node, self.what, self.cure = node, what, cure or f"Possible are {_KNOWN}"


def expression_of(node: Any, known: Mapping[int | str, Expression], source: Table) -> Expression:
    """Of a resolved expression. `known`: by Spark's ids what columns of the plan below stand for."""
    kind = str(node.getClass().getSimpleName())
    _require_same_every_time(node)
    if kind == "Alias":
        return expression_of(node.child(), known, source)
    if kind in _REPLACED:
        return expression_of(node.replacement(), known, source)
    if kind == "With":
        # Expressions that stand in it more than once.
        named: dict[int | str, Expression] = {
            f"with {one.id().id()}": expression_of(one.child(), known, source) for one in _each(node.defs())
        }
        return expression_of(node.child(), {**known, **named}, source)
    if kind in _LEAVES:
        return _LEAVES[kind](node, known)
    if kind not in _OF:
        raise Unsupported(node, f"{_shown(node)}: {kind} is not among the expressions of a transform")
    args = tuple(_argument(one, known, source, within=node) for one in _each(node.children()))
    return _OF[kind](node, args)


def is_same_every_time(node: Any) -> bool:
    """Whether an expression gives the same value from the same columns each time. `current_timestamp()` and its like
    are deterministic to Spark."""
    kind = str(node.getClass().getSimpleName())
    return bool(node.deterministic()) and (kind == _BOUND or not kind.startswith(_NOW))


def _require_same_every_time(node: Any) -> None:
    if not is_same_every_time(node):
        what = f"{_shown(node)} gives another value each time: the comparison would compute another row than the load"
        raise Unsupported(node, what, "Compute from columns and literals alone")


def _argument(node: Any, known: Mapping[int | str, Expression], source: Table, *, within: Any) -> Expression:
    found = expression_of(node, known, source)
    if found.is_passed_on and not found.type:
        column = source.column(found.value or "")
        what = f"{column.name} is {column.source_type}: Spark does not hold every value of kind {column.kind} exactly"
        # What the table gives has no line in the query.
        raise Unsupported(within, what, "Pass the column on unchanged")
    if found.type == "void" and str(within.getClass().getSimpleName()) != "Cast":
        raise Unsupported(within, f"{_shown(within)}: NULL has no type there", "Write CAST(NULL AS …)")
    return found


def _type(node: Any) -> str:
    spark = str(node.dataType().simpleString())
    if spark != "void" and not evaluate.has_type(spark):
        raise Unsupported(node, f"{_shown(node)} is of type {spark}", "Cast to decimal, a whole number, text or a date")
    return spark


def _literal(node: Any, _: Mapping[int | str, Expression]) -> Expression:
    return Expression("literal", _type(node), value=None if node.value() is None else _text(node.value()))


_LEAVES: Mapping[str, Callable[[Any, Mapping[int | str, Expression]], Expression]] = {
    "AttributeReference": lambda node, known: known[node.exprId().id()],
    "CommonExpressionRef": lambda node, known: known[f"with {node.id().id()}"],
    "Literal": _literal,
    "TypedNullLiteral": lambda node, _: Expression("literal", _type(node)),
}


def _cast(node: Any, args: tuple[Expression, ...]) -> Expression:
    (inner,), made = args, _type(node)
    if inner.op == "literal" and inner.value is None:
        return Expression("literal", made)
    _require_ansi(node)
    if not evaluate.can_cast(inner.type, made):
        raise Unsupported(node, f"{_shown(node)}: a cast from {inner.type} to {made} is not taken")
    return Expression("cast", made, args)


def _arithmetic(op: str) -> Callable[[Any, tuple[Expression, ...]], Expression]:
    def made(node: Any, args: tuple[Expression, ...]) -> Expression:
        _require_ansi(node)
        left, right = (one.type for one in args)
        if not evaluate.can_compute(op, left, right):
            raise Unsupported(node, f"{_shown(node)}: {op} of {left} and {right} is not taken", "Cast to fewer digits")
        return Expression(op, _type(node), args)

    return made


def _comparison(op: str) -> Callable[[Any, tuple[Expression, ...]], Expression]:
    def made(node: Any, args: tuple[Expression, ...]) -> Expression:
        if len(args) < 2:  # noqa: PLR2004
            raise Unsupported(node, f"{_shown(node)}: nothing is compared", "Name a value, or leave it out")
        for other in args[1:]:
            if not evaluate.can_compare(op, args[0].type, other.type):
                raise Unsupported(node, f"{_shown(node)}: {args[0].type} and {other.type} are not compared")
        return Expression(op, "boolean", args)

    return made


def _plain(op: str) -> Callable[[Any, tuple[Expression, ...]], Expression]:
    return lambda node, args: Expression(op, _type(node), args)


def _negated(node: Any, args: tuple[Expression, ...]) -> Expression:
    if args[0].type not in evaluate.INTEGERS and not args[0].type.startswith("decimal("):
        raise Unsupported(node, f"{_shown(node)}: {args[0].type} is not negated")
    return Expression("negate", _type(node), args)


def _concat(node: Any, args: tuple[Expression, ...]) -> Expression:
    if _type(node) != "string" or not args:
        raise Unsupported(node, f"{_shown(node)}: texts alone are joined", "Cast each part to STRING")
    return Expression("concat", "string", args)


def _substring(node: Any, args: tuple[Expression, ...]) -> Expression:
    numbers = tuple(map(_folded, args[1:]))
    if args[0].type != "string" or any(one.op != "literal" or one.value is None for one in numbers):
        raise Unsupported(node, f"{_shown(node)}: place and length are written as numbers, of a text")
    return Expression("substring", "string", (args[0], *numbers))


def _folded(one: Expression) -> Expression:
    """-4 is the negated 4 to Spark's parser, and in what it puts in the place of `right`."""
    if one.op != "negate" or one.args[0].op != "literal" or one.args[0].value is None:
        return one
    return Expression("literal", one.type, value=str(-int(one.args[0].value)))


def _of_one(op: str, of: str) -> Callable[[Any, tuple[Expression, ...]], Expression]:
    """An operation with one argument, of this type."""

    def made(node: Any, args: tuple[Expression, ...]) -> Expression:
        if len(args) != 1 or args[0].type != of:
            raise Unsupported(node, f"{_shown(node)} is taken of one {of} alone")
        return Expression(op, _type(node), args)

    return made


def _sha2(node: Any, args: tuple[Expression, ...]) -> Expression:
    value, bits = args
    if bits.op != "literal" or bits.value is None or int(bits.value) not in evaluate.SHA2:
        raise Unsupported(node, f"{_shown(node)}: sha2 has 224, 256, 384 or 512 bits", "Write sha2(column, 256)")
    return Expression("sha2", "string", (value,), bits.value)


def _case(node: Any, args: tuple[Expression, ...]) -> Expression:
    return Expression("case", _type(node), args)


_OF: Mapping[str, Callable[[Any, tuple[Expression, ...]], Expression]] = {
    "Cast": _cast,
    "Add": _arithmetic("add"),
    "Subtract": _arithmetic("subtract"),
    "Multiply": _arithmetic("multiply"),
    "UnaryMinus": _negated,
    "Concat": _concat,
    "Substring": _substring,
    "Length": _of_one("length", "string"),
    "StringTrim": _of_one("trim", "string"),
    "StringTrimLeft": _of_one("ltrim", "string"),
    "StringTrimRight": _of_one("rtrim", "string"),
    "Year": _of_one("year", "date"),
    "Month": _of_one("month", "date"),
    "DayOfMonth": _of_one("day", "date"),
    "Sha2": _sha2,
    "Coalesce": _plain("coalesce"),
    "EqualTo": _comparison("equal"),
    "EqualNullSafe": _comparison("equal_null_safe"),
    "LessThan": _comparison("less"),
    "LessThanOrEqual": _comparison("less_equal"),
    "GreaterThan": _comparison("greater"),
    "GreaterThanOrEqual": _comparison("greater_equal"),
    "In": _comparison("in"),
    "And": _plain("and"),
    "Or": _plain("or"),
    "Not": _plain("not"),
    "IsNull": _plain("is_null"),
    "IsNotNull": _plain("is_not_null"),
    "CaseWhen": _case,
    "If": _case,
}


def _require_ansi(node: Any) -> None:
    """try_cast and its like make NULL of what does not fit."""
    mode = str(node.evalMode().toString())
    if mode != "ANSI":
        raise Unsupported(node, f"{_shown(node)} makes NULL of what does not fit", "Write it without try_")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value if isinstance(value, str) else str(value.toString()) if hasattr(value, "toString") else str(value)


def _shown(node: Any) -> str:
    return str(node.sql())[:80]


def _each(sequence: Any) -> Iterator[Any]:
    for number in range(sequence.size()):
        yield sequence.apply(number)
