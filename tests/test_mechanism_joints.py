"""Limits, drives, motors, friction and clearance of joints, rolling and blades, against closed forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

WHEEL = ns.Body("wheel", 2.0, 0.5)


def simulate(mechanism: ns.Mechanism, integrator: object = None, **steps: float):
    integrator = ns.Rattle() if integrator is None else integrator
    return ns.simulate(mechanism.system, integrator, mechanism.q0, mechanism.u0, **steps)


def test_friction_in_a_joint_brakes_with_its_bound_and_holds_below_it():
    """A wheel at 4 rad/s under a friction of 0.8 N m turns t²/2 · 0.8/0.5 less, until it stops after 2.5 s."""
    spun = ns.Body("wheel", 2.0, 0.5, spin=4.0)
    mechanism = ns.Mechanism(spun, ns.Revolute("ground", "wheel", at=(0, 0), friction=0.8), gravity=(0.0, 0.0))
    traj = simulate(mechanism, dt=1e-2, t1=4.0)
    t = np.minimum(np.asarray(traj.t), 2.5)
    assert np.abs(traj.q[:, 2] - (4.0 * t - 0.8 * t**2)).max() < 1e-3
    assert np.abs(traj.u[traj.t > 2.52]).max() < 1e-9  # and then it holds
    assert np.allclose(traj.P_N[1:], 0.8 * 1e-2)
    held = mechanism.system.with_params(**{"ground-wheel.friction": 1.0})

    def angle(bound):
        system = mechanism.system.with_params(**{"ground-wheel.friction": bound})
        return ns.simulate(system, ns.Moreau(), mechanism.q0, mechanism.u0, dt=1e-2, num_steps=100).q[-1, 2]

    assert np.isclose(jax.jacfwd(angle)(0.8), -1.0, atol=2e-2)  # −t²/(2 J) after one second
    assert held.params["ground-wheel.friction"] == 1.0


def test_friction_has_no_percussion_in_an_impact():
    """A hinged bar falls on a stop: its friction takes nothing from the impact."""
    mechanism = ns.Mechanism(
        ns.Body("bar", 1.0, 0.02, position=(0.5, 0.0)),
        ns.Revolute("ground", "bar", at=(0, 0), limits=(-0.5, 0.5), e_N=0.6, friction=0.3),
    )
    traj = simulate(mechanism, ns.EventDriven(), dt=5e-3, t1=0.4)
    rate = np.asarray(traj.u[:, 2])
    k = int(np.flatnonzero(rate > 0.0)[0])
    J = 0.02 + 0.25
    falls = 2.0 * (9.81 * 0.5 * np.sin(0.5) - 0.3 * 0.5) / J  # ω² at the stop
    assert np.asarray(traj.q[:, 2]).min() > -0.5 - 1e-6
    assert abs(rate[k] - 0.6 * np.sqrt(falls)) < 0.2  # some steps after it
    down = np.asarray(traj.q[k - 1 : k + 1, 2])
    assert down.min() > -0.5 - 1e-6


def test_drive_prescribes_the_coordinate_and_its_rate():
    mechanism = ns.Mechanism(
        ns.Body("wheel", 2.0, 0.5, spin=2.0),
        ns.Revolute("ground", "wheel", at=(0, 0), drive=lambda t: jnp.sin(2.0 * t)),
    )
    traj = simulate(mechanism, dt=1e-2, t1=1.0)
    assert np.abs(traj.q[:, 2] - np.sin(2.0 * traj.t)).max() < 1e-10
    assert mechanism.constraints[-1] == "ground-wheel" and mechanism.degrees_of_freedom == 0


def test_a_drive_in_space_goes_round_and_round():
    turning = ns.Body("rotor", 1.0, (0.1, 0.2, 0.3), spin=(0.0, 0.0, 7.0))
    mechanism = ns.Mechanism(
        turning,
        ns.Revolute("ground", "rotor", at=(0, 0, 0), axis=(0, 0, 1), drive=lambda t: 7.0 * t),
        gravity=(0.0, 0.0, -9.81),
    )
    traj = simulate(mechanism, dt=1e-2, t1=2.0)
    angle = 2.0 * np.unwrap(np.arctan2(traj.q[:, 6], traj.q[:, 3]), period=np.pi)
    assert np.abs(angle - 7.0 * traj.t).max() < 1e-8


def test_motor_with_feedback_and_a_sampled_one():
    pulled = ns.Revolute("ground", "wheel", at=(0, 0), motor=lambda t, x, v, p: -2.0 * x - 0.4 * v + 1.0)
    traj = simulate(ns.Mechanism(WHEEL, pulled, gravity=(0, 0)), dt=1e-3, t1=1.0)
    w, delta = np.sqrt(2.0 / 0.5 - 0.16), 0.4  # of 0.5 φ'' = 1 − 2 φ − 0.4 φ'
    t = np.asarray(traj.t)
    exact = 0.5 * (1.0 - np.exp(-delta * t) * (np.cos(w * t) + delta / w * np.sin(w * t)))
    assert np.abs(traj.q[:, 2] - exact).max() < 1e-5
    sampled = ns.Revolute("ground", "wheel", at=(0, 0), motor=ns.Signal([0.0, 1.0], [0.0, 3.0]))
    mechanism = ns.Mechanism(WHEEL, sampled, gravity=(0, 0))
    assert "ground-wheel.values" in mechanism.system.params
    assert np.isclose(simulate(mechanism, dt=1e-3, t1=1.0).q[-1, 2], 1.0, atol=1e-5)  # 3 t³/6 / 0.5


def test_journal_with_clearance_swings_inside_of_its_bearing():
    mechanism = ns.Mechanism(
        ns.Body("bob", 1.0, 0.01, position=(0.0, -0.3)),
        ns.Revolute("ground", "bob", at=(0, 0), clearance=1e-3, radius=0.01, e_N=0.2, mu=0.1, name="pin"),
    )
    assert np.isclose(mechanism.system.g_N(0.0, mechanism.q0)[0], 1e-3)
    assert mechanism.degrees_of_freedom == 3
    traj = simulate(mechanism, dt=1e-3, t1=0.5)
    arm = np.column_stack([-np.sin(traj.q[:, 2]), np.cos(traj.q[:, 2])]) * 0.3
    offset = np.linalg.norm(traj.q[:, :2] + arm, axis=1)
    assert offset.max() < 1e-3 + 1e-9
    assert np.isclose(offset[-1], 1e-3, atol=1e-6)  # it hangs
    assert np.isclose(traj.P_N[-50:].mean() / 1e-3, 9.81, rtol=1e-3)
    finer = mechanism.system.with_params(**{"pin.clearance": 5e-4})
    assert np.isclose(finer.g_N(0.0, mechanism.q0)[0], 5e-4)


def test_a_disk_rolls_down_a_slope():
    """a = g sin α / (1 + J/(m r²)) = 2/3 g sin α."""
    slope = 0.3
    normal = np.array([-np.sin(slope), np.cos(slope)])
    mechanism = ns.Mechanism(
        ns.Body("wheel", 1.0, position=tuple(0.2 * normal), shape=ns.shapes.Disk(0.2)),
        ns.Body("slope", fixed=True, angle=slope, shape=ns.shapes.HalfSpace()),
        ns.Rolling("wheel", "slope"),
    )
    traj = simulate(mechanism, dt=1e-3, t1=1.0)
    way = np.linalg.norm(traj.q[-1, :2] - traj.q[0, :2])
    assert np.isclose(way, 0.5 * 2.0 / 3.0 * 9.81 * np.sin(slope), rtol=2e-3)
    assert np.isclose(abs(traj.q[-1, 2]), way / 0.2, rtol=2e-3)


def test_a_sled_on_a_blade_goes_in_a_circle():
    mechanism = ns.Mechanism(
        ns.Body("sled", 1.0, 0.1, velocity=(1.0, 0.0), spin=2.0),
        ns.Skate("sled", at=(0.0, 0.0), direction=(1.0, 0.0)),
        gravity=(0.0, 0.0),
    )
    traj = simulate(mechanism, dt=1e-3, t1=1.0)
    circle = 0.5 * np.array([np.sin(2.0), 1.0 - np.cos(2.0)])
    assert np.abs(traj.q[-1, :2] - circle).max() < 2e-3


def test_options_that_cannot_be_are_named():
    for message, joint in {
        "clearance is for": ns.Prismatic("ground", "wheel", at=(0, 0), axis=(1, 0), clearance=0.1, radius=0.1),
        "give its radius": ns.Revolute("ground", "wheel", at=(0, 0), clearance=0.1),
        "limits must be": ns.Revolute("ground", "wheel", at=(0, 0), limits=(1.0, -1.0)),
        "are for Revolute and Prismatic": ns.Fixed("ground", "wheel", at=(0, 0), motor=1.0),
        "friction must be at least 0": ns.Revolute("ground", "wheel", at=(0, 0), friction=-1.0),
        "drive must be a function": ns.Revolute("ground", "wheel", at=(0, 0), drive=1.0),
    }.items():
        with pytest.raises(ns.MechanismError, match=message):
            ns.Mechanism(WHEEL, joint)
