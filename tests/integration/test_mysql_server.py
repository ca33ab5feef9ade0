"""The MySQL that tests run against is there, and is the one that they are about."""

from contextlib import closing

from hypothesis import given, settings

from seamline.adapters.connections import Connection
from seamline.sources.mysql.gtid_set import GtidSet
from tests.gtid_texts import Transactions, gtid_text, set_of, transactions
from tests.mysql_server import VERSION, mysql


def test_a_mysql_server_can_be_had(mysql_root: Connection) -> None:
    with closing(mysql(mysql_root)) as session, session.cursor() as cursor:
        cursor.execute("SELECT VERSION(), @@GLOBAL.gtid_mode, @@GLOBAL.binlog_format, @@GLOBAL.binlog_row_image")
        ((version, *capture),) = cursor.fetchall()
    assert version.startswith(VERSION)
    assert capture == ["ON", "ROW", "FULL"]


def test_sets_of_gtids_are_those_of_the_server(mysql_root: Connection) -> None:
    with closing(mysql(mysql_root)) as session, session.cursor() as cursor:

        @settings(max_examples=100)
        @given(transactions, transactions)
        def holds(these: Transactions, those: Transactions) -> None:
            texts = (gtid_text(these), gtid_text(those))
            one, other = (GtidSet.parse(text) for text in texts)
            cursor.execute("SELECT GTID_SUBSET(%s, %s), GTID_SUBTRACT(%s, %s)", (*reversed(texts), *texts))
            ((subset, left),) = cursor.fetchall()
            assert one.contains(other) == bool(subset)
            assert str(one.minus(other)) == left.replace("\n", "")
            # The server joins two sets when it reads them as one text.
            cursor.execute("SELECT GTID_SUBTRACT(%s, '')", (",".join(filter(None, texts)),))
            ((both,),) = cursor.fetchall()
            assert str(one.union(other)) == both.replace("\n", "")
            assert set_of(these) == one

        holds()
