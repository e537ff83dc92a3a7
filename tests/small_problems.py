"""A small system that has what the benchmark mechanisms have, and compiles in seconds."""

from __future__ import annotations

import jax.numpy as jnp

import jaxns as ns


def rolling_pendulum(m: float = 1.0, mu: float = 0.3, e: float = 0.02) -> ns.Problem:
    """Contact, friction, a bilateral constraint, and kinematics with nq ≠ nu.

    A disk of radius 0.1 m rolls on a floor; its centre of mass lies off its middle by e. A mass of 0.2 kg hangs on it by a
    rod. q = (x, y, cos φ, sin φ, a, b), u = (ẋ, ẏ, φ̇, ȧ, ḃ).
    """
    floor = ns.Contacts(
        lambda t, q, p: jnp.stack([q[1] - p["e"] * q[3] - 0.1]),
        lambda t, q, u, p: jnp.stack([u[0] + u[2] * (0.1 + p["e"] * q[3])])[None],
        mu=lambda p: p["mu"],
    )
    system = ns.System(
        dict(m=m, mu=mu, e=e),
        mass=lambda t, q, p: jnp.diag(jnp.stack([p["m"], p["m"], jnp.full((), 0.005), *jnp.full((2,), 0.2)])),
        potential=lambda t, q, p: 9.81 * (p["m"] * q[1] + 0.2 * q[5]),
        kinematics=lambda t, q, u, p: jnp.stack([u[0], u[1], -q[3] * u[2], q[2] * u[2], u[3], u[4]]),
        constraint=lambda t, q, p: jnp.stack([(q[4] - q[0]) ** 2 + (q[5] - q[1]) ** 2 - 0.25]),
        contacts=floor,
    )
    q0, u0 = jnp.array([0.0, 0.1, 1.0, 0.0, 0.3, -0.3]), jnp.array([1.0, 0.0, 0.0, 1.0, 0.0])
    return ns.Problem(system, q0, u0, t1=1.0, dt=1e-2)


# A ball on a line ---------------------------------------------------------------------------------------------------


def _unit_mass(t, q, p):
    return jnp.eye(1)


def _weight(t, q, p):
    return p["gravity"] * q[0]


def _height(t, q, p):
    return q


def _e_N(p):
    return p["e_N"]


def falling_ball(e_N=0.7, gravity=9.81):
    """A unit mass above the ground, q its height: the smallest system with impacts, whose motion has a closed form."""
    contacts = ns.Contacts(_height, e_N=_e_N)
    return ns.System({"e_N": e_N, "gravity": gravity}, _unit_mass, potential=_weight, contacts=contacts)
