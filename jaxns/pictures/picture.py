"""Frames of an animation as pictures, by matplotlib; GIFs and films are made of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..scene import COLORS
from ..scene import Path as Line
from .page import CAMERA, FORCE_COLORS

if TYPE_CHECKING:
    from .animate import Animation

DPI = 100
LIGHT = np.array([0.35, -0.5, 0.79])  # from where facets in space are lit


class Picture:
    """A figure that shows one frame after the other, as the player does on a light page."""

    def __init__(self, animation: Animation, width: int, forces: bool):
        require_matplotlib()
        from matplotlib.collections import PathCollection
        from matplotlib.figure import Figure

        self.animation, self.forces = animation, forces and animation.contact_points.shape[1] > 0
        low, high = self._limits()
        ratio = float(np.clip((high[1] - low[1]) / (high[0] - low[0]), 0.4, 1.1))
        pixels = np.array([2 * (width // 2), 2 * round(0.5 * width * ratio)])  # even, as films must be
        # all of the picture is used: what is narrow has free room on both sides
        half, middle = 0.5 * pixels * np.max((high - low) / pixels), 0.5 * (low + high)
        self.figure = Figure(figsize=tuple(pixels / DPI), dpi=DPI, facecolor=COLORS["paper"][0])
        self.axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set_axis_off()
        (left, bottom), (right, top) = middle - half, middle + half
        self.axes.set(xlim=(left, right), ylim=(bottom, top))
        self.shapes = PathCollection([], capstyle="round", joinstyle="round")
        self.axes.add_collection(self.shapes)
        options: dict[str, Any] = dict(transform=self.axes.transAxes, va="top", fontsize=10, color=COLORS["ink"][0])
        self.axes.text(0.02, 0.98, animation.title, weight="bold", **options)
        self.clock = self.axes.text(0.98, 0.98, "", ha="right", family="monospace", **options)
        self.arrows = [self._arrows(name, k) for k, name in enumerate(FORCE_COLORS)] if self.forces else []

    def show(self, frame: int) -> None:
        """Change the figure to this frame."""
        from matplotlib.path import Path as Outline

        outlines, faces, edges, widths = [], [], [], []
        for path, points in self._in_order(frame):
            flat, _ = self._project(points)
            outlines.append(Outline(np.concatenate([flat, flat[:1]]) if path.closed else flat))
            face, edge = self._colors(path, points)
            faces.append(face)
            edges.append(edge)
            widths.append(0.72 * path.width)  # points, from pixels of the player
        self.shapes.set_paths(outlines)
        self.shapes.set(facecolors=faces, edgecolors=edges, linewidths=widths)
        self.clock.set_text(f"t = {self.animation.t[frame]:.4f} s")
        places, _ = self._project(self.animation.contact_points[frame])
        for arrows, vectors in zip(self.arrows, self.animation.arrows, strict=False):
            tips, _ = self._project(self.animation.contact_points[frame] + vectors[frame])
            arrows.set_offsets(places)
            arrows.set_UVC(*(tips - places).T)

    def _arrows(self, name: str, k: int) -> Any:
        """Arrows of one kind of force, and their line in the legend."""
        vectors = self.animation.arrows[k]
        color, zeros = FORCE_COLORS[name][0], np.zeros(vectors.shape[1])
        if np.any(vectors):
            place = (10, 8 + 16 * k)
            self.axes.annotate(f"{name} force", place, xycoords="figure pixels", fontsize=9, color=color)
        return self.axes.quiver(
            zeros, zeros, zeros, zeros, angles="xy", scale_units="xy", scale=1.0, color=color, width=0.006, zorder=3,
            minlength=0.0,
        )  # fmt: skip

    def _limits(self) -> np.ndarray:
        """Corners (2, 2) of the picture."""
        low, high = self.animation.bounds
        if self.animation.dimension == 2:
            return np.stack([low, high])
        corners = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(3, -1).T
        flat, _ = self._project(corners)
        return np.stack([flat.min(axis=0), flat.max(axis=0)])

    def _project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points (…, d) in the plane of the picture (…, 2), and how near they are to the eye."""
        if self.animation.dimension == 2:
            return points, np.zeros(points.shape[:-1])
        (ca, ce), (sa, se) = np.cos(np.radians(CAMERA)), np.sin(np.radians(CAMERA))
        axes = np.array([[-sa, ca, 0.0], [-se * ca, -se * sa, ce], [ce * ca, ce * sa, se]])
        seen = points @ axes.T
        return seen[..., :2], seen[..., 2]

    def _in_order(self, frame: int) -> list[tuple[Line, np.ndarray]]:
        """Single paths (k, d) in the order of painting: as given; in space the floor, shadows, then from far to near.

        The farthest corner counts, so that what lies on a facet comes after it.
        """
        single = [(path, points) for path in self.animation.paths for points in np.asarray(path.points)[frame]]
        if self.animation.dimension == 2:
            return single

        def key(item: tuple[Line, np.ndarray]) -> tuple[int, float]:
            layer = 0 if item[0].ground else 1 if item[0].color == "shadow" else 2
            return layer, float(np.min(self._project(item[1])[1])) if layer == 2 else 0.0

        return sorted(single, key=key)

    def _colors(self, path: Line, points: np.ndarray) -> tuple[Any, Any]:
        """Of the inside and of the line."""
        color = _rgb(COLORS[path.color][0] if path.color in COLORS else path.color)
        edge = _rgb(COLORS["ink"][0]) if path.color == "paper" else color
        if not path.filled:
            return "none", edge
        if self.animation.dimension == 3 and path.color != "shadow":
            x, y = points, np.roll(points, -1, axis=0)
            normal = np.cross(x, y).sum(axis=0)
            light = abs(normal @ LIGHT) / max(float(np.linalg.norm(normal)), 1e-300)
            color = color * (0.7 + 0.3 * light)
            return color, color if path.width else "none"
        tint = {"paper": 1.0, "shadow": 1.0, "ground": 0.4}.get(path.color, 0.6)
        return color * tint + 1.0 - tint, edge if path.width else "none"


