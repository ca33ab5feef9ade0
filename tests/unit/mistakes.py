# ruff: noqa: E501  (one mistake per line reads as a table)
"""The mistakes that people make in declarations, and what each must be told."""

from tests.unit.declared import DESTINATION, SOURCE, SUITE, SYNC

SYNC_FILE = "syncs/settlement.yaml"
# One row per mistake: the file that is changed, what is replaced by what, and what the fault must say:
# line, path, a part of the cause, a part of the cure.
MISTAKES = {
    "unknown key": (SYNC_FILE, "  timezone:", "  timezon:", 8, "nightly.timezon", "unknown key", "`timezone`?"),
    "unknown key at the top": (SYNC_FILE, "nightly:", "nigthly:", 7, "nigthly", "unknown key", "`nightly`?"),
    "unknown key in a list": (SYNC_FILE, "as: instant", "az: instant", 6, "tables[1].business_date.az", "unknown", "`as`?"),
    "missing key": (SYNC_FILE, "source: core_bank\n", "", 1, "source", "is missing", "Name of a declared source"),
    "wrong type": (SYNC_FILE, "sync: settlement", "sync: 7", 1, "sync", "must be text, got 7", "Quotes alone do not mend it: a name has"),
    "wrong type of a list": (SYNC_FILE, "[warehouse]", "warehouse", 3, "destinations", "must be a list", ""),
    "wrong choice": (SYNC_FILE, "as: instant", "as: instnt", 6, "tables[1].business_date.as", "got 'instnt'", "`instant`?"),
    "key without a value": (SYNC_FILE, "source: core_bank", "source:", 2, "source", "has no value", "Leave the key out"),
    "unknown source": (SYNC_FILE, "source: core_bank", "source: core_bnk", 2, "source", "no source", "`core_bank`?"),
    "unknown destination": (SYNC_FILE, "[warehouse]", "[warehose]", 3, "destinations[0]", "no destination", "`warehouse`?"),
    "unknown suite": (SYNC_FILE, "expectations: settl", "expectations: zettl", 12, "reconcile.expectations", "no suite", "`settlement`?"),
    "no tables": (SYNC_FILE, "destinations: [warehouse]", "destinations: []", 3, "destinations", "must not be empty", ""),
    "table twice": (SYNC_FILE, "  - account\n", "  - account\n  - Account\n", 6, "tables[1]", "already on line 5", ""),
    "marker table": (SYNC_FILE, "- account\n", "- seamline_marker\n", 5, "tables[0]", "marker table", "Take it out"),
    "bad identifier": (SYNC_FILE, "- account\n", "- acc-ount\n", 5, "tables[0].name", "letters, digits and underscores", ""),
    "bad name": (SYNC_FILE, "sync: settlement", "sync: settle__ment", 1, "sync", "single underscores", ""),
    "unknown time zone": (SYNC_FILE, "Asia/Shanghai", "Asia/Shangai", 8, "nightly.timezone", "not a time zone", ""),
    "bad duration": (SYNC_FILE, "nightly:\n", "nightly:\n  as_of_max: 2 hours\n", 8, "nightly.as_of_max", "2h or 90min", ""),
    "unquoted time": (SYNC_FILE, "nightly:\n", "nightly:\n  run_at: 10:30\n", 8, "nightly.run_at", "got 10:30", 'Write it in quotes: "10:30"'),
    "bad time without quotes": (SYNC_FILE, "nightly:\n", "nightly:\n  run_at: 0030\n", 8, "nightly.run_at", "must be text, got 0030", 'is written "HH:MM"'),
    "bad time": (SYNC_FILE, "nightly:\n", 'nightly:\n  run_at: "25:00"\n', 8, "nightly.run_at", '"HH:MM"', ""),
    "negative": (SYNC_FILE, "nightly:\n", "stream: {lag_max_s: 0}\nnightly:\n", 7, "stream.lag_max_s", "must be more than 0, got 0", ""),
    "cut-off": (SYNC_FILE, "nightly:\n", 'nightly:\n  cut_off: "17:00"\n', 8, "nightly.cut_off", "made from the log", ""),
    "from the log": (SYNC_FILE, "nightly:\n", "nightly:\n  from: log\n", 8, "nightly.from", "not supported yet", ""),
    "another engine": (SYNC_FILE, "nightly:\n", "stream: {engine: x}\nnightly:\n", 7, "stream.engine", "not supported yet", "span loop"),
    "late start": (SYNC_FILE, "nightly:\n", 'nightly:\n  run_at: "03:00"\n', 7, "nightly.as_of_max", "account", "Raise as_of_max"),
    "early verdict": (SYNC_FILE, "nightly:\n", 'nightly:\n  verdict_by: "00:10"\n', 8, "nightly.verdict_by", "not after", ""),
    "total of a strange table": (
        SYNC_FILE, "{table: ledger_entry, sum: amount, by: [currency]}", "{table: ledger, sum: amount}",
        11, "reconcile.control_totals[0].table", "not in this sync", "`ledger_entry`, or",
    ),
    "derived from a strange table": (
        SYNC_FILE, "daily_balance, table: ledger_entry", "daily_balance, table: x", 14, "derived[0].table", "not in this", "Known",
    ),
    "derived like a table": (SYNC_FILE, "name: daily_balance", "name: account", 14, "derived[0].name", "already on line 5", ""),
    "key twice": (SYNC_FILE, "nightly:\n", "source: core_bank\nnightly:\n", 7, "source", "already on line 2", "Keep one"),
    "anchor": (SYNC_FILE, "[account_id, currency]", "&a [account_id, *a]", 14, "derived[0].by[1]", "aliases", "Write the value out"),
    "secret": ("sources/core_bank.yaml", "database:", "password: hunter2\ndatabase:", 4, "password", "secrets do not", "connection"),
    "address": ("sources/core_bank.yaml", "connection: core_bank", "connection: mysql://u:hunter2@h", 3, "connection", "not an address", ""),
    "planned kind": ("sources/core_bank.yaml", "mariadb", "mysql", 2, "kind", "not supported yet", "mariadb"),
    "unknown kind": ("sources/core_bank.yaml", "mariadb", "mariadbb", 2, "kind", "not a kind of source", "`mariadb`?"),
    "no kind": ("sources/core_bank.yaml", "kind: mariadb\n", "", 1, "kind", "is missing", "mariadb"),
    "planned destination": ("destinations/warehouse.yaml", "postgres", "iceberg", 2, "kind", "not supported yet", "postgres"),
    "reserved schema": ("destinations/warehouse.yaml", "schema: settlement", "schema: seamline", 4, "schema", "belongs to", ""),
    "schema of cuts": ("destinations/warehouse.yaml", "schema: settlement", "schema: x_cut", 4, "schema", "_cut and _stage", ""),
    "file and name differ": ("destinations/warehouse.yaml", ": warehouse\nkind", ": wharehouse\nkind", 1, "destination", "declares", "Rename"),
    "check of a strange table": ("expectations/settlement.yaml", "table: ledger_entry", "table: ledger", 12, "reconcile.expectations", "`ledger`", "`ledger_entry`, or"),
    "not a check": ("expectations/settlement.yaml", "expect_column", "assert_column", 3, "checks[0].type", "does not fit", "as Great Expectations names it"),
    "not YAML": (SYNC_FILE, "sync: settlement", "sync: [settlement", 2, "", "not YAML", "Check indents"),
    "empty": (SYNC_FILE, SYNC, "", 1, "", "empty or not a mapping", ""),
}  # fmt: skip
TEXTS = {
    SYNC_FILE: SYNC,
    "sources/core_bank.yaml": SOURCE,
    "destinations/warehouse.yaml": DESTINATION,
    "expectations/settlement.yaml": SUITE,
}
