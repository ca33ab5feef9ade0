"""Iceberg and Delta tables that another client writes, compared with a database by reading alone."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import ListType, StringType

from seamline import registry
from seamline.adapters.connections import Connection, resolve
from seamline.cli.main import main
from seamline.domain.runs import Reconciliation, RunKind, RunState, Scope
from seamline.domain.self_test import self_test_in_words
from seamline.domain.separate import separate_in_words
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.plan.model import Run, SyncPlan
from seamline.spec.load import load_declarations
from seamline.sync.separate import compare_separately
from seamline_airflow import onboarding
from seamline_spark.compare.main import compare_run
from tests.conftest import RunningStack
from tests.integration.databases import postgres, postgres_database
from tests.integration.test_separate import PASSWORD, TABLES, Waits, known, postgres_side
from tests.unit.delta_of_others import Written

NAME = "separate_lake"
# Of each type that an Iceberg table may have.
_TABLES = (
    "CREATE TABLE payment (id int PRIMARY KEY, currency varchar(3), amount numeric(18,4), is_open boolean,"
    " booked_at timestamp, paid_at timestamptz, at_time time, day date, reference uuid, mark bytea, rate real,"
    " factor double precision, memo text)",
    "CREATE TABLE rate (day date, pair varchar(7), rate double precision, PRIMARY KEY (day, pair))",
    "CREATE TABLE audit (actor text, object text)",
)
_ROWS = (
    "INSERT INTO payment SELECT n, 'EUR', n + 0.25, n % 2 = 1, timestamp '2026-03-01 10:00:00.000001' + n *"
    " interval '1 s', timestamptz '2026-03-29 00:59:59.5+00' + n * interval '1 h', time '10:00:00.5' + n *"
    " interval '1 s', date '2026-03-01' + n, gen_random_uuid(), decode(lpad(n::text, 4, '0'), 'hex'), n / 7.0,"
    " n / 3.0, CASE WHEN n % 7 = 0 THEN '付款 ' || n END FROM generate_series(1, 300) n",
    "INSERT INTO rate VALUES ('2026-03-01', 'EURUSD', 1.0825), ('2026-03-02', 'EURUSD', 0.1)",
    "INSERT INTO audit VALUES ('a', 'x'), ('a', 'x'), ('b', NULL)",
)
_ARROW = {
    "id": pa.int64(),
    "amount": pa.decimal128(18, 4),
    "is_open": pa.bool_(),
    "booked_at": pa.timestamp("us"),
    "paid_at": pa.timestamp("us", tz="UTC"),
    "at_time": pa.time64("us"),
    "day": pa.date32(),
    "reference": pa.uuid(),
    "mark": pa.binary(),
    "rate": pa.float32(),
    "factor": pa.float64(),
}


@dataclass
class Mirror:
    """`tables`: those of the lake, as their own client writes them."""

    plan: SyncPlan
    tables: dict[str, IcebergTable]
    execute: Callable[[str], None]

    def compare(self, meanwhile: Callable[[], None] = lambda: None) -> Reconciliation:
        run = Run("r", "mirror", RunKind.RECONCILE, None, self.plan, RunState.RUNNING)
        source, other = registry.separate_sides(self.plan, "copy")
        return compare_separately(run, "copy", source=source, other=other, views=2, clock=Waits(meanwhile))


@pytest.fixture(scope="module")
def mirror(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    warehouse, declared = tmp_path_factory.mktemp("warehouse"), tmp_path_factory.mktemp("declared")
    with ExitStack() as opened:
        execute = postgres_side(opened, NAME, (*_TABLES, *_ROWS), rows=())
        catalogue = opened.enter_context(postgres_database(f"{NAME}_catalogue"))
        uri = f"{catalogue.login}:{catalogue.password}@{catalogue.host}:{catalogue.port}/{catalogue.database}"
        client = SqlCatalog("theirs", uri=f"postgresql+psycopg2://{uri}", warehouse=f"file://{warehouse}")
        client.create_namespace("bank")
        with closing(postgres(replace(resolve("postgres_root"), database=NAME))) as session:
            tables = {name: _copied(client, session, name) for name in TABLES}
        known(opened, _reader(opened, catalogue.database), f"{NAME}_copy", "postgres")
        for name, text in (
            ("sources/bank", f"source: bank\nkind: postgres\nconnection: {NAME}\ndatabase: {NAME}\nschema: bank\n"),
            (
                "destinations/copy",
                f"destination: copy\nkind: iceberg\nconnection: {NAME}_copy\nnamespace: bank\ncatalog: theirs\n"
                f"warehouse: {warehouse}\n",
            ),
            (
                "syncs/mirror",
                "sync: mirror\nsource: bank\ndestinations: [copy]\ntables: [payment, rate, audit]\n"
                "reconcile_only: {in_flight_max: 300s}\n"
                "reconcile: {control_totals: [{table: payment, sum: amount, by: [currency]}]}\n",
            ),
        ):
            (declared / name).parent.mkdir(exist_ok=True)
            (declared / f"{name}.yaml").write_text(text, encoding="utf-8")
        opened.enter_context(pytest.MonkeyPatch.context()).setenv("SEAMLINE_DECLARATIONS", str(declared))
        plan, problems = onboarding.preflight_of_reconcile_only(compile_plan(load_declarations(declared), "mirror"))
        assert problems == ()
        yield Mirror(plan, tables, execute)


def _reader(opened: ExitStack, database: str) -> Connection:
    """A login that may read the catalogue and no more."""
    root = replace(resolve("postgres_root"), database=database)
    session = opened.enter_context(closing(postgres(root)))
    login = f"{database}_reader"
    session.execute(f"DROP ROLE IF EXISTS {login}".encode())
    session.execute(f"CREATE ROLE {login} LOGIN PASSWORD '{PASSWORD}'".encode())
    opened.callback(lambda: session.execute(f"DROP OWNED BY {login}; DROP ROLE {login}".encode()))
    session.execute(f"GRANT CONNECT ON DATABASE {database} TO {login}".encode())
    session.execute(f"GRANT SELECT ON public.iceberg_tables TO {login}".encode())
    return replace(root, login=login)


def _copied(client: SqlCatalog, session: "psycopg.Connection[Any]", name: str) -> IcebergTable:
    """The table as another tool has carried it."""
    session.execute("SET TimeZone = 'UTC'")
    cursor = session.execute(f"SELECT * FROM bank.{name}".encode())
    names = [column.name for column in cursor.description or ()]
    rows = [
        {one: value.bytes if isinstance(value, uuid.UUID) else value for one, value in zip(names, row, strict=True)}
        for row in cursor
    ]
    types = _ARROW if name == "payment" else {"day": pa.date32(), "rate": pa.float64()}
    schema = pa.schema([(one, types.get(one, pa.string())) for one in names])
    table = client.create_table(f"bank.{name}", schema)
    table.append(pa.Table.from_pylist(rows, schema))
    return table


def test_declared_it_is_confirmed_and_its_run_is_a_match_by_reading_alone(
    mirror: Mirror, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--online"]) == 0, capsys.readouterr().err
    assert "mirror: 3 tables, bank → copy, compared only" in capsys.readouterr().out
    assert main(["grants", "copy"]) == 0
    said = capsys.readouterr().out
    assert "needs SELECT on public.iceberg_tables, and to read the files" in said and "CREATE" not in said
    run_id = f"mirror/reconcile/-/{uuid.uuid4().hex}"
    with closing(registry.platform()) as store:
        store.start_run(run_id=run_id, sync="mirror", kind=RunKind.RECONCILE, plan_json=plan_to_json(mirror.plan))
        (found,) = compare_run(run_id)
        kept = store.reconciliation(run_id, Scope.LIVE, "copy")
    assert [(one.verdict, one.reason) for one in found.tables] == [(Verdict.MATCH, "")] * 3
    assert kept is not None and kept.verdict is Verdict.MATCH
    assert [one.source_rows for one in found.tables] == [300, 2, 3]
    assert [total.group for total in found.tables[0].totals] == [("EUR",)]
    assert " 0 others" in self_test_in_words(found.evidence)[0]
    assert "destination payment at snapshot " in separate_in_words(found.evidence)[0]


def test_delta_tables_are_compared_by_their_logs_alone(mirror: Mirror, tmp_path: Path) -> None:
    lakes = {name: Written(tmp_path, name) for name in ("rate", "audit")}
    for name, lake in lakes.items():
        rows = mirror.tables[name].scan().to_arrow()
        of = {pa.date32(): "date", pa.float64(): "double"}
        lake.begin({field.name: of.get(field.type, "string") for field in rows.schema})
        lake.commit(lake.add(rows))
    plan = mirror.plan
    copy = replace(plan.destination("copy"), kind="delta", connection="", options=(("warehouse", str(tmp_path)),))
    tables = tuple(one for one in plan.tables if one.name in lakes)
    checks = replace(plan.reconcile, control_totals=())
    in_delta = replace(mirror, plan=replace(plan, destinations=(copy,), tables=tables, reconcile=checks))
    found = in_delta.compare()
    assert [(one.table, one.verdict, one.source_rows) for one in found.tables] == [
        ("rate", Verdict.MATCH, 2),
        ("audit", Verdict.MATCH, 3),
    ]
    assert "destination rate at version 1, audit at version 1" in separate_in_words(found.evidence)[0]
    lakes["audit"].commit(lakes["audit"].add(pa.table({"actor": ["c"], "object": ["z"]})))
    assert [one.verdict for one in in_delta.compare().tables] == [Verdict.MATCH, Verdict.BREAK]


def test_a_catalogue_that_is_not_there_is_an_error_of_the_destination(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The source's own database has none.
    at = resolve(NAME)
    elsewhere = f"postgres://{at.login}:{PASSWORD}@{at.host}:{at.port}/{NAME}"
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{NAME.upper()}_COPY", elsewhere)
    assert main(["validate", "--online"]) == 2
    assert "copy.yaml" in capsys.readouterr().err
    found = mirror.compare()
    assert {one.verdict for one in found.tables} == {Verdict.INCONCLUSIVE}
    assert "cannot read the catalogue" in found.tables[0].reason


def test_what_stands_in_the_lake_is_a_break_and_what_arrives_is_not(mirror: Mirror) -> None:
    payment, audit = mirror.tables["payment"], mirror.tables["audit"]
    before = payment.scan(EqualTo("id", 40)).to_arrow()

    def arrives() -> None:
        payment.overwrite(_with(before, amount="1.0000"), overwrite_filter=EqualTo("id", 40))

    mirror.execute("UPDATE payment SET amount = 1 WHERE id = 40")
    row = payment.scan(EqualTo("id", 17)).to_arrow()
    payment.overwrite(_with(row, amount="17.2501"), overwrite_filter=EqualTo("id", 17))
    payment.delete(EqualTo("id", 18))
    # The greatest that the source's own key can hold.
    payment.append(_with(row, id=2**31 - 1))
    audit.append(pa.table({"actor": ["a"], "object": ["x"]}))
    found = mirror.compare(arrives)
    of_payment, rate, of_audit = found.tables
    assert {(one.type, one.key) for one in of_payment.breaks} == {
        (BreakType.VALUE, '{"id": "17"}'),
        (BreakType.MISSING, '{"id": "18"}'),
        (BreakType.UNEXPECTED, f'{{"id": "{2**31 - 1}"}}'),
    }
    assert "1 differences were in flight" in of_payment.reason
    assert rate.verdict is Verdict.MATCH
    assert [one.type for one in of_audit.breaks] == [BreakType.DUPLICATE]


def test_a_column_that_has_no_common_text_is_named_before_a_row_is_read(
    mirror: Mirror, capsys: pytest.CaptureFixture[str]
) -> None:
    with mirror.tables["rate"].update_schema() as change:
        change.add_column("parts", ListType(100, StringType()))
    found = mirror.compare()
    assert "column parts of table rate is list<string>, which cannot be compared" in found.tables[1].reason
    assert main(["validate", "--online"]) == 2
    assert "tables[1]: in destination `copy`: column parts" in capsys.readouterr().err


def _with(rows: pa.Table, **values: object) -> pa.Table:
    for name, value in values.items():
        place = rows.schema.get_field_index(name)
        made = pa.array([value] * rows.num_rows).cast(rows.schema.field(name).type)
        rows = rows.set_column(place, rows.schema.field(name), made)
    return rows
