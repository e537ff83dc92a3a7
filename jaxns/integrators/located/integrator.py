"""Fixed steps with impacts located inside them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name

from ...model.system import System
from ...solve.implicit import ROOT, zero_tangent
from ...solve.lanes import anywhere
from ..base import Integrator, Step, law_table
from ..event_driven.events import EventKind
from ..event_driven.state import Instants, Log
from ..rattle import Rattle
from .loop import DividedStep, Outcome
from .parts import Parts, Theta
from .replay import replayed


class Memory(NamedTuple):
    """What a step knows of those before."""

    scheme: Any  # the memory of the scheme
    closed: Array  # (n_N,) bool: contacts that the last step kept closed
    log: Log


_RATTLE = Rattle()


@dataclass(frozen=True)
class Located:
    """A fixed-step integrator whose impacts are located inside the step: with derivatives that are those of the motion.

    Let x(τ; A) be the end of a step of the scheme over τ from (t_n, q_n, u_n) in which the contacts A alone act, and A the
    contacts that are closed at its beginning and do not approach. If no other gap is negative at the end of x(Δt; A), this
    is the step. Otherwise the first of them closes after τ, where an impact divides the step:

        (q⁺, u⁻, P) = x(τ; A)  with  g_N(t_n + τ, q⁺) = 0,  all other gaps ≥ 0
        M (u⁺ − u⁻) = W P'
        g_N = 0:  ξ_N = ġ_N⁺ + e_N ġ_N⁻ ∈ N_{R−}(−P'_N),  ξ_F = γ_F⁺ + e_F γ_F⁻ ∈ N_{C_F(P'_N)}(−P'_F)

    and what is left of it, Δt − τ, goes on in the same way from (t_n + τ, q⁺, u⁺). The instant is an implicit function of
    parameters and state. So values and first derivatives converge with the order of the scheme: one for `Moreau`, two for
    `Rattle`, `GGLUnified` and the two-step schemes. Contacts that close within the tolerance of an instant take part in its
    impact. What is left of a step after `impacts` impacts is up to the scheme, which captures the others at its end
    (`traj.captured` counts them): that is how sequences of ever shorter flights end. Reversals of sliding are not located.

    Main arguments:

    - integrator: `Rattle`, `Moreau`, `Lobatto`, `GGLUnified`, `EnergyTwoStep` or `EnergyQuaternionTwoStep`
    - impacts: how many are located in a step; a larger number costs memory, and time only where it is used

    Other arguments:

    - max_events: how many impacts `traj.events` can hold: instants, contacts, velocities before and after

    >>> import jax, jax.numpy as jnp
    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball(e_N=0.7)
    >>> def height(y0, integrator):
    ...     q0 = jnp.array([0.0, 1.0, 0.0]) * y0
    ...     return ns.simulate(ball.system, integrator, q0, ball.u0, dt=0.01, num_steps=50).q[-1, 1]
    >>> [round(float(jax.jacfwd(height)(0.6, i)), 3) + 0.0 for i in (ns.Rattle(), ns.Located(ns.Rattle()))]  # true: 0.262
    [0.0, 0.262]
    """

    integrator: Integrator = _RATTLE
    impacts: int = 4
    max_events: int = 64
    follows_speeds: ClassVar[bool] = True  # in each of its parts
    remembers_motion: ClassVar[bool] = True  # instants of impacts

    def __post_init__(self) -> None:
        name = type(self.integrator).__name__
        if "solve" not in inspect.signature(self.integrator.step).parameters:
            raise TypeError(
                f"Located: steps of {name} cannot be divided at impacts; take Rattle, Moreau, Lobatto, GGLUnified, "
                "EnergyTwoStep or EnergyQuaternionTwoStep."
            )
        restitution = getattr(self.integrator, "restitution", "newton")
        if restitution != "newton":
            raise ValueError(f'Located: {name} must have restitution="newton", got {restitution!r}.')
        for field in ("impacts", "max_events"):
            value = getattr(self, field)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"Located: {field} must be a whole number of at least 1, got {value!r}.")

    @property
    def tol(self) -> float | None:
        return self.integrator.tol

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Memory:
        laws = law_table(system.rows(t, q, u))
        scheme = self.integrator.start(system, t, q, u, dt)
        return Memory(scheme, jnp.zeros((laws.n_N,), bool), Log.empty(self.max_events, laws, q.dtype))

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Memory, tol: Array) -> Step:
        rows = system.rows(t, q, u)
        if not rows.n_N:
            step = self.integrator.step(system, t, q, u, dt, memory.scheme, tol)
            return step._replace(memory=memory._replace(scheme=step.memory), captured=jnp.asarray(0))
        divided = DividedStep(Parts(self.integrator, rows), self.impacts)
        outcome = _advance(divided, Theta(system, t, dt, q, u, memory.scheme, memory.closed, tol))
        end = outcome.end
        new = Memory(outcome.memory, outcome.closed, _logged(memory.log, divided.parts, outcome))
        return Step(end.q, end.u, end.P, new, outcome.stats, captured=outcome.captured)


def _logged(log: Log, parts: Parts, outcome: Outcome) -> Log:
    """With the impacts of a step."""
    end, struck = outcome.end, outcome.struck
    impacts, n_N = struck.shape

    def add() -> Log:
        kind = jnp.where(struck, int(EventKind.IMPACT), int(EventKind.NONE)).reshape(-1)
        before, after = (jax.vmap(parts.by_contact)(v).reshape(impacts * n_N, -1) for v in (end.before, end.after))
        instants = Instants(jnp.repeat(end.t_hits, n_N), before, after)
        return log.add(kind, instants, jnp.asarray(0), jnp.tile(jnp.arange(n_N), impacts))

    return lax.cond(anywhere(jnp.any(struck)), add, lambda: log)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _advance(divided: DividedStep, theta: Theta) -> Outcome:
    """The motion from t to t + Δt."""
    return divided.run(theta, record=False)[0]


@_advance.defjvp
def _advance_jvp(divided: DividedStep, primals: tuple[Theta], tangents: tuple[Theta]) -> tuple[Any, Any]:
    (theta,), (theta_dot,) = primals, tangents
    outcome, parts = divided.run(lax.stop_gradient(theta), record=True)
    # A reverse pass keeps the parts and never repeats the loop.
    outcome, parts = jax.tree.map(lambda x: checkpoint_name(x, ROOT), (outcome, parts))
    end, end_dot = jax.jvp(lambda theta: replayed(divided, theta, parts, outcome.end), (theta,), (theta_dot,))
    return outcome._replace(end=end), jax.tree.map(zero_tangent, outcome)._replace(end=end_dot)
