"""Identification from many records: elimination, robust losses, honest errors, splits, failures, wrong arguments."""

from __future__ import annotations

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from small_problems import falling_ball

import jaxns as ns
from jaxns.command_line import main as cli
from jaxns.command_line import records as cli_records
from jaxns.records import arrow

N, ROWS = 40, 25
T = np.linspace(0.0, 1.0, ROWS)
HEIGHTS = np.linspace(1.0, 2.0, N)


def fall(shared, own, record):
    return own["h"] + own["v"] * T - 0.5 * shared["g"] * T**2


def records_of(rng, noise=0.01, count=N):
    speeds = np.linspace(-1.0, 1.0, count)
    heights = np.linspace(1.0, 2.0, count)
    clean = heights[:, None] + speeds[:, None] * T - 4.905 * T**2
    return clean + noise * rng.standard_normal(clean.shape)


def fit_of(records, **options):
    count = len(records)
    arguments = {"shared": {"g": 5.0}, "own": {"h": np.ones(count), "v": np.zeros(count)}, **options}
    return ns.identify_records(fall, records, **arguments)


# Elimination ------------------------------------------------------------------------------------------------------------


def test_eliminated_step_is_that_of_the_whole_matrix(rng):
    """The same damped least squares problem, written out as one dense matrix; damped is what does not follow δs."""
    count, n, k, m = 4, 9, 2, 3
    J, r = rng.standard_normal((count, n, k + m)), rng.standard_normal((count, n))
    own, damping = np.array([0.1, 1.0, 0.01, 3.0]), 0.3
    R = arrow.triangles(J, r)
    step = arrow.step(R, k, own, damping)
    D_o = np.linalg.norm(J[:, :, :k], axis=1)
    A, b = np.zeros((count * (n + k) + m, count * k + m)), np.zeros(count * (n + k) + m)
    for i in range(count):
        rows, columns = slice(i * n, (i + 1) * n), slice(i * k, (i + 1) * k)
        A[rows, columns], A[rows, count * k :], b[rows] = J[i, :, :k], J[i, :, k:], -r[i]
        T = np.linalg.lstsq(J[i, :, :k], J[i, :, k:], rcond=None)[0]  # own ones follow by −T δs
        damped = slice(count * n + i * k, count * n + (i + 1) * k)
        A[damped, columns] = np.sqrt(own[i]) * np.diag(D_o[i])
        A[damped, count * k :] = A[damped, columns] @ T
        np.testing.assert_allclose(step.follow[i], -T @ step.shared, rtol=1e-8)
    left = A[: count * n, count * k :] - A[: count * n, : count * k] @ np.linalg.lstsq(
        A[: count * n, : count * k], A[: count * n, count * k :], rcond=None
    )[0]  # fmt: skip
    D_s = np.linalg.norm(left, axis=0)
    A[-m:, -m:] = np.sqrt(damping) * np.diag(D_s)
    whole = np.linalg.lstsq(A, b, rcond=None)[0]
    np.testing.assert_allclose(step.own.ravel(), whole[: count * k], rtol=1e-8)
    np.testing.assert_allclose(step.shared, whole[count * k :], rtol=1e-8)
    promised = [np.sum((J[i] @ np.append(step.own[i], step.shared) + r[i]) ** 2) for i in range(count)]
    np.testing.assert_allclose(step.predicted, promised, rtol=1e-10)


def test_a_record_that_cannot_move_does_not_hold_shared_parameters(rng):
    """Damping of own parameters is that of their own steps; they follow shared ones all the same."""
    J, r = rng.standard_normal((4, 9, 5)), rng.standard_normal((4, 9))
    J[1, :, 2:] += 1e3 * J[1, :, :1]  # where own ones absorb most of what shared ones do
    R = arrow.triangles(J, r)
    stuck, free = (arrow.step(R, 2, np.array([1e-6, damping, 1e-6, 1e-6]), 0.0) for damping in (1e8, 1e-6))
    np.testing.assert_allclose(stuck.shared, free.shared, rtol=1e-6)
    np.testing.assert_allclose(stuck.own[1], stuck.follow[1], rtol=1e-6)


