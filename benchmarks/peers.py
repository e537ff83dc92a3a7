"""MuJoCo C and MJX beside jaxns, on the same ball and the same slider-crank, in one run.

    pip install -e ".[peers]"
    python benchmarks/peers.py [--quick]

Prints one table, and stores it with commit, versions and the status of each row in benchmarks/results/peers.json. Peers
that are not installed are left out. `--quick` leaves out the rows with dt/10, repeats less, and stores nothing.

Fairness. jaxns is given a restitution coefficient: its contact is rigid, an impact takes no time. MuJoCo's contact is a
spring with a damper by design, which makes its step one convex problem, and fast; it has no restitution coefficient, and
its penetration belongs to its model and is no error of its solver. Its contacts here are as hard as the step allows,
ω = 1/(2 dt), MuJoCo's own limit for safe constraints (`refsafe`); their damping is found by bisection so that the first
rebound is that of jaxns, about. Joints come in two forms: "hinges", MuJoCo's natural chain of three, which cannot drift,
and "connect", the nine coordinates of jaxns with soft equality constraints, as hard as the contacts. All else is MuJoCo's
default (Newton's method, pyramidal cones, tolerance 1e-8; Euler, and RK4 is shown too), in double precision also in MJX,
which is made for single precision and accelerators, not for a CPU. MuJoCo can afford small steps: see the rows with dt/10.

Columns, over the whole time span of the problem:

- one: µs per step of one trajectory, best of several runs, without compilation; for EventDriven per output row.
- batch: µs per trajectory-step, initial states ±10 %. jaxns: 256 lanes over virtual devices, in chunks, as in
  anchor.py; MuJoCo C: 256 lanes, `mujoco.rollout`, one thread per core; MJX: 64 lanes, vmap, one device, in a process
  with a time limit, as batched LAPACK calls can hang for ever on a CPU with few cores.
- penetration: largest −g_N in m. The clearance of the slider is 1e-3 m, the radius of the ball 0.1 m.
- drift: largest error in m of the six joint equations, evaluated on the poses.
- energy: largest relative change of the energy where it is conserved. Ball: elastic (e_N = 1; in MuJoCo no damping), at
  rows with an open contact, relative to the energy of the drop. Slider-crank: no contacts (walls 10 m apart).
- rebound: speed of the gap after the first impact / before, both brought to g_N = 0. For jaxns the given e_N.
- derivative: relative error of d(height at 0.7 s) / d(initial height) of the ball, after one bounce, against the closed
  form of the rigid ball. jaxns, MJX: `jax.jvp`; MuJoCo C: central differences, best of the increments 1e-1, …, 1e-6.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

from anchor import BATCH, CORES, MESH, split_over_cores  # first: it sets up XLA

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

import jaxns as ns

try:
    import mujoco.rollout
except ImportError:
    mujoco = None

LANES, MJX_LANES = 256, 64
MJX_LIMIT = 150.0  # seconds for one process, compilation included
T_BOUNCE = 0.7  # between the first impact of the ball and the second
FORMATS = dict(one=".2f", batch=".2f", penetration=".1e", drift=".1e", energy=".1e", rebound=".3f", derivative=".1e")
INTEGRATORS = ns.Rattle(tol=1e-8), ns.Moreau(tol=1e-8), ns.EventDriven(rtol=1e-10, atol=1e-10)  # 1e-8 as in MuJoCo
PLANAR = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint/>'


class Case(NamedTuple):
    problem: ns.Problem
    start: Callable[[Any], tuple[Any, Any]]  # q0, u0 of the lane with the factor s
    free: float  # seconds before the first impact
    conservative: dict[str, float]  # parameters of the variant that conserves energy
    layouts: tuple[str, ...]  # ways to write it in MuJoCo, the natural one first


BALL, CRANK = ns.models.bouncing_ball(), ns.models.slider_crank()
CASES = {
    "ball": Case(BALL, lambda s: (s * BALL.q0, BALL.u0), 0.4, {"e_N": 1.0}, ("",)),
    "slider-crank": Case(CRANK, lambda s: (CRANK.q0, s * CRANK.u0), 1.2e-3, {"d": 10.0}, (" hinges", " connect")),
}


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, 0))
def observe(system: ns.System, q: Any, u: Any) -> Any:
    """Gaps, their rates, joint errors and energy of all rows; q and u are always in the coordinates of jaxns."""
    energy = system.kinetic_energy(0.0, q, u) + system.potential_energy(0.0, q)
    return system.g_N(0.0, q), system.g_N_dot(0.0, q, u), system.g(0.0, q), energy


def rebound(gap: Any, rate: Any, dt: float) -> float:
    """Speed after / before the first impact, each brought to gap 0 by v² = ġ² − 2 g̈ g."""
    i = int(np.argmax(np.min(gap, axis=1) <= 0.0))
    gap, rate = (np.asarray(x)[:, np.argmin(gap[i])] for x in (gap, rate))
    j = i + int(np.argmax(gap[i:] > 0.0))
    if j == i or j + 1 == len(gap):
        return 0.0  # it stays closed
    before = rate[i - 1] ** 2 - 2.0 * gap[i - 1] * (rate[i - 1] - rate[i - 2]) / dt
    after = rate[j] ** 2 - 2.0 * gap[j] * (rate[j + 1] - rate[j]) / dt
    return float(np.sqrt(max(after, 0.0) / before))


def accuracy(name: str, dt: float, rows: tuple[Any, Any], conservative_rows: tuple[Any, Any]) -> dict[str, float]:
    system = CASES[name].problem.system
    gap, rate, joints, _ = observe(system, *rows)
    free_gap, _, _, energy = observe(system, *conservative_rows)
    change, scale = jnp.abs(energy - energy[0]), energy[0]
    if name == "ball":  # a compressed spring holds energy; heights count from the floor
        change = jnp.where(free_gap[:, 0] <= 0.0, 0.0, change)
        scale -= system.potential_energy(0.0, jnp.array([0.0, 1.0, 0.0]) * system.params["R"])
    found = {"penetration": float(jnp.maximum(0.0, -jnp.min(gap))), "rebound": rebound(gap, rate, dt)}
    found["energy"] = float(jnp.max(change) / scale)
    return found if name == "ball" else found | {"drift": float(jnp.max(jnp.abs(joints)))}


def derivative_error(slope: Any) -> float:
    """Relative, against the closed form of docs/derivatives.md: e_N g τ/v − e_N + g τ/v, τ = T − v/g."""
    R, g, e_N = (float(BALL.system.params[key]) for key in ("R", "gravity", "e_N"))
    moved = g * T_BOUNCE / np.sqrt(2.0 * g * (1.0 - R)) - 1.0
    return abs(float(slope) / ((1.0 + e_N) * moved - e_N) - 1.0)


def microseconds(call: Callable[[], Any], repeats: int) -> float:  # the first run, which compiles, is one more
    return 1e6 * min(timeit.repeat(lambda: jax.block_until_ready(call()), number=1, repeat=repeats + 1))


def jaxns_row(name: str, integrator: Any, dt: float, batch: bool, repeats: int) -> tuple[dict[str, Any], Any]:
    case, system = CASES[name], CASES[name].problem.system
    steps, bounce = round(case.problem.t1 / dt), round(T_BOUNCE / dt)

    def simulate(system: ns.System, s: Any, steps: int = steps, save_every: int = 1) -> ns.Trajectory:
        return ns.simulate(system, integrator, *case.start(s), dt=dt, num_steps=steps, save_every=save_every)

    run = jax.jit(simulate)
    row: dict[str, Any] = {"one": microseconds(lambda: run(system, 1.0), repeats) / steps}
    traj, other = (run(x, 1.0).failed_as_nan() for x in (system, system.with_params(**case.conservative)))
    row |= accuracy(name, dt, (traj.q, traj.u), (other.q, other.u)) | {"rebound": float(system.params["e_N"])}
    if name == "ball":
        slope = jax.jit(lambda s: jax.jvp(lambda s: simulate(system, s, bounce, bounce).q[-1, 1], (s,), (1.0,))[1])
        row["derivative"] = derivative_error(slope(1.0))
    if batch:
        lanes = jax.device_put(jnp.linspace(0.9, 1.1, LANES), NamedSharding(MESH, BATCH))
        batched = jax.jit(split_over_cores(lambda s: simulate(system, s, save_every=steps).failed_as_nan().q[-1]))
        converged = jnp.all(jnp.isfinite(batched(lanes)))
        row["batch"] = microseconds(lambda: batched(lanes), repeats) / steps / LANES if converged else np.nan
    return row, traj.q


def mjcf(name: str, layout: str, p: dict[str, float]) -> str:
    """Bodies and contacts of a case. Hinges turn about z; only the pairs that jaxns has can touch."""

    def inertial(m: float, J: float, x: float = 0.0) -> str:
        return f'<inertial pos="{x} 0 0" mass="{m}" diaginertia="{J} {J} {J}"/>'

    joints, pairs, plane = "", '<pair geom1="floor" geom2="ball"/>', 'type="plane" size="1 1 1"'
    if name == "ball":
        ball = PLANAR + inertial(p["m"], 0.4 * p["m"] * p["R"] ** 2) + f'<geom name="ball" size="{p["R"]}"/>'
        world = f'<geom name="floor" {plane} zaxis="0 1 0"/><body>{ball}</body>'
    else:
        l1, l2, r = p["l1"], p["l2"], 1e-5
        wall = p["d"] / 2 + r  # corners are spheres of radius r, and walls stand back by as much: the same gaps
        world, pairs, slider = '<site name="tip-1"/>', "", inertial(p["m3"], p["J3"])  # the site holds the crank
        for y in (1, -1):
            world += f'<geom name="wall{y}" {plane} pos="0 {y * wall} 0" zaxis="0 {-y} 0"/>'
            for x in (1, -1):
                slider += f'<geom name="corner{x}{y}" size="{r}" pos="{x * p["a"]} {y * p["b"]} 0"/>'
                pairs += f'<pair geom1="wall{y}" geom2="corner{x}{y}"/>'
        if "hinges" in layout:
            world += f"""<body><joint/>{inertial(p["m1"], p["J1"], l1 / 2)}
                <body pos="{l1} 0 0"><joint/>{inertial(p["m2"], p["J2"], l2 / 2)}
                <body pos="{l2} 0 0"><joint/>{slider}</body></body></body>"""
        else:
            bodies = (l1, inertial(p["m1"], p["J1"])), (l2, inertial(p["m2"], p["J2"])), (0.0, slider)
            for i, (l, body) in enumerate(bodies):
                ends = f'<site name="tail{i}" pos="{-l / 2} 0 0"/><site name="tip{i}" pos="{l / 2} 0 0"/>'
                world += f"<body>{PLANAR}{body}{ends}</body>"
                joints += f'<connect site1="tip{i - 1}" site2="tail{i}"/>'
    return f"<worldbody>{world}</worldbody><equality>{joints}</equality><contact>{pairs}</contact>"


def poses(angles: Any) -> Any:
    """The coordinates of jaxns from the relative angles of the hinges."""
    p, (a1, a2, a3) = CRANK.system.params, jnp.cumsum(angles)
    x, y, dx, dy = p["l1"] * jnp.cos(a1), p["l1"] * jnp.sin(a1), p["l2"] * jnp.cos(a2), p["l2"] * jnp.sin(a2)
    return jnp.stack([x / 2, y / 2, a1, x + dx / 2, y + dy / 2, a2, x + dx, y + dy, a3])


@dataclass(frozen=True)
class Peer:
    """A model of MuJoCo; `damping` is the damping ratio of its contacts."""

    name: str
    layout: str
    integrator: str
    dt: float
    damping: float = 0.0

    def model(self, conservative: bool = False) -> Any:
        p = {key: float(value) for key, value in CASES[self.name].problem.system.params.items()}
        p, damping = (p | CASES[self.name].conservative, 0.0) if conservative else (p, self.damping)
        contact = f"{-0.25 / self.dt**2} {-damping / self.dt - 1e-9}"  # −stiffness, −damping, both below zero
        return mujoco.MjModel.from_xml_string(f"""<mujoco>
            <option timestep="{self.dt}" integrator="{self.integrator}" gravity="0 {-p["gravity"]} 0"/>
            <default><geom contype="0" conaffinity="0"/><joint axis="0 0 1"/><equality solref="{2 * self.dt} 1"/>
            <pair condim="3" friction="{p["mu"]} {p["mu"]} 0 0 0" solref="{contact}"/></default>
            {mjcf(self.name, self.layout, p)}</mujoco>""")

    def start(self, s: Any) -> tuple[Any, Any]:
        q, u = CASES[self.name].start(s)
        relative = jnp.eye(3) - jnp.eye(3, k=-1)
        return (relative @ q[2::3], relative @ u[2::3]) if "hinges" in self.layout else (q, u)

    def rows(self, q: Any, u: Any) -> tuple[Any, Any]:
        moving_poses = jnp.vectorize(lambda q, u: jax.jvp(poses, (q,), (u,)), signature="(n),(n)->(m),(m)")
        return moving_poses(q, u) if "hinges" in self.layout else (q, u)

    def roll(self, model: Any, s: Any, steps: int, threads: int = 0, repeats: int = 0) -> tuple[Any, Any, float]:
        """q and u (lanes, steps + 1, n) of the lanes with the factors s, and µs per trajectory-step."""
        initial = np.hstack([np.zeros((len(s), 1)), *jax.vmap(self.start)(jnp.asarray(s))])  # time, q, u
        data = [mujoco.MjData(model) for _ in range(max(threads, 1))]
        states = np.zeros((len(s), steps, initial.shape[1]))  # rollout stores all of them; at least not in new memory
        with mujoco.rollout.Rollout(nthread=threads) as pool:
            spent = microseconds(lambda: pool.rollout(model, data, initial, nstep=steps, state=states), repeats)
        if any(warning.number for each in data for warning in each.warning):
            states[:] = np.nan  # MuJoCo would go on from a reset state
        q, u = np.split(np.concatenate([initial[:, None], states], axis=1)[..., 1:], 2, axis=-1)
        return *self.rows(q, u), spent / steps / len(s)

    def tuned(self) -> Peer:
        """With the damping whose first rebound is e_N, about: with few steps per contact the rebound jumps."""
        system, low, high = CASES[self.name].problem.system, 0.0, 1.0
        for _ in range(20):
            peer = replace(self, damping=0.5 * (low + high))
            q, u, _ = peer.roll(peer.model(), [1.0], round(2.0 * CASES[self.name].free / self.dt))
            too_fast = rebound(*observe(system, q[0], u[0])[:2], self.dt) > system.params["e_N"]
            low, high = (peer.damping, high) if too_fast else (low, peer.damping)
        return peer

    def check(self, truth: Any) -> None:
        """With a small step, MuJoCo must move like jaxns before the first impact, or the models differ."""
        rows, fine = round(CASES[self.name].free / self.dt), replace(self, dt=self.dt / 100)
        q, truth = fine.roll(fine.model(), [1.0], 100 * rows)[0][0, ::100], truth[: rows + 1]
        way = jnp.maximum(jnp.max(jnp.abs(truth - truth[0]), axis=0), 1e-4)  # some coordinates rest
        assert jnp.max(jnp.abs(q - truth) / way) < 1e-3, f"{self} differs from jaxns before the first impact"


def mujoco_row(peer: Peer, batch: bool, repeats: int) -> dict[str, Any]:
    model, steps = peer.model(), round(CASES[peer.name].problem.t1 / peer.dt)
    q, u, one = peer.roll(model, [1.0], steps, repeats=repeats)
    other_q, other_u, _ = peer.roll(peer.model(conservative=True), [1.0], steps)
    row = {"one": one} | accuracy(peer.name, peer.dt, (q[0], u[0]), (other_q[0], other_u[0]))
    if peer.name == "ball":
        h = 10.0 ** -np.arange(1, 7)
        above, below = (peer.roll(model, s, round(T_BOUNCE / peer.dt))[0][:, -1, 1] for s in (1.0 + h, 1.0 - h))
        row["derivative"] = min(derivative_error(slope) for slope in (above - below) / (2.0 * h))
    if batch:
        row["batch"] = peer.roll(model, np.linspace(0.9, 1.1, LANES), steps, CORES, repeats)[2]
    return row


def mjx_task(peer: Peer, batch: bool, repeats: int) -> dict[str, Any]:
    """Runs in a process of its own."""
    from mujoco import mjx

    steps, bounce = (round(t / peer.dt) for t in (CASES[peer.name].problem.t1, T_BOUNCE))

    def run(model: Any, s: Any, steps: int = steps) -> Any:
        start = mjx.make_data(model).replace(**dict(zip(("qpos", "qvel"), peer.start(s), strict=True)))
        return jax.lax.scan(lambda d, _: (mjx.step(model, d), (d.qpos, d.qvel)), start, length=steps + 1)[1]

    model, other = mjx.put_model(peer.model()), mjx.put_model(peer.model(conservative=True))
    if batch:
        batched, lanes = jax.jit(jax.vmap(lambda s: run(model, s)[0][-1])), jnp.linspace(0.9, 1.1, MJX_LANES)
        return {"batch": microseconds(lambda: batched(lanes), repeats) / steps / MJX_LANES}
    one = jax.jit(run)
    row = accuracy(peer.name, peer.dt, peer.rows(*one(model, 1.0)), peer.rows(*one(other, 1.0)))
    if peer.name == "ball":
        slope = jax.jit(lambda s: jax.jvp(lambda s: run(model, s, bounce)[0][-1, 1], (s,), (1.0,))[1])
        row["derivative"] = derivative_error(slope(1.0))
    return row | {"one": microseconds(lambda: one(model, 1.0), repeats) / steps}


def mjx_row(peer: Peer, batch: bool, repeats: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    environment = os.environ | {"XLA_FLAGS": os.environ["XLA_FLAGS"] + " --xla_cpu_multi_thread_eigen=false"}
    for column in ["one", "batch"][: 1 + batch]:
        order = [sys.executable, __file__, "--mjx", json.dumps([asdict(peer), column == "batch", repeats])]
        try:
            done = subprocess.run(order, capture_output=True, text=True, timeout=MJX_LIMIT, env=environment, check=True)
            row |= json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            row |= {column: "hung", "status": f"{column}: nothing after {MJX_LIMIT:.0f} s"}
        except subprocess.CalledProcessError as error:
            row |= {column: "failed", "status": f"{column}: {error.stderr.strip().splitlines()[-1]}"}
    return row


def all_rows(quick: bool, has_mjx: bool) -> Iterator[tuple[str, str, float, dict[str, Any]]]:
    repeats = 1 if quick else 3
    for name, case in CASES.items():
        dt = case.problem.dt
        steps = (dt,) if quick else (dt, dt / 10)
        for integrator in INTEGRATORS:
            adaptive = isinstance(integrator, ns.EventDriven)
            for h in steps[:1] if adaptive else steps:
                row, q = jaxns_row(name, integrator, h, h == dt and not adaptive, repeats)
                yield name, f"jaxns {type(integrator).__name__}", h, row
        variants = [(x, "Euler", h) for x in case.layouts for h in steps] + [(case.layouts[0], "RK4", dt)]
        for layout, integrator, h in variants if mujoco else []:
            peer = Peer(name, layout, integrator, h).tuned()
            if h == dt:
                peer.check(q)  # of EventDriven, the last
            yield name, f"MuJoCo C{layout}, {integrator}", h, mujoco_row(peer, h == dt, repeats)
            if has_mjx and layout == case.layouts[0] and integrator == "Euler":
                yield name, f"MJX{layout}, {integrator}", h, mjx_row(peer, h == dt, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the step of the problem, fewer repeats")
    parser.add_argument("--mjx", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mjx:
        peer, batch, repeats = json.loads(options.mjx)
        print(json.dumps(mjx_task(Peer(**peer), batch, repeats)))
        return
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    installed = {package.name: package.version for package in distributions()}
    record: dict[str, Any] = {"commit": commit, "machine": platform.processor() or platform.machine(), "cores": CORES}
    record |= {package: installed.get(package, "not installed") for package in ("jax", "mujoco", "mujoco-mjx")}
    print(", ".join(f"{key} {value}" for key, value in record.items()))
    columns = "".join(f"{column:>11s} | " for column in FORMATS)
    print(f"| {'problem':12s} | {'method':24s} | dt    | {columns}status |\n" + "|---" * (len(FORMATS) + 4) + "|")
    for name, method, dt, row in all_rows(options.quick, "mujoco-mjx" in installed):
        finite = all(np.isfinite(value) for value in row.values() if not isinstance(value, str))
        row = {"problem": name, "method": method, "dt": dt, "status": "ok" if finite else "not finite"} | row
        cells = (x if isinstance(x := row.get(c, "–"), str) else format(x, form) for c, form in FORMATS.items())
        text = "".join(f"{cell:>11s} | " for cell in cells)
        print(f"| {name:12s} | {method:24s} | {dt:.0e} | {text}{row['status']} |", flush=True)
        record.setdefault("rows", []).append(row)
    if not options.quick:
        (Path(__file__).parent / "results" / "peers.json").write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
