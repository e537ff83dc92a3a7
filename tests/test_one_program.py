"""Eager `simulate` has one program for each model: nothing about the length of a run compiles anew or changes a bit."""

from __future__ import annotations

import importlib
import re
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import HANGING

import jaxns as ns
from jaxns.host import progress as bars

host = importlib.import_module("jaxns.simulation.simulate")  # `jaxns.simulate` is the function
BALL = ns.models.bouncing_ball()
FIELDS = (
    "t",
    "q",
    "u",
    "P_g",
    "P_gamma",
    "P_N",
    "P_F",
    "status",
    "iterations",
    "residual",
    "stage_iterations",
    "worst_row",
)


def run(integrator=None, **changes):
    arguments = {"dt": 0.01, "num_steps": 60, "q0": BALL.q0, "u0": BALL.u0, "system": BALL.system, **changes}
    return ns.simulate(integrator=integrator or ns.Rattle(), **arguments)


def assert_same_bits(a, b):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@contextmanager
def counted_compilations():
    """Names of the programs that are compiled inside."""
    names = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_compilations_are_counted():
    with counted_compilations() as names:
        jax.jit(lambda x: 3 * x - 7)(jnp.ones(5))
    assert names


@pytest.mark.parametrize("integrator", [ns.Rattle(), ns.EventDriven()])
def test_nothing_compiles_again(integrator, capsys):
    # Made here, for an addition and a conversion are programs, too.
    start = {"q0": BALL.q0 + 0.1, "u0": BALL.u0 + 0.2}
    other, dt = BALL.system.with_params(mu=0.1), jnp.asarray(2e-3)
    run(integrator, num_steps=3, q0=np.asarray(BALL.q0))
    with counted_compilations() as names:
        run(integrator, num_steps=100)
        run(integrator, num_steps=1000)  # several chunks
        run(integrator, num_steps=None, t1=0.3)
        run(integrator, save_every=20)
        run(integrator, num_steps=np.int64(60), save_every=np.int64(20))
        run(integrator, dt=2e-3)
        run(integrator, dt=dt, t0=0.5)
        run(integrator, **start)
        run(integrator, q0=np.asarray(start["q0"]))
        run(integrator, system=other)
        run(integrator, progress=True)
        run(integrator, throw=False)
    assert not names
    assert "60/60" in capsys.readouterr().err


def test_parameters_of_weak_type_need_no_program_of_their_own():
    run(num_steps=3)
    weak = jax.tree.map(lambda p: jnp.asarray(float(p)), BALL.system.params)
    assert all(leaf.weak_type for leaf in jax.tree.leaves(weak))
    system = BALL.system.with_params(**weak)
    run(system=system, num_steps=3)  # conversions
    with counted_compilations() as names:
        run(system=system)
    assert not names


@pytest.mark.parametrize("integrator", [ns.Rattle(), ns.Moreau(), ns.EventDriven()])
@pytest.mark.parametrize("save_every", [1, 20])
def test_chunks_do_not_change_a_bit(integrator, save_every, monkeypatch):
    whole = run(integrator, save_every=save_every)
    for first in (1, 7, 59):
        with monkeypatch.context() as patched:
            patched.setattr(host, "FIRST_CHUNK", first)
            patched.setattr(host, "LONG_CHUNK", 0.0)  # each chunk half as long as the one before
            assert_same_bits(run(integrator, save_every=save_every), whole)


def test_chunks_without_room_for_all_rows_do_not_change_a_bit(monkeypatch):
    loop = importlib.import_module("jaxns.simulation.loop")
    whole = run(num_steps=60, save_every=3)
    monkeypatch.setattr(loop, "CHUNK_BYTES", 600)  # a few rows
    jax.clear_caches()  # programs with room for more
    try:
        few = run(num_steps=60, save_every=3)
    finally:
        jax.clear_caches()
    assert_same_bits(few, whole)


@pytest.mark.parametrize("integrator", [ns.Rattle(), ns.GGLUnified(), ns.EventDriven()])
@pytest.mark.parametrize("save_every", [1, 20])
def test_eager_and_traced_runs_agree(integrator, save_every):
    eager = run(integrator, save_every=save_every)
    traced = jax.jit(lambda q0: run(integrator, q0=q0, save_every=save_every))(BALL.q0)
    for name in FIELDS:
        np.testing.assert_allclose(getattr(eager, name), getattr(traced, name), atol=1e-9, err_msg=name)
    assert eager.q.dtype == traced.q.dtype and eager.status.dtype == traced.status.dtype


