"""Animations of trajectories: pages with a player, GIFs and films, in which contact forces are arrows.

What each format needs: `.html` nothing, `.gif` matplotlib, `.mp4` matplotlib and ffmpeg.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..mechanism import Mechanism
from ..model.system import Problem, System
from ..scene import Path as Line
from ..scene import Scene
from ..simulation.simulate import Trajectory
from ..solve.status import Status
from . import page as animate_page
from . import picture as animate_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .viser_scene import Show

MAX_FRAMES = 600
PLAYBACK = 10.0  # s that an animation takes if no speed is given
ARROW = 0.22  # length of the longest arrow, as part of the view


def animate(
    problem: Problem | Mechanism | System,
    traj: Trajectory,
    *,
    draw: Callable[..., Scene] | None = None,
    fps: float = 30.0,
    speed: float | None = None,
    title: str = "",
) -> Animation:
    """An animation of a trajectory, as `draw(t, q, p) -> jaxns.Scene` shows it; p are the parameters of the system.

    Main arguments:

    - problem: with its own drawing, as all of `jaxns.models` and every `Mechanism`; or any system, with `draw`
    - traj: of one run. Where it failed, the animation ends

    Other arguments:

    - fps: frames in a second of playback; there are at most 600 frames, and no more than rows
    - speed: seconds of motion in a second of playback; by default such that the whole takes ten seconds

    Each frame shows the row nearest to its time. Its forces are means since the frame before: percussions of all rows
    between are summed and divided by the time, so no impact is missed, whatever `save_every` was.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Moreau(), ball.q0, ball.u0, dt=0.01, t1=0.6)
    >>> film = ns.animate(ball, traj, title="a ball falls")
    >>> len(film.t), film.html()[:15]
    (61, '<!DOCTYPE html>')
    """
    system, draw = _system_and_drawing(problem, draw)
    if not (math.isfinite(fps) and fps > 0.0) or not (speed is None or (math.isfinite(speed) and speed > 0.0)):
        raise ValueError(f"animate: fps and speed must be positive, got fps = {fps}, speed = {speed}.")
    end = _rows_to_show(traj)
    shapes = _checked_shapes(draw, system, traj)
    t = np.asarray(traj.t)[:end]
    duration = float(t[-1] - t[0])
    speed = duration / PLAYBACK if speed is None else speed
    count = max(2, min(MAX_FRAMES, end, round(duration / speed * fps) + 1))
    rows = np.abs(t[:, None] - np.linspace(t[0], t[-1], count)).argmin(axis=0)
    scene = _frames(draw, traj.t[rows], traj.q[rows], system.params)
    return assembled(scene, shapes, traj, rows, speed=speed, title=title)


def assembled(
    scenes: Scene, shapes: Scene, traj: Trajectory, rows: np.ndarray, *, speed: float, title: str
) -> Animation:
    """An animation of rows (F,) of a trajectory from their scenes, all arrays with an axis of frames, and one's shapes."""
    scene = jax.tree.map(np.asarray, scenes)
    paths = tuple(_by_frames(path, shape.points.shape) for path, shape in zip(scene.paths, shapes.paths, strict=True))
    if not all(np.isfinite(values).all() for values in (*(p.points for p in paths), scene.contact_points)):
        raise ValueError("animate: the drawing has points that are not finite.")
    end, t = int(rows[-1]) + 1, np.asarray(traj.t)
    n, f = scene.tangents.shape[1:3]
    P_N, P_F = np.asarray(traj.P_N)[:end, :n], np.asarray(traj.P_F)[:end, :n, :f]
    normal, friction = _mean_forces(P_N, t, rows), _mean_forces(P_F, t, rows)
    return Animation(
        t=t[rows],
        paths=paths,
        contact_points=scene.contact_points,
        normal_forces=normal[..., None] * scene.normals,
        friction_forces=np.sum(friction[..., None] * scene.tangents, axis=2),
        speed=speed,
        title=title,
    )


