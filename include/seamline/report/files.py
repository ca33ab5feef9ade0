"""The two formats whose writers take half a second to import: only who asks for such a file waits for it, and neither
the page's first look nor a report as text does."""

from seamline.report.blocks import Report


def to_xlsx(report: Report) -> bytes:
    from seamline.report import spreadsheet

    return spreadsheet.to_xlsx(report)


def to_pdf(report: Report) -> bytes:
    from seamline.report import printed

    return printed.to_pdf(report)
