"""What an accepted step must satisfy, in plain numpy: by how much each law is broken, in units of the tolerance.

Nothing here solves, projects or iterates. The functions of a system are evaluated at the states of a trajectory; the rest
is written from the docstrings of the schemes, each of which promises something else:

| scheme | gaps g_N | P_N acts | velocities obey the laws | energy |
|---|---|---|---|---|
| Moreau | nothing | where g_N(q_M) ≤ 0 | at (t_M, q_M), with u⁺ | nothing |
| GGLDecoupled | g_N(q⁺) ≥ 0 | where g_N(q_M) ≤ 0 | at (t_M, q_M), with u⁺ | nothing |
| GGLUnified | g_N(q⁺) ≥ 0 | not said by the end of a step | at (t_{n+1}, q⁺), with u⁺ | nothing |
| Rattle, Lobatto, GeneralizedAlpha | g_N(q⁺) ≥ 0 | where g_N(q⁺) = 0 | at (t_{n+1}, q⁺), with u⁺ | nothing |
| EnergyConstantMass, -CoordinateMass, -DecomposedMass | closed ones do not sink | where g_N(q^B) ≤ 0 | friction at (t_n, q_n), with the mean velocity | never rises |
| EnergyTwoStep, -QuaternionTwoStep | closed ones do not sink | where g_N(q^B) ≤ 0 | not seen: P is a sum of two | never rises where the law dissipates |
| EnergyQuaternion | nothing | where g_N(q^B) ≤ 0 | not seen | never rises where all coefficients are equal |
| EventDriven | g_N ≥ 0 at all rows, by its own tolerance | not seen in a row | not seen in a row | nothing |

All of them promise P_N ≥ 0 and friction in its set. Energy is compared with the work of the system's `force` at the midpoint.
"""  # noqa: E501

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns

LAWS = (
    "finite",
    "gap",
    "constraint",
    "momentum",
    "pull",
    "open",
    "approach",
    "complementarity",
    "cone",
    "slip",
    "energy",
)


class Promise(NamedTuple):
    """What a scheme promises of every step."""

    gaps: str = ""  # "end": g_N(q⁺) ≥ 0; "closed": those that are closed at the beginning do not sink
    velocities: str = (
        ""  # "midpoint" or "end": where the laws on velocity level hold; "mean": friction, at the beginning
    )
    acts: str = ""  # "midpoint", "end", "begin": where gaps decide which contacts may have a percussion
    g: bool = True  # g(q⁺) = 0
    g_dot: bool = True  # ġ⁺ = 0 there, or at the midpoint
    energy: str = ""  # "always"; "dissipative": where the impact law dissipates


END = Promise("end", "end", "end")
PROMISES = {
    "Moreau": Promise("", "midpoint", "midpoint", g=False),
    "GGLDecoupled": Promise("end", "midpoint", "midpoint"),
    "GGLUnified": END._replace(acts=""),
    "Rattle": END,
    "Lobatto": END,
    "GeneralizedAlpha": END,
    "EnergyConstantMass": Promise("closed", "mean", "begin", energy="always"),
    "EnergyCoordinateMass": Promise("closed", "mean", "begin", energy="always"),
    "EnergyDecomposedMass": Promise("closed", "mean", "begin", energy="always"),
    "EnergyTwoStep": Promise("closed", "", "begin", energy="dissipative"),
    "EnergyQuaternion": Promise("", "", "begin", g_dot=False, energy="dissipative"),
    "EnergyQuaternionTwoStep": Promise("closed", "", "begin", g_dot=False, energy="dissipative"),
    "EventDriven": Promise("end", g=False, g_dot=False),
}
GAP_OF_EVENTS = 1e-8  # what located events and adaptive steps of the default tolerances leave of a gap, in metres


class Place(NamedTuple):
    """A system at (t, q); the first axes are lanes and steps."""

    g: np.ndarray
    g_N: np.ndarray
    W: np.ndarray  # (nu, n)
    chi: np.ndarray  # (n,) the rows at u = 0
    M: np.ndarray
    B: np.ndarray  # (nq, nu) ∂q̇/∂u
    V: np.ndarray

    def rows(self, u: np.ndarray) -> np.ndarray:
        """(ġ, γ, ġ_N, γ_F)."""
        return np.einsum("...un,...u->...n", self.W, u) + self.chi

    def delassus(self) -> np.ndarray:
        """The diagonal of WᵀM⁻¹W."""
        return np.einsum("...un,...un->...n", self.W, np.linalg.solve(self.M, self.W))


