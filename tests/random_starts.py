"""Random consistent states and parameters of any model, for fuzzing: plain numpy around the functions of a system."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def random_systems(system, count, rng):
    """The system with random coefficients, masses and gravity: every leaf has an axis of lanes.

    Half of the lanes have e_N = e_F in all contacts, so that their impacts dissipate.
    """
    common = rng.uniform(0.0, 1.0, count)
    equal = rng.random(count) < 0.5

    def values(name, value):
        value = np.broadcast_to(np.asarray(value), (count, *np.shape(value)))
        if name.startswith(("e_N", "e_F")):
            return np.where(equal, common, np.where(rng.random(count) < 0.3, 0.0, rng.uniform(0.0, 1.0, count)))
        if name == "mu":
            return np.where(rng.random(count) < 0.2, 0.0, rng.uniform(0.0, 0.8, count))
        if name == "gravity" or (name[0] in "mJ" and not name.startswith("mu")):
            return value * np.exp(rng.uniform(-0.5, 0.5, count))
        return value

    params = {name: jnp.asarray(values(name, value), float) for name, value in system.params.items()}
    return jax.tree.map(
        lambda leaf: leaf if leaf.ndim and leaf.shape[0] == count else jnp.broadcast_to(leaf, (count, *leaf.shape)),
        system.with_tree(params),
    )


def random_states(systems, q0, u0, spread_q, spread_u, rng):
    """(q, u) (lanes, …) near (q0, u0): constraints hold, gaps are not negative, and some contacts are closed.

    Positions move along the normals of what they violate, by Newton's method with least squares; lanes without success take
    the state of another lane. Four entries at the end of q beyond those of u are a quaternion of length one.
    """
    count = len(jax.tree.leaves(systems)[0])
    q = np.asarray(q0) + np.asarray(spread_q) * rng.normal(size=(count, len(q0)))
    u = np.asarray(u0) * rng.uniform(-1.0, 1.0, (count, 1)) + np.asarray(spread_u) * rng.normal(size=(count, len(u0)))
    turns = len(q0) != len(u0)
    at = jax.jit(jax.vmap(lambda system, q: (_rows(system, q), jax.jacfwd(lambda q: _rows(system, q))(q))))
    n_g = jax.eval_shape(lambda system, q: system.g(0.0, q), jax.tree.map(lambda x: x[0], systems), q[0]).shape[0]
    n_N = at(systems, q)[0].shape[1] - n_g
    close = rng.random((count, n_N)) < 0.3 * (rng.random((count, 1)) < 0.5)

    def wanted(c):
        return np.concatenate([c[:, :n_g], np.where(close, c[:, n_g:], np.minimum(c[:, n_g:], 0.0))], axis=1)

    for _ in range(30):
        if turns:
            q[:, -4:] /= np.linalg.norm(q[:, -4:], axis=1, keepdims=True)
        c, J = (np.asarray(v) for v in at(systems, q))
        miss = wanted(c)
        J = J * np.concatenate([np.ones((count, n_g)), miss[:, n_g:] != 0.0], axis=1)[:, :, None]
        q = q - np.einsum("lqc,lc->lq", np.linalg.pinv(J, rcond=1e-8), miss)
    c = np.asarray(at(systems, q)[0])
    good = (np.abs(c[:, :n_g]).max(axis=1, initial=0.0) < 1e-11) & (c[:, n_g:].min(axis=1, initial=0.0) > -1e-11)
    good &= np.all(np.isfinite(q), axis=1)
    assert np.mean(good) > 0.2, f"only {np.sum(good)} of {count} random states are consistent"
    chosen = np.where(good, np.arange(count), np.resize(np.flatnonzero(good), count))
    systems, q = jax.tree.map(lambda x: x[chosen], systems), jnp.asarray(q[chosen])
    W = np.asarray(jax.vmap(lambda s, q, u: s.W(0.0, q, u))(systems, q, u))[:, :, :n_g]
    u = u - np.einsum("lgu,lg->lu", np.linalg.pinv(W), np.einsum("lug,lu->lg", W, u))
    return systems, q, jnp.asarray(u)


def _rows(system, q):
    return jnp.concatenate([system.g(0.0, q), system.g_N(0.0, q)])