def test_linear_model_against_regression_with_one_matrix(rng):
    records = records_of(rng)
    fit = fit_of(records)
    A = np.zeros((N * ROWS, 2 * N + 1))
    for i in range(N):
        A[i * ROWS : (i + 1) * ROWS, 2 * i : 2 * i + 2] = np.stack([np.ones(ROWS), T], axis=1)
        A[i * ROWS : (i + 1) * ROWS, -1] = -0.5 * T**2
    beta, square, *_ = np.linalg.lstsq(A, records.ravel(), rcond=None)
    np.testing.assert_allclose(fit.shared["g"], beta[-1], rtol=1e-8)
    np.testing.assert_allclose(fit.own["h"], beta[:-1:2], rtol=1e-6)
    variance = square[0] / (N * ROWS - 2 * N - 1) * np.linalg.inv(A.T @ A)[-1, -1]
    np.testing.assert_allclose(fit.covariance_plain[0, 0], variance, rtol=1e-6)
    assert fit.ok
    assert abs(fit.covariance[0, 0] / variance - 1.0) < 0.6
    assert fit.names == ("g",)
    assert "40 records" in str(fit)


def test_jackknife_against_leaving_out_each_record(rng):
    """The linearised jackknife is exact for a linear model."""
    records = records_of(rng, count=12)
    without = [float(fit_of(np.delete(records, i, axis=0)).shared["g"]) for i in range(12)]
    expected = 11.0 / 12.0 * np.sum((np.array(without) - np.mean(without)) ** 2)
    np.testing.assert_allclose(fit_of(records).covariance_sandwich[0, 0], expected, rtol=1e-5)


def test_the_step_that_is_left_leads_to_the_solution(rng):
    """In a linear model Newton's step from anywhere ends at the solution."""
    records = records_of(rng)
    with pytest.warns(ns.FitWarning):
        short = fit_of(records, num_iters=1)
    whole = fit_of(records)
    assert abs(short.left[0]) > 3.0
    there = float(short.shared["g"] + short.left[0] * short.standard_errors["g"])
    np.testing.assert_allclose(there, whole.shared["g"], rtol=1e-8)
    assert abs(whole.left[0]) < 1e-2


# Samples ----------------------------------------------------------------------------------------------------------------


def test_records_of_different_length_inputs_and_lists(rng):
    """Times stand in the record as inputs; short records are filled up."""
    whole = records_of(rng)
    lengths = rng.integers(8, ROWS + 1, N)
    listed = [{"t": T[:n], "y": y[:n]} for n, y in zip(lengths, whole, strict=True)]

    def predict(shared, own, record):
        t = jnp.nan_to_num(record["t"])
        return {"y": own["h"] + own["v"] * t - 0.5 * shared["g"] * t**2}

    own = {"h": np.ones(N), "v": np.zeros(N)}
    fit = ns.identify_records(predict, listed, shared={"g": 5.0}, own=own)
    masked = np.where(np.arange(ROWS) < lengths[:, None], whole, np.nan)
    same = fit_of(masked)
    np.testing.assert_allclose(fit.shared["g"], same.shared["g"], rtol=1e-9)
    np.testing.assert_allclose(fit.covariance, same.covariance, rtol=1e-6)
    assert int(fit.samples.exists.sum()) == lengths.sum()
    weighted = fit_of(whole, weights=np.isfinite(masked).astype(float))
    np.testing.assert_allclose(weighted.shared["g"], same.shared["g"], rtol=1e-9)


