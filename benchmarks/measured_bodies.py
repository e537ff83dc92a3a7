"""Models of measured experiments: a planar square, a cube and a two-link elbow that are thrown onto a flat ground.

The records are public: the square in DAIRLab/ImpactModeling ("Wang/Wang-Mason Square", data of N. Fazeli, MIT), the cube in
DAIRLab/dair_pll (assets/contactnets_cube), the elbow in ebianchi/dair_pll (assets/contactnets_elbow), all BSD-3. Each file
`*.npz` holds `rows`, one record after the other, and `starts`; poses come first in a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

import jaxns as ns
from jaxns.model.rotation import rotation_matrix

FLIGHTS = 2  # corrections of a start
ROWS, KNOWN = 41, 5  # rows of a fit; of these the first are given
SQUARE, CUBE, LINK = 0.06, 0.1048, np.array([0.1, 0.05, 0.05])  # side lengths, m
CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])


class Experiment(NamedTuple):
    name: str
    rate: float  # rows per second
    every: int  # steps per row
    guess: dict[str, float]
    bounds: dict[str, tuple[float, float]]
    wide: dict[str, tuple[float, float]]  # ranges in which better guesses are drawn
    scale: np.ndarray  # what one unit of each residual column is worth
    step: float  # of differences: chaotic records want a wider look past the jumps of their loss
    system: ns.System
    run: Callable[..., Any]  # (system, params, start, dt, rows, every) -> poses
    residual: Callable[[Any, Any], Any]


def read(path: Path) -> list[np.ndarray]:
    """The records of a file."""
    with np.load(path) as file:
        rows, starts = file["rows"], file["starts"]
    return [rows[a:b] for a, b in itertools.pairwise(starts)]


# The square: q = (x, z, φ) of the marked point, (cx, cz) the centre of mass seen from it. In free flight it accelerates
# sideways by 0.17 m/s², whatever its velocity: gravity is tilted against the camera -----------------------------------


def _square_corners(q: Any, p: Any) -> Any:
    K = jnp.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]) * 0.5 * p["side"] - jnp.stack([
        p["cx"],
        p["cz"],
    ])
    c, s = jnp.cos(q[2] + p["turn"]), jnp.sin(q[2] + p["turn"])
    return jnp.stack([c * K[:, 0] - s * K[:, 1], s * K[:, 0] + c * K[:, 1]], axis=1)


def _square_gap(t: Any, q: Any, p: Any) -> Any:
    r = q[:2] + _square_corners(q, p)
    return r[:, 1] - p["slope"] * r[:, 0] - p["ground"]


def _square_slip(t: Any, q: Any, u: Any, p: Any) -> Any:
    r = _square_corners(q, p)
    return (u[0] - r[:, 1] * u[2] + p["slope"] * (u[1] + r[:, 0] * u[2]))[:, None]


def _square_potential(t: Any, q: Any, p: Any) -> Any:
    return p["gravity"] * (jnp.cos(p["tilt"]) * q[1] - jnp.sin(p["tilt"]) * q[0])


def _square_mass(t: Any, q: Any, p: Any) -> Any:
    one = jnp.ones_like(p["inertia"])
    return jnp.diag(jnp.stack([one, one, p["inertia"] * SQUARE**2 / 6.0]))


SQUARE_PARAMS = dict(
    e_N=0.4, e_F=0.3, mu=0.15, inertia=0.8, ground=0.0, slope=0.0, tilt=0.0, turn=0.0, side=SQUARE, cx=0.0, cz=0.0,
    gravity=9.81,
)  # fmt: skip
COEFFICIENTS: dict[str, Any] = dict(e_N=lambda p: p["e_N"], e_F=lambda p: p["e_F"], mu=lambda p: p["mu"])
SQUARE_SYSTEM = ns.System(
    SQUARE_PARAMS,
    _square_mass,
    potential=_square_potential,
    contacts=ns.Contacts(_square_gap, _square_slip, **COEFFICIENTS),
)


def with_coefficients(system: ns.System, params: dict[str, float], **coefficients: Any) -> ns.System:
    """The same bodies with other restitution and friction, whose parameters come in addition."""
    (c,) = system.contacts
    contacts = ns.Contacts(c.gap, c.slip, **(COEFFICIENTS | coefficients))
    return ns.System(
        system.params | params, system.mass, system.potential, system.force, system.kinematics, system.constraint,
        contacts=contacts,
    )  # fmt: skip


def _square_run(system: ns.System, params: Any, start: Any, dt: float, rows: int, every: int) -> Any:
    p = system.params | {k: jnp.asarray(v) for k, v in params.items()}

    def centre(angle: Any) -> Any:
        c, s = jnp.cos(angle + p["turn"]), jnp.sin(angle + p["turn"])
        return jnp.stack([c * p["cx"] - s * p["cz"], s * p["cx"] + c * p["cz"], 0.0 * angle], axis=-1)

    q, u = start["q"], start["u"]
    r = centre(q[2])
    u0 = u + u[2] * jnp.stack([-r[1], r[0], 0.0 * r[0]])
    traj = ns.simulate(
        system.with_params(**p),
        ns.Rattle(),
        q + r,
        u0,
        dt=dt / every,
        num_steps=(rows - 1) * every,
        save_every=every,
        check=False,
    ).failed_as_nan()
    return traj.q - centre(traj.q[:, 2])


# Boxes in space: q = (r, quaternion) of each, ω in the body -----------------------------------------------------------


def _points(q: Any, corners: Any) -> Any:
    """Corners from the centre, world frame."""
    return corners @ rotation_matrix(q[3:7]).T


def _gap_of(q: Any, corners: Any, p: Any) -> Any:
    slope = jnp.stack([p["slope_x"], p["slope_y"]])
    r = q[:3] + _points(q, corners)
    return r[:, 2] - p["ground"] - r[:, :2] @ slope


def _slip_of(q: Any, u: Any, corners: Any) -> Any:
    omega = rotation_matrix(q[3:7]) @ u[3:6]
    return (u[:3] + jnp.cross(omega[None], _points(q, corners)))[:, :2]


FLOOR = dict(e_N=0.1, e_F=0.1, mu=0.2, ground=0.0, slope_x=0.0, slope_y=0.0, gravity=9.7)
CUBE_PARAMS = FLOOR | dict(side=CUBE, inertia=1.0)
CUBE_BODY = ns.bodies.quaternion_body()


def _body_params(p: Any) -> Any:
    return {"m": jnp.asarray(0.37), "Theta": 8.1e-4 * p["inertia"] * jnp.ones(3)}


CUBE_SYSTEM = ns.System(
    CUBE_PARAMS,
    mass=lambda t, q, p: CUBE_BODY["mass"](t, q, _body_params(p)),
    kinematics=CUBE_BODY["kinematics"],
    force=lambda t, q, u, p: jnp.stack([
        0.0,
        0.0,
        -0.37 * p["gravity"],
        0.0,
        0.0,
        0.0,
    ]),  # equal moments: no gyroscopic one
    contacts=ns.Contacts(
        lambda t, q, p: _gap_of(q, p["side"] * CORNERS, p),
        lambda t, q, u, p: _slip_of(q, u, p["side"] * CORNERS),
        **COEFFICIENTS,
    ),
)


def _box_run(system: ns.System, params: Any, start: Any, dt: float, rows: int, every: int) -> Any:
    system = system.with_params(**params)
    return (
        ns
        .simulate(
            system, ns.Moreau(), start["q"], start["u"], dt=dt / every, num_steps=(rows - 1) * every, save_every=every,
            check=False,
        )
        .failed_as_nan()
        .q
    )  # fmt: skip


# The elbow: two equal links with a hinge about y. q = (r, quaternion of link 1, hinge angle), u = (v, ω in link 1, rate).
# With twelve velocities, a constraint and sixteen corners a step of RATTLE took four times as long

HINGE_1, Y = np.array([-0.035, 0.06, 0.0]), np.array([0.0, 1.0, 0.0])
SECOND_TURN = np.concatenate([np.zeros((3, 3)), np.eye(3), Y[:, None]], axis=1)  # ω of link 2 from u, frame of link 1
MASS = 0.37  # of a link
ELBOW_PARAMS = FLOOR | dict(inertia_x=1.0, inertia=1.0, offset=0.035, box=0.035, damping=0.0)
# The four corners of each face of a link. The lower end of an edge belongs to the face that looks down most, so no other
# corner touches flat ground
FACES = np.array([[c for c in CORNERS * LINK if c[k] * sign > 0.0] for k in range(3) for sign in (-1.0, 1.0)])


def _about_y(angle: Any) -> Any:
    c, s, o, one = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    return jnp.stack([jnp.stack([c, o, s]), jnp.stack([o, one, o]), jnp.stack([-s, o, c])])


def _second_velocity(q: Any, u: Any, point: Any) -> Any:
    """Of a point of link 2, given from the hinge in the frame of link 2; world frame."""
    arm = _about_y(q[7]) @ point
    omega = u[3:6] + Y * u[6]
    return u[:3] + rotation_matrix(q[3:7]) @ (jnp.cross(u[3:6], HINGE_1) + jnp.cross(omega, arm))


def _second_centre(p: Any) -> Any:
    return jnp.stack([p["offset"], 0.0 * p["offset"], 0.0 * p["offset"]])


def _second_directions(q: Any, p: Any) -> Any:
    """∂v/∂u of the centre of mass of link 2 (3, 7)."""
    return jax.jacfwd(lambda u: _second_velocity(q, u, _second_centre(p)))(jnp.zeros(7))


def _inertias(q: Any, p: Any) -> tuple[Any, Any]:
    """Of both links in the frame of link 1, about their centres; relative to those of homogeneous boxes."""
    square = LINK**2
    box = MASS / 12.0 * (np.sum(square) - square)
    J, turn = jnp.diag(box * jnp.stack([p["inertia_x"], p["inertia"], p["inertia"]])), _about_y(q[7])
    return J, turn @ J @ turn.T


def _elbow_mass(t: Any, q: Any, p: Any) -> Any:
    first, second = _inertias(q, p)
    W = _second_directions(q, p)
    M = jnp.zeros((7, 7)).at[:3, :3].set(MASS * jnp.eye(3)).at[3:6, 3:6].set(first)
    return M + MASS * W.T @ W + SECOND_TURN.T @ second @ SECOND_TURN


def _elbow_kinematics(t: Any, q: Any, u: Any, p: Any) -> Any:
    return jnp.concatenate([CUBE_BODY["kinematics"](t, q[:7], u[:6], p), u[6:]])


def _elbow_force(t: Any, q: Any, u: Any, p: Any) -> Any:
    """Weight, damper, and what the velocities leave of the accelerations, as there are more q than u."""
    first, second = _inertias(q, p)
    arm, omega_1, omega_2 = _about_y(q[7]) @ _second_centre(p), u[3:6], u[3:6] + Y * u[6]
    spin = jnp.cross(omega_1, Y) * u[6]  # what ω of link 2 gains beside u̇, in the frame of link 1
    a = jnp.cross(omega_1, jnp.cross(omega_1, HINGE_1)) + jnp.cross(spin, arm)
    a = a + jnp.cross(omega_2, jnp.cross(omega_2, arm))
    weight = jnp.array([0.0, 0.0, -1.0]) * MASS * p["gravity"]
    turning = second @ spin + jnp.cross(omega_2, second @ omega_2)
    own = jnp.concatenate([weight, -jnp.cross(omega_1, first @ omega_1), -p["damping"] * u[6:]])
    rest = weight - MASS * rotation_matrix(q[3:7]) @ a
    return own + _second_directions(q, p).T @ rest - SECOND_TURN.T @ turning


def _face_below(down: Any) -> Any:
    """The corners of the face of a link that looks down most (4, 3), `down` in its frame."""
    most = jnp.max(jnp.abs(down))
    below = jnp.stack([sign * down[k] >= most for k in range(3) for sign in (-1.0, 1.0)])
    first = below & (jnp.cumsum(below) == 1)  # of faces that look down alike
    return jnp.tensordot(jnp.where(first, 1.0, 0.0), FACES, axes=1)


def _elbow_corners(q: Any, p: Any) -> tuple[Any, Any]:
    """The corners that may touch: of link 1 from its centre, of link 2 from the hinge, each in the frame of its link."""
    down = -rotation_matrix(q[3:7])[2]
    second = _face_below(_about_y(q[7]).T @ down) + jnp.stack([p["box"], 0.0 * p["box"], 0.0 * p["box"]])
    return _face_below(down), second


def _elbow_gap(t: Any, q: Any, p: Any) -> Any:
    first, second = _elbow_corners(q, p)
    second = HINGE_1 + second @ _about_y(q[7]).T
    return _gap_of(q, jnp.concatenate([first, second]), p)


def _elbow_slip(t: Any, q: Any, u: Any, p: Any) -> Any:
    first, second = _elbow_corners(q, p)
    moving = jnp.stack([_second_velocity(q, u, second[k])[:2] for k in range(4)])
    return jnp.concatenate([_slip_of(q, u, first), moving])


ELBOW_SYSTEM = ns.System(
    ELBOW_PARAMS,
    _elbow_mass,
    kinematics=_elbow_kinematics,
    force=_elbow_force,
    contacts=ns.Contacts(_elbow_gap, _elbow_slip, **COEFFICIENTS),
)


def _pose(prediction: Any, record: Any) -> Any:
    return ns.pose_residual(prediction, record)


def _elbow_pose(prediction: Any, record: Any) -> Any:
    """The hinge angle is known but for full turns."""
    r = ns.pose_residual(prediction, record)
    return r.at[:, 6].set(jnp.arctan2(jnp.sin(r[:, 6]), jnp.cos(r[:, 6])))


def _difference(prediction: Any, record: Any) -> Any:
    return prediction - record


UNIT = (0.0, 1.0)
FLAT = dict(e_N=UNIT, e_F=UNIT, mu=UNIT, ground=(-0.02, 0.02), gravity=(9.0, 10.5))
TILT = dict(slope_x=(-0.1, 0.1), slope_y=(-0.1, 0.1))
SHAPE = dict(
    tilt=(-0.1, 0.1),
    slope=(-0.1, 0.1),
    inertia=(0.3, 3.0),
    side=(0.05, 0.07),
    turn=(-0.2, 0.2),
    cx=(-0.01, 0.01),
    cz=(-0.01, 0.01),
)
HINGE = dict(inertia_x=(0.2, 4.0), inertia=(0.2, 4.0), offset=(0.0, 0.06), box=(0.02, 0.05), damping=(0.0, 0.01))
DRAWN = dict(
    e_N=(0.0, 0.5),
    e_F=(0.0, 0.8),
    mu=(0.05, 0.3),
    inertia_x=(0.5, 3.0),
    inertia=(0.5, 2.0),
    offset=(0.02, 0.04),
    damping=(0.0, 3e-3),
)
EXPERIMENTS = {
    "square": Experiment(
        "square", 250.0, 8, {k: v for k, v in SQUARE_PARAMS.items() if k != "gravity"},
        {k: v for k, v in FLAT.items() if k != "gravity"} | SHAPE, {},
        np.array([5e-3, 5e-3, 0.1]), 0.03, SQUARE_SYSTEM, _square_run, _difference,
    ),
    "cube": Experiment(
        "cube", 148.0, 8, CUBE_PARAMS | dict(e_N=0.2, e_F=0.3, inertia=1.3),
        FLAT | TILT | dict(side=(0.095, 0.115), inertia=(0.5, 2.0)), {},
        np.array([5e-3] * 3 + [0.1] * 3), 0.1, CUBE_SYSTEM, _box_run, _pose,
    ),
    "elbow": Experiment(
        "elbow", 148.0, 4, dict(ELBOW_PARAMS, inertia_x=2.0, inertia=1.6, damping=1e-3), FLAT | TILT | HINGE, DRAWN,
        np.array([5e-3] * 3 + [0.1] * 4), 0.1, ELBOW_SYSTEM, _box_run, _elbow_pose,
    ),
}  # fmt: skip


@lru_cache(maxsize=16)
def predictor(name: str, rows: int) -> Callable[[Any, Any, Any], Any]:
    """predict(shared, own, record): poses from a start that the record holds."""
    e = EXPERIMENTS[name]

    def predict(shared: Any, own: Any, record: Any) -> Any:
        return {"poses": e.run(e.system, shared, {"q": record["q0"], "u": record["u0"]}, 1.0 / e.rate, rows, e.every)}

    return predict


def residual(name: str) -> Callable[[Any, Any], Any]:
    return _RESIDUALS[name]


_RESIDUALS = {
    name: (lambda p, r, e=e: {"poses": e.residual(p["poses"], r["poses"])}) for name, e in EXPERIMENTS.items()
}


@lru_cache(maxsize=4)
def _flight(name: str) -> Callable[..., Any]:
    """Residuals of the first rows in free flight, with the parameters of the guess."""
    e = EXPERIMENTS[name]
    high = e.guess | {"ground": -10.0}

    def off(q0: Any, u0: Any, poses: Any) -> Any:
        predicted = e.run(e.system, high, {"q": q0, "u": u0}, 1.0 / e.rate, KNOWN, e.every)
        return e.residual(predicted, poses)

    return jax.jit(jax.vmap(off))


def starts(name: str, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities at row 0 from a fit of free flight to the first rows: (N, nq), (N, nu)."""
    e = EXPERIMENTS[name]
    t = np.arange(KNOWN) / e.rate
    A = np.stack([np.ones(KNOWN), t], axis=1)

    def line(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = np.linalg.lstsq(A, np.moveaxis(y, 1, 0).reshape(KNOWN, -1), rcond=None)[0]
        return tuple(found.reshape(2, len(y), -1))  # type: ignore[return-value]

    up = 1 if name == "square" else 2
    y = poses[:, :KNOWN].copy()
    y[:, :, up] += 0.5 * 9.75 * t**2
    if name == "square":
        return line(y)
    r, v = line(y[:, :, :3])
    q, omega = [], []
    for turns in y[:, :, 3:7]:  # rotation vectors from the first row on
        R = Rotation.from_quat(np.roll(turns, -1, axis=1))
        first, rate = np.linalg.lstsq(A, (R[0].inv() * R).as_rotvec(), rcond=None)[0]
        q.append(np.roll((R[0] * Rotation.from_rotvec(first)).as_quat(), 1))
        omega.append(rate)
    angle, rate = line(np.unwrap(y[:, :, 7:], axis=1)) if y.shape[2] > 7 else (np.zeros((len(y), 0)),) * 2
    q0, u0 = np.concatenate([r, np.array(q), angle], axis=1), np.concatenate([v, np.array(omega), rate], axis=1)
    if (
        name == "elbow"
    ):  # its links do not fly along parabolas: free flight of the model, corrected by its own residuals
        for _ in range(FLIGHTS):
            off = np.asarray(_flight(name)(jnp.asarray(q0), jnp.asarray(u0), jnp.asarray(poses[:, :KNOWN])))
            here, rate = line(off)
            turned = Rotation.from_quat(np.roll(q0[:, 3:7], -1, axis=1)) * Rotation.from_rotvec(-here[:, 3:6])
            q0 = np.concatenate(
                [q0[:, :3] - here[:, :3], np.roll(turned.as_quat(), 1, axis=1), q0[:, 7:] - here[:, 6:]], axis=1
            )
            u0 = u0 - rate
    return q0, u0


def poses_of(name: str, records: list[np.ndarray]) -> np.ndarray:
    """(N, longest, nq) with NaN after the end; positions before quaternions."""
    if name != "square":
        order = [4, 5, 6, 0, 1, 2, 3] + ([7] if name == "elbow" else [])
        return ns.stack_records([r[:, order] for r in records])
    return ns.stack_records([r[:, :3] for r in records])


def errors(name: str, predicted: np.ndarray, measured: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position errors in mm and angles in degrees, row by row."""
    if name == "square":
        return 1e3 * np.linalg.norm((predicted - measured)[..., :2], axis=-1), np.degrees(
            np.abs(predicted - measured)[..., 2]
        )
    flat = (jnp.asarray(x.reshape(-1, x.shape[-1])) for x in (predicted, measured))
    r = np.asarray(EXPERIMENTS[name].residual(*flat)).reshape(*predicted.shape[:-1], -1)
    return 1e3 * np.linalg.norm(r[..., :3], axis=-1), np.degrees(np.linalg.norm(r[..., 3:6], axis=-1))
