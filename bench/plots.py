"""Pictures of a run as SVG, drawn by hand: bars with what they must reach, and curves that should be flat."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from .report import Line, Report

WIDTH, LEFT, RIGHT, ROW = 760, 370, 70, 24
INK, SOFT, GREY, GOOD, BAD = "#24292f", "#d0d7de", "#57606a", "#2f81f7", "#cf222e"
COLOURS = ("#2f81f7", "#8250df", "#1a7f37", "#bf8700", "#cf222e", "#57606a")
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{title}">\n'
    '<rect width="100%" height="100%" fill="#ffffff"/>\n'
    '<text x="12" y="22" font-size="15" font-weight="600" fill="{ink}">{title}</text>\n'
)


def bench(report: Report, folder: str) -> Path:
    """The ratios of a run, each with its bar."""
    ratios = [line for line in report.lines if line.ratio]
    title = "Ratios of one run to plain psycopg; the line is the bar"
    return _write(Path(folder) / "bench.svg", title, ROW * len(ratios) + 90, _bars(ratios), report.about)


def _bars(lines: Sequence[Line]) -> Iterable[str]:
    scale = (WIDTH - LEFT - RIGHT) / max([2.0, *(line.high for line in lines)])
    for n, line in enumerate(lines):
        y, bound = 40 + n * ROW, float(line.bar.split()[1])
        yield _text(LEFT - 8, y + 13, line.name, anchor="end")
        size, fill = f'width="{line.median * scale:.1f}" height="14"', GOOD if line.held else BAD
        yield f'<rect x="{LEFT}" y="{y + 3}" {size} fill="{fill}"/>'
        yield _line(LEFT + line.low * scale, y + 10, LEFT + line.high * scale, y + 10, INK)
        yield _line(LEFT + bound * scale, y, LEFT + bound * scale, y + 20, INK, width=2)
        yield _text(LEFT + max(line.high, bound) * scale + 6, y + 14, f"{line.median:.2f} ({line.bar})")


Curve = Sequence[tuple[float, float]]


def curves(path: Path, title: str, about: dict[str, str], series: dict[str, Curve], *, x: str, y: str) -> Path:
    """One or more curves over a logarithmic x, from zero up."""
    points = [point for curve in series.values() for point in curve]
    low, high = (f(math.log10(max(point[0], 1e-9)) for point in points) for f in (min, max))
    top = max(point[1] for point in points) * 1.1 or 1.0
    return _write(path, title, 345, _curves(series, (low, high if high > low else low + 1), top, x, y), about)


def _curves(series: dict[str, Curve], span: tuple[float, float], top: float, x: str, y: str) -> Iterable[str]:
    left, right, head, foot = 70, WIDTH - 30, 56, 250

    def place(point: tuple[float, float]) -> tuple[float, float]:
        part = (math.log10(max(point[0], 1e-9)) - span[0]) / (span[1] - span[0])
        return left + part * (right - left), foot - point[1] / top * (foot - head)

    for n in range(5):
        level = head + n * (foot - head) / 4
        yield _line(left, level, right, level, SOFT)
        yield _text(left - 8, level + 4, _short(top * (4 - n) / 4), anchor="end")
    for at in sorted({point[0] for curve in series.values() for point in curve}):
        yield _text(place((at, 0))[0], foot + 16, _short(at), anchor="middle")
    yield _text((left + right) / 2, foot + 34, x, anchor="middle")
    yield _text(left, head - 6, y)
    for n, (name, curve) in enumerate(series.items()):
        colour, places = COLOURS[n % len(COLOURS)], [place(point) for point in curve]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in places)
        yield _text(left + 8 + n * 170, foot - 8, name, fill=colour)


def _write(path: Path, title: str, height: int, parts: Iterable[str], about: dict[str, str]) -> Path:
    versions = f"Tenure {about['tenure']}, PostgreSQL {about['postgres']}, Python {about['python']}, {about['machine']}"
    told = f"{versions}, load {about['load']} before, {about['at'][:10]}"
    feet = [_text(12, height - 26, about["command"], fill=GREY), _text(12, height - 10, told, fill=GREY)]
    body = "\n".join([*parts, *feet])
    head = _HEAD.format(width=WIDTH, height=height, title=escape(title), ink=INK)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}{body}\n</svg>\n")
    return path


def _text(x: float, y: float, text: str, *, anchor: str = "start", fill: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _short(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
