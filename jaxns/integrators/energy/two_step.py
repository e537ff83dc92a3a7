"""The energy-consistent integrator in two steps: an impact, then an impact-free step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jax import Array

from ...model.system import System
from .form import Form
from .steps import TwoStep, decomposed

Sticking = Literal["consistent", "moreau"]


@dataclass(frozen=True)
class EnergyTwoStep(TwoStep):
    """Energy-consistent integrator with impacts, in two steps.

    At the beginning of a step, an impact at fixed q^B (Möller 2011, eq. 5.106):

        M (u^C − u^B) = W_g Λ_g + W_γ Λ_γ + W_N Λ_N + W_F Λ_F
        ġ^C = 0,  γ^C = 0
        g_N(q^B) ≤ 0:  ġ_N^C + e_N ġ_N^B ∈ N_{R−}(−Λ_N),   γ_F^C + e_F γ_F^B ∈ N_{C_F(Λ_N)}(−Λ_F)

    then the impact-free step (5.107) from (q^B, u^C): that of `EnergyConstantMass`, of `EnergyCoordinateMass` for M(q), or
    of `EnergyDecomposedMass` for systems with kinematics. The energy never rises where the impact law dissipates, for any
    step size; with e_N = 1 and no friction it is constant.

    - sticking: friction in the impact-free step by Wᵀ(q^E − q^B) ("consistent"), which lets the velocity of a sticking
      contact oscillate, or by the velocity γ_F(u^E) as in Moreau's rule ("moreau"), which gives up consistency there
    - midpoint: as in `EnergyDecomposedMass`
    - restitution: "newton"; "reduce", which weakens e_N and e_F for impacts that have no solution, counted in
      `traj.reduced`; or "poisson", a law that always has a solution and never raises the energy (docs/laws.md)
    - normals, damping, tol, solver: as in `EnergyConstantMass`

    >>> import jaxns as ns
    >>> p = ns.models.impact_oscillator()
    >>> traj = ns.simulate(p.system, ns.EnergyTwoStep(), p.q0, p.u0, dt=1e-3, num_steps=60)
    >>> E = ns.energy(p.system, traj).total
    >>> bool((E[1:] - E[:-1]).max() < 1e-9)
    True
    """

    sticking: Sticking = "consistent"
    midpoint: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("sticking", Sticking)

    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        if system.kinematics is None:
            form = Form(False, not system.constant_mass(t, q), True, self.normals == "discrete")
        else:
            form = decomposed(self, system, t, q, u)
        return form._replace(velocity_friction=self.sticking == "moreau")