def test_horizons_and_chunks_change_nothing_in_a_linear_model(rng):
    records = records_of(rng)
    fit = fit_of(records, horizons=(0.3, 1.0), chunk=7, workers=2)
    np.testing.assert_allclose(fit.shared["g"], fit_of(records).shared["g"], rtol=1e-8)
    with pytest.warns(ns.FitWarning, match="last horizon is 0.5"):
        early = fit_of(records, horizons=0.5)
    np.testing.assert_allclose(early.shared["g"], fit_of(np.where(T < 0.5, records, np.nan)).shared["g"], rtol=1e-5)


@pytest.mark.parametrize("derivatives", ["forward", "differences"])
def test_bounds_of_shared_and_own_parameters(rng, derivatives):
    records = records_of(rng)
    fit = fit_of(
        records, bounds={"g": (1.0, 20.0)}, own_bounds={"h": (0.0, 3.0)}, derivatives=derivatives, step=1e-4, tol=1e-12
    )
    np.testing.assert_allclose(fit.shared["g"], fit_of(records).shared["g"], rtol=1e-5)


def test_own_parameters_are_not_needed(rng):
    records = 0.5 + 2.0 * T - 4.905 * T**2 + 0.01 * rng.standard_normal((12, ROWS))
    fit = ns.identify_records(
        lambda shared, own, record: shared["h"] + shared["v"] * T - 4.905 * T**2,
        records,
        shared={"h": 0.1, "v": 0.1},
    )
    assert fit.own == {}
    assert fit.covariance.shape == (2, 2)


def test_shooting_windows_are_records(rng):
    """Windows of several records with defects between them, in one fit."""
    ball = falling_ball()

    def run(params, t0, q0, u0):
        return ns.simulate(ball.with_params(**params), ns.Moreau(), q0, u0, dt=0.02, num_steps=5, t0=t0, check=False)

    shooting = ns.Shooting(run, lambda traj: traj.q[:, 0], num_windows=2, window=0.1)

    def predict(shared, own, record):
        return shooting.predict({"params": shared, **own})

    heights = jnp.array([2.0, 3.0, 4.0])
    truth = {"q": heights[:, None, None] * jnp.ones((3, 2, 1)), "u": jnp.zeros((3, 2, 1))}
    records = []
    for h in heights:
        traj = ns.simulate(
            ball.with_params(gravity=9.0), ns.Moreau(), jnp.array([h]), jnp.zeros(1), dt=0.02, num_steps=10
        )
        records.append(shooting.data(traj.q[1:, 0], 1, 1))
    fit = ns.identify_records(
        predict, records, shared={"gravity": 9.81}, own=truth, weights=shooting.weights(records[0])
    )
    assert float(fit.shared["gravity"]) == pytest.approx(9.0, rel=1e-6)


# Robust losses and honest errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_gross_outliers_do_little_to_robust_losses(rng, loss):
    records = records_of(rng)
    spoilt = np.where(rng.random(records.shape) < 0.05, records + 3.0 * rng.standard_normal(records.shape), records)
    fit = fit_of(spoilt, loss=loss)
    assert float(fit.shared["g"]) == pytest.approx(9.81, abs=4.0 * float(fit.standard_errors["g"]))
    assert float(fit.standard_errors["g"]) < 0.05
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # outliers bend own parameters
        assert float(fit_of(spoilt).standard_errors["g"]) > 0.1
    assert 0.008 < fit.scale < 0.013  # the scale is that of the good samples


@pytest.mark.parametrize("loss", ["l2", pytest.param("huber", marks=pytest.mark.slow)])
def test_intervals_cover_the_truth_as_often_as_they_say(loss):
    """Errors that correlate from row to row: the sandwich holds, the plain covariance does not."""
    rng, inside, inside_plain, count = np.random.default_rng(7), 0, 0, 150
    for _ in range(count):
        noise = rng.standard_normal((30, ROWS))
        for row in range(1, ROWS):
            noise[:, row] = 0.9 * noise[:, row - 1] + np.sqrt(0.19) * noise[:, row]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit = fit_of(records_of(rng, 0.0, 30) + 0.05 * noise, loss=loss)
        assert any("far from white" in str(w.message) for w in caught)
        low, high = fit.intervals()["g"]
        inside += low <= 9.81 <= high
        inside_plain += abs(float(fit.shared["g"]) - 9.81) <= 1.96 * np.sqrt(fit.covariance_plain[0, 0])
    assert 0.90 <= inside / count <= 0.98
    assert inside_plain / count < 0.85


