"""Sets of MySQL's transactions as plain Python sets, and their texts in any order: what `GtidSet` is held against."""

from hypothesis import strategies as st

from seamline.sources.mysql.gtid_set import GtidSet

FIRST, SECOND = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "2e11fa47-71ca-11e1-9e33-c80aa9429562"

Transactions = frozenset[tuple[str, str, int]] | set[tuple[str, str, int]]
"""Server, tag ("" for none) and number of each."""

transactions = st.frozensets(
    st.tuples(st.sampled_from((FIRST, SECOND)), st.sampled_from(("", "batch", "_x9")), st.integers(1, 9)), max_size=30
)


def gtid_text(these: Transactions) -> str:
    """One by one, not joined and not sorted."""
    return ", ".join(f"{uuid}:{tag}:{number}" if tag else f"{uuid}:{number}" for uuid, tag, number in these)


def set_of(these: Transactions) -> GtidSet:
    """The set, made by joining one transaction to the other."""
    made = GtidSet()
    for one in sorted(these, reverse=True):
        made = made.union(GtidSet.parse(gtid_text({one})))
    return made
