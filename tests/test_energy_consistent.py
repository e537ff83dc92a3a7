"""Energy-consistent integrators: the energy balance of every step for every step size, and the thesis's examples.

(Möller 2011, chapters 5 and 6.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrators import CONSISTENT
from small_problems import rolling_pendulum

import jaxns as ns

TOL = 1e-10
DTS = jnp.array([1e-5, 1e-4, 1e-3, 1e-2])
DIFFERENT_RESTITUTION = pytest.mark.filterwarnings("ignore:coupled contacts have different restitution")


def chain():
    """A double pendulum in angles above a floor: M depends on q."""
    return ns.System(
        {"e_N": 1.0},
        mass=lambda t, q, p: (
            jnp.array([[2.0, 0.0], [0.0, 1.0]]) + jnp.cos(q[0] - q[1]) * jnp.array([[0.0, 1.0], [1.0, 0.0]])
        ),
        potential=lambda t, q, p: -9.81 * (2.0 * jnp.cos(q[0]) + jnp.cos(q[1])),
        contacts=ns.Contacts(lambda t, q, p: 1.8 - (jnp.cos(q[:1]) + jnp.cos(q[1:])), e_N=lambda p: p["e_N"]),
    )


CHAIN = ns.Problem(chain(), jnp.array([1.3, 0.4]), jnp.array([0.0, -1.0]), t1=1.0, dt=1e-2)
ELASTIC = {
    "oscillator": (ns.models.impact_oscillator(e_N=1.0), ns.EnergyTwoStep()),
    "double pendulum, one step": (ns.models.double_pendulum(), ns.EnergyConstantMass()),
    "double pendulum, normals of the beginning": (ns.models.double_pendulum(), ns.EnergyConstantMass(normals="begin")),
    "double pendulum, two steps": (ns.models.double_pendulum(), ns.EnergyTwoStep()),
    "wheel": (ns.models.overbalanced_wheel(n=6, e_N=1.0), ns.EnergyTwoStep()),
    "chain, one step": (CHAIN, ns.EnergyCoordinateMass()),
    "chain, two steps": (CHAIN, ns.EnergyTwoStep()),
}
DISSIPATIVE = {
    "oscillator": (ns.models.impact_oscillator(), ns.EnergyTwoStep()),
    "double pendulum": (ns.models.double_pendulum(e_N=0.5), ns.EnergyTwoStep()),
    "wheel": (ns.models.overbalanced_wheel(n=6), ns.EnergyTwoStep()),
    "chain": (replace(CHAIN, system=CHAIN.system.with_params(e_N=0.3)), ns.EnergyTwoStep()),
    "woodpecker": (ns.models.woodpecker(), ns.EnergyTwoStep()),
    "tippe top, one step": (ns.models.tippe_top(), ns.EnergyQuaternion()),
    "tippe top, two steps": (ns.models.tippe_top(), ns.EnergyQuaternionTwoStep()),
    "tippe top, exact set": (ns.models.tippe_top(law=ns.Contensou("exact")), ns.EnergyQuaternionTwoStep()),
}


@partial(jax.jit, static_argnums=0)
def batch(integrator, system, q0, u0):
    """Runs with the step sizes DTS; new coefficients of a system do not compile anew."""

    def run(dt):
        traj = ns.simulate(system, integrator, q0, u0, dt=dt, num_steps=150)
        energy = ns.energy(system, traj)
        return energy.total, jnp.max(jnp.abs(energy.kinetic)) + jnp.max(jnp.abs(energy.potential)), traj.ok, traj.P_N

    return jax.vmap(run)(DTS)


def energies(problem, integrator):
    """Total energies (4, N+1) of the batch, and how large the energies are."""
    E, scale, ok, P_N = batch(integrator, problem.system, problem.q0, problem.u0)
    assert np.all(ok)
    assert np.any(np.asarray(P_N) > 0.0)  # contacts act
    return np.asarray(E), np.asarray(scale)[:, None]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "wheel" else ()) for n in ELASTIC])
def test_energy_is_constant(name):
    E, scale = energies(*ELASTIC[name])
    assert np.max(np.abs(np.diff(E)) / scale) <= 10 * TOL


SLOW = ("wheel", "tippe top, exact set", "tippe top, one step", "tippe top, two steps")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in DISSIPATIVE])
def test_energy_never_rises(name):
    E, scale = energies(*DISSIPATIVE[name])
    assert np.max(np.diff(E) / scale) <= 10 * TOL
    assert E[-1, -1] < E[-1, 0] - 1e-5 * scale[-1]  # and falls


def test_damping_and_friction_dissipate():
    """A block on a spring with friction and a damper, at any step size."""
    block = ns.System(
        {"d": 0.5},
        mass=lambda t, q, p: jnp.eye(2),
        potential=lambda t, q, p: 50.0 * q[0] ** 4 + 10.0 * q[1],
        force=lambda t, q, u, p: -p["d"] * jnp.stack([u[0] ** 3 + u[0], 0.0 * u[0]]),
        contacts=ns.Contacts(lambda t, q, p: q[1:], lambda t, q, u, p: u[None, :1], mu=0.1),
    )
    problem = ns.Problem(block, jnp.array([1.0, 0.0]), jnp.zeros(2), t1=1.0, dt=1e-2)
    E, scale = energies(problem, ns.EnergyTwoStep())
    assert np.max(np.diff(E) / scale) <= 10 * TOL
    assert E[-1, -1] < 0.5 * E[-1, 0]


@pytest.mark.parametrize("normals", ["discrete", "begin"])
def test_contact_follows_a_moving_floor(normals):
    """A mass on a floor that rises with 0.1 m/s rises with it."""
    lift = ns.System(
        {}, mass=lambda t, q, p: jnp.eye(1), potential=lambda t, q, p: 9.81 * q[0],
        contacts=ns.Contacts(lambda t, q, p: q - 0.1 * t),
    )  # fmt: skip
    traj = ns.simulate(lift, ns.EnergyTwoStep(normals=normals), jnp.zeros(1), jnp.array([0.1]), dt=1e-2, num_steps=50)
    np.testing.assert_allclose(traj.q[:, 0], 0.1 * traj.t, atol=1e-9)
    np.testing.assert_allclose(traj.P_N[1:, 0], 9.81e-2, rtol=1e-6)


def test_order_with_a_mass_matrix_of_the_coordinates():
    """(5.58) is of first order, because M and G are those of the beginning of the step."""
    fine = ns.simulate(CHAIN.system, ns.Rattle(tol=1e-12), CHAIN.q0, CHAIN.u0, dt=1e-4, num_steps=1000).q[-1]
    errors = []
    for row, dt in ((50, 2e-3), (100, 1e-3)):
        traj = ns.simulate(CHAIN.system, ns.EnergyCoordinateMass(), CHAIN.q0, CHAIN.u0, dt=dt, num_steps=100)
        errors.append(float(jnp.abs(traj.q[row] - fine).max()))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1.0, abs=0.15)


# The thesis's examples ----------------------------------------------------------------------------------------------


def run(problem, integrator, dt, t1, **arguments):
    arguments = {"throw": False, **arguments}
    return ns.simulate(problem.system, integrator, problem.q0, problem.u0, dt=dt, t1=t1, **arguments)


def test_impact_oscillator_is_stable_where_moreau_diverges():
    """dt 1e-3: the energy falls step by step, or grows without bound; at 1e-5 both agree (§6.1)."""
    p = ns.models.impact_oscillator()
    consistent, moreau = run(p, ns.EnergyTwoStep(), 1e-3, 0.5), run(p, ns.Moreau(), 1e-3, 0.5)
    assert bool(consistent.ok)
    assert float(jnp.abs(consistent.q).max()) < 0.2
    assert not bool(moreau.ok) or float(jnp.abs(moreau.q).max()) > 1e3
    a, b = (run(p, i, 1e-5, 0.1, save_every=100) for i in (ns.EnergyTwoStep(), ns.Moreau()))
    assert float(jnp.ptp(a.q[:, 0])) > 0.01
    np.testing.assert_allclose(a.q[:, 0], b.q[:, 0], atol=1e-5)


def test_double_pendulum_keeps_its_energy_where_moreau_does_not():
    """dt 0.01 (Fig. 6.6)."""
    p = ns.models.double_pendulum()
    change = {}
    for integrator in (ns.EnergyTwoStep(), ns.EnergyConstantMass(), ns.Moreau()):
        E = np.asarray(ns.energy(p.system, run(p, integrator, 1e-2, 2.0)).total)
        change[type(integrator).__name__] = np.abs(E - E[0]).max()
    assert change["EnergyTwoStep"] <= 1e-8 and change["EnergyConstantMass"] <= 1e-8
    assert change["Moreau"] > 0.05


def test_constraints_on_position_level_alone_let_velocities_oscillate():
    """(5.31): ġ goes up and down from step to step; (5.49) holds it at zero."""
    pendulum = ns.System(
        {},
        mass=lambda t, q, p: jnp.eye(2),
        potential=lambda t, q, p: 9.81 * q[1],
        constraint=lambda t, q, p: 0.5 * (q @ q - 1.0)[None],
    )
    problem = ns.Problem(pendulum, jnp.array([1.0, 0.0]), jnp.array([0.0, -3.0]), t1=1.0, dt=1e-2)
    rates = {}
    for levels in ("position", "both"):
        traj = run(problem, ns.EnergyConstantMass(levels=levels), 0.02, 2.0)
        assert bool(traj.ok)
        rates[levels] = np.asarray(jax.vmap(partial(pendulum.g_dot, 0.0))(traj.q, traj.u))[1:, 0]
    assert np.abs(rates["both"]).max() <= 1e-9
    assert np.abs(rates["position"]).max() > 1e-3
    turns = np.diff(rates["position"])
    assert np.mean(turns[1:] * turns[:-1] < 0.0) > 0.9


@DIFFERENT_RESTITUTION
@pytest.mark.parametrize(
    "integrator",
    [
        ns.Moreau(),
        ns.EnergyTwoStep(),
        *(pytest.param(i, marks=pytest.mark.slow) for i in (ns.Rattle(), ns.Lobatto(stages=3))),
    ],
)
def test_woodpecker_pecks_with_the_same_period(integrator):
    """dt 1e-5: period, sleeve and bird of the limit cycle (Figs. 6.16–6.18)."""
    p = ns.models.woodpecker()
    traj = run(p, integrator, 1e-5, 0.4, save_every=10)
    assert bool(traj.ok)
    t, phi = np.asarray(traj.t), np.asarray(traj.q[:, 2])
    up = np.flatnonzero((phi[:-1] < 0.0) & (phi[1:] >= 0.0))
    crossings = t[up] - phi[up] * (t[up + 1] - t[up]) / (phi[up + 1] - phi[up])
    np.testing.assert_allclose(np.diff(crossings), 0.146, rtol=5e-3)
    assert phi.min() == pytest.approx(-0.530, abs=1e-3)
    assert phi.max() == pytest.approx(0.120, abs=1e-3)
    np.testing.assert_allclose([traj.q[:, 1].min(), traj.q[:, 1].max()], [-0.1034, 0.1034], atol=5e-4)
    assert float(traj.q[-1, 0]) == pytest.approx(-0.0466, abs=2e-4)


@DIFFERENT_RESTITUTION
def test_sticking_oscillates_unless_friction_is_moreaus():
    """dt 1e-3, while the sleeve sticks (Fig. 6.19)."""
    p = ns.models.woodpecker()
    stuck = slice(25, 50)
    u = {s: np.asarray(run(p, ns.EnergyTwoStep(sticking=s), 1e-3, 0.06).u[stuck, 0]) for s in ("consistent", "moreau")}
    assert np.all(u["consistent"][1:] * u["consistent"][:-1] < 0.0)
    assert np.abs(u["consistent"]).min() > 1e-3
    assert np.abs(u["moreau"]).max() <= 1e-8


def inclination(traj):
    a = np.asarray(traj.q[:, 3:])
    cosine = (a[:, 0] ** 2 + a[:, 3] ** 2 - a[:, 1] ** 2 - a[:, 2] ** 2) / np.sum(a * a, axis=1)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


def smallest_gap(problem, traj):
    return float(jax.vmap(partial(problem.system.g_N, 0.0))(traj.q).min())


@pytest.mark.parametrize("shape", ["sphere", pytest.param("exact", marks=pytest.mark.slow)])
def test_tippe_top_inverts_without_drift_in_two_steps(shape):
    """From 0.1 rad to beyond π/2 within 2 s, with E_F and with B_F; dt 1e-3."""
    p = ns.models.tippe_top(law=ns.Contensou(shape))
    traj = run(p, ns.EnergyQuaternionTwoStep(), 1e-3, 2.0)
    assert bool(traj.ok)
    assert inclination(traj)[0] == pytest.approx(0.1)
    assert inclination(traj)[-1] > 2.5
    assert smallest_gap(p, traj) > -1e-4  # what the instant of the handle's touch-down costs
    assert smallest_gap(p, replace(traj, q=traj.q[:800])) > -1e-10  # no drift while the main sphere is on the floor


@pytest.mark.parametrize("integrator", [ns.EnergyQuaternion(), ns.Moreau()])
def test_tippe_top_sinks_with_other_schemes(integrator):
    p = ns.models.tippe_top()
    assert smallest_gap(p, run(p, integrator, 1e-3, 0.8)) < -1e-5


def test_sprag_clutch_makes_energy_and_jaxns_warns():
    p = ns.models.sprag_clutch(u1=1.5, u2=-1.0, m=2.0)
    with pytest.warns(UserWarning, match="different restitution coefficients"):
        traj = ns.simulate(p.system, ns.EnergyTwoStep(), p.q0, p.u0, dt=1e-2, num_steps=1)
    np.testing.assert_allclose(traj.u[1], [0.0, 2.5], atol=1e-9)
    E = ns.energy(p.system, traj).total
    assert float(E[1] - E[0]) == pytest.approx(2.0 * 1.5 * 1.0, rel=1e-9)


# The contract -------------------------------------------------------------------------------------------------------

BALL = ns.models.bouncing_ball(omega=50.0, e_N=0.3)
POLAR = ns.Problem(  # a particle in polar coordinates q = (r, φ), u = (ṙ, r φ̇), over a floor
    ns.System(
        {"m": 2.0},
        mass=lambda t, q, p: p["m"] * jnp.eye(2),
        kinematics=lambda t, q, u, p: jnp.stack([u[0], u[1] / q[0]]),
        potential=lambda t, q, p: 9.81 * p["m"] * q[0] * jnp.sin(q[1]),
        contacts=ns.Contacts(lambda t, q, p: q[:1] * jnp.sin(q[1:]) - 0.9),
    ),
    jnp.array([1.0, 1.4]),
    jnp.array([0.1, 0.5]),
    t1=1.0,
    dt=1e-2,
)
SUITABLE = {  # an integrator and a small problem of its form, with dt and steps
    "EnergyConstantMass": (BALL, 1e-2, 50),
    "EnergyCoordinateMass": (CHAIN, 1e-2, 30),
    "EnergyTwoStep": (BALL, 1e-2, 50),
    "EnergyDecomposedMass": (POLAR, 1e-2, 30),
    "EnergyQuaternion": (rolling_pendulum(), 1e-2, 15),
    "EnergyQuaternionTwoStep": (rolling_pendulum(), 1e-2, 15),
}


# the others hold what this one does, or compile for long
OFTEN = [p for p in CONSISTENT if p.id in ("EnergyQuaternionTwoStep",)]
SELDOM = [pytest.param(*p.values, id=p.id, marks=pytest.mark.slow) for p in CONSISTENT if p not in OFTEN]


@pytest.mark.parametrize("integrator", OFTEN + SELDOM)
def test_batches_and_derivatives(integrator):
    """vmap over initial velocities equals single runs; forward mode, reverse mode and differences agree."""
    problem, dt, steps = SUITABLE[type(integrator).__name__]
    integrator = type(integrator)(tol=1e-13)
    direction = jnp.asarray(np.random.default_rng(0).normal(size=problem.u0.shape)) * (1.0 + jnp.abs(problem.u0))
    t0 = jnp.zeros(())
    rows = jax.jacfwd(lambda u: problem.system.g_dot(t0, problem.q0, u))(problem.u0)
    closed = np.asarray(problem.system.g_N(t0, problem.q0)) < 1e-6
    normals = jax.jacfwd(lambda u: problem.system.g_N_dot(t0, problem.q0, u))(problem.u0)[closed]
    rows = np.concatenate([rows, normals])
    if rows.shape[0]:
        direction = jnp.asarray(direction - np.linalg.pinv(rows) @ (rows @ direction))

    def end(h):
        traj = ns.simulate(problem.system, integrator, problem.q0, problem.u0 + h * direction, dt=dt, num_steps=steps)
        return jnp.concatenate([traj.q[-1], traj.u[-1]])

    weights = jnp.cos(jnp.arange(problem.q0.shape[0] + problem.u0.shape[0]))
    points = jnp.array([-2e-5, -1e-5, 0.0, 1e-5, 2e-5])
    single = jax.jit(lambda h: jax.jvp(end, (h,), (jnp.ones(()),)))  # value and derivative
    batch = jax.jit(jax.vmap(end))(points)
    np.testing.assert_allclose(batch, [single(h)[0] for h in points], rtol=0.0, atol=1e-10)
    forward = float(weights @ single(points[2])[1])
    reverse = float(jax.jit(jax.grad(lambda h: weights @ end(h)))(0.0))
    f = np.asarray(batch @ weights)
    difference = (8 * (f[3] - f[1]) - (f[4] - f[0])) / 12e-5
    assert reverse == pytest.approx(forward, rel=1e-9)
    assert forward == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("integrator", [ns.EnergyConstantMass(), ns.EnergyTwoStep(), ns.EnergyDecomposedMass()])
def test_wrong_systems_are_refused(integrator):
    p = rolling_pendulum()
    with pytest.raises(ValueError, match="use Energy"):
        ns.simulate(p.system, integrator, p.q0, p.u0, dt=1e-2, num_steps=2)


@pytest.mark.parametrize("options", [{"normals": "end"}, {"levels": "velocity"}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ValueError, match="must be one of"):
        ns.EnergyConstantMass(**options)


@pytest.mark.parametrize(("damping", "factor"), [("midpoint", 0.9 / 1.1), ("begin", 0.8)])
def test_forces_without_potential_at_the_midpoint_or_at_the_begin(damping, factor):
    """u̇ = −2 u with Δt = 0.1: (1 − Δt)/(1 + Δt) or 1 − 2Δt in each step."""
    system = ns.System(None, lambda t, q, p: jnp.eye(1), force=lambda t, q, u, p: -2.0 * u)
    scheme = ns.EnergyConstantMass(damping=damping)
    traj = ns.simulate(system, scheme, jnp.zeros(1), jnp.ones(1), dt=0.1, num_steps=5)
    np.testing.assert_allclose(traj.u[:, 0], factor ** np.arange(6), rtol=1e-9)