def test_a_wrong_model_says_so(rng, tmp_path):
    """Drag that the model does not know: residuals are smooth curves, larger than the noise."""
    records = records_of(rng, noise=1e-3) + 0.3 * T**3 * np.linspace(0.5, 1.5, N)[:, None]
    with pytest.warns(ns.FitWarning) as caught:
        fit = fit_of(records)
    text = " ".join(str(w.message) for w in caught)
    assert "far from white" in text
    assert "misses the records by more than their noise" in text
    assert len(fit.doubts) == 2
    assert "doubt" in str(fit)
    page = fit.report(tmp_path / "fit.html").read_text()
    assert "far from white" in page
    assert "misses the records by more than their noise" in page


def test_a_fit_that_was_cut_short_says_so(rng, tmp_path):
    """One damped step from g = 5 with noise of 0.01: the error is larger than three of the standard errors stated."""
    records = records_of(rng)
    with pytest.warns(ns.FitWarning) as caught:
        short = fit_of(records, num_iters=1)
    assert any(re.search("has not converged.*too small.*num_iters", str(w.message)) for w in caught)
    assert not short.converged
    assert abs(short.shared["g"] - 9.81) > 3.0 * short.standard_errors["g"]
    assert "doubt: the fit has not converged" in str(short)
    assert "the fit has not converged" in short.report(tmp_path / "fit.html").read_text()
    whole = fit_of(records)
    assert whole.converged
    assert "not converged" not in str(whole) + whole.report(tmp_path / "fit.html").read_text()


def test_no_doubt_where_the_model_is_right(rng):
    assert fit_of(records_of(rng)).doubts == ()


def test_parameters_that_no_record_sees_are_named(rng):
    with pytest.warns(ns.IdentifiabilityWarning, match="do not determine a, b"):
        fit = ns.identify_records(
            lambda s, o, r: o["h"] + o["v"] * T - 0.5 * (s["a"] + s["b"]) * T**2,
            records_of(rng),
            shared={"a": 4.0, "b": 5.0},
            own={"h": np.ones(N), "v": np.zeros(N)},
        )
    assert np.all(np.isinf(np.diag(fit.covariance)))


def test_records_beyond_a_jump_of_their_loss_find_back(rng):
    """Balls that bounce once, those that fall from above 0.5 faster after it: own heights bend while e_N is wrong."""

    def predict(shared, own, record):
        h, v = own["h"], own["v"]
        after = jnp.where(h / v > T, h - v * T, shared["e_N"] * (v * T - h))
        return after + jnp.where(h > 0.5, 0.3 * shared["e_N"] * T, 0.0)

    own = {"h": rng.uniform(0.35, 0.65, N), "v": rng.uniform(0.8, 1.2, N)}
    clean = jax.vmap(lambda own: predict({"e_N": 0.5}, own, None))(own)
    records = clean + 0.01 * rng.standard_normal(clean.shape)
    near = own | {"h": own["h"] + 0.002 * rng.standard_normal(N)}
    fit = ns.identify_records(predict, np.asarray(records), shared={"e_N": 0.1}, own=near)
    assert fit.converged
    assert fit.loss < 0.01**2
    assert abs(fit.shared["e_N"] - 0.5) < 3.0 * fit.standard_errors["e_N"]


