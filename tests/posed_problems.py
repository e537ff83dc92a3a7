"""The contact problems that steps of an integrator pose, read from their equations, without any solver: for verdicts.

What is asked here is exact where a problem is linear in its unknowns, and the answer is None where it is not.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from contact_modes import planar_solution
from jax import lax

from jaxns import Moreau
from jaxns.integrators.levels.impact_laws import solve_impact
from jaxns.integrators.levels.statement import Statement
from jaxns.integrators.levels.two_solves import TwoSolves
from jaxns.solve import implicit
from jaxns.solve.status import Status


class Posed(NamedTuple):
    """One solve of a step: its equations (S, y) at (z, P) = (z, 0), their derivative, and how far they are from linear."""

    status: jax.Array
    value: jax.Array
    matrix: jax.Array
    bend: jax.Array
    mu: jax.Array
    closed: jax.Array


class LastSteps(NamedTuple):
    """The step of each run that failed, or that comes next."""

    failed: np.ndarray  # (lanes,) bool
    laws: list  # of each solve of the step
    solves: list  # of `Posed`, with lanes

    def of_lane(self, lane):
        return [
            (law, jax.tree.map(lambda x: x[lane], posed)) for law, posed in zip(self.laws, self.solves, strict=True)
        ]

    def infeasible(self):
        """(lane, `has_solution`) for each run whose first failing solve ended INFEASIBLE, asked of that solve."""
        result = []
        for lane in np.flatnonzero(self.failed):
            law, first = next(s for s in self.of_lane(lane) if s[1].status != Status.OK)
            if first.status == Status.INFEASIBLE:
                result.append((int(lane), has_solution(law, first)))
        return result

    def solved(self):
        """`has_solution` for each solve of the other runs that converged, and in which bodies approach."""
        result = []
        for lane in np.flatnonzero(~self.failed):
            for law, solve in self.of_lane(lane):
                normals = solve.value[-law.size :][law.n_bilateral : law.n_bilateral + law.n_N]
                if solve.status == Status.OK and np.any(normals[solve.closed] < -1e-6):
                    result.append(has_solution(law, solve))
        return result


def last_steps(system, integrator, q0, u0, dt, tol=1e-10, axes=None):
    """The `LastSteps` as a function of how many steps are made at most, all of them by one program.

    The axes of the system say which of its leaves have lanes."""
    laws = []

    def last_step(system, q0, u0, steps):
        state, failed = _last_state(system, integrator, q0, u0, dt, steps, tol)
        return failed, _posed(system, integrator, state, dt, tol, laws)

    program = jax.jit(jax.vmap(last_step, in_axes=(axes, 0, 0, None)))

    def after(steps):
        failed, posed = program(system, q0, u0, steps)
        return LastSteps(np.asarray(failed), laws, jax.tree.map(np.asarray, posed))

    return after


def _last_state(system, integrator, q0, u0, dt, steps, tol):
    """(t, q, u, memory) before the first step that fails, and whether one does."""

    def body(carry):
        n, t, q, u, memory, _ = carry
        step = integrator.step(system, t, q, u, jnp.asarray(dt), memory, jnp.asarray(tol))
        good = jnp.all(jnp.stack([solve.status == Status.OK for solve in step.solves]))
        new = (t + dt, step.q, step.u, step.memory)
        return (n + 1, *jax.tree.map(lambda a, b: jnp.where(good, a, b), new, (t, q, u, memory)), ~good)

    t = jnp.asarray(0.0)
    memory = integrator.start(system, t, q0, u0, jnp.asarray(dt))
    start = (jnp.asarray(0), t, q0, u0, memory, jnp.asarray(False))
    _, *state, failed = lax.while_loop(lambda carry: (carry[0] < steps) & ~carry[-1], body, start)
    return state, failed


def _posed(system, integrator, state, dt, tol, laws):
    """The solves of the next step; their laws are appended to `laws`."""
    found = []
    original = implicit.solve

    def recorded(problem, theta):
        outputs, stats = original(problem, theta)
        found.append((problem, theta, stats.status))
        return outputs, stats

    t, q, u, memory = state
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(implicit, "solve", recorded))
        # Where it is a default:
        for function in {type(integrator).step, Moreau.step, TwoSolves.step, Statement.solved, solve_impact}:
            defaults = tuple(recorded if value is original else value for value in function.__defaults__ or ())
            patches.enter_context(mock.patch.object(function, "__defaults__", defaults))
        integrator.step(system, t, q, u, jnp.asarray(dt), memory, jnp.asarray(tol))
    laws.extend(problem.laws for problem, *_ in found)
    return [_equations(*each) for each in found]


def _equations(problem, theta, status):
    data = problem.prepare(theta)
    z, P = problem.guess(data)

    def equations(x):
        return jnp.concatenate(problem.equations(x[: z.shape[0]], x[z.shape[0] :], data))

    x = jnp.concatenate([z, 0.0 * P])
    value, matrix = equations(x), jax.jacfwd(equations)(x)
    step = 0.1 * jnp.arange(1.0, x.shape[0] + 1.0) / x.shape[0]
    bend = jnp.max(jnp.abs(equations(x + step) - value - matrix @ step), initial=0.0)
    return Posed(status, value, matrix, bend, data.scaling.mu, data.scaling.closed)


def has_solution(laws, posed):
    """Whether some combination of contact modes solves a problem; None where it is not linear, spatial, or too large."""
    K, value = posed.matrix, posed.value
    if posed.bend > 1e-9 * np.abs(K).max():
        return None
    b = len(value) - laws.size + laws.n_bilateral
    reduced = np.linalg.solve(K[:b, :b], np.column_stack([K[:b, b:], value[:b]]))
    G, c = K[b:, b:] - K[b:, :b] @ reduced[:, :-1], value[b:] - K[b:, :b] @ reduced[:, -1]
    friction = {}  # the friction row of each contact that has one
    for contacts, rows, d, _ in laws.blocks():
        if d > 1:
            return None
        friction |= {k: rows.start + k - contacts.start for k in range(contacts.start, contacts.stop) if d}
    acting = [int(k) for k in np.flatnonzero(posed.closed)]
    frictional = [k in friction for k in acting]
    if 2 * sum(frictional) + len(acting) - sum(frictional) > 12:
        return None
    # A contact without friction gets a row of its own that nothing moves.
    place = acting + [laws.n_N + friction[k] if k in friction else -1 for k in acting]
    rows = [i for i, row in enumerate(place) if row >= 0]
    A, constant = np.eye(len(place)), np.zeros(len(place))
    A[np.ix_(rows, rows)] = G[np.ix_([place[i] for i in rows], [place[i] for i in rows])]
    constant[rows] = c[[place[i] for i in rows]]
    mu = np.array([posed.mu[friction[k]] if k in friction else 0.0 for k in acting])
    return planar_solution(A, constant, mu, frictional) is not None
