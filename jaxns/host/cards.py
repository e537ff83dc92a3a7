"""Small summaries for notebooks: a heading with a state, a few lines, and a curve; plain HTML and SVG, for light and dark
pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

WIDTH, HEIGHT = 420, 72  # of a sparkline, in pixels
MOST_POINTS = 400  # of a curve
COLORS = ("#3f74b8", "#d9822b", "#4a9560", "#c4453f", "#7d5fb5", "#8b95a5")


def card(title: str, *, ok: bool, state: str, lines: Iterable[str] = (), curves: str = "") -> str:
    """A heading, whether all is well, lines of text, and a picture.

    >>> "did not" in card("Fit", ok=False, state="did not converge")
    True
    """
    color = "#2f8f4e" if ok else "#c4453f"
    badge = f'<span style="color: {color}">{"●" if ok else "▲"} {escape(state)}</span>'
    text = "".join(f'<div style="white-space: pre-wrap">{escape(line)}</div>' for line in lines)
    return (
        '<div style="font: 13px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums">'
        f"<div><b>{escape(title)}</b> {badge}</div>{text}{curves}</div>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text, the first column to the left.

    >>> table(["a"], [["<1>"]]).count("&lt;1&gt;")
    1
    """

    def line(cells: Sequence[str], tag: str) -> str:
        style = 'style="text-align: {}; padding: 0 12px 0 0"'
        return "".join(
            f"<{tag} {style.format('left' if k == 0 else 'right')}>{escape(c)}</{tag}>" for k, c in enumerate(cells)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def sparkline(x: Any, curves: Sequence[tuple[str, Any]], marks: Any = (), log: bool = False) -> str:
    """Curves (name, y) over x, each in its own range, as a small SVG; marks are vertical lines at values of x.

    >>> sparkline([0.0, 1.0], [("q", [1.0, 2.0])]).count("<polyline")
    1
    """
    x = np.asarray(x, float)
    if not np.ptp(x[np.isfinite(x)]) > 0.0:
        return ""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(int))
    lines = []
    for k, (name, values) in enumerate(curves):
        y = np.asarray(values, float)[keep]
        y = np.log10(np.where(y > 0.0, y, np.nan)) if log else y
        good = np.isfinite(y)
        if good.any():
            height = 4.0 + (HEIGHT - 8.0) * (1.0 - (y[good] - y[good].min()) / (float(np.ptp(y[good])) or 1.0))
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(_across(x[keep][good], x), height, strict=True))
            color = COLORS[k % len(COLORS)]
            style = f'fill="none" stroke="{color}" stroke-width="1.4"'
            lines.append(f'<polyline {style} points="{points}"><title>{escape(name)}</title></polyline>')
    ticks = "".join(
        f'<line x1="{a:.1f}" x2="{a:.1f}" y1="0" y2="{HEIGHT}" stroke="#8b95a5" stroke-width="0.5"/>'
        for a in np.unique(np.round(_across(np.asarray(marks, float), x), 1))
    )
    names = " ".join(
        f'<span style="color: {COLORS[k % len(COLORS)]}">{escape(name)}</span>' for k, (name, _) in enumerate(curves)
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg {size} role="img" aria-label="curves">{ticks}{"".join(lines)}</svg><div>{names}</div>'


def _across(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """From values of x to pixels."""
    low, high = float(np.nanmin(x)), float(np.nanmax(x))
    return WIDTH * (values - low) / (high - low)
