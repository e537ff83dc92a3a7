"""The tippedisk: inversion, unit quaternions, spatial friction (Breuling et al. 2024, §5.4)."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxns as ns

PROBLEM = ns.models.tippedisk()
NEWTON_TABLE = (2.4103, 2.0000)  # paper 003, Table 1, at tolerance 1e-8
MU = 0.3


@pytest.fixture(scope="module")
def rattle():
    """One second at dt = 1e-3."""
    return ns.simulate(PROBLEM.system, ns.Rattle(), PROBLEM.q0, PROBLEM.u0, dt=1e-3, num_steps=1000)


@pytest.fixture(scope="module")
def moreau():
    """One second at dt = 1e-5, at the same rows."""
    return ns.simulate(PROBLEM.system, ns.Moreau(), PROBLEM.q0, PROBLEM.u0, dt=1e-5, num_steps=100_000, save_every=100)


def test_disk_inverts(rattle):
    """The centre of mass rises from r − e = 0.0425 to nearly r + e = 0.0475."""
    height = np.asarray(rattle.q[:, 2])
    assert height[0] == pytest.approx(0.0425, abs=1e-12)
    assert height[-1] > 0.047
    assert height.max() <= 0.0475 + 1e-6


def test_quaternion_keeps_its_length(rattle):
    """The position update is a Cayley transform; nothing is renormalised."""
    assert np.abs(np.linalg.norm(np.asarray(rattle.q[:, 3:]), axis=1) - 1.0).max() <= 1e-11


def test_contact_is_closed_all_the_time(rattle):
    g_N = np.asarray(jax.vmap(PROBLEM.system.g_N)(rattle.t, rattle.q))
    assert np.abs(g_N).max() <= 1e-9


def test_newton_iterations_meet_the_papers_table(rattle):
    average = np.asarray(rattle.stage_iterations).mean(axis=0)
    assert np.all(average <= NEWTON_TABLE), average


def test_energy_only_falls(rattle):
    total = np.asarray(ns.energy(PROBLEM.system, rattle).total)
    assert total[-1] < 0.9 * total[0]
    assert np.diff(total).max() <= 1e-3 * total[0]


def test_agrees_with_moreau_at_a_hundredth_of_the_step(rattle, moreau):
    """Heights to a hundredth of their rise; positions to some percent of the disk's size, early on."""
    a, b = np.asarray(rattle.q), np.asarray(moreau.q)
    rise = 0.005
    assert np.abs(a[:, 2] - b[:, 2]).max() <= 0.05 * rise
    early = np.asarray(rattle.t) <= 0.3
    assert np.abs(a[early, :3] - b[early, :3]).max() <= 0.02 * 0.045
    assert np.asarray(moreau.q)[-1, 2] > 0.047


def test_friction_percussions_obey_coulombs_law_in_three_dimensions(rattle):
    """Sliding: P_F = −μ P_N ξ_F/‖ξ_F‖ with ξ_F = γ_F, as e_F = 0; sticking: inside the ball."""
    gamma_F = np.asarray(jax.vmap(PROBLEM.system.gamma_F)(rattle.t, rattle.q, rattle.u))[1:]
    P_N, P_F = np.asarray(rattle.P_N)[1:, 0], np.asarray(rattle.P_F)[1:, 0]
    speed = np.linalg.norm(gamma_F, axis=1)
    sliding = speed > 1e-6
    assert P_N.min() > 0.0
    assert sliding.mean() > 0.5
    expected = -MU * P_N[:, None] * gamma_F / speed[:, None]
    np.testing.assert_allclose(P_F[sliding], expected[sliding], atol=1e-4 * MU * P_N.max())
    assert np.all(np.linalg.norm(P_F, axis=1) <= MU * P_N * (1.0 + 1e-6) + 1e-10)
