"""Experiments of Möller's thesis on force laws and on the iterations that solve them (chapters 2 and 3)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.polynomial.legendre import leggauss

from .. import models
from ..contact_problems import ContactSolution, solve_contacts
from ..integrators.energy.two_step import EnergyTwoStep
from ..laws.friction import Contensou, Shape
from ..laws.sets import KAPPA
from ..simulation.simulate import simulate
from ..solve.status import Status
from .common import panels
from .experiment import Outcome, Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPES: dict[Shape, str] = {"exact": "$B_F$", "ellipsoid": "$E_F$", "cylinder": "$Z_F$"}
UNIT = jnp.ones(3)  # μ = 1 and R̄ = 1: forces in units of μλ_N, torques in units of R̄μλ_N


# Coulomb–Contensou friction -----------------------------------------------------------------------------------------


def contensou() -> Outcome:
    """The set of Coulomb–Contensou friction and its approximations (§3.7.5), and what they cost (§6.5)."""
    ends = {shape: _boundary(shape, np.array([0.0, 0.5 * np.pi])) for shape in SHAPES}
    largest = max(np.abs(end - np.array([[0.0, 1.0], [1.0, 0.0]])).max() for s, end in ends.items() if s != "cylinder")
    mean_radius = _hertz(np.array([0.0]))[0, 1]
    u = np.array([0.1, 0.5, 0.9, 1.1, 2.0, 5.0, 20.0])
    force, torque = _hertz(u).T
    law = _sliding("exact", KAPPA * u)
    exact = np.abs(law - np.stack([force, torque / mean_radius], axis=1)).max()
    angles = np.linspace(0.0, np.pi, 241)
    growth = {shape: np.asarray(_gauge(shape, angles)) for shape in SHAPES}
    excess = {shape: (growth["exact"] / growth[shape] - 1.0).max() for shape in ("ellipsoid", "cylinder")}
    beside = {shape: _sliding(shape, KAPPA * np.array([1.0]))[0, 0] for shape in SHAPES}
    difference, seconds, sweeps = _compare_iterations()
    slower = {shape: seconds[shape] / seconds["sphere"] for shape in ("ellipsoid", "exact")}
    statements = (
        Statement(
            "sliding alone meets at most μλ_N, drilling alone at most R̄μλ_N",
            f"both ends of B_F and E_F are there to {largest:.1e}",
            bool(largest <= 1e-9),
        ),
        Statement(
            "R̄ = 3πR/16 ≈ 0.589 R for the parabolic (Hertz) pressure",
            f"R̄ = {mean_radius:.5f} R by quadrature over the contact area; 3π/16 = {3 * np.pi / 16:.5f}",
            bool(abs(mean_radius - 3 * np.pi / 16) <= 1e-4),
        ),
        Statement(
            "B_F is the exact law of Coulomb friction distributed over the area, eqs. (3.118), (3.119)",
            f"forces and torques of the law are those of the quadrature to {exact:.1e} of μλ_N and R̄μλ_N, at {len(u)} "
            "ratios of sliding and drilling",
            bool(exact <= 1e-4),
        ),
        Statement(
            "the cylinder Z_F leaves out the interaction of sliding and drilling, which matters",
            "friction force when the rim drills as fast as the contact slides: "
            + ", ".join(f"{beside[s]:.3f} μλ_N ({SHAPES[s].strip('$')})" for s in SHAPES),
            bool(beside["cylinder"] >= 1.0 - 1e-9 and beside["exact"] < 0.95),
        ),
        Statement(
            "the ellipsoid E_F approximates B_F better than the cylinder Z_F",
            f"E_F reaches beyond B_F by at most {100 * excess['ellipsoid']:.1f} %, Z_F by "
            f"{100 * excess['cylinder']:.1f} %",
            bool(excess["ellipsoid"] < excess["cylinder"]),
        ),
        Statement(
            "A⁻¹E_F is the ball S_F, in which the same problem can be solved (3.124)",
            f"percussions of 4 impacts of the tippe top differ by {difference:.1e} of their size",
            bool(difference <= 1e-6),
        ),
        Statement(
            "the fixed-point iteration with S_F is faster than with E_F (there 2.7 times) and with B_F (10.5 times)",
            f"{slower['ellipsoid']:.0f} and {slower['exact']:.0f} times, for 4 impacts of the tippe top, from zero; "
            "sweeps: "
            + ", ".join(
                f"{sweeps[s]:.0f} ({name})" for s, name in (("sphere", "S_F"), ("ellipsoid", "E_F"), ("exact", "B_F"))
            ),
            bool(slower["ellipsoid"] > 1.0 and slower["exact"] > 1.0),
        ),
    )
    return Outcome(statements, {"Fig. 3.11: B_F, E_F and Z_F, section and shape": _draw_sets(angles, growth)})


def _sliding(shape: Shape, ratio: np.ndarray) -> np.ndarray:
    """(force, torque) (n, 2) of a contact that slides `ratio` times as fast as it drills, velocities times R̄."""
    return np.asarray(_at_normals(shape, jnp.asarray(ratio), jnp.ones(len(ratio))))


def _boundary(shape: Shape, angles: np.ndarray) -> np.ndarray:
    """Points (n, 2) of the boundary, (force, torque), that have their outward normal at the angle from the torque
    axis."""
    return np.asarray(_at_normals(shape, jnp.sin(angles), jnp.cos(angles)))


@partial(jax.jit, static_argnums=0)
def _at_normals(shape: Shape, force: Array, torque: Array) -> Array:
    xi = jnp.stack([force, jnp.zeros_like(force), torque])
    return Contensou(shape).sliding(xi, UNIT[:, None], jnp.ones_like(force))[::2].T


@partial(jax.jit, static_argnums=0)
def _gauge(shape: Shape, angles: np.ndarray) -> Array:
    """How many times the set must grow to hold the unit vectors at the angles from the torque axis (n,), by
    bisection."""
    rays = jnp.stack([jnp.sin(angles), jnp.zeros(len(angles)), jnp.cos(angles)])
    one = jnp.ones(len(angles))

    def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        points = 0.5 * (low + high) * rays
        inside = jnp.sum((Contensou(shape).project(points, UNIT[:, None], one) - points) ** 2, axis=0) < 1e-20
        return jnp.where(inside, 0.5 * (low + high), low), jnp.where(inside, high, 0.5 * (low + high))

    low, _ = jax.lax.fori_loop(0, 40, halve, (0.5 * one, 2.0 * one))  # lengths of the rays up to the boundary
    return 1.0 / low


def _hertz(u: np.ndarray) -> np.ndarray:
    """Force and torque (n, 2) of distributed Coulomb friction, for R = μ = λ_N = 1, drilling velocity 1 and sliding
    u."""
    nodes, weights = leggauss(200)
    r, phi = 0.5 * (nodes + 1.0), (np.arange(2000) + 0.5) * np.pi / 1000
    weight = (0.5 * weights * r * 1.5 * np.sqrt(1.0 - r**2) / np.pi)[:, None] * np.pi / 1000
    x, y = -r[:, None] * np.sin(phi), r[:, None] * np.cos(phi)  # velocities of drilling
    rows = []
    for sliding in u:
        speed = np.hypot(sliding + x, y)
        rows.append([np.sum(weight * (sliding + x) / speed), np.sum(weight * (x * (sliding + x) + y * y) / speed)])
    return np.array(rows)


def _compare_iterations(number: int = 4) -> tuple[float, dict[str, float], dict[str, float]]:
    """How far E_F and S_F differ, and seconds and mean sweeps of projected Jacobi iterations with each set."""
    top = models.tippe_top()
    rng = np.random.default_rng(0)
    tilt = rng.uniform(0.1, 1.4, number)
    q = np.zeros((number, 7))
    q[:, 2], q[:, 3], q[:, 4] = 0.015 - 0.003 * np.cos(tilt), np.cos(0.5 * tilt), np.sin(0.5 * tilt)
    u = rng.normal(size=(number, 6)) * np.array([0.1, 0.1, 0.1, 20.0, 20.0, 100.0])
    t, rows = jnp.zeros(()), np.array([0, 2, 3, 4])  # normal and friction rows of the main sphere

    def problem(q: Array, u: Array) -> tuple[Array, Array]:
        W_T = jax.jacfwd(lambda v: top.system.velocities(t, q, v))(u)[rows]
        c = top.system.velocities(t, q, u)[rows]
        G = W_T @ (W_T / jnp.diagonal(top.system.M(t, q))).T
        return G, c.at[0].set(-jnp.abs(c[0]))

    G, c = jax.jit(jax.vmap(problem))(jnp.asarray(q), jnp.asarray(u))
    mu = 0.3 * jnp.array([[1.0, 1.0, 2.945e-4]])
    percussions, seconds, sweeps = {}, {}, {}
    for shape in ("sphere", "ellipsoid", "exact"):
        compiled = _solve_each.lower(Contensou(shape), G, c, mu).compile()
        times = []
        for _ in range(5 if shape == "sphere" else 1):  # S_F takes a millisecond, B_F seconds
            begin = time.perf_counter()
            solution = jax.block_until_ready(compiled(G, c, mu))
            times.append(time.perf_counter() - begin)
        seconds[shape] = min(times)
        if np.any(np.asarray(solution.status) != Status.OK):
            raise RuntimeError(f"the projected Jacobi iteration with {shape} did not converge.")
        P = np.concatenate([solution.P_N, solution.P_F[:, 0] / np.array([1.0, 1.0, 2.945e-4])], axis=1)
        percussions[shape], sweeps[shape] = P, float(np.mean(solution.iterations))
    apart = np.abs(percussions["sphere"] - percussions["ellipsoid"]).max(axis=1)
    return float((apart / np.abs(percussions["sphere"]).max(axis=1)).max()), seconds, sweeps


@partial(jax.jit, static_argnums=0)
def _solve_each(law: Contensou, G: Array, c: Array, mu: Array) -> ContactSolution:
    """One problem after the other, so that none waits for the sweeps of another."""

    def solve(problem: tuple[Array, Array]) -> ContactSolution:
        G, c = problem
        return solve_contacts(G, c, mu, d=3, law=law, method="projected_jacobi", tol=1e-9, max_sweeps=200_000)

    return jax.lax.map(solve, (G, c))


def _draw_sets(angles: np.ndarray, growth: Mapping[Shape, np.ndarray]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4.2), layout="constrained", dpi=110)
    flat, solid = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2, projection="3d")
    for (shape, name), color in zip(SHAPES.items(), ("C0", "C1", "C2"), strict=True):
        force, torque = np.stack([np.sin(angles), np.cos(angles)]) / growth[shape]
        flat.plot(np.concatenate([force, -force[::-1]]), np.concatenate([torque, torque[::-1]]), color, label=name)
        turn = np.linspace(0.0, 2.0 * np.pi if shape == "exact" else np.pi, 61)  # half of the outer ones
        x, y, z = np.outer(force, np.cos(turn)), np.outer(force, np.sin(turn)), np.outer(torque, np.ones_like(turn))
        solid.plot_surface(x, y, z, color=color, alpha=1.0 if shape == "exact" else 0.25, linewidth=0.0)
    flat.set_aspect("equal")
    flat.grid(alpha=0.3)
    flat.legend(frameon=False, loc="center")
    flat.set_xlabel(r"$\lambda_T / \mu\lambda_N$")
    flat.set_ylabel(r"$\lambda_\tau / \bar R\mu\lambda_N$")
    solid.set_xlabel(r"$\lambda_{T1}$")
    solid.set_ylabel(r"$\lambda_{T2}$")
    solid.set_zlabel(r"$\lambda_\tau$")
    solid.set_box_aspect((1, 1, 1))
    return figure


# Sprag clutch -------------------------------------------------------------------------------------------------------


def sprag_clutch() -> Outcome:
    """An impact that makes energy (§3.9)."""
    m, u1, u2 = 2.0, 1.5, -1.0
    problem = models.sprag_clutch(m=m, u1=u1, u2=u2)
    e = np.linspace(0.0, 1.0, 41)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        impacts = [
            simulate(problem.system.with_params(e_N=e_N), EnergyTwoStep(), problem.q0, problem.u0, dt=1e-2, num_steps=1)
            for e_N in e
        ]
    warned = [w for w in caught if "different restitution coefficients" in str(w.message)]
    u = np.stack([impact.u[1] for impact in impacts])
    gain = 0.5 * m * (np.sum(u**2, axis=1) - u1**2 - u2**2)
    Lambda_1, Lambda_2 = float(impacts[-1].P_F[1, -1, 0]), float(impacts[-1].P_N[1, 0])
    error_u = np.abs(u[-1] - np.array([0.0, u1 - u2])).max()
    error_P = max(abs(Lambda_1 + 2 * m * u2), abs(Lambda_2 - m * (u1 - 2 * u2)))
    figure, (ax,) = panels(size=(6.0, 3.2))
    ax.plot(e, gain, "o-", markersize=3, label=f"$m = {m:g}$, $u_1^- = {u1:g}$, $u_2^- = {u2:g}$")
    ax.plot(1.0, -m * u1 * u2, "k+", markersize=12, label="$-m u_1^- u_2^-$")
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.set_xlabel(r"$\varepsilon_2$ of the contact ($\varepsilon_1 = 0$ of the clutch)")
    ax.set_ylabel("$T^+ - T^-$ [J]")
    ax.legend(frameon=False)
    statements = (
        Statement(
            "ε = (0, 1): u⁺ = (0, u₁ − u₂)",
            f"u⁺ = ({u[-1, 0]:.10g}, {u[-1, 1]:.10g}) for u⁻ = ({u1:g}, {u2:g}), to {error_u:.1e}",
            bool(error_u <= 1e-9),
        ),
        Statement(
            "Λ₁ = −2m u₂ and Λ₂ = m(u₁ − 2u₂)",
            f"Λ = ({Lambda_1:.10g}, {Lambda_2:.10g}) for m = {m:g}, to {error_P:.1e}",
            bool(error_P <= 1e-8),
        ),
        Statement(
            "the kinetic energy rises by −m u₁ u₂ > 0, although the system is passive",
            f"rises by {gain[-1]:.10g} J; −m u₁ u₂ = {-m * u1 * u2:g} J",
            bool(abs(gain[-1] + m * u1 * u2) <= 1e-8),
        ),
        Statement(
            "with ε₂ = 0, equal to ε₁, the energy does not rise",
            f"changes by {gain[0]:.4g} J; it rises from ε₂ = {e[np.argmax(gain > 0.0)]:g} on",
            bool(gain[0] <= 0.0),
        ),
        Statement(
            "restitution coefficients have to be chosen with care",
            f"jaxns warns in {len(warned)} of {len(e)} runs, those with ε₂ > 0, that coefficients of coupled contacts "
            "differ",
            len(warned) == len(e) - 1,
        ),
    )
    return Outcome(statements, {"Fig. 3.12: energy of the impact with clutch and contact over ε₂": figure})


# The recovered iteration --------------------------------------------------------------------------------------------


def recovered_iteration() -> Outcome:
    """Projected Jacobi iterations where nothing is projected (§2.5.3)."""
    G = jnp.diag(jnp.array([1.0, 1e4, 1.0]))
    c, start = jnp.array([-1e3, 1.0, 1.0]), jnp.array([1e3, 0.0, 0.0])  # the normal percussion is known, and large
    sweeps, error = {}, {}
    for method in ("projected_jacobi", "recovered_jacobi"):
        # the tolerance is relative to the size of c, 10³
        solution = solve_contacts(G, c, 1.0, d=2, method=method, P_guess=start, tol=1e-12, max_sweeps=400_000)
        sweeps[method] = int(solution.iterations)
        error[method] = float(jnp.abs(solution.P_F[0] - jnp.array([-1e-4, -1.0])).max())
    statements = (
        Statement(
            "G = diag(10⁴, 1), c = (1, 1): the projected Jacobi iteration needs more than 10⁵ steps for 10⁻⁹",
            f"{sweeps['projected_jacobi']:,} sweeps, error {error['projected_jacobi']:.1e}",
            sweeps["projected_jacobi"] > 1e5 and error["projected_jacobi"] <= 2e-9,
        ),
        Statement(
            "the recovered iteration (2.63) needs one",
            f"{sweeps['recovered_jacobi']} sweep, error {error['recovered_jacobi']:.1e}",
            sweeps["recovered_jacobi"] == 1 and error["recovered_jacobi"] <= 1e-9,
        ),
    )
    return Outcome(statements)
