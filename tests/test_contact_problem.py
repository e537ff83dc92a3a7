"""Frictional contact problems on their own: all methods agree, failures show, derivatives are those of the solution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

SWEEPING = ("projected_jacobi", "recovered_jacobi", "projected_gauss_seidel", "recovered_gauss_seidel")
METHODS = ("newton", *SWEEPING)
N_MAX, D, NUMBER = 8, 2, 200  # benchmarks/contact_solvers.py has 1,000 problems of up to 20 contacts


def random_problems(rng, number, n_max, d, spare=3):
    """G, c, mu of `number` problems with 1 to n_max contacts, as problems of n_max contacts of which some are far open."""
    rows = n_max * (1 + d)
    W = rng.normal(size=(number, rows, rows + spare)) * 10.0 ** rng.uniform(-1, 1, (number, 1, 1))
    G = W @ W.transpose(0, 2, 1) / rows
    c = rng.normal(size=(number, rows)) * 10.0 ** rng.uniform(-3, 3, (number, 1))
    n = rng.integers(1, n_max + 1, number)
    absent = np.arange(n_max)[None] >= n[:, None]
    gone = np.concatenate([absent, np.repeat(absent, d, axis=1)], axis=1)
    G = np.where(gone[:, :, None] | gone[:, None], np.eye(rows), G)
    c = np.where(gone, 1.0, c)
    return jnp.asarray(G), jnp.asarray(c), jnp.asarray(rng.uniform(0.0, 0.8, (number, n_max)))


def batched(method, d, **options):
    return jax.jit(jax.vmap(lambda G, c, mu: ns.solve_contacts(G, c, mu, d=d, method=method, **options)))


def percussions(solution):
    return np.concatenate([solution.P_N, solution.P_F.reshape(solution.P_N.shape[0], -1)], axis=1)


def largest_difference(solution, reference):
    """Of percussions, relative to the largest of each problem, or where all are open to one."""
    P, P_ref = percussions(solution), percussions(reference)
    scale = np.abs(P_ref).max(axis=1, keepdims=True)
    return np.max(np.abs(P - P_ref) / np.where(scale > 0.0, scale, 1.0))


def assert_laws_hold(solution, mu, tol):
    """0 ≤ ξ_N ⊥ P_N ≥ 0; sliding friction is −μP_N along ξ_F, sticking friction inside the disk. No solver is asked."""
    P_N, P_F = np.asarray(solution.P_N), np.asarray(solution.P_F)
    n = P_N.shape[1]
    xi_N, xi_F = np.asarray(solution.xi)[:, :n], np.asarray(solution.xi)[:, n:].reshape(P_F.shape)
    size, speed = np.abs(P_N).max(axis=1, keepdims=True) + 1e-300, np.abs(solution.xi).max(axis=1, keepdims=True)
    assert np.all(-tol * size <= P_N) and np.all(xi_N >= -tol * speed)
    assert np.all(np.minimum(P_N / size, xi_N / speed) <= 10 * tol)
    limit, force = np.asarray(mu) * P_N, np.linalg.norm(P_F, axis=-1)
    slip = np.linalg.norm(xi_F, axis=-1)
    assert np.all(force <= limit + 10 * tol * size)
    slides = (slip > 1e-6 * speed) & (1e-6 * size < P_N)
    opposed = P_F + limit[..., None] * xi_F / np.where(slip > 0, slip, 1.0)[..., None]
    assert np.all(np.linalg.norm(opposed, axis=-1)[slides] <= (1e4 * tol * size * np.ones_like(P_N))[slides])
    assert slides.sum() > 10 and (~slides & (1e-6 * size < P_N)).sum() > 10


@pytest.fixture(scope="module")
def problems():
    return random_problems(np.random.default_rng(11), NUMBER, N_MAX, D)


@pytest.fixture(scope="module")
def reference(problems):
    return batched("newton", D, tol=1e-13)(*problems)


def test_newton_solves_every_problem(problems, reference):
    assert np.all(np.asarray(reference.status) == ns.Status.OK)
    assert_laws_hold(reference, problems[2], 1e-11)


@pytest.mark.parametrize("method", SWEEPING)
def test_sweeping_methods_agree_with_newton(problems, reference, method):
    solution = batched(method, D, tol=1e-12)(*problems)
    assert np.all(np.asarray(solution.status) == ns.Status.OK)
    assert largest_difference(solution, reference) <= 1e-9
    assert_laws_hold(solution, problems[2], 1e-10)


def test_lemke_agrees_with_newton_in_the_plane():
    problems = random_problems(np.random.default_rng(12), NUMBER, N_MAX, 1)
    newton, lemke = batched("newton", 1, tol=1e-13)(*problems), batched("lemke", 1)(*problems)
    assert np.all(np.asarray(lemke.status) == ns.Status.OK)
    assert largest_difference(lemke, newton) <= 1e-9


def test_projected_newton_is_projected_jacobi_for_linear_equations(problems):
    """The iterates are the same, so both stop after the same sweep with the same percussions."""
    few = jax.tree.map(lambda x: x[:40], problems)
    for sweeps in (1, 5):
        a, b = (batched(m, D, max_sweeps=sweeps)(*few) for m in ("projected_newton", "projected_jacobi"))
        np.testing.assert_allclose(percussions(a), percussions(b), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(a.iterations, b.iterations)


@pytest.mark.parametrize("alpha", [0.7, 1.3])
def test_a_sweep_with_the_prox_parameters_of_the_thesis(alpha):
    """Möller 2011, (2.45), (2.63), (2.67): one sweep by hand, with r = α / max_k G_kk over the rows of each set."""
    rng = np.random.default_rng(2)
    n, mu = 3, 0.4
    W = rng.normal(size=(9, 12))
    G, c, P = W @ W.T, rng.normal(size=9), np.concatenate([[3.0, 1.0, 0.2], 0.05 * rng.normal(size=6)])

    def disk(x, radius):
        return x * min(1.0, radius / np.linalg.norm(x))

    def swept(sequential, recovered):
        new = P.copy()
        for k in range(n):
            rows = n + D * k + np.arange(D)
            known = new if sequential else P
            new[k] = max(known[k] - alpha / G[k, k] * (G[k] @ known + c[k]), 0.0)
            known = new if sequential else P
            y, diagonal = G[rows] @ known + c[rows], np.diag(G)[rows]
            x = alpha / diagonal.max() * y - known[rows]
            inside = np.linalg.norm(x) <= mu * known[k]
            new[rows] = known[rows] - alpha / diagonal * y if recovered and inside else -disk(x, mu * known[k])
        return new

    for sequential, name in ((False, "jacobi"), (True, "gauss_seidel")):
        for recovered, kind in ((False, "projected"), (True, "recovered")):
            method = ns.Solver(f"{kind}_{name}", alpha)
            solution = ns.solve_contacts(G, c, mu, d=D, method=method, P_guess=jnp.asarray(P), max_sweeps=1)
            found = np.concatenate([solution.P_N, solution.P_F.ravel()])
            np.testing.assert_allclose(found, swept(sequential, recovered), rtol=1e-12, atol=1e-12, err_msg=str(method))


@pytest.mark.parametrize("solver", [ns.Solver("natural_newton", 0.5), ns.Solver("natural_newton", cone=True)], ids=str)
def test_another_equation_changes_the_way_of_newtons_method_not_its_end(problems, solver):
    few = jax.tree.map(lambda x: x[:60], problems)
    reference, plain, found = (batched(m, D, tol=1e-13)(*few) for m in ("newton", "natural_newton", solver))
    ends = np.asarray(found.status == ns.Status.OK)
    assert ends.sum() > 30
    assert largest_difference(*(jax.tree.map(lambda x: x[ends], s) for s in (found, reference))) <= 1e-7
    assert np.any(np.asarray(plain.iterations != found.iterations)[ends])


@pytest.mark.parametrize(
    ("method", "alpha", "cone"),
    [
        ("newton", 0.5, False),
        ("lemke", 1.0, False),
        ("projected_jacobi", 0.0, False),
        ("jacobi", None, False),
        ("newton", None, True),
    ],
)
def test_a_solver_says_what_it_cannot_be(method, alpha, cone):
    with pytest.raises(ValueError, match=rf"Solver: .*got.*{method!r}"):
        ns.Solver(method, alpha, cone)


@pytest.mark.parametrize("method", METHODS)
def test_redundant_contacts_have_unique_velocities(method):
    """Contacts twice: G is singular, percussions are not unique, ξ and the velocity M⁻¹W P are."""
    rng = np.random.default_rng(5)
    n, number, nu = 3, 50, 9
    W = rng.normal(size=(number, nu, n * (1 + D)))
    once = np.arange(n * (1 + D))
    twice = np.concatenate([np.tile(once[:n], 2), np.tile(once[n:], 2)])
    W2, mu = W[:, :, twice], rng.uniform(0.1, 0.8, (number, n))
    c = rng.normal(size=(number, n * (1 + D)))
    G, G2 = (jnp.asarray(w.transpose(0, 2, 1) @ w) for w in (W, W2))
    single = batched("newton", D, tol=1e-13)(G, jnp.asarray(c), jnp.asarray(mu))
    double = batched(method, D, tol=1e-12)(G2, jnp.asarray(c[:, twice]), jnp.asarray(np.tile(mu, 2)))
    assert np.all(np.asarray(single.status) == ns.Status.OK)
    assert np.all(np.asarray(double.status) == ns.Status.OK)
    np.testing.assert_allclose(double.xi, np.asarray(single.xi)[:, twice], atol=1e-9)
    du, du2 = (np.einsum("bij,bj->bi", w, percussions(s)) for w, s in ((W, single), (W2, double)))
    np.testing.assert_allclose(du2, du, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_failures_are_reported(method):
    """An upward pull that no percussion can stop, NaN, and too few sweeps; never a status OK."""
    solve = jax.jit(lambda G, c: ns.solve_contacts(G, c, 0.3, d=2, method=method, max_sweeps=50))
    impossible = solve(jnp.zeros((3, 3)), jnp.array([-1.0, 0.0, 0.0]))
    assert impossible.status == (ns.Status.INFEASIBLE if method == "newton" else ns.Status.NOT_CONVERGED)
    assert solve(jnp.full((3, 3), jnp.nan), jnp.array([-1.0, 0.0, 0.0])).status == ns.Status.NONFINITE
    if method != "newton":
        G, c, mu = (x[0] for x in random_problems(np.random.default_rng(1), 1, 1, 2))
        one = ns.solve_contacts(G + 0.5, c.at[0].set(-5.0), mu, d=2, method=method, max_sweeps=1)
        assert one.status == ns.Status.NOT_CONVERGED and one.iterations == 1


def test_thesis_example_for_recovery():
    """Möller 2011, (2.57): G = diag(1e4, 1), c = (1, 1) and a set so wide that nothing is projected."""
    G = jnp.diag(jnp.array([1.0, 1e4, 1.0]))
    c, known = jnp.array([-1e3, 1.0, 1.0]), jnp.array([1e3, 0.0, 0.0])  # the normal percussion is known

    def sweeps(method, tol=1e-12):
        solution = ns.solve_contacts(G, c, 1.0, d=2, method=method, P_guess=known, tol=tol, max_sweeps=400_000)
        assert solution.status == ns.Status.OK
        np.testing.assert_allclose(solution.P_F[0], [-1e-4, -1.0], rtol=1e-6)
        return int(solution.iterations)

    assert sweeps("projected_jacobi") > 1e5
    assert sweeps("recovered_jacobi") == 1
    assert sweeps("recovered_gauss_seidel") == 1


def test_sprag_clutch_impact_of_the_thesis():
    """Möller 2011, (3.163)–(3.168): a freewheel with ε = 0 and an elastic contact, struck from both sides."""
    m, u_1, u_2 = 2.0, 3.0, -1.5
    W = np.array([[1.0, -1.0], [0.0, 1.0]])  # columns: clutch u_1, contact u_2 − u_1
    order = [1, 0]  # normal row first, then the clutch
    G = (W.T @ W / m)[np.ix_(order, order)]
    u = np.array([u_1, u_2])
    c = (W.T @ u)[order] + np.array([1.0 * (u_2 - u_1), 0.0])
    for method in ("newton", "projected_gauss_seidel", "lemke"):
        solution = ns.solve_contacts(G, c, 0.0, d=1, method=method, law=ns.SpragClutch(), tol=1e-13)
        Lambda_1, Lambda_2 = float(solution.P_F[0, 0]), float(solution.P_N[0])
        assert Lambda_1 == pytest.approx(-2 * m * u_2, rel=1e-10)
        assert Lambda_2 == pytest.approx(m * (u_1 - 2 * u_2), rel=1e-10)
        u_plus = u + W @ np.array([Lambda_1, Lambda_2]) / m
        np.testing.assert_allclose(u_plus, [0.0, u_1 - u_2], atol=1e-10)
        energy = 0.5 * m * (u_plus @ u_plus - u @ u)
        assert energy == pytest.approx(-m * u_1 * u_2, rel=1e-9)  # it rises: (3.168)


def test_isotropic_friction_takes_one_coefficient_per_contact():
    with pytest.raises(ValueError, match="one mu for each contact"):
        ns.solve_contacts(jnp.eye(3), jnp.ones(3), jnp.array([[0.1, 0.2]]), d=2)


@pytest.mark.parametrize("method", [*METHODS, "lemke"])
def test_single_precision_stays_single(method):
    G, c = jnp.eye(2, dtype=jnp.float32) + 0.2, jnp.array([-3.0, 1.0], jnp.float32)
    solution = ns.solve_contacts(G, c, jnp.float32(0.1), method=method)
    assert solution.status == ns.Status.OK
    assert solution.P_N.dtype == solution.P_F.dtype == solution.residual.dtype == jnp.float32


LAWS = {
    "coulomb": (2, ns.Coulomb()),
    "anisotropic": (2, ns.AnisotropicCoulomb()),
    "anisotropic, not transformed": (2, ns.AnisotropicCoulomb(transformed=False)),
    **{f"contensou {shape}": (3, ns.Contensou(shape)) for shape in ("exact", "ellipsoid", "cylinder", "sphere")},
    "clutch": (1, ns.SpragClutch()),
}


def law_problem(d, law, seed=2, number=30, n=3):
    rng = np.random.default_rng(seed)
    G, c, _ = random_problems(rng, number, n, d)
    mu = rng.uniform(0.1, 0.8, (number, n, d))
    if law.isotropic:
        mu = mu[:, :, 0]
    elif isinstance(law, ns.Contensou):
        mu[:, :, 1] = mu[:, :, 0]
    return G, c, jnp.asarray(mu)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n == "contensou exact" else ()) for n in LAWS]
)
def test_laws_newton_and_sweeps_agree(name):
    """−P_F is the nearest point of its set to ξ_F − P_F for the plain projection too, whatever residual was solved."""
    d, law = LAWS[name]
    G, c, mu = law_problem(d, law)
    newton = batched("newton", d, law=law, tol=1e-13)(G, c, mu)
    swept = batched("recovered_gauss_seidel", d, law=law, tol=1e-12)(G, c, mu)
    for solution in (newton, swept):
        assert np.all(np.asarray(solution.status) == ns.Status.OK)
        P_N, P_F = jnp.asarray(solution.P_N), jnp.asarray(solution.P_F)
        xi_F = jnp.asarray(solution.xi)[:, P_N.shape[1] :].reshape(P_F.shape)
        of_rows = jnp.broadcast_to(mu if mu.ndim == 3 else mu[..., None], P_F.shape)
        last = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), (xi_F - P_F, of_rows))
        nearest = jnp.moveaxis(law.project(*last, jnp.maximum(P_N, 0.0)), 0, -1)
        size = np.abs(percussions(solution)).max(axis=1)[:, None, None]
        assert np.max(np.abs(P_F + nearest) / (size + np.abs(xi_F))) <= 1e-9
    assert largest_difference(swept, newton) <= 1e-9


SLOW = ("contensou exact", "contensou ellipsoid", "anisotropic, not transformed")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in LAWS])
def test_derivatives_of_solutions(name):
    """With respect to G, c and μ: forward mode, reverse mode and differences agree, sliding and sticking."""
    d, law = LAWS[name]
    problem = law_problem(d, law, seed=4, number=12)
    rng = np.random.default_rng(9)
    direction = [rng.normal(size=x.shape) * np.abs(x) for x in problem]
    direction[0] = direction[0] + direction[0].transpose(0, 2, 1)
    direction[2] = direction[2] * 0.0 + 0.3 * problem[2] * rng.normal(
        size=(*problem[2].shape[:2], *(1,) * (problem[2].ndim - 2))
    )
    direction = [jnp.asarray(x) for x in direction]

    def functional(G, c, mu):
        solution = ns.solve_contacts(G, c, mu, d=d, law=law, tol=1e-14)
        return solution.P_N.sum() + (solution.P_F * jnp.arange(1.0, d + 1.0)).sum()

    value = jax.jit(jax.vmap(functional))
    forward = jax.jit(jax.vmap(lambda p, v: jax.jvp(functional, p, v)[1]))(tuple(problem), tuple(direction))
    gradient = jax.jit(jax.vmap(jax.grad(functional, argnums=(0, 1, 2))))(*problem)
    reverse = sum(
        np.sum(np.asarray(g * v).reshape(len(g), -1), axis=1) for g, v in zip(gradient, direction, strict=True)
    )
    h = 1e-6
    plus, minus = (value(*(x + s * h * v for x, v in zip(problem, direction, strict=True))) for s in (1, -1))
    difference = np.asarray(plus - minus) / (2 * h)
    size = 1.0 + np.abs(difference)
    assert np.all(np.abs(reverse - forward) <= 1e-9 * size)
    assert np.quantile(np.abs(forward - difference) / size, 0.9) <= 1e-5  # one of twelve may sit on a switch
