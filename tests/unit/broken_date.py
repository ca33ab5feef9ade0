"""A date with breaks of several kinds, values that would like to act, and numbers too wide for a spreadsheet."""

from decimal import Decimal

from seamline.domain.cut_state import CutState
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from tests.unit.reported import MATCH, cut

FORMULA = "=cmd|' /C calc'!A0"
HOSTILE = '<script>alert(1)</script> \x1b[31m \u202eevil 😀 "; drop'
CHINESE = "中文客户"
WIDE = Decimal("12345678901234567890.12")
NARROW = Decimal("123456789012.5000")

_VALUES = ({"amount": "1.0000", "payer": CHINESE, "note": HOSTILE}, {"amount": "1.0001", "payer": "", "note": FORMULA})
PAYMENTS = TableVerdict(
    "payment_order",
    Verdict.BREAK,
    reason="12 rows differ",
    source_rows=1_000_003,
    destination_rows=1_000_000,
    totals=(
        ControlTotal("payment_order", "amount", ("EUR",), 500_000, 499_999, NARROW, NARROW - 5),
        ControlTotal("payment_order", "amount", ("CNY",), 500_003, 500_001, WIDE, WIDE + 1),
    ),
    breaks=(
        Break("payment_order", BreakType.VALUE, '{"id": "7"}', *_VALUES),
        Break("payment_order", BreakType.MISSING, '{"id": "8"}', {"id": "8", "payer": None, "note": "NULL"}, None),
    ),
    breaks_total=12,
)
_FAILED = {"on": "payment_order", "type": "expect_positive", "why": "a payment is positive", "detail": "", "rows": 1}
CHECKED = {"verdict": "BREAK", "checked": 5, "failed": [{**_FAILED, "keys": ['{"id": "9"}']}]}
WAITS = Decision(DecisionState.WAITING, "2026-11-21T01:05:00+00:00", ("olga", "ivan"))


def broken_cut() -> CutState:
    """It is not published: a person has to decide."""
    return cut(PAYMENTS, MATCH, decision=WAITS.to_json(), expectations=CHECKED, publish={})
