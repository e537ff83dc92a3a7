"""The measured square, cube and elbow in MuJoCo C, identified from the same records as our models of them.

Parameters are those of `measured_bodies.py`, with a contact spring and a contact damper (`solref` in its direct form) in
place of e_N and e_F. Gauss–Newton on differences (scipy's trust region, Cauchy loss), with the same residuals, weights,
bounds, starts and split.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import mujoco
import mujoco.rollout
import numpy as np
from measured_bodies import EXPERIMENTS, HINGE_1, KNOWN, LINK, MASS, SQUARE, residual
from scipy.optimize import least_squares

SUBSTEPS = 20  # per row: MuJoCo's contact springs want small steps
OPTION = '<option cone="elliptic" timestep="{dt}" integrator="implicitfast" iterations="50"/>'
GROUND = '<geom name="ground" type="plane" size="5 5 1" condim="3"/>'
BOX = '<geom name="{name}" type="box" size="{half}" pos="{pos}" condim="3"/>'
INERTIA = '<inertial pos="0 0 0" mass="{mass}" diaginertia="1 1 1"/>'
BODY = '<body name="{name}" simple="false" pos="{pos}">{joints}{inertia}{box}</body>'
SLIDER = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint type="hinge" axis="0 -1 0"/>'


def _body(
    name: str, joints: str, half: str, mass: float, pos: str = "0 0 0", box: str = "0 0 0", more: str = ""
) -> str:
    """A body with a box, and the bodies `more` that hang on it."""
    parts = {"inertia": INERTIA.format(mass=mass), "box": BOX.format(name=name, half=half, pos=box) + more}
    return BODY.format(name=name, pos=pos, joints=joints, **parts)


LINK_HALF, AT_HINGE = (" ".join(map(str, v)) for v in (0.5 * LINK, HINGE_1))
SECOND = _body("b", '<joint name="hinge" type="hinge" axis="0 1 0"/>', LINK_HALF, 0.37, pos=AT_HINGE, box="0.035 0 0")
WORLDS = {
    "square": _body("a", SLIDER, ".03 .03 .03", 1.0),
    "cube": _body("a", "<freejoint/>", ".05 .05 .05", 0.37),
    "elbow": _body("a", "<freejoint/>", LINK_HALF, 0.37, more=SECOND),
}
CONTACT = {"stiffness": (1e3, 1e8), "damping": (1.0, 1e5)}  # per unit of effective mass; searched by their logarithms
GUESS = {"stiffness": 1e5, "damping": 1e2}


class Peer(NamedTuple):
    name: str
    params: dict[str, float]
    seconds: float
    evaluations: int


def model_of(name: str, p: dict[str, float]) -> Any:
    """The model with these parameters."""
    dt = 1.0 / EXPERIMENTS[name].rate / SUBSTEPS
    text = f"<mujoco>{OPTION.format(dt=dt)}<worldbody>{GROUND}{WORLDS[name]}</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(text)
    tilt, gravity = p.get("tilt", 0.0), p.get("gravity", 9.81)
    model.opt.gravity[:] = gravity * np.sin(tilt), 0.0, -gravity * np.cos(tilt)
    model.geom_solref[:] = -p["stiffness"], -p["damping"]
    model.geom_solimp[:, :3] = 0.99, 0.99, 1e-3
    model.geom_friction[:, 0] = p["mu"]
    model.geom_pos[0, 2] = p["ground"]
    x, y = p.get("slope_x", p.get("slope", 0.0)), p.get("slope_y", 0.0)  # of the height z = ground + slope · (x, y)
    half, steepness = 0.5 * np.arctan(np.hypot(x, y)), max(np.hypot(x, y), 1e-12)
    model.geom_quat[0] = np.cos(half), np.sin(half) * y / steepness, -np.sin(half) * x / steepness, 0.0
    if "side" in p:
        model.geom_size[1] = 0.5 * p["side"]
    if name != "elbow":
        model.body_inertia[1:] = {"square": SQUARE**2 / 6.0, "cube": 8.1e-4}[name] * p["inertia"]
    if name == "square":
        model.body_ipos[1] = p["cx"], 0.0, p["cz"]
    if name == "elbow":
        square = LINK**2
        box = MASS / 12.0 * (np.sum(square) - square)
        model.body_inertia[1:] = box * np.array([p["inertia_x"], p["inertia"], p["inertia"]])
        model.body_ipos[2, 0] = p["offset"]
        model.geom_pos[2, 0] = p["box"]
        model.dof_damping[-1] = p["damping_hinge"]
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def predict(name: str, p: dict[str, float], q0: np.ndarray, u0: np.ndarray, rows: int) -> np.ndarray:
    """Poses (N, rows, nq) from positions and velocities at row 0."""
    model = model_of(name, p)
    q = q0.copy()
    if name == "square":
        q[:, 2] += p["turn"]
    initial = np.concatenate([np.zeros((len(q), 1)), q, u0], axis=1)
    states, _ = mujoco.rollout.rollout(model, [mujoco.MjData(model)], initial, nstep=(rows - 1) * SUBSTEPS)
    poses = np.concatenate([q[:, None], states[:, SUBSTEPS - 1 :: SUBSTEPS, 1 : 1 + q.shape[1]]], axis=1)
    if name == "square":
        poses[:, :, 2] -= p["turn"]
    return poses


def identify(name: str, poses: np.ndarray, q0: np.ndarray, u0: np.ndarray, max_nfev: int = 15) -> Peer:
    """Fit all parameters to poses (N, rows, nq)."""
    e = EXPERIMENTS[name]
    guess = {k: v for k, v in e.guess.items() if k not in ("e_N", "e_F")}
    bounds = {k: b for k, b in e.bounds.items() if k in guess}
    if name == "elbow":  # its damper has the name of the contact's
        guess["damping_hinge"], bounds["damping_hinge"] = guess.pop("damping"), bounds.pop("damping")
    guess, bounds = guess | GUESS, bounds | CONTACT
    names = [k for k in guess if k in bounds]
    low, high = (np.array([bounds[k][i] for k in names]) for i in (0, 1))
    log = np.array([k in CONTACT for k in names])
    low, high = np.where(log, np.log(np.maximum(low, 1e-9)), low), np.where(log, np.log(high), high)
    compare: Callable[..., Any] = residual(name)

    def params(z: np.ndarray) -> dict[str, float]:
        x = low + (high - low) * z
        return guess | dict(zip(names, np.where(log, np.exp(x), x), strict=True))

    def residuals(z: np.ndarray) -> np.ndarray:
        found = predict(name, params(z), q0, u0, poses.shape[1])
        flat = (x[:, KNOWN:].reshape(-1, x.shape[-1]) for x in (found, poses))
        r = np.asarray(compare({"poses": next(flat)}, {"poses": next(flat)})["poses"])
        return np.nan_to_num(r / e.scale).ravel()

    begin = time.perf_counter()
    first = np.array([guess[k] for k in names])
    start = (np.where(log, np.log(np.maximum(first, 1e-9)), first) - low) / (high - low)
    best = least_squares(
        residuals, np.clip(start, 0.01, 0.99), bounds=(0.0, 1.0), loss="cauchy", diff_step=0.01, max_nfev=max_nfev
    )
    return Peer(name, params(best.x), time.perf_counter() - begin, int(best.nfev))
