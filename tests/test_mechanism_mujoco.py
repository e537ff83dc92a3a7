"""Smooth motion of mechanisms from parts against MuJoCo's C library, at its time step of 1e-5 s."""

from __future__ import annotations

import numpy as np
import pytest

import jaxns as ns

mujoco = pytest.importorskip("mujoco")
BOUND = 1e-5  # m after one second

OPTION = '<option timestep="1e-5" integrator="{}" gravity="0 0 -9.81"><flag contact="disable"/></option>'


def positions_of_peer(
    body: str, names: list[str], integrator: str = "RK4", extra: str = "", torque: tuple[int, float] = (0, 0.0)
) -> np.ndarray:
    """Centres of mass (bodies, 3) after one second."""
    text = f"<mujoco>{OPTION.format(integrator)}<worldbody>{body}</worldbody>{extra}</mujoco>"
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qfrc_applied[torque[0]] = torque[1]
    for _ in range(100_000):
        mujoco.mj_step(model, data)
    mujoco.mj_kinematics(model, data)
    return np.array([data.xipos[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)] for name in names])


def positions(mechanism: ns.Mechanism, names: list[str], dt: float = 2e-4) -> np.ndarray:
    traj = ns.simulate(mechanism.system, ns.Rattle(), mechanism.q0, mechanism.u0, dt=dt, t1=1.0, save_every=500)
    found = np.array([mechanism.pose(name, traj.q[-1])[0] for name in names])
    return found if found.shape[1] == 3 else np.column_stack([found[:, 0], np.zeros(len(found)), found[:, 1]])


def box(mass: float, inertia: tuple[float, float, float], at: str = "0 0 0", quat: str = "1 0 0 0") -> str:
    return f'<inertial pos="{at}" mass="{mass}" diaginertia="{" ".join(map(str, inertia))}" quat="{quat}"/>'


def test_double_pendulum():
    # The plane x, z of MuJoCo is the plane x, y here; its hinges turn about −y.
    mechanism = ns.Mechanism(
        ns.Body("upper", 1.2, 0.02, position=(0.25, 0.0)),
        ns.Body("lower", 0.7, 0.01, position=(0.5, -0.2), angle=-np.pi / 2),
        ns.Revolute("ground", "upper", at=(0.0, 0.0)),
        ns.Revolute("upper", "lower", at=(0.5, 0.0)),
    )
    hinge = '<joint type="hinge" axis="0 -1 0"/>'
    peer = positions_of_peer(
        f'<body name="upper">{hinge}{box(1.2, (0.02, 0.02, 0.02), "0.25 0 0")}'
        f'<body name="lower" pos="0.5 0 0">{hinge}{box(0.7, (0.01, 0.01, 0.01), "0 0 -0.2")}</body></body>',
        ["upper", "lower"],
        "RK4",
    )
    assert np.abs(positions(mechanism, ["upper", "lower"]) - peer).max() < BOUND


def test_four_bar_with_connect():
    mechanism = ns.Mechanism(
        ns.Body("crank", 0.5, 0.01, position=(0.0, 0.1)),
        ns.Body("rod", 1.0, 0.05, position=(0.25, 0.25)),
        ns.Body("rocker", 0.8, 0.03, position=(0.5, 0.15)),
        ns.Revolute("ground", "crank", at=(0.0, 0.0)),
        ns.Revolute("crank", "rod", at=(0.0, 0.2)),
        ns.Revolute("rod", "rocker", at=(0.5, 0.3)),
        ns.Revolute("ground", "rocker", at=(0.5, 0.0)),
        ns.Torque("crank", -0.4),
    )
    hinge = '<joint type="hinge" axis="0 -1 0"/>'
    peer = positions_of_peer(
        f'<body name="crank">{hinge}{box(0.5, (0.01,) * 3, "0 0 0.1")}'
        f'<body name="rod" pos="0 0 0.2">{hinge}{box(1.0, (0.05,) * 3, "0.25 0 0.05")}</body></body>'
        f'<body name="rocker" pos="0.5 0 0">{hinge}{box(0.8, (0.03,) * 3, "0 0 0.15")}</body>',
        ["crank", "rod", "rocker"],
        extra='<equality><connect body1="rod" body2="rocker" anchor="0.5 0 0.1" solref="2e-5 1" '
        'solimp="0.9999 0.9999 0.001"/></equality>',
        torque=(0, -0.4),
    )
    assert np.abs(positions(mechanism, ["crank", "rod", "rocker"]) - peer).max() < BOUND


