"""Force laws and solvers as options of the integrators."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from integrators import DECOUPLED, LOBATTO, MOREAU, RATTLE, UNIFIED, named

import jaxns as ns
from jaxns.solve.inclusion import METHODS

SOLVERS = [m for m in METHODS if m != "newton"]
BALL = ns.models.bouncing_ball(omega=50.0, e_N=0.3)


def run(problem, integrator, **arguments):
    return ns.simulate(problem.system, integrator, problem.q0, problem.u0, **arguments)


@pytest.mark.parametrize("integrator", named(MOREAU, RATTLE))
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_gives_the_same_bouncing_ball(integrator, solver):
    """Free flight, impact, sliding: the same percussions and states within the tolerance, whatever the solver."""
    reference = run(BALL, replace(integrator, tol=1e-12), dt=1e-2, num_steps=60)
    traj = run(BALL, replace(integrator, solver=solver, tol=1e-12), dt=1e-2, num_steps=60)
    assert np.asarray(reference.P_N).max() > 0.0
    for field in ("q", "u", "P_N", "P_F"):
        np.testing.assert_allclose(getattr(traj, field), getattr(reference, field), atol=1e-9, err_msg=field)


@pytest.mark.parametrize("integrator", named(LOBATTO, DECOUPLED, UNIFIED))
@pytest.mark.parametrize(
    "solver", ["projected_newton", "recovered_gauss_seidel", ns.Solver("natural_newton", 0.5)], ids=str
)
def test_solvers_of_other_integrators(integrator, solver):
    reference = run(BALL, replace(integrator, tol=1e-12), dt=1e-2, num_steps=60)
    traj = run(BALL, replace(integrator, solver=solver, tol=1e-12), dt=1e-2, num_steps=60)
    for field in ("q", "u", "P_N", "P_F"):
        np.testing.assert_allclose(getattr(traj, field), getattr(reference, field), atol=1e-8, err_msg=field)


def test_unknown_solver_is_an_error():
    with pytest.raises(ValueError, match=r"solver must be one of newton, .*; got 'gauss'"):
        ns.Rattle(solver="gauss")


def test_lemke_says_that_it_is_for_planar_friction():
    disk = ns.models.tippedisk()
    with pytest.raises(ValueError, match="planar friction"):
        run(disk, ns.Moreau(solver="lemke"), dt=1e-3, num_steps=2)


class Scales(ns.FrictionLaw):
    """Planar friction against negative slip alone."""

    def project(self, x, mu, reservoir):
        return jnp.clip(x, -mu * reservoir, 0.0)


class Narrow(ns.Coulomb):
    """Half of Coulomb's friction: a set of its own, so nothing that its base says of another set holds."""

    def project(self, x, mu, reservoir):
        return jnp.clip(x, -0.5 * mu * reservoir, 0.5 * mu * reservoir)


@pytest.mark.parametrize("law", [Scales(), Narrow()], ids=["Scales", "Narrow"])
def test_lemke_refuses_sets_that_it_does_not_know(law):
    G, c = jnp.eye(2), jnp.array([-1.0, 1.0])
    expected = [[0.0]] if isinstance(law, Scales) else [[-0.125]]
    np.testing.assert_allclose(ns.solve_contacts(G, c, mu=0.25, law=law).P_F, expected, atol=1e-12)
    with pytest.raises(ValueError, match=rf"not the set of {type(law).__name__}.*newton.*interval = True"):
        ns.solve_contacts(G, c, mu=0.25, law=law, method="lemke")


def test_a_set_of_its_own_has_no_gauge_of_another():
    assert ns.Coulomb().gauge(jnp.ones(1), jnp.ones(1)) is not None
    assert Narrow().gauge(jnp.ones(1), jnp.ones(1)) is None
    assert not Narrow.interval and Narrow.isotropic


# Coulomb–Contensou friction -----------------------------------------------------------------------------------------


def assert_friction_law_holds(law, mu, traj, slip, tol):
    """Per step: −P_F is the point of C_F(P_N) with the outward normal γ_F where that is not zero, inside where it is."""
    P_N, P_F = np.asarray(traj.P_N)[1:, 0], np.asarray(traj.P_F)[1:, 0]
    mu = np.full((3, 1), mu)
    expected = np.stack([
        -np.asarray(law.sliding(jnp.asarray(v)[:, None], jnp.asarray(mu), jnp.asarray([p])))[:, 0]
        for v, p in zip(slip, P_N, strict=True)
    ])
    assert np.all(np.linalg.norm(slip, axis=1) > 1e-6)
    np.testing.assert_allclose(P_F, expected, atol=tol * np.abs(P_F).max())


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["sphere", "exact"])
def test_tippedisk_with_lobatto(shape):
    check_friction_of_the_tippedisk(LOBATTO, ns.Contensou(shape))


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [*named(MOREAU), *named(RATTLE)])
def test_tippedisk_with_the_exact_set(integrator):
    """The friction of every step obeys B_F with the sliding and drilling velocity at its end."""
    check_friction_of_the_tippedisk(integrator, ns.Contensou("exact"))


