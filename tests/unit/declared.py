"""A folder of right declarations, in which a test then breaks one thing."""

from pathlib import Path

SOURCE = """\
source: core_bank
kind: mariadb
connection: core_bank
database: bank
"""

DESTINATION = """\
destination: warehouse
kind: postgres
connection: warehouse
schema: settlement
"""

SYNC = """\
sync: settlement
source: core_bank
destinations: [warehouse]
tables:
  - account
  - {name: ledger_entry, business_date: {column: booked_at, as: instant}}
nightly:
  timezone: Asia/Shanghai
reconcile:
  control_totals:
    - {table: ledger_entry, sum: amount, by: [currency]}
  expectations: settlement
derived:
  - {name: daily_balance, table: ledger_entry, sum: amount, by: [account_id, currency]}
"""

SUITE = """\
expectations: settlement
checks:
  - {table: ledger_entry, type: expect_column_values_to_be_unique, kwargs: {column: id}}
"""

# Its connections, each with its type.
KNOWN = {"core_bank": "mysql", "core_bank_capture": "mysql", "warehouse": "postgres"}

FILES = {
    "sources/core_bank.yaml": SOURCE,
    "destinations/warehouse.yaml": DESTINATION,
    "syncs/settlement.yaml": SYNC,
    "expectations/settlement.yaml": SUITE,
}


def write_declarations(folder: Path, changed: dict[str, str] | None = None) -> Path:
    """Write the right files, with some replaced or added; returns the folder."""
    for name, text in {**FILES, **(changed or {})}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder
