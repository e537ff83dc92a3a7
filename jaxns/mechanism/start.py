"""The initial state of a mechanism: as its parts are given, or the nearest one in which joints meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model.consistent import consistent
from ..model.system import System
from .errors import MechanismError
from .frames import Frames
from .parts import Assembly

PENETRATION = 1e-7  # m: initial gaps below minus that are an error
State = tuple[Array, Array]


def given_state(frames: Frames, assembly: Assembly) -> State:
    """(q, u) of the bodies as they are given."""
    d = frames.dimension
    bodies = [assembly.bodies[name] for name in frames.moving]
    q = np.concatenate([np.concatenate([x, np.atleast_1d(turn)]) for x, turn in (body.pose(d) for body in bodies)])
    u = np.concatenate([body.motion(d) for body in bodies])
    pads = np.zeros(frames.pads)
    return jnp.asarray(np.append(q, pads)), jnp.asarray(np.append(u, pads))


class Start:
    """A state at the beginning, and what of it is not as it should be."""

    def __init__(self, system: System, state: State):
        self.system, self.state = system, state
        self.g, rates, self.g_N = (np.asarray(x) for x in _levels(system, *state))
        limit = 1e-2 * float(jnp.finfo(state[0].dtype).eps) ** 0.5
        self.limits = limit, limit * max(1.0, float(np.abs(state[1]).max(initial=0.0)))
        self.meets = bool(
            np.abs(self.g).max(initial=0.0) <= self.limits[0] and np.abs(rates).max(initial=0.0) <= self.limits[1]
        )

    def is_image(self, image: State, given: State) -> bool:
        """Whether the image of this state in other coordinates is what was given there, quaternions up to their signs."""
        apart = float(jnp.abs(jnp.abs(image[0]) - jnp.abs(given[0])).max(initial=0.0))
        return apart <= self.limits[0] and float(jnp.abs(image[1] - given[1]).max(initial=0.0)) <= self.limits[1]

    def check_gaps(self, contacts: Sequence[str]) -> None:
        if self.g_N.size and self.g_N.min() < -PENETRATION:
            k = int(self.g_N.argmin())
            raise MechanismError(
                f"Touch {contacts[k]!r}: the bodies overlap at the beginning by {-self.g_N[k]:.3e} m (contact {k})."
            )

    def assembled(self, constraints: Sequence[str]) -> State:
        """The state, or the nearest one in which joints meet."""
        if self.meets:
            return self.state
        try:
            return consistent(self.system, *self.state)
        except ValueError:
            worst = int(np.abs(self.g).argmax()) if self.g.size else 0
            what = (
                f"joint {constraints[worst]!r} is {abs(self.g[worst]):.3e} off"
                if self.g.size
                else "velocities contradict"
            )
            raise MechanismError(
                f"Mechanism: it cannot be assembled: no positions near those given satisfy all joints; {what} at the "
                "beginning."
            ) from None


def of_bodies(system: System, given: State, contacts: Sequence[str], constraints: Sequence[str]) -> State:
    """The initial state in the coordinates of bodies."""
    start = Start(system, given)
    start.check_gaps(contacts)
    return start.assembled(constraints)


def of_joints(
    system: System,
    given: State,
    contacts: Sequence[str],
    to_joints: Callable[[Array, Array], State],
    to_bodies: Callable[[Array, Array], State],
    bodies: Callable[[], State],
) -> State:
    """The initial state in the coordinates of joints: that of the `bodies` where something has to be moved."""
    start = Start(system, to_joints(*given))
    if not start.meets or not start.is_image(to_bodies(*start.state), given):
        return to_joints(*bodies())
    start.check_gaps(contacts)
    return start.state


@jax.jit
def _levels(system: System, q: Array, u: Array) -> tuple[Array, Array, Array]:
    """g, (ġ, γ) and g_N at the beginning."""
    t = jnp.zeros((), q.dtype)
    return system.g(t, q), rates(system, q, u), system.g_N(t, q)


def rates(system: System, q: Array, u: Array) -> Array:
    """(ġ, γ) at the beginning."""
    t = jnp.zeros((), q.dtype)
    return jnp.concatenate([system.g_dot(t, q, u), system.gamma(t, q, u)])