@jax.jit
def _places(systems, t, q, nothing):
    def at(system, t, q):
        B = jax.jacfwd(lambda u: system.q_dot(t, q, u))(nothing)
        rows = system.velocities(t, q, nothing)
        W, M = system.W(t, q, nothing), system.M(t, q)
        return Place(system.g(t, q), system.g_N(t, q), W, rows, M, B, system.potential_energy(t, q))

    return jax.vmap(lambda system, t, q: jax.vmap(lambda t, q: at(system, t, q))(t, q))(systems, t, q)


@jax.jit
def _forces(systems, t, q, u):
    """h and the user's force."""

    def at(system, t, q, u):
        force = jnp.zeros_like(u) if system.force is None else system.force(t, q, u, system.params)
        return system.h(t, q, u), force

    return jax.vmap(lambda system, *state: jax.vmap(lambda *state: at(system, *state))(*state))(systems, t, q, u)


@jax.jit
def _rates(systems, t, q, u):
    return jax.vmap(lambda system, *state: jax.vmap(system.q_dot)(*state))(systems, t, q, u)


def _numpy(tree):
    return jax.tree.map(np.asarray, tree)


class Steps(NamedTuple):
    """All accepted steps of a batch of trajectories, with what the laws need."""

    rows: ns.model.system.Rows
    tol: float
    dt: np.ndarray  # (lanes, steps)
    u: tuple[np.ndarray, np.ndarray]  # at the beginning and at the end
    q: tuple[np.ndarray, np.ndarray]
    P: np.ndarray  # (…, n) rows (g, γ, N, F)
    begin: Place
    end: Place
    middle: Place  # at the predicted midpoint (t_M, q_M)
    h: np.ndarray  # at (t_M, q_M, u_n)
    work: np.ndarray  # of the user's force, by the midpoint rule
    mean: np.ndarray  # the velocity that carries q_n to q⁺
    e_N: np.ndarray  # (lanes, 1, n_N)
    e_F: np.ndarray
    mu: np.ndarray


def steps_of(systems, traj, tol=1e-10) -> Steps:
    """From trajectories with a leading axis of lanes, and systems with one in every leaf."""
    one = jax.tree.map(lambda x: x[0], systems)
    rows = one.rows(traj.t[0, 0], traj.q[0, 0], traj.u[0, 0])
    t, q, u = traj.t, traj.q, traj.u
    dt = t[:, 1:] - t[:, :-1]
    t_M = t[:, :-1] + 0.5 * dt
    q_M = q[:, :-1] + 0.5 * dt[..., None] * _rates(systems, t[:, :-1], q[:, :-1], u[:, :-1])
    nothing = jnp.zeros(u.shape[-1])
    everywhere = _numpy(_places(systems, t, q, nothing))
    begin, end = (Place(*(v[:, cut] for v in everywhere)) for cut in (slice(None, -1), slice(1, None)))
    middle = _numpy(_places(systems, t_M, q_M, nothing))
    # q⁺ − q_n = Δt (B v + β) at the midpoint of both; with more q than u by least squares.
    half = 0.5 * (q[:, :-1] + q[:, 1:])
    B = _numpy(_places(systems, t_M, half, nothing)).B
    drift = _numpy(_rates(systems, t_M, half, jnp.zeros_like(u[:, 1:])))
    mean = np.einsum("...uq,...q->...u", np.linalg.pinv(B), np.asarray((q[:, 1:] - q[:, :-1]) / dt[..., None]) - drift)
    h = _numpy(_forces(systems, t_M, q_M, u[:, :-1]))[0]
    force = _numpy(_forces(systems, t_M, half, jnp.asarray(mean)))[1]
    work = np.asarray(dt) * np.sum(mean * force, axis=-1)
    e_N, e_F, mu = (np.asarray(c)[:, None] for c in jax.vmap(lambda s: s.coefficients(rows, q.dtype))(systems))
    friction = [np.asarray(traj.P_F)[:, 1:, first : first + n, :d].reshape(*dt.shape, n * d)
                for first, n, d, _ in _groups(rows)]  # fmt: skip
    parts = [np.asarray(v)[:, 1:] for v in (traj.P_g, traj.P_gamma, traj.P_N)]
    q, u = np.asarray(q), np.asarray(u)
    return Steps(
        rows, tol, np.asarray(dt), (u[:, :-1], u[:, 1:]), (q[:, :-1], q[:, 1:]), np.concatenate([*parts, *friction], -1),
        begin, end, middle, h, work, mean, e_N, e_F, mu,
    )  # fmt: skip


def _groups(rows):
    """(first contact, contacts, friction dimension, law) of each group."""
    first = np.cumsum([0, *(n for n, _, _ in rows.groups)])
    return [(int(k), n, d, law) for k, (n, d, law) in zip(first, rows.groups, strict=False)]


