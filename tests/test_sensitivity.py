"""Sensitivities, gradient reports, multiple shooting, measured records, and `jaxns identify`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import falling_ball

import jaxns as ns
from jaxns import plot
from jaxns.command_line import main as cli

GRAVITY = 9.81


BALL = falling_ball()
START = jnp.array([0.5]), jnp.zeros(1)
EVENT = ns.EventDriven(max_steps=20, max_events=4)


def height_and_derivatives(t, h=0.5, g=GRAVITY, e=0.7):
    """q, ∂q/∂e_N, ∂q/∂g and ∂q/∂h of a ball, before and after its first impact."""
    hit = np.sqrt(2 * h / g)
    v, tau = np.sqrt(2 * g * h), t - np.sqrt(2 * h / g)
    before = t < hit
    q = np.where(before, h - 0.5 * g * t**2, e * v * tau - 0.5 * g * tau**2)
    d_e = np.where(before, 0.0, v * tau)
    rate = e * v - g * tau
    d_g = np.where(before, -0.5 * t**2, e * v / (2 * g) * tau - 0.5 * tau**2 + rate * hit / (2 * g))
    d_h = np.where(before, 1.0, e * g / v * tau - rate / np.sqrt(2 * g * h))
    return q, d_e, d_g, d_h


@pytest.fixture(scope="module")
def ball_sensitivity():
    return ns.sensitivity(BALL, EVENT, *START, ["e_N", "gravity", "q0"], dt=0.06, num_steps=10)


def test_sensitivities_of_the_motion_jump_at_the_impact(ball_sensitivity):
    s = ball_sensitivity
    q, d_e, d_g, d_h = height_and_derivatives(np.asarray(s.trajectory.t))
    np.testing.assert_allclose(s.trajectory.q[:, 0], q, atol=1e-10)
    np.testing.assert_allclose(s.q["e_N"][:, 0], d_e, atol=1e-9)
    np.testing.assert_allclose(s.q["gravity"][:, 0], d_g, atol=1e-9)
    np.testing.assert_allclose(s.q["q0"][:, 0, 0], d_h, atol=1e-9)
    assert s.u["q0"].shape == (11, 1, 1)


def test_sensitivities_are_drawn(ball_sensitivity):
    figure = plot.sensitivity(ball_sensitivity)
    assert [ax.get_ylabel() for ax in figure.axes] == ["∂q / ∂e_N", "∂q / ∂gravity", "∂q / ∂q0"]
    grey = [line.get_xdata()[0] for line in figure.axes[0].get_lines() if len(set(line.get_xdata())) == 1]
    np.testing.assert_allclose(grey, [np.sqrt(2 * 0.5 / GRAVITY)], atol=1e-9)  # the one impact, and nothing else


def test_unknown_parameter_of_a_sensitivity_is_named():
    with pytest.raises(KeyError, match="friction"):
        ns.sensitivity(BALL, EVENT, *START, ["friction"], dt=0.06, num_steps=2)


def test_gradient_report_says_which_derivative_to_trust():
    """Before the second impact e_N moves no instant: Moreau's derivative is right. Gravity moves the first one."""
    report = ns.analysis.gradient_report(
        BALL, *START, ["e_N", "gravity"], dt=1e-3, num_steps=500, capturing=[ns.Moreau()], event_driven=EVENT
    )
    assert report.verdict == {"e_N": "any", "gravity": "event-driven"}
    _, d_e, d_g, _ = height_and_derivatives(np.array(0.5))
    assert float(report.derivatives["event-driven"]["gravity"]) == pytest.approx(float(d_g), rel=1e-8)
    assert float(report.derivatives["Moreau"]["e_N"]) == pytest.approx(float(d_e), rel=1e-2)
    assert "event-driven" in str(report)
    assert "1 events" in str(report)


# Multiple shooting ------------------------------------------------------------------------------------------------------


def _mass(t, q, p):
    return jnp.eye(1)


def _well(t, q, p):
    """A double well: a driven motion in it is chaotic."""
    return 0.25 * q[0] ** 4 - 0.5 * p["k"] * q[0] ** 2


def _drive(t, q, u, p):
    return 0.4 * jnp.cos(1.2 * t) * jnp.ones(1) - 0.2 * u


DUFFING = ns.System({"k": 1.0}, _mass, potential=_well, force=_drive)
WINDOWS, STEPS, DT = 12, 40, 0.05


