"""Runge–Kutta methods for the smooth motion between two events: HEM5 (index 2) and RKF45 (index 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ...trace.distinct import distinct
from ...trace.vectorise import materialise
from ..levels.acceleration_level import Motion, project

# Brasey and Hairer's HEM5: rows 1..8 are the stages, row 9 the weights.
HEM5_A = np.array([
    [0, 0, 0, 0, 0, 0, 0, 0],
    [0.1, 0, 0, 0, 0, 0, 0, 0],
    [0.0375, 0.1125, 0, 0, 0, 0, 0, 0],
    [0.322216923621600219, -1.18888332298759178, 1.22814513402335401, 0, 0, 0, 0, 0],
    [-0.0350112389812991996, 0.372542060108615551, -0.272105353558203104, 0.0199303757857508724, 0, 0, 0, 0],
    [-0.557654705504183439, 1.36730728964586340, -1.73223636046068829, 0.458777200746754587, 0.963806575572253740, 0, 0, 0],
    [0.0865451719356421901, -0.0881008284794524876, 0.198127554732906630, -0.464542267933107869, 0.161517009110999806,
     0.906453360633011729, 0, 0],
    [0, 0, 0, 3.62447724875387162, -0.461772418918298838, -3.19802462816432470, 1.03531979832875192, 0],
    [0, 0, 0, 0.246776066763679035, 0.210659408748972456, 0.176921814912501810, 0.306444644414793414,
     0.0591980651600532854],
])  # fmt: skip
HEM5_C = np.array([0, 0.1, 0.15, 0.361478734657362447, 0.0853558433548641199, 0.5, 0.8, 1, 1])

# Fehlberg's pair: rows 1..6 are the stages; weights of order 4 and 5.
RKF45_A = np.array([
    [0, 0, 0, 0, 0, 0],
    [1 / 4, 0, 0, 0, 0, 0],
    [3 / 32, 9 / 32, 0, 0, 0, 0],
    [1932 / 2197, -7200 / 2197, 7296 / 2197, 0, 0, 0],
    [439 / 216, -8, 3680 / 513, -845 / 4104, 0, 0],
    [-8 / 27, 2, -3544 / 2565, 1859 / 4104, -11 / 40, 0],
])
RKF45_C = np.array([0, 1 / 4, 3 / 8, 12 / 13, 1, 1 / 2])
RKF45_B4 = np.array([25 / 216, 0, 1408 / 2565, 2197 / 4104, -1 / 5, 0])
RKF45_B5 = np.array([16 / 135, 0, 6656 / 12825, 28561 / 56430, -9 / 50, 2 / 55])


class Tolerance(NamedTuple):
    """The size of an error that is allowed: atol + rtol |value|."""

    rtol: Array
    atol: Array

    def norm(self, error: Array, old: Array, new: Array) -> Array:
        """Root mean square of the error over its allowed size; what rounding alone can do does not count."""
        largest = jnp.maximum(jnp.abs(old), jnp.abs(new))
        rounding = 8.0 * jnp.finfo(error.dtype).eps * largest
        excess = jnp.maximum(jnp.abs(error) - rounding, 0.0) / (self.atol + self.rtol * largest)
        return jnp.sqrt(jnp.mean(excess**2) + 1e-36)


def weighted(weights: Array, stages: Array) -> Array:
    """Σ_j weights_j stages_j, as fused arithmetic."""
    return jnp.sum(weights[:, None] * stages, axis=0)


class Stages(NamedTuple):
    """What a step passes on its way; the first axis is that of the stages."""

    c: Array  # (s,) fraction of the step
    q: Array  # (s, nq)
    u: Array  # (s, nu)
    force: Array  # (s, n) λ


class SmoothStep(NamedTuple):
    """Result of one Runge–Kutta step."""

    q: Array
    u: Array
    P: Array  # (n,) ∫ λ dt by the weights of the method
    error: Array  # () estimate of the local error over the tolerance
    stages: Stages


class Smooth(Protocol):
    """A one-step method for motions in one mode."""

    stages: ClassVar[int]  # evaluations of the forces per step, each with one linear system

    @property
    def error_order(self) -> int: ...  # k, where the error of `SmoothStep` is O(h^k)

    def step_exponent(self, per_second: bool) -> float: ...  # of (allowed error / error) in the next step size

    def step(self, motion: Motion, t: Array, q: Array, u: Array, h: Array, tolerance: Tolerance) -> SmoothStep: ...


@dataclass(frozen=True)
class HEM5:
    """Half-explicit Runge–Kutta method of order 5 with 8 stages for index 2.

    (Brasey and Hairer 1993; event-driven paper, (6)–(9), with its misprints corrected.)

        Q_i = q_n + h Σ_{j<i} a_ij Q̇_j,   V_i = u_n + h Σ_{j<i} a_ij V̇_j,   Q̇_i = q̇(t_i, Q_i, V_i)
        M_i V̇_i = h_i + W_i Λ_i    with Λ_i such that the velocity rows that act vanish at (t_{i+1}, Q_{i+1}, V_{i+1})

    and row 9 of the coefficients gives (q_{n+1}, u_{n+1}). So ġ = 0 holds at every stage to round-off, and gaps drift with
    the error of the step alone. Two errors are at hand, err₁ = ‖q_{n+1} − Q_8‖ = O(h⁴) and
    err₂ = ‖q_{n+1} − q_n − h (5/2 Q̇_7 − 3/2 Q̇_8)‖ = O(h³).

    - sharp: estimate the local error, which is O(h⁶), by err₁ (err₁/err₂)², of the same order. Otherwise by the paper's
      err₁² / (err₁ + 0.01 err₂), of order h⁵ to h⁴, which asks for far smaller steps than the tolerance needs
    - project: put positions and velocities back onto g = 0 and ġ = 0 after each step

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.EventDriven(ns.HEM5()), ball.q0, ball.u0, dt=0.1, t1=0.5)
    >>> bool(traj.ok)
    True
    """

    sharp: bool = True
    project: bool = False
    stages: ClassVar[int] = 8

    @property
    def error_order(self) -> int:
        return 6 if self.sharp else 5

    def step_exponent(self, per_second: bool) -> float:
        """As the paper prints it for (9), p = 5 in (10), although tol h / err is of order h⁻⁴."""
        return 1.0 / (self.error_order - per_second) if self.sharp else 1.0 / 5.0

    def step(self, motion: Motion, t: Array, q: Array, u: Array, h: Array, tolerance: Tolerance) -> SmoothStep:
        system = motion.system
        A, c = jnp.asarray(HEM5_A, q.dtype), jnp.asarray(HEM5_C, q.dtype)
        Q_dot, V_dot = jnp.zeros((8, *q.shape), q.dtype), jnp.zeros((8, *u.shape), q.dtype)
        W = materialise(system.W(t, q, u))

        @distinct
        def stage(carry: tuple[Array, Array, Array], i: Array) -> tuple[tuple[Array, Array, Array], Any]:
            Q_dot, V_dot, W = carry
            t_i, Q, V = t + c[i] * h, q + h * weighted(A[i], Q_dot), u + h * weighted(A[i], V_dot)
            Q_dot = Q_dot.at[i].set(system.q_dot(t_i, Q, V))
            # The next stage without the acceleration of this one, which enters it with h a_{i+1,i}.
            t_next, Q_next, V_next = (
                t + c[i + 1] * h,
                q + h * weighted(A[i + 1], Q_dot),
                u + h * weighted(A[i + 1], V_dot),
            )
            W_next = materialise(system.W(t_next, Q_next, V_next))
            bias = system.velocities(t_next, Q_next, V_next) / (h * A[i + 1, i])
            forces = motion.solve(t_i, Q, V, W, W_next, bias)
            return (Q_dot, V_dot.at[i].set(forces.u_dot), W_next), (Q, V, forces.force)

        (Q_dot, V_dot, _), (Q, V, force) = lax.scan(stage, (Q_dot, V_dot, W), jnp.arange(8))
        q_end, u_end = q + h * weighted(A[8], Q_dot), u + h * weighted(A[8], V_dot)
        err_1 = tolerance.norm(q_end - Q[7], q, q_end)
        err_2 = tolerance.norm(q_end - q - h * (2.5 * Q_dot[6] - 1.5 * Q_dot[7]), q, q_end)
        sharp, paper = err_1 * (err_1 / jnp.maximum(err_1, err_2)) ** 2, err_1**2 / (err_1 + 0.01 * err_2)
        error = sharp if self.sharp else paper
        if self.project:
            q_end, u_end = project(motion, t + h, q_end, u_end)
        return SmoothStep(q_end, u_end, h * weighted(A[8], force), error, Stages(c[:8], Q, V, force))


@dataclass(frozen=True)
class RKF45:
    """Runge–Kutta–Fehlberg 4(5) for index 1: constraints on acceleration level.

        q̇ = q̇(t, q, u),   M u̇ = h + W λ    with λ such that the acceleration rows that act vanish, Wᵀu̇ + ν = 0

    in each of six stages; the error is the difference of the solutions of order 4 and 5. Velocities and gaps drift.

    - extrapolate: go on with the solution of order 5 instead of that of order 4
    - project: put positions and velocities back onto g = 0 and ġ = 0 after each step

    >>> import jaxns as ns
    >>> integrator = ns.EventDriven(ns.RKF45(extrapolate=True), rtol=1e-8)
    >>> integrator.smooth.stages, integrator.smooth.error_order
    (6, 5)
    """

    extrapolate: bool = False
    project: bool = True
    stages: ClassVar[int] = 6

    @property
    def error_order(self) -> int:
        return 5

    def step_exponent(self, per_second: bool) -> float:
        return 1.0 / (self.error_order - per_second)

    def step(self, motion: Motion, t: Array, q: Array, u: Array, h: Array, tolerance: Tolerance) -> SmoothStep:
        A, c = jnp.asarray(RKF45_A, q.dtype), jnp.asarray(RKF45_C, q.dtype)
        Q_dot, V_dot = jnp.zeros((6, *q.shape), q.dtype), jnp.zeros((6, *u.shape), q.dtype)

        @distinct
        def stage(carry: tuple[Array, Array], i: Array) -> tuple[tuple[Array, Array], Any]:
            Q_dot, V_dot = carry
            t_i, Q, V = t + c[i] * h, q + h * weighted(A[i], Q_dot), u + h * weighted(A[i], V_dot)
            forces = motion.accelerations(t_i, Q, V)
            Q_dot = Q_dot.at[i].set(motion.system.q_dot(t_i, Q, V))
            return (Q_dot, V_dot.at[i].set(forces.u_dot)), (Q, V, forces.force)

        (Q_dot, V_dot), (Q, V, force) = lax.scan(stage, (Q_dot, V_dot), jnp.arange(6))
        order_4, order_5 = jnp.asarray(RKF45_B4, q.dtype), jnp.asarray(RKF45_B5, q.dtype)
        b = order_5 if self.extrapolate else order_4
        q_end, u_end = q + h * weighted(b, Q_dot), u + h * weighted(b, V_dot)
        difference = h * (order_5 - order_4)
        err_q = tolerance.norm(weighted(difference, Q_dot), q, q_end)
        err_u = tolerance.norm(weighted(difference, V_dot), u, u_end)
        if self.project:
            q_end, u_end = project(motion, t + h, q_end, u_end)
        stages = Stages(c, Q, V, force)
        return SmoothStep(q_end, u_end, h * weighted(b, force), jnp.maximum(err_q, err_u), stages)