def test_records_find_back_from_their_first_rows(rng):
    """Guesses of frequencies a period off at the end: least squares of all rows have many minima, of the first ones one."""
    t = np.linspace(0.0, 1.0, 60)

    def predict(shared, own, record):
        return shared["a"] * jnp.sin(own["w"] * t)

    w = rng.uniform(25.0, 35.0, 20)
    records = 0.8 * np.sin(w[:, None] * t) + 0.02 * rng.standard_normal((20, 60))
    guess = w + rng.choice([-7.0, 7.0], 20)
    fit = ns.identify_records(predict, records, shared={"a": 1.0}, own={"w": guess})
    np.testing.assert_allclose(fit.own["w"], w, rtol=0.01)
    assert abs(fit.shared["a"] - 0.8) < 3.0 * fit.standard_errors["a"]


# Parts, failures, files -------------------------------------------------------------------------------------------------


def test_records_left_out_are_predicted_from_their_first_rows(rng):
    records = records_of(rng, noise=0.001)
    fit = fit_of(records, test=0.25, test_rows=8)
    assert len(fit.test.index) == 10
    assert fit.own["h"].shape == (N,)
    np.testing.assert_allclose(fit.own["h"][fit.test.index], HEIGHTS[fit.test.index], atol=0.01)
    same = fit_of(np.delete(records, fit.test.index, axis=0))
    np.testing.assert_allclose(fit.shared["g"], same.shared["g"], rtol=1e-9)
    worse = records.copy()
    worse[fit.test.index[0], 8:] += 1.0  # what is predicted does not enter the fit, but the error
    other = fit_of(worse, test=fit.test.index, test_rows=8)
    np.testing.assert_allclose(other.own["h"], fit.own["h"], rtol=1e-12)
    assert other.test.rms[0] > 0.9
    assert np.argmax(other.test.rms) == 0


def test_an_outlier_in_the_first_rows_of_a_record_left_out_is_an_outlier(rng):
    """A gross error among the ten rows that give the start: squares would follow it, the loss of the fit does not."""
    records = records_of(rng, noise=0.001)
    records[::4, 7] += 1.0
    fit = fit_of(records, loss="cauchy", test=np.arange(0, N, 4), test_rows=10)
    np.testing.assert_allclose(fit.own["h"][::4], HEIGHTS[::4], atol=0.005)
    assert np.max(fit.test.rms) < 0.02  # half a meter and more with squares


def test_a_loss_with_teeth_does_not_stop_the_fit():
    """Jumps of a scheme that loses instants: damping must grow at once, and the fit must know that it is at its end."""

    def jagged(shared, own, record):
        g = shared["g"] + 0.3 * jnp.sin(40.0 * (shared["g"] + record[0]))
        return record[0] + own["v"] * T - 0.5 * g * T**2

    options = {"shared": {"g": 5.0}, "own": {"v": np.zeros(N)}, "derivatives": "differences", "step": 0.05, "tol": 1e-4}
    for seed in range(3):
        records = records_of(np.random.default_rng(seed), noise=0.001)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # teeth are no noise, and the fit says so
            fit = ns.identify_records(jagged, records, **options)
        assert fit.converged
        assert abs(fit.shared["g"] - 9.81) < 0.05


def test_records_that_fail_are_named_and_disturb_no_other(rng):
    records = records_of(rng)

    def fragile(shared, own, record):
        return fall(shared, own, record) + jnp.where(record[0] > 1.95, jnp.nan, 0.0)

    bad = np.flatnonzero(records[:, 0] > 1.95)
    own = {"h": np.ones(N), "v": np.zeros(N)}
    with pytest.warns(ns.FitWarning, match=f"{len(bad)} of 40 records could not be predicted"):
        fit = ns.identify_records(fragile, records, shared={"g": 5.0}, own=own)
    np.testing.assert_array_equal(fit.failed, bad)
    np.testing.assert_allclose(fit.shared["g"], fit_of(np.delete(records, bad, axis=0)).shared["g"], rtol=1e-8)
    with pytest.raises(ns.IdentificationError, match="any of the 40 records"):
        ns.identify_records(lambda s, o, r: jnp.nan * fall(s, o, r), records, shared={"g": 5.0}, own=own)


