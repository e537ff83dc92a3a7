"""Drawings: what a mechanical system looks like at time t and position q.

A drawing is a pure function `draw(t, q, p) -> Scene` of time, positions and parameters, so `jax.vmap` gives all frames of a
film in one compiled call. There is one primitive, `Path`; the other functions here make paths of common shapes. Points are
plane, (x, y), or spatial, (x, y, z) with z upwards.

All shapes broadcast: arguments with leading axes (…, d) make several paths of the same look at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

COLORS = {  # name: on white, on black
    "ink": ("#2d3440", "#dfe4ec"),
    "grey": ("#8b95a5", "#8b95a5"),
    "blue": ("#3f74b8", "#6fa4ea"),
    "orange": ("#d9822b", "#eda453"),
    "green": ("#4a9560", "#74c08a"),
    "red": ("#c4453f", "#ee756e"),
    "purple": ("#7d5fb5", "#ab90e0"),
    "paper": ("#ffffff", "#14171d"),
    "ground": ("#a3acba", "#59636f"),
    "shadow": ("#e3e6eb", "#22272f"),
}
_STATIC: dict[str, Any] = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Path:
    """A line through points, or a polygon; the one primitive of all drawings.

    `color` is a name from `jaxns.scene.COLORS`, for light and dark pages, or "#rrggbb". The view is chosen such that
    all paths are in sight, but of a `ground` only its nearest point: it may reach far out of the picture.

    >>> Path(jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), closed=True, filled=True, color="orange").width
    1.5
    """

    points: Array  # (…, k, d), d = 2 or 3; leading axes are several paths
    closed: bool = field(default=False, metadata=_STATIC)
    filled: bool = field(default=False, metadata=_STATIC)
    color: str = field(default="ink", metadata=_STATIC)
    width: float = field(default=1.5, metadata=_STATIC)  # of the line, in pixels; 0 for none
    ground: bool = field(default=False, metadata=_STATIC)

    def __post_init__(self) -> None:
        if self.color not in COLORS and not re.fullmatch("#[0-9a-fA-F]{6}", self.color):
            raise ValueError(f"Path: color must be '#rrggbb' or one of {', '.join(COLORS)}; got {self.color!r}.")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scene:
    """Paths, drawn in this order, and where the contacts of the system are.

    Contact i here is contact i of the system, in the order of its gaps. `contact_points[i]` is a point of the body on which
    the contact acts with the force λ_N normals[i] + Σ_k λ_F,k tangents[i, k]; so a normal is the derivative of the gap, and
    a tangent that of the slip, with respect to the velocity of the point. Friction rows beyond f, such as a drilling
    moment, are not drawn. All three may be left out.

    >>> ball = Scene([disk([0.0, 1.0], 0.1)], contact_points=[[0.0, 0.9]], normals=[[0.0, 1.0]])
    >>> ball.paths[0].points.shape, ball.tangents.shape
    ((34, 2), (1, 0, 2))
    """

    paths: Sequence[Path]
    contact_points: Any = None  # (n, d)
    normals: Any = None  # (n, d)
    tangents: Any = None  # (n, f, d)

    def __post_init__(self) -> None:
        # JAX also makes scenes of objects that are no arrays: what is not None and not a list stays as it is.
        paths = self.paths
        if not isinstance(paths, (tuple, list)) or not paths or not all(isinstance(p, Path) for p in paths):
            raise TypeError(f"Scene: paths must be at least one jaxns.scene.Path in a tuple or list, got {paths!r}.")
        if self.contact_points is not None and self.normals is None:
            raise TypeError("Scene: contact_points need normals of the same shape.")
        d = getattr(paths[0].points, "shape", (2,))[-1]
        n = getattr(self.contact_points, "shape", (0 if self.contact_points is None else len(self.contact_points),))[0]
        for name, empty in (("contact_points", (0, d)), ("normals", (0, d)), ("tangents", (n, 0, d))):
            given = getattr(self, name)
            if given is None:
                object.__setattr__(self, name, jnp.zeros(empty))
            elif isinstance(given, (tuple, list)):
                object.__setattr__(self, name, jnp.asarray(given))
        object.__setattr__(self, "paths", tuple(paths))


# Plane shapes ---------------------------------------------------------------------------------------------------------


def line(points: Any, *, color: str = "ink", width: float = 1.5) -> Path:
    """An open line through points (…, k, d).

    >>> line([[0.0, 0.0], [1.0, 2.0]]).points.tolist()
    [[0.0, 0.0], [1.0, 2.0]]
    """
    return Path(jnp.asarray(points), color=color, width=width)


def polygon(points: Any, *, color: str = "blue", width: float = 1.5) -> Path:
    """A filled polygon with the corners (…, k, d).

    >>> polygon([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).filled
    True
    """
    return Path(jnp.asarray(points), closed=True, filled=True, color=color, width=width)


def circle(center: Any, radius: Any, *, color: str = "blue", width: float = 1.5, corners: int = 32) -> Path:
    """A filled circle that looks the same from all sides, such as a point mass or, in "paper", a joint.

    >>> circle([0.0, 1.0], 0.5, corners=4).points.max(axis=0).tolist()
    [0.5, 1.5]
    """
    angles = 2.0 * np.pi * np.arange(corners) / corners
    return polygon(_around(center, radius, angles), color=color, width=width)


def disk(center: Any, radius: Any, angle: Any = 0.0, *, color: str = "blue", width: float = 1.5) -> Path:
    """A disk that has turned by `angle`, counter-clockwise; a spoke shows it.

    >>> disk([0.0, 1.0], 0.5).points[-1].tolist()  # the spoke ends in the middle
    [0.0, 1.0]
    """
    angles = jnp.asarray(angle)[..., None] + np.linspace(0.0, 2.0 * np.pi, 33)
    rim = _around(center, radius, angles)
    middle = jnp.broadcast_to(jnp.asarray(center)[..., None, :], (*rim.shape[:-2], 1, 2))
    return polygon(jnp.concatenate([rim, middle], axis=-2), color=color, width=width)


def box(
    center: Any, half_width: Any, half_height: Any, angle: Any = 0.0, *, color: str = "blue", width: float = 1.5
) -> Path:
    """A rectangle that has turned by `angle`. Its corners come in the order (−, −), (+, −), (+, +), (−, +).

    >>> box([0.0, 1.0], 2.0, 1.0).points.tolist()
    [[-2.0, 0.0], [2.0, 0.0], [2.0, 2.0], [-2.0, 2.0]]
    """
    x = jnp.asarray(half_width)[..., None] * np.array([-1.0, 1.0, 1.0, -1.0])
    y = jnp.asarray(half_height)[..., None] * np.array([-1.0, -1.0, 1.0, 1.0])
    return polygon(place(jnp.stack([x, y], axis=-1), center, angle), color=color, width=width)


def bar(a: Any, b: Any, thickness: Any, *, color: str = "blue", width: float = 1.5) -> Path:
    """A bar with round ends about its joints a and b (…, 2).

    >>> bar([0.0, 0.0], [2.0, 0.0], 1.0).points.max(axis=0).tolist()
    [2.5, 0.5]
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    angle = jnp.arctan2(b[..., 1] - a[..., 1], b[..., 0] - a[..., 0])[..., None]
    half, radius = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 13), 0.5 * jnp.asarray(thickness)
    ends = [_around(b, radius, angle + half), _around(a, radius, angle + half + np.pi)]
    return polygon(jnp.concatenate(ends, axis=-2), color=color, width=width)