def check_friction_of_the_tippedisk(integrator, law):
    disk = ns.models.tippedisk(law=law)
    traj = run(disk, integrator, dt=1e-4, num_steps=8)
    assert bool(traj.ok)
    if integrator == MOREAU:  # its rows belong to the midpoint
        q, t = (
            traj.q[:-1]
            + 0.5e-4 * np.stack([disk.system.q_dot(0.0, *s) for s in zip(traj.q, traj.u, strict=True)])[:-1],
            0.0,
        )
    else:
        q, t = traj.q[1:], 0.0
    slip = np.stack([disk.system.gamma_F(t, jnp.asarray(a), b) for a, b in zip(q, traj.u[1:], strict=True)])
    assert_friction_law_holds(law, 0.3, traj, slip, 1e-6)


@pytest.mark.parametrize(
    "shape", ["exact", "sphere", *(pytest.param(s, marks=pytest.mark.slow) for s in ("ellipsoid", "cylinder"))]
)
def test_tippedisk_inverts_with_every_shape(shape):
    disk = ns.models.tippedisk(law=ns.Contensou(shape))
    traj = run(disk, ns.Moreau(), dt=1e-3, num_steps=1000, save_every=100)
    assert bool(traj.ok)
    assert float(traj.q[0, 2]) < 0.043
    assert float(traj.q[-1, 2]) > 0.0465


def test_ellipsoid_and_sphere_are_one_law():
    """The sphere is the ellipsoid in transformed variables; slip and percussions are the user's in both."""
    a, b = (
        run(ns.models.tippedisk(law=ns.Contensou(shape)), ns.Moreau(tol=1e-12), dt=1e-3, num_steps=20)
        for shape in ("ellipsoid", "sphere")
    )
    np.testing.assert_allclose(a.q, b.q, atol=1e-10)
    np.testing.assert_allclose(a.P_F, b.P_F, atol=1e-10)


# Anisotropic friction, clutches -------------------------------------------------------------------------------------


def sliding_block(mu, law):
    floor = ns.Contacts(lambda t, q, p: q[2:], lambda t, q, u, p: u[None, :2], mu=lambda p: p["mu"][None], law=law)
    return ns.System(
        {"mu": jnp.asarray(mu)}, mass=lambda t, q, p: jnp.eye(3), potential=lambda t, q, p: 10.0 * q[2], contacts=floor
    )


@pytest.mark.parametrize("transformed", [True, False])
def test_anisotropic_friction_slows_each_direction_by_its_law(transformed):
    """u̇ = −g (μ_k² u_k) / ‖μ u‖ while the block slides: an independent integration of this equation."""
    mu, u = np.array([0.4, 0.1]), np.array([1.0, 1.0])
    system = sliding_block(mu, ns.AnisotropicCoulomb(transformed=transformed))
    traj = ns.simulate(system, ns.Rattle(), jnp.zeros(3), jnp.array([*u, 0.0]), dt=2e-4, num_steps=1000)

    def rate(u):
        return -10.0 * mu**2 * u / np.linalg.norm(mu * u)

    for _ in range(2000):
        u = u + 1e-4 * rate(u + 0.5e-4 * rate(u))
    np.testing.assert_allclose(traj.u[-1, :2], u, atol=1e-4)


def test_isotropic_friction_takes_one_coefficient():
    system = sliding_block([0.4, 0.1], None)
    with pytest.raises(ValueError, match="AnisotropicCoulomb"):
        ns.simulate(system, ns.Rattle(), jnp.zeros(3), jnp.zeros(3), dt=1e-3, num_steps=2)


@pytest.mark.parametrize("integrator", named(MOREAU, RATTLE, LOBATTO, UNIFIED, DECOUPLED, ns.GeneralizedAlpha()))
def test_freewheel_rectifies_an_oscillation(integrator):
    """A wheel under the torque sin t with a freewheel: it turns forwards only, and stops where the torque turns it back."""
    wheel = ns.System(
        {"J": 0.5},
        mass=lambda t, q, p: p["J"] * jnp.eye(1),
        force=lambda t, q, u, p: jnp.sin(t)[None],
        contacts=ns.Contacts(None, lambda t, q, u, p: u[None], law=ns.SpragClutch()),
    )
    traj = ns.simulate(wheel, integrator, jnp.zeros(1), jnp.zeros(1), dt=1e-2, num_steps=1100)
    t, u = np.asarray(traj.t), np.asarray(traj.u[:, 0])
    assert bool(traj.ok)
    assert u.min() >= -1e-9
    # J u = 1 − cos t ≥ 0: the clutch is never loaded.
    np.testing.assert_allclose(u, 2.0 * (1.0 - np.cos(t)), atol=0.05)
    late = ns.simulate(wheel, integrator, jnp.zeros(1), jnp.zeros(1), dt=1e-2, num_steps=600, t0=np.pi)
    u = np.asarray(late.u[:, 0])  # now the torque is negative for π, and the clutch holds
    assert np.abs(u[:300]).max() <= 1e-9
    np.testing.assert_allclose(np.asarray(late.P_F[1:300, 0, 0]).sum(), 2.0, atol=0.05)
    np.testing.assert_allclose(u[-1], 2.0 * (1.0 - np.cos(np.pi + 6.0)), atol=0.05)