def test_a_fit_goes_on_from_its_file(rng, tmp_path):
    records, path = records_of(rng), tmp_path / "fit.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # far from its end, it has doubts
        short = fit_of(records, path=path, num_iters=1)
    assert not short.converged
    rest = fit_of(records, path=path)
    np.testing.assert_allclose(rest.history[: len(short.history)], short.history, rtol=1e-9)
    np.testing.assert_allclose(rest.shared["g"], fit_of(records).shared["g"], rtol=1e-8)
    with pytest.raises(ValueError, match="belongs to another fit"):
        fit_of(records + 1.0, path=path)


def test_progress_bar_shows_the_loss(rng, capsys):
    fit_of(records_of(rng), progress=True)
    assert "loss" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "l1"}, "loss must be one of"),
        ({"own": {"h": 1.0, "v": 2.0}}, "needs a leading axis"),
        ({"own": {"h": np.ones(3), "v": np.ones(N)}}, "same leading size"),
        ({"bounds": {"b": (0, 1)}}, r"bounds for \['b'\]"),
        ({"weights": np.ones(7)}, "do not fit"),
        ({"weights": -1.0}, "negative"),
        ({"horizons": ()}, "at least one"),
        ({"test": 1.5}, "test must be a fraction"),
        ({"test": np.ones(N, bool)}, "leaves no record"),
        ({"derivatives": "reverse"}, "derivatives must be"),
    ],
    ids=lambda v: v if isinstance(v, str) else next(iter(v)),
)
def test_wrong_arguments_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        fit_of(records_of(np.random.default_rng(0)), **options)


def test_shapes_that_do_not_agree_are_explained(rng):
    with pytest.raises(ValueError, match=r"shape \(25,\), but one record there has \(24,\)"):
        fit_of(records_of(rng)[:, 1:])
    with pytest.raises(ValueError, match="all records need the same structure"):
        ns.stack_records([{"a": T}, {"b": T}])


@pytest.mark.parametrize("left_out", [None, 0.3])
def test_report_is_one_page_with_everything_in_it(rng, tmp_path, left_out):
    records = records_of(rng)
    fit = fit_of(records, test=left_out, test_rows=None if left_out is None else 5, bounds={"g": (1.0, 20.0)})

    def draw(shared, own, row):
        return ns.Scene([ns.scene.disk(jnp.stack([0.0, row]), 0.1, 0.0)])

    text = fit.report(tmp_path / "fit.html", draw=draw, title="Falls & more").read_text()
    assert "Falls &amp; more" in text
    assert f"{fit.values[0]:.6g}" in text
    assert "http" not in text.replace("http-equiv", "")
    assert text.count('<svg class="film"') == 3
    part = fit.train if left_out is None else fit.test
    assert f"worst: record {part.index[np.argmax(part.rms)]}" in text
    assert "<!--" not in text


# Before a fit, and instead of one --------------------------------------------------------------------------------------


def test_check_foresees_errors_and_finds_gaps_and_outliers(rng):
    records = records_of(rng)
    expected = float(fit_of(records).standard_errors["g"])
    spoilt = records.copy()
    spoilt[3, 10] += 2.0
    spoilt[5, 12:] = np.nan
    own = {"h": HEIGHTS, "v": np.linspace(-1.0, 1.0, N)}
    check = ns.check_records(fall, spoilt, shared={"g": 9.0}, own=own)
    assert check.expected[0] == pytest.approx(expected, rel=0.3)
    assert check.outliers == ((3, "data", 10),)
    np.testing.assert_array_equal(np.flatnonzero(check.missing), [5])
    assert not check.ok
    assert "record 3 data row 10" in str(check)
    assert ns.check_records(fall, records, shared={"g": 9.0}, own=own).ok