def spring(a: Any, b: Any, thickness: Any, coils: int = 6, *, color: str = "ink", width: float = 1.5) -> Path:
    """A zigzag from a to b (…, 2).

    >>> spring([0.0, 0.0], [0.0, 1.0], 0.2).points[-1].tolist()
    [0.0, 1.0]
    """
    a, b = jnp.asarray(a)[..., None, :], jnp.asarray(b)[..., None, :]
    along = np.concatenate([[0.0], np.linspace(0.1, 0.9, 2 * coils + 1), [1.0]])
    across = np.zeros(2 * coils + 3)
    across[2:-2] = 0.5 * (-1.0) ** np.arange(2 * coils - 1)
    side = jnp.stack([a[..., 1] - b[..., 1], b[..., 0] - a[..., 0]], axis=-1)
    side = side / jnp.maximum(jnp.sqrt(jnp.sum(side**2, axis=-1, keepdims=True)), 1e-30)
    points = a + along[:, None] * (b - a) + jnp.asarray(thickness)[..., None, None] * across[:, None] * side
    return line(points, color=color, width=width)


def support(point: Any, size: Any) -> Path:
    """A bracket below a joint that is fixed in space.

    >>> support([3.0, 1.0], 1.0).points[0].tolist()
    [3.0, 1.0]
    """
    corners = np.array([[0.0, 0.0], [0.5, -1.0], [0.8, -1.0], [0.8, -1.2], [-0.8, -1.2], [-0.8, -1.0], [-0.5, -1.0]])
    return polygon(jnp.asarray(point) + jnp.asarray(size) * corners, color="grey")


