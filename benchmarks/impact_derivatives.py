"""Derivatives through impacts and friction: event-driven, RATTLE and Moreau beside the closed form.

    python benchmarks/impact_derivatives.py

A ball after 1, 3 and 10 impacts (height with respect to drop height, speed, restitution, gravity), and the stopping
distance of a sliding block. Prints the table of docs/derivatives.md.
"""

from __future__ import annotations

from typing import Any

from measuring import report  # first: it sets up XLA

import jax
import jax.numpy as jnp

import jaxns as ns

NAMES = ("height", "speed", "e_N", "gravity")
THETA = jnp.array([1.0, 0.5, 0.9, 9.81])
ROWS = {1: 3, 3: 9, 10: 23}  # impacts: row of spacing 0.25 s

ball = ns.System(
    {"e_N": 0.9, "gravity": 9.81},
    mass=lambda t, q, p: jnp.eye(1),
    potential=lambda t, q, p: p["gravity"] * q[0],
    contacts=ns.Contacts(lambda t, q, p: q, e_N=lambda p: p["e_N"]),
)
block = ns.System(
    {"mu": 0.3},
    mass=lambda t, q, p: jnp.eye(2),
    potential=lambda t, q, p: 9.81 * q[1],
    contacts=ns.Contacts(lambda t, q, p: q[1:], lambda t, q, u, p: u[None, :1], mu=lambda p: p["mu"]),
)
SCHEMES: dict[str, tuple[Any, float]] = {
    "event-driven": (ns.EventDriven(max_steps=50), 0.25),
    "RATTLE, dt 1e-2": (ns.Rattle(), 1e-2),
    "RATTLE, dt 1e-3": (ns.Rattle(), 1e-3),
    "Moreau, dt 1e-2": (ns.Moreau(), 1e-2),
    "Moreau, dt 1e-3": (ns.Moreau(), 1e-3),
}


def heights(theta: Any, integrator: Any, dt: float) -> Any:
    system = ball.with_params(e_N=theta[2], gravity=theta[3])
    every = round(0.25 / dt)
    traj = ns.simulate(system, integrator, theta[:1], theta[1:2], dt=dt, num_steps=24 * every, save_every=every)
    return traj.q[jnp.array(list(ROWS.values())), 0]


def closed_form(theta: Any) -> Any:
    height, speed, e, g = theta
    v = jnp.sqrt(speed**2 + 2.0 * g * height)
    t, found = (speed + v) / g, []
    for n in range(1, max(ROWS) + 1):
        v = e * v
        if n in ROWS:
            tau = 0.25 * ROWS[n] - t
            found.append(v * tau - 0.5 * g * tau**2)
        t = t + 2.0 * v / g
    return jnp.stack(found)


def distance(mu: Any, integrator: Any, dt: float) -> Any:
    u0 = jnp.array([1.5, 0.0])
    every = round(0.25 / dt)
    # Moreau's scheme closes a contact by the sign of its gap.
    q0 = jnp.array([0.0, -1e-9 if isinstance(integrator, ns.Moreau) else 0.0])
    run = ns.simulate(
        block.with_params(mu=mu), integrator, q0, u0, dt=dt, num_steps=4 * every, save_every=every, check=False
    )
    return run.q[-1, 0]


def main() -> None:
    truth = jax.jacfwd(closed_form)(THETA)
    table = {"true": truth}
    for name, (integrator, dt) in SCHEMES.items():
        table[name] = jax.jacfwd(lambda theta, i=integrator, dt=dt: heights(theta, i, dt))(THETA)
    results = {}
    for k, impacts in enumerate(ROWS):
        print(f"\nd(height after {impacts} impacts) / d(…)   " + "".join(f"{n:>14s}" for n in NAMES))
        for name, J in table.items():
            print(f"    {name:32s}" + "".join(f"{float(x):14.6f}" for x in J[k]))
        worst = jnp.max(jnp.abs(table["event-driven"][k] / truth[k] - 1.0))
        results[f"event-driven, {impacts} impacts: log10 of the relative error"] = float(jnp.log10(worst))
    print(f"\nd(stopping distance) / dμ\n    {'true':32s}{-(1.5**2) / (2 * 0.3**2 * 9.81):14.6f}")
    for name, (integrator, dt) in SCHEMES.items():
        slope = jax.grad(lambda mu, i=integrator, dt=dt: distance(mu, i, dt))(0.3)
        print(f"    {name:32s}{float(slope):14.6f}")
        results[f"stopping distance, {name}"] = float(slope)
    report("impact_derivatives", results)


if __name__ == "__main__":
    main()
