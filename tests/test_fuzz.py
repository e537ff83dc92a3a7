"""Random runs judged by tests/step_laws.py, and the judge itself: it must see each kind of wrong step."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_starts import random_states, random_systems
from step_laws import LAWS, defects, steps_of

import jaxns as ns

LIMIT = 100.0  # tolerances
STEPS = 12


def trajectories(systems, integrator, q0, u0, dt):
    def one(system, q0, u0):
        return ns.simulate(system, integrator, q0, u0, dt=dt, num_steps=STEPS)

    return jax.jit(jax.vmap(one))(systems, q0, u0)


@pytest.fixture(scope="module")
def ball():
    """Balls that slide, bounce and fly (lanes 0, 1, 2) with RATTLE."""
    problem = ns.models.bouncing_ball()
    params = {name: jnp.broadcast_to(value, (3,)) for name, value in problem.system.params.items()}
    systems = problem.system.with_tree({**params, "e_N": jnp.array([0.0, 0.5, 0.0])})
    q0 = jnp.array([[0.0, 0.1, 0.0], [0.0, 0.15, 0.0], [0.0, 1.0, 0.0]])
    u0 = jnp.array([[2.0, 0.0, 0.0], [2.0, -1.0, 0.0], [1.0, 0.0, 3.0]])
    return systems, trajectories(systems, ns.Rattle(), q0, u0, 1e-2)


@pytest.mark.parametrize("integrator", [ns.Moreau(), ns.Rattle()], ids=lambda i: type(i).__name__)
def test_random_steps_keep_what_their_scheme_promises(integrator):
    """Woodpeckers: three contacts with friction and restitution; those of the benchmark are many more."""
    rng = np.random.default_rng(3)
    problem = ns.models.woodpecker()
    systems = random_systems(problem.system, 8, rng)
    systems, q0, u0 = random_states(systems, problem.q0, problem.u0, [0.0, 0.05, 0.2], [0.3, 3.0, 5.0], rng)
    traj = trajectories(systems, integrator, q0, u0, 2e-4)
    assert np.all(traj.ok) and np.any(np.asarray(traj.P_N) > 0.0)
    for law, defect in defects(steps_of(systems, traj), type(integrator).__name__).items():
        assert np.max(defect) <= LIMIT, law


def test_right_steps_have_no_defect(ball):
    systems, traj = ball
    assert np.all(traj.ok)
    impact, bounce, slide = np.asarray(traj.P_N)[:, :, 0].T[:, 1] > 0, np.asarray(traj.P_N)[1], np.asarray(traj.P_F)[0]
    assert impact.any() and (bounce > 0.0).sum() >= 1 and (slide[1:] < 0.0).all()
    for law, defect in defects(steps_of(systems, traj), "Rattle").items():
        assert np.max(defect) <= 1.0, law


def changed(traj, name, lane, step, change):
    values = np.array(getattr(traj, name))
    values[lane, step] = change(values[lane, step])
    return replace(traj, **{name: jnp.asarray(values)})


WRONG = {  # the law, the scheme, what is changed in which lane and row, and by how much
    "NaN in a state": ("finite", "Rattle", "u", 0, 5, lambda u: u * np.nan),
    "penetration": ("gap", "Rattle", "q", 0, 5, lambda q: q - np.array([0.0, 1e-7, 0.0])),
    "a contact that pulls": ("pull", "Rattle", "P_N", 0, 5, lambda P: -P),
    "a percussion in flight": ("open", "Rattle", "P_N", 2, 5, lambda P: P + 1e-7),
    "a percussion in flight at the midpoint": ("open", "Moreau", "P_N", 2, 5, lambda P: P + 1e-7),
    "a percussion in flight at the beginning": ("open", "EnergyTwoStep", "P_N", 2, 5, lambda P: P + 1e-7),
    "too much rebound": ("complementarity", "Rattle", "u", 0, 5, lambda u: u + np.array([0.0, 1e-7, 0.0])),
    "friction beyond its cone": ("cone", "Rattle", "P_F", 0, 5, lambda P: P * 1.0001),
    "friction along the slip": ("slip", "Rattle", "P_F", 0, 5, lambda P: -P),
    "too little friction": ("slip", "Rattle", "P_F", 0, 5, lambda P: 0.999 * P),
    "a push out of nothing": ("momentum", "Moreau", "u", 2, 5, lambda u: u + 1e-7),
    "energy out of nothing": ("energy", "EnergyConstantMass", "u", 2, 5, lambda u: u * (1.0 + 1e-7)),
    "energy out of an impact": ("energy", "EnergyTwoStep", "u", 2, 5, lambda u: u * (1.0 + 1e-7)),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_step_is_seen(ball, case):
    law, scheme, name, lane, row, change = WRONG[case]
    systems, traj = ball
    wrong = changed(traj, name, lane, row, change)
    if law in ("momentum", "energy"):  # the parabola of free flight is that of Moreau's rule and of every scheme
        assert defects(steps_of(systems, traj), scheme)[law][lane, row - 1] <= 1.0
    found = defects(steps_of(systems, wrong), scheme)
    assert found[law][lane, row - 1] > LIMIT
    others = np.delete(np.arange(STEPS), [row - 1, row])
    assert np.max(found["finite"][:, others]) == 0.0


def test_a_contact_that_closes_further_is_seen(ball):
    """ξ_N < 0 without a percussion, below the floor."""
    systems, traj = ball
    wrong = changed(traj, "q", 2, 5, lambda q: q * np.array([1.0, 0.0, 1.0]))
    assert defects(steps_of(systems, wrong), "Rattle")["approach"][2, 4] > LIMIT


def test_a_broken_constraint_is_seen():
    problem = ns.models.slider_crank_bilateral()
    systems = jax.tree.map(lambda x: x[None], problem.system)
    q0, u0 = problem.q0[None], problem.u0[None]
    still = ns.Trajectory(
        t=jnp.array([[0.0, 1e-4]]), q=jnp.stack([q0, q0], 1), u=jnp.stack([u0, u0], 1), P_g=jnp.zeros((1, 2, 1)),
        P_gamma=jnp.zeros((1, 2, 0)), P_N=jnp.zeros((1, 2, 0)), P_F=jnp.zeros((1, 2, 0, 0)), status=jnp.zeros((1, 1), int),
        iterations=None, residual=None, stage_iterations=None, worst_row=None,
    )  # fmt: skip
    assert defects(steps_of(systems, still), "Rattle")["constraint"][0, 0] <= 1.0
    for name in ("q", "u"):
        wrong = changed(still, name, 0, 1, lambda x: x + 1e-5)
        assert defects(steps_of(systems, wrong), "Rattle")["constraint"][0, 0] > LIMIT


def test_every_law_is_tried():
    assert {law for law, *_ in WRONG.values()} | {"approach", "constraint"} == set(LAWS)
