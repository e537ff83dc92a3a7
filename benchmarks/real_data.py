"""Measured drops of a square, a cube and an elbow: fitted on half of the records, predicted on the others.

    python benchmarks/real_data.py [square] [cube] [elbow] [wall] [--data FOLDER] [--records N] [--iterations K]

From the first five rows of a record the start, by free flight; from the start rows 5 to 40, and the end of the record.
Median errors on records that were left out, beside constant velocity, default coefficients (e = 0, μ = 0.3), and MuJoCo
identified on the same split (if it is installed). Where the folder does not hold the files (where they are published:
measured_bodies.py), small synthetic records of the same shape take their place.

`wall`: 100 drops of the square in a fresh process with nothing compiled, from its start to fitted parameters with standard
errors; wall and processor time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from measuring import report  # first: it sets up XLA

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns
from measured_bodies import EXPERIMENTS, KNOWN, ROWS, errors, poses_of, predictor, read, residual, starts

FILES = {"square": "square_drops.npz", "cube": "cube_tosses.npz", "elbow": "elbow_tosses.npz"}
DEFAULTS = {"e_N": 0.0, "e_F": 0.0, "mu": 0.3}


def measured(name: str, folder: Path, count: int | None) -> np.ndarray:
    """Poses (N, rows, nq) from the folder, or synthetic ones."""
    path = folder / FILES[name]
    if path.exists():
        records = read(path)
        return poses_of(name, [r for r in records if len(r) >= ROWS][:count])
    print(f"{path} is missing: synthetic records")
    rng, e = np.random.default_rng(0), EXPERIMENTS[name]
    n = 12
    q, u = np.zeros((n, 3)), rng.standard_normal((n, 3)) * [0.3, 0.1, 4.0] + [0.5, -1.8, 0.0]
    if name != "square":
        q = np.tile([0.0, 0.0, 0.2, 1.0, 0.0, 0.0, 0.0] + [0.0] * (name == "elbow"), (n, 1))
        u = rng.standard_normal((n, 6 + (name == "elbow"))) * 1.5
    else:
        q[:, 1], q[:, 2] = 0.12, rng.uniform(-3.0, 3.0, n)
    record = {"q0": jnp.asarray(q), "u0": jnp.asarray(u)}
    poses = jax.vmap(lambda r: predictor(name, ROWS)(e.guess, {}, r)["poses"])(record)
    return np.asarray(poses) + 1e-4 * rng.standard_normal(poses.shape)


def medians(name: str, predicted: np.ndarray, truth: np.ndarray) -> tuple[float, float, float, float]:
    """Position and angle along rows 5 to 40, and in the last row."""
    mm, degrees = errors(name, predicted[:, :ROWS], truth[:, :ROWS])
    last = np.array([np.flatnonzero(np.isfinite(rows[:, 0]))[-1] for rows in truth])
    ends = errors(name, *(x[np.arange(len(x)), last] for x in (predicted, truth)))
    return tuple(float(np.nanmedian(x)) for x in (mm[:, KNOWN:], degrees[:, KNOWN:], *ends))  # type: ignore[return-value]


def constant_velocity(name: str, q: np.ndarray, u: np.ndarray, rows: int) -> np.ndarray:
    t = np.arange(rows)[None, :, None] / EXPERIMENTS[name].rate
    if name == "square":
        return q[:, None] + t * u[:, None]
    from scipy.spatial.transform import Rotation

    out = np.repeat(q[:, None], rows, axis=1)
    out[..., :3] += t * u[:, None, :3]
    for i in range(len(q)):
        turned = Rotation.from_quat(np.roll(q[i, 3:7], -1)) * Rotation.from_rotvec(t[0] * u[i, 3:6])
        out[i, :, 3:7] = np.roll(turned.as_quat(), 1, axis=1)
    return out


def drawn(name: str, records: dict[str, np.ndarray], count: int = 128) -> dict[str, float]:
    """The best of some random guesses, by the loss of some records: that of the elbow has many minima."""
    e, rng = EXPERIMENTS[name], np.random.default_rng(0)
    some = {k: jnp.asarray(v[:64]) for k, v in records.items()}
    draws = [e.guess | {k: float(rng.uniform(*ends)) for k, ends in e.wide.items()} for _ in range(count)]

    @jax.jit
    def loss(shared: Any) -> Any:
        poses = jax.vmap(lambda r: predictor(name, ROWS)(shared, {}, r)["poses"])(some)
        r = jax.vmap(e.residual)(poses, some["poses"])[:, KNOWN:] / e.scale
        return jnp.nanmean(jnp.log1p(r**2))

    losses = [float(loss({k: jnp.asarray(v) for k, v in draw.items()})) for draw in [e.guess, *draws]]
    return [e.guess, *draws][int(np.nanargmin(losses))]


def fitted(name: str, poses: np.ndarray, left_out: np.ndarray, num_iters: int) -> ns.RecordsFit:
    """Shared parameters from the first rows of the records that are not left out."""
    e = EXPERIMENTS[name]
    q0, u0 = starts(name, poses)
    records = {"poses": poses[:, :ROWS], "q0": q0, "u0": u0}
    weights = np.tile(1.0 / e.scale**2, (ROWS, 1))
    weights[:KNOWN] = 0.0
    guess = drawn(name, {k: v[~left_out] for k, v in records.items()}) if e.wide else e.guess
    fit = ns.identify_records(
        predictor(name, ROWS), records, shared=guess, bounds=e.bounds, loss="cauchy", weights={"poses": weights},
        residual=residual(name), test=left_out if left_out.any() else None, derivatives="differences", step=e.step,
        num_iters=num_iters, tol=1e-4, progress=True,
    )  # fmt: skip
    print(f"{name}:\n   " + str(fit).replace("\n", "\n   "), flush=True)
    return fit


def run(name: str, folder: Path, count: int | None, num_iters: int) -> dict[str, float]:
    poses = measured(name, folder, count)
    q0, u0 = starts(name, poses)
    left_out = np.arange(len(poses)) % 2 == 1
    begin = time.perf_counter(), time.process_time()
    fit = fitted(name, poses, left_out, num_iters)
    results = {
        f"{name}: records fitted": float((~left_out).sum()),
        f"{name}: s, compilation included": time.perf_counter() - begin[0],
        f"{name}: processor s": time.process_time() - begin[1],
    }
    rest = np.flatnonzero(left_out)
    long = predictor(name, poses.shape[1])

    @jax.jit
    def predict(shared: Any) -> Any:
        lanes = {"q0": jnp.asarray(q0[rest]), "u0": jnp.asarray(u0[rest])}
        return jax.vmap(lambda r: long(shared, {}, r)["poses"])(lanes)

    rows = {
        "fitted": np.asarray(predict(fit.shared)),
        "e = 0, mu = 0.3": np.asarray(predict(fit.shared | {k: jnp.asarray(v) for k, v in DEFAULTS.items()})),
        "constant velocity": constant_velocity(name, q0[rest], u0[rest], poses.shape[1]),
    }
    if importlib.util.find_spec("mujoco"):
        import mujoco_bodies

        peer = mujoco_bodies.identify(name, poses[~left_out, :ROWS], q0[~left_out], u0[~left_out])
        print(f"MuJoCo, {peer.seconds:.0f} s:", {k: float(f"{v:.4g}") for k, v in peer.params.items()})
        rows["MuJoCo, fitted"] = mujoco_bodies.predict(name, peer.params, q0[rest], u0[rest], poses.shape[1])
    print(f"{name}: medians on {len(rest)} records left out: mm, degrees in rows 5 to 40; mm, degrees at the end")
    for label, predicted in rows.items():
        found = medians(name, predicted, poses[rest])
        print(f"    {label:18s} " + " ".join(f"{x:8.2f}" for x in found), flush=True)
        results |= {
            f"{name}, {label}: {what}": x
            for what, x in zip(("mm", "deg", "mm at the end", "deg at the end"), found, strict=True)
        }
    results |= {f"{name}: {n}": float(v) for n, v in zip(fit.names, fit.values, strict=True)}
    return results


def wall(folder: Path) -> dict[str, float]:
    """Seconds for 100 drops of the square in a process of their own."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    subprocess.run([sys.executable, __file__, "hundred", "--data", str(folder)], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"100 drops: wall s": time.perf_counter() - begin, "100 drops: processor s": cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[], help="square, cube, elbow, wall; all by default")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--records", type=int, default=None, help="the first N records alone")
    parser.add_argument("--iterations", type=int, default=25, help="at most")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ns.FitWarning)  # the report holds the doubts
    results: dict[str, Any] = {}
    if options.names == ["hundred"]:  # the child of `wall`
        fitted("square", measured("square", options.data, 100), np.zeros(100, bool), options.iterations)
        return
    for name in options.names or [*EXPERIMENTS, "wall"]:
        if name == "wall":
            results |= wall(options.data)
        else:
            results |= run(name, options.data, options.records, options.iterations)
    report("real_data", results, update=bool(options.names))


if __name__ == "__main__":
    main()
