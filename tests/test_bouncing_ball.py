"""The rotating bouncing ball against its closed forms (problems.md; Breuling et al. 2024, §5.1)."""

from __future__ import annotations

import numpy as np
import pytest

import jaxns as ns

G, R, MU, DROP = 9.81, 0.1, 0.2, 0.9
CASES = {1: {"omega": 0.0, "e_N": 0.5}, 2: {"omega": 50.0, "e_N": 0.0}, 3: {"omega": 10.0, "e_N": 0.0}}
IMPACT_TIME = np.sqrt(2.0 * DROP / G)
IMPACT_SPEED = np.sqrt(2.0 * DROP * G)
NEWTON_TABLE = {1: (1.0066, 0.9466), 2: (1.0270, 0.9466), 3: (1.0270, 0.6756)}  # paper 003, Table 1


def simulate(integrator, case, dt, num_steps):
    problem = ns.models.bouncing_ball(**CASES[case])
    return ns.simulate(problem.system, integrator, problem.q0, problem.u0, dt=dt, num_steps=num_steps)


def gap(traj):
    return np.asarray(traj.q[:, 1]) - R


@pytest.fixture(scope="module")
def rattle():
    """All three cases at dt = 1e-2 up to t = 1.5."""
    return {case: simulate(ns.Rattle(), case, 1e-2, 150) for case in CASES}


@pytest.fixture(scope="module")
def moreau():
    """All three cases with two step sizes; the run at 1e-2 goes on to t = 3."""
    return {(case, dt): simulate(ns.Moreau(), case, dt, 300) for case in CASES for dt in (1e-2, 5e-3)}


@pytest.mark.parametrize("case", CASES)
def test_rattle_never_penetrates(rattle, case):
    assert bool(rattle[case].ok)
    assert gap(rattle[case]).min() >= -1e-9


@pytest.mark.parametrize("case", CASES)
def test_rattle_impact_time(rattle, case):
    """The first row with a contact percussion is within one step of √(2·0.9/g)."""
    first = np.argmax(np.asarray(rattle[case].P_N[:, 0]) > 0.0)
    assert abs(float(rattle[case].t[first]) - IMPACT_TIME) <= 1e-2


@pytest.mark.parametrize("case", CASES)
def test_rattle_free_fall_is_exact(rattle, case):
    """RATTLE integrates a constant force without error."""
    t = np.asarray(rattle[case].t)
    fall = t < IMPACT_TIME - 1e-2
    np.testing.assert_allclose(gap(rattle[case])[fall], DROP - 0.5 * G * t[fall] ** 2, atol=1e-12)


@pytest.mark.parametrize("case", [2, 3])
def test_rattle_rolling_speed(rattle, case):
    """|u_x| = 2/7 R |ω|, from the angular momentum about the contact point, whatever scheme and step."""
    u = np.asarray(rattle[case].u[-1])
    omega = CASES[case]["omega"]
    assert abs(abs(u[0]) - 2.0 / 7.0 * R * omega) <= 1e-9
    assert abs(u[0] + R * u[2]) <= 1e-9


def test_rattle_zeno_ball_comes_to_rest_and_stays(rattle):
    """Flight times form a geometric series: rest at t_1 (1 + 2e/(1 − e)); from there on it stays."""
    e = CASES[1]["e_N"]
    zeno = IMPACT_TIME * (1.0 + 2.0 * e / (1.0 - e))
    assert zeno == pytest.approx(1.2851, abs=1e-3)
    t, u = np.asarray(rattle[1].t), np.asarray(rattle[1].u)
    rest = t > zeno
    assert rest.sum() > 15
    assert np.abs(gap(rattle[1])[rest]).max() <= 1e-9
    speed = np.abs(u[rest, 1])  # what is left of it keeps being reflected, e times as fast, once per step
    assert speed[0] <= 1e-3 * IMPACT_SPEED
    np.testing.assert_allclose(speed[1:], e * speed[:-1], atol=1e-9)
    assert speed[-1] <= 1e-9
    assert np.abs(u[rest][:, [0, 2]]).max() <= 1e-9
    np.testing.assert_allclose(np.asarray(rattle[1].P_N)[-1, 0], G * 1e-2, rtol=1e-8)
    bouncing = (t > IMPACT_TIME) & (t < IMPACT_TIME + 2.0 * e * IMPACT_SPEED / G - 1e-2)
    apex = 0.5 * (e * IMPACT_SPEED) ** 2 / G
    assert gap(rattle[1])[bouncing].max() == pytest.approx(apex, rel=0.1)


def test_rattle_friction_of_case_2_drops_to_zero_at_once(rattle):
    """Sliding friction μ m g Δt up to the slip-stick transition, at most one step between, and exact zero after it."""
    dt = 1e-2
    P_F = np.asarray(rattle[2].P_F[:, 0, 0])
    slip = np.asarray(rattle[2].u[:, 0] + R * rattle[2].u[:, 2])
    impact = int(np.argmax(P_F != 0.0))
    sticks = int(np.argmax((np.abs(slip) < 1e-9) & (np.arange(len(slip)) > impact)))
    np.testing.assert_allclose(P_F[impact + 2 : sticks], -MU * G * dt, rtol=1e-8)
    assert np.abs(P_F[sticks]) <= MU * G * dt * (1.0 + 1e-8)
    assert np.abs(P_F[sticks + 1 :]).max() <= 1e-10
    # The impact takes μ v off the 2/7 Rω that rolling needs; sliding friction takes the rest at rate μ g.
    slide = (2.0 / 7.0 * R * 50.0 - MU * IMPACT_SPEED) / (MU * G)
    assert abs(float(rattle[2].t[sticks]) - (IMPACT_TIME + slide)) <= 2e-2


def test_rattle_case_3_rolls_at_once(rattle):
    """The friction cone is wide enough for the impact to stop all slip: no sliding row after it."""
    slip = np.asarray(rattle[3].u[:, 0] + R * rattle[3].u[:, 2])
    impact = int(np.argmax(np.asarray(rattle[3].P_N[:, 0]) > 0.0))
    assert np.abs(slip[:impact]).min() == pytest.approx(R * 10.0, abs=1e-12)
    assert np.abs(slip[impact:]).max() <= 1e-9
    assert np.abs(np.asarray(rattle[3].P_F[impact + 1 :])).max() <= 1e-10


@pytest.mark.parametrize("case", CASES)
def test_rattle_newton_iterations_meet_the_papers_table(rattle, case):
    average = np.asarray(rattle[case].stage_iterations).mean(axis=0)
    assert np.all(average <= NEWTON_TABLE[case]), average


@pytest.mark.parametrize("case", [2, 3])
@pytest.mark.parametrize("dt", [1e-2, 5e-3])
def test_moreau_rolling_speed(moreau, case, dt):
    u = np.asarray(moreau[case, dt].u[-1])
    assert abs(abs(u[0]) - 2.0 / 7.0 * R * CASES[case]["omega"]) <= 1e-9


@pytest.mark.parametrize("case", CASES)
def test_moreau_penetrates_by_no_more_than_one_step_of_fall(moreau, case):
    """Contacts on velocity level catch the ball up to half a step late: a penetration of order Δt, which remains."""
    for dt in (1e-2, 5e-3):
        assert gap(moreau[case, dt]).min() >= -IMPACT_SPEED * dt
    assert min(gap(moreau[case, dt]).min() for dt in (1e-2, 5e-3)) < -1e-6
