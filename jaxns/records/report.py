"""The page of a fit: parameters, correlation, residuals, and the best, median and worst records. No network, no library."""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from .data import measured_part

if TYPE_CHECKING:
    from .fit import Part, RecordsFit

WIDTH, HEIGHT, MARGIN = 320, 150, 34
MAX_COLUMNS = 6  # of a record that are drawn
MAX_FRAMES = 60


def page(fit: RecordsFit, title: str, draw: Any = None) -> str:
    """The page as a string."""
    text = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    parts = {
        "TITLE": escape(title),
        "SUMMARY": _summary(fit),
        "DOUBTS": "".join(f"<li>{escape(text)}.</li>" for text in fit.doubts) or "<li>none</li>",
        "PARAMETERS": _parameters(fit),
        "CORRELATION": _correlation(fit),
        "HISTORY": _plot([("loss", np.arange(len(fit.history)), fit.history, "line")], "iteration", log=True),
        "COLUMNS": _columns(fit),
        "RESIDUALS": _rms_plot(fit),
        "RECORDS": _records(fit, draw),
        "FAILURES": ", ".join(f"record {k}" for k in fit.failed) or "none",
    }
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part)
    return text


def _summary(fit: RecordsFit) -> str:
    left_out = "" if fit.test is None else f", {len(fit.test.index)} left out"
    state = "converged" if fit.converged else "<b>not converged</b>"
    kind = "sandwich (records independent)" if fit.covariance is fit.covariance_sandwich else "plain (rows independent)"
    scale = "" if fit.loss_name == "l2" else f", scale {fit.scale:.3g}"
    samples = int(fit.samples.exists.sum())
    return (
        f"{len(fit.train.index)} records fitted{left_out}, {samples} samples; {escape(fit.loss_name)} loss "
        f"{fit.loss:.4g}{scale}; {len(fit.history)} iterations, {state}. Intervals: {kind}."
    )


def _parameters(fit: RecordsFit) -> str:
    plain, stated = (np.sqrt(np.diag(C)) for C in (fit.covariance_plain, fit.covariance))
    lines = []
    for k, (name, (low, high)) in enumerate(fit.intervals().items()):
        bounds = f"{fit.bounds[0][k]:g} … {fit.bounds[1][k]:g}"
        moved = int(np.argmax(np.abs(fit.deviations[:, k]))) if len(fit.deviations) else 0
        strongest = f"record {fit.train.index[moved]} ({fit.deviations[moved, k]:+.2f} σ)"
        cells = [
            name, f"{fit.values[k]:.6g}", f"{stated[k]:.2g}", f"{low:.6g} … {high:.6g}", f"{plain[k]:.2g}", bounds,
            strongest,
        ]  # fmt: skip
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return "\n".join(lines)


def _correlation(fit: RecordsFit) -> str:
    head = "<tr><th></th>" + "".join(f"<th>{escape(n)}</th>" for n in fit.names) + "</tr>"
    lines = [head]
    for name, row in zip(fit.names, fit.correlation, strict=True):
        cells = "".join(
            f'<td style="background:rgba({"47,111,222" if c > 0 else "222,75,47"},{abs(c):.2f})">{c:.2f}</td>'
            for c in row
        )
        lines.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return "\n".join(lines)


def _columns(fit: RecordsFit) -> str:
    return "\n".join(
        f"<tr><td>{escape(c.name)}</td><td>{c.rms:.3g}</td><td>{c.typical:.3g}</td><td>{c.noise:.3g}</td>"
        f"<td>{c.correlation:.2f}</td></tr>"
        for c in fit.columns
    )


def _rms_plot(fit: RecordsFit) -> str:
    """Sorted errors of the records of both parts."""
    curves = []
    for name, part in (("fitted", fit.train), ("left out", fit.test)):
        if part is not None and np.any(np.isfinite(part.rms)):
            sizes = np.sort(part.rms[np.isfinite(part.rms)])
            curves.append((name, np.linspace(0.0, 1.0, len(sizes)), sizes, "line"))
    return _plot(curves, "share of the records", log=True)


def _records(fit: RecordsFit, draw: Any) -> str:
    parts = []
    part = fit.train if fit.test is None else fit.test
    order = np.argsort(np.where(np.isfinite(part.rms), part.rms, np.inf))[: int(np.isfinite(part.rms).sum())]
    if not len(order):
        return ""
    chosen = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
    for label, place in chosen.items():
        number = int(part.index[place])
        kind = "" if fit.test is None else ", left out of the fit"
        parts.append(f"<h3>{label}: record {number}{kind}, rms {part.rms[place]:.3g}</h3>")
        parts.append('<div class="row">' + "".join(_record_plots(fit, part, int(place))) + "</div>")
        if draw is not None:
            parts.append(_film(fit, part, int(place), draw))
    return "\n".join(parts)


