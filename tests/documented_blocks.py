"""How each block of code in the documents is held: run by a test, or checked by its parser alone, and why.

A block is named by its page and by how it begins. Blocks whose every command is of `./seamline` and only looks need no
entry: `test_demo.py` of the layer `e2e` runs them all. A block of a page in Chinese that the English page has too needs
none either.
"""

from collections.abc import Mapping

E2E = "tests/e2e/test_demo.py"
_LAKE_CUTS = "tests/contract/test_lake_cuts.py"

# By page, by how the block begins: the file of the test that takes it from the page and runs it.
RUN: Mapping[str, Mapping[str, str]] = {
    "docs/how-to/add-a-destination-later.md": {"./seamline exec airflow": E2E},
    "docs/how-to/archive-the-log.md": {"-- DuckDB": "tests/unit/test_log_archive.py"},
    "docs/how-to/backfill.md": {
        "./seamline backfill settlement 2026": E2E,
        "./seamline backfill settlement --pause": E2E,
    },
    "docs/how-to/park-a-table.md": {"./seamline validate": E2E},
    "docs/how-to/read-a-lake.md": {
        "SELECT business_date": E2E,
        "CREATE ROLE": E2E,
        "from seamline.reading": E2E,
        "print(duckdb": E2E,
        "uri = ": _LAKE_CUTS,
        "from seamline.sinks": _LAKE_CUTS,
        "import pyarrow": _LAKE_CUTS,
        "from pyiceberg": _LAKE_CUTS,
        "import duckdb": _LAKE_CUTS,
        "from pyspark": "tests/contract/test_lake_in_spark_sql.py",
    },
    "docs/how-to/read-a-database.md": {"from seamline.reading": E2E},
    "docs/how-to/read-change-files.md": {
        "import json": "tests/contract/test_change_files.py",
        "WITH changes": "tests/contract/test_change_files.py",
        "from pyspark": "tests/contract/test_change_files.py",
    },
    "docs/how-to/read-topics.md": {
        "import json": "tests/contract/test_kafka_destination.py",
        "for said": "tests/contract/test_kafka_destination.py",
    },
    "docs/how-to/read-what-changed.md": {
        "SELECT cut_change, id, balance": E2E,
        "SELECT cut_change, id, amount": E2E,
        "from seamline.reading": E2E,
    },
    "docs/how-to/repair.md": {"./seamline repair plan": E2E},
    "docs/how-to/restore-after-a-disaster.md": {"./seamline status": E2E, "./seamline capture reset": E2E},
    "docs/how-to/rotate-secrets.md": {"./seamline connect add": E2E},
    "docs/how-to/your-own-database.md": {
        "./seamline connect add brokerage ": E2E,
        "./seamline connect add brokerage_capture": E2E,
    },
    "docs/how-to/sign-and-hand-over.md": {"import base64": "tests/unit/test_signed_exports.py"},
    "docs/reference/audit.md": {"./seamline audit export": E2E},
    "docs/reference/jdbc-source.md": {"./seamline connect add branch_bank": "tests/integration/test_jdbc_source.py"},
    "docs/reference/connections.md": {
        "SEAMLINE_CONNECTION_WAREHOUSE": "tests/unit/test_connections.py",
        "ssh-keyscan": "tests/contract/test_sftp_login.py",
        "./seamline connect add partner_sftp": "tests/contract/test_sftp_login.py",
        "./seamline connect add partner_ftps": "tests/unit/test_connect_files.py",
    },
    "docs/reference/rest.md": {'curl -H "Authorization: Bearer $TOKEN" ': E2E},
    "docs/tutorial/first-hour.md": {
        "./seamline exec airflow dags trigger settlement__reconcile\n": E2E,
        "airflow=": E2E,
        './seamline exec --as bank_app mariadb -e "UPDATE payment_order SET status': E2E,
        "./seamline exec --as warehouse psql <<": E2E,
        "./seamline exec --as archive": E2E,
        "./seamline demo --with lake": E2E,
        "./seamline exec --as lake": E2E,
    },
}