def test_body_with_a_full_inertia_tensor():
    turn = np.array([0.9, 0.1, -0.3, 0.2])
    turn /= np.linalg.norm(turn)
    R = np.array(mechanism_rotation(turn))
    moments = np.array([0.02, 0.05, 0.06])
    mechanism = ns.Mechanism(
        ns.Body(
            "body",
            2.0,
            R @ np.diag(moments) @ R.T,
            position=(0.0, 0.0, 1.0),
            velocity=(1.0, 0.5, 2.0),
            spin=(3.0, -2.0, 5.0),
        ),
        gravity=(0.0, 0.0, -9.81),
    )
    text = (
        f'<mujoco>{OPTION.format("RK4")}<worldbody><body name="body" pos="0 0 1"><freejoint/>'
        f"{box(2.0, tuple(moments), quat=' '.join(map(str, turn)))}</body></worldbody></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qvel[:] = [1.0, 0.5, 2.0, 3.0, -2.0, 5.0]
    for _ in range(100_000):
        mujoco.mj_step(model, data)
    traj = ns.simulate(mechanism.system, ns.Rattle(), mechanism.q0, mechanism.u0, dt=2e-4, t1=1.0, save_every=500)
    assert np.abs(np.asarray(traj.q[-1, :3]) - data.qpos[:3]).max() < BOUND
    same = np.sign(float(traj.q[-1, 3]) * data.qpos[3])
    assert np.abs(same * np.asarray(traj.q[-1, 3:]) - data.qpos[3:]).max() < BOUND


def mechanism_rotation(quaternion: np.ndarray) -> np.ndarray:
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def test_cart_with_spring_and_damper():
    mechanism = ns.Mechanism(
        ns.Body("cart", 1.5, 0.1, position=(0.7, 0.0), velocity=(0.4, 0.0)),
        ns.Prismatic("ground", "cart", at=(0.0, 0.0), axis=(1.0, 0.0)),
        ns.Spring("ground", "cart", at_a=(-1.0, 0.0), stiffness=40.0, rest=1.2, damping=0.8, name="spring"),
    )
    text = (
        f'<mujoco>{OPTION.format("RK4")}<worldbody><body name="cart" pos="0.7 0 0">'
        '<joint name="slide" type="slide" axis="1 0 0" stiffness="40" damping="0.8" springref="-0.5"/>'
        f"{box(1.5, (0.1,) * 3)}</body></worldbody></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qvel[0] = 0.4
    for _ in range(100_000):
        mujoco.mj_step(model, data)
    assert abs(positions(mechanism, ["cart"])[0, 0] - 0.7 - data.qpos[0]) < BOUND


def test_chain_of_five_links_with_balls_and_hinges():
    n, length = 5, 0.3
    axes = {1: (0.0, 1.0, 0.0), 3: (0.0, 0.0, 1.0)}  # hinges; the others are balls
    moments = (0.001, 0.008, 0.008)
    parts: list[object] = []
    inside = ""
    for k in reversed(range(n)):
        joint = f'<joint type="hinge" axis="{" ".join(map(str, axes[k]))}"/>' if k in axes else '<joint type="ball"/>'
        place = "0 0 0" if k == 0 else f"{length} 0 0"
        inside = f'<body name="link{k}" pos="{place}">{joint}{box(0.4, moments, f"{length / 2} 0 0")}{inside}</body>'
    for k in range(n):
        parts.append(ns.Body(f"link{k}", 0.4, moments, position=((k + 0.5) * length, 0.0, 0.0)))
        before, at = ("ground" if k == 0 else f"link{k - 1}"), (k * length, 0.0, 0.0)
        parts.append(
            ns.Revolute(before, f"link{k}", at, axes[k]) if k in axes else ns.Spherical(before, f"link{k}", at)
        )
    mechanism = ns.Mechanism(*parts, gravity=(1.0, 3.0, -9.81))
    names = [f"link{k}" for k in range(n)]
    peer = positions_of_peer(inside, names, "RK4", '<option gravity="1 3 -9.81"/>')
    assert mechanism.degrees_of_freedom == 11
    assert np.abs(positions(mechanism, names) - peer).max() < BOUND