@pytest.mark.parametrize("traced", [False, True])
def test_percussions_of_a_row_explain_its_change_of_momentum(traced):
    """m (u_y⁺ − u_y⁻) = P_N − m g Δt over each row of twenty steps, impacts included."""
    p = BALL.system.params

    def simulate(q0):
        return run(ns.Moreau(), q0=q0, num_steps=100, save_every=20)

    traj = (jax.jit(simulate) if traced else simulate)(BALL.q0)
    change = p["m"] * np.diff(np.asarray(traj.u)[:, 1])
    assert np.count_nonzero(np.asarray(traj.P_N)[1:, 0]) >= 2
    np.testing.assert_allclose(traj.P_N[1:, 0], change + p["m"] * p["gravity"] * 0.2, atol=1e-10)


def test_failed_rows_report_the_first_failure_whatever_the_chunks(monkeypatch):
    def force(t, q, u, p):
        return jnp.sqrt(0.25 - t) * jnp.ones(1)  # NaN from t = 0.25 on

    system = ns.System(None, mass=lambda t, q, p: jnp.eye(1), force=force)
    start = {"q0": jnp.zeros(1), "u0": jnp.zeros(1)}
    arguments = {"integrator": ns.Moreau(), "system": system, "save_every": 10, "throw": False, **start}
    whole = run(**arguments)
    expected = [ns.Status.OK] * 2 + [ns.Status.NONFINITE] + [ns.Status.STOPPED] * 3
    assert whole.status.tolist() == expected
    monkeypatch.setattr(host, "FIRST_CHUNK", 7)
    assert_same_bits(run(**arguments), whole)
    with pytest.raises(ns.SimulationError, match="a step between 20 and 30 failed"):
        run(**{**arguments, "throw": True})


# Bars -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow_clock(monkeypatch):
    """A clock that goes on by a second whenever someone looks at it."""
    seconds = iter(range(10_000))
    monkeypatch.setattr(bars, "clock", lambda: float(next(seconds)))
    monkeypatch.setattr(host, "FIRST_CHUNK", 5)
    monkeypatch.setattr(bars, "_someone_watches", lambda: True)
    monkeypatch.setattr(bars, "SILENCE", HANGING)  # no notice of compilations


def test_long_runs_show_a_bar_by_themselves(slow_clock, capsys):
    run()
    assert "60/60" in capsys.readouterr().err


def test_the_bar_can_be_switched_off(slow_clock, capsys):
    run(progress=False)
    assert not capsys.readouterr().err


def test_short_runs_show_no_bar(slow_clock, monkeypatch, capsys):
    monkeypatch.setattr(bars, "clock", lambda: 0.0)
    run()
    assert not capsys.readouterr().err


def test_no_bar_where_nobody_sees_it(slow_clock, monkeypatch, capsys):
    monkeypatch.setattr(bars, "_someone_watches", lambda: False)
    run()
    assert not capsys.readouterr().err


class Now:
    """A timer whose time is up when it starts."""

    def __init__(self, seconds, function):
        self.start = function

    def cancel(self):
        pass

    join = cancel


@pytest.mark.parametrize("progress", [True, None])
def test_who_waits_for_a_compilation_is_told(progress, slow_clock, monkeypatch, capsys):
    monkeypatch.setattr(bars.threading, "Timer", Now)
    run(progress=progress)
    told = capsys.readouterr().err
    assert told.index("compiling Rattle, 3 coordinates, 1 contact; once") < told.index("60/60")
    assert told.count("compiling") == 1  # and the line is gone before the bar comes
    assert re.search(r"once for this model\r +\r", told[: told.index("60/60")])


def test_nothing_is_told_where_nobody_wants_to_know(slow_clock, monkeypatch, capsys):
    monkeypatch.setattr(bars.threading, "Timer", Now)
    run(progress=False)
    monkeypatch.setattr(bars, "_someone_watches", lambda: False)
    run(progress=None)
    assert not capsys.readouterr().err


def test_a_notice_takes_back_what_it_said(monkeypatch, capsys):
    monkeypatch.setattr(bars, "SILENCE", 0.0)
    with bars.Notice("compiling", show=True) as notice:
        notice._timer.join()  # its thread has said it
        assert "compiling" in capsys.readouterr().err
    assert re.fullmatch(r"\r +\r", capsys.readouterr().err)
    with bars.Notice("compiling", show=True):
        pass
    assert not [thread for thread in bars.threading.enumerate() if isinstance(thread, bars.threading.Timer)]