# What `./seamline grants` prints: the test that holds the block equal to it. Tests of servers run what it prints.
PRINTED: Mapping[str, Mapping[str, str]] = {
    "docs/reference/grants.md": {
        "-- MariaDB source": "tests/unit/test_preflight.py",
        "-- MariaDB destination": "tests/unit/test_relational_types.py",
        "-- MySQL source": "tests/unit/test_mysql_preflight.py",
        "-- PostgreSQL source": "tests/unit/test_postgres_preflight.py",
        "-- PostgreSQL destination": "tests/unit/test_postgres_preflight.py",
        "-- Catalogue of a lake": "tests/unit/test_iceberg_kind.py",
        "-- Rows of the cuts of Hive": "tests/unit/test_hive_kind.py",
    },
}

_COMPOSE = "for a machine with Docker: the layer `compose` boots the same file in an engine of its own"
_CLUSTER = "for the machines of a cluster; tests/spark/test_cluster.py submits to one in their place"
_SPARK = "a session of Spark with jars of the reader's own"
_TRANSFORM = "a transform of a table that the demo does not have; {} runs such ones"
_OPENSSL = "not every machine has this program; tests/dags/test_page_taken.py makes such keys"
_DELIVERED = "the DAGs that it starts are run with the declarations of its page by tests/dags/test_delivered_files.py"
_STREAMS_ON = "starts servers or ends them, and would end those of the test"
_TOPICS = "minutes; tests/unit/test_topics_page.py plans its files, and tests/spark/test_topic_chain.py runs such syncs"
_MINUTES = "the command is run by other tests of the same layer, and takes minutes: {}"

