"""Small runs full of hard contact problems: none ends NOT_CONVERGED, and INFEASIBLE is right."""

from __future__ import annotations

from functools import partial

import hard_systems
import jax
import numpy as np
import posed_problems
import pytest
from contact_modes import planar_solution

import jaxns as ns

CASES = {  # system, steps
    "groove": (partial(hard_systems.groove, lanes=8), 400),
    "stack": (partial(hard_systems.stack, lanes=4), 30),
    "tall boxes": (partial(hard_systems.stack, boxes=2, half=(0.1, 0.5), lanes=4), 40),
    "square": (partial(hard_systems.square, lanes=16), 100),
    "cube": (partial(hard_systems.cube, lanes=4), 60),
    "cradle": (partial(hard_systems.cradle, lanes=4), 50),
}


def ends(system, integrator, q0, u0, dt, steps):
    """The first status of each lane that is not OK, or OK; the last accepted states."""

    def one(q0, u0):
        traj = ns.simulate(system, integrator, q0, u0, dt=dt, num_steps=steps)
        return traj.status, traj.q[-1], traj.u[-1]

    status, q, u = jax.jit(jax.vmap(one))(q0, u0)
    return np.max(np.where(status == ns.Status.STOPPED, 0, status), axis=1), np.asarray(q), np.asarray(u)


@pytest.mark.parametrize("integrator", [ns.Moreau(), ns.Rattle()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("case", [name for name in CASES if name != "groove"])
def test_all_steps_have_a_solution(case, integrator):
    make, steps = CASES[case]
    system, q0, u0, dt = make()
    np.testing.assert_array_equal(ends(system, integrator, q0, u0, dt, steps)[0], ns.Status.OK)


def test_disks_in_a_groove_end_where_there_is_no_solution():
    """The contact problem of the failed step by Moreau's rule, in numpy; its modes have no solution."""
    make, steps = CASES["groove"]
    system, q0, u0, dt = make()
    end, q, u = ends(system, ns.Moreau(), q0, u0, dt, steps)
    assert set(end) <= {ns.Status.OK, ns.Status.INFEASIBLE}
    failed = np.flatnonzero(end == ns.Status.INFEASIBLE)
    assert len(failed) > 2
    for lane in failed:
        middle = q[lane] + 0.5 * dt * u[lane]
        closed = np.flatnonzero(np.asarray(system.g_N(0.0, middle)) <= 0.0)
        W = np.asarray(system.W(0.0, middle, u[lane]))[:, np.concatenate([closed, 2 + closed])]
        M = np.diag([1.0, 1.0, 0.005])
        before = W.T @ u[lane]
        c = before + dt * W.T @ np.array([0.0, -9.81, 0.0])
        c[: len(closed)] += 0.4 * before[: len(closed)]
        assert planar_solution(W.T @ np.linalg.inv(M) @ W, c, np.full(len(closed), 0.8)) is None


SLOWLY = pytest.param(ns.GeneralizedAlpha(), id="GeneralizedAlpha", marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "integrator", [pytest.param(ns.Rattle(), id="Rattle"), pytest.param(ns.Lobatto(3), id="Lobatto"), SLOWLY]
)
def test_infeasible_is_said_of_problems_without_a_solution_alone(integrator):
    """All contact modes of the very problem that the failed step poses; and, so that the question can be answered with yes,
    of problems that were solved."""
    system, q0, u0, dt = hard_systems.groove(lanes=8)
    after = posed_problems.last_steps(system, integrator, q0, u0, dt)
    last, solved = after(400), after(110).solved()
    failed = last.infeasible()
    assert len(failed) > 2 and len(failed) == np.sum(last.failed)
    assert all(answer is False for _, answer in failed)
    assert len(solved) > 0 and all(solved)


@pytest.mark.slow  # the square's laws are tested step by step in test_generalized_alpha.py
@pytest.mark.parametrize("case", ["square", "cube"])
def test_generalized_alpha_where_friction_lifts_a_corner(case):
    """Of 100 such runs each, 26 and 36 did not converge while positions felt the friction of their own step."""
    make, steps = CASES[case]
    system, q0, u0, dt = make()
    np.testing.assert_array_equal(ends(system, ns.GeneralizedAlpha(), q0, u0, dt, steps)[0], ns.Status.OK)


def test_a_wedged_disk_stays_at_rest():
    """Plastic impacts leave disks between the walls of a groove, where friction holds them in all directions: what a guess
    leaves of their velocity must not drift into a position from which no percussion leads back."""
    system, q0, u0, dt = hard_systems.groove(e=0.0)
    run = jax.jit(jax.vmap(lambda q, u: ns.simulate(system, ns.Rattle(), q, u, dt=dt, num_steps=500)))
    traj = run(q0[:4], u0[:4])
    assert np.all(traj.ok)
    np.testing.assert_allclose(traj.u[:, -1], 0.0, atol=1e-10)
    gaps = jax.vmap(lambda t, q: system.g_N(t, q))(traj.t[:, -1], traj.q[:, -1])
    assert np.max(np.abs(gaps)) < 1e-9
