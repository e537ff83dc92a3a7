"""The mechanical system: what the user writes, and what autodiff derives from it.

    q̇ = B(t, q) u + β(t, q)
    M du = h dt + W_g dP_g + W_γ dP_γ + W_N dP_N + W_F dP_F

No derivative is written by hand: h takes −Bᵀ(∂V/∂q)ᵀ and the gyroscopic terms from the energies, ġ = (∂g/∂q) q̇ + ∂g/∂t
is one jvp, and every force direction is the derivative of its velocity, Wᵀ = ∂(velocity)/∂u.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..solve import dense
from ..trace import pattern
from ..trace.calls import call
from ..trace.dependence import depends_on
from .contacts import Contacts
from .values import as_float_leaves

FUNCTIONS = ("mass", "potential", "force", "kinematics", "constraint", "velocity_constraint", "gyroscopic_force")


class Rows(NamedTuple):
    """How many rows a system has of each kind."""

    n_g: int
    n_gamma: int
    groups: tuple[tuple[int, int, Any], ...]  # (contacts, friction dimension, law) of each contact group

    @property
    def n_bilateral(self) -> int:
        return self.n_g + self.n_gamma

    @property
    def n_N(self) -> int:
        return sum(n for n, _, _ in self.groups)


@jax.tree_util.register_pytree_node_class
class System:
    """A mechanical system, given by functions of time t, positions q, velocities u and parameters p.

    Main arguments:

    - params: any pytree, usually a dict of arrays; every leaf is differentiable
    - mass: `(t, q, p) -> (nu, nu)`, symmetric positive definite
    - potential: `(t, q, p) -> scalar`
    - force: `(t, q, u, p) -> (nu,)`, all other forces. Gyroscopic forces follow from mass and kinematics, and are no part
      of it, where there are as many q as u. With more q than u (quaternions) it holds them: for a rigid body −ω × Θω

    Other arguments:

    - kinematics: `(t, q, u, p) -> (nq,)`, q̇ as an affine function of u; by default q̇ = u
    - constraint: `(t, q, p) -> (n_g,)`, bilateral constraints on position level
    - velocity_constraint: `(t, q, u, p) -> (n_γ,)`, bilateral constraints on velocity level, affine in u
    - contacts: one `Contacts` or a tuple of them
    - gyroscopic_force: `(t, q, u, p) -> (nu,)`, what `gyroscopic` returns, for who has a shorter way to it than its
      derivation from mass and kinematics, or has more q than u

    A System is a pytree whose leaves are the parameters and the numeric contact coefficients, so `jax.grad` and
    `jax.vmap` work over it. New parameter values never compile anew; new function objects do.

    >>> import jax.numpy as jnp
    >>> ball = System(
    ...     dict(m=1.0, gravity=9.81),
    ...     mass=lambda t, q, p: p["m"] * jnp.eye(1),
    ...     potential=lambda t, q, p: p["m"] * p["gravity"] * q[0],
    ... )
    >>> ball.h(0.0, jnp.array([1.0]), jnp.array([0.0])).tolist()
    [-9.81...]
    """

    def __init__(
        self,
        params: Any,
        mass: Callable[..., Array],
        potential: Callable[..., Array] | None = None,
        force: Callable[..., Array] | None = None,
        kinematics: Callable[..., Array] | None = None,
        constraint: Callable[..., Array] | None = None,
        velocity_constraint: Callable[..., Array] | None = None,
        contacts: Contacts | tuple[Contacts, ...] = (),
        gyroscopic_force: Callable[..., Array] | None = None,
    ):
        self.params = as_float_leaves(params)
        self.mass, self.potential, self.force = mass, potential, force
        self.kinematics, self.constraint, self.velocity_constraint = kinematics, constraint, velocity_constraint
        self.gyroscopic_force = gyroscopic_force
        self.contacts = (contacts,) if isinstance(contacts, Contacts) else tuple(contacts)
        for name in FUNCTIONS:
            given = getattr(self, name)
            if not callable(given) and not (given is None and name != "mass"):
                raise TypeError(f"System: {name} must be a function, got {type(given).__name__}.")
        for group in self.contacts:
            if not isinstance(group, Contacts):
                raise TypeError(f"System: contacts must be jaxns.Contacts or a tuple of them, got {group!r}.")

    def with_params(self, **changes: Any) -> System:
        """A new system in which the named parameters have new values.

        >>> slider = System(dict(m=1.0, mu=0.3), mass=lambda t, q, p: p["m"] * jnp.eye(2))
        >>> float(slider.with_params(mu=0.1).params["mu"])
        0.1
        """
        if not isinstance(self.params, dict):
            raise TypeError("with_params needs params to be a dict; use with_tree for another pytree.")
        unknown = sorted(set(changes) - set(self.params))
        if unknown:
            raise KeyError(f"no parameter {unknown}; this system has {sorted(self.params)}.")
        return self.with_tree({**self.params, **as_float_leaves(changes)})

    def with_tree(self, params: Any) -> System:
        """A new system with the given parameter pytree in place of all of `params`."""
        static = self.tree_flatten()[1]
        return System.tree_unflatten(static, (as_float_leaves(params), self.contacts))

    # Kinematics -----------------------------------------------------------------------------------------------------

    def q_dot(self, t: Array, q: Array, u: Array) -> Array:
        """q̇ (nq,)."""
        return u if self.kinematics is None else call(self.kinematics, t, q, u, self.params)

    def g(self, t: Array, q: Array) -> Array:
        """Bilateral constraints on position level (n_g,)."""
        return jnp.zeros((0,), q.dtype) if self.constraint is None else call(self.constraint, t, q, self.params)

    def g_N(self, t: Array, q: Array) -> Array:
        """Gaps of all contacts (n_N,)."""
        return _concatenate([self._gap(c, t, q) for c in self.contacts], q.dtype)

    def g_dot(self, t: Array, q: Array, u: Array) -> Array:
        """ġ = (∂g/∂q) q̇ + ∂g/∂t (n_g,)."""
        return self._rate(self.g, t, q, u)

    def g_N_dot(self, t: Array, q: Array, u: Array) -> Array:
        """ġ_N (n_N,)."""
        return self._rate(self.g_N, t, q, u)

    def gamma(self, t: Array, q: Array, u: Array) -> Array:
        """Bilateral constraints on velocity level (n_γ,)."""
        if self.velocity_constraint is None:
            return jnp.zeros((0,), u.dtype)
        return call(self.velocity_constraint, t, q, u, self.params)

    def gamma_F(self, t: Array, q: Array, u: Array) -> Array:
        """Tangential velocities of all contacts, flattened contact by contact (n_F,)."""
        slips = [call(c.slip, t, q, u, self.params).reshape(-1) for c in self.contacts if c.slip is not None]
        return _concatenate(slips, u.dtype)

    def velocities(self, t: Array, q: Array, u: Array) -> Array:
        """All rows (ġ, γ, ġ_N, γ_F) = Wᵀu + χ, affine in u."""

        def positions(t: Array, q: Array) -> tuple[Array, Array]:
            return self.g(t, q), self.g_N(t, q)

        g_dot, g_N_dot = self._rate(positions, t, q, u)
        return jnp.concatenate([g_dot, self.gamma(t, q, u), g_N_dot, self.gamma_F(t, q, u)])

    def W(self, t: Array, q: Array, u: Array) -> Array:
        """Generalized force directions (nu, n) of all rows; u only fixes the shape, as the rows are affine in it."""
        return jax.jacfwd(lambda u: self.velocities(t, q, u))(u).T

    def _gap(self, contacts: Contacts, t: Array, q: Array) -> Array:
        """Gaps of one group; contacts without a gap function are always closed."""
        if contacts.gap is not None:
            return call(contacts.gap, t, q, self.params)
        u = jax.ShapeDtypeStruct(jax.eval_shape(self.M, t, q).shape[:1], q.dtype)
        return jnp.zeros(jax.eval_shape(contacts.slip, t, q, u, self.params).shape[:1], q.dtype)  # type: ignore[arg-type]

    def _rate(self, function: Callable[..., Any], t: Array, q: Array, u: Array) -> Any:
        t = jnp.asarray(t, q.dtype)
        return jax.jvp(function, (t, q), (jnp.ones_like(t), self.q_dot(t, q, u)))[1]

    # Kinetics -------------------------------------------------------------------------------------------------------

    def M(self, t: Array, q: Array) -> Array:
        """Mass matrix (nu, nu)."""
        return call(self.mass, t, q, self.params)

    def kinetic_energy(self, t: Array, q: Array, u: Array) -> Array:
        """T = ½ uᵀMu."""
        return 0.5 * u @ self.M(t, q) @ u

    def potential_energy(self, t: Array, q: Array) -> Array:
        """V, zero where no potential is given."""
        return jnp.zeros((), q.dtype) if self.potential is None else call(self.potential, t, q, self.params)

    def h(self, t: Array, q: Array, u: Array) -> Array:
        """All forces that are neither constraint nor contact forces (nu,): f − Bᵀ(∂V/∂q)ᵀ − (Ṁu − (∂T/∂q)ᵀ)."""
        h = jnp.zeros_like(u) if self.force is None else call(self.force, t, q, u, self.params)
        if self.potential is not None:
            V_q = jax.grad(self.potential_energy, argnums=1)(t, q)
            h = h - (V_q if self.kinematics is None else self._transpose_B(t, q, u, V_q))
        if self._has_gyroscopic(t, q, u):
            h = h - self.gyroscopic(t, q, u)
        return h

    def momentum_rate(self, t: Array, q: Array, u: Array) -> Array:
        """h + Ṁu (nu,): the rate of the momentum π = Mu without constraint and contact forces."""
        if self.constant_mass(t, q):
            return self.h(t, q, u)
        t = jnp.asarray(t, q.dtype)
        M_dot = jax.jvp(self.M, (t, q), (jnp.ones_like(t), self.q_dot(t, q, u)))[1]
        return self.h(t, q, u) + M_dot @ u

    def momenta(self, t: Array, q: Array, u: Array) -> Array:
        """π = B⁻ᵀMu (nq,), conjugate to q; for as many q as u."""
        Mu = self.M(t, q) @ u
        if self.kinematics is None:
            return Mu
        B = jax.jacfwd(lambda u: self.q_dot(t, q, u))(u)
        return dense.matmul(dense.inverse(B).T, Mu)

    def gyroscopic(self, t: Array, q: Array, u: Array) -> Array:
        """Ṁu − Ḃᵀπ + Bᵀ((∂q̇/∂q)ᵀπ − (∂T/∂q)ᵀ), with total time derivatives; for as many q as u.

        These are Lagrange's equations d/dt ∂T/∂q̇ − ∂T/∂q, times Bᵀ, in terms of u. With constant mass they are BᵀHBu,
        H = ∂π/∂q − (∂π/∂q)ᵀ; for a rigid body ω × Θω; for q̇ = u they are Ṁu − (∂T/∂q)ᵀ. Or as they are given.
        """
        if self.gyroscopic_force is not None:
            return call(self.gyroscopic_force, t, q, u, self.params)
        t = jnp.asarray(t, q.dtype)
        rates = jnp.ones_like(t), self.q_dot(t, q, u)
        M_dot = jax.jvp(self.M, (t, q), rates)[1]
        T_q = jax.grad(self.kinetic_energy, argnums=1)(t, q, u)
        if self.kinematics is None:
            return M_dot @ u - T_q
        pi = self.momenta(t, q, u)
        power = jax.grad(lambda t, q, u: pi @ self.q_dot(t, q, u), argnums=(1, 2))  # ((∂q̇/∂q)ᵀπ, Bᵀπ)
        (of_q, _), (_, B_dot_pi) = jax.jvp(lambda t, q: power(t, q, u), (t, q), rates)
        return M_dot @ u - B_dot_pi + self._transpose_B(t, q, u, of_q - T_q)

    def _has_gyroscopic(self, t: Array, q: Array, u: Array) -> bool:
        if self.gyroscopic_force is not None or q.shape != u.shape:
            return self.gyroscopic_force is not None
        moves = self.kinematics is not None and any(depends_on(self.q_dot, (t, q, u), i) for i in (0, 1))
        return moves or not self.constant_mass(t, q)

    def _transpose_B(self, t: Array, q: Array, u: Array, covector: Array) -> Array:
        return jax.vjp(lambda u: self.q_dot(t, q, u), u)[1](covector)[0]

    # Structure ------------------------------------------------------------------------------------------------------

    def constant_mass(self, t: Array, q: Array) -> bool:
        """Whether the mass matrix depends on the parameters alone."""
        return not any(depends_on(lambda t, q: self.M(t, q), (t, q), i) for i in (0, 1))

    def diagonal_mass(self, t: Array, q: Array) -> bool:
        """Whether the mass matrix is diagonal, whatever its arguments are."""
        leaves, tree = jax.tree.flatten((self, t, q))
        return _has_diagonal_mass(tree, tuple((jnp.shape(v), jnp.result_type(v)) for v in leaves))

    def velocity_dependent_force(self, t: Array, q: Array, u: Array) -> bool:
        """Whether h depends on u."""
        return depends_on(self.h, (t, q, u), 2)

    def position_dependent_force(self, t: Array, q: Array, u: Array) -> bool:
        """Whether h or the force directions W depend on q."""
        return depends_on(self.h, (t, q, u), 1) or depends_on(self.W, (t, q, u), 1)

    def rows(self, t: Array, q: Array, u: Array) -> Rows:
        """How many constraints and contacts there are, from the shapes that the user's functions return."""

        def count(function: Callable[..., Array], *arguments: Any) -> int:
            return jax.eval_shape(function, *arguments).shape[0]

        groups = []
        for c in self.contacts:
            n = count(partial(self._gap, c), t, q)
            d = 0 if c.slip is None else jax.eval_shape(c.slip, t, q, u, self.params).shape[1]
            groups.append((n, d, c.law))
        return Rows(count(self.g, t, q), count(self.gamma, t, q, u), tuple(groups))

    def coefficients(self, rows: Rows, dtype: Any) -> tuple[Array, Array, Array]:
        """e_N (n_N,), e_F (n_F,) and mu (n_F,) with one entry per friction row."""
        e_N, e_F, mu = [], [], []
        for c, (n, d, _) in zip(self.contacts, rows.groups, strict=True):
            e_N.append(c.coefficient("e_N", self.params, n, dtype))
            e_F.append(jnp.repeat(c.coefficient("e_F", self.params, n, dtype), d))
            mu.append(c.friction_coefficients(self.params, n, d, dtype))
        return _concatenate(e_N, dtype), _concatenate(e_F, dtype), _concatenate(mu, dtype)

    def at_speeds(self, t: Array, q: Array, u: Array) -> System:
        """The system whose `BySpeed` coefficients have the values of this state; the same system where there are none."""
        if not any(c.follows_speed for c in self.contacts):
            return self

        def settled(c: Contacts) -> Contacts:
            approach = jnp.maximum(-self._rate(partial(self._gap, c), t, q, u), 0.0)
            if c.slip is None:
                return c.at_speeds(self.params, approach, jnp.zeros_like(approach))
            square = jnp.sum(call(c.slip, t, q, u, self.params) ** 2, axis=1)
            moves = square > 0.0  # the root has no derivative at zero
            speed = jnp.where(moves, jnp.sqrt(jnp.where(moves, square, 1.0)), 0.0)
            return c.at_speeds(self.params, approach, speed)

        contacts = tuple(settled(c) if c.follows_speed else c for c in self.contacts)
        return System.tree_unflatten(self.tree_flatten()[1], (self.params, contacts))

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (self.params, self.contacts), tuple(getattr(self, name) for name in FUNCTIONS)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], leaves: tuple[Any, ...]) -> System:
        self = object.__new__(cls)
        self.params, self.contacts = leaves
        for name, function in zip(FUNCTIONS, static, strict=True):
            setattr(self, name, function)
        return self


@dataclass(frozen=True)
class Problem:
    """A system with initial state, end time and step size: what a benchmark problem is.

    >>> import jaxns as ns
    >>> p = ns.models.bouncing_ball()
    >>> p.q0.tolist(), p.u0.shape, p.t1, p.dt, float(p.system.params["e_N"])
    ([0.0, 1.0, 0.0], (3,), 1.5, 0.01, 0.5)
    """

    system: System
    q0: Array
    u0: Array
    t1: float
    dt: float
    draw: Callable[..., Any] | None = None  # (t, q, p) -> jaxns.Scene, for jaxns.animate


@lru_cache(maxsize=64)
def _has_diagonal_mass(tree: Any, shapes: tuple[Any, ...]) -> bool:
    arguments = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*s) for s in shapes])
    M = pattern.nonzeros(lambda system, t, q: system.M(t, q), *arguments)
    return not np.any(M & ~np.eye(len(M), dtype=bool))


def _concatenate(parts: list[Array], dtype: Any) -> Array:
    return jnp.concatenate(parts) if parts else jnp.zeros((0,), dtype)
