"""Trajectories: the state at any time, files, named axes, and how they show themselves."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

WALL, E_N = -0.5, 0.8
IMPACT = 2.0 * np.pi / 3.0  # cos t = WALL
SPEED = np.sin(IMPACT)
LATE = 0.3  # part of its row after which the impact takes place, in all runs
RESULTS = ("q", "u")


def oscillator(e_N=E_N, kinematics=None):
    """q̈ = −q on one side of a wall."""
    return ns.System(
        {"e_N": e_N},
        mass=lambda t, q, p: jnp.eye(1),
        potential=lambda t, q, p: 0.5 * q @ q,
        kinematics=kinematics,
        contacts=() if kinematics else ns.Contacts(lambda t, q, p: q - WALL, e_N=lambda p: p["e_N"]),
    )


SYSTEM = oscillator()


def exact(t, e_N=E_N):
    """Position and velocity of the motion from (1, 0) up to its second impact."""
    s = t - IMPACT
    before, before_u = np.cos(t), -np.sin(t)
    after, after_u = WALL * np.cos(s) + e_N * SPEED * np.sin(s), -WALL * np.sin(s) + e_N * SPEED * np.cos(s)
    return np.where(s < 0.0, before, after)[:, None], np.where(s < 0.0, before_u, after_u)[:, None]


def motion(rows, integrator=None, system=SYSTEM, phase=0.0):
    """Twice as many rows, and the impact at the same place of its row, whatever their number."""
    dt = IMPACT / (rows + LATE)
    q0, u0 = jnp.cos(jnp.array([phase])), -jnp.sin(jnp.array([phase]))
    return ns.simulate(system, integrator or ns.EventDriven(), q0, u0, dt=dt, num_steps=2 * rows - 2)


@pytest.fixture(scope="module")
def runs():
    return {rows: motion(rows) for rows in (6, 12, 24)}


def errors(traj, rows):
    """Largest errors of q and u in the row of the impact, and in all others that have no kink beside."""
    t = np.linspace(0.0, float(traj.t[-1]), 4001)
    row = np.clip(np.searchsorted(np.asarray(traj.t), t, side="right") - 1, 0, len(traj.t) - 2)
    off = [np.abs(np.asarray(x) - y)[:, 0] for x, y in zip(traj.at(t), exact(t), strict=True)]
    return {name: (e[row == rows].max(), e[row != rows].max()) for name, e in zip(RESULTS, off, strict=True)}


def orders(found):
    """From the two runs with the most rows, which differ by a factor of two."""
    coarse, fine = list(found.values())[-2:]
    return {name: np.log2(np.divide(coarse[name], fine[name])) for name in fine}


def test_rows_and_jumps_are_met(runs):
    traj = runs[12]
    for name in RESULTS:
        np.testing.assert_allclose(getattr(traj.at(traj.t), name), getattr(traj, name), atol=1e-14)
    left, at, right = traj.at(IMPACT + np.array([-1e-7, 1e-9, 1e-7])).u[:, 0].tolist()
    assert (left < 0.0) and at == pytest.approx(right, abs=1e-6)
    assert -right / left == pytest.approx(E_N, abs=5e-3)


def test_orders_are_those_of_the_docstring(runs):
    found = orders({rows: errors(traj, rows) for rows, traj in runs.items()})
    assert found["q"] == pytest.approx([3.0, 4.0], abs=0.2)
    assert found["u"] == pytest.approx([2.0, 3.0], abs=0.2)


def test_positions_are_continuous_where_velocities_jump(runs):
    for traj in (runs[6], motion(6, ns.Moreau()), motion(6, ns.Rattle())):
        t = np.linspace(0.0, float(traj.t[-1]), 200_001)
        assert np.abs(np.diff(traj.at(t).q[:, 0])).max() < 1.2 * (t[1] - t[0])


def test_schemes_without_a_log_are_as_right_as_their_rows():
    for integrator in (ns.Moreau(), ns.Rattle()):
        sizes = []
        for rows in (24, 48):
            traj = motion(rows, integrator)
            t = np.linspace(0.0, float(traj.t[-1]), 2001)
            sizes.append(np.abs(traj.at(t).q - exact(t)[0]).max() / np.abs(traj.q - exact(np.asarray(traj.t))[0]).max())
        assert max(sizes) < 2.0
        u = traj.at(t).u[:, 0]
        assert np.abs(u - exact(t)[1][:, 0]).mean() < 0.05  # its jump is O(h) late, not spread over many rows
        assert np.abs(np.diff(u)).max() > 1.2


def test_with_kinematics_slopes_are_those_of_q():
    """q̇ = 2u: with V = q²/2 the frequency is two."""
    system = oscillator(kinematics=lambda t, q, u, p: 2.0 * u)
    found = {}
    for rows in (8, 16):
        traj = ns.simulate(system, ns.EventDriven(), jnp.ones(1), jnp.zeros(1), dt=2.0 / rows, num_steps=rows)
        np.testing.assert_allclose(traj.q_dot, 2.0 * traj.u)
        t = np.linspace(0.0, 2.0, 999)
        q, u = traj.at(t)
        found[rows] = {"q": [np.abs(q[:, 0] - np.cos(2 * t)).max()], "u": [np.abs(u[:, 0] + np.sin(2 * t)).max()]}
    order = orders(found)
    assert order["q"] == pytest.approx([4.0], abs=0.2)
    assert order["u"] == pytest.approx([2.0], abs=0.2)


def test_derivatives_are_right_across_the_impact():
    """∂q/∂e_N = sin(τ) sin(t − τ) after the impact at τ; ∂q/∂φ of the initial phase φ moves the impact."""
    times = jnp.array([0.4, 1.9, 2.02, 2.2, 2.9])  # 2.02 is in the row of the impact, before it

    def positions(e_N, phase):
        return motion(24, system=SYSTEM.with_params(e_N=e_N), phase=phase).at(times).q[:, 0]

    by_e, by_phase = jax.jacfwd(positions, argnums=(0, 1))(E_N, 0.0)
    after = np.asarray(times) >= IMPACT
    by_e_exact = np.where(after, SPEED * np.sin(np.asarray(times) - IMPACT), 0.0)
    np.testing.assert_allclose(by_e, by_e_exact, atol=2e-4)
    np.testing.assert_allclose(by_phase, exact(np.asarray(times))[1][:, 0], atol=2e-4)


def test_derivatives_by_time_are_velocities(runs):
    times = jnp.array([0.4, 2.02, 2.2])
    by_t = jax.vmap(jax.grad(lambda t: runs[12].at(t).q[0]))(times)
    np.testing.assert_allclose(by_t, runs[12].at(times).u[:, 0], atol=1e-12)


def test_reverse_mode_agrees_with_forward_mode(runs):
    def late(u):
        return jnp.sum(replace(runs[6], u=u).at(jnp.array([0.3, IMPACT - 0.01, IMPACT + 0.02, 3.0])).q ** 2)

    forward, reverse = jax.jacfwd(late)(runs[6].u), jax.grad(late)(runs[6].u)
    np.testing.assert_allclose(forward, reverse, atol=1e-12)
    assert np.count_nonzero(reverse) >= 6


def test_it_maps_over_times_and_runs(runs):
    traj, t = runs[6], jnp.linspace(0.0, 3.0, 12).reshape(3, 4)
    together = traj.at(t)
    assert together.q.shape == (3, 4, 1)
    np.testing.assert_allclose(jax.vmap(jax.vmap(traj.at))(t).u, together.u, atol=1e-13)
    batch = jax.tree.map(lambda *x: jnp.stack(x), traj, traj)
    np.testing.assert_allclose(jax.vmap(lambda run: run.at(t))(batch).q[1], together.q, atol=1e-13)
    with pytest.raises(ValueError, match="a batch, with t of shape"):
        batch.at(t)


def test_times_outside_and_failures(runs):
    traj = runs[6]
    with pytest.raises(ValueError, match=r"t = 9 is outside of the run, 0 … 3\."):
        traj.at([0.1, 9.0])
    np.testing.assert_allclose(jax.jit(traj.at)(9.0).q, traj.q[-1])
    failed = replace(traj, status=traj.status.at[4:].set(3).at[3].set(1))
    q, u = failed.at(np.array([traj.t[3] - 0.01, traj.t[3], traj.t[3] + 0.01, traj.t[6]]))
    assert np.isfinite(q[:2]).all() and np.isnan(q[2:]).all() and np.isnan(u[2:]).all()


# Files ----------------------------------------------------------------------------------------------------------------


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_files_hold_all_of_a_trajectory(runs, tmp_path):
    traj = runs[6]
    batch = jax.tree.map(lambda *x: jnp.stack(x), traj, traj)
    for k, run in enumerate((traj, batch, motion(6, ns.Moreau()))):
        run.save(tmp_path / f"{k}.npz")
        assert_same(ns.Trajectory.load(tmp_path / f"{k}.npz"), run)
    with np.load(tmp_path / "0.npz", allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["events_t"], traj.events.t)
        assert all(stored[name].dtype != object for name in stored.files)


def test_files_that_cannot_be_are_explained(runs, tmp_path):
    with pytest.raises(ValueError, match=r"saved as \.npz"):
        runs[6].save(tmp_path / "run.csv")
    np.savez(tmp_path / "other.npz", t=np.zeros(3))
    with pytest.raises(ValueError, match="holds no trajectory: there is no P_F"):
        ns.Trajectory.load(tmp_path / "other.npz")
    runs[6].save(tmp_path / "run.npz")
    with jax.enable_x64(False), pytest.raises(TypeError, match="set JAX_ENABLE_X64=1"):
        ns.Trajectory.load(tmp_path / "run.npz")


def test_axes_have_names(runs):
    pytest.importorskip("xarray")
    traj = runs[6]
    data = traj.to_xarray()
    assert data.q.dims == ("t", "position") and data.P_F.dims == ("t", "contact", "direction")
    assert data.status.dims == ("step",) and data.events_t.dims == ("event",)
    assert "INFEASIBLE" in data.status.legend
    row = data.u.sel(t=1.0, method="nearest").isel(velocity=0)
    assert float(row) == traj.u[np.abs(traj.t - 1.0).argmin(), 0]
    batch = jax.tree.map(lambda *x: jnp.stack(x), traj, traj)
    assert batch.to_xarray().q.dims == ("run", "t", "position")
    with pytest.raises(ValueError, match="different times"):
        replace(batch, t=batch.t.at[1].add(1.0)).to_xarray()


# How they show themselves ---------------------------------------------------------------------------------------------


def test_texts_fit_a_screen(runs):
    traj = runs[6]
    text = repr(traj)
    assert text.count("\n") < 6 and max(map(len, text.splitlines())) < 120
    assert "11 rows, t = 0 … 3.324" in text and "events: 1 IMPACT" in text and "all steps converged" in text
    failed = replace(traj, status=traj.status.at[4:].set(3).at[3].set(6))
    assert "INFEASIBLE in the row after t = 0.997" in repr(failed)
    both = jax.tree.map(lambda *x: jnp.stack(x), traj, failed)
    assert "batch of 2 runs" in repr(both) and "1 of 2 runs failed: 1 INFEASIBLE" in repr(both)
    seen = []
    jax.make_jaxpr(lambda traj: seen.append((repr(traj), traj._repr_html_())))(traj)
    assert "traced" in seen[0][0]


def test_cards_of_trajectories_are_pages(runs):
    traj = runs[6]
    failed = replace(traj, status=traj.status.at[3:].set(6))
    card, warning = (ET.fromstring(run._repr_html_()) for run in (traj, failed))
    texts = "".join(card.itertext())
    assert "● all steps converged" in texts and "▲ INFEASIBLE" in "".join(warning.itertext())
    line, mark = card.find(".//polyline"), card.find(".//line")
    points = np.array([p.split(",") for p in line.get("points").split()], float)
    assert len(points) == len(traj.t)
    height = points[:, 1]
    np.testing.assert_allclose(np.argsort(height), np.argsort(-traj.q[:, 0]))
    assert float(mark.get("x1")) == pytest.approx(420.0 * IMPACT / float(traj.t[-1]), abs=0.1)


def test_cards_of_fits_are_pages():
    fit = ns.identify(lambda p: p["a<b"] * jnp.arange(4.0), jnp.array([0.0, 2.0, 4.1, 6.0]), {"a<b": 1.0})
    card = ET.fromstring(fit._repr_html_())
    texts = "".join(card.itertext())
    assert "● converged" in texts and "2.01429" in texts and "± 0.013" in texts and "a<b" in texts
    assert card.find(".//polyline") is not None
    assert repr(fit) == str(fit)
    noise = 0.1 * np.random.default_rng(0).standard_normal((12, 5))
    records = ns.identify_records(lambda s, o, r: s["a"] * np.arange(5.0), noise, shared={"a": 1.0})
    assert "Fit of records" in "".join(ET.fromstring(records._repr_html_()).itertext())
