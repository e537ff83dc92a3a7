"""Lobatto IIIA–IIIB methods with frictional contact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jax import Array

from ..model.system import System
from ..solve import dense
from ..solve.inclusion import Solver
from .levels import large
from .levels.impact_laws import Restitution
from .levels.layout import Layout
from .levels.statement import AnyDirections
from .levels.two_solves import Second, TwoSolves
from .lobatto_stages import Stages
from .lobatto_tableau import lobatto
from .lobatto_unknowns import Unknowns


@dataclass(frozen=True)
class Lobatto(TwoSolves):
    """Lobatto IIIA–IIIB with s stages: order 2s − 2 in smooth motion and persistent contact, on both kinematic levels.

    With nodes c, weights b, matrices a (IIIA) and â (IIIB), stage times t^i = t_n + c_i Δt, momentum π = M u, and
    percussions P^j = b_j R^j of the stages:

        Q^i = q_n + Δt Σ_j a_ij q̇(t^j, Q^j, V^j),    q⁺ = Q^s
        F^j = b_j Δt (h + Ṁu)(t^j, Q^j, V^j) + W(t^j, Q^j) P^j
        M(t^i, Q^i) V^i = π_n + Σ_j (â_ij / b_j) F^j,    M(t_{n+1}, q⁺) u⁺ = π_n + Σ_j F^j

    First solve, for V^1..V^s and P^1..P^{s−1} (the last column of â is zero), with i = 2..s:

        g(t^i, Q^i) = 0,  γ(t^i, Q^i, V^i) = 0
        g_N(t^i, Q^i) ∈ N_{R−}(−P_N^{i−1}),  γ_F(t^i, Q^i, V^i) ∈ N_{C_F(P_N^{i−1})}(−P_F^{i−1})

    Second solve, for u⁺ and P = Σ_j P^j, with all rows taken at (t_{n+1}, q⁺):

        ġ⁺ = 0,  γ⁺ = 0
        closed (r g_N − P_N^{s−1} ≤ 0):  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   open: P_N = 0
        ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)

    (Capobianco, Harsch, Leine 2024, eqs. 47–59, whose residual (61) lacks two minus signs; kinematics q̇ ≠ u are ours.)
    With two stages and constant mass this is RATTLE. Across impacts the order is one, as for every scheme that captures
    events. Only what cannot be computed explicitly is unknown: the inner positions Q^2..Q^{s−1} where forces depend on
    positions, V^i where forces depend on velocities or the mass matrix on positions.

    With velocity-level constraints γ, or where friction holds a contact, the order is s − 1: γ = 0 is imposed on the stage
    velocities V^i, which are less accurate than u⁺.

    - stages: s ≥ 2
    - tol: tolerance on gaps and constraints in metres, and on velocities relative to their size above 1 m/s;
      by default from the dtype
    - solver: how inclusions are solved: "newton", another method of `jaxns.solve_contacts`, or a `jaxns.Solver`, to compare
    - restitution: "newton"; "reduce", which weakens e_N and e_F for impacts that have no solution, counted in
      `traj.reduced`; or "poisson", a law that always has a solution and never raises the energy (docs/laws.md)

    >>> import jaxns as ns
    >>> slope = ns.models.mass_on_slope()
    >>> traj = ns.simulate(slope.system, ns.Lobatto(stages=3), slope.q0, slope.u0, dt=0.01, t1=0.1)
    >>> bool(traj.ok)
    True
    """

    stages: int = 3
    tol: float | None = None
    solver: str | Solver = "newton"
    restitution: Restitution = "newton"

    def __post_init__(self) -> None:
        if not isinstance(self.stages, (int, np.integer)) or self.stages < 2:
            raise ValueError(f"Lobatto: stages must be a whole number of at least 2, got {self.stages!r}.")
        super().__post_init__()

    @property
    def share(self) -> float:
        return float(1.0 - lobatto(self.stages).b[-1])

    def first_solve(self, system: System, t: Array, q: Array, u: Array) -> Stages:
        layout = Layout(system.rows(t, q, u), stages=self.stages - 1)
        structure = large.structure(system, layout.laws, None, t, q, u)
        unknowns = Unknowns.of(system, t, q, u, self.stages, large=structure is not None)
        return Stages(layout, unknowns.size, structure, self.stages, unknowns)

    def free_velocity(self, second: Second, d: AnyDirections) -> Array:
        (system, t, dt, q, u, *_), first = second
        force = float(lobatto(self.stages).b[-1]) * dt * system.momentum_rate(t + dt, first.q, first.u)
        start = u if system.constant_mass(t, q) else d.accelerate(dense.matmul(system.M(t, q), u))
        return start + d.accelerate(first.impulse + force) - d.kick(first.P)