def ground(surface: Any, into: Any) -> Path:
    """What lies under a surface through the points (k, 2), as deep as the vector `into` (2,) says.

    >>> wall = ground([[0.0, -9.0], [0.0, 9.0]], into=[-9.0, 0.0])
    >>> wall.ground, wall.points.shape
    (True, (4, 2))
    """
    surface = jnp.asarray(surface)
    points = jnp.concatenate([surface, surface[::-1] + jnp.asarray(into)])
    return Path(points, closed=True, filled=True, color="ground", ground=True)


def floor(height: Any, reach: Any) -> Path:
    """The ground below a height, `reach` wide to both sides and deep.

    >>> floor(0.0, 10.0).points[:2].tolist()
    [[-10.0, 0.0], [10.0, 0.0]]
    """
    reach = jnp.asarray(reach, float)
    height, zero = jnp.broadcast_to(jnp.asarray(height, float), reach.shape), jnp.zeros_like(reach)
    surface = jnp.stack([jnp.stack([-reach, height]), jnp.stack([reach, height])])
    return ground(surface, jnp.stack([zero, -reach]))


def place(points: Any, position: Any, angle: Any) -> Array:
    """Points (…, k, 2) of a body, turned by `angle` and shifted to `position` (…, 2).

    >>> place([[1.0, 0.0]], [5.0, 5.0], jnp.pi / 2).round(6).tolist()
    [[5.0, 6.0]]
    """
    points = jnp.asarray(points)
    c, s = jnp.cos(jnp.asarray(angle))[..., None], jnp.sin(jnp.asarray(angle))[..., None]
    x, y = points[..., 0], points[..., 1]
    return jnp.asarray(position)[..., None, :] + jnp.stack([c * x - s * y, s * x + c * y], axis=-1)


def rounded(corners: Any, steps: int = 4) -> Array:
    """A smooth closed outline (steps · k, 2) through the corners (k, 2), for shapes of animals and the like.

    >>> rounded([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], steps=2)[1].tolist()
    [0.625, 0.625]
    """
    p = jnp.asarray(corners)
    before, after, beyond = (jnp.roll(p, k, axis=0) for k in (1, -1, -2))
    s = (np.arange(steps) / steps)[:, None, None]
    outline = 0.5 * (
        2.0 * p
        + s * (after - before)
        + s**2 * (2.0 * before - 5.0 * p + 4.0 * after - beyond)
        + s**3 * (3.0 * p - before - 3.0 * after + beyond)
    )  # Catmull and Rom's spline, (steps, k, 2)
    return outline.swapaxes(0, 1).reshape(-1, 2)


def _around(center: Any, radius: Any, angles: Any) -> Array:
    """Points (…, k, 2) on a circle at the angles (…, k)."""
    unit = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)
    return jnp.asarray(center)[..., None, :] + jnp.asarray(radius)[..., None, None] * unit


