"""States from the coordinates of bodies to those of joints, and back."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ...model.rotation import quaternion_product
from ..frames import Frames, Poses, Vector, columns, dot, minus, pick, stack, take, unit
from . import turns
from .frames import JointFrames
from .links import Link, keys


@partial(jax.jit, static_argnums=(0, 1))
def joint_state(bodies: Frames, joints: JointFrames, q: Array, u: Array, p: Any) -> tuple[Array, Array]:
    """(q, u) of the joints in a state of the bodies. Whatever violates a joint of the tree is left out."""
    poses = bodies.poses(q, p)
    motion = bodies.motion(u, poses, p)
    a, b = ([end(link) for link in joints.links] for end in (lambda link: link.a, lambda link: link.b))
    to_joint = joints.arms(poses, p)
    spin = minus(pick(motion.spin, b), pick(motion.spin, a))
    slide = minus(motion.pick(b).of_points(to_joint[1]), motion.pick(a).of_points(to_joint[0]))
    offset = minus(to_joint[0], poses.pick(a).turned(joints.points(p, "a")))  # R_a e s
    found_q: dict[int, list[Array]] = {}
    found_u: dict[int, list[Array]] = {}
    for kind, own, axes in joints.directions(poses, p):
        links = [joints.links[k] for k in own]
        rates = [dot(axis, pick(spin if turns_ else slide, own)) for turns_, axis in axes]
        shifts = [dot(axis, pick(offset, own)) for turns_, axis in axes if not turns_]
        entries = [*(shifts if kind == "free" else ()), *_angles(kind, links, bodies, joints, poses, q, p)]
        entries += () if kind == "free" else shifts
        for i, k in enumerate(own):
            found_q[k], found_u[k] = [x[i] for x in entries], [x[i] for x in rates]
    n = len(joints.links)
    pads = (q[q.shape[0] - bodies.pads :], u[u.shape[0] - bodies.pads :])
    return tuple(  # type: ignore[return-value]
        jnp.concatenate([*([jnp.stack([x for k in range(n) for x in found[k]])]), pad])
        for found, pad in zip((found_q, found_u), pads, strict=True)
    )


def _angles(
    kind: str, links: list[Link], bodies: Frames, joints: JointFrames, poses: Poses, q: Array, p: Any
) -> Vector:
    """What tells the rotations of links, entries (m,)."""
    if kind in ("prismatic", "fixed"):
        return ()
    a, b = [link.a for link in links], [link.b for link in links]
    if bodies.dimension == 2:
        angles = bodies.angles(q, p)
        turn = take(angles, b) - take(angles, a)
        return (turn if kind == "free" else turn - stack(p, keys(links, "angle")),)
    if kind not in ("free", "spherical"):
        here = poses.pick(a)
        return turns.coordinates(kind, links, tuple(here.seen(axis) for axis in poses.pick(b).axes), p)
    known = _quaternions(bodies, q, p)
    turn = jax.vmap(quaternion_product)(turns.conjugate(known[jnp.asarray(a)]), known[jnp.asarray(b)])
    if kind == "spherical":
        rest = stack(p, keys(links, "turn"))
        turn = jax.vmap(quaternion_product)(turns.conjugate(rest), turn)
    return unit(columns(turn))


def _quaternions(bodies: Frames, q: Array, p: Any) -> Array:
    """Of all frames, in the coordinates of bodies (frames, 4)."""
    fixed = stack(p, [f"{name}.orientation" for name in bodies.fixed], (4,), q.dtype)
    return jnp.concatenate([bodies.bodies(q)[:, 3:], fixed, jnp.eye(1, 4, dtype=q.dtype)])


@partial(jax.jit, static_argnums=(0, 1))
def body_state(bodies: Frames, joints: JointFrames, q: Array, u: Array, p: Any) -> tuple[Array, Array]:
    """(q, u) of the bodies in a state of the joints."""
    poses = joints.poses(q, p)
    motion = joints.motion(u, poses, p)
    own = range(len(joints.moving))
    here, now = poses.pick(own), motion.pick(own)
    if joints.dimension == 2:
        turn: Vector = (take(joints.angles(q, p), own),)
        spin = now.spin
    else:
        turn, spin = _turns(joints, q, p), here.seen(now.spin)
    pads = (q[q.shape[0] - bodies.pads :], u[u.shape[0] - bodies.pads :])
    rows = (jnp.stack([*here.position, *turn], axis=1), jnp.stack([*now.velocity, *spin], axis=1))
    return tuple(jnp.concatenate([x.reshape(-1), pad]) for x, pad in zip(rows, pads, strict=True))  # type: ignore[return-value]


def _turns(joints: JointFrames, q: Array, p: Any) -> Vector:
    """Unit quaternions of all moving bodies, which change their sign nowhere: products of those of links."""
    n = len(joints.moving)
    found: list[Array] = [jnp.zeros(4)] * n
    for kind, own in joints.kinds:
        x = joints.members(kind, q)
        links = [joints.links[k] for k in own]
        for k, turn in zip(own, turns.quaternions(kind, links, x, p), strict=True):
            found[k] = turn if joints.links[k].sign > 0 else turns.conjugate(turn)
    fixed = stack(p, [f"{name}.orientation" for name in joints.fixed], (4,), q.dtype)
    for k, link in enumerate(joints.links):
        if n <= link.parent < n + len(joints.fixed):
            found[k] = quaternion_product(fixed[link.parent - n], found[k])
    product = jax.vmap(quaternion_product, in_axes=1, out_axes=1)
    return unit(tuple(joints.paths.compose(jnp.stack(found, axis=1), product)))
