"""A mechanism from parts, which compiles to an ordinary `System`."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model.consistent import consistent
from ..model.system import Problem, System
from . import joint_options, touch
from .constraints import Constraint
from .contacts import Gaps, Slips
from .coordinates import Coordinates
from .drawing import Drawing
from .dynamics import Forces, Kinematics, Mass, Potential
from .errors import MechanismError
from .forces import Damper, Force, Spring, Torque, TorsionSpring, read_drive, read_input
from .frames import take
from .joints import Joint
from .parts import Assembly, Body, frames_of
from .rolling import Rolling, Skate, VelocityConstraint
from .touch import Touch

PENETRATION = 1e-7  # m: initial gaps below minus that are an error


class Mechanism:
    """Bodies, joints, force elements and contacts as one `System`.

    - parts: `Body`, joints, force elements and `Touch`, in any order. Bodies go by name; "ground" is the world
    - gravity: two entries for a planar mechanism, three for a spatial one

    It has

    - `.system`, whose parameters are flat, by dotted names: "box.mass", "box-floor.mu", "spring.stiffness", "gravity"
    - `.q0`, `.u0`: the initial state. If joints do not meet in the positions given, it is the nearest one where they do
    - `.draw`, used by `jaxns.animate(mechanism, traj)`
    - `.problem(dt=…, t1=…)`, a `Problem`; `.pose(name, q)`
    - `.contacts`, `.constraints`: the part that each contact and each constraint row belongs to

    A planar body has q = (x, y, φ) and u = q̇; a spatial one q = (position, unit quaternion) and u = (velocity of the centre
    of mass in the world, angular velocity in the body). They come in the order of the parts; fixed bodies have none.
    Mechanisms of the same structure share compiled programs.

    >>> import jaxns as ns
    >>> mechanism = ns.Mechanism(
    ...     ns.Body("box", shape=ns.shapes.Box(0.2, 0.1), mass=1.0, position=(0.0, 0.2)),
    ...     ns.Body("floor", fixed=True, shape=ns.shapes.HalfSpace()),
    ...     ns.Touch("box", "floor", mu=0.3),
    ... )
    >>> mechanism
    Mechanism in the plane, 3 degrees of freedom
      bodies: box
      fixed: floor
      contacts: 4 of box-floor
    """

    system: System
    q0: Array
    u0: Array

    def __init__(self, *parts: Any, gravity: Any = (0.0, -9.81)):
        self.parts = parts
        weight = np.asarray(gravity, float)
        if weight.shape not in ((2,), (3,)) or not np.all(np.isfinite(weight)):
            raise MechanismError(f"Mechanism: gravity must have two entries (plane) or three (space), got {gravity!r}.")
        assembly = self._assembly(weight)
        self._compile(assembly)
        self._start(assembly)

    def _assembly(self, gravity: np.ndarray) -> Assembly:
        """Bodies and their parameters."""
        d = gravity.shape[0]
        known = (Body, Joint, Rolling, Skate, Spring, Damper, TorsionSpring, Force, Torque, Touch)
        for part in self.parts:
            if not isinstance(part, known):
                raise MechanismError(
                    f"Mechanism: {part!r} is no part; parts are bodies, joints, force elements and Touch."
                )
        bodies = self._all(Body)
        for body in bodies:
            body.check(d)
        self.frames = frames_of(bodies, d, sum(joint.friction is not None for joint in self._all(Joint)))
        if not self.frames.moving:
            raise MechanismError("Mechanism: there is no body that moves.")
        assembly = Assembly(self.frames, {body.name: body for body in bodies}, {"gravity": gravity})
        for body in bodies:
            if body.fixed:
                position, turn = body.pose(d)
                values = {"position": position, "angle" if d == 2 else "orientation": turn}
            else:
                values = dict(zip(("mass", "inertia"), body.inertias(d), strict=True))
            shape = {} if body.shape is None else body.shape.parameters()
            assembly.add(body.owner, body.name, values | shape)
        return assembly

    def _all(self, *kinds: type) -> list[Any]:
        return [part for part in self.parts if isinstance(part, kinds)]

    def _compile(self, assembly: Assembly) -> None:
        """The functions of the system."""
        frames = self.frames
        joints = self._all(Joint)
        rows = [row for joint in joints for row in joint.rows(assembly)]
        moved = [(joint, joint.coordinate_row(assembly)) for joint in joints if joint.uses_coordinate]
        driven = [(joint, row) for joint, row in moved if joint.drive is not None]
        drives = tuple(read_drive(joint, joint.drive, joint.label, assembly) for joint, _ in driven)
        motors = [(joint, row) for joint, row in moved if joint.motor is not None]
        torques = tuple(read_input(joint, "motor", joint.motor, joint.label, assembly) for joint, _ in motors)
        on, along = self._rolling(assembly)
        last = (*(joint.label for joint, _ in driven), *(part.label for part in self._all(Rolling)))
        of_drives = Coordinates.of(frames, [row for _, row in driven]) if driven else None
        constraint = Constraint.of(frames, rows, of_drives, drives, on, last)
        elements = [part.read(assembly) for part in self._all(Spring, Damper, TorsionSpring)]
        springs = [(row, keys) for row, keys in elements if "stiffness" in keys]
        dampers = [(row, keys) for row, keys in elements if "damping" in keys]
        stops, stopped = joint_options.limits(frames, moved, assembly)
        pads, rough, pressed = joint_options.friction(frames, moved, assembly)
        potential = Potential(
            frames,
            Coordinates.of(frames, [row for row, _ in springs]) if springs else None,
            tuple(keys["stiffness"] for _, keys in springs),
            tuple(keys["rest"] for _, keys in springs),
            pressed,
        )
        forces = Forces(
            frames,
            Coordinates.of(frames, [row for row, _ in dampers]) if dampers else None,
            tuple(keys["damping"] for _, keys in dampers),
            Coordinates.of(frames, [row for _, row in motors]) if motors else None,
            torques,
            forces=tuple(part.read(assembly) for part in self._all(Force)),
            torques=tuple(part.read(assembly) for part in self._all(Torque)),
        )
        touching = [touch.read(part, assembly) for part in self._all(Touch)]
        touching.extend(joint_options.clearances(joints, assembly))
        contacts, names, gaps = touch.group(frames, touching)
        self.contacts: tuple[str, ...] = (*names, *stopped, *rough)
        self.constraints: tuple[str, ...] = constraint.owners
        params = {key: jnp.asarray(value, float) for key, value in assembly.params.items()}
        self.system = System(
            params,
            Mass(frames),
            potential=potential,
            force=None if forces.empty else forces,
            kinematics=Kinematics(frames) if frames.dimension == 3 else None,
            constraint=constraint if constraint.owners else None,
            velocity_constraint=along,
            contacts=(*contacts, *stops, *pads),
        )
        self.draw = Drawing.of(self.frames, self.parts, assembly, tuple(gaps))

    def _rolling(self, assembly: Assembly) -> tuple[Gaps | None, VelocityConstraint | None]:
        """What keeps wheels on the ground, and what keeps wheels and blades from slipping."""
        skates = tuple(part.read(assembly) for part in self._all(Skate))
        wheels = [touch.rolling(part, assembly) for part in self._all(Rolling)]
        gaps = touch.all_gaps(self.frames, wheels) if wheels else None
        slips = Slips(gaps.frames, gaps.kinds, gaps.order) if gaps else None
        return gaps, VelocityConstraint(self.frames, skates, slips) if skates or slips else None

    def _start(self, assembly: Assembly) -> None:
        """The initial state: as given, or the nearest one in which joints meet."""
        d = self.frames.dimension
        bodies = [assembly.bodies[name] for name in self.frames.moving]
        q = np.concatenate([np.concatenate([x, np.atleast_1d(turn)]) for x, turn in (body.pose(d) for body in bodies)])
        u = np.concatenate([body.motion(d) for body in bodies])
        pads = np.zeros(self.frames.pads)
        self.q0, self.u0 = jnp.asarray(np.append(q, pads)), jnp.asarray(np.append(u, pads))
        g, rates, g_N = (np.asarray(x) for x in _levels(self.system, self.q0, self.u0))
        limit = float(jnp.finfo(self.q0.dtype).eps) ** 0.5
        if g_N.size and g_N.min() < -PENETRATION:
            k = int(g_N.argmin())
            raise MechanismError(
                f"Touch {self.contacts[k]!r}: the bodies overlap at the beginning by {-g_N[k]:.3e} m (contact {k})."
            )
        speed = max(1.0, float(np.abs(u).max(initial=0.0)))
        if np.abs(g).max(initial=0.0) > 1e-2 * limit or np.abs(rates).max(initial=0.0) > 1e-2 * limit * speed:
            self.q0, self.u0 = self._assembled(g)

    def _assembled(self, g: np.ndarray) -> tuple[Array, Array]:
        try:
            return consistent(self.system, self.q0, self.u0)
        except ValueError:
            worst = int(np.abs(g).argmax()) if g.size else 0
            what = (
                f"joint {self.constraints[worst]!r} is {abs(g[worst]):.3e} off" if g.size else "velocities contradict"
            )
            raise MechanismError(
                f"Mechanism: it cannot be assembled: no positions near those given satisfy all joints; {what} at the "
                "beginning."
            ) from None

    def problem(self, *, dt: float, t1: float) -> Problem:
        """The system with its initial state, drawing, step size and end time.

        >>> import jaxns as ns
        >>> ball = ns.Mechanism(ns.Body("ball", mass=1.0, shape=ns.shapes.Disk(0.1)))
        >>> ball.problem(dt=1e-2, t1=1.0).t1
        1.0
        """
        return Problem(self.system, self.q0, self.u0, t1=t1, dt=dt, draw=self.draw)

    def pose(self, name: str, q: Any) -> tuple[Array, Array]:
        """Position of the centre of mass of a body, and its angle in the plane, its rotation matrix (3, 3) in space.

        >>> import jaxns as ns
        >>> ball = ns.Mechanism(ns.Body("ball", mass=1.0, angle=0.5, shape=ns.shapes.Disk(0.1)))
        >>> float(ball.pose("ball", ball.q0)[1])
        0.5
        """
        if name not in (*self.frames.moving, *self.frames.fixed):
            raise MechanismError(
                f"pose: there is no body {name!r}; there are {(*self.frames.moving, *self.frames.fixed)}."
            )
        q, k, p = jnp.asarray(q), self.frames.index(name), self.system.params
        poses = self.frames.poses(q, p)
        position, axes = poses.at(k)
        return position, take(self.frames.angles(q, p), [k])[0] if self.frames.dimension == 2 else axes

    @property
    def degrees_of_freedom(self) -> int:
        """Velocities that constraints leave free, at the initial state and with all contacts open."""
        rates = jax.jacfwd(partial(_rates, self.system, self.q0))(self.u0)
        return self.u0.shape[0] - self.frames.pads - int(np.linalg.matrix_rank(rates) if rates.size else 0)

    def __repr__(self) -> str:
        where = "plane" if self.frames.dimension == 2 else "space"
        lines = [
            f"Mechanism in {'the ' if where == 'plane' else ''}{where}, {self.degrees_of_freedom} degrees of freedom"
        ]
        listed = {
            "bodies": self.frames.moving,
            "fixed": self.frames.fixed,
            "joints": [part.owner for part in self._all(Joint, Rolling, Skate)],
            "forces": [part.owner for part in self._all(Spring, Damper, TorsionSpring, Force, Torque)],
            "contacts": [f"{self.contacts.count(name)} of {name}" for name in dict.fromkeys(self.contacts)],
        }
        lines.extend(f"  {what}: {', '.join(names)}" for what, names in listed.items() if names)
        return "\n".join(lines)


@jax.jit
def _levels(system: System, q: Array, u: Array) -> tuple[Array, Array, Array]:
    """g, (ġ, γ) and g_N at the beginning."""
    t = jnp.zeros((), q.dtype)
    return system.g(t, q), _rates(system, q, u), system.g_N(t, q)


def _rates(system: System, q: Array, u: Array) -> Array:
    t = jnp.zeros((), q.dtype)
    return jnp.concatenate([system.g_dot(t, q, u), system.gamma(t, q, u)])
