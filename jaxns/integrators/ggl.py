"""Gear, Gupta and Leimkuhler unified: impact law and non-penetration in one implicit step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from jax import Array, lax

from ..model.system import System
from ..solve import implicit
from ..solve.inclusion import Solver
from .base import Solve, Step, Theta, check_solver
from .ggl_contacts import active, predicted
from .ggl_coupled import Coupled, Level
from .levels.layout import ALL, Layout
from .moreau import Moreau


@dataclass(frozen=True)
class GGLUnified:
    """Gear–Gupta–Leimkuhler midpoint rule: impact law and non-penetration in one implicit step.

    With q_½ = (q_n + q⁺)/2, u_½ = (u_n + u⁺)/2, the predicted midpoint q_M of `Moreau`, and multipliers Ψ:

        q⁺ = q_n + Δt q̇(t_½, q_½, u_½) + B M⁻¹ W(t_½, q_½) Ψ
        M(t_½, q_M) (u⁺ − u_n) = Δt h(t_½, q_½, u_½) + W(t_½, q_½) P
        g(t_{n+1}, q⁺) = 0,  ġ⁺ = 0,  γ⁺ = 0
        g_N(t_{n+1}, q⁺) ∈ N_{R−}(−κ_N),   κ_N = Ψ_N + Δt/2 P_N
        active:  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   otherwise P_N = 0
        ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)

    with the velocities ⁺ at (t_{n+1}, q⁺, u⁺). (Schoeder, Ulbrich, Schindler 2014, eqs. 36–44, with exact gaps instead of
    the linearised (41)–(42), and with friction.) Second order while contacts persist, first order across impacts, no
    drift.

    Three things differ from the paper. It holds a contact active when g_N(q_M) < 0; here it also is when a step without
    contact forces would end inside, for otherwise a contact that stays closed on a curved path would let go every other
    step. Ψ acts on all contacts, or one that closes in the second half of a step would penetrate. And not Ψ ≥ 0 but all
    that moves the positions of a contact, κ ≥ 0, is complementary to its gap, so that Ψ can undo what P does: with Ψ ≥ 0
    a contact whose P stops an approach would never close the gap that was left then, and P would act across it. M⁻¹
    makes the two of one kind.

    - velocity_only: drop Ψ, which leaves an implicit Moreau rule that drifts
    - linearised: (39)–(42) of the paper to the letter, to compare: gaps and rates linearised about (t_½, q_½), contacts
      active where g_N(q_M) < 0 alone, Ψ ≥ 0 for these alone, and q⁺ moved by B W Ψ, without M⁻¹. A contact that rests lets
      go in some steps and is caught in the next one, so its rate is slightly negative
    - bilateral: level of the constraints g: "ggl" for both, or "index3" for g = 0, "index2" for ġ = 0, "index1" for
      g̈ = 0 alone, all at the end of the step, to compare their drift
    - tol: tolerance on gaps and constraints in metres, and on velocities relative to their size above 1 m/s;
      by default from the dtype
    - solver: how inclusions are solved: "newton", another method of `jaxns.solve_contacts`, or a `jaxns.Solver`, to compare

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.GGLUnified(), ball.q0, ball.u0, dt=0.01, t1=1.0)
    >>> bool(traj.q[:, 1].min() >= 0.1 - 1e-9)
    True
    """

    velocity_only: bool = False
    linearised: bool = False
    bilateral: Level = "ggl"
    tol: float | None = None
    solver: str | Solver = "newton"

    predicts_contact: ClassVar[bool] = True  # from the midpoint and the end of a step without contact forces

    def __post_init__(self) -> None:
        check_solver(self)
        if self.bilateral not in get_args(Level):
            raise ValueError(f"GGLUnified: bilateral must be one of {get_args(Level)}, got {self.bilateral!r}.")

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Array:
        return Moreau().start(system, t, q, u, dt)

    def step(
        self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Array, tol: Array,
        solve: Solve = implicit.solve,
    ) -> Step:  # fmt: skip
        rows = system.rows(t, q, u)
        bilateral: Level = "index2" if self.velocity_only and self.bilateral == "ggl" else self.bilateral
        corrected = "g" * (bilateral == "ggl") + "N" * (not self.velocity_only)
        implicit_u = system.velocity_dependent_force(t, q, u)
        n_z = q.shape[0] + implicit_u * u.shape[0]
        coupled = Coupled(Layout(rows, (ALL, corrected)), n_z, None, bilateral, implicit_u, self.linearised)
        theta = Theta(system, t, dt, q, u, memory, tol)
        theta = theta._replace(more=(predicted if self.linearised else active)(theta, rows))
        (q_end, u_end, P), stats = coupled.solved(self.solver, theta, solve)
        return Step(q_end, u_end, P, lax.stop_gradient(P), (stats,))
