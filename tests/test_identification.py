"""Identification: recovered parameters, bounds, starts, missing samples, standard errors, and honest failures."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_problems import falling_ball

import jaxns as ns
from jaxns.host import progress as bars

T = jnp.linspace(0.0, 2.0, 60)


def decay(p):
    """A prediction in closed form, so that most tests need no simulation."""
    return p["a"] * jnp.exp(-p["k"] * T)


TRUTH = {"a": 2.0, "k": 1.5}
CLEAN = decay(TRUTH)
NOISY = CLEAN + 0.01 * jnp.asarray(np.random.default_rng(0).standard_normal(60))
GUESS = {"a": 1.0, "k": 0.5}


def assert_near(params, truth, rtol):
    for name, value in truth.items():
        assert float(params[name]) == pytest.approx(value, rel=rtol), name


# Optimizers and options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "forward"),
    [
        (None, True),
        ("levenberg-marquardt", True),
        (optax.adam(0.1), True),
        (optax.adam(0.1), False),
        (optax.lbfgs(), False),
    ],
    ids=["default", "by name", "adam forward", "adam reverse", "lbfgs"],
)
def test_optimizers_find_the_parameters(optimizer, forward):
    fit = ns.identify(decay, CLEAN, GUESS, optimizer=optimizer, forward=forward, num_iters=300)
    assert_near(fit.params, TRUTH, 1e-3)
    assert float(fit.loss) <= 1e-6
    assert float(fit.history[0, 0]) == pytest.approx(float(jnp.mean((decay(GUESS) - CLEAN) ** 2)), rel=1e-9)


@pytest.mark.parametrize(
    "bounds",
    [
        None,
        {"a": (0.5, 10.0), "k": (0.1, 5.0)},
        {"a": (0.5, None)},
        {"a": (None, 10.0), "k": None},
        {"a": (None, None), "k": (0.0, 2.0)},
    ],
    ids=str,
)
def test_bounds_of_all_kinds_contain_the_solution(bounds):
    fit = ns.identify(decay, CLEAN, GUESS, bounds=bounds)
    assert_near(fit.params, TRUTH, 1e-6)
    assert bool(fit.ok)


def test_bounds_are_kept():
    """The solution lies outside: the fit ends near the bound and never beyond it."""
    fit = ns.identify(decay, CLEAN, {"a": 1.0, "k": 0.5}, bounds={"a": (0.1, 1.5)}, num_starts=8)
    assert 1.45 <= float(fit.params["a"]) <= 1.5
    assert np.all(np.asarray(fit.starts.initial["a"]) <= 1.5)


def test_starts_run_together_and_the_best_one_wins():
    """cos(ω t) has many minima in ω; the guess leads to a wrong one."""

    def wave(p):
        return jnp.cos(p["w"] * T)

    data = wave({"w": 9.0})
    alone = ns.identify(wave, data, {"w": 3.0}, bounds={"w": (1.0, 20.0)})
    assert abs(float(alone.params["w"]) - 9.0) > 1.0
    many = ns.identify(wave, data, {"w": 3.0}, bounds={"w": (1.0, 20.0)}, num_starts=40, key=jax.random.key(3))
    assert_near(many.params, {"w": 9.0}, 1e-8)
    assert many.starts.loss.shape == (40,)
    assert float(many.loss) == float(jnp.min(many.starts.loss))
    again = ns.identify(wave, data, {"w": 3.0}, bounds={"w": (1.0, 20.0)}, num_starts=40, key=jax.random.key(3))
    np.testing.assert_array_equal(many.starts.loss, again.starts.loss)


def test_early_samples_first_lead_past_wrong_minima():
    def wave(p):
        return jnp.cos(p["w"] * T)

    fit = ns.identify(wave, wave({"w": 9.0}), {"w": 3.0}, bounds={"w": (1.0, 20.0)}, horizons=(0.1, 0.2, 0.3, 0.5, 1.0))
    assert_near(fit.params, {"w": 9.0}, 1e-8)


def test_missing_samples_and_weights():
    data = {"early": NOISY[:30].at[5].set(jnp.nan), "late": NOISY[30:].at[:20].set(jnp.nan)}

    def halves(p):
        return {"early": decay(p)[:30], "late": decay(p)[30:]}

    fit = ns.identify(halves, data, GUESS)
    assert int(fit.samples) == 39
    exists = np.isfinite(np.concatenate([data["early"], data["late"]]))
    weights = np.where(exists, 1.0, 0.0)
    same = ns.identify(decay, NOISY, GUESS, weights=weights)  # a weight of zero is a missing sample
    np.testing.assert_allclose(ravel(fit.params), ravel(same.params), rtol=1e-9)
    np.testing.assert_allclose(fit.covariance, same.covariance, rtol=1e-6)
    tilted = ns.identify(halves, data, GUESS, weights={"early": 1.0, "late": 1e6})
    late = np.mean((np.asarray(halves(tilted.params)["late"]) - np.asarray(data["late"]))[20:] ** 2)
    late_before = np.mean((np.asarray(halves(fit.params)["late"]) - np.asarray(data["late"]))[20:] ** 2)
    assert late < late_before


def ravel(params):
    return np.array([float(v) for v in params.values()])


# Covariance and identifiability -----------------------------------------------------------------------------------------


def test_covariance_against_linear_regression():
    """For a linear model the covariance has a closed form."""
    X = np.stack([np.ones(60), np.asarray(T)], axis=1)

    def line(p):
        return jnp.asarray(X) @ p

    y = X @ np.array([1.0, 2.0]) + 0.1 * np.random.default_rng(1).standard_normal(60)
    fit = ns.identify(line, y, jnp.array([0.5, 0.5]))
    beta, residual, *_ = np.linalg.lstsq(X, y, rcond=None)
    np.testing.assert_allclose(fit.params, beta, rtol=1e-8)
    expected = residual[0] / 58 * np.linalg.inv(X.T @ X)
    np.testing.assert_allclose(fit.covariance, expected, rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors, np.sqrt(np.diag(expected)), rtol=1e-6)
    assert fit.names == ("p[0]", "p[1]")


@pytest.mark.parametrize("optimizer", [None, optax.adam(0.1)], ids=["LM", "adam"])
def test_unidentifiable_parameters_are_named(optimizer):
    """Only the product of m and g is seen."""

    def weight(p):
        return p["m"] * p["g"] * T + p["b"]

    with pytest.warns(ns.IdentifiabilityWarning, match="do not determine g, m"):
        fit = ns.identify(weight, 2.0 * T + 1.0, {"m": 1.0, "g": 1.5, "b": 0.0}, optimizer=optimizer, num_iters=400)
    assert float(fit.params["m"] * fit.params["g"]) == pytest.approx(2.0, rel=1e-2)
    assert np.isinf(float(fit.standard_errors["m"]))
    assert np.isfinite(float(fit.standard_errors["b"]))


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ns.identify(decay, NOISY, GUESS)
    assert np.all(np.isfinite(np.asarray(fit.covariance)))


# Failures ---------------------------------------------------------------------------------------------------------------


def test_every_start_failing_is_an_error():
    with pytest.raises(ns.IdentificationError, match="any of the 3 starts"):
        ns.identify(lambda p: decay(p) * jnp.nan, CLEAN, GUESS, num_starts=3)


def test_starts_that_fail_do_not_disturb_the_others():
    def fragile(p):
        return jnp.where(p["k"] > 4.0, jnp.nan, 1.0) * decay(p)

    fit = ns.identify(fragile, CLEAN, GUESS, bounds={"a": (0.1, 5.0), "k": (0.1, 8.0)}, num_starts=16)
    failed = np.asarray(fit.starts.initial["k"]) > 4.0
    assert 2 <= failed.sum() <= 14
    assert np.all(np.isinf(np.asarray(fit.starts.loss)[failed]))
    assert not np.any(np.asarray(fit.starts.converged)[failed])
    assert_near(fit.params, TRUTH, 1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": CLEAN[:-1]}, r"shape \(60,\), but the data there have \(59,\)"),
        ({"data": {"x": CLEAN}}, "predict returns"),
        ({"bounds": {"b": (0.0, 1.0)}}, r"bounds for \['b'\]"),
        ({"bounds": {"a": (1.0, 1.0)}}, "below its upper bound"),
        ({"bounds": {"a": (1.0, 2.0, 3.0)}}, "must be a pair"),
        ({"data": jnp.nan * CLEAN}, "no samples"),
        ({"weights": -1.0}, "negative"),
        ({"weights": np.ones(7)}, r"weights of shape \(7,\) do not fit data of shape \(60,\)"),
        ({"weights": {"x": 1.0}}, "weights must be one array"),
        ({"bounds": 1.0}, "bounds must look like the guess"),
        ({"bounds": {"a": 1.0}}, "must be a pair"),
        ({"horizons": ()}, "at least one"),
        ({"horizons": (0.5, 1.5)}, r"fractions of the record in \(0, 1\]"),
    ],
    ids=lambda v: v if isinstance(v, str) else next(iter(v)),
)
def test_wrong_arguments_are_explained(arguments, message):
    arguments = {"data": CLEAN, **arguments}
    with pytest.raises(ValueError, match=message):
        ns.identify(decay, arguments.pop("data"), GUESS, **arguments)


def test_a_scalar_as_bounds_of_a_single_parameter_is_explained():
    with pytest.raises(ValueError, match="must be a pair"):
        ns.identify(lambda p: p * T, 2.0 * T, 1.0, bounds=1.0)


def test_data_in_the_wrong_unit_are_not_trusted(record):
    """Heights in millimetres: the best fit is a bad one, and says so."""
    clean, _ = record
    with pytest.warns(ns.FitWarning, match=r"times as far from the data.*units"):
        ns.identify(heights, 1e3 * clean, {"e_N": 0.6, "gravity": 9.0}, bounds=BALL_BOUNDS)


def test_a_parameter_that_may_be_anywhere_in_its_bounds_is_named():
    data = 2.0 * T + np.random.default_rng(3).standard_normal(60)
    with pytest.warns(ns.FitWarning, match=r"standard error of b, .* is wider than its bounds \(0, 0.1\)"):
        ns.identify(lambda p: p["a"] * T + p["b"], data, {"a": 1.0, "b": 0.05}, bounds={"b": (0.0, 0.1)})


def test_a_guess_outside_of_its_bounds_is_named():
    with pytest.warns(ns.FitWarning, match=r"k = 0.5 lies outside of its bounds \(1, 2\)"):
        fit = ns.identify(decay, CLEAN, GUESS, bounds={"k": (1.0, 2.0)})
    assert_near(fit.params, TRUTH, 1e-6)


def test_horizons_that_leave_out_samples_say_so():
    with pytest.warns(ns.FitWarning, match="the last horizon is 0.5"):
        fit = ns.identify(decay, NOISY, GUESS, horizons=(0.25, 0.5))
    early = ns.identify(decay, jnp.where(jnp.arange(60) < 30, NOISY, jnp.nan), GUESS)
    assert int(fit.samples) == 30
    np.testing.assert_allclose(fit.covariance, early.covariance, rtol=1e-5)


@pytest.mark.parametrize("samples", [1, 2])
def test_no_more_samples_than_parameters_give_infinite_errors(samples):
    data = jnp.where(jnp.arange(60) < samples, CLEAN, jnp.nan)
    with pytest.warns(ns.IdentifiabilityWarning, match=f"{samples} samples for 2 parameters"):
        fit = ns.identify(decay, data, GUESS)
    assert np.all(np.isinf(np.asarray(ravel(fit.standard_errors))))


def test_an_unknown_optimizer_is_explained():
    with pytest.raises(TypeError, match="optax"):
        ns.identify(decay, CLEAN, GUESS, optimizer="newton")


def test_who_waits_for_the_compilation_of_a_fit_is_told(monkeypatch, capsys):
    class Now:
        def __init__(self, seconds, function):
            self.start = function

        cancel = join = lambda self: None

    monkeypatch.setattr(bars.threading, "Timer", Now)
    monkeypatch.setattr(bars, "_someone_watches", lambda: True)
    ns.identify(decay, CLEAN, GUESS, progress=False)
    assert not capsys.readouterr().err
    ns.identify(decay, CLEAN, GUESS)
    assert f"compiling the fit of {len(GUESS)} parameters; once for this prediction" in capsys.readouterr().err


def test_progress_bar_shows_the_loss(capsys):
    ns.identify(decay, CLEAN, GUESS, progress=True)
    assert "loss" in capsys.readouterr().err


def test_report_names_parameters_and_errors():
    text = str(ns.identify(decay, NOISY, GUESS))
    assert "a " in text
    assert "±" in text
    assert "60 samples" in text


# Mechanics --------------------------------------------------------------------------------------------------------------


BALL = falling_ball()
EVENT = ns.EventDriven(max_steps=150, max_events=4)
ROWS = 48


def heights(p):
    """A ball from 0.9 m over three bounces; height and speed at the start may be parameters, too."""
    system = BALL.with_params(e_N=p["e_N"], gravity=p["gravity"])
    q0, u0 = p.get("height", 0.9) * jnp.ones(1), p.get("speed", 0.0) * jnp.ones(1)
    return ns.simulate(system, EVENT, q0, u0, dt=0.035, num_steps=ROWS).failed_as_nan().q[1:, 0]


BALL_TRUTH = {"e_N": 0.7, "gravity": 9.81}
BALL_BOUNDS = {"e_N": (0.05, 1.0), "gravity": (2.0, 30.0)}


@pytest.fixture(scope="module")
def record():
    clean = np.asarray(heights(BALL_TRUTH))
    return clean, 0.01 * np.std(clean)


def test_restitution_and_gravity_from_three_bounces(record):
    """At least 90 % of 32 random starts in wide bounds end within 1 %."""
    clean, sigma = record
    data = clean + sigma * np.random.default_rng(0).standard_normal(ROWS)
    fit = ns.identify(
        heights, data, {"e_N": 0.4, "gravity": 5.0}, bounds=BALL_BOUNDS, num_starts=32, num_iters=60,
        horizons=(0.25, 0.5, 0.75, 1.0), key=jax.random.key(1),
    )  # fmt: skip
    within = [np.abs(np.asarray(fit.starts.params[n]) / v - 1.0) <= 0.01 for n, v in BALL_TRUTH.items()]
    assert np.mean(np.all(within, axis=0)) >= 0.9
    for name, value in BALL_TRUTH.items():
        assert abs(float(fit.params[name]) - value) <= 3.0 * float(fit.standard_errors[name])


@pytest.mark.slow
def test_stated_standard_errors_match_the_spread_of_200_fits(record):
    clean, sigma = record
    draws = jnp.asarray(clean + sigma * np.random.default_rng(5).standard_normal((200, ROWS)))
    fits = jax.jit(jax.vmap(lambda d: ns.identify(heights, d, BALL_TRUTH, bounds=BALL_BOUNDS, num_iters=12)))(draws)
    assert np.all(np.asarray(fits.ok))
    for name, value in BALL_TRUTH.items():
        spread, stated = float(np.std(fits.params[name])), float(np.mean(fits.standard_errors[name]))
        assert stated == pytest.approx(spread, rel=0.2), name
        assert float(np.mean(fits.params[name])) == pytest.approx(value, rel=1e-3), name


@pytest.mark.slow
def test_initial_state_and_parameters_together(record):
    truth = {**BALL_TRUTH, "height": 0.9, "speed": 0.3}
    clean = np.asarray(heights(truth))
    data = clean + 0.01 * np.std(clean) * np.random.default_rng(2).standard_normal(ROWS)
    guess = {"e_N": 0.6, "gravity": 9.0, "height": 1.0, "speed": 0.0}
    fit = ns.identify(heights, data, guess, bounds=BALL_BOUNDS, horizons=(0.25, 0.5, 1.0))
    for name, value in truth.items():
        assert abs(float(fit.params[name]) - value) <= 4.0 * float(fit.standard_errors[name]), name
    assert_near(fit.params, {"e_N": 0.7, "gravity": 9.81}, 0.02)
