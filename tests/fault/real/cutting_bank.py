"""A bank whose lake is cut while its stream runs, and whoever cuts it is disturbed."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from typing import Any

from pyiceberg.table import StaticTable

from seamline.adapters.failpoints import Mode
from tests.fault.real.bank_plus import TABLES, opening_totals
from tests.fault.real.bank_under_fire import BankUnderFire, Case
from tests.fault.real.warehouse_lake import LakeWarehouse
from tests.fault.real.worker import write_whole

_FIRST_DAY = date(2026, 1, 1)
STEPS = ("pin", "cut")


@dataclass(kw_only=True)
class CuttingBank(BankUnderFire):
    days: int = 0

    @property
    def lake(self) -> LakeWarehouse:
        assert isinstance(self.warehouse, LakeWarehouse)
        return self.warehouse

    def disturb_cut(self, step: str, failpoint: str, mode: Mode) -> Case:
        """A run holds all tables, and publishes what it holds as the cut of the next date; one of both is disturbed."""
        before = self._at_rest()
        self.start("stream")
        self._new_run()
        day = _FIRST_DAY + timedelta(days=self.days)
        self.days += 1
        write_whole(self.folder / "business_date", day.isoformat())
        began = 0.0
        for one in STEPS:
            if one == step:
                began = self._disturbed(step, failpoint, mode)
            self._done(one)
        recovery_s = self.recovered(began)
        case = self._checked(Case(self.pair, failpoint, mode, 1, recovery_s, 0, 0, ()), before)
        return replace(case, violations=(*case.violations, *self.wrong_cuts(day)))

    def wrong_cuts(self, day: date) -> Iterator[str]:
        """The cut of the day is one state of all tables that a commit has left, held by a tag on each, and readable."""
        with self.lake.session() as session:
            cuts = session.execute(
                "SELECT c.tag, jsonb_object_agg(t.table_name, t.snapshot_id) FROM seamline.lake_cut c"
                " JOIN seamline.lake_cut_table t USING (stream, business_date, version)"
                " WHERE c.business_date = %s GROUP BY c.stream, c.business_date, c.version",
                (day,),
            ).fetchall()
        if len(cuts) != 1 or {*cuts[0][1]} != {*TABLES}:
            yield f"the cut of {day} is there as {cuts}"
            return
        tag, snapshots = cuts[0]
        # The rows of every commit were looked at.
        if snapshots not in self.lake.snapshots:
            yield f"{tag} is of no state that a commit has left: {snapshots}"
        heads = self.lake.pinned().heads
        for name, number in snapshots.items():
            table = StaticTable.from_metadata(heads[name])
            held = {one: ref.snapshot_id for one, ref in table.metadata.refs.items()}
            if held.get(tag) != number:
                yield f"{tag} on {name} is at {held.get(tag)}, the cut is {number}"
            yield from (f"{name} still has {one}" for one in held if one.startswith("seamline_run_"))
        accounts: Any = StaticTable.from_metadata(heads["account"]).scan(snapshot_id=snapshots["account"]).to_arrow()
        totals = accounts.group_by("ccy").aggregate([("balance", "sum")]).to_pylist()
        if {one["ccy"]: one["balance_sum"] for one in totals} != opening_totals():
            yield f"balances of {tag} do not sum up"


def cutting_bank(bank: BankUnderFire) -> CuttingBank:
    return CuttingBank(**{one.name: getattr(bank, one.name) for one in fields(BankUnderFire)})
