"""Lobatto IIIA–IIIB: tableaux, RATTLE as its member with two stages, and the benchmark problems.

(Capobianco, Harsch, Leine 2024.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns.integrators.lobatto_tableau import lobatto
from jaxns.integrators.lobatto_unknowns import Unknowns

STAGES = (2, 3, 4)
TOL = 1e-12
METHODS = {"Rattle": ns.Rattle(tol=TOL), **{s: ns.Lobatto(stages=s, tol=TOL) for s in STAGES}}


def difference(a, b, field):
    return np.abs(np.asarray(getattr(a, field) - getattr(b, field))).max(initial=0.0)


def assert_same_steps(a, b):
    """Positions, velocities and percussions of all rows."""
    assert bool(np.all(a.ok)) and bool(np.all(b.ok))
    assert difference(a, b, "q") <= 1e-10
    for field in ("u", "P_g", "P_N", "P_F"):
        assert difference(a, b, field) <= 1e-9, field


# Tableau ------------------------------------------------------------------------------------------------------------

ROOT = np.sqrt(5.0)
LITERATURE = {  # c, b, a of IIIA and â of IIIB: Hairer, Lubich, Wanner, "Geometric Numerical Integration", II.1.4
    2: ([0.0, 1.0], [1 / 2, 1 / 2], [[0.0, 0.0], [1 / 2, 1 / 2]], [[1 / 2, 0.0], [1 / 2, 0.0]]),
    3: (
        [0.0, 1 / 2, 1.0],
        [1 / 6, 2 / 3, 1 / 6],
        [[0.0, 0.0, 0.0], [5 / 24, 1 / 3, -1 / 24], [1 / 6, 2 / 3, 1 / 6]],
        [[1 / 6, -1 / 6, 0.0], [1 / 6, 1 / 3, 0.0], [1 / 6, 5 / 6, 0.0]],
    ),
    4: (
        [0.0, (5 - ROOT) / 10, (5 + ROOT) / 10, 1.0],
        [1 / 12, 5 / 12, 5 / 12, 1 / 12],
        [
            [0.0, 0.0, 0.0, 0.0],
            [(11 + ROOT) / 120, (25 - ROOT) / 120, (25 - 13 * ROOT) / 120, (-1 + ROOT) / 120],
            [(11 - ROOT) / 120, (25 + 13 * ROOT) / 120, (25 + ROOT) / 120, (-1 - ROOT) / 120],
            [1 / 12, 5 / 12, 5 / 12, 1 / 12],
        ],
        [
            [1 / 12, (-1 - ROOT) / 24, (-1 + ROOT) / 24, 0.0],
            [1 / 12, (25 + ROOT) / 120, (25 - 13 * ROOT) / 120, 0.0],
            [1 / 12, (25 + 13 * ROOT) / 120, (25 - ROOT) / 120, 0.0],
            [1 / 12, (11 - ROOT) / 24, (11 + ROOT) / 24, 0.0],
        ],
    ),
}


@pytest.mark.parametrize("s", LITERATURE)
def test_tableau_has_the_closed_forms_of_the_literature(s):
    for ours, theirs in zip(lobatto(s), LITERATURE[s], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-16)


@pytest.mark.parametrize("s", range(2, 13))
def test_tableau_satisfies_its_conditions(s):
    """Symplectic pair, quadrature of order 2s − 2, collocation, symmetric nodes, and the columns the two solves rely on."""
    c, b, a, a_hat = lobatto(s)
    np.testing.assert_allclose(b[:, None] * a_hat + b * a.T, np.outer(b, b), atol=1e-16)
    for k in range(1, 2 * s - 1):
        assert b @ c ** (k - 1) == pytest.approx(1.0 / k, abs=1e-15)
    for k in range(1, s + 1):
        np.testing.assert_allclose(a @ c ** (k - 1), c**k / k, atol=1e-15)
    np.testing.assert_allclose(c + c[::-1], 1.0, atol=1e-15)
    assert np.all(np.diff(c) > 0.0) and np.all(b > 0.0)
    np.testing.assert_allclose(a_hat[:, -1], 0.0, atol=1e-30)
    np.testing.assert_allclose(a_hat[:, 0], b[0], rtol=1e-15)
    np.testing.assert_allclose(a[0], 0.0, atol=1e-30)
    np.testing.assert_array_equal(a[-1], b)


@pytest.mark.parametrize("stages", [1, 0, -3, 2.5, 3.0, "3", None])
def test_wrong_number_of_stages_is_an_error(stages):
    with pytest.raises(ValueError, match=r"Lobatto: stages must be a whole number of at least 2, got "):
        ns.Lobatto(stages=stages)


# Unknowns -----------------------------------------------------------------------------------------------------------


def double_pendulum():
    """Two links in minimal coordinates, whose mass matrix depends on them."""

    def mass(t, q, p):
        c = jnp.cos(q[0] - q[1])
        return jnp.array([[2.0, 0.0], [0.0, 1.0]]) + c * jnp.array([[0.0, 1.0], [1.0, 0.0]])

    return ns.System({}, mass, potential=lambda t, q, p: -9.81 * (2.0 * jnp.cos(q[0]) + jnp.cos(q[1])))


@pytest.mark.parametrize("s", STAGES)
def test_only_what_is_not_explicit_is_unknown(s):
    """No smooth unknowns for constant forces; inner positions if forces depend on positions; velocities if they do."""
    ball, crank, disk = ns.models.bouncing_ball(), ns.models.slider_crank(), ns.models.tippedisk()
    slope = ns.models.mass_on_slope()
    expected = {  # inner positions of the crank: directions of its constraints depend on positions
        "ball": (ball.system, ball.q0, ball.u0, 0, 0),
        "crank": (crank.system, crank.q0, crank.u0, s - 2, 0),
        "slope": (slope.system, slope.q0, slope.u0, s - 2, 0),
        "disk": (disk.system, disk.q0, disk.u0, s - 1, s - 1),
        "double pendulum": (double_pendulum(), jnp.ones(2), jnp.zeros(2), 0, s),
    }
    for name, (system, q0, u0, n_Q, n_V) in expected.items():
        unknowns = Unknowns.of(system, jnp.zeros(()), q0, u0, s)
        assert (unknowns.n_Q, unknowns.n_V) == (n_Q, n_V), name


# Bouncing ball ------------------------------------------------------------------------------------------------------

G, R, DROP, BALL_DT = 9.81, 0.1, 0.9, 1e-2
# The papers' e_N = 0.5 makes case 1 a tie: a ball that leaves with half of a whole number of g Δt lands at the very end of
# a step, and round-off decides whether it touches.
BALL_CASES = {1: {"omega": 0.0, "e_N": 0.45}, 2: {"omega": 50.0, "e_N": 0.0}, 3: {"omega": 10.0, "e_N": 0.0}}
IMPACT_TIME = np.sqrt(2.0 * DROP / G)
IMPACT_SPEED = np.sqrt(2.0 * DROP * G)


@pytest.fixture(scope="module")
def ball():
    """All cases and methods at dt = 1e-2 up to t = 1.5; each method is compiled once."""

    def run(case, method):
        problem = ns.models.bouncing_ball(**BALL_CASES[case])
        return ns.simulate(problem.system, METHODS[method], problem.q0, problem.u0, dt=BALL_DT, num_steps=150)

    return {(case, method): run(case, method) for case in BALL_CASES for method in METHODS}


@pytest.mark.parametrize("case", BALL_CASES)
def test_two_stages_are_rattle_on_the_ball(ball, case):
    assert_same_steps(ball[case, 2], ball[case, "Rattle"])


@pytest.mark.parametrize("case", BALL_CASES)
@pytest.mark.parametrize("s", STAGES)
def test_ball_falls_exactly_and_never_penetrates(ball, case, s):
    traj = ball[case, s]
    t, gap = np.asarray(traj.t), np.asarray(traj.q[:, 1]) - R
    assert bool(traj.ok)
    assert gap.min() >= -1e-9
    fall = t < IMPACT_TIME - BALL_DT
    np.testing.assert_allclose(gap[fall], DROP - 0.5 * G * t[fall] ** 2, atol=1e-12)


@pytest.mark.parametrize("case", [2, 3])
@pytest.mark.parametrize("s", STAGES)
def test_ball_rolls_at_two_sevenths(ball, case, s):
    """|u_x| = 2/7 R |ω| whatever the number of stages."""
    u = np.asarray(ball[case, s].u[-1])
    assert abs(abs(u[0]) - 2.0 / 7.0 * R * BALL_CASES[case]["omega"]) <= 1e-9
    assert abs(u[0] + R * u[2]) <= 1e-9


@pytest.mark.parametrize("s", STAGES)
def test_ball_of_case_1_comes_to_rest(ball, s):
    """After the Zeno time, what is left of the speed keeps being reflected, e times as fast, once per step."""
    e = BALL_CASES[1]["e_N"]
    t, u = np.asarray(ball[1, s].t), np.asarray(ball[1, s].u)
    rest = t > IMPACT_TIME * (1.0 + 2.0 * e / (1.0 - e))
    assert np.abs(np.asarray(ball[1, s].q)[rest, 1] - R).max() <= 1e-9
    speed = np.abs(u[rest, 1])
    np.testing.assert_allclose(speed[1:], e * speed[:-1], atol=1e-9)
    assert speed[-1] <= 1e-9
    np.testing.assert_allclose(np.asarray(ball[1, s].P_N)[-1, 0], G * BALL_DT, rtol=1e-8)


@pytest.mark.parametrize("case", BALL_CASES)
@pytest.mark.parametrize("s", [3, 4])
def test_curves_of_the_ball_agree(ball, case, s):
    """Impacts are caught at another time within the step, so positions differ by less than a step of the largest jump."""
    jump = np.abs(np.diff(np.asarray(ball[case, 2].u), axis=0)).max(axis=0)
    assert np.all(np.abs(np.asarray(ball[case, s].q - ball[case, 2].q)).max(axis=0) <= BALL_DT * jump + 1e-12)


# Slider-crank -------------------------------------------------------------------------------------------------------

CRANK = ns.models.slider_crank()


def crank(integrator, num_steps):
    return ns.simulate(CRANK.system, integrator, CRANK.q0, CRANK.u0, dt=1e-4, num_steps=num_steps)


@pytest.mark.slow
def test_two_stages_are_rattle_on_the_slider_crank():
    """300 steps, with its first impacts."""
    two, rattle = crank(METHODS[2], 300), crank(METHODS["Rattle"], 300)
    assert np.any(np.asarray(rattle.P_N) > 0.0)
    assert_same_steps(two, rattle)


def test_slider_crank_with_three_stages():
    """All 1500 steps converge; gaps, constraints and their rates hold."""
    traj = crank(ns.Lobatto(stages=3), 1500)
    assert bool(traj.ok)
    rows = (traj.t, traj.q, traj.u)
    assert float(jnp.abs(jax.vmap(CRANK.system.g)(*rows[:2])).max()) <= 1e-9
    assert float(jnp.abs(jax.vmap(CRANK.system.g_dot)(*rows)).max()) <= 1e-9
    assert float(jax.vmap(CRANK.system.g_N)(*rows[:2]).min()) >= -1e-9


# Mass on a slope ----------------------------------------------------------------------------------------------------

SLOPE_CASES = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def slope():
    """All cases and methods at dt = 6.4e-3 up to t = 3.2768; each method is compiled once."""

    def run(case, method):
        p = ns.models.mass_on_slope(case=case)
        return ns.simulate(p.system, METHODS[method], p.q0, p.u0, dt=6.4e-3, num_steps=512)

    return {(case, method): run(case, method) for case in SLOPE_CASES for method in METHODS}


@pytest.mark.parametrize("case", SLOPE_CASES)
@pytest.mark.parametrize("s", STAGES)
def test_slope_converges_without_penetration_and_comes_to_rest(slope, case, s):
    traj = slope[case, s]
    assert bool(traj.ok)
    system = ns.models.mass_on_slope().system
    assert float(jax.vmap(system.g_N)(traj.t, traj.q).min()) >= -1e-9
    assert np.abs(np.asarray(traj.u[-1])).max() <= 1e-9


@pytest.mark.parametrize("case", SLOPE_CASES)
def test_two_stages_are_rattle_on_the_slope(slope, case):
    assert_same_steps(slope[case, 2], slope[case, "Rattle"])


# Tippedisk ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def disk():
    """Three stages at dt = 1e-3 for 0.3 s, its errors in q and those of RATTLE against RATTLE at dt = 1e-4, each 0.01 s."""
    p = ns.models.tippedisk()

    def rattle(dt):
        return np.asarray(ns.simulate(p.system, ns.Rattle(), p.q0, p.u0, dt=dt, num_steps=3000, save_every=10).q)

    three = ns.simulate(p.system, ns.Lobatto(stages=3), p.q0, p.u0, dt=1e-3, num_steps=300)
    reference = rattle(1e-4)[::10]
    coarse = rattle(1e-3)[:31]  # it goes on to t = 3, so that both runs share one compiled loop
    return p.system, three, np.abs(np.asarray(three.q[::10]) - reference), np.abs(coarse - reference)


@pytest.mark.slow
def test_tippedisk_is_closer_to_a_fine_run_than_rattle_is(disk):
    """The centre of mass to 1 % of its rise of 5 mm, the quaternion to 0.01."""
    _, _, three, rattle = disk
    assert three[:, :3].max() <= 5e-5
    assert three[:, 3:].max() <= 0.01
    assert three[:, :3].max() <= 0.8 * rattle[:, :3].max()
    assert three[:, 3:].max() <= 0.8 * rattle[:, 3:].max()


@pytest.mark.slow
def test_tippedisk_keeps_contact_and_the_length_of_its_quaternion(disk):
    system, traj, _, _ = disk
    assert bool(traj.ok)
    assert float(jnp.abs(jax.vmap(system.g_N)(traj.t, traj.q)).max()) <= 1e-9
    assert np.abs(np.linalg.norm(np.asarray(traj.q[:, 3:]), axis=1) - 1.0).max() <= 1e-9