# Shapes in space ------------------------------------------------------------------------------------------------------


def revolution(
    profile: Any, center: Any, rotation: Any, colors: tuple[str, str] = ("blue", "paper"), sectors: int = 16
) -> tuple[Path, Path]:
    """The surface that a profile (k, 2) of radii and heights makes when it turns about the third axis of the body.

    center (3,) is where radius and height are zero, rotation (3, 3) has the axes of the body as its columns. The facets of
    neighbouring sectors have two colours, so that one sees the body turn.

    >>> cone = revolution([[0.0, 1.0], [1.0, 0.0]], [0.0, 0.0, 0.0], jnp.eye(3), sectors=8)
    >>> [path.points.shape for path in cone]
    [(4, 4, 3), (4, 4, 3)]
    """
    profile = jnp.asarray(profile)
    angles = 2.0 * np.pi * np.arange(sectors + 1) / sectors
    radius, height = profile[:, :1], jnp.broadcast_to(profile[:, 1:], (profile.shape[0], sectors + 1))
    net = jnp.stack([radius * np.cos(angles), radius * np.sin(angles), height], axis=-1)
    net = jnp.asarray(center) + net @ jnp.asarray(rotation).T
    facets = jnp.stack([net[:-1, :-1], net[1:, :-1], net[1:, 1:], net[:-1, 1:]], axis=-2)
    even, odd = (polygon(facets[:, k::2].reshape(-1, 4, 3), color=colors[k], width=0.5) for k in (0, 1))
    return even, odd


def sphere(
    center: Any, radius: Any, rotation: Any = None, colors: tuple[str, str] = ("blue", "paper")
) -> tuple[Path, Path]:
    """A ball in space, in sectors of two colours.

    >>> ball = sphere([0.0, 0.0, 1.0], 1.0)
    >>> float(ball[0].points[..., 2].min())
    0.0
    """
    polar = np.pi * np.arange(11) / 10
    profile = jnp.asarray(radius) * np.stack([np.sin(polar), np.cos(polar)], axis=1)
    return revolution(profile, center, jnp.eye(3) if rotation is None else rotation, colors)


def ring(
    center: Any, radius: Any, rotation: Any = None, *, color: str = "ink", width: float = 1.5, corners: int = 48
) -> Path:
    """A circle about center (3,) in the plane of the first two columns of `rotation` (3, 3).

    >>> ring([0.0, 0.0, 2.0], 1.0, corners=4).points[1].round(6).tolist()
    [0.0, 1.0, 2.0]
    """
    angles = 2.0 * np.pi * np.arange(corners) / corners
    unit = np.stack([np.cos(angles), np.sin(angles), np.zeros(corners)], axis=1)
    rotation = jnp.eye(3) if rotation is None else jnp.asarray(rotation)
    return Path(jnp.asarray(center) + jnp.asarray(radius) * (unit @ rotation.T), True, False, color, width)


def grid(half_width: Any, cells: int = 10) -> Path:
    """The floor z = 0 in space, as a square grid about the origin.

    >>> grid(1.0, cells=2).points.shape
    (6, 2, 3)
    """
    steps = np.linspace(-1.0, 1.0, cells + 1)
    ends = np.ones_like(steps)
    along = np.stack([np.stack([steps, -ends, 0 * ends], axis=1), np.stack([steps, ends, 0 * ends], axis=1)], axis=1)
    points = np.concatenate([along, along[:, :, [1, 0, 2]]])
    return Path(jnp.asarray(half_width) * points, color="ground", width=0.75, ground=True)


def shadow(path: Path) -> Path:
    """The shadow of a path in space on the floor z = 0, from a light straight above.

    >>> shadow(ring([0.0, 0.0, 2.0], 1.0)).points[:, 2].max().item()
    0.0
    """
    return Path(path.points.at[..., 2].set(0.0), closed=True, filled=True, color="shadow", width=0.0)
