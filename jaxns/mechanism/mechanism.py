"""A mechanism from parts, which compiles to an ordinary `System`."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model.system import Problem, System
from . import joint_options, start, touch
from .actuators import Actuator
from .constraints import Constraint
from .contacts import Gaps, Slips
from .coordinates import Coordinates
from .coupling import Coupling, couplings
from .drawing import Drawing
from .dynamics import Forces, Kinematics, Potential
from .errors import MechanismError
from .forces import Damper, Force, Spring, Torque, TorsionSpring, read_drive
from .frames import Frames, take
from .geometry import Geometry
from .joints import READS, Joint, Row
from .parts import Assembly, Body, frames_of
from .rolling import Rolling, Skate, VelocityConstraint
from .rotors import inertia
from .touch import Touch
from .tree.conversion import body_state, joint_state
from .tree.frames import JointFrames
from .tree.links import links_of, tree_parameters

PARTS = (
    *(Body, Geometry, Joint, Coupling, Rolling, Skate, Touch),
    *(Spring, Damper, TorsionSpring, Force, Torque, Actuator),
)


class Mechanism:
    """Bodies, joints, force elements and contacts as one `System`.

    - parts: `Body`, joints, force elements and `Touch`, in any order. Bodies go by name; "ground" is the world
    - gravity: two entries for a planar mechanism, three for a spatial one
    - coordinates: "bodies", those of every body, with joints as constraints; or "joints", minimal coordinates, see below
    - state: (q, u) in the coordinates of joints, in which it begins instead of the configuration in which it is given

    It has

    - `.system`, whose parameters are flat, by dotted names: "box.mass", "box-floor.mu", "spring.stiffness", "gravity"
    - `.q0`, `.u0`: the initial state. If joints do not meet in the positions given, it is the nearest one where they do
    - `.draw`, used by `jaxns.animate(mechanism, traj)`
    - `.problem(dt=…, t1=…)`, a `Problem`; `.pose(name, q)`
    - `.contacts`, `.constraints`: the part that each contact and each constraint row belongs to

    A planar body has q = (x, y, φ) and u = q̇; a spatial one q = (position, unit quaternion) and u = (velocity of the centre
    of mass in the world, angular velocity in the body). They come in the order of the parts; fixed bodies have none.
    Mechanisms of the same structure share compiled programs.

    With coordinates="joints", q and u hold for each moving body, in their order, the coordinates of the joint that leads to
    it from the ground: none of `Fixed`, an angle or a shift, both of `Cylindrical`, two angles of `Universal`, a unit
    quaternion of `Spherical` (in u the angular velocity of b relative to a in the basis of b), and those above of a body
    that no joint leads to. They are those of b relative to a, and zero where the parts are given. Joints that close a loop
    stay constraints. All else, contacts, springs, drives, limits, is the same. `.to_joints(q, u)` and `.to_bodies(q, u)`
    convert.

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
    frames: Frames
    _other: Mechanism | None = None

    def __init__(self, *parts: Any, gravity: Any = (0.0, -9.81), coordinates: str = "bodies", state: Any = None):
        if coordinates not in ("bodies", "joints"):
            raise MechanismError(f'Mechanism: coordinates must be "bodies" or "joints", got {coordinates!r}.')
        self.parts, self.gravity, self.coordinates, self.state = parts, gravity, coordinates, state
        weight = np.asarray(gravity, float)
        if weight.shape not in ((2,), (3,)) or not np.all(np.isfinite(weight)):
            raise MechanismError(f"Mechanism: gravity must have two entries (plane) or three (space), got {gravity!r}.")
        assembly = self._assembly(weight)
        self._compile(assembly)
        self._start(assembly)

    def _assembly(self, gravity: np.ndarray) -> Assembly:
        """Bodies and their parameters."""
        d = gravity.shape[0]
        for part in self.parts:
            if not isinstance(part, PARTS):
                raise MechanismError(
                    f"Mechanism: {part!r} is no part; parts are bodies, joints, force elements and Touch."
                )
        bodies = self._all(Body)
        for body in bodies:
            body.check(d)
            if body.massless and self.coordinates == "bodies":
                raise MechanismError(f'{body.owner}: it has no mass, which takes coordinates="joints".')
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
        for geometry in self._all(Geometry):
            geometry.read(assembly)
        return assembly

    def _all(self, *kinds: type) -> list[Any]:
        return [part for part in self.parts if isinstance(part, kinds)]

    def _compile(self, assembly: Assembly) -> None:
        """The functions of the system."""
        joints = self._all(Joint)
        rows = self._rows(joints, assembly)
        frames = self.frames
        with_coordinate = [joint for joint in joints if joint.uses_coordinate and not joint.only_damped]
        moved = [(joint, joint.coordinate_row(assembly)) for joint in with_coordinate]
        driven = [(joint, row) for joint, row in moved if joint.drive is not None]
        drives = tuple(read_drive(joint, joint.drive, joint.label, assembly) for joint, _ in driven)
        motors, torques = joint_options.motors(joints, moved, self._all(Actuator), assembly)
        on, along = self._rolling(assembly)
        coupled = couplings(frames, self._all(Coupling), joints, assembly)
        owners = [joint for joint, _ in driven] + self._all(Coupling)
        last = (*(part.label for part in owners), *(part.label for part in self._all(Rolling)))
        of_drives = Coordinates.of(frames, [row for _, row in driven]) if driven else None
        constraint = Constraint.of(frames, rows, of_drives, drives, on, last, coupled)
        elements = [part.read(assembly) for part in self._all(Spring, Damper, TorsionSpring)]
        balls = [joint for joint in joints if joint.damping is not None and joint.only_damped]
        own_elements, rotors, balls_damped = joint_options.moduli(moved, balls, assembly)
        elements += own_elements
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
            Coordinates.of(frames, motors) if motors else None,
            torques,
            forces=tuple(part.read(assembly) for part in self._all(Force)),
            torques=tuple(part.read(assembly) for part in self._all(Torque)),
            balls=balls_damped,
        )
        touching = [touch.read(part, assembly) for part in self._all(Touch)]
        touching.extend(joint_options.clearances(joints, assembly))
        contacts, names, gaps = touch.group(frames, touching)
        self.contacts: tuple[str, ...] = (*names, *stopped, *rough)
        self.constraints: tuple[str, ...] = constraint.owners
        params = {key: jnp.asarray(value, float) for key, value in assembly.params.items()}
        mass, gyroscopic = inertia(frames, rotors)
        self.system = System(
            params,
            mass,
            potential=potential,
            force=None if forces.empty else forces,
            kinematics=Kinematics(frames) if frames.nq != frames.nu else None,
            constraint=constraint if constraint.owners else None,
            velocity_constraint=along,
            contacts=(*contacts, *stops, *pads),
            gyroscopic_force=gyroscopic,
        )
        self.draw = Drawing.of(self.frames, self.parts, assembly, tuple(gaps))

    def _rows(self, joints: list[Joint], assembly: Assembly) -> list[Row]:
        """The constraints of joints; in minimal coordinates, of those that close a loop."""
        links: tuple[Joint, ...] = ()
        if self.coordinates == "joints":
            found, links = links_of(self.frames, joints, assembly)
            self.frames = JointFrames.of(self.frames, found)
        rows: list[Row] = []
        moved = {name for part in self._all(Coupling) for name in part.joints}
        moved |= {part.joint for part in self._all(Actuator)}
        for joint in joints:
            in_tree = any(joint is link for link in links)
            more = list(tree_parameters(joint, assembly.d)) if in_tree else []
            if joint.label in moved:
                more += READS[joint.coordinate[assembly.d - 2]]
            own = joint.rows(assembly, more)
            rows.extend(() if in_tree else own)
        return rows

    def _rolling(self, assembly: Assembly) -> tuple[Gaps | None, VelocityConstraint | None]:
        """What keeps wheels on the ground, and what keeps wheels and blades from slipping."""
        skates = tuple(part.read(assembly) for part in self._all(Skate))
        wheels = [touch.rolling(part, assembly) for part in self._all(Rolling)]
        gaps = touch.all_gaps(self.frames, wheels) if wheels else None
        slips = Slips(gaps.frames, gaps.kinds, gaps.order) if gaps else None
        return gaps, VelocityConstraint(self.frames, skates, slips) if skates or slips else None

    def _start(self, assembly: Assembly) -> None:
        """The initial state: as given, or the nearest one in which joints meet."""
        given = start.given_state(self.frames, assembly)
        if self.state is not None:
            chosen = self.state if self.coordinates == "joints" else self.to_bodies(*self.state)
            self.q0, self.u0 = start.of_bodies(self.system, chosen, self.contacts, self.constraints)
            return
        if any(body.massless for body in self._all(Body)):
            self.q0, self.u0 = start.of_bodies(self.system, self.to_joints(*given), self.contacts, self.constraints)
            return
        if self.coordinates == "bodies":
            self.q0, self.u0 = start.of_bodies(self.system, given, self.contacts, self.constraints)
            return

        def of_bodies() -> start.State:
            other = self._in("bodies")
            return other.q0, other.u0

        states = self.to_joints, self.to_bodies, of_bodies
        self.q0, self.u0 = start.of_joints(self.system, given, self.contacts, *states)

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

    def to_joints(self, q: Any, u: Any, params: Any = None) -> tuple[Array, Array]:
        """A state (q, u) in the coordinates of the bodies, as `coordinates="bodies"` has them, in those of the joints.

        Whatever violates a joint of the tree is left out. Differentiable; `jax.vmap` takes the rows of a trajectory.
        `params` are those of this mechanism's system unless others are given.

        >>> import jaxns as ns
        >>> rod = ns.Body("rod", mass=1.0, inertia=0.1, position=(0.5, 0.0))
        >>> pendulum = ns.Mechanism(rod, ns.Revolute("ground", "rod", at=(0.0, 0.0)))
        >>> q, u = pendulum.to_joints([0.0, 0.5, jnp.pi / 2], [-1.0, 0.0, 2.0])
        >>> round(float(q[0]), 6), round(float(u[0]), 6)
        (1.570796, 2.0)
        """
        bodies, joints, p = self._layouts(params)
        return joint_state(bodies, joints, *_state(q, u, bodies), p)

    def to_bodies(self, q: Any, u: Any, params: Any = None) -> tuple[Array, Array]:
        """A state (q, u) in the coordinates of the joints, as `coordinates="joints"` has them, in those of the bodies.

        >>> import jaxns as ns
        >>> rod = ns.Body("rod", mass=1.0, inertia=0.1, position=(0.5, 0.0))
        >>> pendulum = ns.Mechanism(rod, ns.Revolute("ground", "rod", at=(0.0, 0.0)), coordinates="joints")
        >>> q, u = pendulum.to_bodies([jnp.pi / 2], [2.0])
        >>> [round(float(x), 6) for x in (*q, *u)]
        [0.0, 0.5, 1.570796, -1.0, 0.0, 2.0]
        """
        bodies, joints, p = self._layouts(params)
        return body_state(bodies, joints, *_state(q, u, joints), p)

    def _layouts(self, params: Any) -> tuple[Frames, JointFrames, Any]:
        """Both layouts, and the parameters that they read."""
        p = self.system.params if params is None else params
        if isinstance(self.frames, JointFrames):
            return self.frames.of_bodies, self.frames, p
        other = self._in("joints")
        assert isinstance(other.frames, JointFrames)
        return self.frames, other.frames, {**other.system.params, **p}

    def _in(self, coordinates: str) -> Mechanism:
        """The same parts in the other coordinates."""
        if self._other is None:
            self._other = Mechanism(*self.parts, gravity=self.gravity, coordinates=coordinates, state=self.state)
        return self._other

    @property
    def degrees_of_freedom(self) -> int:
        """Velocities that constraints leave free, at the initial state and with all contacts open."""
        rates = jax.jacfwd(partial(start.rates, self.system, self.q0))(self.u0)
        return self.u0.shape[0] - self.frames.pads - int(np.linalg.matrix_rank(rates) if rates.size else 0)

    def __repr__(self) -> str:
        where = "plane" if self.frames.dimension == 2 else "space"
        kind = ", coordinates of joints" if self.coordinates == "joints" else ""
        lines = [
            f"Mechanism in {'the ' if where == 'plane' else ''}{where}, {self.degrees_of_freedom} degrees of freedom{kind}"
        ]
        listed = {
            "bodies": self.frames.moving,
            "fixed": self.frames.fixed,
            "joints": [part.owner for part in self._all(Joint, Coupling, Rolling, Skate)],
            "forces": [part.owner for part in self._all(Spring, Damper, TorsionSpring, Force, Torque, Actuator)],
            "contacts": [f"{self.contacts.count(name)} of {name}" for name in dict.fromkeys(self.contacts)],
        }
        lines.extend(f"  {what}: {', '.join(names)}" for what, names in listed.items() if names)
        return "\n".join(lines)


def _state(q: Any, u: Any, frames: Frames) -> tuple[Array, Array]:
    """A state as arrays, of the right lengths."""
    q, u = (jnp.asarray(x) if hasattr(x, "dtype") else jnp.asarray(x, float) for x in (q, u))
    if q.shape != (frames.nq,) or u.shape != (frames.nu,):
        raise MechanismError(
            f"the state must have q ({frames.nq},) and u ({frames.nu},), got shapes {q.shape} and {u.shape}; jax.vmap "
            "takes many."
        )
    return q, u