def defects(steps: Steps, scheme: str) -> dict[str, np.ndarray]:
    """By how much each law is broken in each step (lanes, steps), in units of the tolerance; 0 where it holds exactly."""
    promise = PROMISES[scheme]
    result = {name: np.zeros(steps.dt.shape) for name in LAWS}
    result["finite"] = np.where(_finite(steps), 0.0, np.inf)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        result.update(_of_positions(steps, promise, scheme))
        result.update(_of_percussions(steps, promise))
        if promise.velocities in ("midpoint", "end"):
            result.update(_of_velocities(steps, promise))
        result["slip"] = _slip(steps, promise)
        if promise.velocities == "midpoint":
            result["momentum"] = _momentum(steps)
        if promise.energy:
            result["energy"] = _energy(steps, promise)
    return result


def _finite(steps):
    flat = [np.all(np.isfinite(v), axis=-1) for v in (*steps.u, *steps.q, steps.P)]
    return np.all(np.stack(flat), axis=0)


def _largest(values):
    return np.max(values, axis=-1, initial=0.0)


def _speed(steps):
    """What velocities of rows are compared with: their largest, with and without contact forces, and 1 m/s."""
    free = steps.u[0] + steps.dt[..., None] * np.linalg.solve(steps.middle.M, steps.h[..., None])[..., 0]
    seen = [place.rows(u) for place in (steps.begin, steps.middle, steps.end) for u in (*steps.u, free)]
    return np.maximum(1.0, np.max(np.abs(np.concatenate([*seen, *steps.u], axis=-1)), axis=-1))


def _of_positions(steps, promise, scheme):
    tol = GAP_OF_EVENTS if scheme == "EventDriven" else steps.tol
    gap = steps.end.g_N
    if promise.gaps == "closed":
        gap = np.where(steps.begin.g_N <= 0.0, steps.end.g_N - steps.begin.g_N, 0.0)
    result = {"gap": _largest(np.maximum(-gap, 0.0)) / tol if promise.gaps else np.zeros(steps.dt.shape)}
    constraint = np.zeros(steps.dt.shape)
    if promise.g:
        constraint = _largest(np.abs(steps.end.g)) / steps.tol
    if promise.g_dot:
        place = steps.middle if promise.velocities == "midpoint" else steps.end
        g_dot = place.rows(steps.u[1])[..., : steps.rows.n_bilateral]
        constraint = np.maximum(constraint, _largest(np.abs(g_dot)) / steps.tol / _speed(steps))
    return {**result, "constraint": constraint}


def _normal(steps, rows):
    n_b = steps.rows.n_bilateral
    return rows[..., n_b : n_b + steps.rows.n_N]


def _place(steps, name):
    return {"midpoint": steps.middle, "end": steps.end}.get(name, steps.begin)


def _of_percussions(steps, promise):
    """P_N ≥ 0 alone where a contact is closed, and friction inside of its set; percussions as velocities, G_kk P_k."""
    place, unit = _place(steps, promise.velocities), steps.tol * _speed(steps)
    kick = _normal(steps, place.delassus()) * _normal(steps, steps.P)
    result = {"pull": _largest(np.maximum(-kick, 0.0)) / unit}
    if promise.acts:
        gap = _place(steps, promise.acts).g_N
        away = np.maximum(gap - (10.0 * steps.tol if promise.acts == "begin" else 0.0), 0.0)
        result["open"] = _largest(np.minimum(away / steps.tol, np.abs(kick) / unit[..., None]))
    outside = np.zeros(steps.dt.shape)
    for P, _, limit, G, law in _frictions(steps, place):
        excess = np.linalg.norm(P, axis=-1) - limit
        if getattr(law, "unilateral", False):
            excess = -P[..., 0]
        outside = np.maximum(outside, _largest(np.maximum(G * excess, 0.0)) / unit)
    return {**result, "cone": outside}


def _frictions(steps, place, velocity=None):
    """P_F, ξ_F (…, n, d), the radius of the ball of P_F and G_kk (…, n), law: for each group, where its set is a ball."""
    rows, n_F = steps.rows, steps.mu.shape[-1]
    P_F, G_F = (v[..., v.shape[-1] - n_F :] for v in (steps.P, place.delassus()))
    xi = np.zeros_like(P_F) if velocity is None else velocity[..., velocity.shape[-1] - n_F :]
    P_N, at = _normal(steps, steps.P), 0
    for first, n, d, law in _groups(rows):
        if d:
            cut = slice(at, at + n * d)
            at += n * d
            P, slip, G, mu = (v[..., cut].reshape(*v.shape[:-1], n, d) for v in (P_F, xi, G_F, steps.mu))
            largest = np.max(mu, axis=-1, keepdims=True)
            a = np.where(mu > 0.0, mu / np.where(largest > 0.0, largest, 1.0), 1.0)  # an ellipsoid is a ball in P/a
            limit = largest[..., 0] * np.maximum(P_N[..., first : first + n], 0.0)
            yield P / a, slip * a, limit, np.max(a * a * G, axis=-1), law


