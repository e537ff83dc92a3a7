"""Errors that name the culprit: what was given, what was expected, and what to do."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .system import Rows, System
from .values import is_concrete


def check_arguments(
    q0: Array, u0: Array, dt: Any, t0: Any, t1: float | None, num_steps: int | None, save_every: int
) -> tuple[int, int]:
    """Check the arguments of a simulation; returns the number of steps and `save_every`, as Python's integers."""
    for name, value in (("q0", q0), ("u0", u0)):
        if value.ndim != 1:
            raise ValueError(f"{name} must be a vector, got shape {value.shape}; use jax.vmap for batches.")
        if is_concrete(value) and not np.all(np.isfinite(value)):
            raise ValueError(f"{name} must be finite, got {np.asarray(value)}.")
    if jnp.ndim(dt) != 0:
        raise ValueError(f"dt must be a scalar, got shape {jnp.shape(dt)}; use jax.vmap over dt with num_steps given.")
    if is_concrete(dt) and not (float(dt) > 0.0 and math.isfinite(float(dt))):
        raise ValueError(f"dt must be positive and finite, got {float(dt)}.")
    if (t1 is None) == (num_steps is None):
        given = "neither" if t1 is None else "both"
        raise ValueError(f"give exactly one of t1 and num_steps; {given} was given.")
    if num_steps is None:
        if not is_concrete((dt, t0, t1)):
            raise ValueError("a traced dt, t0 or t1 leaves the number of steps unknown; give num_steps instead of t1.")
        ratio = (float(t1) - float(t0)) / float(dt)  # type: ignore[arg-type]
        num_steps = round(ratio) if abs(ratio - round(ratio)) < 1e-6 * max(1.0, abs(ratio)) else math.ceil(ratio)
    if not isinstance(num_steps, (int, np.integer)) or num_steps < 1:
        raise ValueError(f"there must be at least one step, got {num_steps} (t0={t0}, t1={t1}, dt={dt}).")
    if save_every < 1 or num_steps % save_every:
        raise ValueError(f"save_every must divide the number of steps, got {save_every} and {num_steps} steps.")
    return int(num_steps), int(save_every)


def check_shapes(system: System, q0: Array, u0: Array) -> Rows:
    """Complain about the first user function that returns a wrong shape; returns how many rows the system has.

    Functions are evaluated once for each structure: the same functions with other values cost a look into a table.
    """
    leaves, tree = jax.tree.flatten((system, q0, u0))
    return _rows_of_structure(tree, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))


@lru_cache(maxsize=64)
def _rows_of_structure(tree: Any, shapes: tuple[Any, ...]) -> Rows:
    system, q0, u0 = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*s) for s in shapes])
    t, p = jax.ShapeDtypeStruct((), q0.dtype), system.params
    nq, nu = q0.shape[0], u0.shape[0]
    if system.kinematics is None and nq != nu:
        raise ValueError(f"q0 has {nq} and u0 has {nu} entries; without kinematics (q̇ = u) both must have as many.")
    _expect("mass (t, q, p)", system.mass, (t, q0, p), (nu, nu))
    if system.potential is not None:
        _expect("potential (t, q, p)", system.potential, (t, q0, p), ())
    if system.force is not None:
        _expect("force (t, q, u, p)", system.force, (t, q0, u0, p), (nu,))
    if system.kinematics is not None:
        _expect("kinematics (t, q, u, p)", system.kinematics, (t, q0, u0, p), (nq,))
    n_g = n_gamma = 0
    if system.constraint is not None:
        (n_g,) = _expect("constraint (t, q, p)", system.constraint, (t, q0, p), (None,))
    if system.velocity_constraint is not None:
        function = system.velocity_constraint
        (n_gamma,) = _expect("velocity_constraint (t, q, u, p)", function, (t, q0, u0, p), (None,))
    groups = []
    for i, group in enumerate(system.contacts):
        n: int | None = None
        d = 0
        if group.gap is not None:
            (n,) = _expect(f"gap of contact group {i} (t, q, p)", group.gap, (t, q0, p), (None,))
        if group.slip is not None:
            n, d = _expect(f"slip of contact group {i} (t, q, u, p)", group.slip, (t, q0, u0, p), (n, None))
            most = getattr(group.law, "most_rows", 3)
            if not 1 <= d <= most:
                raise ValueError(f"slip of contact group {i} has {d} components per contact; 1 to {most} are possible.")
        groups.append((n or 0, d, group.law))
    rows = Rows(n_g, n_gamma, tuple(groups))
    jax.eval_shape(lambda s, *at: _coefficients_in_range(s.at_speeds(*at), rows), system, t, q0, u0)  # their shapes
    return rows