@dataclass(frozen=True, repr=False)
class Animation:
    """Frames of an animation, from `jaxns.animate`. In a notebook it shows itself; `save` writes it to a file.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Moreau(), ball.q0, ball.u0, dt=0.01, t1=0.6)
    >>> film = ns.animate(ball, traj, speed=0.1)  # six seconds of playback
    >>> film
    Animation(61 frames, t = 0 … 0.6 s)
    >>> film.contact_points.shape, round(film.fps, 6)
    ((61, 1, 2), 10.0)
    >>> film.save("ball.html")  # doctest: +SKIP
    """

    t: np.ndarray  # (F,)
    paths: tuple[Line, ...]  # points (F, m, k, d): m paths of one look
    contact_points: np.ndarray  # (F, n, d)
    normal_forces: np.ndarray  # (F, n, d), means since the frame before
    friction_forces: np.ndarray  # (F, n, d)
    speed: float  # seconds of motion in a second of playback
    title: str = ""

    def __repr__(self) -> str:
        title = f"{self.title!r}, " if self.title else ""
        return f"Animation({title}{len(self.t)} frames, t = {self.t[0]:g} … {self.t[-1]:g} s)"

    @property
    def fps(self) -> float:
        """Frames in a second of playback."""
        return (len(self.t) - 1) * self.speed / float(self.t[-1] - self.t[0])

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return int(self.contact_points.shape[-1])

    @cached_property
    def _extent(self) -> np.ndarray:
        """Lower and upper corner (2, d) of all paths and contacts, and of the nearest point of each ground."""
        moving = [p.points.reshape(-1, self.dimension) for p in self.paths if not p.ground]
        points = np.concatenate([*moving, self.contact_points.reshape(-1, self.dimension)])
        if len(points):
            center = 0.5 * (points.min(axis=0) + points.max(axis=0))
            nearest = [_nearest(p, center)[None] for p in self.paths if p.ground and p.points.size]
            points = np.concatenate([points, *nearest])
        else:
            points = np.concatenate([p.points.reshape(-1, self.dimension) for p in self.paths])
        return np.stack([points.min(axis=0), points.max(axis=0)])

    @cached_property
    def bounds(self) -> np.ndarray:
        """Lower and upper corner (2, d) of what is in view: all that moves, with arrows, and something of each ground."""
        tips = [(self.contact_points + arrows).reshape(-1, self.dimension) for arrows in self.arrows]
        points = np.concatenate([self._extent, *tips])
        low, high = points.min(axis=0), points.max(axis=0)
        margin = 0.06 * max(float(np.max(high - low)), 1e-12)
        return np.stack([low - margin, high + margin])

    @cached_property
    def arrows(self) -> tuple[np.ndarray, np.ndarray]:
        """Arrows (F, n, d) of normal and friction forces, in the units of the drawing.

        Lengths saturate, for each kind by itself: a force of the usual size has a third of the full length, and the
        largest impact has hardly more than that. So arrows of resting contacts stay in sight.
        """
        longest = ARROW * float(np.max(self._extent[1] - self._extent[0]))
        return _arrows(self.normal_forces, longest), _arrows(self.friction_forces, longest)

    def html(self) -> str:
        """A page with a player, complete in itself: it loads nothing."""
        return animate_page.page(self)

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 520px; border: 0" title="animation"></iframe>'

    def still(self, t: float | None = None, *, forces: bool = True) -> Figure:
        """The frame nearest to time t, by default the first one, as a matplotlib figure that belongs to the caller.

        >>> import jaxns as ns
        >>> ball = ns.models.bouncing_ball()
        >>> traj = ns.simulate(ball.system, ns.Moreau(), ball.q0, ball.u0, dt=0.01, t1=0.6)
        >>> len(ns.animate(ball, traj).still(0.3).axes)
        1
        """
        frame = 0 if t is None else int(np.abs(self.t - t).argmin())
        picture = animate_picture.Picture(self, width=720, forces=forces)
        picture.show(frame)
        return picture.figure

    def viser(self, *, host: str = "127.0.0.1", port: int = 8080) -> Show:
        """The same film, in space, as a scene of a viser server, with a slider for its frame (extra `viser`).

        `.server` is the server, to add what one likes; `.stop()` ends it. Surfaces must have convex facets.

        >>> import jaxns as ns
        >>> disk = ns.models.tippedisk()
        >>> traj = ns.simulate(disk.system, ns.Moreau(), disk.q0, disk.u0, dt=1e-3, num_steps=60)
        >>> show = ns.animate(disk, traj).viser()  # doctest: +SKIP
        """
        from .viser_scene import Show

        return Show(self, host, port)

    def save(self, path: str | Path, *, width: int = 640, forces: bool = True) -> None:
        """Write a `.html` page, a `.gif` or a `.mp4` film, `width` pixels wide and with or without arrows of forces."""
        check_format(path)
        suffix = Path(path).suffix.lower()
        if suffix == ".html":
            Path(path).write_text(self.html(), encoding="utf-8")
        elif suffix == ".gif":
            animate_picture.write_gif(self, Path(path), width, forces)
        else:
            animate_picture.write_mp4(self, Path(path), width, forces)


