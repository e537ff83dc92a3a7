"""A film in space as a scene of viser, a server of 3-D views in a browser, for those who show other things beside it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..scene import COLORS
from ..scene import Path as Line

if TYPE_CHECKING:
    from .animate import Animation


class Show:
    """The server, its handles of surfaces and lines, and the frame that it shows.

    - server: the `viser.ViserServer`, to add things of one's own
    - frame: its slider
    """

    def __init__(self, animation: Animation, host: str, port: int):
        try:
            import viser
        except ImportError as error:
            raise ImportError("viser is not installed: pip install 'jaxns-mechanics[viser]'") from error
        if animation.dimension != 3:
            raise ValueError("viser shows films in space; this one is plane.")
        self.animation = animation
        self.server = viser.ViserServer(host=host, port=port, verbose=False)
        self._parts = [self._added(f"/jaxns/{k}", path) for k, path in enumerate(animation.paths)]
        self.frame = self.server.gui.add_slider("frame", min=0, max=len(animation.t) - 1, step=1, initial_value=0)
        self._playing = self.server.gui.add_checkbox("play", initial_value=False)
        self._stopped = threading.Event()
        self.frame.on_update(lambda _: self.show(int(self.frame.value)))
        threading.Thread(target=self._play, daemon=True).start()

    def show(self, frame: int) -> None:
        """Move everything to this frame."""
        with self.server.atomic():
            for path, handle in zip(self.animation.paths, self._parts, strict=True):
                if handle is not None:
                    name, values = _geometry(path, frame)
                    setattr(handle, name, values)

    def stop(self) -> None:
        """End the server."""
        self._stopped.set()
        self.server.stop()

    def _added(self, name: str, path: Line) -> Any:
        """The handle of what shows a path; None for drawn shadows, since viser throws its own."""
        if path.color == "shadow" or not np.size(path.points):
            return None
        color = _rgb(path.color)
        _, values = _geometry(path, 0)
        if path.filled:
            faces = _faces(*np.shape(path.points)[1:3])
            return self.server.scene.add_mesh_simple(name, values, faces, color=color, flat_shading=True, side="double")
        return self.server.scene.add_line_segments(name, values, color, thickness=path.width, thickness_units="screen")

    def _play(self) -> None:
        while not self._stopped.is_set():
            time.sleep(1.0 / self.animation.fps)
            if self._playing.value:
                self.frame.value = (int(self.frame.value) + 1) % len(self.animation.t)


def _geometry(path: Line, frame: int) -> tuple[str, np.ndarray]:
    """What viser calls the points of a path, and their values: corners of triangles (n, 3), or ends of lines (n, 2, 3)."""
    points = np.asarray(path.points[frame], np.float32)
    if path.filled:
        return "vertices", points.reshape(-1, 3)
    following = np.roll(points, -1, axis=1)
    ends = np.stack([points, following], axis=2)
    return "points", (ends if path.closed else ends[:, :-1]).reshape(-1, 2, 3)


def _faces(count: int, corners: int) -> np.ndarray:
    """Triangles of convex polygons with so many corners, one after the other."""
    fan = np.array([[0, i, i + 1] for i in range(1, corners - 1)])
    return (fan + corners * np.arange(count)[:, None, None]).reshape(-1, 3)


def _rgb(color: str) -> tuple[int, int, int]:
    text = COLORS[color][0] if color in COLORS else color
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)
