"""What a statement of the binlog of MariaDB is taken for: its verb, and what of a database it names or touches."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from seamline import settings
from seamline.stack import java
from seamline.stack.layout import Layout

PROGRAM = Path(__file__).with_name("Statements.java")
# One line each: `\n` stands for a line's end.
SAID = {
    "INSERT INTO account VALUES (1)": "INSERT false",
    "  update`account`SET a=2": "UPDATE false",
    "DELETE/* all */FROM account": "DELETE false",
    r"--\n-- nightly\n--\nUPDATE account\nSET a=2": "UPDATE false",
    r"# nightly\nREPLACE account VALUES (1)": "REPLACE false",
    "/*! UPDATE account SET a=2 */": "UPDATE false",
    "/*M!100100 INSERT INTO account VALUES (1) */": "INSERT false",
    "SET STATEMENT max_statement_time=10 FOR INSERT INTO account VALUES (1)": "INSERT false",
    r"SET STATEMENT a='FOR', b=2 FOR\nselect change_all()": "SELECT false",
    "SET STATEMENT a=1 FOR CREATE TABLE added (id INT)": "CREATE false",
    "SET PASSWORD FOR somebody": "SET false",
    "SAVEPOINT `insert`": "SAVEPOINT false",
    "BEGIN": "BEGIN false",
    "/* it's nightly */ UPDATE bank.account SET memo='x'": "UPDATE true",
    'WITH a AS (SELECT "it\'s" m) DELETE FROM bank.account': "WITH true",
    "insert into `bank` . `account` values (1)": "INSERT true",
    'insert into "bank".account values (1)': "INSERT true",
    "UPDATE crm.customer SET bank = 1": "UPDATE false",
    "insert into t values ('bank.account'), ('it''s')": "INSERT false",
    'insert into t values ("bank.account")': "INSERT false",
    r"insert into t values ('a\\'bank.account')": "INSERT false",
}


# How the connector hands it to Debezium.
AS_RUN = {
    "INSERT INTO account VALUES ('/*! x */')": "INSERT INTO account VALUES ('/*! x */')",
    "CREATE TABLE t (a INT) /* ! no */": "CREATE TABLE t (a INT) /* ! no */",
    "/*!50000 TRUNCATE TABLE account */": "  TRUNCATE TABLE account  ",
    "/*M!100100 RENAME TABLE a TO b */": "  RENAME TABLE a TO b  ",
    "ALTER TABLE a /*! ADD x INT /* b */ FIRST */, ADD y INT": "ALTER TABLE a   ADD x INT /* b */ FIRST  , ADD y INT",
    "ALTER TABLE a COMMENT '*/' /*! , ADD x INT */": "ALTER TABLE a COMMENT '*/'   , ADD x INT  ",
    "ALTER TABLE `/*!` ADD x INT": "ALTER TABLE `/*!` ADD x INT",
    "CREATE OR REPLACE TABLE t (a INT)": "DROP TABLE IF EXISTS t; CREATE TABLE t (a INT)",
    "create /* x */ or\\nreplace table `b`.`t;` like u": "DROP table IF EXISTS `b`.`t;`; CREATE table `b`.`t;` like u",
    "/*! CREATE OR REPLACE */ TABLE t (a INT)": "DROP TABLE IF EXISTS t;   CREATE   TABLE t (a INT)",
    "SET STATEMENT lock_wait_timeout=1 FOR CREATE OR REPLACE TABLE t (a INT)": "DROP TABLE IF EXISTS t; "
    "SET STATEMENT lock_wait_timeout=1 FOR CREATE TABLE t (a INT)",
    "CREATE OR REPLACE DATABASE bank": "DROP DATABASE IF EXISTS bank; CREATE DATABASE bank",
    "CREATE OR REPLACE TEMPORARY TABLE t (a INT)": "CREATE OR REPLACE TEMPORARY TABLE t (a INT)",
    "CREATE OR REPLACE VIEW v AS SELECT 1": "CREATE OR REPLACE VIEW v AS SELECT 1",
}


# The tables that a statement which nobody can read may touch, written in database `bank`. Captured there are `account`,
# `audit`, `party` and `odd `name`, and `other` is known beside them.
TOUCHED = {
    "CREATE TABLE x (account INT, `audit` INT)": "[bank.x]",
    "create table if not exists `bank` . `x` (a INT REFERENCES account)": "[bank.x]",
    "CREATE TABLE crm.account (a INT)": "[]",
    "DROP TABLE IF EXISTS x; SET STATEMENT a=1 FOR CREATE TABLE x (account INT)": "[bank.x]",
    "/* of account */ ALTER ONLINE TABLE account ADD SYSTEM VERSIONING": "[bank.account]",
    "ALTER TABLE x ADD SYSTEM VERSIONING COMMENT 'account'": "[bank.x]",
    "ALTER TABLE x ADD u INT, RENAME TO `account`": "[bank.account]",
    "ALTER TABLE x EXCHANGE PARTITION p WITH TABLE bank.audit": "[bank.audit]",
    r"ALTER TABLE x COMMENT '\', RENAME TO `odd ``name`": "[bank.odd `name]",
    'ALTER TABLE x RENAME "party"': "[bank.party]",
    "ALTER TABLE x RENAME crm.x": "[]",
    "CREATE PACKAGE k AS PROCEDURE p(account INT); END": "[]",
    "CREATE DEFINER=`account`@`%` PACKAGE BODY k AS BEGIN DELETE FROM account; END": "[]",
    "CREATE OR REPLACE VIEW account_of AS SELECT * FROM account": "[]",
    "CREATE UNIQUE INDEX i ON account (a)": "[bank.account]",
    "CREATE UNIQUE INDEX i ON x (a)": "[]",
    "CREATE SEQUENCE account": "[bank.account]",
    "GRANT SELECT ON account TO somebody": "[]",
    "SET STATEMENT max_statement_time=10 FOR GRANT ALL ON account TO a": "[]",
    "DO SOMETHING NEW WITH account AND audit": "[bank.account, bank.audit]",
    "SOMETHING NEW": "[]",
    "RENAME TABLE Other TO another IN A NEW WAY": "[bank.Other]",
    "DROP DATABASE IF EXISTS bank; CREATE DATABASE bank OF A NEW KIND": "[bank.account]",
    "CREATE DATABASE bank OF A NEW KIND": "[]",
}
FROM_ELSEWHERE = {
    "ALTER TABLE account ADD SYSTEM VERSIONING": "[]",
    "ALTER TABLE bank.account ADD SYSTEM VERSIONING": "[bank.account]",
    "DO SOMETHING NEW WITH account": "[]",
    "DO SOMETHING NEW WITH bank.account": "[bank.account]",
    "ALTER TABLE x ADD u INT, RENAME TO `bank`.`audit`": "[bank.audit]",
}


def test_of_a_statement_that_nobody_can_read_is_known_what_it_may_touch() -> None:
    assert output_for(TOUCHED, "touched", "bank") == TOUCHED
    assert output_for(FROM_ELSEWHERE, "touched", "crm") == FROM_ELSEWHERE


def test_each_statement_is_taken_for_what_it_is() -> None:
    assert output_for(SAID, "verb") == SAID


def test_debezium_reads_what_the_server_runs() -> None:
    assert output_for(AS_RUN, "as run") == AS_RUN


def output_for(statements: Iterable[str], *what: str) -> dict[str, str]:
    known = settings.load()
    home = java.find(Layout(known), settings.process_environment()).home
    (plugin,) = (known.env / "connect-plugins").glob("debezium-connector-mariadb-*")
    path = f"{plugin}/*:{known.env}/jars/kafka/*"
    ran = subprocess.run(
        [str(home / "bin" / "java"), "-cp", path, str(PROGRAM), *what],
        input="\n".join(statements),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return dict(zip(statements, ran.stdout.splitlines(), strict=True))
