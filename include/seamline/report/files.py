"""The two formats whose writers take half a second to import: only who asks for such a file waits for it, and neither
the page's first look nor a report as text does."""

from functools import cache

from seamline.domain.cut_state import Headline
from seamline.report.blocks import Report


def to_xlsx(report: Report) -> bytes:
    from seamline.report import spreadsheet

    return spreadsheet.to_xlsx(report)


@cache
def prepare() -> None:
    """Write an empty PDF, so that who asks for the first one of this process waits for no import. Once per process."""
    to_pdf(Report("", Headline.MATCH, ()))


def to_pdf(report: Report) -> bytes:
    from seamline.report import printed

    return printed.to_pdf(report)