def _of_velocities(steps, promise):
    """Normal contacts: ξ_N ≥ 0 where closed, and zero where P_N > 0."""
    place, unit = _place(steps, promise.velocities), steps.tol * _speed(steps)[..., None]
    before = (steps.middle if promise.velocities == "midpoint" else steps.begin).rows(steps.u[0])
    xi = _normal(steps, place.rows(steps.u[1])) + steps.e_N * _normal(steps, before)
    kick = _normal(steps, place.delassus()) * _normal(steps, steps.P)
    result = {"complementarity": _largest(np.minimum(np.abs(xi), np.abs(kick)) / unit)}
    if promise.acts:  # else a gap does not tell whether the law acts
        gap = _place(steps, promise.acts).g_N
        result["approach"] = _largest(np.where(gap < 0.0, np.maximum(-xi, 0.0), 0.0) / unit)
    return result


def _slip(steps, promise):
    """Friction against sliding: P_F = −μ P_N ξ_F/|ξ_F|, or no slip; the product of both defects over the sum of sizes."""
    if not promise.velocities or not steps.mu.shape[-1]:
        return np.zeros(steps.dt.shape)
    n_F = steps.mu.shape[-1]
    if promise.velocities == "mean":
        place = steps.begin
        velocity = place.rows(steps.mean)
    else:
        place = _place(steps, promise.velocities)
        before = (steps.middle if promise.velocities == "midpoint" else steps.begin).rows(steps.u[0])
        velocity = place.rows(steps.u[1])
        velocity = np.concatenate([velocity[..., :-n_F], velocity[..., -n_F:] + steps.e_F * before[..., -n_F:]], -1)
    worst = np.zeros(steps.dt.shape)
    for P, xi, limit, G, law in _frictions(steps, place, velocity):
        if getattr(law, "unilateral", False):
            defect = np.maximum(np.minimum(np.abs(xi[..., 0]), np.abs(G * P[..., 0])), -xi[..., 0])
        else:
            size, bound = np.linalg.norm(xi, axis=-1), G * limit
            direction = xi / np.where(size > 0.0, size, 1.0)[..., None]
            off = G * np.linalg.norm(P + limit[..., None] * direction, axis=-1)
            defect = size * off / np.where(size + bound > 0.0, size + bound, 1.0)
            defect = np.where(limit + np.linalg.norm(P, axis=-1) > 0.0, defect, 0.0)
        worst = np.maximum(worst, _largest(defect))
    return worst / steps.tol / _speed(steps)


def _momentum(steps):
    """M (u⁺ − u_n) = Δt h + W P, all at the midpoint; relative to the sizes of its terms, which round."""
    M, W = steps.middle.M, steps.middle.W
    terms = [np.einsum("...ij,...j->...i", M, steps.u[1]), -np.einsum("...ij,...j->...i", M, steps.u[0]),
             -steps.dt[..., None] * steps.h, -np.einsum("...un,...n->...u", W, steps.P)]  # fmt: skip
    sizes = [np.einsum("...un,...n->...u", np.abs(W), np.abs(steps.P)), *(np.abs(v) for v in terms[:3])]
    size = np.max(sum(sizes), axis=-1)
    return _largest(np.abs(sum(terms))) / steps.tol / np.where(size > 0.0, size, 1.0)


def _energy(steps, promise):
    """What the energy gains beyond the work of forces, over what a residual of the size of the tolerance can do."""
    kinetic = [
        0.5 * np.einsum("...i,...ij,...j", u, p.M, u) for p, u in zip((steps.begin, steps.end), steps.u, strict=True)
    ]
    gain = kinetic[1] + steps.end.V - kinetic[0] - steps.begin.V - steps.work
    momentum = np.maximum(*(np.sum(np.abs(np.einsum("...ij,...j->...i", p.M, u)), -1)
                            for p, u in zip((steps.begin, steps.end), steps.u, strict=True)))  # fmt: skip
    impulse = np.sum(np.einsum("...un,...n->...u", np.abs(steps.begin.W), np.abs(steps.P)), axis=-1)
    unit = steps.tol * _speed(steps) * np.maximum(momentum, impulse) + 1e-15 * np.abs(steps.begin.V)
    defect = np.maximum(gain, 0.0) / np.where(unit > 0.0, unit, 1.0)
    if promise.energy == "dissipative":
        e = np.concatenate([steps.e_N, steps.e_F], axis=-1)
        defect = np.where(np.ptp(e, axis=-1) == 0.0 if e.shape[-1] else True, defect, 0.0)
    return defect
