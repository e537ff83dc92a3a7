"""Random contact problems of which it is known whether they have a solution, for tests and benchmarks.

Rows are n normals, then n·d friction rows, contact by contact. W holds the force directions of nu velocities.

- slater: one velocity v opens every contact faster than it slides, W_N' v > μ |W_F' v|. Then there is a solution,
  whatever c is (Acary, Cadoux, Lemaréchal and Malick 2011).
- wedge: half as many velocities as rows, and no such v; but c = W'u, an impact without restitution. Then there is a
  solution (Anitescu and Potra 1997).
- groove: two planar contacts of a disk between two walls, with restitution; `contact_modes` knows whether there is one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ContactProblem(NamedTuple):
    G: np.ndarray
    c: np.ndarray
    mu: np.ndarray
    d: int
    kind: str


def _directions(rng, nu, n, d):
    """(nu, n, 1 + d): lengths over three powers of ten; in half of all problems few velocities to a contact."""
    W = rng.standard_normal((nu, n, 1 + d)) * 10.0 ** rng.uniform(-1.5, 1.5, (n, 1)) / np.sqrt(nu)
    if rng.random() < 0.5:
        near = rng.random((nu, n, 1)) < min(1.0, 8.0 / nu)
        W *= near + 1e-3 * rng.standard_normal(W.shape)
    return W


def _opened(rng, W, mu):
    """Normals turned so that one velocity opens all contacts."""
    v = rng.standard_normal(W.shape[0])
    v /= np.linalg.norm(v)
    speed = np.einsum("a,anf->nf", v, W)
    slide = np.linalg.norm(speed[:, 1:], axis=1)
    goal = np.maximum(speed[:, 0], mu * slide + 0.05 * np.linalg.norm(W[:, :, 0], axis=0))
    W[:, :, 0] += np.outer(v, goal - speed[:, 0])
    return W


def general(rng, kind, d, n):
    """A problem of n contacts of kind "slater" or "wedge", with inverse masses over up to six powers of ten."""
    rows = n * (1 + d)
    mu = np.where(rng.random(n) < 0.05, 0.0, rng.uniform(0.02, 1.5, n))
    rank = 0.5 if kind == "wedge" else rng.uniform(0.5, 1.0)
    nu = max(1 + d, int(np.ceil(rank * rows)))
    W = _directions(rng, nu, n, d)
    if kind == "slater":
        W = _opened(rng, W, mu)
    W = np.concatenate([W[:, :, 0], W[:, :, 1:].reshape(nu, -1)], axis=1)
    spread = rng.choice([0.0, 1.5, 3.0])
    inverse_mass = 10.0 ** rng.uniform(-spread, spread, nu)
    u = rng.standard_normal(nu) * 10.0 ** rng.uniform(-1, 1)
    c = W.T @ u
    if kind == "slater":
        c[:n] += rng.choice([0.0, 0.5, 0.9]) * (W.T @ (u + 0.1 * rng.standard_normal(nu)))[:n]
    return ContactProblem(W.T @ (inverse_mass[:, None] * W), c, mu, d, kind)


def groove(rng):
    """A disk that touches both walls of a groove, with μ and slopes at which it may wedge, and restitution."""
    slopes = np.array([1.0, -1.0]) * rng.uniform(0.5, 1.5, 2)  # angles of the walls to the horizontal
    normals = np.stack([-np.sin(slopes), np.cos(slopes)], axis=1)
    tangents = np.stack([np.cos(slopes), np.sin(slopes)], axis=1)
    spin = np.ones(2)
    W = np.concatenate([np.column_stack([normals, 0 * spin]), np.column_stack([tangents, spin])])
    mu = np.full(2, rng.uniform(0.1, 1.5))
    u = rng.standard_normal(3) * np.array([1.0, 1.0, 3.0])
    e = rng.choice([0.0, 0.4, 0.8])
    velocity = W @ u
    c = velocity + np.concatenate([e * np.where(velocity[:2] < 0.0, velocity[:2], 0.0), np.zeros(2)])
    return ContactProblem(W @ np.diag([1.0, 1.0, 2.0]) @ W.T, c, mu, 1, "groove")


def problems(seed, number, most=50):
    """`number` general problems, one to `most` contacts, in the plane and in space by turns, three of ten wedges."""
    rng = np.random.default_rng(seed)
    out = []
    for k in range(number):
        n = int(np.clip(np.round(np.exp(rng.uniform(0.0, np.log(most + 0.4)))), 1, most))
        out.append(general(rng, "wedge" if k % 10 >= 7 else "slater", 1 + k % 2, n))
    return out