def test_check_names_directions_and_wrong_derivatives(rng):
    """A derivative that the prediction cuts off is found; a product leaves one direction unseen."""

    def predict(shared, own, record):
        return shared["a"] * shared["b"] * T + jax.lax.stop_gradient(shared["c"]) * T**2 + shared["d"]

    check = ns.check_records(predict, records_of(rng), shared={"a": 2.0, "b": 3.0, "c": 1.0, "d": 0.1})
    assert check.wrong.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert any("0.71·d(a)/a - 0.71·d(b)/b" in text for text in check.directions)
    assert np.isinf(check.expected[:2]).all()
    assert np.isfinite(check.expected[3])


def test_log_posterior_has_the_curvature_of_the_fit(rng):
    """For a linear model with flat priors, its Hessian is the inverse of the covariance of all parameters."""
    records = records_of(rng, count=4)
    own = {"h": np.ones(4), "v": np.zeros(4)}
    density = ns.log_posterior(fall, records, shared={"g": 5.0}, own=own, noise=0.01)

    def flat(z):
        return density({"shared": z[:1], "own": z[1:].reshape(4, 2)})

    start = jnp.concatenate([density.start["shared"], density.start["own"].ravel()])
    H = jax.hessian(flat)(start)
    best = start - jnp.linalg.solve(H, jax.grad(flat)(start))
    params = density.params({"shared": best[:1], "own": best[1:].reshape(4, 2)})
    fit = fit_of(records)
    assert float(params["shared"]["g"]) == pytest.approx(float(fit.shared["g"]), rel=1e-6)
    variance = -jnp.linalg.inv(H)[0, 0] * 5.0**2  # z is in units of the guess
    scatter = np.sqrt(np.sum(np.asarray(fit.train.residuals) ** 2) / (4 * ROWS - 9))
    assert float(variance) == pytest.approx(fit.covariance_plain[0, 0] * (0.01 / scatter) ** 2, rel=1e-6)


def test_priors_bounds_and_failures_of_the_posterior(rng):
    records = records_of(rng, count=4)
    options = {"shared": {"g": 9.0}, "own": {"h": np.ones(4), "v": np.zeros(4)}, "noise": 0.01}
    flat = ns.log_posterior(fall, records, **options)
    prior = ns.log_posterior(fall, records, **options, priors={"g": (9.8, 0.1)}, own_priors={"v": lambda v: -(v**2)})
    difference = float(prior(flat.start) - flat(flat.start))
    assert difference == pytest.approx(-0.5 * 8.0**2 - np.log(0.1), rel=1e-9)
    bounded = ns.log_posterior(fall, records, **options, bounds={"g": (1.0, 20.0)}, distribution="student")
    assert float(bounded.params(bounded.start)["shared"]["g"]) == pytest.approx(9.0)
    assert np.isfinite(float(bounded(bounded.start)))
    broken = ns.log_posterior(lambda s, o, r: jnp.nan * fall(s, o, r), records, **options)
    assert float(broken(broken.start)) == -np.inf
    with pytest.raises(ValueError, match=r"priors for \['mu'\]"):
        ns.log_posterior(fall, records, **options, priors={"mu": (0.0, 1.0)})


def test_blackjax_takes_the_log_posterior(rng):
    blackjax = pytest.importorskip("blackjax")
    records = records_of(rng, count=4)
    own = {"h": np.ones(4), "v": np.zeros(4)}
    density = ns.log_posterior(fall, records, shared={"g": 9.8}, own=own, noise=0.01)
    warmup = blackjax.window_adaptation(blackjax.nuts, density)
    (state, parameters), _ = warmup.run(jax.random.key(0), density.start, num_steps=200)
    step = jax.jit(blackjax.nuts(density, **parameters).step)
    found = []
    for key in jax.random.split(jax.random.key(1), 300):
        state, _ = step(key, state)
        found.append(float(density.params(state.position)["shared"]["g"]))
    fit = fit_of(records)
    assert np.mean(found) == pytest.approx(float(fit.shared["g"]), abs=4.0 * float(fit.standard_errors["g"]))


# Files ------------------------------------------------------------------------------------------------------------------