def test_multiple_shooting_fits_a_chaotic_record():
    """One run from the start finds no way through the chaos; twelve windows do."""
    q0, u0 = jnp.array([0.5]), jnp.zeros(1)
    full = ns.simulate(DUFFING, ns.Moreau(), q0, u0, dt=DT, num_steps=WINDOWS * STEPS)
    record = np.asarray(full.q[1:, 0]) + 0.01 * np.random.default_rng(3).standard_normal(WINDOWS * STEPS)

    def run(params, t0, q0, u0):
        return ns.simulate(DUFFING.with_params(**params), ns.Moreau(), q0, u0, dt=DT, num_steps=STEPS, t0=t0)

    shooting = ns.Shooting(run, lambda traj: traj.q[:, 0], WINDOWS, window=STEPS * DT)
    measured = np.concatenate([[0.5], record])
    q = measured[: WINDOWS * STEPS : STEPS, None]
    u = np.gradient(measured, DT)[: WINDOWS * STEPS : STEPS, None]
    data = shooting.data(record, nq=1, nu=1)
    weights = shooting.weights(data, defect=100.0)
    guess = shooting.guess({"k": 1.4}, q, u)
    fit = ns.identify(shooting.predict, data, guess, weights=weights, num_iters=60)
    assert float(fit.params["params"]["k"]) == pytest.approx(1.0, abs=0.01)
    prediction = shooting.predict(fit.params)
    assert float(jnp.max(jnp.abs(prediction["defect_q"]))) <= 0.02
    assert fit.names[0] == "params.k"

    def single(p):
        return ns.simulate(DUFFING.with_params(**p), ns.Moreau(), q0, u0, dt=DT, num_steps=WINDOWS * STEPS).q[1:, 0]

    alone = ns.identify(single, record, {"k": 1.4}, num_iters=60)
    assert abs(float(alone.params["k"]) - 1.0) > 0.02


def test_states_of_windows_must_be_as_many_as_windows():
    shooting = ns.Shooting(lambda *a: None, lambda traj: traj.q, 3, window=1.0)
    with pytest.raises(ValueError, match=r"\(3, n\)"):
        shooting.guess({}, np.zeros((2, 1)), np.zeros((3, 1)))


# Records and the command line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,q1\n", "at least one line"),
        ("time,q1\n0,1\n", "no time column"),
        ("t,q1\n0,1\n0,2\n", "must rise"),
        ("t,q1\n0,1,2\n", "line 2 has 3 fields"),
        ("t,t\n0,1\n", "must differ"),
        ("t,q1\n0,high\n", "column 'q1'"),
    ],
    ids=["empty", "no time", "time stands", "too many fields", "names twice", "no number"],
)
def test_faulty_records_are_explained(text, message, tmp_path):
    file = tmp_path / "record.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        ns.read_csv(file)


@pytest.fixture(scope="module")
def slide(tmp_path_factory):
    """A mass that slides down the slope, measured with noise and gaps, as CSV."""
    p = ns.models.mass_on_slope(case=2)
    traj = ns.simulate(p.system.with_params(mu=0.25), ns.Rattle(), p.q0, p.u0, dt=5e-3, num_steps=200, save_every=4)
    rng = np.random.default_rng(4)
    x = np.asarray(traj.q[:, 0])
    lines = [f"{t:.4f},{'' if k % 7 == 3 else x[k] + 1e-3 * rng.standard_normal():.6}" for k, t in enumerate(traj.t)]
    file = tmp_path_factory.mktemp("slide") / "slide.csv"
    file.write_text("# a comment\nt,q1\n" + "\n".join(lines) + "\n")
    return file


IDENTIFY = ["identify", "mass-on-slope", "--param", "case=2", "--integrator", "rattle", "--dt", "5e-3"]


def test_identify_on_the_command_line(slide, tmp_path, capsys):
    report, figure, saved = tmp_path / "report.txt", tmp_path / "fit.png", tmp_path / "fit.npz"
    command = [*IDENTIFY, "--data", str(slide), "--fit", "mu", "--bounds", "mu=0:1", "--report", str(report)]
    assert cli.main([*command, "--plot", str(figure), "--save", str(saved)]) == 0
    assert "mu" in report.read_text()
    assert "±" in capsys.readouterr().out
    assert figure.stat().st_size > 5000
    with np.load(saved) as arrays:
        error = float(np.sqrt(arrays["covariance"][0, 0]))
        assert float(arrays["fit_mu"]) == pytest.approx(0.25, rel=5e-3)  # half a per cent
        assert abs(float(arrays["fit_mu"]) - 0.25) <= 4.0 * error
        assert arrays["fitted_q1"].shape == arrays["data_q1"].shape == (51,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--fit", "friction"], "no parameter"),
        (["--fit", "mu", "--bounds", "mu=1"], "name=low:high"),
        (["--fit", "mu", "--columns", "q7"], "cannot fit columns"),
    ],
    ids=["parameter", "bounds", "column"],
)
def test_wrong_usage_of_identify(change, message, slide, capsys):
    assert cli.main([*IDENTIFY, "--data", str(slide), *change]) == 2
    assert message in capsys.readouterr().err