def _rgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("pictures and films need matplotlib: pip install 'jaxns-mechanics[animation]'") from error


def ffmpeg() -> str:
    """The program that writes films: from the PATH, or the one that comes with imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found:
        return found
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise ImportError(
            "films need ffmpeg; install it, or pip install 'jaxns-mechanics[animation]', or save as .gif or .html."
        ) from error
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def write_gif(animation: Animation, path: Path, width: int, forces: bool) -> None:
    """All frames share one palette without dithering, so that what stands still costs nothing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    picture = Picture(animation, width, forces)
    canvas = FigureCanvasAgg(picture.figure)
    images = []
    for frame in range(len(animation.t)):
        picture.show(frame)
        canvas.draw()
        images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]))
    sample = images[:: max(1, len(images) // 8)]
    sheet = Image.new("RGB", (sample[0].width, sample[0].height * len(sample)))
    for k, image in enumerate(sample):
        sheet.paste(image, (0, k * image.height))
    colors, counts = np.unique(np.asarray(sheet).reshape(-1, 3), axis=0, return_counts=True)
    palette = Image.new("P", (1, 1))
    palette.putpalette(_distinct(colors[np.argsort(-counts, kind="stable")]).ravel().tolist())
    first, *others = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    # GIFs count in hundredths of a second; the frames' times are rounded, so that their sum stays right.
    ends = np.round(np.arange(len(images) + 1) * 100.0 / animation.fps).astype(int)
    durations = np.maximum(10 * np.diff(ends), 20).tolist()
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, optimize=False)


def _distinct(colors: np.ndarray, limit: int = 96, distance: float = 20.0) -> np.ndarray:
    """The first of the colors (n, 3) that differ from each other, those of the forces always among them."""
    chosen = np.array([255.0 * _rgb(light) for light, _ in FORCE_COLORS.values()])
    for color in colors:
        if len(chosen) < limit and np.all(np.linalg.norm(chosen - color, axis=1) > distance):
            chosen = np.concatenate([chosen, [color]])
    return np.round(chosen).astype(int)


def write_mp4(animation: Animation, path: Path, width: int, forces: bool) -> None:
    import matplotlib
    from matplotlib.animation import FFMpegWriter

    picture = Picture(animation, width, forces)
    with matplotlib.rc_context({"animation.ffmpeg_path": ffmpeg()}):
        writer = FFMpegWriter(fps=animation.fps)  # type: ignore[arg-type]
        with writer.saving(picture.figure, str(path), DPI):
            for frame in range(len(animation.t)):
                picture.show(frame)
                writer.grab_frame()
