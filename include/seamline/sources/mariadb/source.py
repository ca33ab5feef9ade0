"""ports.Source for MariaDB."""

from seamline.databases.mysql.source import BinlogSource, Preflight
from seamline.plan.model import SourcePlan
from seamline.sources.mariadb.preflight import RULES, RULES_OF_TABLES, RULES_WITHOUT_LOG
from seamline.sources.mariadb.preflight_facts import QUESTIONS
from seamline.sources.mariadb.sessions import READING


class MariaDbSource(BinlogSource):
    reading = READING
    judged = Preflight(QUESTIONS, RULES, RULES_OF_TABLES, RULES_WITHOUT_LOG)


def open_source(source: SourcePlan) -> MariaDbSource:
    return MariaDbSource(source)
