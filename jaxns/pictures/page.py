"""An animation as a page that is complete in itself: `player.html` with its script and the frames put in."""

from __future__ import annotations

import base64
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from ..scene import COLORS

if TYPE_CHECKING:
    from .animate import Animation

FORCE_COLORS = {"normal": ("#d6336c", "#ff7ba5"), "friction": ("#0c8f83", "#35cfc0")}
CAMERA = (-55.0, 22.0)  # azimuth and elevation from which drawings in space are seen first, in degrees


def page(animation: Animation) -> str:
    """The page as a string."""
    store = Store()
    return _filled(packed(animation, store), store.bytes())


def player() -> str:
    """The page without a film: its script has a function `load(description, numbers)`, which shows one."""
    return _filled(None, b"")


def _filled(description: dict[str, Any] | None, numbers: bytes) -> str:
    # "<" can only occur in the texts of the JSON; written so, none of them can end the script that holds it.
    text = "" if description is None else json.dumps(description, ensure_ascii=False).replace("<", "\\u003c")
    parts = {
        "__SCRIPT__": "".join(map(_own_file, ("solids.js", "webgl.js", "painter.js", "player.js"))),
        "__DATA__": text,
        "__NUMBERS__": base64.b64encode(numbers).decode(),
    }
    return re.sub("|".join(parts), lambda found: parts[found[0]], _own_file("player.html"))


def _own_file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def packed(animation: Animation, store: Store) -> dict[str, Any]:
    """What the player's `load` takes: a description, whose numbers point into the store."""
    normal, friction = animation.arrows
    contacts = {"points": animation.contact_points, "normal": normal, "friction": friction}
    sizes = {
        "normal_size": np.linalg.norm(animation.normal_forces, axis=-1),
        "friction_size": np.linalg.norm(animation.friction_forces, axis=-1),
    }
    size = float(np.max(animation.bounds[1] - animation.bounds[0]))
    return {
        "title": animation.title,
        "dimension": animation.dimension,
        "frames": len(animation.t),
        "speed": animation.speed,
        "bounds": animation.bounds.tolist(),
        "camera": CAMERA,
        "colors": COLORS,
        "force_colors": FORCE_COLORS,
        "t": store.put(animation.t),
        "contact_count": animation.contact_points.shape[1],
        "friction_shown": bool(np.any(friction)),
        **{name: store.put(values) for name, values in (contacts | sizes).items()},
        "paths": [
            {
                "closed": path.closed,
                "filled": path.filled,
                "color": path.color,
                "width": path.width,
                "ground": path.ground,
                "pieces": [piece(store) for piece in _pieces(np.asarray(path.points), 1e-5 * size)],
            }
            for path in animation.paths
        ],
    }


class Store:
    """Arrays one after the other, as 32-bit floats; times and sizes of forces need no more digits."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.length = 0

    def put(self, values: np.ndarray) -> int:
        """Where the values begin."""
        start, self.length = self.length, self.length + values.size
        self.parts.append(np.ascontiguousarray(values, "<f4").tobytes())
        return start

    def bytes(self) -> bytes:
        """All of them."""
        return b"".join(self.parts)


class _Piece:
    """m paths (m, k, d) of the first frame, and how they move: not at all, by affine maps, or point by point."""

    def __init__(self, points: np.ndarray, maps: np.ndarray | None = None):
        self.points, self.maps = points, maps

    def __call__(self, store: Store) -> dict[str, Any]:
        count, corners = self.points.shape[-3:-1]
        return {
            "count": count,
            "corners": corners,
            "points": store.put(self.points),
            "moving": self.points.ndim == 4,
            "maps": None if self.maps is None else store.put(self.maps),
        }


def _pieces(points: np.ndarray, tol: float) -> list[_Piece]:
    """Points (F, m, k, d) in few numbers: nearly all shapes move as affine images of their first frame."""
    frames, count, corners, d = points.shape
    if not points.size:
        return []
    if np.ptp(points, axis=0).max() <= tol:
        return [_Piece(points[0])]
    first = np.concatenate([points[0].reshape(-1, d), np.ones((count * corners, 1))], axis=1)
    flat = points.reshape(frames, -1, d)
    maps = np.linalg.pinv(first) @ flat  # (F, d + 1, d)
    if maps[0].size < first.shape[0] * d and np.abs(first @ maps - flat).max() <= tol:
        return [_Piece(points[0], maps)]
    if count > 1:
        return [piece for i in range(count) for piece in _pieces(points[:, i : i + 1], tol)]
    return [_Piece(points)]
