"""The same mechanisms in coordinates of joints and of bodies: motions, through impacts as well, and their derivatives.

Schemes of fixed steps differ in both by their errors. So RATTLE is extrapolated to Δt = 0, from three step sizes: its error
has even powers of Δt alone while contacts persist.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

BOUND = 1e-8
DOWN = (0.0, 0.0, -9.81)
SLOW = pytest.mark.slow


def double_pendulum() -> tuple[list[Any], Any]:
    return [
        ns.Body("upper", 1.2, 0.02, position=(0.25, 0.0)),
        ns.Body("lower", 0.7, 0.01, position=(0.5, -0.2), angle=-np.pi / 2),
        ns.Revolute("ground", "upper", at=(0.0, 0.0), damping=0.05, armature=0.01),
        ns.Revolute("lower", "upper", at=(0.5, 0.0), stiffness=2.0, rest=0.3, limits=(-0.6, 1.0), e_N=0.5),
    ], (0.0, -9.81)


def slider_crank() -> tuple[list[Any], Any]:
    """With a loop, and a slider that hits a stop."""
    return [
        ns.Body("crank", 1.0, 0.01, position=(0.1, 0.0), velocity=(0.0, 0.3), spin=3.0),
        ns.Body("rod", 0.5, 0.02, position=(0.4, 0.0), velocity=(0.0, 0.3), spin=-1.5),
        ns.Body("slider", 0.8, 0.005, position=(0.6, 0.0), shape=ns.shapes.Disk(0.05)),
        ns.Body("stop", fixed=True, position=(0.5, 0.0), angle=-np.pi / 2, shape=ns.shapes.HalfSpace()),
        ns.Revolute("ground", "crank", at=(0.0, 0.0)),
        ns.Revolute("crank", "rod", at=(0.2, 0.0)),
        ns.Revolute("rod", "slider", at=(0.6, 0.0)),
        ns.Prismatic("ground", "slider", at=(0.6, 0.0), axis=(1.0, 0.0)),
        ns.Touch("slider", "stop", e_N=0.6),
    ], (0.0, -9.81)


def dragged_arm() -> tuple[list[Any], Any]:
    """A cart draws an arm, whose end slides on the floor all the time."""
    return [
        ns.Body("cart", 2.0, 0.1, position=(0.0, 0.5), velocity=(1.5, 0.0)),
        ns.Body("arm", 0.5, 0.02, position=(-0.3, 0.05), angle=0.4, velocity=(1.5, 0.0), shape=ns.shapes.Disk(0.05)),
        ns.Body("floor", fixed=True, shape=ns.shapes.HalfSpace()),
        ns.Prismatic("ground", "cart", at=(0.0, 0.5), axis=(1.0, 0.0)),
        ns.Revolute("cart", "arm", at=(0.0, 0.5)),
        ns.Spring("ground", "cart", stiffness=3.0, at_a=(1.5, 0.5), name="spring"),
        ns.Touch("arm", "floor", e_N=0.0, mu=0.3),
    ], (0.0, -9.81)


def spatial_chain() -> tuple[list[Any], Any]:
    tensor = np.array([[0.02, 0.001, -0.002], [0.001, 0.03, 0.0015], [-0.002, 0.0015, 0.025]])
    return [
        ns.Body("a", 1.0, tensor, position=(0.2, 0.0, 0.0), orientation=(0.9, 0.1, -0.3, 0.2)),
        ns.Body("b", 0.8, (0.01, 0.02, 0.02), position=(0.6, 0.0, 0.0)),
        ns.Body("c", 0.6, (0.01, 0.02, 0.015), position=(1.0, 0.0, 0.1)),
        ns.Body("d", 0.3, (0.005, 0.006, 0.004), position=(1.3, 0.0, 0.0)),
        ns.Body("e", 0.2, (0.004, 0.003, 0.005), position=(1.3, 0.2, 0.0)),
        ns.Spherical("ground", "a", at=(0.0, 0.0, 0.0), damping=0.05),
        ns.Universal("a", "b", at=(0.4, 0.0, 0.0), axis=(0.0, 1.0, 0.0), axis_b=(0.0, 0.0, 1.0)),
        ns.Revolute("b", "c", at=(0.8, 0.0, 0.0), axis=(0.0, 1.0, 0.2), armature=0.02, stiffness=1.0, damping=0.02),
        ns.Cylindrical("c", "d", at=(1.2, 0.0, 0.0), axis=(1.0, 0.0, 0.1)),
        ns.Fixed("d", "e", at=(1.3, 0.1, 0.0)),
        ns.Spring("c", "d", stiffness=80.0, damping=0.5, name="spring"),
    ], DOWN


def tossed_elbow() -> tuple[list[Any], Any]:
    """Two balls on arms with a hinge, tossed on the floor: the first one slides through its impact."""
    ball = ns.shapes.Sphere(0.05)
    return [
        ns.Body("one", 0.4, (0.001, 0.002, 0.0015), position=(0.0, 0.0, 0.2), velocity=(0.5, 0.1, 0.0), shape=ball),
        ns.Body("two", 0.3, (0.001, 0.001, 0.002), position=(0.15, 0.0, 0.3), velocity=(0.5, 0.1, 0.0), shape=ball),
        ns.Body("floor", fixed=True, shape=ns.shapes.HalfSpace()),
        ns.Revolute("one", "two", at=(0.1, 0.0, 0.2), axis=(0.0, 1.0, 0.0), damping=0.02),
        ns.Touch("one", "floor", e_N=0.5, mu=0.03),
        ns.Touch("two", "floor", e_N=0.5, mu=0.2),
    ], DOWN


ALL: dict[str, tuple[Callable[[], tuple[list[Any], Any]], float, tuple[str, ...]]] = {  # time, parameters to derive by
    "double pendulum": (double_pendulum, 0.8, ("lower.mass", "gravity", "ground-upper.damping", "lower-upper.e_N")),
    "slider-crank": (slider_crank, 0.3, ("rod.mass", "slider-stop.e_N")),
    "dragged arm": (dragged_arm, 0.3, ("arm.mass", "arm-floor.mu", "spring.stiffness")),
    "spatial chain": (spatial_chain, 0.4, ("b.mass", "gravity", "b-c.stiffness")),
    "tossed elbow": (tossed_elbow, 0.3, ("one.mass", "one-floor.e_N", "one-floor.mu")),
}


def both(name: str) -> list[ns.Mechanism]:
    parts, gravity = ALL[name][0]()
    return [ns.Mechanism(*parts, gravity=gravity, coordinates=kind) for kind in ("bodies", "joints")]


def end(mechanism: ns.Mechanism, integrator: Any, dt: Any, steps: int) -> Callable[[dict[str, Any]], jax.Array]:
    """The state of the bodies at the end, as a function of parameters."""

    def of(params: dict[str, Any]) -> jax.Array:
        system = mechanism.system.with_params(**params)
        traj = ns.simulate(system, integrator, mechanism.q0, mechanism.u0, dt=dt, num_steps=steps, save_every=steps)
        q, u = traj.q[-1], traj.u[-1]
        if mechanism.coordinates == "joints":
            q, u = mechanism.to_bodies(q, u, system.params)
        return jnp.concatenate([q, u])

    return of


@SLOW
@pytest.mark.parametrize("name", ALL)
def test_event_driven_motions_and_derivatives_agree(name):
    _, t1, keys = ALL[name]
    found = []
    for mechanism in both(name):
        function = end(mechanism, ns.EventDriven(rtol=1e-11, atol=1e-12), t1 / 4, 4)
        params = {key: mechanism.system.params[key] for key in keys}
        # One program for motion and derivatives, which takes minutes in space.
        both_of = jax.jacfwd(lambda p, f=function: (f(p),) * 2, has_aux=True)
        found.append(jax.jit(both_of)(params)[::-1])
    (x, dx), (y, dy) = found
    assert np.abs(x - y).max() < BOUND
    for key in keys:
        assert np.abs(dx[key] - dy[key]).max() < BOUND * max(1.0, float(np.abs(dx[key]).max())), key
        assert np.abs(dx[key]).max() > 1e-4, key  # it does something


@pytest.mark.parametrize("name", ["dragged arm", pytest.param("spatial chain", marks=SLOW)])
def test_rattle_agrees_in_the_limit_of_small_steps(name):
    found = []
    for mechanism in both(name):
        rows = []
        for k in (1, 2, 4):
            n = 150 * k
            traj = ns.simulate(
                mechanism.system, ns.Rattle(tol=1e-13), mechanism.q0, mechanism.u0, dt=0.3 / n, num_steps=n,
                save_every=15 * k,
            )  # fmt: skip
            q, u = traj.q, traj.u
            if mechanism.coordinates == "joints":
                q, u = jax.vmap(mechanism.to_bodies)(q, u)
            rows.append(np.concatenate([q, u], axis=1))
            if name == "dragged arm":
                assert np.all(traj.P_N[1:] > 0.0)  # it slides all the time
        once = [(4.0 * fine - coarse) / 3.0 for coarse, fine in pairwise(rows)]
        found.append((16.0 * once[1] - once[0]) / 15.0)
    assert np.abs(found[0][-1] - found[1][-1]).max() < BOUND


@SLOW
@pytest.mark.parametrize("name", ["dragged arm", "spatial chain"])
def test_lobatto_agrees(name):
    steps = 300
    x, y = (end(mechanism, ns.Lobatto(stages=3, tol=1e-12), 0.3 / steps, steps)({}) for mechanism in both(name))
    assert np.abs(x - y).max() < BOUND


@pytest.mark.parametrize("name", ALL)
def test_states_convert_back_and_forth(name):
    bodies, joints = both(name)
    q, u = joints.to_bodies(joints.q0, joints.u0)
    np.testing.assert_allclose(q, bodies.q0, atol=1e-10)
    np.testing.assert_allclose(u, bodies.u0, atol=1e-10)
    back = bodies.to_joints(q, u)
    np.testing.assert_allclose(back[0], joints.q0, atol=1e-12)
    np.testing.assert_allclose(back[1], joints.u0, atol=1e-12)
    assert joints.degrees_of_freedom == bodies.degrees_of_freedom


def test_energies_agree_in_random_states(rng):
    for name in ("double pendulum", "spatial chain", "tossed elbow"):
        bodies, joints = both(name)
        q = joints.q0 + 0.3 * rng.standard_normal(joints.q0.shape)
        u = rng.standard_normal(joints.u0.shape)
        x, v = joints.to_bodies(q, u)
        t = jnp.zeros(())
        kinetic = joints.system.kinetic_energy(t, q, u), bodies.system.kinetic_energy(t, x, v)
        potential = joints.system.potential_energy(t, q), bodies.system.potential_energy(t, x)
        np.testing.assert_allclose(*kinetic, rtol=1e-9)
        np.testing.assert_allclose(*potential, rtol=1e-9)
        assert np.abs(bodies.system.g(t, x)).max() < 1e-12
        assert np.abs(bodies.system.g_dot(t, x, v)).max() < 1e-11
