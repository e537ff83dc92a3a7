"""restitution="reduce": impacts without a solution take place with less restitution, and are counted."""

from __future__ import annotations

from functools import partial

import hard_systems
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

REDUCING = [
    scheme(restitution="reduce")
    for scheme in (ns.Moreau, ns.GGLDecoupled, ns.Rattle, partial(ns.Lobatto, stages=2), ns.EnergyTwoStep)
]


def run(system, integrator, q0, u0, dt, steps):
    return jax.jit(jax.vmap(lambda q0, u0: ns.simulate(system, integrator, q0, u0, dt=dt, num_steps=steps)))(q0, u0)


@pytest.fixture(scope="module")
def grooves():
    """Disks thrown into a groove, with Newton's law and with a reduced one."""
    system, q0, u0, dt = hard_systems.groove(lanes=8)
    return tuple(run(system, ns.Moreau(restitution=r), q0, u0, dt, 400) for r in ("newton", "reduce"))


def test_wedged_disks_run_through(grooves):
    """All impacts have a solution; those that had none are counted, and only they."""
    newton, reduced = grooves
    ended = ~np.asarray(newton.ok)
    assert np.sum(ended) > 2 and np.all(reduced.ok)
    np.testing.assert_array_equal(np.sum(reduced.reduced, axis=1) > 0, ended)
    first = np.argmax(np.asarray(newton.status) != ns.Status.OK, axis=1)
    assert np.all(np.argmax(np.asarray(reduced.reduced) > 0, axis=1)[ended] == first[ended])


def test_motions_are_the_same_until_then(grooves):
    """Up to rounding, which differs between two programs, and which impacts amplify."""
    newton, reduced = grooves
    accepted = np.asarray(newton.status) == ns.Status.OK
    for name in ("q", "u", "P_N", "P_F"):
        old, new = (np.asarray(getattr(traj, name))[:, 1:][accepted] for traj in (newton, reduced))
        np.testing.assert_allclose(old, new, rtol=1e-8, atol=1e-8)


def test_energy_does_not_rise_in_a_reduced_impact(grooves):
    """That of u⁺ beside that of u_n + Δt g, the velocity without contacts."""
    _, reduced = grooves
    where = np.asarray(reduced.reduced) > 0
    u, inertia = np.asarray(reduced.u), np.array([1.0, 1.0, 0.005])
    free = u[:, :-1] + hard_systems.groove()[3] * np.array([0.0, -9.81, 0.0])
    before, after = (0.5 * np.sum(inertia * v**2, axis=-1)[where] for v in (free, u[:, 1:]))
    assert np.all(after <= before + 1e-9) and np.any(after < 0.5 * before)


def wedge(integrator):
    """A disk that is about to touch both walls of a groove at once: Newton's law asks for a rebound from both."""
    system = hard_systems.walled_disk(np.deg2rad(60.0), 0.4)
    height = 0.1 / np.cos(np.deg2rad(60.0)) + 2e-4
    return system, integrator, jnp.array([0.0, height, 0.0]), jnp.array([0.0, -1.0, 0.0])


@pytest.mark.parametrize("integrator", REDUCING, ids=lambda i: type(i).__name__)
def test_a_wedged_disk_stops(integrator):
    """The largest restitution is none: u⁺ = 0, the solution of the plastic impact."""
    traj = ns.simulate(*wedge(integrator), dt=1e-3, num_steps=3)
    first = int(np.argmax(traj.reduced))
    assert int(traj.reduced[first]) == 1
    np.testing.assert_allclose(traj.u[first + 1], 0.0, atol=1e-9)


def test_newtons_law_has_no_solution_there():
    traj = ns.simulate(*wedge(ns.Rattle()), dt=1e-3, num_steps=3, throw=False)
    assert ns.Status.INFEASIBLE in traj.status and traj.reduced is None


def test_derivatives_are_those_of_the_reduced_impact():
    """u⁺ = 0 whatever the approach, and the final height does not depend on e."""
    system, integrator, q0, u0 = wedge(ns.Moreau(restitution="reduce"))

    def end(speed, e):
        traj = ns.simulate(system.with_params(e=e), integrator, q0, u0 * speed, dt=1e-3, num_steps=2)
        return jnp.concatenate([traj.u[-1], traj.q[-1]])

    for derivative in (jax.jacfwd, jax.jacrev):
        by_speed, by_e = derivative(end, argnums=(0, 1))(1.0, 0.4)
        np.testing.assert_allclose(by_speed[:3], 0.0, atol=1e-9)
        np.testing.assert_allclose(by_speed[4], -0.5e-3, atol=1e-9)  # half a step with u_n
        np.testing.assert_allclose(by_e, 0.0, atol=1e-9)