def check_coefficients(system: System, rows: Rows) -> None:
    """Complain about restitution and friction coefficients outside of their range; needs concrete values."""
    if not _coefficients_in_range(system, rows):
        for group, (n, d, _) in zip(system.contacts, rows.groups, strict=True):
            group.check_coefficients(system.params, n, d)


@partial(jax.jit, static_argnames="rows")
def _coefficients_in_range(system: System, rows: Rows) -> Array:
    fine = [
        c.coefficients_in_range(system.params, n, d) for c, (n, d, _) in zip(system.contacts, rows.groups, strict=True)
    ]
    return jnp.all(jnp.asarray(fine, bool))


def acceptable(system: System, rows: Rows, q0: Array, u0: Array, dt: Array, t0: Array) -> Array:
    """Whether a simulation may begin (), for values that are traced and so cannot raise.

    Step size, state and coefficients are where they may be, and the mass matrix at the initial state is positive definite.
    Constraints and gaps are not looked at: schemes on position level correct what is left of them.
    """
    finite = jnp.all(jnp.isfinite(jnp.concatenate([q0, u0, jnp.stack([dt, t0])])))
    in_range = _coefficients_in_range(system.at_speeds(t0, q0, u0), rows)
    M = system.M(t0, q0)
    definite = jnp.all(jnp.diagonal(M) > 0.0) if system.diagonal_mass(t0, q0) else _positive_definite(M)
    return finite & (dt > 0.0) & in_range & definite


