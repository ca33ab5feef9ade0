"""The failpoints by what is disturbed there, and how often and when each case is made."""

from itertools import product

from seamline.adapters.failpoints import NAMES, Mode

# How often each case is made. A sleep costs more time than a kill, and all of it has 40 minutes.
TIMES_A_STREAM = {Mode.KILL9: 2, Mode.ERROR: 1, Mode.STOP: 1, Mode.WAIT: 1}
# Where a place can be reached more often than once in the life of a process; then it dies at any of its first times.
HITS_MAX = {"app.epoch_taken": 1, "app.hold": 4, "app.chunk_staged": 3, "app.reported": 4, "cut.overlap_ended": 1}
HITS_MAX_ELSE = 25
STREAM = sorted(name for name in NAMES if name.startswith(("app.", "cut.")))
# MariaDB has no slots.
SLOT = "snap.slot_created"
ONBOARDING = sorted(name for name in NAMES if name.startswith(("snap.", "pub.")) and name != SLOT)
COMPARING = sorted(name for name in NAMES if name.startswith("rec."))
CAPTURING = sorted(name for name in NAMES if name.startswith("cap."))
# Those of an incremental snapshot, which is a stream too, and of its joining.
JOINING = ("pub.commit_sent", "app.epoch_taken", "app.fetched", "app.commit_sent", "addtable.joined")

# Of MySQL into MariaDB: where the destination takes part, in the modes in which another server may differ, and where
# the source is read. What lies between is the same code as before PostgreSQL.
HARD_MODES = (Mode.KILL9, Mode.ERROR, Mode.STOP)
_SPANS = (
    "app.fetched",
    "app.dest_begin",
    "app.position_written",
    "app.dml_half",
    "app.commit_sent",
    "app.commit_acked",
)
SINK_OF_A_STREAM = (
    *product(_SPANS, HARD_MODES),
    # Longer than the server lets a transaction idle.
    ("app.dml_half", Mode.WAIT),
    ("app.epoch_taken", Mode.KILL9),
    ("app.chunk_staged", Mode.KILL9),
    ("app.chunk_staged", Mode.STOP),
    ("cut.overlap_ended", Mode.KILL9),
)
READ_AND_PUBLISHED = tuple(
    product(("snap.opened", "snap.chunk_read", "pub.swapped", "pub.commit_sent", "pub.commit_acked"), HARD_MODES)
)
# Behind the COMMIT the tables wait for their names, and whoever comes next gives them.
FIRST_PUBLISH = (("pub.commit_sent", Mode.KILL9), ("pub.commit_acked", Mode.KILL9), ("pub.commit_acked", Mode.STOP))
SINK_OF_A_JOINING = (
    *product(("addtable.joined",), HARD_MODES),
    ("app.commit_sent", Mode.KILL9),
    ("app.commit_sent", Mode.ERROR),
    ("pub.commit_sent", Mode.KILL9),
)
SINK_OF_A_COMPARISON = (*product(("rec.pair_opened",), HARD_MODES), ("rec.digest_done", Mode.KILL9))

# The places that only a lake has, in every mode: of a stream, of a publish, and of a cut, while a run takes hold of the
# tables and while it gives what it holds the cut's name.
LAKE_STREAM = ("lake.span_written",)
LAKE_ONBOARDING = ("lake.publish_written",)
LAKE_CUTTING = ("lake.tags_written", "lake.cut_recorded", "lake.cut_half", "lake.cut_committed")
# And those that every sink has, at which a lake moves pointers instead of rows. Half of the rows: one table's files are
# written and another's are not, or one pointer has moved, by turns.
SINK_OF_A_LAKE = (
    *product(("app.dest_begin", "app.position_written", "app.dml_half", "app.dml_done", "app.commit_sent"), HARD_MODES),
    ("app.dml_half", Mode.WAIT),
    ("app.epoch_taken", Mode.KILL9),
    ("app.commit_acked", Mode.KILL9),
    ("app.chunk_staged", Mode.KILL9),
    ("cut.overlap_ended", Mode.KILL9),
)
PUBLISH_OF_A_LAKE = tuple(product(("pub.swapped", "pub.commit_sent", "pub.commit_acked"), HARD_MODES))
FIRST_PUBLISH_OF_A_LAKE = (
    ("lake.publish_written", Mode.KILL9),
    ("pub.swapped", Mode.KILL9),
    ("pub.commit_sent", Mode.KILL9),
    ("pub.commit_sent", Mode.ERROR),
)
JOINING_OF_A_LAKE = (*product(("addtable.joined",), HARD_MODES), ("app.commit_sent", Mode.KILL9))

# With those that `tests/dags` meets they are all that there are (tests/unit/test_failpoints.py).
LAKE = (*LAKE_STREAM, *LAKE_ONBOARDING, *LAKE_CUTTING)
MET_HERE = frozenset({*STREAM, SLOT, *ONBOARDING, *JOINING, *COMPARING, *CAPTURING, *LAKE})