# The others: its parser takes it, and why no test runs it as it stands.
PARSED: Mapping[str, Mapping[str, str]] = {
    "README.md": {
        "./seamline demo": "the demo of the layer `e2e` is this command at reduced size, and this test is the other"
    },
    "docs/benchmarks.md": {"./seamline up --without": "measures for hours"},
    "docs/how-to/add-a-kind.md": {
        "echo ./examples/seamline-memory": "changes the environment; tests/contract/installed_memory.py does it",
    },
    "docs/how-to/deliver-files.md": {
        "sudo install": "makes folders of the whole machine; tests/ssh_server.py starts such a server for tests",
        "host_key=": "needs that server; the URL's parts are those of tests/unit/test_connections.py",
        "./seamline validate --online  ": _DELIVERED,
        "cd bank_delivery": "runs where a delivery lies; tests/spark/test_files_nightly.py checks the same sums",
        "pw=": "makes a database and logins; tests/integration/test_two_logins.py runs the script of `grants`",
        "./seamline validate --online\n": _DELIVERED,
        "for dag in": "takes away the files that it would be run from; tests/unit/test_connect_command.py removes such"
        " connections",
        "./seamline exec --as postgres_root psql -c 'DROP": "removes a database, logins and folders of the machine",
    },
    "docs/how-to/put-a-lake-on-s3.md": {
        "from seamline.sinks": "needs a store; tests/contract/test_lake_on_s3.py reads by the same call",
        "SEAMLINE_TEST_S3": "a run of tests against a store of the reader's own",
    },
    "docs/how-to/read-a-lake.md": {
        "from seamline_spark": "tests/contract/test_lake_derived.py reads by this data source",
        "SELECT table_name, t.snapshot_id % ": "needs Delta tables: tests/integration/test_delta_destination.py",
        "SELECT sum(amount) FROM delta": _SPARK,
        "SELECT table_name, t.snapshot_id AS": "needs Hudi tables; tests/integration/test_hudi_destination.py has them",
        "spark.read.format": _SPARK,
        "spark = (": _SPARK,
    },
    "docs/how-to/read-a-database.md": {
        "from seamline_spark": "tests/spark/test_read_databases.py reads by this data source",
        "./seamline stream pause": "pauses the stream that the test writes through;"
        " tests/integration/test_stream_orders.py has the command",
    },
    "docs/how-to/read-topics.md": {
        "./seamline validate --online\n./seamline onboard feeding": _TOPICS,
        "./seamline validate --online\n./seamline onboard office": _TOPICS,
        "./seamline grants feed": "for servers with logins; tests/integration/encrypted.py has such brokers",
    },
    "docs/how-to/read-what-changed.md": {
        "from seamline.kinds": "goes on from tables that another page opens; tests/integration/test_iceberg_cut.py has"
        " it",
        "lake = spark": _SPARK,
    },
    "docs/how-to/run-in-containers.md": {
        "./seamline setup": _COMPOSE,
        "docker compose exec": _COMPOSE,
        "./seamline validate": _COMPOSE,
        "docker compose up": _COMPOSE,
        "git pull": _COMPOSE,
        "docker pull": "asks a registry",
    },
    "docs/how-to/scale-out.md": {
        "spark-submit": _CLUSTER,
        "--jars": "one more argument of the command before it",
        "spark=$(ls": _CLUSTER,
        "./seamline down": _STREAMS_ON,
        "uv venv": _CLUSTER,
    },
    "docs/how-to/schedule-on-a-calendar.md": {
        "$ ./seamline explain": "needs a calendar; tests/unit/test_explain_date.py holds the answer",
        "$ ./seamline status --missing": "needs dates that are late; tests/unit/test_missing_dates.py holds the answer",
    },
    "docs/how-to/sign-and-hand-over.md": {
        "openssl genpkey": _OPENSSL,
        "unzip": "needs the evidence of a date; tests/dags/test_page_signing.py runs `verify.py` of one",
    },
    "docs/how-to/sync-without-a-log.md": {
        "./seamline grants": "asks every declared server; tests/integration/test_validate_online.py asks them",
    },
    "docs/how-to/take-a-sync-away.md": {
        "./seamline capture reset": "the command of restore-after-a-disaster.md",
        "./seamline stream forget": "tests/integration/test_stream_orders.py runs it; the demo's sync is needed",
    },
    "docs/how-to/transform-a-table.md": {
        "-- include/transforms/client": _TRANSFORM.format("tests/integration/test_transformed_tables.py"),
        "from pyspark.sql import DataFrame": _TRANSFORM.format("tests/spark/test_transform_against_spark.py"),
        "./seamline exec airflow dags trigger settlement__tables    #": "the DAG and the command are those of"
        " park-a-table.md",
        "-- include/transforms/account_masked": "tests/unit/test_transform_syntax.py plans it with the demo's files",
        "./seamline validate --online": _MINUTES.format(E2E),
        "-- include/transforms/orders": _TRANSFORM.format("tests/spark/test_derived.py"),
        "from pyspark.sql import functions": _TRANSFORM.format("tests/spark/test_derived.py"),
        "./seamline exec airflow dags trigger settlement__tables --conf": _MINUTES.format(
            "tests/dags/test_table_runs.py"
        ),
    },
    "docs/how-to/upgrade.md": {
        "./seamline down": _STREAMS_ON + "; `up` and `down` are run by " + E2E + ", `git pull` needs a remote",
    },
    "docs/how-to/use-a-rest-catalogue.md": {
        "from seamline.reading": "needs a catalogue by REST; the call is that of read-a-lake.md",
    },
    "docs/how-to/work-in-several-checkouts.md": {
        "git worktree": "makes a second checkout; tests/unit/test_shared_files.py has what they share",
        "SEAMLINE_PORT_BASE": _STREAMS_ON + "; every session of tests has ports of its own by it",
    },
    "docs/reference/audit.md": {
        "openssl genpkey": f"{_OPENSSL} and runs the last line",
    },
    "docs/reference/delta-destination.md": {"SELECT table_name": "needs Delta tables, as the how-to to read a lake"},
    "docs/reference/hive-destination.md": {
        "SELECT sum": "needs a metastore; tests/spark/test_hive_nightly.py reads so"
    },
    "docs/reference/hudi-destination.md": {"SELECT table_name": "needs Hudi tables, as the how-to to read a lake"},
    "docs/reference/kafka-source.md": {
        "./seamline init": "needs topics of somebody else; tests/integration/test_init.py runs it over Debezium's",
    },
    "docs/reference/spark.md": {
        "update seamline.driver_run": "ends a driver that runs",
        "spark-submit": _CLUSTER,
    },
    "docs/reliability/README.md": {
        "./seamline test fault": "runs tests for an hour",
        "./seamline test soak": "runs tests for hours",
    },
    "docs/tutorial/first-hour.md": {
        "./seamline cut": "the commands of backfill.md; with `--again` they make cuts for minutes",
        "./seamline exec airflow dags trigger settlement__onboard\n": "the demo runs this DAG, and"
        " restore-after-a-disaster.md",
        './seamline exec --as bank_app mariadb -e "UPDATE payment_order SET amount': "the first step of"
        " what a person does by clicks",
        "./seamline validate": "the block of park-a-table.md",
    },
}
