"""Forces of constraints and contacts along a trajectory, after the fact."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..integrators.base import law_table, tolerance
from ..integrators.levels.acceleration_level import decision, instant_of
from ..model.system import System
from ..simulation.simulate import Trajectory
from ..solve import implicit


class ContactForces(NamedTuple):
    """Forces in newtons (torques in N m), and accelerations, one entry for each row of the trajectory.

    >>> import jaxns as ns
    >>> slope = ns.models.mass_on_slope()
    >>> traj = ns.simulate(slope.system, ns.Rattle(), slope.q0, slope.u0, dt=0.01, t1=0.1)
    >>> ns.contact_forces(slope.system, traj).lambda_F.shape
    (11, 1, 1)
    """

    lambda_g: Array  # (N+1, n_g)
    lambda_gamma: Array  # (N+1, n_γ)
    lambda_N: Array  # (N+1, n_N)
    lambda_F: Array  # (N+1, n_N, d)
    u_dot: Array  # (N+1, nu)
    status: Array  # (N+1,) `jaxns.Status` of the inclusion of each row


def contact_forces(system: System, traj: Trajectory, *, near: float | None = None) -> ContactForces:
    """The forces that act in each row of a trajectory, from its state and the laws on acceleration level.

        M u̇ = h + W λ,   g̈ = 0,  γ̇ = 0
        closed:    g̈_N ∈ N_{R−}(−λ_N)
        sticking:  γ̇_F ∈ N_{C_F(λ_N)}(−λ_F),   sliding: λ_F of sliding with γ_F

    Percussions of a step over Δt are mean forces, of first order as values at its end; these are as accurate as the state,
    of second order with `Rattle` in persistent contact. (Breuling, Capobianco, Eugster, Leine 2024, §5.3.) They do not
    know of impacts, whose percussions remain in the trajectory. Forces of redundant contacts are one split of many.

    A row says which contacts are closed only if gaps and their rates vanish in it: as with `Rattle`, `GGLUnified`,
    `GeneralizedAlpha`, `Lobatto`, and `EventDriven`. Schemes that drift, such as `Moreau`, need a larger `near`.

    - near: gaps (m) and velocities (m/s) up to which a contact counts as closed, and as sticking; by default the root of
      the dtype's precision, 1.5e-8 in float64

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball(e_N=0.0)
    >>> q0, u0 = jnp.array([0.0, 0.1, 0.0]), jnp.array([1.0, 0.0, 0.0])
    >>> traj = ns.simulate(ball.system, ns.Rattle(), q0, u0, dt=0.01, t1=0.1)
    >>> forces = ns.contact_forces(ball.system, traj)
    >>> round(float(forces.lambda_N[-1, 0]), 6), round(float(forces.lambda_F[-1, 0, 0]), 6)  # m g, and −μ m g
    (9.81, -1.962)
    """
    limit = float(jnp.finfo(traj.u.dtype).eps) ** 0.5 if near is None else near
    return _forces(system, traj.t, traj.q, traj.u, limit)


@jax.jit
def _forces(system: System, t: Array, q: Array, u: Array, near: float) -> ContactForces:
    tol = jnp.asarray(tolerance(None, u.dtype), u.dtype)

    def one(t: Array, q: Array, u: Array) -> ContactForces:
        rows = system.rows(t, q, u)
        laws = law_table(rows)
        instant = instant_of(system, t, q, u, jnp.ones_like(t), jnp.asarray(near, u.dtype), tol)
        (u_dot, force), stats = implicit.solve(decision(rows), instant)
        bilateral, normal, friction = laws.split(force)
        matrix = laws.contact_matrix(friction)
        return ContactForces(bilateral[: rows.n_g], bilateral[rows.n_g :], normal, matrix, u_dot, stats.status)

    return jax.vmap(one)(t, q, u)
