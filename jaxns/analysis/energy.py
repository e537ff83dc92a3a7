"""Energies along a trajectory."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax import Array

from ..model.system import System
from ..simulate import Trajectory


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
