"""States that no destination may have at a commit: whoever looks at its commits is shown each."""

from tests.fault.real.anomalies import Anomaly

# By what must be said of them; nothing of them is kept.
WRONG_STATES = {
    "UPDATE live.account SET balance = balance + 0.0001 WHERE id = 7": Anomaly.TORN,
    "DELETE FROM live.account WHERE id = 7": Anomaly.TORN,
    "DELETE FROM live.entry WHERE id = (SELECT min(id) FROM live.entry)": Anomaly.TORN,
    "UPDATE live.entry SET amount = amount + 1 WHERE id = (SELECT min(id) FROM live.entry)": Anomaly.TORN,
    "INSERT INTO live.entry SELECT -1, tx_id, leg, legs, account_id, ccy, amount, booked_at, memo FROM live.entry "
    "LIMIT 1": Anomaly.TORN,
    "DELETE FROM live.seq WHERE (writer, n) = (0, 1)": Anomaly.REORDERED,
}
