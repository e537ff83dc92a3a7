"""Large systems: inclusions in velocities and percussions together, whose matrices are sparse.

With percussions as the only unknowns Newton's method needs the Delassus matrix WᵀM⁻¹W, which one body that touches all
others (the wheel that carries the levers) fills completely. With δu kept beside δP̂,

    [ M       −W√r   ] [δu ]   [ 0 ]
    [ ∂F/∂u   ∂F/∂P̂ ] [δP̂] = [−F ],      F = P̂ − p(P̂ − √r y(u)),

each row holds only what one contact or one body has to do with, so that elimination costs in proportion to their number.
Inclusions whose velocities are unknowns anyway (`coupled_form`) have such a matrix as they are.
The pattern is read from the trace of the user's functions; nobody declares it. Small systems, and systems without such a
pattern, keep the dense form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...laws.table import LawTable
from ...model.system import System
from ...solve import sparse
from ...solve.sparse import CoupledForm, SparseForm
from ...trace import pattern
from ..base import Configuration

SMALLEST = 56  # unknowns (velocities and percussions): below, a dense matrix is faster
SAVING = 10  # times fewer multiplications than with a dense matrix are worth the indirection

RowFunction = Callable[[System, Array, Array, Array, Array], Array]  # (system, t, dt, q, u) -> (n,)


@dataclass(frozen=True, eq=False)
class Structure:
    """The patterns of a large system."""

    M: sparse.Pattern
    W: sparse.Pattern  # of Wᵀ (n, nu)
    mass: tuple[sparse.Plan, sparse.Plan] | None  # None for a diagonal mass matrix
    F: sparse.Pattern | None = None  # of ∂F/∂(u, P̂), for rows y(u)
    newton: tuple[sparse.Plan, sparse.Plan] | None = None  # of the matrix above, with the plan of the transposed one


def structure(
    system: System, laws: LawTable, rows: RowFunction | None, t: Array, q: Array, u: Array
) -> Structure | None:
    """The structure of a system whose inclusion has rows y(u), or velocities among its unknowns; None where a dense matrix
    serves better."""
    if u.shape[0] + laws.size < SMALLEST or laws.size == 0:
        return None
    leaves, tree = jax.tree.flatten((system, t, t, q, u))
    return _structure(tree, tuple((jnp.shape(v), jnp.result_type(v)) for v in leaves), laws, rows)


@lru_cache(maxsize=64)
def _structure(tree: Any, shapes: tuple[Any, ...], laws: LawTable, rows: RowFunction | None) -> Structure | None:
    arguments = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*s) for s in shapes])
    nu, n = arguments[-1].shape[0], laws.size
    M = pattern.nonzeros(lambda system, t, dt, q, u: system.M(t, q), *arguments)
    M = M | M.T | np.eye(nu, dtype=bool)
    W = pattern.jacobian(lambda system, t, dt, q, u: system.velocities(t, q, u), *arguments, wrt=4)
    M_pattern, W_pattern = sparse.Pattern.of(M), sparse.Pattern.of(W)
    late = np.arange(nu + n) >= nu  # the diagonal of a percussion is zero until a velocity it acts on is eliminated
    mass = None
    if M.sum() > nu:
        mass = (sparse.Plan.of(M_pattern, late[:nu]), sparse.Plan.of(M_pattern.T, late[:nu]))
    if rows is None:
        return Structure(M_pattern, W_pattern, mass)
    y_u = pattern.jacobian(rows, *arguments, wrt=4)
    numbers = jax.ShapeDtypeStruct((n,), shapes[-1][1])
    law = (numbers, numbers, numbers.update(shape=(laws.n_F,)), jax.ShapeDtypeStruct((laws.n_N,), bool))
    F_y, F_P = (pattern.jacobian(laws.residual, *law, wrt=k) for k in (0, 1))
    F = np.concatenate([F_y.astype(float) @ y_u > 0, F_P | np.eye(n, dtype=bool)], axis=1)
    F_pattern = sparse.Pattern.of(F)
    newton = sparse.Pattern(
        np.concatenate([M_pattern.rows, W_pattern.columns, nu + F_pattern.rows]),
        np.concatenate([M_pattern.columns, nu + W_pattern.rows, F_pattern.columns]),
        (nu + n, nu + n),
    )
    plan = sparse.Plan.of(newton, late)
    if SAVING * plan.work > (n**3 + nu**3) / 3:
        return None
    return Structure(M_pattern, W_pattern, mass, F_pattern, (plan, sparse.Plan.of(newton.T, late)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SparseDirections:
    """Inertia and force directions at one configuration, as entries of sparse matrices."""

    structure: Structure = field(metadata=dict(static=True))
    configuration: Configuration
    M: Array  # entries of the mass matrix
    M_diagonal: Array  # (nu,)
    W: Array  # entries of Wᵀ

    @classmethod
    def at(cls, structure: Structure, configuration: Configuration) -> SparseDirections:
        system, t, q, u = configuration
        M = system.M(t, q)
        push = jax.linearize(lambda u: system.velocities(t, q, u), u)[1]
        entries = M[structure.M.rows, structure.M.columns]
        return cls(structure, configuration, entries, jnp.diagonal(M), structure.W.jacobian(push, u.dtype))

    def accelerate(self, force: Array) -> Array:
        """M⁻¹ f (nu,)."""
        if self.structure.mass is None:
            return force / self.M_diagonal
        return sparse.solve(*self.structure.mass, self.M, force)

    def kick(self, P: Array) -> Array:
        """M⁻¹W P (nu,)."""
        return self.accelerate(self.structure.W.T.multiply(self.W, P))

    def G_diagonal(self) -> Array:
        """Diagonal of WᵀM⁻¹W (n,), with the diagonal of M alone: it only scales."""
        return self.structure.W.multiply(self.W**2, 1.0 / self.M_diagonal)


def newton_form(
    structure: Structure,
    laws: LawTable,
    directions: Callable[[Any], SparseDirections],
    velocity: Callable[[Array, Any], Array],
    rows: Callable[[Array, Any], Array],
) -> SparseForm:
    """What the solver needs of an inclusion with rows y(u; data), where u = velocity(P, data)."""
    nu, F_pattern = structure.M.shape[0], structure.F
    assert structure.newton is not None and F_pattern is not None
    plan = structure.newton[0]

    def entries(P_hat: Array, zeta: Array, r: Array, mu: Array, rho: Array, data: Any) -> Array:
        """Entries of the matrix above, with velocities in units of 1/√M_jj, so that all pivots are of the order of one."""
        d, root_r = directions(data), jnp.sqrt(r)
        u = velocity(root_r * P_hat, data)
        y = root_r * rows(u, data)

        def F(x: Array) -> Array:
            change = (1.0 - rho) * (x[nu:] - P_hat) - (root_r * rows(x[:nu], data) - y)
            return x[nu:] - laws.percussions(zeta + change, mu, data.scaling.closed)

        _, push = jax.linearize(F, jnp.concatenate([u, P_hat]))
        values = jnp.concatenate([d.M, -d.W * root_r[structure.W.rows], F_pattern.jacobian(push, P_hat.dtype)])
        unit = jnp.concatenate([1.0 / jnp.sqrt(d.M_diagonal), jnp.ones_like(P_hat)])
        return unit[plan.pattern.rows] * values * unit[plan.pattern.columns]

    return SparseForm(structure.newton, nu, entries)


def coupled_form(statement: Any, theta: Any) -> CoupledForm | None:
    """The sparse form of a statement with velocities among its smooth unknowns; None where a dense matrix serves better.

    The pattern holds that of Newton's matrix and that of the Jacobian of the residual: the law of a contact mixes its rows.
    """
    leaves, tree = jax.tree.flatten(theta)
    return _coupled_form(statement, tree, tuple((jnp.shape(v), jnp.result_type(v)) for v in leaves))


@lru_cache(maxsize=64)
def _coupled_form(statement: Any, tree: Any, shapes: tuple[Any, ...]) -> CoupledForm | None:
    laws, n_z = statement.layout.laws, statement.n_z
    theta = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*s) for s in shapes])
    x = jax.ShapeDtypeStruct((n_z + laws.size,), theta.u.dtype)
    K = pattern.jacobian(statement.of_all_unknowns, theta, x, wrt=1)
    owner = np.concatenate([-1 - np.arange(laws.n_bilateral), laws.contact_of_row()])
    of_contact = (owner[:, None] == owner).astype(float)
    K[n_z:, n_z:] |= np.eye(laws.size, dtype=bool)
    K[:, n_z:] = K[:, n_z:].astype(float) @ of_contact > 0
    K[n_z:] = of_contact @ K[n_z:].astype(float) > 0
    found, late = sparse.Pattern.of(K), np.arange(len(K)) >= n_z
    plan = sparse.Plan.of(found, late)
    if SAVING * plan.work > len(K) ** 3 / 3:
        return None
    return CoupledForm((plan, sparse.Plan.of(found.T, late)))