def _positive_definite(M: Array) -> Array:
    """Whether all pivots of M are positive; plain arithmetic, no LAPACK in batches."""
    small = 8.0 * M.shape[0] * jnp.finfo(M.dtype).eps * jnp.diagonal(M)

    def eliminate(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        A, fine = state
        return A - A[:, k, None] * A[k] / A[k, k], fine & (A[k, k] > small[k]) & (small[k] > 0.0)

    return lax.fori_loop(0, M.shape[0], eliminate, (M, jnp.asarray(True)))[1]


def _expect(name: str, function: Any, arguments: tuple[Any, ...], shape: tuple[int | None, ...]) -> tuple[int, ...]:
    try:
        result = jax.eval_shape(function, *arguments)
    except Exception as error:
        error.add_note(f"while evaluating the system's {name}")
        raise
    got = getattr(result, "shape", None)
    fits = got is not None and len(got) == len(shape) and all(e in (None, g) for e, g in zip(shape, got, strict=True))
    if not fits:
        expected = "(" + ", ".join("n" if e is None else str(e) for e in shape) + ("," if len(shape) == 1 else "") + ")"
        what = f"shape {got}" if got is not None else f"a {type(result).__name__}"
        raise ValueError(f"the system's {name} must return shape {expected}, but returned {what}.")
    return tuple(got)  # type: ignore[arg-type]


class InitialValues(NamedTuple):
    """What the checks of an initial state look at, as numpy arrays."""

    M: np.ndarray
    g: np.ndarray
    g_dot: np.ndarray
    gamma: np.ndarray
    g_N: np.ndarray
    e_N: np.ndarray
    e_F: np.ndarray
    in_range: np.ndarray  # whether all coefficients are where they may be
    B: np.ndarray  # ∂q̇/∂u of kinematics with as many q as u, else (0, 0)


def check_initial_values(system: System, rows: Rows, t: Any, q: Any, u: Any) -> InitialValues:
    """Complain about a singular mass matrix, violated constraints, penetration, and coefficients outside of their range."""
    values = InitialValues(*(np.asarray(v) for v in _initial_values(system, rows, t, q, u)))
    M, g, g_dot, gamma, g_N = values[:5]
    if not values.in_range:
        check_coefficients(system.at_speeds(t, q, u), rows)
    eigenvalues = np.linalg.eigvalsh(0.5 * (M + M.T)) if np.all(np.isfinite(M)) else np.array([np.nan])
    if not eigenvalues[0] > np.finfo(M.dtype).eps * np.max(np.abs(eigenvalues)):
        raise ValueError(
            "the mass matrix at the initial state must be symmetric positive definite; its eigenvalues are "
            f"{np.array2string(eigenvalues, precision=3)}. A zero row or column means a coordinate without inertia."
        )
    sizes = np.linalg.svd(values.B, compute_uv=False)
    if sizes.size and not sizes[-1] > np.finfo(M.dtype).eps * sizes[0]:
        raise ValueError(
            "kinematics with as many q as u must have an invertible ∂q̇/∂u; its singular values at the initial state are "
            f"{np.array2string(sizes, precision=3)}."
        )
    limit = math.sqrt(float(np.finfo(q.dtype).eps)) * max(1.0, float(np.max(np.abs(q), initial=0.0)))
    speed = max(1.0, float(np.max(np.abs(u), initial=0.0)))
    _expect_zero("constraint g(q0)", g, limit)
    _expect_zero("constraint velocity ġ(q0, u0)", g_dot, limit * speed)
    _expect_zero("velocity constraint γ(q0, u0)", gamma, limit * speed)
    if g_N.size and not np.min(g_N) >= -limit:
        k = int(np.nanargmin(g_N)) if np.any(np.isfinite(g_N)) else 0
        raise ValueError(
            f"the initial state penetrates: gap {k} is {g_N[k]:.3e} (all gaps: {np.array2string(g_N, precision=3)}). "
            "Move q0 out of the obstacle, or pass check=False to go on from a state with drift."
        )
    return values


@partial(jax.jit, static_argnums=1)
def _initial_values(system: System, rows: Rows, t: Array, q: Array, u: Array) -> tuple[Array, ...]:
    """`InitialValues` as one program: operation by operation, the first call would compile dozens of them."""
    state = system.M(t, q), system.g(t, q), system.g_dot(t, q, u), system.gamma(t, q, u), system.g_N(t, q)
    square = system.kinematics is not None and q.shape == u.shape
    B = jax.jacfwd(lambda u: system.q_dot(t, q, u))(u) if square else jnp.zeros((0, 0), q.dtype)
    system = system.at_speeds(t, q, u)
    return *state, *system.coefficients(rows, q.dtype)[:2], _coefficients_in_range(system, rows), B


@jax.jit
def _inertia_and_directions(system: System, t: Array, q: Array, u: Array) -> tuple[Array, Array]:
    return system.M(t, q), system.W(t, q, u)


def check_restitution(system: System, rows: Rows, values: InitialValues, t: Any, q: Any, u: Any) -> None:
    """Warn where normal contacts and freewheels that are coupled have different restitution coefficients."""
    unilateral = [np.ones(rows.n_N, bool)]
    for n, d, law in rows.groups:
        unilateral.append(np.full(n * d, getattr(law, "unilateral", False)))
    which = np.concatenate(unilateral)
    e = np.concatenate([values.e_N, values.e_F])[which]
    if e.size < 2 or np.ptp(e) == 0.0:
        return
    M, W = (np.asarray(v) for v in _inertia_and_directions(system, t, q, u))
    W = W[:, rows.n_bilateral :][:, which]
    G = W.T @ np.linalg.solve(M, W)
    size = np.sqrt(np.diag(G))
    coupled = np.abs(G) > 1e-10 * size[:, None] * size
    differ = coupled & (e[:, None] != e) & (size[:, None] * size > 0.0)
    if np.any(differ):
        i, j = np.argwhere(differ)[0]
        warnings.warn(
            f"coupled contacts have different restitution coefficients ({e[i]:g} and {e[j]:g}): Newton's impact law can "
            'then raise the energy, as in ns.models.sprag_clutch. Equal ones are safe, and so is restitution="poisson" of '
            "most time-stepping schemes; check=False leaves out this check.",
            stacklevel=3,
        )


def _expect_zero(name: str, value: np.ndarray, limit: float) -> None:
    size = np.abs(value)
    if size.size and not np.max(size) <= limit:
        k = int(np.argmax(np.where(np.isnan(size), np.inf, size)))
        raise ValueError(
            f"inconsistent initial state: component {k} of {name} is {float(value[k]):.3e} instead of zero (limit "
            f"{limit:.1e}). Correct q0 and u0, or pass check=False to start from them as they are."
        )