def _record_plots(fit: RecordsFit, part: Part, place: int) -> list[str]:
    """Measured and predicted columns of one record."""
    plots = []
    prediction = jax.tree.map(lambda x: np.asarray(x)[place], part.prediction)
    record = jax.tree.map(lambda x: np.asarray(x)[part.index[place]], fit.records)
    measured = measured_part(prediction, record)
    for (path, y), d in zip(jax.tree.leaves_with_path(prediction), jax.tree.leaves(measured), strict=True):
        name = jax.tree_util.keystr(path).replace("['", ".").replace("']", "").lstrip(".") or "data"
        y2, d2 = (a.reshape(len(a), -1) if a.ndim else a.reshape(1, 1) for a in (y, d))
        for c in range(y2.shape[1]):
            row = np.arange(len(y2))
            label = f"{name}[{c}]" if y2.shape[1] > 1 else name
            curves = [("measured", row, d2[:, c], "dots"), ("predicted", row, y2[:, c], "line")]
            plots.append(f"<figure>{_plot(curves, 'row')}<figcaption>{escape(label)}</figcaption></figure>")
    return plots[:MAX_COLUMNS]


def _film(fit: RecordsFit, part: Part, place: int, draw: Any) -> str:
    """Frames of measured (grey) and predicted (blue) scenes, one above the other, as an SVG that a script plays."""
    prediction = jax.tree.map(lambda x: np.asarray(x)[place], part.prediction)
    record = measured_part(prediction, jax.tree.map(lambda x: np.asarray(x)[part.index[place]], fit.records))
    rows = len(jax.tree.leaves(prediction)[0])
    shown = np.unique(np.linspace(0, rows - 1, min(rows, MAX_FRAMES)).astype(int))
    own = jax.tree.map(lambda x: np.asarray(x)[place], part.own)
    frames = []
    for row in shown:
        both = []
        for states in (record, prediction):
            state = jax.tree.map(lambda x, row=row: np.asarray(x)[row], states)
            scene = draw(fit.shared, own, state)
            both.append([
                np.asarray(path.points, float).reshape(-1, *np.shape(path.points)[-2:]) for path in scene.paths
            ])
        frames.append(both)
    points = np.concatenate([p.reshape(-1, p.shape[-1])[:, [0, -1]] for b in frames for s in b for p in s])
    points = points[np.all(np.isfinite(points), axis=1)]
    low, high = np.percentile(points, 1, axis=0), np.percentile(points, 99, axis=0)
    size = float(np.max(high - low)) or 1.0
    groups = []
    for k, both in enumerate(frames):
        drawn = "".join(
            f'<polyline class="{kind}" points="{_polyline(path, low, high, size)}"/>'
            for kind, scene in zip(("measured", "predicted"), both, strict=True)
            for shapes in scene
            for path in shapes
        )
        groups.append(f'<g class="frame" style="display:{"inline" if k == 0 else "none"}">{drawn}</g>')
    return f'<svg class="film" viewBox="-10 -10 340 340" width="340">{"".join(groups)}</svg>'


def _polyline(path: NDArray[Any], low: NDArray[Any], high: NDArray[Any], size: float) -> str:
    flat = path[:, [0, -1]]
    x, y = 320.0 * (flat[:, 0] - low[0]) / size, 320.0 * (high[1] - flat[:, 1]) / size
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(np.clip(x, -999, 999), np.clip(y, -999, 999), strict=True))


def _plot(curves: list[tuple[str, Any, Any, str]], label: str, log: bool = False) -> str:
    """Curves (name, x, y, "line" or "dots") as a small SVG with the ranges at its axes."""
    clean = []
    for name, x, y, kind in curves:
        x, y = np.asarray(x, float), np.asarray(y, float)
        good = np.isfinite(x) & np.isfinite(y) & ((y > 0.0) if log else True)
        if good.any():
            clean.append((name, x[good], np.log10(y[good]) if log else y[good], kind))
    if not clean:
        return "<svg></svg>"
    xs, ys = (np.concatenate([curve[k] for curve in clean]) for k in (1, 2))
    span_x, span_y = float(np.ptp(xs)) or 1.0, float(np.ptp(ys)) or 1.0
    shapes = []
    for number, (name, x, y, kind) in enumerate(clean):
        px = MARGIN + (WIDTH - MARGIN - 4) * (x - xs.min()) / span_x
        py = HEIGHT - 20 - (HEIGHT - 26) * (y - ys.min()) / span_y
        css = f"curve{number}"
        if kind == "dots":
            shapes += [
                f'<circle class="{css}" cx="{a:.1f}" cy="{b:.1f}" r="1.8"/>' for a, b in zip(px, py, strict=True)
            ]
        else:
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
            shapes.append(f'<polyline class="{css}" points="{points}"><title>{escape(name)}</title></polyline>')
    low, high = (10.0**v if log else v for v in (ys.min(), ys.max()))
    axes = (
        f'<text x="0" y="12">{high:.3g}</text><text x="0" y="{HEIGHT - 22}">{low:.3g}</text>'
        f'<text x="{MARGIN}" y="{HEIGHT - 5}">{xs.min():.3g}</text>'
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 5}">{escape(label)}</text>'
        f'<text x="{WIDTH - 30}" y="{HEIGHT - 5}">{xs.max():.3g}</text>'
    )
    names = " · ".join(name for name, *_ in clean)
    whole = f"<title>{escape(names)}</title>{axes}{''.join(shapes)}"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">{whole}</svg>'
