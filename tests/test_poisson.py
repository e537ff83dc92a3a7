"""restitution="poisson": its law, checked by arithmetic of its own, its energy, and what it does for wedged bodies."""

from __future__ import annotations

from functools import partial

import hard_systems
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

COUNT = 2000
SCHEMES = [
    ns.Moreau(restitution="poisson"), ns.GGLDecoupled(restitution="poisson"), ns.Rattle(restitution="poisson"),
    ns.Lobatto(2, restitution="poisson"), ns.EnergyTwoStep(restitution="poisson"),
]  # fmt: skip


def of_random_directions(n: int, d: int, size: int) -> ns.System:
    """A particle of unit mass in R^size with n closed contacts, whose directions are columns of a matrix."""
    contacts = ns.Contacts(
        lambda t, q, p: p["W"][:, :n].T @ q,
        lambda t, q, u, p: (p["W"][:, n:].T @ u).reshape(n, d),
        e_N=lambda p: p["e_N"],
        e_F=lambda p: p["e_F"],
        mu=lambda p: p["mu"],
    )
    each = np.zeros(n)
    params = dict(W=np.zeros((size, n * (1 + d))), e_N=each, e_F=each, mu=each)
    return ns.System(params, mass=lambda t, q, p: jnp.eye(size), contacts=contacts)


def impacts(n: int, d: int, size: int, share_F: float, restitution: str) -> dict[str, np.ndarray]:
    """Random impacts: e_N differs from contact to contact, e_F = share_F e_N."""
    rng = np.random.default_rng([n, d])
    W, u0 = rng.normal(size=(COUNT, size, n * (1 + d))), rng.normal(size=(COUNT, size))
    u0 *= -np.sign(np.sum(W[:, :, 0] * u0, axis=1, keepdims=True))  # towards the first
    e_N, mu = rng.uniform(size=(COUNT, n)), rng.uniform(0.0, 1.5, size=(COUNT, n))
    system = of_random_directions(n, d, size)

    def one(W, u0, e_N, mu):
        own = system.with_params(W=W, e_N=e_N, e_F=share_F * e_N, mu=mu)
        traj = ns.simulate(own, ns.Moreau(restitution=restitution), 0.0 * u0, u0, dt=1e-3, num_steps=1)
        P = jnp.concatenate([traj.P_N[-1], traj.P_F[-1].reshape(-1)])
        return traj.status[-1], traj.u[-1], P

    status, u, P = map(np.asarray, jax.jit(jax.vmap(one))(W, u0, e_N, mu))
    return dict(W=W, u0=u0, e_N=e_N, mu=mu, status=status, u=u, P=P)


def gains(found: dict[str, np.ndarray]) -> np.ndarray:
    return 0.5 * np.sum(found["u"] ** 2 - found["u0"] ** 2, axis=1)


