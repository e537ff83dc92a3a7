"""MJCF files against MuJoCo's C library: mass matrix, forces and poses at random states, and smooth motion."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mjcf_models import BOX_MESH, MODELS

import jaxns as ns

mujoco = pytest.importorskip("mujoco")


class Peer:
    """A model of MuJoCo without contacts, and what its coordinates are in jaxns."""

    def __init__(self, text: str):
        load = mujoco.MjModel.from_xml_string if text.startswith("<") else mujoco.MjModel.from_xml_path
        self.model = load(text)
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        self.data = mujoco.MjData(self.model)
        m = self.model
        self.free = [j for j in range(m.njnt) if m.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE]

    def random_state(self, rng: np.random.Generator) -> None:
        d = self.data
        mujoco.mj_resetData(self.model, d)
        step = rng.uniform(-1.0, 1.0, self.model.nv)
        mujoco.mj_integratePos(self.model, d.qpos, step, 1.0)
        d.qvel[:] = rng.uniform(-2.0, 2.0, self.model.nv)
        d.ctrl[:] = rng.uniform(-1.0, 1.0, self.model.nu)
        mujoco.mj_forward(self.model, d)

    def velocities(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u = T qvel, T and Ṫ qvel: free joints have that of the body's origin, jaxns that of its centre of mass."""
        m, d = self.model, self.data
        T, bend = np.eye(m.nv), np.zeros(m.nv)
        for j in self.free:
            i, body = m.jnt_dofadr[j], m.jnt_bodyid[j]
            R, c = d.xmat[body].reshape(3, 3), m.body_ipos[body]
            spin = d.qvel[i + 3 : i + 6]
            T[i : i + 3, i + 3 : i + 6] = -R @ np.array([[0, -c[2], c[1]], [c[2], 0, -c[0]], [-c[1], c[0], 0]])
            bend[i : i + 3] = R @ np.cross(spin, np.cross(spin, c))
        return T @ d.qvel, T, bend

    def positions(self) -> np.ndarray:
        m, d = self.model, self.data
        q = d.qpos - m.qpos0
        for j in range(m.njnt):
            i = m.jnt_qposadr[j]
            if m.jnt_type[j] == mujoco.mjtJoint.mjJNT_BALL:
                q[i : i + 4] = d.qpos[i : i + 4]
            if j in self.free:
                body = m.jnt_bodyid[j]
                q[i : i + 7] = d.qpos[i : i + 7]
                q[i : i + 3] = d.xipos[body]
        return q

    def mass(self) -> np.ndarray:
        M = np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, M)
        return M


def controls(peer: Peer) -> dict[str, float]:
    """By the names of the loader."""
    names: list[str] = []
    for kind in ("motor", "position", "velocity", "general")[: peer.model.nu]:
        names.append(kind)
    return dict(zip(names, peer.data.ctrl.tolist(), strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_forward_dynamics(name, rng):
    peer = Peer(MODELS[name])
    mechanism = ns.from_mjcf(MODELS[name], coordinates="joints", contacts="none", strict=True)
    assert (mechanism.frames.nq, mechanism.frames.nu) == (peer.model.nq, peer.model.nv)
    for _ in range(3):
        peer.random_state(rng)
        check_state(peer, mechanism)


def test_model_of_several_files(tmp_path, rng):
    corners = [line.strip() for line in BOX_MESH.split("  ")]
    (tmp_path / "meshes").mkdir()
    faces = ["1 4 3 2", "5 6 7 8", "1 2 6 5", "2 3 7 6", "3 4 8 7", "4 1 5 8"]
    (tmp_path / "meshes" / "brick.obj").write_text(
        "\n".join([*(f"v {c}" for c in corners), *(f"f {f}" for f in faces)])
    )
    (tmp_path / "classes.xml").write_text('<mujoco><default><joint axis="0 1 0" damping="0.3"/></default></mujoco>')
    (tmp_path / "arm.xml").write_text(
        '<mujoco><worldbody><body name="arm"><joint/><geom type="mesh" mesh="brick" pos="0.2 0 0.1" density="300"/></body>'
        "</worldbody></mujoco>"
    )
    main = tmp_path / "main.xml"
    main.write_text(
        '<mujoco><compiler meshdir="meshes"/><include file="classes.xml"/><include file="arm.xml"/>'
        '<asset><mesh file="brick.obj" scale="0.1 0.2 0.05"/></asset></mujoco>'
    )
    peer, mechanism = Peer(str(main)), ns.from_mjcf(main, coordinates="joints", contacts="none", strict=True)
    peer.random_state(rng)
    check_state(peer, mechanism)


def check_state(peer: Peer, mechanism: ns.Mechanism) -> None:
    m, d = peer.model, peer.data
    system = mechanism.system.with_params(**{f"{k}.control": v for k, v in controls(peer).items()})
    u, T, bend = peer.velocities()
    q = jnp.asarray(peer.positions())
    M, h = forces(system, q, jnp.asarray(u))
    np.testing.assert_allclose(T.T @ M @ T, peer.mass(), rtol=1e-9, atol=1e-9)
    load = d.qfrc_passive + d.qfrc_actuator - d.qfrc_bias
    np.testing.assert_allclose(T.T @ (h - M @ bend), load, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(load).max()))
    for k in range(1, m.nbody):
        position, rotation = mechanism.pose(m.body(k).name, q)
        np.testing.assert_allclose(rotation, d.xmat[k].reshape(3, 3), atol=1e-9)
        where = d.xpos[k] if m.body_weldid[k] == 0 else d.xipos[k]  # of what is fixed the place of the frame
        np.testing.assert_allclose(position, where, atol=1e-9)


@jax.jit
def forces(system: ns.System, q: Any, u: Any) -> tuple[Any, Any]:
    t = jnp.zeros(())
    return system.M(t, q), system.h(t, q, u)


IN_EVERY_RUN = ("slides of a cart", "reference positions", "motors", "hip of three hinges")


@pytest.mark.parametrize(
    "name", [name if name in IN_EVERY_RUN else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_motion_over_one_second(name, rng):
    peer = Peer(MODELS[name])
    peer.model.opt.integrator, peer.model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, 1e-4
    peer.random_state(rng)
    mechanism = ns.from_mjcf(MODELS[name], coordinates="joints", contacts="none", controls=controls(peer))
    q0, u0 = jnp.asarray(peer.positions()), jnp.asarray(peer.velocities()[0])
    for _ in range(10_000):
        mujoco.mj_step(peer.model, peer.data)
    mujoco.mj_forward(peer.model, peer.data)
    integrator = ns.EventDriven(rtol=1e-11, atol=1e-12)  # a chain of links magnifies errors by some thousand
    traj = ns.simulate(mechanism.system, integrator, q0, u0, dt=0.25, num_steps=4)
    for k in range(1, peer.model.nbody):
        if peer.model.body_weldid[k]:
            position, rotation = mechanism.pose(peer.model.body(k).name, traj.q[-1])
            assert np.abs(np.asarray(position) - peer.data.xipos[k]).max() < 1e-5
            assert np.abs(np.asarray(rotation) - peer.data.xmat[k].reshape(3, 3)).max() < 1e-5
