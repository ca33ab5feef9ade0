"""Small pictures of numbers over time, as SVG inside the page: no script, no file of its own, readable without colour.

A picture has one class per role, which the style sheet colours for both modes, and a title that says in words what it
shows. Nothing of the data but numbers gets into a drawing; titles are escaped.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from markupsafe import Markup

from seamline.domain.phrase import phrase

WIDTH, HEIGHT = 160, 28
_EDGE = 2
# Of a chart with labels: where its lines begin, how wide they are, and between which heights they lie.
_LEFT, _WIDE, _HIGH, _LOW = 78, 480, 10, 110


class Picture(Markup):
    """With an English title. `title`: the same, which may be a phrase; `frame`: the picture with `{title}` where it
    stands."""

    title: str
    frame: str

    def titled(self, title: str) -> Markup:
        return Markup(self.frame).format(title=title)


def sparkline(values: Sequence[float | None], title: str) -> Picture:
    """A line over equal steps of time, the oldest first; None is a gap. Its full height is the greatest value, and at
    least 1."""
    known = [value for value in values if value is not None]
    if not known:
        return _framed('<span class="faint">{title}</span>', phrase("nothing reported"))
    top = max(*known, 1.0)
    return _picture("spark", title, "".join(_line(run, len(values), top) for run in _runs(values)))


def day_chart(values: Sequence[float | None], title: str, *, until: datetime, limit: float | None) -> Picture:
    """A line over equal steps of the 24 hours up to `until`, by whose zone the hours below are named; None is a gap.
    Its full height is the greatest value, in seconds, and at least 1. `limit`: drawn where a value comes up to it."""
    known = [value for value in values if value is not None]
    if not known:
        return _framed('<span class="faint">{title}</span>', phrase("nothing reported in the last 24 hours"))
    top = max(*known, 1.0)
    parts = [_rule(0.0, top, "0 s"), _rule(top, top, f"{top:,.1f} s")]
    if limit is not None and limit < top:
        parts.append(_rule(limit, top, f"{limit:,g} s", role="limit"))
    for quarter in range(5):
        at = until - timedelta(hours=24 - 6 * quarter)
        x = _LEFT + quarter / 4 * _WIDE
        parts.append(f'<text x="{x:.1f}" y="{_LOW + 16}" text-anchor="middle">{at:%H:%M}</text>')
    for run in _runs(values):
        points = [(_LEFT + place / max(len(values) - 1, 1) * _WIDE, _level(value, top)) for place, value in run]
        parts.append(_drawn(points))
    width, height = _LEFT + _WIDE + 24, _LOW + 22
    return _framed(
        f'<svg class="day" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f"<title>{{title}}</title>{''.join(parts)}</svg>",
        title,
    )


def _rule(value: float, top: float, label: str, *, role: str = "axis") -> str:
    y = _level(value, top)
    return (
        f'<line class="{role}" x1="{_LEFT}" x2="{_LEFT + _WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    )


def _level(value: float, top: float) -> float:
    return _LOW - value / top * (_LOW - _HIGH)


def bars(values: Sequence[int | Decimal | None], title: str, *, marked: Sequence[bool] = ()) -> Picture:
    """One bar per date, the oldest first; None leaves its place empty, and a negative value hangs below the line.
    `marked`: of each whether it is to stand out."""
    known = [value for value in values if value is not None]
    if not known:
        return _framed('<span class="faint">{title}</span>', phrase("no numbers yet"))
    high, low = max(0, *known), min(0, *known)
    span = float(high - low) or 1.0
    step = WIDTH / len(values)
    zero = _EDGE + float(high) / span * (HEIGHT - 2 * _EDGE)
    parts = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{zero:.1f}" y2="{zero:.1f}"/>']
    for number, value in enumerate(values):
        if value is None:
            continue
        height = max(abs(float(value)) / span * (HEIGHT - 2 * _EDGE), 0.5)
        upper = zero - height if value >= 0 else zero
        role = "bar bad" if number < len(marked) and marked[number] else "bar"
        parts.append(
            f'<rect class="{role}" x="{number * step + step * 0.1:.1f}" y="{upper:.1f}"'
            f' width="{step * 0.8:.1f}" height="{height:.1f}"/>'
        )
    return _picture("bars", title, "".join(parts))


def _picture(kind: str, title: str, inside: str) -> Picture:
    return _framed(
        f'<svg class="{kind}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">'
        f"<title>{{title}}</title>{inside}</svg>",
        title,
    )


def _framed(frame: str, title: str) -> Picture:
    made = Picture(Markup(frame).format(title=title))
    made.title, made.frame = title, frame
    return made


def _runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Stretches without a gap, each value with its place."""
    run: list[tuple[int, float]] = []
    for place, value in enumerate(values):
        if value is not None:
            run.append((place, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _line(run: Sequence[tuple[int, float]], steps: int, top: float) -> str:
    return _drawn([(_across(place, steps), _down(value, top)) for place, value in run])


def _drawn(points: Sequence[tuple[float, float]]) -> str:
    if len(points) == 1:
        ((x, y),) = points
        return f'<circle class="line" cx="{x:.1f}" cy="{y:.1f}" r="1"/>'
    return f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _across(place: int, steps: int) -> float:
    return _EDGE + place / max(steps - 1, 1) * (WIDTH - 2 * _EDGE)


def _down(value: float, top: float) -> float:
    return HEIGHT - _EDGE - value / top * (HEIGHT - 2 * _EDGE)