CASES = [(1, 1, 3, 0.0), (3, 1, 6, 0.0), (3, 1, 4, 0.5), (3, 2, 9, 0.5), (4, 1, 3, 1.0)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_energy_never_rises(case):
    found = impacts(*case, restitution="poisson")
    assert np.all(found["status"] == ns.Status.OK)
    assert np.max(gains(found)) <= 1e-9 and np.min(gains(found)) < -0.1


def test_newtons_law_raises_it_in_the_same_impacts():
    found = impacts(*CASES[1], restitution="newton")
    solved = found["status"] == ns.Status.OK
    assert np.sum(gains(found)[solved] > 1e-3) > 20


def test_percussions_obey_the_law():
    """Where all e_N are equal: with p from `solve_contacts`, 0 ≤ γ_N⁺ ⊥ Λ_N − e p_N ≥ 0 and Coulomb's law of
    Λ_F − e_F p_F."""
    n, share = 3, 0.5
    rng = np.random.default_rng(5)
    system = of_random_directions(n, 1, 6)

    def one(W, u0, e, mu):
        own = system.with_params(W=W, e_N=e * jnp.ones(n), e_F=share * e * jnp.ones(n), mu=mu)
        traj = ns.simulate(own, ns.Moreau(restitution="poisson"), 0.0 * u0, u0, dt=1e-3, num_steps=1)
        plastic = ns.solve_contacts(W.T @ W, W.T @ u0, mu, d=1)
        return traj.u[-1], traj.P_N[-1], traj.P_F[-1, :, 0], plastic.P_N, plastic.P_F[:, 0]

    W, u0 = rng.normal(size=(500, 6, 2 * n)), rng.normal(size=(500, 6))
    W[:, :, :n] *= -np.sign(np.einsum("kij,ki->kj", W[:, :, :n], u0))[:, None]  # all contacts approach
    e, mu = rng.uniform(size=500), rng.uniform(0.0, 1.5, size=(500, n))
    u, P_N, P_F, p_N, p_F = map(np.asarray, jax.jit(jax.vmap(one))(W, u0, e, mu))
    after, back = np.einsum("kij,ki->kj", W, u), e[:, None] * p_N
    np.testing.assert_allclose(u - u0, np.einsum("kij,kj->ki", W, np.concatenate([P_N, P_F], axis=1)), atol=1e-9)
    surplus, speed = P_N - p_N - back, after[:, :n]
    np.testing.assert_allclose(np.minimum(surplus, speed), 0.0, atol=1e-8)
    own, limit = P_F - (1.0 + share * e[:, None]) * p_F, mu * (P_N - p_N - share * back)
    np.testing.assert_allclose(own - np.clip(own - after[:, n:], -limit, limit), 0.0, atol=1e-7)


def test_equal_coefficients_are_newtons_law_at_a_single_contact():
    rng = np.random.default_rng(9)
    W, u0, e = rng.normal(size=(200, 3, 2)), rng.normal(size=(200, 3)), rng.uniform(size=(200, 1))
    u0 *= -np.sign(np.sum(W[:, :, 0] * u0, axis=1, keepdims=True))
    system = of_random_directions(1, 1, 3)

    def one(restitution, W, u0, e):
        own = system.with_params(W=W, e_N=e, e_F=e, mu=jnp.array([0.5]))
        return ns.simulate(own, ns.Moreau(restitution=restitution), 0.0 * u0, u0, dt=1e-3, num_steps=1).u[-1]

    newton, poisson = (jax.jit(jax.vmap(partial(one, law)))(W, u0, e) for law in ("newton", "poisson"))
    np.testing.assert_allclose(poisson, newton, atol=1e-9)


@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev], ids=["forward", "reverse"])
def test_derivatives_agree_with_differences(derivative):
    """Of u⁺ after an impact of three coupled contacts with different e_N."""
    rng = np.random.default_rng(3)
    system, W, u0 = of_random_directions(3, 1, 6), rng.normal(size=(6, 6)), rng.normal(size=6)

    def after(x):
        own = system.with_params(W=W, e_N=x[6:9], e_F=0.3 * x[6:9], mu=x[9:12])
        return ns.simulate(own, ns.Moreau(restitution="poisson"), jnp.zeros(6), x[:6], dt=1e-3, num_steps=1).u[-1]

    x = jnp.concatenate([jnp.asarray(u0), jnp.array([0.3, 0.8, 0.5, 0.4, 0.7, 0.2])])
    steps = 1e-6 * jnp.eye(12)
    batch = jax.jit(jax.vmap(after))
    expected = ((batch(x + steps) - batch(x - steps)) / 2e-6).T
    assert np.max(np.abs(expected[:, 6:])) > 0.1
    np.testing.assert_allclose(jax.jit(derivative(after))(x), expected, atol=1e-7)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda i: type(i).__name__)
def test_a_ball_rebounds_and_comes_to_rest(scheme):
    """With e times the velocity of approach, to first order; and rests in the end, where Δt g is more than e times it."""
    ball = ns.models.bouncing_ball(e_N=0.5)
    traj = ns.simulate(ball.system, scheme, ball.q0, ball.u0, dt=2e-3, t1=1.6)
    speed = np.asarray(traj.u[:, 1])
    first = int(np.argmax(speed > 0.0))
    assert speed[first] == pytest.approx(-0.5 * speed[first - 1], abs=0.05)
    np.testing.assert_allclose(speed[-20:], 0.0, atol=1e-9)


@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[2]], ids=lambda i: type(i).__name__)
def test_wedged_disks_run_through(scheme):
    """Disks in a groove, of which Newton's law leaves none without an impact that has no solution."""
    system, q0, u0, dt = hard_systems.groove(lanes=8)
    run = jax.jit(jax.vmap(lambda q, u: ns.simulate(system, scheme, q, u, dt=dt, num_steps=400)))
    traj = run(q0, u0)
    assert np.all(traj.ok)
    gained = jax.vmap(lambda traj: ns.impact_gains(system, traj).number)(traj)
    assert int(np.sum(gained)) == 0


def test_freewheels_give_percussions_back():
    """0 ≤ γ⁺ ⊥ P − (1 + e) p ≥ 0 of one freewheel that turns backwards: it turns forwards, e times as fast."""
    system = ns.System(
        dict(e=0.4),
        mass=lambda t, q, p: 2.0 * jnp.eye(1),
        contacts=ns.Contacts(None, lambda t, q, u, p: u[:, None], e_F=lambda p: p["e"], law=ns.SpragClutch()),
    )
    traj = ns.simulate(system, SCHEMES[0], jnp.zeros(1), jnp.array([-3.0]), dt=1e-3, num_steps=2)
    np.testing.assert_allclose(traj.u[1:, 0], 1.2, atol=1e-9)
    np.testing.assert_allclose(traj.P_F[1, 0, 0], 2.0 * 4.2, atol=1e-9)


def test_methods_that_do_not_know_the_law_are_refused():
    with pytest.raises(ValueError, match=r"'lemke'"):
        ns.Moreau(restitution="poisson", solver="lemke")
