"""ports.Source for MySQL."""

from seamline.databases.mysql.source import BinlogSource, Preflight
from seamline.plan.model import SourcePlan
from seamline.sources.mysql.preflight import RULES, RULES_OF_TABLES, RULES_WITHOUT_LOG
from seamline.sources.mysql.preflight_facts import QUESTIONS
from seamline.sources.mysql.sessions import READING


class MySqlSource(BinlogSource):
    reading = READING
    judged = Preflight(QUESTIONS, RULES, RULES_OF_TABLES, RULES_WITHOUT_LOG)


def open_source(source: SourcePlan) -> MySqlSource:
    return MySqlSource(source)