def check_format(path: str | Path) -> None:
    """Raise if an animation cannot be written to such a file: ValueError for its suffix, ImportError for what it needs."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".gif", ".mp4"):
        raise ValueError(f"an animation is saved as .html, .gif or .mp4, got {str(path)!r}.")
    if suffix != ".html":
        animate_picture.require_matplotlib()
    if suffix == ".mp4":
        animate_picture.ffmpeg()


def _system_and_drawing(problem: Any, draw: Any) -> tuple[System, Callable[..., Scene]]:
    system = problem if isinstance(problem, System) else getattr(problem, "system", None)
    if not isinstance(system, System):
        raise TypeError(
            f"animate: the first argument must be a Problem, a Mechanism or a System, got {type(problem).__name__}."
        )
    draw = draw or getattr(problem, "draw", None)
    if draw is None:
        raise ValueError("animate: there is no drawing; give draw=, a function (t, q, p) -> jaxns.Scene.")
    return system, draw


def _rows_to_show(traj: Trajectory) -> int:
    """How many rows there are before a failure."""
    if traj.t.ndim != 1 or traj.q.ndim != 2:
        raise ValueError(
            f"animate: the trajectory is a batch, with t of shape {traj.t.shape}; choose one of its runs: "
            "jax.tree.map(lambda x: x[k], traj)."
        )
    failed = np.flatnonzero(np.asarray(traj.status) != Status.OK)
    end = int(failed[0]) + 1 if len(failed) else len(traj.t)
    if end < 2:
        why = "the first step failed" if len(failed) else f"it has {end}"
        raise ValueError(f"animate: the trajectory must have at least two rows; {why}.")
    return end


def _checked_shapes(draw: Callable[..., Scene], system: System, traj: Trajectory) -> Scene:
    """The scene of one row, as shapes; raises where it does not fit the trajectory."""
    scene = jax.eval_shape(draw, traj.t[0], traj.q[0], system.params)
    if not isinstance(scene, Scene):
        raise TypeError(f"animate: draw must return a jaxns.Scene, got {type(scene).__name__}.")
    d = scene.paths[0].points.shape[-1:]
    if d not in ((2,), (3,)):
        raise ValueError(f"animate: points must have shape (…, k, 2) or (…, k, 3), got {scene.paths[0].points.shape}.")
    for i, path in enumerate(scene.paths):
        if path.points.ndim < 2 or path.points.shape[-1:] != d:
            raise ValueError(
                f"animate: the points of path {i} must have shape (…, k, {d[0]}), got {path.points.shape}."
            )
    (n,), f = traj.P_N.shape[1:], traj.P_F.shape[2]
    shown = scene.contact_points.shape[0]
    if shown > n:  # those that have no place, limits of joints, come last
        raise ValueError(f"animate: contact_points must have shape ({n}, {d[0]}), got {scene.contact_points.shape}.")
    for name in ("contact_points", "normals"):
        if getattr(scene, name).shape != (shown, *d):
            raise ValueError(f"animate: {name} must have shape ({shown}, {d[0]}), got {getattr(scene, name).shape}.")
    if scene.tangents.shape not in [(shown, k, *d) for k in range(f + 1)]:
        raise ValueError(f"animate: tangents must have shape ({shown}, ≤ {f}, {d[0]}), got {scene.tangents.shape}.")
    return scene


@partial(jax.jit, static_argnums=0)
def _frames(draw: Callable[..., Scene], t: Any, q: Any, params: Any) -> Scene:
    return jax.vmap(draw, (0, 0, None))(t, q, params)


def _by_frames(path: Line, shape: tuple[int, ...]) -> Line:
    """The same with points (F, m, k, d)."""
    points = np.asarray(path.points)
    points = points.reshape(points.shape[0], math.prod(shape[:-2]), *shape[-2:])
    return Line(points, path.closed, path.filled, path.color, path.width, path.ground)  # type: ignore[arg-type]


def _mean_forces(P: np.ndarray, t: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Percussions (N, …) as mean forces (F, …) between the frames, with zeros in the first one."""
    summed = np.zeros((len(rows), *P.shape[1:]))
    np.add.at(summed, np.searchsorted(rows, np.arange(len(P))), P)  # each row goes to the first frame not before it
    intervals = np.diff(t[rows], prepend=t[rows[0]]).reshape(-1, *(1,) * (P.ndim - 1))
    return np.divide(summed, intervals, out=np.zeros_like(summed), where=intervals > 0.0)


def _arrows(forces: np.ndarray, longest: float) -> np.ndarray:
    sizes = np.sqrt(np.sum(forces**2, axis=-1, keepdims=True))
    acting = sizes[sizes > 1e-6 * np.max(sizes, initial=0.0)]
    usual = float(np.median(acting)) if len(acting) else 1.0
    return longest * forces / (sizes + 2.0 * usual)


def _nearest(path: Line, point: np.ndarray) -> np.ndarray:
    """The point (d,) of the lines of a path, in its first frame, that is nearest to a given one."""
    points = np.asarray(path.points[0])
    ends = np.roll(points, -1, axis=1) if path.closed else points[:, 1:]
    starts = points if path.closed else points[:, :-1]
    along = ends - starts
    length = np.maximum(np.sum(along**2, axis=-1, keepdims=True), 1e-300)
    places = starts + np.clip(np.sum((point - starts) * along, axis=-1, keepdims=True) / length, 0.0, 1.0) * along
    places = places.reshape(-1, len(point))
    return places[np.argmin(np.sum((places - point) ** 2, axis=-1))]
