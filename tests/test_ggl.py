"""Moreau and Gear–Gupta–Leimkuhler time stepping on the slider-crank in angles (Schoeder, Ulbrich, Schindler 2014)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

BILATERAL = ns.models.slider_crank_bilateral()
UNILATERAL = ns.models.slider_crank_minimal()


# The problems -------------------------------------------------------------------------------------------------------


def test_mass_and_forces_are_those_of_the_paper(rng):
    """M (19) and h (20), gaps (14)–(17), at random states."""
    p = {k: float(v) for k, v in UNILATERAL.system.params.items()}
    q, u = rng.normal(size=3), 50.0 * rng.normal(size=3)
    l1, l2, m1, m2, m3, g = (p[k] for k in ("l1", "l2", "m1", "m2", "m3", "gravity"))
    coupling = l1 * l2 * (m2 / 2 + m3)
    mass = np.zeros((3, 3))
    mass[0, 0], mass[1, 1] = p["J1"] + l1**2 * (m1 / 4 + m2 + m3), p["J2"] + l2**2 * (m2 / 4 + m3)
    mass[0, 1] = mass[1, 0] = coupling * np.cos(q[0] - q[1])
    mass[2, 2] = p["J3"]
    force = [
        -coupling * np.sin(q[0] - q[1]) * u[1] ** 2 - g * l1 * np.cos(q[0]) * (m1 / 2 + m2 + m3),
        coupling * np.sin(q[0] - q[1]) * u[0] ** 2 - g * l2 * np.cos(q[1]) * (m2 / 2 + m3),
        0.0,
    ]
    y, a, b, half = l1 * np.sin(q[0]) + l2 * np.sin(q[1]), p["a"] * np.sin(q[2]), p["b"] * np.cos(q[2]), p["d"] / 2
    np.testing.assert_allclose(UNILATERAL.system.M(0.0, q), mass, atol=1e-16)
    np.testing.assert_allclose(UNILATERAL.system.h(0.0, jnp.asarray(q), jnp.asarray(u)), force, rtol=1e-12, atol=1e-13)
    gaps = [half - y + a - b, half - y - a - b, half + y - a - b, half + y + a - b]
    np.testing.assert_allclose(UNILATERAL.system.g_N(0.0, q), gaps, atol=1e-15)
    two = BILATERAL.system
    np.testing.assert_allclose(two.M(0.0, q[:2]), mass[:2, :2], atol=1e-16)
    np.testing.assert_allclose(two.h(0.0, jnp.asarray(q[:2]), jnp.asarray(u[:2])), force[:2], rtol=1e-12, atol=1e-13)


def test_minimal_and_maximal_coordinates_are_the_same_mechanism():
    """Kinetic and potential energy at the start, and the motion of the slider over five milliseconds."""
    maximal = ns.models.slider_crank(e_N=0.1, mu=0.0)
    q0 = maximal.q0.at[8].set(0.0)
    crank = ns.simulate(maximal.system, ns.Rattle(), q0, maximal.u0, dt=1e-5, num_steps=500)
    angles = ns.simulate(UNILATERAL.system, ns.GGLUnified(), UNILATERAL.q0, UNILATERAL.u0, dt=1e-5, num_steps=500)
    np.testing.assert_allclose(angles.q[:, :2], np.asarray(crank.q)[:, [2, 5]], atol=1e-5)
    energies = [ns.energy(p.system, t).total[0] for p, t in ((maximal, crank), (UNILATERAL, angles))]
    assert float(energies[0]) == pytest.approx(float(energies[1]), rel=1e-12)


# Drift of bilateral formulations --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drift():
    """Largest |g| so far, over time, for each formulation; one second with index 1, two seconds with the others."""
    drifts = {}
    for level in ("index1", "index2", "index3", "ggl"):
        steps = 10_000 if level == "index1" else 20_000
        p, scheme = BILATERAL, ns.GGLUnified(bilateral=level)
        traj = ns.simulate(p.system, scheme, p.q0, p.u0, dt=p.dt, num_steps=steps, save_every=20)
        g = np.abs(np.asarray(jax.vmap(p.system.g)(traj.t, traj.q)))[:, 0]
        drifts[level] = (np.asarray(traj.t), np.maximum.accumulate(g))
    return drifts


@pytest.mark.parametrize(("level", "exponent"), [("index1", 2.0), ("index2", 1.0)])
def test_drift_grows_by_a_power_of_time(drift, level, exponent):
    t, g = drift[level]
    late = t >= 0.1
    assert g[-1] >= 1e-5
    assert np.polyfit(np.log(t[late]), np.log(g[late]), 1)[0] == pytest.approx(exponent, abs=0.15)


@pytest.mark.parametrize("level", ["index3", "ggl"])
def test_position_level_does_not_drift(drift, level):
    assert drift[level][1].max() <= 1e-10


def test_velocity_constraint_holds_beside_the_position():
    """GGL keeps ġ = 0 as well, which index 3 does not."""

    def largest_velocity(level):
        traj = ns.simulate(
            BILATERAL.system, ns.GGLUnified(bilateral=level), BILATERAL.q0, BILATERAL.u0, dt=1e-4, num_steps=1000
        )
        return np.abs(np.asarray(jax.vmap(BILATERAL.system.g_dot)(traj.t, traj.q, traj.u))).max()

    assert largest_velocity("ggl") <= 1e-8
    assert largest_velocity("index3") >= 1e-4


# Unilateral contacts --------------------------------------------------------------------------------------------------

RESTITUTIONS = (0.1, 0.4, 0.7, 0.9)


@pytest.fixture(scope="module")
def sweep():
    """Gaps, percussions and height of the slider for four restitution coefficients in one batch, dt 1e-5."""
    p = UNILATERAL
    results = {}
    for scheme in (ns.Moreau(), ns.GGLUnified()):

        def run(e_N, scheme=scheme):
            system = p.system.with_params(e_N=e_N)
            traj = ns.simulate(system, scheme, p.q0, p.u0, dt=p.dt, num_steps=15_000)
            height = 0.153 * jnp.sin(traj.q[:, 0]) + 0.306 * jnp.sin(traj.q[:, 1])
            return traj.ok, jax.vmap(system.g_N)(traj.t, traj.q), traj.P_N, height

        results[type(scheme).__name__] = jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(jnp.array(RESTITUTIONS)))
        assert np.all(results[type(scheme).__name__][0])
    return results


def closed_stretches(P_N, longer_than):
    """(contact, first row, last row) of uninterrupted contact."""
    for k, on in enumerate(P_N.T > 0.0):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], on.astype(int), [0]])))
        yield from ((k, a, b - 1) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a > longer_than)


def test_moreau_penetrates_and_drifts_while_closed(sweep):
    """e_N = 0.1: every long contact sinks deeper, about linearly; all restitutions show negative gaps."""
    _, gaps, P_N, _ = sweep["Moreau"]
    assert np.all(gaps.min(axis=(1, 2)) < -1e-6)
    stretches = list(closed_stretches(P_N[0], 500))
    assert len(stretches) >= 4
    for k, first, last in stretches:
        middle = (first + last) // 2
        early, late = gaps[0, middle, k] - gaps[0, first, k], gaps[0, last, k] - gaps[0, middle, k]
        assert early < -1e-6 and late < -1e-6


def test_unified_keeps_every_gap(sweep):
    _, gaps, P_N, _ = sweep["GGLUnified"]
    assert gaps.min() >= -1e-9
    assert len(list(closed_stretches(P_N[0], 500))) >= 4


@pytest.mark.parametrize("e_N", [0.7, 0.9])
def test_curves_resemble_each_other_for_high_restitution(sweep, e_N):
    """Height of the slider over the first half of the run, about two revolutions: difference within 10 % (RMS)."""
    k = RESTITUTIONS.index(e_N)
    moreau, unified = (sweep[name][3][k, :7500] for name in ("Moreau", "GGLUnified"))
    assert np.sqrt(np.mean((moreau - unified) ** 2)) <= 0.1 * np.sqrt(np.mean(unified**2))


# Energy over four seconds -----------------------------------------------------------------------------------------------

SCHEMES = {
    "Moreau": ns.Moreau(),
    "unified": ns.GGLUnified(),
    "velocity only": ns.GGLUnified(velocity_only=True),
    "decoupled": ns.GGLDecoupled(),
}


@pytest.fixture(scope="module")
def energies():
    """Total energy every 0.5 ms over four seconds, e_N = 0.1, dt 1e-5."""
    p = UNILATERAL
    result = {}
    for name, scheme in SCHEMES.items():
        traj = ns.simulate(p.system, scheme, p.q0, p.u0, dt=p.dt, num_steps=400_000, save_every=50)
        result[name] = np.asarray(ns.energy(p.system, traj).total)
    return result


def rises(E):
    return np.maximum(np.diff(E), 0.0).sum()


@pytest.mark.slow  # `jaxns reproduce --only ggl` shows the same curves
@pytest.mark.parametrize("name", ["Moreau", "unified", "velocity only"])
def test_energy_falls(energies, name):
    """Never above an earlier value by more than the discretisation error of free motion, 2e-6 of the energy."""
    E = energies[name]
    assert E[-1] < 0.5 * E[0]
    assert np.max(E - np.minimum.accumulate(E)) <= 2e-6 * E[0]


@pytest.mark.slow
def test_energy_of_the_decoupled_scheme_oscillates(energies):
    """It rises again and again, ten times as much as with any other scheme."""
    E = energies["decoupled"]
    assert np.max(E - np.minimum.accumulate(E)) >= 1e-5 * E[0]
    assert all(rises(E) >= 10.0 * rises(energies[name]) for name in ("Moreau", "unified", "velocity only"))


# Friction, kinematics, order ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [ns.GGLDecoupled(), ns.GGLUnified()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("omega", [50.0, 10.0])
def test_ball_rolls_at_the_closed_form(scheme, omega):
    """|u_x| = 2/7 R ω, whatever the scheme and step, and no penetration."""
    ball = ns.models.bouncing_ball(omega=omega, e_N=0.0)
    traj = ns.simulate(ball.system, scheme, ball.q0, ball.u0, dt=1e-2, t1=1.5)
    assert abs(float(traj.u[-1, 0])) == pytest.approx(2.0 / 7.0 * 0.1 * omega, abs=1e-9)
    assert float(jnp.min(traj.q[:, 1])) >= 0.1 - 1e-9


@pytest.mark.parametrize(("scheme", "order"), [(ns.GGLUnified(tol=1e-12), 2), (ns.GGLDecoupled(tol=1e-12), 1)])
def test_order_in_persistent_contact(scheme, order):
    slope = ns.models.mass_on_slope(case=2)
    dts = 6.4e-3 * 2.0 ** np.arange(4)
    study = ns.convergence_study(slope.system, scheme, slope.q0, slope.u0, t1=1.6, dts=dts, dt_ref=2e-4)
    assert float(study.order_q) == pytest.approx(order, abs=0.15)
    assert float(study.order_u) == pytest.approx(order, abs=0.15)


def test_unknown_level_is_an_error():
    with pytest.raises(ValueError, match="bilateral must be one of"):
        ns.GGLUnified(bilateral="index4")


# Stiff forces ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [1e-3, 1e-4])
def test_no_percussion_acts_across_an_open_gap(dt):
    """A heavy mass on a light one on a stiff spring, ωΔt up to 20: percussions of every step from the momentum of the
    heavy mass, complementary to its gap; and the motion of generalized-α."""
    p = ns.models.impact_oscillator()
    runs = [ns.simulate(p.system, i, p.q0, p.u0, dt=dt, t1=0.3) for i in (ns.GGLUnified(), ns.GeneralizedAlpha())]
    q, u = np.asarray(runs[0].q), np.asarray(runs[0].u)
    gap, percussion = q[1:, 0] - q[1:, 1], 10.0 * (np.diff(u[:, 0]) + 9.81 * dt)
    assert gap.min() >= -1e-10 and percussion.min() >= -1e-9
    assert np.max(np.minimum(gap, percussion)) <= 1e-9
    assert 0.1 * percussion.size < np.sum(percussion > 1e-6) < 0.5 * percussion.size
    np.testing.assert_allclose(q[:, 0], np.asarray(runs[1].q)[:, 0], atol=1e-4)


def test_scheme_to_the_letter_keeps_its_own_linearised_equations():
    """(41) and (42) at the end of a step that the paper's active set finds in contact."""
    dt, scheme = 1e-5, ns.GGLUnified(linearised=True)
    system = UNILATERAL.system
    traj = ns.simulate(system, scheme, UNILATERAL.q0, UNILATERAL.u0, dt=dt, num_steps=600)
    k = int(np.flatnonzero(np.any(np.asarray(traj.P_N) > 0.0, axis=1))[1]) - 1  # a step with contact
    (q, u), (q_end, u_end) = ((traj.q[i], traj.u[i]) for i in (k, k + 1))
    W = system.W(traj.t[k] + 0.5 * dt, 0.5 * (q + q_end), u)[:, :4]  # of the normals
    gap = system.g_N(traj.t[k], q) + W.T @ (q_end - q)
    rate = system.g_N_dot(traj.t[k], q, u) + W.T @ (u_end - u)
    active = np.asarray(traj.P_N[k + 1]) > 0.0
    xi = np.asarray(rate + float(system.params["e_N"]) * system.g_N_dot(traj.t[k], q, u))
    assert active.any()
    np.testing.assert_allclose(xi[active], 0.0, atol=1e-8)
    assert np.all(np.asarray(gap)[active] >= -1e-9)
    assert np.all(np.asarray(system.g_N(traj.t[k], q + 0.5 * dt * u))[active] < 0.0)  # (11)
