"""The averages of generalized-α: its coefficients, and what a step knows of the last one."""

from __future__ import annotations

from typing import NamedTuple

from jax import Array


class Coefficients(NamedTuple):
    alpha_m: float
    alpha_f: float
    gamma: float
    beta: float

    @classmethod
    def of(cls, rho: float) -> Coefficients:
        alpha_m, alpha_f = (2.0 * rho - 1.0) / (rho + 1.0), rho / (rho + 1.0)
        gamma = 0.5 + alpha_f - alpha_m
        return cls(alpha_m, alpha_f, gamma, 0.25 * (gamma + 0.5) ** 2)

    def mean(self, new: Array, old: Array, mean_old: Array) -> Array:
        """The solution x of (1−α_m) x + α_m x_n = (1−α_f) new + α_f old."""
        return ((1.0 - self.alpha_f) * new + self.alpha_f * old - self.alpha_m * mean_old) / (1.0 - self.alpha_m)

    def for_velocity(self, old: Array, new: Array) -> Array:
        return (1.0 - self.gamma) * old + self.gamma * new

    def for_position(self, old: Array, new: Array) -> Array:
        return (0.5 - self.beta) * old + self.beta * new


class Past(NamedTuple):
    """State of the averages at t_n."""

    u_dot: Array  # (nu,)
    a: Array  # (nu,)
    force: Array  # (n,) λ
    force_mean: Array  # (n,) λ̄

    def after(self, c: Coefficients, u_dot: Array, force: Array) -> Past:
        """The same at t_{n+1}."""
        mean, force_mean = c.mean(u_dot, self.u_dot, self.a), c.mean(force, self.force, self.force_mean)
        return Past(u_dot, mean, force, force_mean)


class Memory(NamedTuple):
    past: Past
    kappa: Array  # (n_g + n_N,) κ̂/Δt, a guess
    P: Array  # (n,) a guess
    start_status: Array
