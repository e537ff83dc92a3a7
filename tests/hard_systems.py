"""Systems whose contact problems are hard: redundant contacts, wedges, friction that jams; for tests and benchmarks.

Each function returns (system, q0 (lanes, nq), u0 (lanes, nu), dt).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import jaxns as ns

G = 9.81


def _corners(q, half):
    """Of a planar box (x, y, φ): positions relative to its centre (4, 2)."""
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    local = jnp.asarray(np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * np.asarray(half))
    return local @ jnp.stack([jnp.stack([c, s]), jnp.stack([-s, c])])


def walled_disk(angle, e, *others):
    """A disk of radius 0.1 m between two walls at ±angle (contacts 0 and 1), and other contacts."""
    angles = np.array([-angle, angle])
    normals = jnp.asarray(np.stack([-np.sin(angles), np.cos(angles)], axis=1))
    tangents = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    walls = ns.Contacts(
        lambda t, q, p: normals @ q[:2] - 0.1,
        lambda t, q, u, p: (tangents @ u[:2] + 0.1 * u[2])[:, None],
        e_N=lambda p: p["e"],
        mu=0.8,
    )
    return ns.System(
        dict(e=e),
        mass=lambda t, q, p: jnp.diag(jnp.array([1.0, 1.0, 0.005])),
        potential=lambda t, q, p: G * q[1],
        contacts=(walls, *others),
    )


def groove(seed=11, lanes=32, e=0.4):
    """A disk thrown into a groove with walls at 60°, in which it may wedge."""
    rng = np.random.default_rng(seed)
    q0 = np.column_stack([rng.uniform(-0.3, 0.3, lanes), rng.uniform(0.6, 0.9, lanes), np.zeros(lanes)])
    u0 = rng.normal(size=(lanes, 3)) * np.array([1.0, 1.0, 10.0])
    return walled_disk(np.deg2rad(60.0), e), jnp.asarray(q0), jnp.asarray(u0), 2e-3


def stack(boxes=5, lanes=64, half=(0.5, 0.5), seed=1, e=0.0):
    """Boxes on each other, dropped by some millimetres; the lower corners of each touch the top of the one below it."""
    rng = np.random.default_rng(seed)
    width, height = half

    def gap(t, q, p):
        body = q.reshape(boxes, 3)
        out = []
        for k in range(boxes):
            corners = body[k, :2] + _corners(body[k], half)[:2]
            if k == 0:
                out.append(corners[:, 1])
            else:
                below = body[k - 1]
                normal = jnp.stack([-jnp.sin(below[2]), jnp.cos(below[2])])
                out.append((corners - below[:2]) @ normal - height)
        return jnp.concatenate(out)

    def slip(t, q, u, p):
        body, rate = q.reshape(boxes, 3), u.reshape(boxes, 3)
        out = []
        for k in range(boxes):
            arms = _corners(body[k], half)[:2]
            points = body[k, :2] + arms
            speed = rate[k, :2] + rate[k, 2] * jnp.stack([-arms[:, 1], arms[:, 0]], axis=1)
            if k == 0:
                out.append(speed[:, 0])
            else:
                below, its = body[k - 1], rate[k - 1]
                away = points - below[:2]
                carried = its[:2] + its[2] * jnp.stack([-away[:, 1], away[:, 0]], axis=1)
                out.append((speed - carried) @ jnp.stack([jnp.cos(below[2]), jnp.sin(below[2])]))
        return jnp.concatenate(out)[:, None]

    inertia = (width**2 + height**2) / 3
    system = ns.System(
        dict(e=e),
        mass=lambda t, q, p: jnp.diag(jnp.tile(jnp.array([1.0, 1.0, inertia]), boxes)),
        potential=lambda t, q, p: G * jnp.sum(q[1::3]),
        contacts=ns.Contacts(gap, slip, e_N=lambda p: p["e"], mu=0.5),
    )
    q0 = np.zeros((lanes, boxes, 3))
    q0[:, :, 1] = height * (1 + 2 * np.arange(boxes)) + np.cumsum(rng.uniform(1e-3, 5e-3, (lanes, boxes)), axis=1)
    u0 = 0.05 * rng.normal(size=(lanes, 3 * boxes))
    return system, jnp.asarray(q0.reshape(lanes, -1)), jnp.asarray(u0), 5e-3


def square(lanes=320, e=0.5, seed=2):
    """A square with four corners thrown on a floor, with e_F = e_N."""
    rng = np.random.default_rng(seed)
    half = (0.05, 0.05)

    def slip(t, q, u, p):
        return (u[0] - u[2] * _corners(q, half)[:, 1])[:, None]

    floor = ns.Contacts(lambda t, q, p: q[1] + _corners(q, half)[:, 1], slip, e_N=e, e_F=e, mu=0.4)
    system = ns.System(
        dict(),
        mass=lambda t, q, p: jnp.diag(jnp.array([1.0, 1.0, 0.01 / 6])),
        potential=lambda t, q, p: G * q[1],
        contacts=floor,
    )
    q0 = np.column_stack([np.zeros(lanes), np.full(lanes, 0.12), rng.uniform(-np.pi, np.pi, lanes)])
    u0 = rng.normal(size=(lanes, 3)) * np.array([1.0, 0.5, 10.0])
    return system, jnp.asarray(q0), jnp.asarray(u0), 2e-3


def cube(lanes=200, seed=3):
    """A cube with eight corners tossed on a floor, μ = e_N = 0.3."""
    rng = np.random.default_rng(seed)
    a = 0.05
    points = jnp.asarray(np.array([[x, y, z] for x in (-a, a) for y in (-a, a) for z in (-a, a)]))

    def turned(q, v):
        """v (8, 3) from the body-fixed basis, by the quaternion q[3:]."""
        w, r = q[3], q[4:]
        cross = jnp.cross(jnp.broadcast_to(r, v.shape), v)
        return v + 2 * (w * cross + jnp.cross(jnp.broadcast_to(r, v.shape), cross))

    def slip(t, q, u, p):
        rates = jnp.cross(jnp.broadcast_to(u[3:], points.shape), points)
        return (u[:3] + turned(q, rates))[:, :2]

    body = ns.bodies.quaternion_body()
    system = ns.System(
        dict(m=1.0, Theta=jnp.full((3,), (2 * a) ** 2 / 6)),
        potential=lambda t, q, p: G * q[2],
        contacts=ns.Contacts(lambda t, q, p: q[2] + turned(q, points)[:, 2], slip, e_N=0.3, mu=0.3),
        **body,
    )
    quaternion = rng.normal(size=(lanes, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    q0 = np.column_stack([np.zeros((lanes, 2)), np.full(lanes, 0.12), quaternion])
    u0 = rng.normal(size=(lanes, 6)) * np.array([1, 1, 0.3, 10, 10, 10])
    return system, jnp.asarray(q0), jnp.asarray(u0), 2e-3


def cradle(lanes=8, e=1.0, seed=4):
    """Five balls in a row, of which some hit the others."""
    rng = np.random.default_rng(seed)
    system = ns.System(
        dict(),
        mass=lambda t, q, p: jnp.eye(5),
        contacts=ns.Contacts(lambda t, q, p: q[1:] - q[:-1], e_N=e),
    )
    q0 = np.tile(0.0 * np.arange(5), (lanes, 1)) - np.concatenate(
        [rng.uniform(0.01, 0.05, (lanes, 1)), np.zeros((lanes, 4))], axis=1
    )
    u0 = np.concatenate([rng.uniform(0.5, 2.0, (lanes, 1)), np.zeros((lanes, 4))], axis=1)
    return system, jnp.asarray(q0), jnp.asarray(u0), 2e-3


def painleve(lanes=24, seed=5):
    """A rod that slides on its tip, with μ from 1.5 to 2: it may jam."""
    rng = np.random.default_rng(seed)
    floor = ns.Contacts(
        lambda t, q, p: q[1:2] - jnp.sin(q[2:3]),
        lambda t, q, u, p: (u[0] + u[2] * jnp.sin(q[2]))[None, None],
        mu=lambda p: p["mu"],
    )
    system = ns.System(
        dict(mu=1.5),
        mass=lambda t, q, p: jnp.diag(jnp.array([1.0, 1.0, 1.0 / 3.0])),
        potential=lambda t, q, p: G * q[1],
        contacts=floor,
    )
    mu, angle = np.linspace(1.5, 2.0, lanes), rng.uniform(0.5, 1.2, lanes)
    systems = system.with_params(mu=jnp.asarray(mu))
    q0 = np.column_stack([np.zeros(lanes), np.sin(angle), angle])
    u0 = np.column_stack([rng.uniform(-3, 3, lanes), np.zeros(lanes), np.zeros(lanes)])
    return systems, jnp.asarray(q0), jnp.asarray(u0), 2e-3