def test_command_line_fits_a_folder(rng, tmp_path, capsys):
    """Other names, millimetres, semicolons, uneven times, and a start of each record's own."""
    ball = ns.models.bouncing_ball()
    folder = tmp_path / "drops"
    folder.mkdir()
    for k, height in enumerate((0.6, 0.7, 0.8, 0.9)):
        t = np.sort(rng.uniform(0.0, 0.3, 15))
        lines = [f"{1e3 * a:.6f};{1e3 * (height - 0.5 * 9.5 * a * a):.6f}" for a in t]
        (folder / f"drop{k}.csv").write_text("\n".join(["# a comment", "time [ms];height [mm]", *lines, ""]))
    page = tmp_path / "fit.html"
    command = ["identify", "bouncing-ball", "--data", str(folder), "--fit", "gravity", "--own", "q2"]
    command += ["--map", "time=t,height=q2", "--integrator", "Moreau", "--dt", "2e-3", "--report", str(page)]
    assert ball.system.params["gravity"] != 9.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # straight lines between the rows of the simulation are not white
        assert cli.main(command) == 0
    value = float(re.search(r"gravity\s+([\d.]+)", capsys.readouterr().out).group(1))
    assert value == pytest.approx(9.5, rel=5e-3)
    assert "drops" in page.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time [ms];height [mm]\n1;2\n2;x\n", r"drop.csv: line 3, column 'height \[mm\]'"),
        ("time [ms];height [mm]\n1;2\n\n2;3;4\n", r"drop.csv: line 4 has 3 fields"),
        ("time [ms];height [furlong]\n1;2\n2;3\n", r"drop.csv: line 1: unknown unit 'furlong'"),
        ("time [mm];height [mm]\n1;2\n2;3\n", r"drop.csv: line 1: 'mm' of column 'time' is no unit of time"),
        ("time [ms];height [mm/s]\n1;2\n2;3\n", r"line 1: 'mm/s' of column 'height' is no unit of a coordinate \(q2\)"),
        ("time [ms]\theight [mm]\n2\t2\n1\t3\n", r"drop.csv: line 3: the time column"),
        ("height [mm]\n2\n3\n", r"drop.csv: there is no time column"),
    ],
)
def test_messages_name_file_and_line(tmp_path, text, message):
    (tmp_path / "drop.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        cli_records.read_folder(tmp_path, {"time": "t", "height": "q2"})


# Poses ------------------------------------------------------------------------------------------------------------------


def test_pose_residual_against_scipy(rng):
    a, b = (Rotation.random(50, random_state=k) for k in (1, 2))

    def pose(rotation):
        return np.concatenate([rng.standard_normal((50, 3)), np.roll(rotation.as_quat(), 1, axis=1)], axis=1)

    measured, predicted = pose(a), pose(b)
    found = ns.pose_residual(predicted, measured, length=0.1)
    np.testing.assert_allclose(found[:, 3:], 0.1 * (a.inv() * b).as_rotvec(), atol=1e-12)
    np.testing.assert_allclose(found[:, :3], predicted[:, :3] - measured[:, :3])
    longer = predicted * np.array([1.0, 1.0, 1.0, -2.0, -2.0, -2.0, -2.0])
    np.testing.assert_allclose(ns.pose_residual(longer, measured)[:, 3:], (a.inv() * b).as_rotvec(), atol=1e-12)


def test_pose_residual_has_derivatives_where_poses_agree():
    pose = jnp.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5])
    J = jax.jacfwd(lambda q: ns.pose_residual(q, pose))(pose)
    away = pose + 1e-4 * jnp.array([0.0, 0.0, 0.0, 1.0, -1.0, 0.5, -0.5])
    np.testing.assert_allclose(J @ (away - pose), ns.pose_residual(away, pose), atol=1e-8)
    with pytest.raises(ValueError, match=r"must have shape \(…, 7\)"):
        ns.pose_residual(jnp.ones(6), pose)
