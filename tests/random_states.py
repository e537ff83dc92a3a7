"""Random consistent states of the slider-crank, for tests and benchmarks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns


def largest_tilt(p: dict[str, float]) -> float:
    """The angle at which opposite corners touch both walls: a sin φ + b cos φ = d/2."""
    length, lead = np.hypot(p["a"], p["b"]), np.arctan2(p["b"], p["a"])
    return float(np.arcsin(0.5 * p["d"] / length) - lead)


def slider_crank_starts(
    problem: ns.Problem, count: int, seed: int, violent: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """q0 (count, 9), u0 (count, 9) and μ (count,): any crank angle, any place and tilt in the guide.

    The crank turns with up to 200 rad/s, the slider with up to 10 rad/s; in violent states both are normal variables with
    a standard deviation of 100 rad/s. Friction coefficients lie between 0 and 0.5.
    """
    p = {k: float(v) for k, v in problem.system.params.items()}
    rng = np.random.default_rng(seed)
    phi1, speed = rng.uniform(-np.pi, np.pi, count), rng.uniform(-200.0, 200.0, count)
    phi3 = rng.uniform(-0.9, 0.9, count) * largest_tilt(p)
    room = 0.5 * p["d"] - p["a"] * np.abs(np.sin(phi3)) - p["b"] * np.cos(phi3)
    y3 = rng.uniform(-0.9, 0.9, count) * room
    phi2 = np.arcsin((y3 - p["l1"] * np.sin(phi1)) / p["l2"])
    c1, s1, c2, s2 = (f(a) for a in (phi1, phi2) for f in (np.cos, np.sin))
    l1, l2 = p["l1"], p["l2"]
    q = np.stack([l1 / 2 * c1, l1 / 2 * s1, phi1, l1 * c1 + l2 / 2 * c2, l1 * s1 + l2 / 2 * s2, phi2,
                  l1 * c1 + l2 * c2, l1 * s1 + l2 * s2, phi3], axis=1)  # fmt: skip
    # Velocities: six constraint rows, and the chosen rates of φ_1, y_3 and φ_3.
    chosen = np.stack([speed, rng.uniform(-0.5, 0.5, count), rng.uniform(-10.0, 10.0, count)], axis=1)
    mu = rng.uniform(0.0, 0.5, count)
    if violent:
        chosen[:, [0, 2]] = rng.normal(0.0, 100.0, (count, 2))
    g_q = np.asarray(jax.vmap(jax.jacfwd(problem.system.g, argnums=1), (None, 0))(0.0, q))
    pick = np.broadcast_to(np.eye(9)[[2, 7, 8]], (count, 3, 9))
    right = np.concatenate([np.zeros((count, 6)), chosen], axis=1)
    u = np.linalg.solve(np.concatenate([g_q, pick], axis=1), right[..., None])[..., 0]
    return jnp.asarray(q), jnp.asarray(u), jnp.asarray(mu)
