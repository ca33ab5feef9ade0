"""The failpoints by what is disturbed there, and how often and when each case is made."""

from seamline.adapters.failpoints import NAMES, Mode

# How often each case is made. A sleep costs more time than a kill, and all of it has 40 minutes.
TIMES_A_STREAM = {Mode.KILL9: 2, Mode.ERROR: 1, Mode.STOP: 1, Mode.WAIT: 1}
# Where a place can be reached more often than once in the life of a process; then it dies at any of its first times.
HITS_MAX = {"app.epoch_taken": 1, "app.hold": 4, "app.piece_staged": 3, "app.reported": 4, "cut.overlap_ended": 1}
HITS_MAX_ELSE = 25
STREAM = sorted(name for name in NAMES if name.startswith(("app.", "cut.")))
# MariaDB has no slots.
SLOT = "snap.slot_created"
ONBOARDING = sorted(name for name in NAMES if name.startswith(("snap.", "pub.")) and name != SLOT)
COMPARING = sorted(name for name in NAMES if name.startswith("rec."))
CAPTURING = sorted(name for name in NAMES if name.startswith("cap."))
# Those of an incremental snapshot, which is a stream too, and of its joining.
JOINING = ("pub.commit_sent", "app.epoch_taken", "app.fetched", "app.commit_sent", "addtable.joined")


# With those that `tests/dags` meets they are all that there are (tests/unit/test_failpoints.py).
MET_HERE = frozenset({*STREAM, SLOT, *ONBOARDING, *JOINING, *COMPARING, *CAPTURING})
