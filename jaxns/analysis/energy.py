"""Energies along a trajectory."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..model.system import System
from ..simulation.simulate import Trajectory


class Energy(NamedTuple):
    """Energies in joules, one entry for each row of the trajectory.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> kinetic, potential, total = ns.energy(ball.system, traj)
    >>> total.shape, float(kinetic[0])
    ((11,), 0.0)
    """

    kinetic: Array  # (N+1,)
    potential: Array  # (N+1,)
    total: Array  # (N+1,)


def energy(system: System, traj: Trajectory) -> Energy:
    """Kinetic, potential and total energy at each row of a trajectory.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> round(float(ns.energy(ball.system, traj).total[-1]), 6)
    9.81
    """
    kinetic = jax.vmap(system.kinetic_energy)(traj.t, traj.q, traj.u)
    potential = jax.vmap(system.potential_energy)(traj.t, traj.q)
    return Energy(kinetic, potential, kinetic + potential)


class ImpactGains(NamedTuple):
    """Energy that impacts gained, one entry for each row after the first.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball(e_N=0.5)
    >>> traj = ns.simulate(ball.system, ns.Moreau(), ball.q0, ball.u0, dt=0.01, t1=0.6)
    >>> impact, gain = ns.impact_gains(ball.system, traj)
    >>> int(impact.sum()), float(gain.max())
    (1, 0.0)
    """

    impact: Array  # (N,) bool: a contact that approached got a percussion in this row
    gain: (
        Array  # (N,) energy at the end of the row less that at its beginning, in joules; zero where nothing was gained
    )

    @property
    def number(self) -> Array:
        """How many rows with an impact gained energy."""
        return jnp.sum(self.gain > 0.0, axis=-1)


def impact_gains(system: System, traj: Trajectory) -> ImpactGains:
    """The rows of a trajectory whose impacts raised the energy.

    A law can do so (e_N > 0 with e_F = 0, or different e_N in coupled contacts), and so does a scheme that captures impacts
    instead of locating them. Neither shows in `traj.status`. A row counts if one of its contacts approached at its
    beginning and carries a percussion, and if its energy rises by more than 10⁻⁶ of the kinetic energy before, beyond the
    work of the system's `force` (by the trapezoidal rule). Drives and walls that move do work too, which counts here as
    gained. Rows of event-driven runs, or with `save_every` > 1, may hold more motion than one impact.

    >>> import jaxns as ns
    >>> wall = ns.models.double_pendulum()
    >>> traj = ns.simulate(wall.system, ns.Rattle(), wall.q0, wall.u0, dt=1e-3, t1=2.0)
    >>> gains = impact_gains(wall.system, traj)
    >>> int(jnp.sum(gains.impact)), int(gains.number)
    (3, 2)
    """
    kinetic, _, total = energy(system, traj)
    before = traj.t[:-1], traj.q[:-1], traj.u[:-1]
    approach = jax.vmap(system.g_N_dot)(*before)
    speed = jnp.maximum(1.0, jnp.max(jnp.abs(approach), initial=0.0))
    impact = jnp.any((approach < -1e-6 * speed) & (traj.P_N[1:] > 0.0), axis=-1)
    gain = jnp.diff(total)
    if (force := system.force) is not None:
        power = jax.vmap(lambda t, q, u: u @ force(t, q, u, system.params))(traj.t, traj.q, traj.u)
        gain = gain - 0.5 * jnp.diff(traj.t) * (power[1:] + power[:-1])
    return ImpactGains(impact, jnp.where(impact & (gain > 1e-6 * kinetic[:-1]), gain, 0.0))
